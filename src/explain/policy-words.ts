/** Words for the answers of a policy: its claim about a stretch, a sentence for each column, and the answers that a page shows. */

import { fixed, grouped } from '../ground/numbers.ts';
import { DEPARTURE_KINDS, type DepartureKind, type Interval } from '../ground/types.ts';
import { coverage, overlap } from '../series/intervals.ts';
import type {
  Doubt,
  PolicyAnswer,
  PolicyClaim,
  PolicyColumn,
  PolicySignal,
  ReportFinding,
} from './schema.ts';

const NOTHING = { kind: null, direction: null, size: null } as const;
const CLAUSE = new RegExp(`^(${DEPARTURE_KINDS.join('|')})(?: (up|down))? ([1-9]\\d{0,2}) sd$`);

/** Reads the departures that a reasoning names after its scan, in the form of `nanoFactsTeacher`; other words give no kind. */
export function claimedDepartures(response: string): Omit<PolicyClaim, 'class'>[] {
  const think = /^\s*<think>([^<]*)<\/think>/.exec(response)?.[1] ?? '';
  const clauses = think.trim().split('; ');
  const scan = clauses.findIndex((clause) => clause.startsWith('scan '));
  if (scan < 0) return [];
  return clauses.slice(scan + 1).map((clause) => {
    const [, kind, direction, size] = CLAUSE.exec(clause) ?? [];
    if (kind === undefined) return NOTHING;
    return {
      kind: kind as DepartureKind,
      direction: (direction as 'up' | 'down' | undefined) ?? null,
      size: Number(size),
    };
  });
}

/**
 * Returns the claim of a policy about a stretch, from the trusted answer whose interval fits it best. Departures are assigned to intervals
 * only if an answer names as many of them as it marks intervals.
 */
export function claimOf(stretch: Interval, answers: readonly PolicyAnswer[]): PolicyClaim {
  let best: { answer: PolicyAnswer; index: number; count: number } | null = null;
  let most = 0;
  for (const answer of answers) {
    if (answer.doubts.length > 0 || answer.intervals === null) continue;
    for (const [index, interval] of answer.intervals.entries()) {
      const common = overlap([interval], [stretch]);
      const share = common / (coverage([interval]) + coverage([stretch]) - common);
      if (share <= most) continue;
      most = share;
      best = { answer, index, count: answer.intervals.length };
    }
  }
  if (best === null) return { class: null, ...NOTHING };
  const departures = claimedDepartures(best.answer.response);
  const departure = departures.length === best.count ? departures[best.index]! : NOTHING;
  // Without a season there are other standard deviations.
  const size = best.answer.deseasonalised ? null : departure.size;
  return { class: best.answer.class, ...departure, size };
}

/** Classes of a policy in the words of an engineer. */
const CLASS_WORDS: Readonly<Record<string, string>> = {
  'global point': 'extreme value',
  'contextual point': 'value unusual for its time',
  seasonal: 'change of rhythm',
  shapelet: 'unusual shape',
};

const classWords = (name: string): string => CLASS_WORDS[name] ?? name;

/** "level shift up, about 4 standard deviations"; the class where the reasoning names no kind. */
export function claimWords(claim: PolicyClaim): string {
  const { kind, direction, size } = claim;
  if (kind === null) return claim.class === null ? 'unusual' : classWords(claim.class);
  const unit = size === 1 ? 'standard deviation' : 'standard deviations';
  return `${kind}${direction === null ? '' : ` ${direction}`}${size === null ? '' : `, about ${size} ${unit}`}`;
}

/** Formats a confidence: .83; a dash if unknown. */
export const confidenceWords = (confidence: number | null): string =>
  confidence === null ? '\u2013' : fixed(Math.min(0.99, confidence), 2).replace(/^0/, '');

/** "marked by the policy too, confidence .83"; null where no policy was asked. */
export function policyWords({
  markedByPolicy,
  confidence,
}: Pick<ReportFinding, 'markedByPolicy' | 'confidence'>): string | null {
  if (markedByPolicy === null) return null;
  const mark = markedByPolicy ? 'marked by the policy too' : 'not marked by the policy';
  return confidence === null ? mark : `${mark}, confidence ${confidenceWords(confidence)}`;
}

/** Fewest windows among which repeated texts, contradictions and doubtful marks are counted. */
export const FEWEST_WINDOWS = 3;

const marks = ({ intervals }: PolicyAnswer): boolean => intervals === null || intervals.length > 0;
const isDoubtful = ({ doubts }: PolicyAnswer): boolean => doubts.length > 0;

/**
 * Returns the answers because of which a policy abstains on a column: all answers, or those that mark something or cannot be read, if more
 * than a share `limit` of them is doubtful; null if it does not abstain.
 */
export function tooDoubtful(answers: readonly PolicyAnswer[], limit: number): readonly PolicyAnswer[] | null {
  const marking = answers.filter(marks);
  const groups = [answers, ...(marking.length >= FEWEST_WINDOWS ? [marking] : [])];
  return groups.find((group) => group.filter(isDoubtful).length > limit * group.length) ?? null;
}

type Answered = Pick<PolicyColumn, 'status' | 'doubtful' | 'limit' | 'signals' | 'answers' | 'class'> & {
  readonly intervals: readonly unknown[];
};

const percent = (share: number): string => `${Math.round(100 * share)} %`;
const windowsWords = (n: number): string => (n === 1 ? '1 window' : `${grouped(n)} windows`);

/** Number of a signal in words. */
export const signalNumber = (value: number | null): string =>
  value === null ? '\u2013' : String(Number(value.toPrecision(2))).replace('-', '\u2212');

/** Reasons why windows are doubtful by a signal, with the number farthest from its limit. */
const WRONG: Readonly<
  Record<Doubt, (signal: PolicySignal, doubtful: readonly PolicyAnswer[], single: boolean) => string>
> = {
  unreadable: (_, __, single) => `${single ? 'has' : 'have'} an answer that cannot be read`,
  unlike: ({ limit }, doubtful, single) =>
    `${single ? 'looks' : 'look'} unlike its training data (distance up to ${signalNumber(Math.max(...doubtful.map(({ distance }) => distance ?? 0)))}, limit ${signalNumber(limit)})`,
  unsure: ({ limit }, doubtful, single) =>
    `${single ? 'has' : 'have'} an answer of lower confidence than on its validation series (log-probability of a token down to ${signalNumber(Math.min(...doubtful.map(({ logProbability }) => logProbability ?? 0)))}, limit ${signalNumber(limit)})`,
  samples: ({ limit }, doubtful, single) =>
    `${single ? 'is' : 'are'} answered differently when asked again (agreement down to ${signalNumber(Math.min(...doubtful.map(({ sampleAgreement }) => sampleAgreement ?? 1)))}, limit ${signalNumber(limit)})`,
  shifts: ({ value, limit }, _, single) =>
    `${single ? 'is' : 'are'} contradicted by overlapping windows (agreement of all ${signalNumber(value)}, limit ${signalNumber(limit)})`,
  repeated: ({ value, limit }, _, single) =>
    `${single ? 'gets' : 'get'} the same text as many other windows (${percent(value ?? 0)} of the windows that mark something, limit ${percent(limit ?? 0)})`,
};

/** States in one sentence what the policy answers about a column, or why it abstains. */
export function policyStatement(answered: Answered): string {
  const { status, doubtful, limit, signals, answers, intervals } = answered;
  if (status === 'not asked') return 'Not asked: all values of this column are equal.';
  if (status === 'too short') {
    return 'Not asked: the policy was trained on series more than five times as long.';
  }
  const group = (status === 'abstains' ? tooDoubtful(answers, limit) : null) ?? answers;
  const reasons = signals
    .map((signal) => ({ signal, by: group.filter(({ doubts }) => doubts.includes(signal.name)) }))
    .filter(({ by }) => by.length > 0)
    .sort((a, b) => b.by.length - a.by.length)
    .map(({ signal, by }) => `${grouped(by.length)} ${WRONG[signal.name](signal, by, by.length === 1)}`)
    .join('; ');
  if (status === 'abstains' && signals.length === 0)
    return 'Abstains: it ended without an answer that can be read.';
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
  const kind =
    answered.class === null || intervals.length === 0
      ? ''
      : `, most of it called ${classWords(answered.class)}`;
  return `${marked}${kind}${left}.`;
}

/** Most answers that a page shows. */
const MOST_SHOWN = 12;

/** Key of a window within its column. */
export const windowKey = ({
  start,
  end,
  deseasonalised,
}: Pick<PolicyAnswer, 'start' | 'end' | 'deseasonalised'>): string =>
  `${start}-${end}${deseasonalised ? ' deseasonalised' : ''}`;

/** Key of a turn of a policy that looks closer, within its column. */
export const turnKey = (turn: number): string => `turn ${turn}`;

/** Chooses the windows that a page shows: those that mark something or cannot be read first, in their order. */
export function shownAnswers(answers: readonly PolicyAnswer[]): readonly PolicyAnswer[] {
  const chosen = new Set(
    [...answers.filter(marks), ...answers.filter((answer) => !marks(answer))].slice(0, MOST_SHOWN),
  );
  return answers.filter((answer) => chosen.has(answer));
}
