/** Scores of predictions made elsewhere: the metrics of an evaluation, without a policy. */
import { DataError } from '../src/ground/errors.ts';
import { columns } from '../src/ground/terminal.ts';
import type { Estimate, EvalRecord } from '../src/ground/types.ts';
import { type BootstrapOptions, estimate, setEstimates } from '../src/measures/bootstrap.ts';
import { brierScore, calibrationError, logLoss } from '../src/measures/calibration.ts';
import { type MetricSet, withInterval } from '../src/tasks/evaluation.ts';
import { taskKind } from '../src/tasks/kinds.ts';
import { type Metrics, metricsOf, valuesOf } from './metrics.ts';
import type { Predictions } from './predictions.ts';

/** Scores of stated probabilities; smaller is better. */
interface Calibration {
  /** Brier score in [0, 2]. */
  readonly brier: Estimate;
  /** Log loss in nats. */
  readonly log_loss: Estimate;
  /** Expected calibration error in 15 bins, in [0, 1]. */
  readonly ece: Estimate;
}

interface Scored extends Metrics {
  /** Number of gold answers. */
  readonly n: number;
  /** Gold answers with a prediction, and without one; a missing prediction counts as an unreadable answer. */
  readonly answered: number;
  readonly missing: number;
  readonly missingIds: readonly string[];
  /** Number of predictions whose class is none of the classes. */
  readonly otherLabels: number;
  /** Calibration; null where no prediction states probabilities. */
  readonly calibration: Calibration | null;
}

interface ExampleScore {
  readonly id: string;
  readonly sample?: number;
  /** Reward of the answer kind, and its parts. */
  readonly total: number;
  readonly parts: Readonly<Record<string, number>>;
  readonly metrics: Readonly<Record<string, number>>;
  /** Reason why the prediction is not well formed; null where it is. */
  readonly problem: string | null;
}

/** 2000 resamples; from 10 000 series on, whose intervals are narrow, fewer and at least 200, or it takes longer than reading the file. */
const resamplesOf = (series: number): number => Math.max(200, Math.min(2000, Math.floor(2e7 / series)));

function calibrationOf(stated: Predictions['stated'], options: BootstrapOptions): Calibration | null {
  if (stated.length === 0) return null;
  const { ece } = setEstimates(
    stated.length,
    (indices) => ({ ece: calibrationError(Array.from(indices, (i) => stated[i]!)) }),
    options,
  );
  return {
    brier: estimate(stated.map(brierScore), options),
    log_loss: estimate(stated.map(logLoss), options),
    ece,
  };
}

/** Keeps the measures of scores, for predictions without answers. */
function measuresOf(set: MetricSet): MetricSet {
  const names = ['auc_pr', 'auc_roc', 'vus_pr', 'vus_roc'];
  const measures = Object.fromEntries(
    names.flatMap((name) => (set[name] === undefined ? [] : [[name, set[name]]])),
  );
  if (Object.keys(measures).length > 0) return measures as MetricSet;
  throw new DataError('scores: cannot be judged, since no series has both anomalous and normal points');
}

function withoutAnswers(metrics: Metrics): Metrics {
  const groups = (sets: Readonly<Record<string, MetricSet>>): Record<string, MetricSet> =>
    Object.fromEntries(
      Object.entries(sets).flatMap(([name, set]) =>
        set['auc_pr'] === undefined ? [] : [[name, measuresOf(set)]],
      ),
    );
  return {
    ...metrics,
    overall: measuresOf(metrics.overall),
    anomalous: metrics.anomalous === null ? null : measuresOf(metrics.anomalous),
    byClass: groups(metrics.byClass),
    byTask: groups(metrics.byTask),
    byLength: groups(metrics.byLength),
    samples: null,
    confusion: null,
  };
}

/** Computes the metrics of predictions. @throws DataError for scores alone that cannot be judged on any series */
export function scored(predictions: Predictions): Scored {
  const { records, stated, classes, missing, otherLabels, scoresAlone } = predictions;
  const n = new Set(records.map(({ seriesId }) => seriesId)).size;
  const options = { resamples: resamplesOf(n) };
  const metrics = metricsOf(records, { ...options, classes });
  return {
    ...{ n, answered: n - missing.length, missing: missing.length },
    ...{ missingIds: missing.slice(0, 10), otherLabels },
    ...(scoresAlone ? withoutAnswers(metrics) : metrics),
    calibration: calibrationOf(stated, options),
  };
}

export function exampleScore(record: EvalRecord): ExampleScore {
  const { seriesId, sample, score, answer } = record;
  return {
    id: seriesId,
    ...(sample === undefined ? {} : { sample }),
    ...{ total: score.total, parts: score.parts, metrics: valuesOf(record), problem: answer.problem },
  };
}

/** Writes the metrics of `overall` that tables leave out as lines for a terminal. */
export function detailLines({ kind, overall, samples, calibration }: Scored): string[] {
  const { metrics, details, columns: tabled } = taskKind(kind).evaluation;
  const shown = new Set([
    'format',
    'success_rate',
    'unparsable',
    'reward',
    ...tabled.map(([metric]) => metric),
  ]);
  const lines: (readonly [string, Estimate])[] = Object.entries({ ...metrics, ...details }).flatMap(
    ([name, { label }]) => (shown.has(name) || overall[name] === undefined ? [] : [[label, overall[name]]]),
  );
  if (samples !== null) {
    for (const [k, estimate] of Object.entries(samples.passAtK)) lines.push([`pass@${k}`, estimate]);
    const [main] = taskKind(kind).evaluation.main.filter((name) => samples.consensus[name] !== undefined);
    if (main !== undefined)
      lines.push([`${metrics[main]!.label} of the consensus`, samples.consensus[main]!]);
  }
  if (calibration !== null) {
    lines.push(
      ['Brier score', calibration.brier],
      ['Log loss', calibration.log_loss],
      ['ECE', calibration.ece],
    );
  }
  if (lines.length === 0) return [];
  return columns(lines.map(([label, estimate]) => [label, withInterval(estimate), `n ${estimate.n}`])).split(
    '\n',
  );
}
