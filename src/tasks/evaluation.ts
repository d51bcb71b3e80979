/** Interface of an answer kind for evaluation and reports; each kind implements it in its file. */

import { fixed, interval } from '../ground/numbers.ts';
import type { Estimate, Gold, ParsedAnswer } from '../ground/types.ts';
import type { Html } from '../html/html.ts';

/** Presentation of a metric; every metric is in [0, 1], and larger is better except `unparsable`. */
export interface Metric {
  readonly label: string;
  readonly definition: string;
  /** Told in percent in sentences. */
  readonly percent?: true;
}
export type Metrics = Readonly<Record<string, Metric>>;

/** Values of the metrics that a single response has. */
export type MetricValues = Readonly<Record<string, number>>;

/** Means over some series: what every kind has, and what the kind of their answers has beside. */
export type MetricSet = Readonly<
  Record<'format' | 'unparsable' | 'reward', Estimate> & { readonly [metric: string]: Estimate }
>;

/** The metrics of a policy: over all series, and over those with an anomaly where there are any. */
interface Measured {
  readonly overall: MetricSet;
  readonly anomalous: MetricSet | null;
}

/** Facts about the classical detectors of a run. */
interface DetectorFacts {
  /** True if the series come from a generator. */
  readonly generated: boolean;
  /** True if there are several detectors. */
  readonly several: boolean;
  /** Examples of the training split that they learned from, and how many of them were used; undefined: nothing was learned. */
  readonly learned?: { readonly examples: number; readonly used: number } | undefined;
}

export interface Evaluation<G extends Gold = Gold> {
  // Metrics.
  /** All of them over a set of series, in the order of reports: format, readability and reward among them. */
  readonly metrics: Metrics;
  /**
   * Metrics of single responses for metrics.json, tables and reports; nothing is chosen or trained by them.
   */
  readonly details: Metrics;
  /** Those of a group of series under one label. */
  readonly groupMetrics: Metrics;
  /** Those that it is summed up by: headline, tables of detectors and of tasks. */
  readonly main: readonly string[];
  /** Metrics of summaries between format and reward. */
  readonly summary: readonly string[];
  /** Columns of tables in a terminal between success rate and reward: metric and heading. */
  readonly columns: readonly (readonly [metric: string, heading: string])[];
  /** Rows of the results of a report between success rate and reward. `anomalous`: over series with an anomaly alone. */
  readonly rows: readonly { readonly metric: string; readonly anomalous?: true }[];
  /**
   * Columns of a class in a terminal between format and reward, for kinds evaluated by class (balanced accuracy,
   * macro F1; recall, precision and F1 of each class); null for others.
   */
  readonly classColumns: readonly (readonly [metric: string, heading: string])[] | null;
  /** Returns true if everything graded could be read. */
  reads(answer: ParsedAnswer, gold: G): boolean;
  /** Values of a response's metrics of this kind; format, `unparsable` and reward are every kind's. */
  values(answer: ParsedAnswer, gold: G, length: number): MetricValues;
  /** Values of the further metrics; success rate is every kind's. Default: none. */
  detailValues?(answer: ParsedAnswer, gold: G, length: number): MetricValues;
  /** Returns true if a response solves its example (for pass@k). */
  solves(answer: ParsedAnswer, gold: G, length: number): boolean;
  /** Returns true if anything is anomalous. */
  anomalous(gold: G): boolean;
  /** Returns true if the main part of an answer is right; null where it could not be read. */
  right(answer: ParsedAnswer, gold: G): boolean | null;

  // Answers that were not written as text.
  /** Parts that an answer has. */
  readonly answerParts: readonly ('intervals' | 'variates' | 'class' | 'extension')[];
  /** The parts of an answer; null: there is none. */
  said(gold: G | null): Pick<ParsedAnswer, 'intervals' | 'class' | 'variates'>;
  /** Classical detectors of one whole channel [N], by name. Default: none, the blind expert answers alone. */
  readonly detectors?: ReadonlyMap<string, (values: Float64Array) => G>;
  /** Name for a detector. */
  readonly detector: 'detector' | 'classifier';

  // The words of reports.
  /** Subject of the reasoning. */
  readonly subject: string;
  /** Results by label: title of the section, and head of the labels. */
  readonly groups: { readonly title: string; readonly head: string };
  /** Clauses about the policy's results, after "the policy"; joined by semicolons. */
  headline(metrics: Measured): string[];
  /** Examples are shown by label: each label in words, and one with its label. */
  readonly examples: { readonly each: string; readonly of: string; one(label: string): string };
  /** The answer as a blind reading concludes it. */
  concluded(answer: G): string;
  /** Gold answer beside a policy's, and the same for a screen reader. `mark`: whether it is right, as markup. */
  comparison(
    gold: G,
    answer: ParsedAnswer,
    names: readonly string[] | undefined,
    mark: Html,
  ): { readonly shown: Html; readonly spoken: string };
  /** Notes on the metrics. */
  readonly caveats: readonly string[];
  /** Notes on what a small policy imitates; `input`: the picture, or the numbers. Default: `imitatesAnswers`. */
  imitation?(input: string): string[];
  /** Notes on the classical detectors. */
  detectorCaveats(facts: DetectorFacts): string[];
}

export const FORMAT_METRIC: Metric = {
  label: 'Format',
  definition: 'Share of responses that are exactly the tagged parts of the task, in order, each well formed.',
};

/** Stands beside every accuracy: an answer that cannot be read counts as wrong there. */
export const SUCCESS_RATE: Metric = {
  label: 'Success rate',
  definition: 'Share of responses whose answer could be read.',
  percent: true,
};

/** Metrics of claims, over responses with reasoning. */
export const REASONING_METRICS: Metrics = {
  claim_precision: {
    label: 'True claims',
    definition:
      'Claim precision: share of the checkable claims of the reasoning that are true of the series, within the tolerance of their kind; mean over responses with such a claim.',
  },
  claim_recall: {
    label: 'Facts stated',
    definition:
      'Claim recall: share of the facts of the expert trace that the reasoning states truly. Facts are the claims of the trace that the series confirms.',
  },
  claim_f1: {
    label: 'Claim F1',
    definition:
      'F1 of facts: 2·stated truly / (stated truly + false claims + facts of the expert trace). Repeated and vague claims count nowhere, nor do true claims beyond those facts.',
  },
  claim_coverage: {
    label: 'Checked numbers',
    definition: 'Share of the numbers in the reasoning that are part of a claim that could be checked.',
  },
  reasoning_agreement: {
    label: 'Reasoning agrees',
    definition:
      'Share of responses whose answer is what their reasoning concludes, of those that conclude something comparable.',
  },
  reasoning_consistency: {
    label: 'No contradiction',
    definition: 'Share of reasonings without two claims that cannot both be true.',
  },
};

export const CLASS_ACCURACY = {
  label: 'Class accuracy',
  definition: 'Share of responses whose class is the gold class.',
  percent: true,
} as const satisfies Metric;

/** @param what could not be read */
export const unreadable = (what: string): Metric => ({
  label: 'Unreadable answers',
  definition: `Share of responses whose ${what} could not be read; that part counts as 0 elsewhere.`,
});

export const reward = (definition: string): Metric => ({ label: 'Reward', definition });

export const share = (holds: boolean): 0 | 1 => (holds ? 1 : 0);

/** The metrics of these names. */
export const pick = (metrics: Metrics, ...names: readonly string[]): Metrics =>
  Object.fromEntries(names.map((name) => [name, metrics[name]!]));

/** "0.812 [0.790, 0.833]". */
export const withInterval = (estimate: Estimate): string => `${fixed(estimate.mean)} ${interval(estimate)}`;

/** Note on the small policy's traces. */
export const imitatesAnswers = (input: string): string =>
  `The traces that it imitates are written with the true answers of training series at hand. On held-out series the policy has ${input} and the task prompt, nothing else.`;

export const NO_MEASURE_OF_TEXT = 'An independent measure of the reasoning text is not among these numbers.';
