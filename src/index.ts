/**
 * `timeseer` as a library: the functions behind the command line, for programs and user modules. Implementations are imported on first use.
 * All errors, unknown options included, are subclasses of `TimeseerError` whose message says what is wrong, where, and how to fix it.
 *
 * - Your own code: `defineReward` (recipes, `--reward`), `defineAdvantage` (`rl.advantage: ./FILE`), `defineTool` (`inspect.tools`),
 *   `definePolicy` and `defineDetector` (`eval --policy FILE`), `defineTask` (`data prepare FILE`)
 * - Values: `detect`, `openExamples`, `sft`, `rl`, `analyse`, `render`, `encodePng`
 * - Policies: `openPolicy`
 * - Files and runs: `explain`, `evaluate`, `runRecipe`
 * - Metrics: `localisation`, `localisationReward`, `affiliation`, `pointF1`, `accuracyReward`, `formatReward`, `combine`
 *
 * `timeseer/series` exports the classical analyses individually.
 */

import type { ExampleSource } from '../datasets/source.ts';
import type { AskRequest, PolicyAnswer } from './answer/ask.ts';
import type { OpenOptions } from './answer/open.ts';
import type { DetectOptions as DetectorOptions } from './detect/detect.ts';
import type { Detection } from './detect/finding.ts';
import type { Evidence } from './expcot/evidence.ts';
import type { AnomalyReport } from './explain/schema.ts';
import { ConfigError, DataError, suggestion } from './ground/errors.ts';
import type { Picture } from './ground/types.ts';
import type { Explained, ExplainRequest } from './run/detect.ts';
import type { EvalRequest, Evaluation } from './run/eval.ts';
import type { QuickstartResult } from './run/quickstart.ts';
import type { RlRequest, SftRequest, TrainedPolicy } from './run/train-values.ts';

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
  type DetectorDefinition,
  type DetectorOutcome,
  defineDetector,
  definePolicy,
  type PolicyDefinition,
  type PolicyOutcome,
  type PolicyRequest,
  type Question,
} from './answer/define.ts';
export type { Finding } from './detect/finding.ts';
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
export { defineTool, type ToolDefinition, type ToolOutcome, type ToolRequest } from './inspect/define.ts';
export { pointF1 } from './series/intervals.ts';
export {
  type AdvantageDefinition,
  defineAdvantage,
  type GroupRecord as AdvantageGroup,
} from './train/advantage.ts';
export type { Completion, RlMetrics, SftMetrics } from './train/metrics.ts';
export type {
  AnomalyReport,
  AskRequest,
  Detection,
  Evaluation,
  Evidence,
  ExampleSource,
  Explained,
  OpenOptions,
  PolicyAnswer,
  QuickstartResult,
  RlRequest,
  SftRequest,
  TrainedPolicy,
};

/** Checks an options object. @param keys known keys, separated by spaces @throws ConfigError if it is no object or has an unknown key */
function checkOptions(name: string, options: unknown, keys: string): void {
  const known = keys.split(' ');
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw new ConfigError(`${name}(): options: got ${String(options)}, expected an object`);
  }
  const unknown = Object.keys(options).find((key) => !known.includes(key));
  if (unknown === undefined) return;
  throw new ConfigError(
    `${name}(): unknown option ${unknown}.${suggestion(unknown, known)} Known: ${known.join(', ')}`,
  );
}

/** Checks the series of `render` and `analyse`. @throws DataError for anything but channels as Float64Arrays */
function checkChannels(name: string, channels: readonly unknown[]): void {
  if (channels.length === 0) throw new DataError(`${name}(): values: got no channel, expected at least one`);
  const wrong = channels.findIndex((channel) => !(channel instanceof Float64Array));
  if (wrong < 0) return;
  throw new DataError(
    `${name}(): values: got ${String(channels[wrong])}, expected a Float64Array; convert with Float64Array.from`,
  );
}

/** An opened policy, endpoint, baseline or user module. */
export interface OpenedPolicy {
  /** Name in tables. */
  readonly name: string;
  /**
   * Answers a question with `samples` responses, reproducible by `seed`.
   * @throws DataError for an invalid picture, prompt or series; ConfigError for an option out of range
   */
  ask(request: AskRequest): Promise<PolicyAnswer[]>;
  /** Frees weights and threads. */
  dispose(): Promise<void>;
}

/**
 * Opens the policy that a reference names: `small` or `inspect` (which ship with timeseer); the directory of a Qwen2.5-VL checkpoint, an ONNX export or a
 * run; `openai:MODEL@URL`; `baseline:NAME`; `FILE[#NAME]` (a user module). Weights are loaded on the first question.
 *
 *     const policy = await openPolicy('small');
 *     const [answer] = await policy.ask({ prompt: 'Find the anomalies.', pictures: [await render(values, 'nano')] });
 *     await policy.dispose();
 *
 * @throws CheckpointError, ConfigError if the reference names nothing; EngineError if no installed engine can run it
 */
export async function openPolicy(reference: string, options: OpenOptions = {}): Promise<OpenedPolicy> {
  checkOptions('openPolicy', options, 'engine device threads dtype adapter merge endpoint quiet');
  const [opener, { ask }] = await Promise.all([import('./answer/open.ts'), import('./answer/ask.ts')]);
  const answerer = await opener.openPolicy(reference, options);
  return {
    name: answerer.name,
    ask: async (request) => {
      checkOptions(
        'ask',
        request,
        'prompt system pictures values samples temperature maxTokens seed signal onText',
      );
      return ask(answerer, request);
    },
    dispose: () => answerer.dispose(),
  };
}

/** Options of `timeseer explain`, with its defaults. */
export type ExplainOptions = Partial<Omit<ExplainRequest, 'detect'>> &
  Partial<Omit<ExplainRequest['detect'], 'file'>>;

/**
 * Explains a file of numbers as `timeseer explain` does: findings of the classical detector and answers of `policy` (default:
 * `small`; `none`: no policy), as an object, an HTML page and a JSON file.
 * @throws DataError for a file that cannot be read; otherwise as the command
 */
export async function explain(file: string, options: ExplainOptions = {}): Promise<Explained> {
  checkOptions(
    'explain',
    options,
    'severity direction relativeFloor absoluteFloor columns time key select tz keepSentinels ' +
      'decimal rate history since out policy engine device window overlap',
  );
  const { explainFile } = await import('./run/detect.ts');
  const { since, out, policy, engine, device, window, overlap, columns = [], ...detect } = options;
  const { time, key, select, tz } = options;
  return explainFile({
    detect: { ...detect, file, columns, time, key, select, tz },
    ...{ since, out, policy, engine, device, window, overlap },
  });
}

/** Options of `timeseer eval`, with its defaults. */
export type EvaluateOptions = Partial<Omit<EvalRequest, 'policy' | 'data'>> & {
  /** Directories, `openai:MODEL@URL`, `baseline:NAME`, or user modules. */
  readonly policy: string | readonly string[];
  /** Generators or directories of prepared data sets. */
  readonly task?: string | readonly string[];
};

/** Evaluates policies on tasks as `timeseer eval` does: kind `single` for one policy on one task, else a leaderboard. @throws as the command */
export async function evaluate(options: EvaluateOptions): Promise<Evaluation> {
  checkOptions(
    'evaluate',
    options,
    'policy task adapter split seed count length input digits points shots reasoning temperature ' +
      'samples extension judge reward answers maxTokens workers engine device concurrency ' +
      'requestsPerMinute tokensPerMinute timeout attempts prices keyVariable out resume force ' +
      'classical quiet',
  );
  const { policy, task, ...given } = options;
  const { runEval } = await import('./run/eval.ts');
  const list = (value: string | readonly string[]): readonly string[] =>
    typeof value === 'string' ? [value] : value;
  return runEval({
    ...{ split: 'test', shots: 0, reasoning: 'on', temperature: '0', samples: 1, workers: 2, device: 'cpu' },
    ...{ concurrency: 8, timeout: 300, attempts: 6, resume: false, force: false, classical: true },
    quiet: true,
    ...given,
    policy: list(policy),
    data: task === undefined ? undefined : list(task),
  } as EvalRequest);
}

/** Options of `runRecipe`. */
export interface RunRecipeOptions {
  /** Directory of the run. */
  readonly out: string;
  /** Name of a recipe, or path of a .yaml file. Default: `quickstart`. */
  readonly recipe?: string;
  /** Recipe settings: `sft.samples=10000`. */
  readonly set?: readonly string[];
  /** Rewards by name or file: `task`, `./mine.ts`. */
  readonly reward?: readonly string[];
  readonly device?: string;
  readonly resume?: boolean;
  readonly force?: boolean;
  readonly quiet?: boolean;
}

/** Trains, evaluates and reports as `timeseer quickstart` does with a recipe, in worker threads. @throws as the command */
export async function runRecipe(options: RunRecipeOptions): Promise<QuickstartResult> {
  checkOptions('runRecipe', options, 'out recipe set reward device resume force quiet');
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

/**
 * Runs supervised fine-tuning on expert traces in the current thread; `onStep` receives the metrics of each step. The policy is written to
 * `out`, or to a temporary directory that is removed when the process ends.
 * @throws ConfigError for an unknown option or a wrong value; DataError, CheckpointError, EngineError
 */
export async function sft(request: SftRequest): Promise<TrainedPolicy> {
  const { trainSupervised } = await import('./run/train-values.ts');
  return trainSupervised(request);
}

/**
 * Runs reinforcement learning in the current thread; rewards and advantage estimators may be functions. Otherwise like `sft`.
 * @throws as `sft`; RewardError and AdvantageError for a function that throws or returns anything but finite numbers
 */
export async function rl(request: RlRequest): Promise<TrainedPolicy> {
  const { trainByReinforcement } = await import('./run/train-values.ts');
  return trainByReinforcement(request);
}

/** Options of `openExamples`. */
export interface OpenExamplesOptions {
  /** Default: `test`. */
  readonly split?: 'train' | 'validation' | 'test';
  /** Maximum number of examples (random sample of a data set). Default: all of a data set, 100 of a generator. */
  readonly count?: number;
  /** Seed of a generator, or of the random sample. Default: 42. */
  readonly seed?: number;
  /** Points per series of a generator. Default: 1000. */
  readonly length?: number;
}

/**
 * Opens the examples of a generator (`nano5`, `anomllm/trend`, …) or of a data set directory: iterable, and `at(index)`.
 * @throws ConfigError for an unknown name or option; DataError for a damaged directory
 */
export async function openExamples(name: string, options: OpenExamplesOptions = {}): Promise<ExampleSource> {
  checkOptions('openExamples', options, 'split count seed length');
  const { split = 'test', count, seed = 42, length = 1000 } = options;
  const source = await import('../datasets/source.ts');
  const limit = count ?? (source.isGenerator(name) ? 100 : undefined);
  return source.openExamples({ name, split, seed, length, ...(limit === undefined ? {} : { count: limit }) });
}

/** Options of `detect`. */
export type DetectOptions = Pick<
  DetectorOptions,
  'severity' | 'direction' | 'relativeFloor' | 'absoluteFloor'
>;

/**
 * Detects anomalies in one series by the classical detector. Returns findings by falling severity, with score and expected value of each
 * sample.
 * @param values [N], NaN where missing
 * @param times [N], ms since 1970 or dates, evenly spaced and ascending; used to look for daily and weekly seasons, and in daily series for days of a month
 * @throws DataError for values that cannot be analysed or unevenly spaced times; ConfigError for an option out of range
 */
export async function detect(
  values: ArrayLike<number>,
  times: ArrayLike<number | Date> | null = null,
  options: DetectOptions = {},
): Promise<Detection> {
  checkOptions('detect', options, 'severity direction relativeFloor absoluteFloor');
  const { detectValues } = await import('./run/detect.ts');
  return detectValues(values, times, options);
}

/** Computes the classical evidence from which expert traces (ExpCoT) are written. @throws DataError for values that cannot be analysed */
export async function analyse(values: Float64Array): Promise<Evidence> {
  checkChannels('analyse', [values]);
  const { analyse: evidenceOf } = await import('./expcot/evidence.ts');
  return evidenceOf(values);
}

/**
 * Draws a series as a policy sees it.
 * @param preset name of a figure: `anomllm`, `nano`, …
 * @throws ConfigError for an unknown figure; DataError for values that are no Float64Arrays
 */
export async function render(
  values: Float64Array | readonly Float64Array[],
  preset = 'anomllm',
): Promise<Picture> {
  checkChannels('render', Array.isArray(values) ? values : [values]);
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
  const shape = figure(preset, { channels });
  return raster.render(
    shape,
    values.flatMap((channel) => linesOf(shape, channel)),
  );
}

/** Encodes a picture as a PNG file. */
export async function encodePng(picture: Picture): Promise<Buffer> {
  const { encodePng: encode } = await import('./plot/png.ts');
  return encode(picture);
}
