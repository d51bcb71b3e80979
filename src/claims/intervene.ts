/**
 * Interventions on a reasoning: the policy's own text, changed in one respect, from which it continues. Whether the answer follows shows
 * whether it rests on the reasoning (Lanham et al. 2023, "Measuring faithfulness in chain-of-thought reasoning", intervene likewise on
 * free text). Pure functions of reasonings and answers.
 */
import { isRuled, NANO_DEPARTURES, NANO_PHRASES, ruled, SCAN } from '../expcot/nano.ts';
import type { Choice } from '../ground/choice.ts';
import type { Interval, ParsedAnswer } from '../ground/types.ts';
import { claimsOf } from './read.ts';
import { concludedIntervals } from './reasoning.ts';

/** Parts of an answer that an intervention changes the reasoning about. */
export type AnswerPart = 'class' | 'intervals';

export const INTERVENTIONS = {
  moved: {
    label: 'moved scan',
    summary: 'the scan, or the stated intervals, are moved along the series; departures and facts stay',
    parts: ['intervals'],
  },
  corrupted: {
    label: 'corrupted kind',
    summary: 'the stated kind of departure, or the class named, is that of another class; the scan stays',
    parts: ['class'],
  },
  same_class: {
    label: 'other series, same class',
    summary: 'the reasoning about another series with the same answered class',
    parts: ['intervals'],
  },
  other_class: {
    label: 'other series, other class',
    summary: 'the reasoning about another series with another answered class',
    parts: ['class', 'intervals'],
  },
  none: {
    label: 'no reasoning',
    summary: 'the reasoning is empty',
    parts: [],
  },
} as const satisfies Readonly<Record<string, Choice & { readonly parts: readonly AnswerPart[] }>>;

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
  /** Class of an answer that follows; null where the change says nothing about it, or the own answer has that class. */
  readonly class: string | null;
  /** True where an answer that follows has other intervals than the own one. */
  readonly moves: boolean;
}

/** Number of steps by which events between `first` and `last` (exclusive) of `length` can be moved, along the wider side; 0 below `least`. */
function shiftWithin(first: number, last: number, length: number, least: number): number {
  const [before, behind] = [first, length - last];
  const room = Math.max(before, behind);
  if (room < least) return 0;
  const shift = Math.max(least, Math.ceil(room / 2));
  return behind >= before ? shift : -shift;
}

/** Moves the scan of a reasoning, or without one the intervals that it states; null where nothing can be moved. */
function movedThink({ think, names, length }: OwnAnswer): string | null {
  const match = SCAN.exec(think);
  if (match !== null) {
    const drawn = match[1]!;
    const symbols = drawn.replace(/\d/g, '.');
    const events = [...symbols].flatMap((symbol, k) => ('()#ox'.includes(symbol) ? [k] : []));
    if (events.length === 0) return null;
    const [first, last] = [events[0]!, events.at(-1)! + 1];
    const shift = shiftWithin(first, last, symbols.length, 2);
    if (shift === 0) return null;
    const moved = ('.'.repeat(first + shift) + symbols.slice(first, last)).padEnd(symbols.length, '.');
    const at = match.index + match[0].length - symbols.length;
    return think.slice(0, at) + (isRuled(drawn) ? ruled(moved) : moved) + think.slice(at + symbols.length);
  }
  const named = claimsOf(think, names).claims.filter(
    ({ quantity, negated, numbers }) => quantity === 'anomaly' && !negated && numbers.length === 2,
  );
  if (named.length === 0) return null;
  const ends = named.flatMap(({ numbers }) => numbers.map(({ value }) => value));
  const shift = shiftWithin(Math.min(...ends), Math.max(...ends), length, Math.ceil(length / 10));
  if (shift === 0) return null;
  const places = new Map(
    named.flatMap(({ numbers }) => numbers.map(({ span, value }) => [span[0], { span, value }] as const)),
  );
  let out = think;
  for (const { span, value } of [...places.values()].sort((a, b) => b.span[0] - a.span[0])) {
    out = out.slice(0, span[0]) + String(value + shift) + out.slice(span[1]);
  }
  return out;
}

const DEPARTURES = new Set<object>([...Object.values(NANO_DEPARTURES), NANO_PHRASES.departure]);

/** Places of the short statements of a reasoning that say how intervals depart. */
const departuresIn = ({ think, names }: OwnAnswer): Places =>
  claimsOf(think, names)
    .claims.filter(({ statement }) => statement !== undefined && DEPARTURES.has(statement.phrase))
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

/** The reasoning of `donor` in place of the own one. */
function replaced(own: OwnAnswer, donor: OwnAnswer): Intervention {
  const differs = donor.answer.class !== own.answer.class;
  return { think: donor.think, class: differs ? donor.answer.class : null, moves: moves(own, donor.think) };
}

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
 * Changes each reasoning in one respect; null where it cannot be changed so: nothing to move, nothing stated, no other series.
 * The donor of a series is the next one, in a circle, that has what the intervention needs.
 */
export function intervene(
  name: InterventionName,
  answers: readonly OwnAnswer[],
): readonly (Intervention | null)[] {
  const departures = name === 'corrupted' ? answers.map(departuresIn) : [];
  return answers.map((own, i) => {
    if (name === 'none') return { think: '', class: null, moves: false };
    if (name === 'moved') {
      const think = movedThink(own);
      return think === null || !moves(own, think) ? null : { think, class: null, moves: true };
    }
    for (let k = 1; k < answers.length; k++) {
      const donor = answers[(i + k) % answers.length]!;
      if (donor.answer.class === null || own.answer.class === null) continue;
      const same = donor.answer.class === own.answer.class;
      if (same !== (name === 'same_class') || donor.length !== own.length) continue;
      if (name !== 'corrupted') {
        const intervention = replaced(own, donor);
        if (intervention.class !== null || intervention.moves) return intervention;
        continue;
      }
      const think = corruptedThink(own, departures[i]!, donor, departures[(i + k) % answers.length]!);
      if (think !== null) return { think, class: donor.answer.class, moves: false };
    }
    return null;
  });
}
