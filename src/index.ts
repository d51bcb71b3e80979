/**
 * `timeseer`: what the command line composes, for programs and for modules of the user. What computes is loaded when it is first called;
 * errors are those of `TimeseerError`'s kinds, whose message says what, where and how to mend it.
 *
 * - Your own code: `defineReward` (recipes, `--reward`), `defineAdvantage` (`rl.advantage: ./FILE`), `definePolicy` and `defineDetector` (`eval --policy FILE`), `defineTask`
 *   (`data prepare FILE`)
 * - Policies: `loadPolicy`, `generate`; training and evaluation of whole runs: `train`, `evaluate`
 * - Files and series: `explain`, `analyse`, `render`, `encodePng`
 * - Metrics: `localisation`, `localisationReward`, `affiliation`, `pointF1`, `accuracyReward`, `formatReward`, `combine`
 *
 * `timeseer/series` has the classical analyses one by one.
 */

import type { Evidence } from './expcot/evidence.ts';
import type { AnomalyReport } from './explain/report.ts';
import type { Picture } from './ground/types.ts';
import type { Sampled } from './policy/generate.ts';
import type { Policy } from './policy/policy.ts';
import type { EvalRequest, Evaluation } from './run/eval.ts';
import type { Explained, ExplainRequest } from './run/explain.ts';
import type { QuickstartResult } from './run/quickstart.ts';

export { defineTask, type TaskDefinition, type TaskExample, type TaskRequest } from '../datasets/define.ts';
export {
  type Detection,
  type DetectorDefinition,
  defineDetector,
  definePolicy,
  type PolicyDefinition,
  type PolicyOutcome,
  type PolicyRequest,
  type Question,
} from '../eval/define.ts';
export { type Affiliation, affiliation } from '../rewards/affiliation.ts';
export { type CombinedReward, combine } from '../rewards/combine.ts';
export {
  defineReward,
  type RewardDefinition,
  type RewardOutcome,
  type RewardRequest,
  type RewardResult,
} from '../rewards/define.ts';
export { type Localisation, localisation, localisationReward } from '../rewards/localisation.ts';
export { accuracyReward, formatReward } from '../rewards/reward.ts';
export {
  AdvantageError,
  CheckpointError,
  ConfigError,
  DataError,
  EndpointError,
  EngineError,
  RewardError,
  TimeseerError,
} from './ground/errors.ts';
export type {
  AnomalyGold,
  ClassificationGold,
  DepartureFacts,
  DepartureKind,
  Example,
  Gold,
  Interval,
  ParsedAnswer,
  Picture,
  QuestionGold,
  Score,
  SeriesFacts,
  VariatesGold,
} from './ground/types.ts';
export { pointF1 } from './series/intervals.ts';
export type { GroupRecord as AdvantageGroup } from './train/advantage.ts';
export { type AdvantageDefinition, defineAdvantage } from './train/define-advantage.ts';
export type { AnomalyReport, Evaluation, Evidence, Explained, Policy, QuickstartResult, Sampled };

export interface LoadOptions {
  /** `cpu` (when absent), `cuda` or `cuda:N`. */
  readonly device?: string;
  /** Threads on a processor; 1 when absent. */
  readonly threads?: number;
}

/**
 * Loads a policy to generate with: a Hugging Face directory of Qwen2.5-VL, or a run, whose furthest trained policy it is. `dispose` frees it.
 * @throws CheckpointError for a directory without one, or a damaged one; EngineError without libtorch (`npx timeseer setup`)
 */
export async function loadPolicy(
  path: string,
  { device = 'cpu', threads = 1 }: LoadOptions = {},
): Promise<Policy> {
  const [{ Policy: Loaded }, { findPolicy }, { openEngine }] = await Promise.all([
    import('./policy/policy.ts'),
    import('./run/run-policy.ts'),
    import('./run/engine.ts'),
  ]);
  return Loaded.load(openEngine(device, threads), findPolicy(path), { tuning: 'none' });
}

export interface GenerateRequest {
  /** The user's words. */
  readonly prompt: string;
  readonly system?: string;
  /** What stands before the words. */
  readonly pictures?: readonly Picture[];
  /** Responses; 1 when absent. */
  readonly samples?: number;
  /** 0 (when absent): greedy. */
  readonly temperature?: number;
  /** Longest response, in tokens; 256 when absent. */
  readonly maxTokens?: number;
  /** Of sampling; 0 when absent. */
  readonly seed?: number;
  readonly signal?: AbortSignal;
}

/**
 * Responses of a policy to one prompt. Equal seeds give equal responses.
 * @throws ConfigError for an option out of its range; DataError for a picture that cannot be shown, or a prompt that is too long
 */
export async function generate(policy: Policy, request: GenerateRequest): Promise<Sampled[]> {
  const [{ generate: sample }, { encode }] = await Promise.all([
    import('./policy/generate.ts'),
    import('./run/generate-text.ts'),
  ]);
  const {
    prompt,
    system,
    pictures = [],
    samples = 1,
    temperature = 0,
    maxTokens = 256,
    seed = 0,
    signal,
  } = request;
  const named = pictures.map((picture, i) => ({ file: `picture ${i}`, picture }));
  const encoded = encode(policy, { prompt, system, pictures: named });
  const options = { samples, temperature, maxTokens, seed, ...(signal === undefined ? {} : { signal }) };
  return sample(policy, [encoded], options);
}

/** As the options of `timeseer explain`; what is absent is as there. */
export type ExplainOptions = Partial<Omit<ExplainRequest, 'detect'>> &
  Partial<Omit<ExplainRequest['detect'], 'file'>>;

/**
 * Explains a file of numbers as `timeseer explain` does: findings by the classical detector and, unless `policy` is another or `none`, what
 * the policy says that comes with timeseer, as a record, a page and JSON. @throws DataError for a file that cannot be read; others as the command
 */
export async function explain(file: string, options: ExplainOptions = {}): Promise<Explained> {
  const { explainFile } = await import('./run/explain.ts');
  const {
    since,
    out,
    policy,
    engine,
    device,
    window,
    overlap,
    columns = [],
    time,
    key,
    select,
    tz,
    ...detect
  } = options;
  return explainFile({
    detect: { ...detect, file, columns, time, key, select, tz },
    ...{ since, out, policy, engine, device, window, overlap },
  });
}

/** As the options of `timeseer eval`. */
export type EvaluateOptions = Partial<Omit<EvalRequest, 'policy' | 'data'>> & {
  /** Directories, `openai:MODEL@URL`, `baseline:NAME`, or modules of the user. */
  readonly policy: string | readonly string[];
  /** Generators or directories of prepared data sets. */
  readonly task?: string | readonly string[];
};

/** Evaluates policies on tasks as `timeseer eval` does; one on one is `single`, otherwise a leaderboard. @throws as the command */
export async function evaluate({ policy, task, ...given }: EvaluateOptions): Promise<Evaluation> {
  const { runEval } = await import('./run/eval.ts');
  const list = (value: string | readonly string[]): readonly string[] =>
    typeof value === 'string' ? [value] : value;
  return runEval({
    ...{ split: 'test', shots: 0, reasoning: 'on', temperature: '0', samples: 1, workers: 2, device: 'cpu' },
    ...{
      concurrency: 8,
      timeout: 300,
      attempts: 6,
      resume: false,
      force: false,
      classical: true,
      quiet: true,
    },
    ...{ adapter: undefined, seed: undefined, count: undefined, length: undefined, input: undefined },
    ...{ digits: undefined, points: undefined, answers: undefined, maxTokens: undefined, prices: undefined },
    ...{ requestsPerMinute: undefined, tokensPerMinute: undefined, keyVariable: undefined, out: undefined },
    ...given,
    policy: list(policy),
    data: task === undefined ? undefined : list(task),
  } as EvalRequest);
}

export interface TrainOptions {
  /** Directory of the run. */
  readonly out: string;
  /** By name, or path of a .yaml file; `quickstart` when absent. */
  readonly recipe?: string;
  /** Keys of the recipe with other values: `sft.samples=10000`. */
  readonly set?: readonly string[];
  /** Rewards by name or file: `task`, `./mine.ts`. */
  readonly reward?: readonly string[];
  readonly device?: string;
  readonly resume?: boolean;
  readonly force?: boolean;
  readonly quiet?: boolean;
}

/** Trains, evaluates and reports as `timeseer quickstart` does with a recipe. @throws as the command */
export async function train(options: TrainOptions): Promise<QuickstartResult> {
  const { runQuickstart } = await import('./run/quickstart.ts');
  const {
    out,
    recipe,
    set = [],
    reward = [],
    device = 'cpu',
    resume = false,
    force = false,
    quiet = true,
  } = options;
  const rewards = reward.length === 0 ? [] : [`reward=${JSON.stringify(reward)}`];
  return runQuickstart({ out, recipe, set: [...set, ...rewards], device, resume, force, quiet });
}

/** What the classical analyses find in a series, as ExpCoT reads it. @throws DataError for values that cannot be analysed */
export async function analyse(values: Float64Array): Promise<Evidence> {
  const { analyse: evidenceOf } = await import('./expcot/evidence.ts');
  return evidenceOf(values);
}

/**
 * The picture of a series as a policy is shown it.
 * @param preset name of a figure: `anomllm`, `nano`, …  @throws ConfigError for an unknown one
 */
export async function render(
  values: Float64Array | readonly Float64Array[],
  preset = 'anomllm',
): Promise<Picture> {
  const [{ figure }, raster] = await Promise.all([import('./plot/figure.ts'), import('./plot/raster.ts')]);
  const channels = Array.isArray(values) ? (values as readonly Float64Array[]) : null;
  const named = channels === null ? {} : { channels: channels.map((_, i) => `channel ${i}`) };
  return raster.render(figure(preset, named), values as Float64Array);
}

/** A picture as a PNG file. */
export async function encodePng(picture: Picture): Promise<Buffer> {
  const { encodePng: encode } = await import('./plot/png.ts');
  return encode(picture);
}
