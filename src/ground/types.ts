/** The records that flow between stages. One immutable record per arrow; imports nothing of ours. */

/** Half-open index interval [start, end) on the x axis of a series; 0 ≤ start < end ≤ N. */
export type Interval = readonly [start: number, end: number];

/** The classes of AnomSeer, spelled as the reward compares them. */
export const ANOMALY_CLASSES = [
  'contextual point',
  'global point',
  'seasonal',
  'trend',
  'shapelet',
  'normal',
] as const;
export type AnomalyClass = (typeof ANOMALY_CLASSES)[number];

/** Part of the gold answer of every kind. */
interface Thought {
  /** Expert reasoning towards the gold answer, given with the data: the SFT target instead of a written trace. Absent or null: none. */
  readonly thought?: string | null;
}

/** Gold answer of an example, by answer kind; `src/tasks` has a file for each kind. */
export interface ClassificationGold extends Thought {
  readonly kind: 'classification';
  readonly class: string;
  /** Classes to choose from with a description each, for an example that brings its own; shown to the policy. */
  readonly among?: Readonly<Record<string, string>>;
}
export interface AnomalyGold extends Thought {
  readonly kind: 'anomaly';
  /** Null: the data set says where its anomalies are, not of which kind; then the class is not graded. */
  readonly class: AnomalyClass | null;
  readonly intervals: readonly Interval[]; // sorted, disjoint, inside [0, N)
}
export interface VariatesGold extends Thought {
  readonly kind: 'variates';
  /** Channels that are anomalous, 0-based, ascending. */
  readonly variates: readonly number[];
}
/** A question with its answer. Question and options are shown to the policy; no word of the rest is. */
export interface QuestionGold extends Thought {
  readonly kind: 'question';
  readonly question: string;
  /** Texts to choose from, by letters from A; empty: the answer is free. */
  readonly options: readonly string[];
  /** Letter of the right option; without options the answer, one line. */
  readonly answer: string;
  /** Category for metrics; null: none. */
  readonly category: string | null;
}
/** Gold answers by kind. A kind adds its own in its file: `declare module '../ground/types.ts' { interface GoldKinds { … } }`. */
interface GoldKinds {
  readonly classification: ClassificationGold;
  readonly anomaly: AnomalyGold;
  readonly variates: VariatesGold;
  readonly question: QuestionGold;
}
export type Gold = GoldKinds[keyof GoldKinds];

/** Kinds of departure in a series with known truth, as used in `SeriesFacts`. */
export const DEPARTURE_KINDS = [
  'spike',
  'dip',
  'level shift',
  'trend change',
  'variance change',
  'flat line',
  'cutoff',
  'missing cycle',
  'changed shape',
  'frequency change',
] as const;
export type DepartureKind = (typeof DEPARTURE_KINDS)[number];

/** Anomaly class of each kind; that of a spike or dip depends on the rest of the series. */
export const CLASS_OF_KIND: Readonly<Record<Exclude<DepartureKind, 'spike' | 'dip'>, AnomalyClass>> = {
  'level shift': 'trend',
  'trend change': 'trend',
  'variance change': 'contextual point',
  'flat line': 'shapelet',
  cutoff: 'shapelet',
  'missing cycle': 'seasonal',
  'changed shape': 'shapelet',
  'frequency change': 'seasonal',
};

/** Known facts about one anomaly, in the units of the series. */
export interface DepartureFacts {
  readonly kind: DepartureKind;
  /**
   * Root mean square of the change over the interval, in standard deviations of one-step prediction errors
   * there (at least a hundredth of the range). Above 0.
   */
  readonly severity: number;
  /** Signal-to-noise ratio of the whole change for one who knows the unmodified series. */
  readonly visibility: number;
  /** Least, mean and largest value in the interval, and what they would have been without the change. */
  readonly observed: readonly [least: number, mean: number, largest: number];
  readonly unmodified: readonly [least: number, mean: number, largest: number];
}

/** Known facts about a generated series beyond its answer, from which an expert trace can be written. */
export interface SeriesFacts {
  /** Names of its parts. */
  readonly components: readonly string[];
  /** Samples of its cycles, ascending; empty without one. */
  readonly periods: readonly number[];
  /** Seconds between samples. */
  readonly step: number;
  /** Values between which 98 % of the unmodified series lies. */
  readonly range: readonly [low: number, high: number];
  /** Facts of each interval of the answer, in its order. */
  readonly departures: readonly DepartureFacts[];
}

/** Example of any task: series, and gold answer. */
export interface Example {
  /** Unique in its data set, stable over runs: `<task>/<split>/<index>`. */
  readonly id: string;
  readonly task: string;
  /** All of one length N; NaN marks a missing point: [C][N]. */
  readonly channels: readonly Float64Array[];
  /** Names of the channels: [C]. */
  readonly names: readonly string[];
  /** x value of each point, ascending, where points are not evenly spaced or x is time: [N]. */
  readonly times: Float64Array | null;
  readonly gold: Gold;
  /** Recording from which it was cut; examples of one recording stay in one split. */
  readonly recording: string | null;
  /** Facts of a generated series whose generator knows more than the answer. Never part of a prompt. */
  readonly facts?: SeriesFacts;
  /** Plot of each channel, for policies whose short facts are about the plot while their intervals count samples: [C][columns]. */
  readonly plotted?: readonly Float64Array[];
}

/** Parsed response. `null` marks a part that is absent, unparsable or not requested. */
export interface ParsedAnswer {
  readonly think: string | null;
  /** Sorted, disjoint, inside the series. */
  readonly intervals: readonly Interval[] | null;
  /** Ascending ids of channels; of answers about variates alone. */
  readonly variates?: readonly number[] | null;
  /** Answer to a question: the letter of an option, or free text. */
  readonly class: string | null;
  /** Advice on the answer; of tasks that ask for it alone. */
  readonly extension?: string | null;
  /** True when the response is exactly the tagged parts of its kind, in order, each well formed. */
  readonly wellFormed: boolean;
  /** Reason why it is not well formed; null when it is. */
  readonly problem: string | null;
}

/** Reward parts of one response, each in [0, 1]; `total` is their weighted sum. Of rewards of the user any finite numbers. */
export interface Score {
  readonly total: number;
  readonly parts: Readonly<Record<string, number>>;
  /** Details reported by a user's reward. */
  readonly notes?: string;
}

/** RGB raster, row-major, 8 bit. */
export interface Picture {
  readonly width: number;
  readonly height: number;
  readonly data: Uint8Array; // [height · width · 3]
}

/** Evaluated response with its gold answer. */
export interface EvalRecord {
  readonly seriesId: string;
  readonly task: string;
  readonly length: number;
  readonly gold: Gold;
  /** Raw text of the response; '' for detectors that write none. */
  readonly response: string;
  /** Number of points that intervals of the response count from 0, where the series was shown with another number; those of the answer count its own. */
  readonly frame?: number;
  readonly answer: ParsedAnswer;
  readonly score: Score;
  /** Index among several responses to the example, 0-based. */
  readonly sample?: number;
  /** 0: greedy. */
  readonly temperature?: number;
  /** Tokens of the prompt, with those of its pictures, and of the response. */
  readonly usage?: TokenUsage;
  /** Seconds from the request to the end of the response, for policies that are asked one by one. */
  readonly seconds?: number;
  /** Price of the response, in the currency of the prices that were given. */
  readonly cost?: number;
  /** Measures of scores that the policy gave to every point, such as `vus_pr`; the scores themselves are not kept. */
  readonly measures?: Readonly<Record<string, number>>;
  /** Judge's score of the extension; absent where none was requested, or there is no judge. */
  readonly judged?: JudgedExtension;
  /** Totals of the rewards that were asked for beside the task's own, by name; of those that apply to it. */
  readonly rewards?: Readonly<Record<string, number>>;
  /** Truth of the numbers in the reasoning; only for responses with reasoning. */
  readonly reasoning?: ReasoningCheck;
  /** Reason why there is no response (`response` is ''). Such a record counts as missing, not as a wrong answer. */
  readonly failure?: string;
}

/** A judge's score of an extension. */
interface JudgedExtension {
  /** Judge: `rules`, or the model. */
  readonly by: string;
  /** Score in [0, 1]; 0, unread, if the answer is wrong or ill-formed; null: missing. */
  readonly score: number | null;
  /** Reason for the score, or for its absence. */
  readonly notes: string | null;
}

/** The numeric claims of a reasoning, checked against the series. */
export interface ReasoningCheck {
  /** Claims found, each once: those that are true, false, and those of which the series does not say. */
  readonly claims: number;
  readonly true: number;
  readonly false: number;
  readonly unchecked: number;
  /** true / (true + false), the precision of the claims; null where nothing could be checked. */
  readonly truth: number | null;
  /** Facts that the expert trace of the series states; absent without a trace to compare with, or one that states nothing. */
  readonly facts?: number;
  /** Facts among them that the reasoning states truly. */
  readonly recalled?: number;
  /** Agreement with the facts: 2·recalled / (recalled + false + facts). */
  readonly f1?: number;
  /** Share of the numbers in the text that are part of a claim that could be checked; null for a text without numbers. */
  readonly coverage: number | null;
  /** True if the answer is what the reasoning concludes; null where it concludes nothing comparable. */
  readonly agreement: boolean | null;
  /** Pairs of claims that cannot both be true. */
  readonly contradictions: number;
  /** The first false claims: as written, of what, and why they are false. */
  readonly wrong: readonly { readonly text: string; readonly quantity: string; readonly why: string }[];
}

/** Tokens of one request to a policy. */
export interface TokenUsage {
  readonly prompt: number;
  readonly completion: number;
  /** Responses of an inspection. */
  readonly turns?: number;
}

/** A mean over series with its bootstrap 95 % interval. */
export interface Estimate {
  readonly mean: number;
  readonly ci95: readonly [lo: number, hi: number];
  readonly n: number;
}

/** JSON value. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };

/** A response about other places than the policy's own. */
export interface Counterfactual {
  readonly text: string;
  /** Range of the answer in the text, in characters. */
  readonly answer: readonly [start: number, end: number];
  /** Numbers of the answer with all that the reasoning leaves open: those of the same cell of a scan. */
  readonly open: readonly OpenNumber[];
}

/** A number in a text that could be any other of a range as well. */
export interface OpenNumber {
  readonly span: readonly [start: number, end: number];
  readonly within: readonly [least: number, most: number];
}
