/** What of a report a policy says: beside the findings, never among them. */
import { z } from 'zod';
import { grouped } from '../ground/numbers.ts';

const finite = z.number();
const index = z.int().nonnegative();

/** Why an answer about a window is not believed; `trust.ts` says how each is measured. */
const DOUBTS = ['unreadable', 'unlike', 'unsure', 'samples', 'shifts', 'repeated'] as const;
export type Doubt = (typeof DOUBTS)[number];

/** One answer, about the window [start, end). */
const ANSWER = z.strictObject({
  start: index,
  end: index,
  /** In samples of the series; null where the answer cannot be read. */
  intervals: z.array(z.tuple([index, index])).nullable(),
  class: z.string().nullable(),
  /** Verbatim. */
  response: z.string(),
  /** Why it is not well formed; null where it is. */
  problem: z.string().nullable(),
  /** Mean natural logarithm of the probability of its tokens. */
  logProbability: finite.nullable(),
  /** Of what was shown from what the policy was taught; null where the policy has no record of that. */
  distance: finite.nonnegative().nullable(),
  /** Intersection over union of what answers drawn at random mark; null for a window that was not asked again. */
  sampleAgreement: finite.min(0).max(1).nullable(),
  /** The same with what the neighbouring windows mark where they overlap; null where nobody marks anything. */
  shiftAgreement: finite.min(0).max(1).nullable(),
  doubts: z.array(z.enum(DOUBTS)),
});
export type PolicyAnswer = z.infer<typeof ANSWER>;

/** How far the answers about a column are to be believed by one measure. */
const SIGNAL = z.strictObject({
  name: z.enum(DOUBTS),
  /** What the number is. */
  text: z.string(),
  /** Of the column: a mean, median or share; null where it could not be measured. */
  value: finite.nullable(),
  /** A window on the wrong side of it is doubtful; null: no limit is known, and the number counts for nothing. */
  limit: finite.nullable(),
  /** Windows that were measured, and those that are doubtful by it. */
  windows: index,
  doubtful: index,
});
export type PolicySignal = z.infer<typeof SIGNAL>;

/** A column without its intervals, which the report knows in time. */
export const POLICY_COLUMN = z.strictObject({
  column: z.string(),
  /**
   * `abstains`: too many answers are doubtful, so none counts; `not asked`: there are no two different values; `too short`: of so few samples
   * a policy that was taught longer series can tell nothing.
   */
  status: z.enum(['answers', 'abstains', 'not asked', 'too short']),
  /** One sentence: what the policy says, or why it says nothing. */
  statement: z.string(),
  /** Samples per window; null where it was not asked. */
  window: index.nullable(),
  /** Windows with a doubt; they have no vote. */
  doubtful: index,
  /** Share of doubtful windows from which on the policy abstains on the column. */
  limit: finite.min(0).max(1),
  /** Of the answers that count, the one most samples have; null where none counts. */
  class: z.string().nullable(),
  signals: z.array(SIGNAL),
  answers: z.array(ANSWER),
});
export type PolicyColumn = z.infer<typeof POLICY_COLUMN>;

/** What the policy is, and what is to be known about all of its answers. */
export const POLICY_HEAD = z.strictObject({
  name: z.string(),
  /** Parameters, stage, figure, engine, device. */
  record: z.record(z.string(), z.union([z.string(), z.number()])),
  notes: z.array(z.string()),
});
export type PolicyHead = z.infer<typeof POLICY_HEAD>;

/** Of fewer windows nothing is said: neither that their text is repeated, nor that they contradict each other or mark the wrong. */
export const FEWEST_WINDOWS = 3;

const marks = ({ intervals }: PolicyAnswer): boolean => intervals === null || intervals.length > 0;
const isDoubtful = ({ doubts }: PolicyAnswer): boolean => doubts.length > 0;

/**
 * The answers because of which a policy abstains on a column: all of them, or those that mark something or cannot be read, where more than
 * a share `limit` of them is doubtful; null where it does not.
 */
export function tooDoubtful(answers: readonly PolicyAnswer[], limit: number): readonly PolicyAnswer[] | null {
  const marking = answers.filter(marks);
  const groups = [answers, ...(marking.length >= FEWEST_WINDOWS ? [marking] : [])];
  return groups.find((group) => group.filter(isDoubtful).length > limit * group.length) ?? null;
}

type Told = Pick<PolicyColumn, 'status' | 'doubtful' | 'limit' | 'signals' | 'answers' | 'class'> & {
  readonly intervals: readonly unknown[];
};

const percent = (share: number): string => `${Math.round(100 * share)} %`;
const windowsWords = (n: number): string => (n === 1 ? '1 window' : `${grouped(n)} windows`);

/** A number of a signal as it is told. */
export const signalNumber = (value: number | null): string =>
  value === null ? '\u2013' : String(Number(value.toPrecision(2))).replace('-', '\u2212');

/** What is wrong with the windows that are doubtful by a signal, with the number that is farthest from its limit. */
const WRONG: Readonly<
  Record<Doubt, (signal: PolicySignal, doubtful: readonly PolicyAnswer[], one: boolean) => string>
> = {
  unreadable: (_, __, one) => `${one ? 'has' : 'have'} an answer that cannot be read`,
  unlike: ({ limit }, doubtful, one) =>
    `${one ? 'looks' : 'look'} unlike what it was taught (distance up to ${signalNumber(Math.max(...doubtful.map(({ distance }) => distance ?? 0)))}, limit ${signalNumber(limit)})`,
  unsure: ({ limit }, doubtful, one) =>
    `${one ? 'has' : 'have'} an answer that it is less sure of than on its own validation series (log-probability of a token down to ${signalNumber(Math.min(...doubtful.map(({ logProbability }) => logProbability ?? 0)))}, limit ${signalNumber(limit)})`,
  samples: ({ limit }, doubtful, one) =>
    `${one ? 'is' : 'are'} answered otherwise when asked again (agreement down to ${signalNumber(Math.min(...doubtful.map(({ sampleAgreement }) => sampleAgreement ?? 1)))}, limit ${signalNumber(limit)})`,
  shifts: ({ value, limit }, _, one) =>
    `${one ? 'is' : 'are'} contradicted by the windows that overlap (agreement of all ${signalNumber(value)}, limit ${signalNumber(limit)})`,
  repeated: ({ value, limit }, _, one) =>
    `${one ? 'gets' : 'get'} a text that other windows get as well (${percent(value ?? 0)} of those that mark something have the same, limit ${percent(limit ?? 0)})`,
};

/** One sentence about a column. */
export function policyStatement(told: Told): string {
  const { status, doubtful, limit, signals, answers, intervals } = told;
  if (status === 'not asked') return 'Not asked: there are no two different values in this column.';
  if (status === 'too short') {
    return 'Not asked: stretched to the length that it was taught, so few samples look like nothing it knows.';
  }
  const group = (status === 'abstains' ? tooDoubtful(answers, limit) : null) ?? answers;
  const reasons = signals
    .map((signal) => ({ signal, by: group.filter(({ doubts }) => doubts.includes(signal.name)) }))
    .filter(({ by }) => by.length > 0)
    .sort((a, b) => b.by.length - a.by.length)
    .map(({ signal, by }) => `${grouped(by.length)} ${WRONG[signal.name](signal, by, by.length === 1)}`)
    .join('; ');
  if (status === 'abstains') {
    const bad = group.filter(isDoubtful).length;
    const which =
      group.length === answers.length
        ? windowsWords(group.length)
        : `the ${windowsWords(group.length)} in which it marks something`;
    return `Abstains: ${grouped(bad)} of ${which} (${percent(bad / group.length)}, limit ${percent(limit)}) cannot be trusted: ${reasons}.`;
  }
  const marked =
    intervals.length === 0
      ? 'Marks nothing'
      : intervals.length === 1
        ? 'Marks one interval'
        : `Marks ${grouped(intervals.length)} intervals`;
  const left =
    doubtful === 0
      ? ''
      : `; ${grouped(doubtful)} of ${windowsWords(answers.length)} ${doubtful === 1 ? 'is' : 'are'} left out because ${doubtful === 1 ? 'it' : 'they'} cannot be trusted: ${reasons}`;
  const kind = told.class === null || intervals.length === 0 ? '' : `, most of it called ${told.class}`;
  return `${marked}${kind}${left}.`;
}

/** Answers that a page shows. */
const MOST_SHOWN = 12;

/** Tells windows of a column apart. */
export const windowKey = ({ start, end }: Pick<PolicyAnswer, 'start' | 'end'>): string => `${start}-${end}`;

/** The windows that a page shows: those that mark something or went wrong first, in their order. */
export function shownAnswers(answers: readonly PolicyAnswer[]): readonly PolicyAnswer[] {
  const chosen = new Set(
    [...answers.filter(marks), ...answers.filter((one) => !marks(one))].slice(0, MOST_SHOWN),
  );
  return answers.filter((one) => chosen.has(one));
}
