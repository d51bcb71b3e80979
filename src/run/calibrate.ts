/** Calibration: fits the confidence in the intervals of a policy and of the detector to held-out series and recordings. */
import { basename, join } from 'node:path';
import { recordedExample } from '../../datasets/generators/wild/recorded.ts';
import { type Recording, readRecording } from '../../datasets/readers/recording.ts';
import { isGenerator, openExamples } from '../../datasets/source.ts';
import type { EngineName } from '../answer/answerer.ts';
import { findPolicy, shippedPolicy } from '../answer/reference.ts';
import { detect } from '../detect/detect.ts';
import {
  accountsOf,
  CONFIDENCE_FILE,
  type ConfidenceModel,
  type Evidence,
  fitConfidence,
  isRight,
  type Place,
  placesOf,
  readConfidence,
  statedConfidence,
  type Weighted,
  weighAccounts,
  writeConfidence,
} from '../explain/confidence.ts';
import { askAll, isConstant, seasonOf } from '../explain/policy-answers.ts';
import { ConfigError, DataError } from '../ground/errors.ts';
import { checkNewDirectory, writeJson } from '../ground/files.ts';
import { withProgress } from '../ground/progress.ts';
import { Random } from '../ground/random.ts';
import { say } from '../ground/terminal.ts';
import type { Interval } from '../ground/types.ts';
import { mergeIntervals } from '../series/intervals.ts';
import { bridge } from '../series/missing.ts';
import { readCard } from '../tasks/card.ts';
import { calendarOf } from './detect.ts';
import { openReader } from './explain.ts';
import { checkPlace, copyPolicy } from './run-policy.ts';

/** Columns of a recording with the periods of an hour, a day and a week in its samples. */
export interface KnownRecording {
  readonly file: string;
  readonly columns: Recording['columns'];
  readonly calendar: readonly number[];
  /** First sample of what is fitted to; those before it show what is usual. Default: 0. */
  readonly from?: number;
}

export interface CalibrateRequest {
  readonly policy: string;
  /**
   * Number of series of the training length; longer ones are fewer, for the same work. With `recordings`: of stretches of all of them, at
   * least 12 of each length and column.
   */
  readonly count: number;
  readonly seed: number;
  /** Recordings into which anomalies are put. */
  readonly data?: readonly string[] | undefined;
  /** New directory for a copy of the policy whose confidence is fitted to `data` alone; left out: the policy itself, to its generator too. */
  readonly out?: string | undefined;
  /** Recordings that the policy was adapted to: they take the place of the generator. */
  readonly recordings?: readonly KnownRecording[] | undefined;
  readonly engine?: EngineName | undefined;
  readonly device: string | undefined;
  /** True: do not show progress. Default: false. */
  readonly quiet?: boolean;
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

/** Least samples of a stretch of a recording, and least number of stretches of each length and column. */
const SHORTEST = 200;
const STRETCHES = 12;
/** Most times that anomalies are put into a stretch: a confidence should not depend on how many others there are. */
const TURNS = 3;

interface Example<Name extends string> extends Weighted<Name> {
  readonly source: string;
  readonly series: number;
}

/** A series with known anomalies [N], NaN where missing; `source`: generator, or column of a recording. */
interface Known {
  readonly source: string;
  readonly values: Float64Array;
  readonly truth: readonly Interval[];
  readonly calendar: readonly number[];
  /** Expected values of its season [N], where the samples before it show one; null otherwise. */
  readonly usual: Float64Array | null;
}

/** Held-out series of the generator, of its training length and longer. */
function* generated(task: string, length: number, { count, seed }: CalibrateRequest): Generator<Known> {
  for (const { times, fewer } of LENGTHS) {
    const most = Math.max(1, Math.round(count / fewer));
    for (const { channels, gold } of openExamples({
      ...{ name: task, split: 'validation', seed, length: times * length, count: most },
    })) {
      const truth = 'intervals' in gold ? gold.intervals : [];
      yield { source: task, values: channels[0]!, truth, calendar: [], usual: null };
    }
  }
}

function knownRecording(file: string): KnownRecording {
  const recording = readRecording(file);
  return { file, columns: recording.columns, calendar: calendarOf(recording) };
}

/** Stretches of recordings into which anomalies are put; what they hold besides counts as wrong. */
function* recorded(
  length: number,
  { data = [], recordings = [], seed, count }: CalibrateRequest,
): Generator<Known> {
  const owned = recordings.reduce((sum, { columns }) => sum + columns.length, 0);
  for (const { file, columns, calendar, from = 0 } of [...data.map(knownRecording), ...recordings]) {
    for (const { name, values: whole } of columns) {
      const values = whole.subarray(from);
      const source = `${file}, ${name}`;
      if (values.length < SHORTEST) {
        throw new DataError(`column ${name}: ${values.length} samples; at least ${SHORTEST} are needed`, {
          file,
        });
      }
      if (isConstant(values)) {
        say(`left out: ${source}: its value never changes`);
        continue;
      }
      const season = from === 0 ? null : seasonOf(detect(whole, { calendar }), calendar);
      const lengths = new Set(LENGTHS.map(({ times }) => Math.min(values.length, times * length)));
      for (const size of lengths) {
        const random = new Random(seed, `stretches/${basename(file)}, ${name}`, size);
        const share = owned === 0 ? 0 : Math.round(count / owned / lengths.size);
        for (let k = 0; k < Math.max(STRETCHES, share); k++) {
          const start = random.integer(0, values.length - size);
          const stretch = values.slice(start, start + size);
          if (isConstant(stretch)) continue;
          const usual = detect(stretch, { calendar });
          let made: Pick<Known, 'values' | 'truth'> = { values: stretch, truth: [] };
          for (let turn = 0; turn <= (owned === 0 ? 0 : k % TURNS); turn++) {
            const id = `${basename(file)}, ${name}/${size}${turn === 0 ? '' : `/${turn}`}`;
            const { channels, gold } = recordedExample(seed, k, id, { ...usual, values: made.values });
            const truth = 'intervals' in gold ? gold.intervals : [];
            made = { values: channels[0]!, truth: mergeIntervals([...made.truth, ...truth]) };
          }
          const end = start + size;
          yield { source, ...made, calendar, usual: season?.slice(from + start, from + end) ?? null };
        }
      }
    }
  }
}

/** Weighs examples so that every recording counts as much as the others, and all together as much as the generator. */
function evenly<One extends { readonly source: string }>(
  examples: readonly One[],
  task: string,
): (One & { readonly weight?: number })[] {
  const counts = new Map<string, number>();
  for (const { source } of examples) counts.set(source, (counts.get(source) ?? 0) + 1);
  const recordings = [...counts.keys()].filter((source) => source !== task).length;
  const most = counts.get(task) ?? examples.length;
  return examples.map((example) => {
    const { source } = example;
    return source === task ? example : { ...example, weight: most / recordings / counts.get(source)! };
  });
}

/** Number of intervals in a range of confidence, their mean confidence, and the number of correct ones. */
interface ReliabilityRow {
  readonly from: number;
  readonly to: number;
  readonly intervals: number;
  readonly confidence: number;
  readonly right: number;
}

/** Expected calibration error: mean distance of confidence and share of right intervals over the tenths, by their intervals. */
function calibrationError(rows: readonly ReliabilityRow[]): number {
  const intervals = rows.reduce((sum, row) => sum + row.intervals, 0);
  return rows.reduce((sum, row) => sum + Math.abs(row.intervals * row.confidence - row.right), 0) / intervals;
}

interface Calibrated {
  readonly model: ConfidenceModel;
  /** Reliability by tenths of the confidence; each half of the series is judged by the fit to the other half. */
  readonly reliability: readonly ReliabilityRow[];
  readonly file: string;
}

interface PlaceExample extends Example<keyof Evidence> {
  readonly marks: Place['marks'];
}

/** Counts right places by tenths of the confidence, without empty tenths. */
function reliabilityOf(examples: readonly PlaceExample[], recordingsAlone: boolean): ReliabilityRow[] {
  const rows = Array.from({ length: 10 }, (_, k) => ({
    from: k / 10,
    to: (k + 1) / 10,
    intervals: 0,
    confidence: 0,
    right: 0,
  }));
  for (const half of [0, 1]) {
    const evidence = fitConfidence(examples.filter(({ series }) => series % 2 !== half));
    for (const { marks, inputs, right } of examples.filter(({ series }) => series % 2 === half)) {
      const confidence = statedConfidence({ evidence, recordingsAlone }, { marks, evidence: inputs });
      const row = rows[Math.min(9, Math.floor(10 * confidence))]!;
      row.intervals++;
      row.confidence += (confidence - row.confidence) / row.intervals;
      if (right) row.right++;
    }
  }
  return rows.filter(({ intervals }) => intervals > 0);
}

/** @throws ConfigError for a copy without recordings, and for a place that holds other files or the policy */
function checkCopy(out: string, from: string, { data = [], recordings = [] }: CalibrateRequest): void {
  if (data.length + recordings.length === 0)
    throw new ConfigError('--out: a copy is fitted to recordings; name them with --data');
  checkPlace(out, from);
  checkNewDirectory(out);
}

/**
 * Fits the confidences of a policy to held-out series of its training generator, of its training length and longer, and to recordings with
 * made anomalies; to recordings alone where it was adapted to them, or a copy is made for them. Saves them with it.
 *
 * @throws ConfigError for a policy that sees one scale, was not trained on a generator, or predicts too few intervals; for one whose
 * confidence is fitted to recordings, without a copy; and as `checkCopy` and `openReader`. DataError for a recording that cannot be read, or
 * is too short
 */
export async function calibratePolicy(given: CalibrateRequest): Promise<Calibrated> {
  const { policy: path, out, data: files = [], seed, quiet: silent = false } = given;
  const directory = findPolicy(path);
  if (shippedPolicy(path) !== null && out === undefined)
    throw new ConfigError(
      `--policy ${path}: ships with timeseer and is not changed; --out DIR --data FILES makes a copy for your recordings`,
    );
  if (
    out === undefined &&
    given.recordings === undefined &&
    readConfidence(directory)?.recordingsAlone === true
  )
    throw new ConfigError(
      `--policy ${path}: its confidence is fitted to recordings; --out DIR --data FILES makes a copy for others`,
    );
  if (out !== undefined) checkCopy(out, directory, given);
  const request =
    out === undefined
      ? given
      : { ...given, data: [], recordings: [...(given.recordings ?? []), ...files.map(knownRecording)] };
  const { data = [], recordings = [] } = request;
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
    const alone = recordings.length > 0;
    const known = [...(alone ? [] : generated(task, length, request)), ...recorded(length, request)];
    if (known.length === 0) {
      throw new DataError(
        `${recordings.map(({ file }) => file).join(', ')}: no column has a value that changes, so there is nothing to put anomalies into; name other recordings`,
      );
    }
    const asked: (Known & { readonly accounts: ReturnType<typeof accountsOf> })[] = [];
    let deseasonalised = false;
    const options = { label: 'calibrate', total: known.length, unit: 'series', silent };
    await withProgress(options, async (update) => {
      for (const series of known) {
        const { values, usual } = series;
        deseasonalised ||= usual !== null;
        const windows = await askAll(bridge(values).values, null, reader, { usual });
        asked.push({ ...series, accounts: accountsOf(windows, values) });
        update(asked.length);
      }
    });
    // The policy's own confidence is fitted to what it was trained for; other recordings say what it is worth beside the detector.
    const trained = asked.filter(({ source }) => alone || source === task);
    const examples = trained.flatMap(({ source, truth, accounts }, series) =>
      accounts.flatMap(({ interval, support }) =>
        support === null ? [] : [{ source, series, inputs: support, right: isRight(interval, truth) }],
      ),
    );
    const series = trained.length;
    const right = examples.filter((example) => example.right).length;
    const wrong = examples.length - right;
    if (examples.length < FEWEST || Math.min(right, wrong) < FEWEST_OF_EITHER) {
      throw new ConfigError(
        `${path}: predicted ${examples.length} intervals in ${series} series, ${right} of them correct: too few to fit; raise --count (of adapt: --series), or train the policy for longer`,
      );
    }
    const own = fitConfidence(alone ? evenly(examples, task) : examples);
    const places = evenly(
      asked.flatMap(({ source, values, truth, calendar, accounts }, series) =>
        placesOf(weighAccounts(accounts, own), detect(values, { calendar }).findings).map(
          ({ interval, marks, evidence }) => ({
            ...{ source, series, marks, inputs: evidence, right: isRight(interval, truth) },
          }),
        ),
      ),
      task,
    );
    const reliability = reliabilityOf(places, alone);
    const model: ConfidenceModel = {
      version: 2,
      ...own,
      evidence: fitConfidence(places),
      ...(alone ? { recordingsAlone: true } : {}),
      ...(deseasonalised ? { deseasonalised } : {}),
      fitted: {
        data: [
          ...(alone ? [] : [`${task}, validation, seed ${seed}`]),
          ...data.map((file) => basename(file)),
          ...(out === undefined ? [] : files.map((file) => basename(file))),
          ...(alone && files.length === 0 ? ['recordings'] : []),
        ].join('; '),
        ...{ series, intervals: examples.length, right, error: calibrationError(reliability) },
      },
    };
    if (out === undefined) writeConfidence(directory, model);
    else {
      copyPolicy(directory, out, (copy) => writeJson(join(copy, CONFIDENCE_FILE), model));
    }
    return { model, reliability, file: join(out ?? directory, CONFIDENCE_FILE) };
  } finally {
    await policy.dispose();
  }
}
