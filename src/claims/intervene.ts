/**
 * Interventions on a reasoning: one aspect of the policy's own reasoning is edited, and the policy then generates the answer. If the answer
 * follows the edit, it rests on the reasoning (Lanham et al. 2023, "Measuring faithfulness in chain-of-thought reasoning", edit free text
 * likewise). Pure functions of reasonings and answers.
 */
import { isRuled, ruled, SCAN } from '../expcot/nano.ts';
import type { Choice } from '../ground/choice.ts';
import { getOrMake } from '../ground/maps.ts';
import type { Random } from '../ground/random.ts';
import type { Counterfactual, Interval, OpenNumber, ParsedAnswer } from '../ground/types.ts';
import { claimsOf, statesDeparture } from './read.ts';
import { concludedIntervals } from './reasoning.ts';

export const INTERVENTIONS = {
  moved: {
    label: 'moved scan',
    summary: 'the scan, or the stated intervals, are moved along the series; everything else is unchanged',
  },
  corrupted: {
    label: 'corrupted kind',
    summary:
      "the stated anomaly types, or the class named, are replaced by another class's; the scan is unchanged",
  },
  same_class: {
    label: 'other series, same class',
    summary: 'the reasoning about another series with the same answered class',
  },
  other_class: {
    label: 'other series, other class',
    summary: 'the reasoning about another series with another answered class',
  },
  none: {
    label: 'no reasoning',
    summary: 'the reasoning is empty',
  },
} as const satisfies Readonly<Record<string, Choice>>;

export type InterventionName = keyof typeof INTERVENTIONS;
export const INTERVENTION_NAMES = Object.keys(INTERVENTIONS) as InterventionName[];

/** A policy's own response: its reasoning and what it answered. */
export interface OwnAnswer {
  readonly think: string;
  readonly answer: Pick<ParsedAnswer, 'class' | 'intervals'>;
  /** Samples of the series. */
  readonly length: number;
  readonly names: readonly string[];
}

/** A changed reasoning, and what an answer that follows it says. */
export interface Intervention {
  readonly think: string;
  /**
   * Classes of an answer that follows the edit: those answered wherever the same anomaly types are stated; null if the edit does not change
   * the class.
   */
  readonly classes: readonly string[] | null;
  /** True if following the edit changes the intervals. */
  readonly moves: boolean;
}

/** Chooses the signed shift of events in [first, last) of `length`; 0 where there is no room for one. `least`: distance that counts as elsewhere. */
type Shift = (first: number, last: number, length: number, least: number) => number;

/** Shifts toward the side with more room, by half of it or `least`. */
const shiftWithin: Shift = (first, last, length, least) => {
  const [before, behind] = [first, length - last];
  const room = Math.max(before, behind);
  if (room < least) return 0;
  const shift = Math.max(least, Math.ceil(room / 2));
  return behind >= before ? shift : -shift;
};

/** Draws one of the shifts by at least `least` / 2 for which there is room, each as likely: a scan is often wrong by a single cell. */
const drawnShift =
  (random: Random): Shift =>
  (first, last, length, least) => {
    const from = Math.ceil(least / 2);
    const before = Math.max(0, first - from + 1);
    const behind = Math.max(0, length - last - from + 1);
    if (before + behind === 0) return 0;
    const drawn = random.integer(0, before + behind - 1);
    return drawn < before ? -from - drawn : from + drawn - before;
  };

/**
 * Moves the scan of a reasoning, or without one the intervals that it states; null where nothing can be moved. `by`: the shift in samples.
 */
function movedThink(
  { think, names, length }: Pick<OwnAnswer, 'think' | 'names' | 'length'>,
  shiftOf: Shift = shiftWithin,
): { readonly think: string; readonly by: number } | null {
  const match = SCAN.exec(think);
  if (match !== null) {
    const drawn = match[1]!;
    const symbols = drawn.replace(/\d/g, '.');
    const events = [...symbols].flatMap((symbol, k) => ('()#ox'.includes(symbol) ? [k] : []));
    if (events.length === 0) return null;
    const [first, last] = [events[0]!, events.at(-1)! + 1];
    const shift = shiftOf(first, last, symbols.length, 2);
    if (shift === 0) return null;
    const moved = ('.'.repeat(first + shift) + symbols.slice(first, last)).padEnd(symbols.length, '.');
    const at = match.index + match[0].length - symbols.length;
    const scan = isRuled(drawn) ? ruled(moved) : moved;
    return {
      think: think.slice(0, at) + scan + think.slice(at + symbols.length),
      by: Math.round((shift * length) / symbols.length),
    };
  }
  const named = claimsOf(think, names).claims.filter(
    ({ quantity, negated, numbers }) => quantity === 'anomaly' && !negated && numbers.length === 2,
  );
  if (named.length === 0) return null;
  const ends = named.flatMap(({ numbers }) => numbers.map(({ value }) => value));
  const shift = shiftOf(Math.min(...ends), Math.max(...ends), length, Math.ceil(length / 10));
  if (shift === 0) return null;
  const places = new Map(
    named.flatMap(({ numbers }) => numbers.map(({ span, value }) => [span[0], { span, value }] as const)),
  );
  let out = think;
  for (const { span, value } of [...places.values()].sort((a, b) => b.span[0] - a.span[0])) {
    out = out.slice(0, span[0]) + String(value + shift) + out.slice(span[1]);
  }
  return { think: out, by: shift };
}

const PAIR = /\[\s*(\d{1,9})\s*,\s*(\d{1,9})\s*\]/g;

/**
 * Finds the ends of answered intervals, with the numbers that lie in the same cell of a scan. An interval stays between its neighbours, and
 * its end behind its start.
 */
function openEnds(answered: string, from: number, length: number, cells: number): OpenNumber[] {
  const pairs = [...answered.matchAll(PAIR)];
  const starts = pairs.map((pair) => Number(pair[1]));
  const stops = pairs.map((pair) => Number(pair[2]));
  return pairs.flatMap((match): OpenNumber[] => {
    const [whole, first, last] = match as unknown as [string, string, string];
    const [start, end] = [Number(first), Number(last)];
    const before = Math.max(-1, ...stops.filter((stop) => stop <= start));
    const behind = Math.min(Infinity, ...starts.filter((other) => other >= end));
    const at = from + match.index;
    const [startAt, endAt] = [at + whole.indexOf(first), at + whole.lastIndexOf(last)];
    // Multiplied first, as `scan` does: the width of a cell may be no exact float.
    const opens = Math.floor((start * cells) / length);
    const closes = Math.ceil((end * cells) / length) - 1;
    const bound = (cell: number): number => (cell * length) / cells;
    const least = Math.max(Math.ceil(bound(opens)), before + 1);
    const latest = Math.min(Math.ceil(bound(opens + 1)) - 1, behind - 2);
    const most = Math.min(Math.floor(bound(closes + 1)), behind - 1);
    return [
      {
        span: [startAt, startAt + first.length],
        within: [Math.min(start, least), Math.max(start, latest)],
      },
      {
        span: [endAt, endAt + last.length],
        within: [Math.max(start, Math.floor(bound(closes))) + 1, Math.max(end, most)],
      },
    ];
  });
}

/**
 * Moves the places that a well-formed response marks: those in its scan, or without one those that it states, and its intervals, all by one
 * random shift. Of the digits in a scan only a ruler stays. Returns null where nothing can be moved inside the series, or the answer is not what
 * the reasoning concludes.
 * @param reasoning range of the reasoning in `text`
 * @param answer range of the answer, behind it
 */
export function counterfactual(
  text: string,
  reasoning: readonly [start: number, end: number],
  answer: readonly [start: number, end: number],
  { names, length }: Pick<OwnAnswer, 'names' | 'length'>,
  random: Random,
): Counterfactual | null {
  const think = text.slice(...reasoning);
  const moved = movedThink({ think, names, length }, drawnShift(random));
  if (moved === null) return null;
  const answered = text.slice(...answer);
  const concludes = (stated: string, given: string): boolean => {
    const intervals = [...given.matchAll(PAIR)].map(
      ([, start, end]): Interval => [Number(start), Number(end)],
    );
    const areInside = intervals.every(([, end]) => end <= length);
    return intervals.length > 0 && areInside && concludedIntervals(stated, names, intervals, length) === true;
  };
  const shifted = answered.replace(PAIR, (pair) =>
    pair.replace(/\d+/g, (place) => String(Number(place) + moved.by)),
  );
  if (!concludes(think, answered) || !concludes(moved.think, shifted)) return null;
  const before = text.slice(0, reasoning[0]) + moved.think + text.slice(reasoning[1], answer[0]);
  const symbols = SCAN.exec(moved.think)?.[1];
  return {
    text: before + shifted + text.slice(answer[1]),
    answer: [before.length, before.length + shifted.length],
    open: symbols === undefined ? [] : openEnds(shifted, before.length, length, symbols.length),
  };
}

/** Character spans of the short statements that say how intervals depart. */
const departuresIn = ({ think, names }: OwnAnswer): Places =>
  claimsOf(think, names)
    .claims.filter(statesDeparture)
    .map(({ span }) => span);

type Places = readonly (readonly [start: number, end: number])[];

/** Replaces the stated kinds of departure by those of `donor`, or the class named by the donor's; null where neither is stated. */
function corruptedThink(own: OwnAnswer, places: Places, donor: OwnAnswer, others: Places): string | null {
  if (places.length > 0) {
    if (others.length === 0) return null;
    let out = own.think;
    for (const [k, [start, end]] of [...places.entries()].reverse()) {
      const [from, to] = others[k % others.length]!;
      out = out.slice(0, start) + donor.think.slice(from, to) + out.slice(end);
    }
    return out;
  }
  const [from, to] = [own.answer.class, donor.answer.class];
  if (from === null || to === null) return null;
  const literal = from.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const name = new RegExp(`(?<![\\p{L}\\p{N}_])${literal}(?![\\p{L}\\p{N}_])`, 'giu');
  const out = own.think.replace(name, () => to);
  return out === own.think ? null : out;
}

/** Anomaly types that a reasoning states, without their sizes: "spike", "shift up"; empty where it states none. */
const typesOf = ({ think }: OwnAnswer, places: Places): string =>
  [
    ...new Set(
      places.map((span) =>
        think
          .slice(...span)
          .replace(/[\d;]+|\bsd\b/g, '')
          .trim(),
      ),
    ),
  ]
    .sort()
    .join(', ');

/** True where the reasoning concludes other intervals than the own answer. */
function moves(own: OwnAnswer, think: string): boolean {
  const { intervals } = own.answer;
  return intervals !== null && concludedIntervals(think, own.names, intervals, own.length) === false;
}

/** True where the answer has the intervals that the reasoning concludes. */
export function followsIntervals(
  { think }: Intervention,
  answered: readonly Interval[] | null,
  { names, length }: Pick<OwnAnswer, 'names' | 'length'>,
): boolean {
  return answered !== null && concludedIntervals(think, names, answered, length) === true;
}

/**
 * Edits each reasoning; null where it cannot be edited so: nothing to move, nothing stated, no other series. The donor is the next eligible
 * series, wrapping around.
 */
export function intervene(
  name: InterventionName,
  answers: readonly OwnAnswer[],
): readonly (Intervention | null)[] {
  if (name === 'none') return answers.map(() => ({ think: '', classes: null, moves: false }));
  if (name === 'moved') {
    return answers.map((own) => {
      const think = movedThink(own)?.think ?? null;
      return think === null || !moves(own, think) ? null : { think, classes: null, moves: true };
    });
  }
  const departures = answers.map(departuresIn);
  const types = answers.map((own, i) => typesOf(own, departures[i]!));
  /** Classes answered beside each set of stated types: one type may fit several classes. */
  const classesBy = new Map<string, Set<string>>();
  answers.forEach(({ answer }, i) => {
    if (answer.class === null) return;
    getOrMake(classesBy, types[i]!, () => new Set<string>()).add(answer.class);
  });
  return answers.map((own, i) => {
    if (own.answer.class === null) return null;
    for (let k = 1; k < answers.length; k++) {
      const d = (i + k) % answers.length;
      const donor = answers[d]!;
      if (donor.answer.class === null || donor.length !== own.length) continue;
      const same = donor.answer.class === own.answer.class;
      if (same !== (name === 'same_class')) continue;
      // Without stated types the class named is the donor's own.
      const classes = types[d] === '' ? [donor.answer.class] : [...classesBy.get(types[d]!)!];
      if (!same && classes.includes(own.answer.class)) continue;
      if (name !== 'corrupted') {
        const moved = moves(own, donor.think);
        if (same && !moved) continue;
        return { think: donor.think, classes: same ? null : classes, moves: moved };
      }
      const think = corruptedThink(own, departures[i]!, donor, departures[d]!);
      if (think === null) continue;
      if (types[d] === '') return { think, classes, moves: false };
      // With fewer places than the donor states types, some of these are left out.
      const edited = { ...own, think };
      const implied = classesBy.get(typesOf(edited, departuresIn(edited)));
      if (implied === undefined || implied.has(own.answer.class)) continue;
      return { think, classes: [...implied], moves: false };
    }
    return null;
  });
}
