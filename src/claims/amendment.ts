/**
 * Statements of an expert trace in the short style that a reasoning lacks. A short trace is a list of a scan and statements; for each mark of the
 * scan one statement says how the series departs there. A reasoning that leaves a statement out claims nothing false, so no verdict can teach
 * it; the trace can.
 */
import { NANO_DEPARTURES, NANO_FACTS, NANO_PHRASES } from '../expcot/nano.ts';
import type { Interval } from '../ground/types.ts';
import { type Claim, statesDeparture } from './read.ts';

/** Replacement of characters in a reasoning by a statement of the trace. */
export interface Amendment {
  readonly fact: string;
  /** Characters that are replaced; empty for an insertion. */
  readonly span: Span;
  /** Statement with the separator before it. */
  readonly text: string;
}
type Span = readonly [start: number, end: number];

/** Claim with the names of what it states: `fact` without contents, `key` with them. */
export interface NamedClaim {
  readonly claim: Claim;
  readonly fact: string;
  readonly key: string;
  /** True where the series confirms it. */
  readonly holds: boolean;
}

/** Contents of a stated departure: `key` with its numbers, `words` without them. */
interface Departure {
  readonly key: string;
  readonly words: string;
}

/** Statement of a trace; `text`: null where it is not confirmed, or opens the list. */
interface Statement extends Departure {
  readonly fact: string;
  readonly topic: string;
  readonly departs: boolean;
  readonly text: string | null;
}

const SEPARATOR = '; ';
const PHRASES = new Set<object>(
  [NANO_FACTS, NANO_DEPARTURES, NANO_PHRASES].flatMap((list) => Object.values(list)),
);
/** Maximum number of departures that are paired with marks; traces state fewer. */
const MOST_PAIRED = 8;

/** Returns what a statement is about: a cycle is stated in steps or in samples. */
const topicOf = ({ claim, fact }: NamedClaim): string =>
  claim.quantity === 'period' || claim.quantity === 'cycle' ? 'cycle' : fact;

/** Finds the characters of a statement with the separator before it; null for a statement without a separator. */
function itemSpan(text: string, [start, end]: Span): Span | null {
  const from = text.startsWith(SEPARATOR, start) ? start : start - SEPARATOR.length;
  return from >= 0 && text.startsWith(SEPARATOR, from) ? [from, end] : null;
}

/** Returns a stated departure without its numbers. */
const wordsOf = (text: string, { span }: Claim): string => text.slice(...span).replace(/\d+/g, '');

/** Lists the marks of a scan in order, each from its first cell to the one behind its last; empty for a scan with an x or unpaired brackets. */
export function marksOf(symbols: string): Interval[] {
  const marks = [...symbols.matchAll(/o|\(#*\)/g)];
  const paired = marks.reduce((sum, [mark]) => sum + mark.length, 0);
  const events = [...symbols].filter((symbol) => '()#ox'.includes(symbol)).length;
  return paired < events ? [] : marks.map(({ index, 0: mark }) => [index, index + mark.length]);
}

/** Returns the index of the interval that a stretch overlaps at least twice as much as any other; −1 if there is none. */
function marked([from, to]: Interval, intervals: readonly Interval[]): number {
  const overlaps = intervals.map(([start, end]) => Math.min(end, to) - Math.max(start, from));
  const most = Math.max(0, ...overlaps);
  return most > 0 && overlaps.filter((overlap) => 2 * overlap > most).length === 1
    ? overlaps.indexOf(most)
    : -1;
}

/** Rates how well a stated departure fits a place: the same statement, the same but for its numbers, or another. */
const fitOf = (stated: Departure, expected: Departure | undefined): number =>
  expected?.key === stated.key ? 3 : expected?.words === stated.words ? 2 : 0;

/** Chooses ascending places in `expected` for the departures in `stated`, which are no more, so that together they fit best. */
function placesOf(
  stated: readonly Departure[],
  expected: readonly (Departure | undefined)[],
  from = 0,
): { readonly places: readonly number[]; readonly fit: number } {
  const [first, ...rest] = stated;
  if (first === undefined) return { places: [], fit: 0 };
  let best = { places: [] as readonly number[], fit: -1 };
  for (let place = from; place + rest.length < expected.length; place++) {
    const behind = placesOf(rest, expected, place + 1);
    const fit = behind.fit + fitOf(first, expected[place]);
    if (fit > best.fit) best = { places: [place, ...behind.places], fit };
  }
  return best;
}

/** Compares reasonings with one trace. */
export class Amender {
  readonly #statements: readonly Statement[];
  readonly #intervals: readonly Interval[];
  readonly #length: number;

  /**
   * @param trace text between the think tags; compared only if in the short style
   * @param claims claims of the trace
   * @param intervals annotated intervals, in the order of the trace's departures
   * @param length samples of the series
   */
  constructor(trace: string, claims: readonly NamedClaim[], intervals: readonly Interval[], length: number) {
    const isShort = claims.some(({ claim }) => claim.scan !== undefined);
    this.#statements = !isShort
      ? []
      : claims
          .toSorted((a, b) => a.claim.span[0] - b.claim.span[0])
          .map((named): Statement => {
            const { claim, fact, key, holds } = named;
            const span =
              PHRASES.has(claim.statement?.phrase ?? {}) && holds ? itemSpan(trace, claim.span) : null;
            const text = span && trace.slice(...span);
            const words = wordsOf(trace, claim);
            return { fact, key, words, topic: topicOf(named), departs: statesDeparture(claim), text };
          });
    this.#intervals = intervals;
    this.#length = length;
  }

  /**
   * Lists the amendments of a reasoning. Departures belong to the marks of its own scan; another fact is put behind the statement that precedes
   * it in the trace, and left out where the reasoning has none before it. Empty for a reasoning without a scan.
   */
  amend(think: string, claims: readonly NamedClaim[]): Amendment[] {
    const drawn = claims.find(({ claim }) => claim.scan !== undefined);
    if (drawn === undefined || this.#statements.length === 0) return [];
    const departures = claims.filter(({ claim }) => statesDeparture(claim));
    const out = this.#departures(think, drawn.claim, departures);
    const ends = new Map(claims.map((named) => [topicOf(named), named.claim.span[1]]));
    let behind = -1;
    for (const { fact, topic, text, departs } of this.#statements) {
      const end = departs ? departures.at(-1)?.claim.span[1] : ends.get(topic);
      if (end !== undefined) behind = Math.max(behind, end);
      else if (text !== null && !departs && behind >= 0) out.push({ fact, span: [behind, behind], text });
    }
    return out.filter(({ span }) => span[1] === think.length || think.startsWith(SEPARATOR, span[1]));
  }

  #departures(think: string, { scan, span }: Claim, stated: readonly NamedClaim[]): Amendment[] {
    const cell = this.#length / scan!.length;
    const told = this.#statements.filter(({ departs }) => departs);
    const marks = marksOf(scan!).map(([from, to]) => marked([from * cell, to * cell], this.#intervals));
    const expected = marks.map((index, k) => (marks.indexOf(index) === k ? told[index] : undefined));
    if (stated.length > marks.length || marks.length > MOST_PAIRED) return [];
    const { places } = placesOf(
      stated.map(({ claim, key }) => ({ key, words: wordsOf(think, claim) })),
      expected,
    );
    const owns = expected.map((_, mark) => stated[places.indexOf(mark)]);
    const spans = owns.map((own) => own && itemSpan(think, own.claim.span));
    const amends = (mark: number): boolean => expected[mark]?.text != null && spans[mark] !== null;
    /** Keys of the statements as amended. */
    const keys = owns.map((own, mark) =>
      amends(mark) && own?.holds !== true ? expected[mark]!.key : own?.key,
    );
    const isCopy = (key: string | undefined, mark: number): boolean => {
      const times = (list: readonly (string | undefined)[]): number =>
        list.filter((other) => other === key).length;
      const isOwn = key === undefined || key === expected[mark]?.key || !amends(mark);
      return !isOwn && times(keys) > Math.max(1, times(told.map((statement) => statement.key)));
    };
    // A statement that takes the place of a copy may make another one a copy.
    for (let copy = keys.findIndex(isCopy); copy >= 0; copy = keys.findIndex(isCopy)) {
      keys[copy] = expected[copy]!.key;
    }
    let behind = span[1];
    return expected.flatMap((right, mark): Amendment[] => {
      const own = owns[mark];
      const replaced = own === undefined ? ([behind, behind] as const) : spans[mark]!;
      behind = own?.claim.span[1] ?? behind;
      return right?.text == null || keys[mark] === own?.key
        ? []
        : [{ fact: right.fact, span: replaced, text: right.text }];
    });
  }
}
