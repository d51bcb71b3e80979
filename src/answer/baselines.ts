/**
 * Classical baselines: one table of all by name, and how one of them answers questions. A baseline reads the values of a series and writes
 * no text. It learns from training examples and chooses on validation examples; held-out examples have no part in either.
 *
 * Anomaly baselines read each channel alone, missing points bridged and channels without a known point left out, and answer the union
 * of what they find: a point counts where the highest of its scores, each in the units of its channel, exceeds the threshold. An
 * anomaly that shows in one of many channels is found like one that shows in all. `expcot-blind` answers for the channel whose test is
 * farthest beyond its threshold.
 */
import { setImmediate as breathe } from 'node:timers/promises';
import {
  type ExampleAddress,
  openExamples,
  trainingSplit,
  validationExamples,
} from '../../datasets/source.ts';
import { EXPCOT_BLIND } from '../expcot/anomaly.ts';
import { learnClasses } from '../expcot/class-profile.ts';
import { ConfigError, DataError, suggestion } from '../ground/errors.ts';
import { cores } from '../ground/machine.ts';
import { getOrMake } from '../ground/maps.ts';
import { sum } from '../ground/numbers.ts';
import { workerUrl } from '../ground/paths.ts';
import { say } from '../ground/terminal.ts';
import type { AnomalyGold, EvalRecord, Example, Gold, ParsedAnswer } from '../ground/types.ts';
import { mapAhead, WorkerPool } from '../ground/worker-pool.ts';
import { DETECTORS } from '../series/detectors.ts';
import { mergeIntervals } from '../series/intervals.ts';
import { bridge } from '../series/missing.ts';
import type { Unlabelled } from '../tasks/kind.ts';
import { blindTrace, KIND_NAMES, scoreAnswer, taskKind } from '../tasks/kinds.ts';
import type { Answerer, AnswerOptions } from './answerer.ts';
import {
  majorityOf,
  miniRocketClassifier,
  nearestNeighbour,
  sampleTraining,
  type TrainingSample,
  warpingClassifier,
} from './classifiers.ts';
import type { ScoreRequest } from './point-score-worker.ts';
import { answerAbove, comparable, POINT_SCORES, type PointScore, THRESHOLDS } from './point-scores.ts';

/** Settings that a baseline learned or chose: threshold, window, penalty, and how it was chosen. */
export type BaselineSettings = Readonly<Record<string, string | number>>;

/** Data that a baseline may look at before it answers. */
export interface BaselineData {
  readonly kind: Gold['kind'];
  /** Training examples; null where there are none. */
  readonly training: Iterable<Example> | null;
  /** Examples that thresholds are chosen on; empty where there are none. */
  readonly validation: readonly Example[];
  /** Seed of everything that is drawn at random. */
  readonly seed: number;
  /** Settings chosen earlier on the same data: nothing is chosen anew. */
  readonly settings?: BaselineSettings | undefined;
  /** Threads; default one per core. */
  readonly threads?: number | undefined;
  /** Stops preparing and answering with its reason. */
  readonly signal?: AbortSignal | undefined;
  /** Called while it prepares, with the step and the share of it that is done, in [0, 1]. */
  readonly onProgress?: ((step: string, share: number) => void) | undefined;
}

export interface PreparedBaseline {
  readonly settings: BaselineSettings;
  /** Returns an answer, or the reason why there is none. Several calls may run at once. */
  answer(series: Unlabelled): Promise<Gold | string>;
  /** Calls worth running at once. */
  readonly parallel: number;
  close(): Promise<void>;
}

interface Baseline {
  readonly kinds: readonly Gold['kind'][];
  /** True where it is fast enough to answer beside any policy. */
  readonly quick?: boolean;
  /** True where runs try it beside their policies, though it is not quick: the product's own detector, 33 ms of CPU time a series of 1000 points. */
  readonly inRuns?: boolean;
  /** False where the data hold nothing that it could learn from. Always true when absent. */
  readonly suits?: (data: BaselineData) => Promise<boolean>;
  /** @throws DataError or ConfigError where nothing can be learned from the data */
  prepare(data: BaselineData): Promise<PreparedBaseline>;
}

/** True for one channel without missing points. */
export function isPlain({ channels }: Unlabelled): boolean {
  return channels.length === 1 && !channels[0]!.some(Number.isNaN);
}

function parsed(answer: Gold | string, kind: Gold['kind']): ParsedAnswer {
  const { said } = taskKind(kind).evaluation;
  return typeof answer === 'string'
    ? { think: null, wellFormed: false, problem: answer, ...said(null) }
    : { think: null, wellFormed: true, problem: null, ...said(answer) };
}

/** Returns the record of an answer without text: well formed unless there is none, scored like a policy's. */
export function baselineRecord(example: Example, answer: Gold | string): EvalRecord {
  const { id, task, gold } = example;
  const length = example.channels[0]!.length;
  const read = parsed(answer, gold.kind);
  const score = scoreAnswer(read, gold, length);
  return { seriesId: id, task, length, gold, response: '', answer: read, score };
}

/** Series without missing points, by the one that has them: scores are kept by their values. */
const bridged = new WeakMap<Float64Array, Float64Array>();

/** Returns a series without the channels that have no known point; as it is where none has one. */
function knownOf(series: Unlabelled): Unlabelled {
  const known = series.channels.map((values) => !values.every(Number.isNaN));
  if (!known.includes(true)) return series;
  return {
    channels: series.channels.filter((_, c) => known[c]),
    names: series.names.filter((_, c) => known[c]),
  };
}

/**
 * Reads the channels that have a known point one after the other, missing points bridged; several series are read at once instead.
 * @throws DataError where no channel has a known point
 */
async function eachChannel<T>(
  series: Unlabelled,
  read: (values: Float64Array) => T | Promise<T>,
): Promise<T[]> {
  const all: T[] = [];
  for (const values of knownOf(series).channels)
    all.push(await read(getOrMake(bridged, values, () => bridge(values).values)));
  return all;
}

/** Joins answers about channels: the union of their intervals, with the class of the first that has one. */
function union(answers: readonly AnomalyGold[]): AnomalyGold {
  const found = answers.filter(({ intervals }) => intervals.length > 0);
  const [first = answers[0]!] = found;
  return found.length < 2
    ? first
    : { ...first, intervals: mergeIntervals(found.flatMap(({ intervals }) => intervals)) };
}

/** Answers from values; a string is the reason why there is no answer. */
type Rule = (series: Unlabelled) => Gold | string | Promise<Gold | string>;

const following = (rule: Rule, settings: BaselineSettings = {}): PreparedBaseline => ({
  settings,
  answer: async (series) => rule(series),
  parallel: 1,
  close: async () => {},
});

/** Returns the answer, or the reason where the analysis refuses the series. */
async function orReason(answer: () => Gold | Promise<Gold>): Promise<Gold | string> {
  try {
    return await answer();
  } catch (error) {
    if (error instanceof DataError) return error.message;
    throw error;
  }
}

/** A rule for anomalies that reads every channel alone. */
const onChannels =
  (read: (values: Float64Array) => Gold | Promise<Gold>): Rule =>
  (series) =>
    orReason(async () => union((await eachChannel(series, read)) as AnomalyGold[]));

/** Training samples by data, which several baselines are prepared from. */
const samples = new WeakMap<BaselineData, Promise<TrainingSample | null>>();

function sampleIfAny(data: BaselineData): Promise<TrainingSample | null> {
  const { training, seed } = data;
  const sample =
    samples.get(data) ??
    (training === null
      ? Promise.resolve(null)
      : sampleTraining(training, seed).then((drawn) => (drawn.count === 0 ? null : drawn)));
  samples.set(data, sample);
  return sample;
}

async function sampleOf(data: BaselineData): Promise<TrainingSample> {
  const sample = await sampleIfAny(data);
  if (sample !== null) return sample;
  throw new DataError('baselines: classifiers learn from training examples; give some');
}

/** Number of training examples, and of those that classifiers learn from; null for other kinds. */
export async function learnedFrom(
  data: BaselineData,
): Promise<{ readonly examples: number; readonly used: number } | null> {
  const sample = taskKind(data.kind).learnsClasses ? await sampleIfAny(data) : null;
  return sample === null ? null : { examples: sample.count, used: sample.examples.length };
}

const hasTraining = async (data: BaselineData): Promise<boolean> => (await sampleIfAny(data)) !== null;

/** Series that are scored in the thread that asks, before Workers are started. */
const SCORED_HERE = 32;

/** Scores of one point score on the scale of its threshold, computed once for each series; beyond the first few in Workers. */
class Scorer {
  readonly #name: string;
  readonly #size: number;
  /** Series that the threshold is chosen on are often answered too. */
  readonly #known = new WeakMap<Float64Array, Promise<Float64Array>>();
  #scored = 0;
  #pool: WorkerPool<ScoreRequest, Float64Array> | null = null;

  /** @param size number of Workers; 1: none is started */
  constructor(name: string, size: number) {
    this.#name = name;
    this.#size = size;
  }

  /** Number of series worth scoring at once. */
  get parallel(): number {
    return 2 * this.#size;
  }

  scores(values: Float64Array, signal: AbortSignal | undefined): Promise<Float64Array> {
    return getOrMake(this.#known, values, () => this.#score(values, signal));
  }

  async #score(values: Float64Array, signal: AbortSignal | undefined): Promise<Float64Array> {
    if (this.#size === 1 || this.#scored++ < SCORED_HERE) {
      await breathe();
      signal?.throwIfAborted();
      return comparable(POINT_SCORES[this.#name]!, values);
    }
    this.#pool ??= new WorkerPool({
      size: this.#size,
      program: workerUrl('./point-score-worker.ts', import.meta.url),
      failure: (problem) => `baseline ${this.#name}: a Worker ended (${problem})`,
    });
    return this.#pool.ask({ name: this.#name, values }, signal === undefined ? {} : { signal });
  }

  async close(): Promise<void> {
    await this.#pool?.close();
  }
}

/** Chooses the threshold of the highest mean reward on validation examples; the default, or else the lowest of equals. */
async function chooseThreshold(
  name: string,
  score: PointScore,
  { validation, settings, signal, onProgress }: BaselineData,
  scorer: Scorer,
): Promise<BaselineSettings & { readonly threshold: number }> {
  const before = settings?.['threshold'];
  if (typeof before === 'number') return { ...settings, threshold: before };
  const scored = validation.filter(({ channels }) => !channels.every((values) => values.every(Number.isNaN)));
  if (scored.length === 0)
    return { threshold: score.threshold, chosen: `published default (${score.source})` };
  const thresholds = [...new Set([score.threshold, ...THRESHOLDS])];
  let done = 0;
  const rewardsOf = await mapAhead(scored, scorer.parallel, async (example) => {
    const channels = await eachChannel(example, (values) => scorer.scores(values, signal));
    onProgress?.(`threshold of ${name}`, ++done / scored.length);
    return thresholds.map((threshold) => {
      const answer = union(channels.map((scores) => answerAbove(score, scores, threshold)));
      return baselineRecord(example, answer).score.total;
    });
  });
  const rewards = thresholds.map((_, t) =>
    sum(rewardsOf.map((byThreshold) => byThreshold[t]! / scored.length)),
  );
  const best = rewards.indexOf(Math.max(...rewards));
  return {
    threshold: thresholds[best]!,
    chosen: `highest mean reward on ${scored.length} validation examples`,
    reward: rewards[best]!,
  };
}

function pointScoreBaseline(name: string, score: PointScore): Baseline {
  return {
    kinds: ['anomaly'],
    inRuns: score.inRuns === true,
    async prepare(data) {
      const scorer = new Scorer(name, data.threads ?? cores());
      try {
        const settings = await chooseThreshold(name, score, data, scorer);
        return {
          settings,
          answer: async (series) =>
            onChannels(async (values) =>
              answerAbove(score, await scorer.scores(values, data.signal), settings.threshold),
            )(series),
          parallel: scorer.parallel,
          close: () => scorer.close(),
        };
      } catch (error) {
        await scorer.close();
        throw error;
      }
    },
  };
}

/** Detector of one whole channel that a kind of answers has by this name. */
const detectorOf = (kind: Gold['kind'], name: string) => taskKind(kind).evaluation.detectors?.get(name);

/** Detectors of AnomSeer's analyses, at fixed thresholds. */
const fixed: Readonly<Record<string, Baseline>> = Object.fromEntries(
  Object.keys(DETECTORS).map((name): [string, Baseline] => [
    name,
    {
      ...{ kinds: ['anomaly'], quick: true },
      prepare: async () => following(onChannels(detectorOf('anomaly', name)!), { chosen: 'fixed' }),
    },
  ]),
);

/** Answer of the same text to every question. */
function always(kind: Gold['kind'], text: string): Rule {
  const answer = taskKind(kind).answerOf({
    ...{ think: null, intervals: null, class: text, wellFormed: true, problem: null },
  });
  return () => answer;
}

/** Returns the most frequent answer of the training examples; null where none has one. */
async function mostFrequent(data: BaselineData): Promise<string | null> {
  const sample = await sampleIfAny(data);
  if (sample === null) return null;
  if (!taskKind(data.kind).readsWords) return majorityOf(sample.classes);
  const counts = new Map<string, number>();
  for (const { gold } of sample.examples) {
    const { class: answer } = taskKind(data.kind).evaluation.said(gold);
    if (answer !== null) counts.set(answer, (counts.get(answer) ?? 0) + 1);
  }
  return counts.size === 0 ? null : majorityOf(counts);
}

/**
 * Baselines by name, those first that win ties. Detectors whose threshold is chosen choose it on validation examples by mean reward; the
 * window of time warping and the penalty of ridge are chosen on the training split by leave-one-out.
 */
const TABLE: Readonly<Record<string, Baseline>> = {
  ...fixed,
  [EXPCOT_BLIND]: {
    kinds: KIND_NAMES.filter((name) => !taskKind(name).readsWords),
    quick: true,
    suits: async (data) => !taskKind(data.kind).learnsClasses || (await hasTraining(data)),
    async prepare(data) {
      const { kind } = data;
      const profile = taskKind(kind).learnsClasses ? learnClasses((await sampleOf(data)).examples) : null;
      const whole = detectorOf(kind, EXPCOT_BLIND);
      return following((given) => {
        const series = whole === undefined ? given : knownOf(given);
        return whole !== undefined && isPlain(series)
          ? orReason(() => whole(series.channels[0]!))
          : orReason(() => blindTrace(series, kind, profile).answer);
      });
    },
  },
  '1nn-euclid': {
    kinds: ['classification'],
    quick: true,
    async suits(data) {
      const sample = await sampleIfAny(data);
      return sample !== null && nearestNeighbour(sample.examples) !== null;
    },
    async prepare(data) {
      const nearest = nearestNeighbour((await sampleOf(data)).examples);
      if (nearest === null) {
        throw new DataError(
          '1nn-euclid: needs training examples of one length; 1nn-dtw compares series of any length',
        );
      }
      return following(({ channels }) => {
        const name = nearest(channels);
        return name === null
          ? 'of another length than the training examples'
          : { kind: 'classification', class: name };
      });
    },
  },
  '1nn-dtw': {
    kinds: ['classification'],
    prepare: async (data) => warpingClassifier((await sampleOf(data)).examples, 'learned', data),
  },
  '1nn-dtw-full': {
    kinds: ['classification'],
    prepare: async (data) => warpingClassifier((await sampleOf(data)).examples, 'full', data),
  },
  minirocket: {
    kinds: ['classification'],
    prepare: async (data) => miniRocketClassifier((await sampleOf(data)).examples, data),
  },
  'first-option': {
    ...{ kinds: ['question'], quick: true },
    prepare: async ({ kind }) => following(always(kind, 'A')),
  },
  majority: {
    kinds: ['classification', 'question'],
    quick: true,
    suits: async (data) => (await mostFrequent(data)) !== null,
    async prepare(data) {
      await sampleOf(data);
      const answer = await mostFrequent(data);
      if (answer === null) throw new DataError('majority: no training example has an answer');
      return following(always(data.kind, answer));
    },
  },
  ...Object.fromEntries(
    Object.entries(POINT_SCORES).map(([name, score]) => [name, pointScoreBaseline(name, score)]),
  ),
};
export const BASELINES: ReadonlyMap<string, Baseline> = new Map(Object.entries(TABLE));

export const baselinesOf = (kind: Gold['kind']): string[] =>
  [...BASELINES].filter(([, { kinds }]) => kinds.includes(kind)).map(([name]) => name);

/**
 * Finds a baseline by its name.
 * @param data name of the data set that it is to answer, for the message
 * @throws ConfigError for an unknown name, or a baseline of another kind of answers
 */
export function baselineNamed(name: string, kind: Gold['kind'], data: string): Baseline {
  const baseline = BASELINES.get(name);
  const known = baselinesOf(kind);
  if (baseline?.kinds.includes(kind) === true) return baseline;
  const problem =
    baseline === undefined
      ? `no baseline named '${name}' for ${data}.${suggestion(name, known)}`
      : `baseline ${name} answers with ${baseline.kinds.join(', ')}, ${data} asks for ${kind}.`;
  throw new ConfigError(`${problem} Known: ${known.join(', ')}`);
}

/**
 * Names of the baselines quick enough to answer beside any policy.
 * @param inRun true: also those that runs try though they take longer
 */
export async function quickBaselines(data: BaselineData, inRun = false): Promise<string[]> {
  const names: string[] = [];
  for (const [name, baseline] of BASELINES) {
    const tried = baseline.quick === true || (inRun && baseline.inRuns === true);
    if (!tried || !baseline.kinds.includes(data.kind)) continue;
    if ((await baseline.suits?.(data)) !== false) names.push(name);
  }
  return names;
}

/** Validation examples that thresholds are chosen on, at most. */
const MAX_VALIDATION = 100;

/** Data of an evaluated data set that baselines may look at: its training split, and validation examples of it. */
export function baselineData(address: ExampleAddress, kind: Gold['kind']): BaselineData {
  const validation = taskKind(kind).localises
    ? validationExamples(address, address.seed, MAX_VALIDATION)
    : null;
  return {
    ...{ kind, training: trainingSplit(address.name), seed: address.seed },
    validation: validation === null ? [] : [...openExamples(validation)],
  };
}

/** Names of the baselines quick enough to answer beside any policy, by kind of answer; for help. */
export const quickNames = (kind: Gold['kind']): string[] =>
  baselinesOf(kind).filter((name) => BASELINES.get(name)!.quick === true);

/** Milliseconds between two lines about preparations. */
const NOTE_MS = 10_000;

/**
 * Answers by a baseline, which is prepared once for each data set. Without a data set it detects anomalies at its published default.
 * @throws ConfigError for an unknown name; while it answers, for a baseline of another kind of answers
 */
export function baselineAnswerer(
  given: string,
  name: string,
  { quiet = false }: { readonly quiet?: boolean | undefined } = {},
): Answerer {
  if (!BASELINES.has(name)) {
    const known = [...BASELINES.keys()];
    throw new ConfigError(
      `--policy ${given}: no baseline is named '${name}'.${suggestion(name, known)} Known: ${known.join(', ')}`,
    );
  }
  const prepared = new Map<string, Promise<PreparedBaseline>>();
  const prepare = (
    data: AnswerOptions['data'],
    signal: AbortSignal | undefined,
  ): Promise<PreparedBaseline> => {
    const key = data === null ? '' : JSON.stringify(data.address);
    let noted = performance.now();
    const onProgress = (step: string, share: number): void => {
      if (quiet || performance.now() - noted < NOTE_MS) return;
      noted = performance.now();
      say(`${name}: ${step}, ${Math.floor(100 * share)} %`);
    };
    const kind = data?.facts.kind ?? 'anomaly';
    const about =
      data === null ? { kind, training: null, validation: [], seed: 0 } : baselineData(data.address, kind);
    const made =
      prepared.get(key) ??
      baselineNamed(name, kind, data?.address.name ?? 'a series').prepare({ ...about, signal, onProgress });
    prepared.set(key, made);
    return made;
  };
  return {
    ...{ given, name: given, identity: { baseline: name }, reads: 'values', local: null },
    async answer(requests, { data, signal }, report) {
      const baseline = await prepare(data, signal).catch((error: unknown) => {
        // Another policy of the same evaluation may answer.
        if (error instanceof DataError && !signal?.aborted) return error.message;
        throw error;
      });
      if (typeof baseline === 'string') {
        for (const { key } of requests) report({ key, sample: 0, text: '', failure: baseline });
        return;
      }
      await mapAhead(requests, baseline.parallel, async ({ key, series }) => {
        signal?.throwIfAborted();
        const values = series();
        if (values === null) {
          throw new ConfigError(`${given}: reads values, and there is no series; give one, or name a policy`);
        }
        const began = performance.now();
        report({ key, sample: 0, text: '', answer: await baseline.answer(values) });
        // Another turn only after some work: most baselines take microseconds.
        if (performance.now() - began > 1) await breathe();
      });
    },
    async dispose() {
      for (const baseline of await Promise.allSettled(prepared.values()))
        if (baseline.status === 'fulfilled') await baseline.value.close();
    },
  };
}
