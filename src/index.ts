/**
 * `timeseer`: what the command line composes, for programs and for modules of the user. What computes is loaded when it is first called;
 * errors are those of `TimeseerError`'s kinds, whose message says what, where and how to mend it.
 *
 * - Your own code: `defineReward` (recipes, `--reward`), `defineAdvantage` (`rl.advantage: ./FILE`), `definePolicy` and `defineDetector` (`eval --policy FILE`), `defineTask`
 *   (`data prepare FILE`)
 * - Policies: `openPolicy`; training and evaluation of whole runs: `train`, `evaluate`
 * - Files and series: `explain`, `analyse`, `render`, `encodePng`
 * - Metrics: `localisation`, `localisationReward`, `affiliation`, `pointF1`, `accuracyReward`, `formatReward`, `combine`
 *
 * `timeseer/series` has the classical analyses one by one.
 */

import type { AskRequest, PolicyAnswer } from './answer/ask.ts';
import type { OpenOptions } from './answer/open.ts';
import type { Evidence } from './expcot/evidence.ts';
import type { AnomalyReport } from './explain/schema.ts';
import type { Picture } from './ground/types.ts';
import type { EvalRequest, Evaluation } from './run/eval.ts';
import type { Explained, ExplainRequest } from './run/explain.ts';
import type { QuickstartResult } from './run/quickstart.ts';

export { defineTask, type TaskDefinition, type TaskExample, type TaskRequest } from '../datasets/define.ts';
export { type Affiliation, affiliation } from '../rewards/affiliation.ts';
export { type Localisation, localisation, localisationReward } from '../rewards/anomseer.ts';
export {
  defineReward,
  type RewardDefinition,
  type RewardOutcome,
  type RewardRequest,
  type RewardResult,
} from '../rewards/define.ts';
export { accuracyReward, type CombinedReward, combine, formatReward } from '../rewards/reward.ts';
export {
  type Detection,
  type DetectorDefinition,
  defineDetector,
  definePolicy,
  type PolicyDefinition,
  type PolicyOutcome,
  type PolicyRequest,
  type Question,
} from './answer/define.ts';
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
export type {
  AnomalyReport,
  AskRequest,
  Evaluation,
  Evidence,
  Explained,
  OpenOptions,
  PolicyAnswer,
  QuickstartResult,
};

/** A policy, an endpoint, a baseline or a module of the user, opened. */
export interface OpenedPolicy {
  /** Name in tables. */
  readonly name: string;
  /**
   * Answers a question, in as many samples as it asks for. Equal seeds give equal responses.
   * @throws DataError for a picture, prompt or series that cannot be answered; ConfigError for an option out of its range
   */
  ask(request: AskRequest): Promise<PolicyAnswer[]>;
  /** Frees weights and threads. */
  dispose(): Promise<void>;
}

/**
 * Opens what a reference names: `small`, which ships with timeseer; the directory of a Qwen2.5-VL checkpoint, an ONNX export or a run;
 * `openai:MODEL@URL`; `baseline:NAME`; `FILE[#NAME]`, a module of the user. Weights are loaded with the first question.
 *
 *     const policy = await openPolicy('small');
 *     const [answer] = await policy.ask({ prompt: 'Find the anomalies.', pictures: [await render(values, 'nano')] });
 *     await policy.dispose();
 *
 * @throws CheckpointError, ConfigError where nothing is there; EngineError without an engine that computes it
 */
export async function openPolicy(reference: string, options: OpenOptions = {}): Promise<OpenedPolicy> {
  const [door, { ask }] = await Promise.all([import('./answer/open.ts'), import('./answer/ask.ts')]);
  const answerer = await door.openPolicy(reference, options);
  return {
    name: answerer.name,
    ask: (request) => ask(answerer, request),
    dispose: () => answerer.dispose(),
  };
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
  const [{ figure }, { linesOf }, raster] = await Promise.all([
    import('./plot/figure.ts'),
    import('./tasks/drawing.ts'),
    import('./plot/raster.ts'),
  ]);
  if (values instanceof Float64Array) {
    const shape = figure(preset);
    // Some figures draw lines that are computed from the series, such as its deviations.
    return raster.render(shape, linesOf(shape, values));
  }
  const channels = values.map((_, i) => `channel ${i}`);
  return raster.render(figure(preset, { channels }), values);
}

/** A picture as a PNG file. */
export async function encodePng(picture: Picture): Promise<Buffer> {
  const { encodePng: encode } = await import('./plot/png.ts');
  return encode(picture);
}
