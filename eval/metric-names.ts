/** The metrics of evaluation by the kind of answer: what each means, and which a kind has. */
import type { Gold } from '../src/types.ts';

/** What each metric means; every one is in [0, 1] and larger is better except `unparsable`. */
export const METRIC_DEFINITIONS = {
  format: 'Share of responses that are exactly the tagged parts of the task, in order, each well formed.',
  unparsable: 'Share of responses whose answer could not be read; they count as 0 elsewhere.',
  class_accuracy: 'Share of responses whose class is the gold class.',
  point_precision: 'Share of the predicted points that are anomalous.',
  point_recall: 'Share of the anomalous points that are predicted.',
  point_f1:
    'Harmonic mean of point precision and recall, per series; 1 when a normal series gets no interval, 0 when only one of the two is empty.',
  affiliation_precision: 'How close predictions are to the true intervals, against a random position.',
  affiliation_recall: 'How close the true intervals are to predictions, against a random position.',
  affiliation_f1:
    'Harmonic mean of affiliation precision and recall (Huet et al. 2022), per series; empty answers as for point F1.',
  balanced_accuracy:
    'Mean over the gold classes of their recall: every class counts the same, however rare it is.',
  macro_f1:
    'Mean over the gold classes of their F1; an unreadable or unknown class is an answer for none of them.',
  class_recall: 'Share of the series of this class that are answered with it.',
  class_precision: 'Share of the answers with this class that are right; 0 where it is never answered.',
  class_f1: 'Harmonic mean of precision and recall of this class.',
  variate_precision: 'Share of the variates named that are anomalous.',
  variate_recall: 'Share of the anomalous variates that are named.',
  variate_f1:
    'Harmonic mean of the two, per series; 1 when nothing is named where nothing is anomalous, 0 when only one of the two is empty.',
  variate_exact: 'Share of responses that name exactly the anomalous variates.',
  reward: 'What reinforcement maximises.',
} as const;

export type MetricName = keyof typeof METRIC_DEFINITIONS;

/** Metrics of every kind of answer. */
export const COMMON_METRICS = ['format', 'unparsable', 'reward'] as const satisfies readonly MetricName[];
export type CommonMetric = (typeof COMMON_METRICS)[number];

/** Metrics over all examples of a kind, in the order of reports. */
export const METRICS_OF = {
  anomaly: [
    'format',
    'unparsable',
    'class_accuracy',
    'point_precision',
    'point_recall',
    'point_f1',
    'affiliation_precision',
    'affiliation_recall',
    'affiliation_f1',
    'reward',
  ],
  classification: ['format', 'unparsable', 'class_accuracy', 'balanced_accuracy', 'macro_f1', 'reward'],
  variates: [
    'format',
    'unparsable',
    'variate_precision',
    'variate_recall',
    'variate_f1',
    'variate_exact',
    'reward',
  ],
} as const satisfies Readonly<Record<Gold['kind'], readonly MetricName[]>>;

/** The metrics that a kind is summed up by: headline, tables of detectors and of tasks. */
export const MAIN_METRICS = {
  anomaly: ['class_accuracy', 'point_f1', 'affiliation_f1'],
  classification: ['class_accuracy', 'balanced_accuracy', 'macro_f1'],
  variates: ['variate_f1', 'variate_exact'],
} as const satisfies Readonly<Record<Gold['kind'], readonly MetricName[]>>;

/** The metrics of a group of examples with one gold class (of variates: with as many anomalous ones). */
export const GROUP_METRICS = {
  anomaly: MAIN_METRICS.anomaly,
  classification: ['class_recall', 'class_precision', 'class_f1'],
  variates: ['variate_precision', 'variate_recall', 'variate_f1', 'variate_exact'],
} as const satisfies Readonly<Record<Gold['kind'], readonly MetricName[]>>;

const REWARDS = {
  anomaly: '0.7 · mean of six localisation metrics + 0.2 · class + 0.1 · format.',
  classification: '0.9 · class + 0.1 · format.',
  variates: '0.9 · F1 of the variates + 0.1 · format.',
} as const satisfies Readonly<Record<Gold['kind'], string>>;

const UNREADABLE = {
  anomaly: 'Share of responses whose intervals or class could not be read; they count as 0 elsewhere.',
  classification: 'Share of responses whose class could not be read; they count as 0 elsewhere.',
  variates: 'Share of responses whose list of variates could not be read; they count as 0 elsewhere.',
} as const satisfies Readonly<Record<Gold['kind'], string>>;

/** What a metric means for a kind of answer. */
export function definitionOf(metric: MetricName, kind: Gold['kind']): string {
  if (metric === 'reward') return REWARDS[kind];
  return metric === 'unparsable' ? UNREADABLE[kind] : METRIC_DEFINITIONS[metric];
}
