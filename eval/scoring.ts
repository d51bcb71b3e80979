/** Scores of predictions that were made elsewhere: the metrics of an evaluation, without a policy. */
import { DataError } from '../src/ground/errors.ts';
import type { Estimate, EvalRecord } from '../src/ground/types.ts';
import { type BootstrapOptions, estimate, setEstimates } from '../src/measures/bootstrap.ts';
import { brierScore, calibrationError, logLoss } from '../src/measures/calibration.ts';
import type { MetricSet } from '../src/tasks/evaluation.ts';
import { taskKind } from '../src/tasks/kinds.ts';
import { type Metrics, metricsOf, valuesOf } from './metrics.ts';
import type { Predictions } from './predictions.ts';

/** Of stated probabilities; smaller is better. */
export interface Calibration {
  /** In [0, 2]. */
  readonly brier: Estimate;
  /** In nats. */
  readonly log_loss: Estimate;
  /** Expected calibration error in 15 bins, in [0, 1]. */
  readonly ece: Estimate;
}

export interface Scored extends Metrics {
  /** Gold answers, those with a prediction, and those without, which count as answers that cannot be read. */
  readonly n: number;
  readonly answered: number;
  readonly missing: number;
  /** The first ten of them. */
  readonly missingIds: readonly string[];
  /** Predictions whose class is none of the classes. */
  readonly otherLabels: number;
  /** Null where no prediction states probabilities. */
  readonly calibration: Calibration | null;
}

export interface ExampleScore {
  readonly id: string;
  readonly sample?: number;
  /** The reward of the kind of answer, and its parts. */
  readonly total: number;
  readonly parts: Readonly<Record<string, number>>;
  /** All metrics of the prediction. */
  readonly metrics: Readonly<Record<string, number>>;
  /** What is wrong with the prediction; null: nothing. */
  readonly problem: string | null;
}

/** Resampled series over all resamples: more would take longer than reading the file. */
const RESAMPLED = 20_000_000;

/** 2000 resamples, fewer of more than 10 000 series, whose intervals are narrow, and at least 200. */
const resamplesOf = (series: number): number => Math.max(200, Math.min(2000, Math.floor(RESAMPLED / series)));

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

/** Of predictions with scores alone, what is said of scores. */
function measuresOf(set: MetricSet): MetricSet {
  const names = ['auc_pr', 'auc_roc', 'vus_pr', 'vus_roc'];
  const found = Object.fromEntries(
    names.flatMap((name) => (set[name] === undefined ? [] : [[name, set[name]]])),
  );
  if (Object.keys(found).length > 0) return found as MetricSet;
  throw new DataError(
    'scores: no series has both anomalous and normal points, so that none can be judged by them',
  );
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

/** Metrics of predictions that were read. @throws DataError where scores alone say nothing of any series */
export function scored(predictions: Predictions): Scored {
  const { records, stated, classes, missing, otherLabels, scoresAlone } = predictions;
  const n = new Set(records.map(({ seriesId }) => seriesId)).size;
  const options = { resamples: resamplesOf(n) };
  const metrics = metricsOf(records, { ...options, classes });
  return {
    ...{
      n,
      answered: n - missing.length,
      missing: missing.length,
      missingIds: missing.slice(0, 10),
      otherLabels,
    },
    ...(scoresAlone ? withoutAnswers(metrics) : metrics),
    calibration: calibrationOf(stated, options),
  };
}

/** What one prediction is worth. */
export function exampleScore(record: EvalRecord): ExampleScore {
  const { seriesId, sample, score, answer } = record;
  return {
    id: seriesId,
    ...(sample === undefined ? {} : { sample }),
    ...{ total: score.total, parts: score.parts, metrics: valuesOf(record), problem: answer.problem },
  };
}

/** Further metrics as lines for a terminal: those of `overall` that tables leave out. */
export function detailLines({ kind, overall, samples, calibration }: Scored): string[] {
  const { metrics, details, columns } = taskKind(kind).evaluation;
  const shown = new Set(['unparsable', ...columns.map(([metric]) => metric)]);
  const lines: (readonly [string, Estimate])[] = Object.entries({ ...metrics, ...details }).flatMap(
    ([name, { label }]) => (shown.has(name) || overall[name] === undefined ? [] : [[label, overall[name]]]),
  );
  if (samples !== null) {
    for (const [k, found] of Object.entries(samples.passAtK)) lines.push([`pass@${k}`, found]);
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
  const width = Math.max(0, ...lines.map(([label]) => label.length)) + 2;
  return lines.map(
    ([label, { mean, ci95, n }]) =>
      `${label.padEnd(width)}${mean.toFixed(3)} [${ci95[0].toFixed(3)}, ${ci95[1].toFixed(3)}]  n ${n}`,
  );
}
