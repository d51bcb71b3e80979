/**
 * Templates of the statements that traces alone make: results of their tests, evidence on classes and variates. What any text says of a
 * series (its mean, its period, where it departs) needs no template. One template prints a statement, matches it in the text of a policy that has learned to write traces, and
 * says which numbers would be true:
 *
 *   const RANGE = phrasesOf(({ evidence }) => evidence.range)('range test', {
 *     span: ['{n} standard deviations span {n} to {n}', (test) => [test.sigmas, test.lower, test.upper]],
 *   });
 *   RANGE.span.of(evidence.range)   '3 standard deviations span -2.1 to 2.4'
 *   RANGE.span.print(3, -1, 1)      '3 standard deviations span -1 to 1'
 *
 * Slots:  {n} a number, rounded     {int} a number as it is     {list} intervals     {pairs} names with numbers
 *         {name} a class or channel     {label} the name of a feature     {a|b} one of several words
 *
 * Matching is `src/claims/read.ts`, over tokens in which every number is `N`.
 */
import type { Interval, SeriesFacts } from '../ground/types.ts';
import type { ClassEvidence } from './class-trace.ts';
import type { CycleTest } from './cycle.ts';
import type { Evidence } from './evidence.ts';
import type { VariatesEvidence } from './variates.ts';

/** Evidence that statements are checked against; parts are computed when they are first read. */
export interface TraceView {
  /** Analyses of the series, or of its plot where short facts are about that. */
  readonly evidence: Evidence;
  /** Points of the series. */
  readonly length: number;
  /** Null where the base is no wave, or too few cycles of one. */
  readonly cycle: CycleTest | null;
  /** Annotated intervals; null without an annotation. */
  readonly gold: readonly Interval[] | null;
  /** Null where the series has too few channels or points to compare. */
  readonly variates: VariatesEvidence | null;
  /** Facts of the generator; null where it says none. */
  readonly facts: SeriesFacts | null;
  /** Null without a profile of the classes. */
  readonly classes: ClassEvidence | null;
  /** Names of all channels, and of the one that the statement is about. */
  readonly names: readonly string[];
  readonly name: string;
  /** Features of all channels by key, with their names in words. */
  readonly features: readonly { readonly key: string; readonly says: string; readonly value: number }[];
}

/** Intervals that a statement lists; of more, the number is given. The answer always holds all. */
export const LONGEST_LIST = 4;

/** Formats a number with at most four significant digits; integers stay whole. */
export const formatNumber = (value: number): string =>
  String(Number.isInteger(value) ? value : Number(value.toPrecision(4)));

/** Lists intervals, such as `12 to 30 and 41 to 50`; of more than LONGEST_LIST the first ones and the number of all. */
export function listIntervals(intervals: readonly Interval[]): string {
  const shown = intervals.slice(0, LONGEST_LIST).map(([start, end]) => `${start} to ${end}`);
  if (intervals.length > LONGEST_LIST) return `${shown.join(', ')} and others, ${intervals.length} in all`;
  const last = shown.pop() ?? 'nothing';
  return shown.length === 0 ? last : `${shown.join(', ')} and ${last}`;
}

/** Names with their numbers, such as `x 0.5 and 0.2, y 0.1 and 0.3`. */
type Pairs = readonly (readonly [name: string, ...numbers: (number | null)[]])[];
/** Content of a slot; null: not known. */
export type Slot = number | string | readonly Interval[] | Pairs | null;
/** True content of a slot: of a number also a list, any of which will do. */
type Truth = Slot | readonly number[];

interface SlotKind {
  /** Expression over tokens, each with a space before it; null: the words that the slot chooses from. */
  readonly pattern: string | null;
  print(value: never, digits: number): string;
  /** Numbers in the order of the text. */
  numbers(value: never): readonly (number | null)[];
}

export const roundedNumber = (value: number, digits: number): string =>
  // Rounding errors beside numbers of three digits are none.
  formatNumber(digits > 3 ? value : Math.abs(value) < 1e-9 ? 0 : Number(value.toPrecision(digits)));

const SLOTS = {
  n: { pattern: ' N', print: roundedNumber, numbers: (value: number) => [value] },
  int: { pattern: ' N', print: String, numbers: (value: number) => [value] },
  list: {
    pattern: `(?: N to N ,){0,${LONGEST_LIST - 1}} N to N(?: and N to N| and others , N in all)?`,
    print: listIntervals,
    numbers: (intervals: readonly Interval[]) => {
      const shown = intervals.slice(0, LONGEST_LIST).flat();
      return intervals.length > LONGEST_LIST ? [...shown, intervals.length] : shown;
    },
  },
  pairs: {
    pattern: ' [^;]{1,400}',
    print: (pairs: Pairs, digits: number) =>
      pairs
        .map(
          ([name, ...values]) =>
            `${name} ${values.map((value) => roundedNumber(value!, digits)).join(' and ')}`,
        )
        .join(', '),
    numbers: (pairs: Pairs) =>
      pairs.flatMap(([, ...values]) => values).filter((value) => !Number.isNaN(value)),
  },
  name: { pattern: ' [^;N]{1,80}', print: String, numbers: () => [] },
  label: { pattern: ' [^;:]{1,200}?', print: String, numbers: () => [] },
} satisfies Record<string, SlotKind>;

const slotOf = (name: string): SlotKind => {
  if (Object.hasOwn(SLOTS, name)) return SLOTS[name as keyof typeof SLOTS];
  // Words may have a space before or behind them, which their reading lacks.
  const print = (content: Slot): string =>
    name.split('|').find((word) => word.trim() === String(content).trim()) ?? String(content);
  return { pattern: null, print, numbers: () => [] };
};

/** Returns the numbers of a slot's content in the order of the text. */
export function numbersOf(
  { kind }: PhraseSlot,
  content: Truth,
): readonly (number | readonly number[] | null)[] {
  if (kind === 'n' || kind === 'int') return [content as number | readonly number[] | null];
  return content === null ? [] : slotOf(kind).numbers(content as never);
}

interface PhraseSlot {
  readonly kind: string;
  readonly pattern: string | null;
}

/** A template; `P` is the part of the evidence that it is printed from. */
export interface Phrase<P = never> {
  /** Name of what is stated. */
  readonly quantity: string;
  /** Literal parts, and the slots between them: one fewer. */
  readonly literals: readonly string[];
  readonly slots: readonly PhraseSlot[];
  /** Words that open the sentences in which alone the statement is looked for; null: any sentence. */
  readonly opening: string | null;
  /** Significant digits that `{n}` prints: the tolerance of a stated number. */
  readonly digits: number;
  /**
   * Returns the contents of the slots that would be true; null where the series has no such thing.
   * @param stated contents of the slots as stated
   */
  truth(view: TraceView, stated: readonly Slot[]): readonly Truth[] | null;
  print(...contents: readonly Slot[]): string;
  /** Prints what is true. */
  of(part: P): string;
}

interface PhraseOptions {
  readonly opening?: string;
  readonly digits?: number;
}
export type Entry<P> = readonly [
  text: string,
  truth: (part: P, stated: readonly Slot[]) => readonly Truth[] | null,
];

/**
 * Makes templates about one part of the evidence.
 * @param select the part; null where the series has none, and nothing stated about it is true
 * @returns a function of the quantity (null: the name of each entry) and of texts with slots, as the head of this file lists them
 */
export const phrasesOf =
  <P>(select: (view: TraceView) => P | null) =>
  <K extends string>(
    quantity: string | null,
    table: Readonly<Record<K, Entry<P>>>,
    { opening, digits = 4 }: PhraseOptions = {},
  ): Readonly<Record<K, Phrase<P>>> => {
    const phrases = Object.entries<Entry<P>>(table).map(([name, [text, truth]]): [string, Phrase<P>] => {
      const parts = text.split(/\{([^}]+)\}/);
      const literals = parts.filter((_, i) => i % 2 === 0);
      const slots = parts
        .filter((_, i) => i % 2 === 1)
        .map((kind) => ({ kind, pattern: slotOf(kind).pattern }));
      const print = (...contents: readonly Slot[]): string =>
        literals
          .map((literal, k) => literal + (k < slots.length ? printed(slots[k]!, contents[k]!) : ''))
          .join('');
      const printed = ({ kind }: PhraseSlot, content: Slot): string =>
        slotOf(kind).print(content as never, digits);
      const phrase: Phrase<P> = {
        quantity: quantity ?? name,
        ...{ literals, slots, opening: opening ?? null, digits, print },
        truth(view, stated) {
          const part = select(view);
          return part === null ? null : truth(part, stated);
        },
        of: (part) => print(...((truth(part, []) ?? []) as readonly Slot[])),
      };
      return [name, phrase];
    });
    return Object.fromEntries(phrases) as Record<K, Phrase<P>>;
  };
