/** Calibration: fits the confidence of a policy to its predicted intervals on held-out series. */
import { isGenerator, openExamples } from '../../datasets/source.ts';
import type { EngineName } from '../answer/answerer.ts';
import { findPolicy } from '../answer/reference.ts';
import {
  accountsOf,
  CONFIDENCE_FILE,
  type ConfidenceModel,
  confidenceOf,
  fitConfidence,
  isRight,
  type Support,
  writeConfidence,
} from '../explain/confidence.ts';
import { askAll } from '../explain/policy-answers.ts';
import { ConfigError } from '../ground/errors.ts';
import { Progress } from '../ground/progress.ts';
import { bridge } from '../series/missing.ts';
import { readCard } from '../tasks/card.ts';
import { openReader } from './explain.ts';

export interface CalibrateRequest {
  readonly policy: string;
  /** Number of series of the training length; longer ones are fewer, for the same work. */
  readonly count: number;
  readonly seed: number;
  readonly engine?: EngineName | undefined;
  readonly device: string | undefined;
}

/** Multiples of the training length, and divisors of the count: the same number of windows of each. */
const LENGTHS = [
  { times: 1, fewer: 1 },
  { times: 4, fewer: 4 },
  { times: 9, fewer: 9 },
] as const;
/** Minimum number of intervals for a fit, and of correct and of wrong ones among them. */
const FEWEST = 20;
const FEWEST_OF_EITHER = 5;

interface Weighed {
  readonly series: number;
  readonly support: Support;
  readonly right: boolean;
}

/** Number of intervals in a range of confidence, and of correct ones among them. */
interface ReliabilityRow {
  readonly from: number;
  readonly to: number;
  readonly intervals: number;
  readonly right: number;
}

interface Calibrated {
  readonly model: ConfidenceModel;
  /** Reliability by tenths of the confidence; each half of the series is judged by the fit to the other half. */
  readonly reliability: readonly ReliabilityRow[];
  readonly file: string;
}

/** Counts correct intervals by tenths of the confidence, without empty tenths. */
function reliabilityOf(examples: readonly Weighed[]): ReliabilityRow[] {
  const rows = Array.from({ length: 10 }, (_, k) => ({
    from: k / 10,
    to: (k + 1) / 10,
    intervals: 0,
    right: 0,
  }));
  for (const half of [0, 1]) {
    const model = fitConfidence(examples.filter(({ series }) => series % 2 !== half));
    for (const { support, right } of examples.filter(({ series }) => series % 2 === half)) {
      const row = rows[Math.min(9, Math.floor(10 * confidenceOf(model, support)))]!;
      row.intervals++;
      if (right) row.right++;
    }
  }
  return rows.filter(({ intervals }) => intervals > 0);
}

/**
 * Fits the confidences of a policy to held-out series of its training generator, of its training length and longer, and saves them with it.
 *
 * @throws ConfigError for a policy that sees one scale, was not trained on a generator, or predicts too few intervals; as `openReader`
 */
export async function calibratePolicy(request: CalibrateRequest): Promise<Calibrated> {
  const { policy: path, count, seed } = request;
  const directory = findPolicy(path);
  const { task, length } = readCard(directory);
  if (task === null || !isGenerator(task) || length === null) {
    throw new ConfigError(
      `${path}: trained on ${task ?? 'unknown data'}; expected a generator with series of one length, because confidences are fitted to new series of that generator`,
    );
  }
  const { reader, policy } = await openReader(path, { ...request, calibrated: false });
  try {
    if (!reader.scales) {
      throw new ConfigError(
        `${path}: sees one scale only and has no confidence; train with a figure such as nano-analysis to calibrate`,
      );
    }
    const examples: Weighed[] = [];
    const sources = LENGTHS.map(({ times, fewer }) => {
      const most = Math.max(1, Math.round(count / fewer));
      return openExamples({ name: task, split: 'validation', seed, length: times * length, count: most });
    });
    const total = sources.reduce((sum, source) => sum + source.count, 0);
    const progress = new Progress({ label: 'calibrate', total, unit: 'series' });
    let series = 0;
    try {
      for (const source of sources) {
        for (const { channels, gold } of source) {
          const { values } = bridge(channels[0]!);
          const truth = 'intervals' in gold ? gold.intervals : [];
          for (const { interval, support } of accountsOf(await askAll(values, null, reader), values)) {
            if (support !== null) examples.push({ series, support, right: isRight(interval, truth) });
          }
          progress.update(++series);
        }
      }
    } finally {
      progress.stop();
    }
    const right = examples.filter((example) => example.right).length;
    const wrong = examples.length - right;
    if (examples.length < FEWEST || Math.min(right, wrong) < FEWEST_OF_EITHER) {
      throw new ConfigError(
        `${path}: predicted ${examples.length} intervals in ${series} series, ${right} of them correct: too few to fit; raise --count, or train the policy for longer`,
      );
    }
    const model: ConfidenceModel = {
      version: 1,
      ...fitConfidence(examples),
      fitted: { data: `${task}, validation, seed ${seed}`, series, intervals: examples.length, right },
    };
    writeConfidence(directory, model);
    return { model, reliability: reliabilityOf(examples), file: `${directory}/${CONFIDENCE_FILE}` };
  } finally {
    await policy.dispose();
  }
}
