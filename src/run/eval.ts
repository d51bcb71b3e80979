/** Evaluation of policies and classical baselines on held-out examples: metrics and leaderboard. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type ExampleAddress, type ExampleSource, isGenerator, openExamples } from '../../datasets/source.ts';
import { classicalAnswers } from '../../eval/baselines.ts';
import { checkResults, INTERVENTIONS_DIRECTORY } from '../../eval/eval-manifest.ts';
import type { EvalForm } from '../../eval/harness.ts';
import {
  type Leaderboard,
  type LeaderboardRow,
  leaderboardCsv,
  leaderboardMarkdown,
  leaderboardOf,
  leaderboardPage,
  REWARD,
  rowMetrics,
} from '../../eval/leaderboard.ts';
import { type Metrics, overallOf } from '../../eval/metrics.ts';
import { interventionsOn, openingsOf, type Reliance, relianceOf } from '../../eval/reliance.ts';
import { RunDirectory, runOf } from '../../eval/run-directory.ts';
import type { ResponseUsage } from '../../eval/usage.ts';
import { type Answerer, type EngineName, remedyFor } from '../answer/answerer.ts';
import { baselineData, quickBaselines } from '../answer/baselines.ts';
import { type OpenOptions, openPolicy } from '../answer/open.ts';
import { INTERVENTION_NAMES } from '../claims/intervene.ts';
import { ConfigError, DataError, EndpointError } from '../ground/errors.ts';
import { writeFileAtomic, writeJson } from '../ground/files.ts';
import { checkWhole } from '../ground/json-record.ts';
import { takeLock } from '../ground/lock.ts';
import { isDirectory } from '../ground/paths.ts';
import { parseShard, type Shard } from '../ground/shard.ts';
import { say } from '../ground/terminal.ts';
import { isModuleSpecifier } from '../ground/user-module.ts';
import { changedRecipe, rewardOverride } from '../recipe/config.ts';
import { defaultRecipe, type Recipe, type RewardRecipe } from '../recipe/recipe.ts';
import { cardDirectory, type NumbersFormat, type PolicyCard, readCard } from '../tasks/card.ts';
import type { MetricSet } from '../tasks/evaluation.ts';
import type { Reading } from '../tasks/response.ts';
import { type CellRequest, type CellResult, evaluateCell } from './eval-cell.ts';
import { shotSource } from './few-shot.ts';
import { withInspect } from './inspect-task.ts';
import { openJudge } from './judging.ts';
import { evaluationCard, foreignCard, mismatches, withExtension } from './policy-task.ts';
import { type PromptTokens, promptTokens } from './prompt-length.ts';
import { checkRewards } from './rewards.ts';
import { checkSameData } from './run-data.ts';

export interface EvalRequest {
  readonly policy: readonly string[];
  readonly adapter: string | undefined;
  readonly data: readonly string[] | undefined;
  readonly split: 'train' | 'validation' | 'test';
  readonly seed: number | undefined;
  readonly count: number | undefined;
  readonly length: number | undefined;
  readonly input: 'picture' | 'numbers' | undefined;
  readonly digits: number | undefined;
  readonly points: number | undefined;
  readonly shots: number;
  readonly reasoning: 'on' | 'off';
  /** One temperature, or several separated by commas. */
  readonly temperature: string;
  readonly samples: number;
  /** True: ask for advice after the answer. A policy trained to give it is always asked. */
  readonly extension?: boolean;
  /** True: let the policy look closer over several turns. A policy trained to always does. */
  readonly inspect?: boolean;
  /** Forms of an inspection, each of which implies one. Default: tools, and turns as they are. */
  readonly runtime?: 'tools' | 'code' | undefined;
  readonly history?: 'turns' | 'optical' | undefined;
  /** Levels of windows that a small policy is shown one after the other, without calling for them. */
  readonly tour?: number | undefined;
  /** Judge of the advice: `rules` (default), openai:MODEL@URL, or none. */
  readonly judge?: string | undefined;
  /** Additional rewards to compute, written as in a recipe. */
  readonly reward?: readonly string[];
  readonly answers: Reading | undefined;
  /** True: also continue from changed reasonings, and measure whether the answers follow. */
  readonly intervene?: boolean;
  readonly maxTokens: number | undefined;
  readonly workers: number;
  /** Engine of local policies. Default: the one available. */
  readonly engine?: EngineName | undefined;
  readonly device: string;
  /** Maximum concurrent requests to an endpoint. */
  readonly concurrency: number;
  readonly requestsPerMinute: number | undefined;
  readonly tokensPerMinute: number | undefined;
  /** Timeout of a request in seconds. */
  readonly timeout: number;
  /** Maximum attempts per request. */
  readonly attempts: number;
  /** Prices per million prompt and completion tokens, separated by a comma. */
  readonly prices: string | undefined;
  /** Environment variable with the key of an endpoint. */
  readonly keyVariable: string | undefined;
  readonly out: string | undefined;
  /** Part of the examples, e.g. 2/4; the answers of all parts are put together by --resume. */
  readonly shard?: string | undefined;
  readonly resume: boolean;
  readonly force: boolean;
  readonly classical: boolean;
  readonly quiet: boolean;
}

/** Default length of a generated series, in points. */
const DEFAULT_LENGTH = 1000;
/** Default format of numbers in prompts. */
const DEFAULT_NUMBERS: NumbersFormat = { digits: 3, points: 250 };
/** Default data for a policy outside of a run. */
const DEFAULT_DATA = 'nano5';
/** Directory in which prepared data sets are found by name. */
const DATA_DIRECTORY = 'data';
/** Default number of generated examples; data sets are used whole. */
const DEFAULT_COUNT = 400;
/** Timeout of the judge for one response. */
const JUDGE_SECONDS = 300;
/** Default maximum response length in tokens of a policy outside of a run, by its style. */
const DEFAULT_MAX_TOKENS = { nano: 96, full: 1024 } as const;

function check(given: EvalRequest): void {
  // Same bounds as for the recipe keys.
  for (const [name, value, least, most] of [
    ['count', given.count, 1, 1e7],
    ['samples', given.samples, 1, 1024],
    ['shots', given.shots, 0, 64],
    ['concurrency', given.concurrency, 1, 4096],
    ['attempts', given.attempts, 1, 100],
    ['requests-per-minute', given.requestsPerMinute, 1, 1e9],
    ['tokens-per-minute', given.tokensPerMinute, 1, 1e12],
    ['max-tokens', given.maxTokens, 1, 1 << 17],
    ['workers', given.workers, 1, 256],
    ['digits', given.digits, 1, 17],
    ['points', given.points, 2, 1e6],
    ['seed', given.seed, 0, Number.MAX_SAFE_INTEGER],
    ['length', given.length, 2, 1e6],
  ] as const) {
    checkWhole(name, value, least, most);
  }
}

/** Parses --shard. @throws ConfigError */
function shardOf({ shard: text, out, force, intervene }: EvalRequest): Shard | null {
  const shard = parseShard(text);
  if (shard === null) return null;
  if (out === undefined) throw new ConfigError('--shard: needs --out, a directory that all parts share');
  if (force || intervene === true) {
    const other = force ? 'force' : 'intervene';
    throw new ConfigError(
      `--shard and --${other}: give --${other} in the command that puts the parts together`,
    );
  }
  return shard;
}

/** Parses --temperature into distinct temperatures, in the order given. @throws ConfigError */
function temperaturesOf(text: string): readonly number[] {
  const temperatures = String(text)
    .split(',')
    .map((part) => (part.trim() === '' ? Number.NaN : Number(part)));
  if (temperatures.some((value) => !(value >= 0 && value <= 10))) {
    throw new ConfigError(
      `--temperature: got ${text}, expected a number from 0 to 10, or several separated by commas`,
    );
  }
  if (new Set(temperatures).size < temperatures.length)
    throw new ConfigError(`--temperature: ${text} names a temperature twice`);
  return temperatures;
}

/** Wraps a logger to pass at most one message a minute. */
function throttled(log: (message: string) => void): (message: string) => void {
  let last = Number.NEGATIVE_INFINITY;
  return (message) => {
    if (performance.now() - last < 60_000) return;
    last = performance.now();
    log(message);
  };
}

/** Returns the options of endpoints. @throws ConfigError */
function endpointOf(given: EvalRequest): NonNullable<OpenOptions['endpoint']> {
  const { concurrency, requestsPerMinute, tokensPerMinute, timeout, attempts, keyVariable, prices } = given;
  const [prompt, completion, ...more] = prices
    ?.split(',')
    .map((part) => (part.trim() === '' ? -1 : Number(part))) ?? [0, 0];
  if (!(prompt! >= 0 && completion! >= 0) || more.length > 0) {
    throw new ConfigError(
      `--prices: got ${prices}, expected prices per million prompt and completion tokens, e.g. 0.15,0.6`,
    );
  }
  return {
    ...{ concurrency, requestsPerMinute, tokensPerMinute, timeout, attempts, keyVariable },
    ...(prices === undefined ? {} : { prices: { prompt: prompt!, completion: completion! } }),
    onRetry: given.quiet
      ? undefined
      : throttled((message) => say(`eval: ${message}; further retries are reported once a minute`)),
  };
}

/** Reads the recipe of a policy's run; undefined outside of a run. */
function recipeOfRun(policy: string): Recipe | undefined {
  const run = runOf(policy);
  return run === undefined ? undefined : new RunDirectory(run).recipe;
}

/** Warns when the data of a policy's run have changed: examples held out now may have been trained on. */
function warnOfChange(policy: string, name: string): void {
  const run = runOf(policy);
  if (run === undefined) return;
  try {
    checkSameData(run, name);
  } catch (error) {
    if (!(error instanceof DataError)) throw error;
    say(`warning: ${error.message}`);
  }
}

/** Evaluates every classical detector on the same examples. Does not pick the best: that would need a validation split. */
async function classicalMetrics({ source, address }: OpenTask): Promise<Record<string, MetricSet>> {
  const { kind, classes } = source.facts;
  const answers = await classicalAnswers([...source], baselineData(address, kind));
  return Object.fromEntries(
    Object.entries(answers).map(([detector, list]) => [detector, overallOf(list, { classes })]),
  );
}

/** Returns the temperature with the highest mean reward; ties go to the lower one. */
export function bestTemperature(sets: readonly (readonly [temperature: number, set: Metrics])[]): number {
  const ranked = sets.toSorted(
    ([a, first], [b, second]) => second.overall.reward.mean - first.overall.reward.mean || a - b,
  );
  return ranked[0]![0];
}

/** Task to evaluate on. */
interface OpenTask {
  /** Name in tables. */
  readonly name: string;
  readonly address: ExampleAddress;
  readonly source: ExampleSource;
}

/** Resolves a generator, the directory of a prepared data set, or its name in `data`. */
function directoryOf(name: string): string {
  if (isGenerator(name) || existsSync(name)) return name;
  const prepared = join(DATA_DIRECTORY, name);
  return existsSync(prepared) ? prepared : name;
}

/** Opens the named tasks. @throws ConfigError for a name that is unknown or given twice */
function openTasks(given: EvalRequest, names: readonly string[], defaultLength: number): OpenTask[] {
  const { split, seed = 42 } = given;
  const tasks = names.map((named): OpenTask => {
    const name = directoryOf(named);
    const generated = isGenerator(name);
    const { length = defaultLength } = given;
    const count = given.count ?? (generated ? DEFAULT_COUNT : undefined);
    const address = { name, split, seed, length, ...(count === undefined ? {} : { count }) };
    const source = openExamples(address);
    if (given.length !== undefined && !generated) {
      throw new ConfigError(`--length: only generators take it, and ${name} is a data set; leave it out`);
    }
    return { name: named, address, source };
  });
  const twice = tasks.find(
    ({ address }, i) => tasks.findIndex((task) => task.address.name === address.name) < i,
  );
  if (twice !== undefined) throw new ConfigError(`--task: ${twice.name} is given twice`);
  return tasks;
}

/** Returns the address for results: a prepared data set has a length of its own, or several. */
function shownAddress({ address: { length: generated, ...address }, source }: OpenTask): object {
  const length = source.set === null ? generated : source.facts.length;
  return { ...address, ...(length === null ? {} : { length }) };
}

/** Policy on a task, with its card and questions. */
interface Cell {
  readonly policy: Answerer;
  readonly task: OpenTask;
  readonly card: PolicyCard;
  readonly format: NumbersFormat;
  readonly form: EvalForm;
}

/** Settles card, number format and prompt form for a policy on a task. @throws ConfigError if it cannot answer in this form */
function cellOf(policy: Answerer, task: OpenTask, given: EvalRequest): Cell {
  const { local } = policy;
  const { facts } = task.source;
  const checkpoint = local === null ? null : cardDirectory(local.directory, local.adapter);
  const baseCard = checkpoint === null ? foreignCard(facts, null) : evaluationCard(checkpoint, facts);
  const defaults = baseCard.numbers ?? DEFAULT_NUMBERS;
  const format: NumbersFormat = {
    digits: given.digits ?? defaults.digits,
    points: given.points ?? defaults.points,
  };
  const readsNumbers = given.input === undefined ? baseCard.numbers !== null : given.input === 'numbers';
  const numbers = readsNumbers ? format : null;
  const plain = { ...baseCard, numbers };
  const addsExtension = given.extension === true && policy.reads === 'prompt' && plain.extension !== true;
  if (addsExtension && plain.style === 'nano') {
    throw new ConfigError(
      `--extension: ${policy.given} was not trained to give advice; train a policy with --set extension.ask=true`,
    );
  }
  const advising = addsExtension ? withExtension(plain, facts) : plain;
  const { runtime, history, tour } = given;
  const asked = given.inspect === true || runtime === 'code' || history === 'optical' || tour !== undefined;
  const card = asked && policy.reads === 'prompt' ? withInspect(advising, facts, given) : advising;
  if (card.inspect !== undefined) {
    if (given.shots > 0) throw new ConfigError('--shots: an inspection has turns of its own; leave it out');
    if (given.intervene === true)
      throw new ConfigError('--intervene: an inspection has no single reasoning; leave it out');
  }
  if (checkpoint !== null) for (const text of mismatches(checkpoint, card, facts)) say(`warning: ${text}`);
  const reasoning = given.reasoning === 'on' && card.reasoning !== false;
  if (!reasoning && card.style === 'nano' && card.reasoning !== false) {
    throw new ConfigError(
      `--reasoning off: ${policy.given} always answers with reasoning, as it was trained; leave it out`,
    );
  }
  const ofRun = local === null ? undefined : recipeOfRun(policy.given);
  const seed = given.seed ?? 42;
  const shots = given.shots === 0 ? null : { count: given.shots, seed };
  if (shots !== null && policy.reads === 'prompt') shotSource(task.address);
  return {
    ...{ policy, task, card, format },
    form: {
      ...{ numbers, shots, reasoning, seed },
      ...(card.extension === true ? { extension: true } : {}),
      ...(card.inspect === undefined ? {} : { inspect: card.inspect }),
      reading: given.answers ?? ofRun?.answers ?? 'lenient',
      maxTokens:
        given.maxTokens ??
        (card.style === 'nano' ? ofRun?.eval.maxTokens : undefined) ??
        DEFAULT_MAX_TOKENS[card.style],
    },
  };
}

/** Resolves the additional rewards. @throws ConfigError for a missing module */
function rewardsOf({ reward = [] }: EvalRequest): readonly RewardRecipe[] {
  if (reward.length === 0) return [];
  return changedRecipe(defaultRecipe(), [rewardOverride(reward)]).reward!;
}

function requestOf(
  { policy, task, card, form }: Cell,
  given: EvalRequest,
  temperatures: readonly number[],
  at: Pick<CellRequest, 'out' | 'label'>,
): CellRequest {
  return {
    ...{ policy, card, address: task.address, source: task.source, form, temperatures },
    ...{ samples: given.samples, beginning: given, silent: given.quiet, ...at },
    ...{ device: given.device, workers: given.workers },
    shard: shardOf(given),
    judge:
      card.extension !== true || given.judge === 'none'
        ? null
        : openJudge(given.judge ?? 'rules', JUDGE_SECONDS),
    rewards: rewardsOf(given),
  };
}

/** Checks that interventions are possible. @throws ConfigError naming what does not fit */
function checkIntervene({ policy }: Cell, temperatures: readonly number[]): void {
  if (policy.reads === 'prompt' && policy.continues !== true) {
    throw new ConfigError(
      `--intervene: ${policy.given} is a module, which cannot continue a response that was begun; give a policy directory or an endpoint`,
    );
  }
  if (!temperatures.includes(0)) {
    throw new ConfigError(
      '--intervene: edits greedy responses, and --temperature has no 0; add it, or leave --intervene out',
    );
  }
}

/**
 * Has a policy continue from changed reasonings of its greedy responses; null for answerers without text.
 * @throws DataError where no response has reasoning
 */
async function measureReliance(
  cell: Cell,
  given: EvalRequest,
  { modes }: CellResult,
  { out, label }: Pick<CellRequest, 'out' | 'label'>,
): Promise<{ readonly reliance: Reliance; readonly result: CellResult } | null> {
  // What was begun is part of the results: a resumed evaluation that is not asked again keeps it.
  const begun = given.resume && out !== null && existsSync(join(out, INTERVENTIONS_DIRECTORY));
  if (given.intervene !== true && !(begun && modes.some(({ temperature }) => temperature === 0))) return null;
  if (cell.policy.reads !== 'prompt') {
    say(`${label}: no interventions on ${cell.policy.given}, which writes no reasoning`);
    return null;
  }
  const { records: greedy, usage } = modes.find(({ temperature }) => temperature === 0)!;
  if (usage.missing > 0) {
    // What is edited depends on all responses, so the edits would change once the missing ones are there.
    say(`${label}: interventions wait for the ${usage.missing} missing responses`);
    return null;
  }
  const planned = interventionsOn(greedy, cell.task.source);
  const openings = new Map(planned.map((each) => [each.number, openingsOf(each)]));
  const result = await evaluateCell({
    ...requestOf(cell, given, [0], {
      out: out === null ? null : join(out, INTERVENTIONS_DIRECTORY),
      label: `${label} interventions`,
    }),
    ...{ openings, samples: INTERVENTION_NAMES.length, judge: null, rewards: [] },
  });
  return { reliance: relianceOf(planned, result.modes[0]!.records), result };
}

/** Missing responses. */
export interface Missing {
  readonly count: number;
  readonly asked: number;
  /** Why the evaluation ended early; otherwise why the first missing response failed. */
  readonly reason: string;
  /** Advice of the error that ended the evaluation. */
  readonly advice?: string | undefined;
}

function missingOf(results: readonly CellResult[]): Missing | null {
  const records = results.flatMap(({ modes }) => modes.flatMap((mode) => mode.records));
  const failed = records.filter(({ failure }) => failure !== undefined);
  const [first] = failed;
  const end = results.find(({ failure }) => failure !== null)?.failure ?? null;
  if (first === undefined && end === null) return null;
  const usages = results.flatMap(({ modes }) => modes.map(({ usage }) => usage));
  return {
    count: usages.reduce((sum, { missing }) => sum + missing, 0),
    asked: usages.reduce((sum, { asked }) => sum + asked, 0),
    reason: end?.problem ?? `${first!.seriesId}: ${first!.failure}`,
    advice: end?.advice,
  };
}

/** One policy on one data set. */
export interface SingleEvaluation {
  readonly kind: 'single';
  /** Content of metrics.json. */
  readonly result: object;
  /** Metrics by temperature, in the order asked for. */
  readonly sets: readonly (readonly [temperature: number, metrics: Metrics])[];
  /** Metrics by detector; empty where several temperatures were compared. */
  readonly classical: Readonly<Record<string, MetricSet>>;
  readonly input: 'picture' | 'numbers';
  /** Prompt lengths; null for a policy with an unknown tokenizer. */
  readonly tokens: PromptTokens | null;
  readonly usage: ResponseUsage;
  /** Effects of interventions on the reasoning; null where none were asked for. */
  readonly reliance: Reliance | null;
  /** Title of the data set, and the statement on its split. */
  readonly title: string;
  readonly statement: string | null;
  readonly missing: Missing | null;
}

/** Several policies or data sets. */
export interface BoardEvaluation {
  readonly kind: 'leaderboard';
  /** Content of metrics.json. */
  readonly result: object;
  readonly board: Leaderboard;
  /** Effects of interventions, by task and policy; empty where none were asked for. */
  readonly reliances: readonly {
    readonly task: string;
    readonly policy: string;
    readonly reliance: Reliance;
  }[];
  /** Statements on the splits. */
  readonly statements: readonly string[];
  readonly missing: Missing | null;
}

export type Evaluation = SingleEvaluation | BoardEvaluation;

async function evaluateOne(
  cell: Cell,
  given: EvalRequest,
  temperatures: readonly number[],
): Promise<SingleEvaluation> {
  const { policy, task, card, format, form } = cell;
  const { source } = task;
  const { statement, title } = source.facts;
  const directory = policy.local?.directory ?? null;
  const tokens = directory === null ? null : await promptTokens(directory, card, source, format);
  const out = given.out ?? null;
  const place = { out, label: 'eval' };
  const cellResult = await evaluateCell(requestOf(cell, given, temperatures, place));
  const sets = cellResult.modes.flatMap(({ temperature, metrics }) =>
    metrics === null ? [] : [[temperature, metrics] as const],
  );
  const [first] = sets;
  if (first === undefined || sets.length < cellResult.modes.length)
    throw noAnswer(policy.given, missingOf([cellResult]), out);
  const intervened = await measureReliance(cell, given, cellResult, place);
  const missing = missingOf([cellResult, ...(intervened === null ? [] : [intervened.result])]);
  const reliance = intervened?.reliance ?? null;
  const several = sets.length > 1;
  const [temperature, metrics] = first;
  const classical =
    given.classical && !several && policy.reads === 'prompt' ? await classicalMetrics(task) : {};
  const data = { ...shownAddress(task), title, ...(statement === null ? {} : { statement }) };
  const input = form.numbers === null ? 'picture' : 'numbers';
  const settings = {
    policy: directory ?? policy.given,
    ...{ data, answers: form.reading, input },
    ...(form.shots === null ? {} : { shots: form.shots.count }),
    ...(form.reasoning ? {} : { reasoning: false }),
    ...(cellResult.judged === null ? {} : { extension: cellResult.judged }),
    prompt: tokens,
    ...(reliance === null ? {} : { reliance }),
  };
  const result = several
    ? {
        ...settings,
        best: bestTemperature(sets),
        temperatures: cellResult.modes.map(({ temperature: value, metrics: metricsThere, usage }) => {
          return { temperature: value, metrics: metricsThere, responses: usage };
        }),
      }
    : { ...settings, temperature, metrics, classical, responses: cellResult.modes[0]!.usage };
  if (out !== null && given.shard === undefined) writeJson(join(out, 'metrics.json'), result);
  const { usage } = cellResult.modes[0]!;
  return {
    kind: 'single',
    result,
    sets,
    classical,
    input,
    tokens,
    usage,
    reliance,
    title,
    statement,
    missing,
  };
}

/** Makes the error of a policy that answered nothing. @param given reference of the policy */
function noAnswer(given: string, missing: Missing | null, out: string | null): EndpointError {
  // A corrected module is another policy, whose answers cannot be added to those on disk.
  const option = isModuleSpecifier(given) ? '--force' : '--resume';
  const again = `run the command again${out === null ? '' : ` with ${option}`}`;
  return new EndpointError(`no response to any question (${missing?.reason ?? 'nothing was asked'})`, {
    advice: `${missing?.advice ?? remedyFor(given)}, then ${again}`,
  });
}

/** Turns names into distinct directory names. */
function slugs(names: readonly string[]): Map<string, string> {
  const taken = new Map<string, string>();
  for (const name of names) {
    const plain = name.replace(/[^\w.=+-]+/g, '_').replace(/^[._]+|[._]+$/g, '') || 'unnamed';
    let slug = plain;
    for (let k = 2; [...taken.values()].includes(slug); k++) slug = `${plain}_${k}`;
    taken.set(name, slug);
  }
  return taken;
}

/** Opens the fast classical baselines of a task; none where the user names baselines. */
async function addedBaselines(
  task: OpenTask,
  policies: readonly Answerer[],
  given: EvalRequest,
): Promise<Answerer[]> {
  if (!given.classical || policies.some(({ reads }) => reads === 'values')) return [];
  const { address, source } = task;
  const names = await quickBaselines(baselineData(address, source.facts.kind));
  return Promise.all(names.map((name) => openPolicy(`baseline:${name}`, given)));
}

/** Describes the questions in one or two sentences. */
function settingsText(given: EvalRequest, cells: readonly Cell[], temperatures: readonly number[]): string {
  const forms = cells.filter(({ policy }) => policy.reads === 'prompt').map(({ form }) => form);
  const inputs = new Set(forms.map(({ numbers }) => (numbers === null ? 'a picture' : 'numbers')));
  const shots = given.shots === 1 ? 'one solved example' : `${given.shots} solved examples`;
  const parts = [
    `Each series is shown as ${[...inputs].join(' or ')}`,
    ...(given.shots === 0 ? [] : [`after ${shots} of the training split`]),
    ...(given.reasoning === 'off' ? ['and answered without reasoning'] : []),
    `at temperature ${temperatures.join(', ')}`,
    ...(given.samples > 1 ? [`(${given.samples} responses each above temperature 0)`] : []),
  ];
  const split = `The ${given.split} split${given.count === undefined ? '' : `, at most ${given.count} examples of a task`}, seed ${given.seed ?? 42}.`;
  return forms.length === 0 ? split : `${split} ${parts.join(' ')}.`;
}

async function evaluateBoard(
  policies: readonly Answerer[],
  tasks: readonly OpenTask[],
  given: EvalRequest,
  temperatures: readonly number[],
): Promise<BoardEvaluation> {
  // All cells are checked before the first request.
  const planned = tasks.map((task) => ({
    task,
    cells: policies.map((policy) => cellOf(policy, task, given)),
  }));
  const rows: (LeaderboardRow & { readonly full: Metrics | null })[] = [];
  const results: CellResult[] = [];
  const reliances: { task: string; policy: string; reliance: Reliance }[] = [];
  for (const { task, cells } of planned) {
    const more = await addedBaselines(task, policies, given);
    const all = [...cells, ...more.map((policy) => cellOf(policy, task, given))];
    const names = slugs(all.map(({ policy }) => policy.name));
    for (const cell of all) {
      const { name } = cell.policy;
      const place = slugs(tasks.map((each) => each.name)).get(task.name)!;
      const out = given.out === undefined ? null : join(given.out, place, names.get(name)!);
      const label = `${task.name} ${name}`;
      const cellResult = await evaluateCell(requestOf(cell, given, temperatures, { out, label }));
      results.push(cellResult);
      if (cellResult.failure !== null) say(`warning: ${label}: ${cellResult.failure.message}`);
      const intervened =
        cellResult.failure === null ? await measureReliance(cell, given, cellResult, { out, label }) : null;
      if (intervened !== null) {
        results.push(intervened.result);
        reliances.push({ task: task.name, policy: name, reliance: intervened.reliance });
      }
      for (const { temperature, metrics, usage } of cellResult.modes) {
        rows.push({
          ...{ task: task.name, kind: task.source.facts.kind, policy: name },
          temperature: cell.policy.reads === 'prompt' ? temperature : null,
          ...{ metrics: metrics === null ? null : rowMetrics(metrics), usage, full: metrics },
          seconds: cellResult.seconds / cellResult.modes.length,
        });
      }
    }
  }
  const board = leaderboardOf(
    tasks.map(({ name, source: { facts } }) => ({ name, kind: facts.kind, title: facts.title })),
    rows,
    [settingsText(given, planned[0]!.cells, temperatures)],
  );
  const result = {
    tasks: tasks.map((task) => ({
      ...{ name: task.name, kind: task.source.facts.kind, data: shownAddress(task) },
    })),
    means: board.contenders.map(({ name, means }) => ({ policy: name, means })),
    rows: rows.map(({ full, ...row }) => ({ ...row, metrics: full })),
    ...(reliances.length === 0 ? {} : { reliance: reliances }),
  };
  if (given.out !== undefined && given.shard === undefined) {
    writeFileAtomic(join(given.out, 'leaderboard.md'), leaderboardMarkdown(board));
    writeFileAtomic(join(given.out, 'leaderboard.csv'), leaderboardCsv(board));
    writeFileAtomic(join(given.out, 'leaderboard.html'), leaderboardPage(board));
    writeJson(join(given.out, 'metrics.json'), result);
  }
  const statements = tasks.flatMap(({ source: { facts } }) =>
    facts.statement === null ? [] : [`${facts.title}. ${facts.statement}`],
  );
  return { kind: 'leaderboard', result, board, reliances, statements, missing: missingOf(results) };
}

/** Gives policies that share a name (one model behind two endpoints) their references as names. */
function named(policies: readonly Answerer[]): Answerer[] {
  const same = ({ name }: Answerer): number => policies.filter((policy) => policy.name === name).length;
  return policies.map((policy) => (same(policy) === 1 ? policy : { ...policy, name: policy.given }));
}

/** Splits names at commas. */
const listed = (given: readonly string[]): string[] =>
  given.flatMap((name) => name.split(',')).map((name) => name.trim());

/**
 * Evaluates policies on tasks. One policy on one task writes records and metrics to `out`; otherwise each pair gets a
 * directory of its own, and a leaderboard is written.
 * @throws ConfigError, CheckpointError, DataError; EndpointError where an endpoint gives no response
 */
export async function runEval(request: EvalRequest): Promise<Evaluation> {
  check(request);
  const shard = shardOf(request);
  const given = shard === null ? request : { ...request, resume: true, classical: false };
  const temperatures = temperaturesOf(given.temperature);
  if (given.samples > 1 && temperatures.every((temperature) => temperature === 0)) {
    say(
      `note: --samples ${given.samples} takes one answer at --temperature 0, which is greedy; sample with --temperature 1`,
    );
  }
  const policies = [...new Set(given.policy)];
  if (given.out === undefined && given.resume) {
    throw new ConfigError('--resume: there is nothing to resume without --out, the directory of the records');
  }
  if (given.out !== undefined && existsSync(given.out) && !isDirectory(given.out)) {
    throw new ConfigError(`${given.out}: is a file; choose a directory with --out`);
  }
  const options = { ...given, endpoint: endpointOf(given) };
  const opened = named(await Promise.all(policies.map((reference) => openPolicy(reference, options))));
  try {
    const evaluation = await evaluateOpened(opened, given, temperatures);
    if (shard !== null) {
      say(
        `part ${shard.index + 1} of ${shard.of}: these figures are about its examples alone; when all parts are done, the same command with --resume in place of --shard puts them together`,
      );
    }
    return evaluation;
  } finally {
    for (const policy of opened) await policy.dispose();
  }
}

async function evaluateOpened(
  opened: readonly Answerer[],
  given: EvalRequest,
  temperatures: readonly number[],
): Promise<Evaluation> {
  const local = opened.find((policy) => policy.local !== null);
  const names = listed(
    given.data ?? [(local === undefined ? undefined : recipeOfRun(local.given)?.data.name) ?? DEFAULT_DATA],
  );
  if (given.data === undefined && local !== undefined) warnOfChange(local.given, names[0]!);
  const card = local?.local == null ? null : readCard(local.local.directory);
  // A small policy gets generated series of its training length.
  const trainedLength = card?.task != null && isGenerator(card.task) ? card.length : null;
  const tasks = openTasks(given, names, trainedLength ?? DEFAULT_LENGTH);
  const reward = rewardsOf(given);
  const rewardNames: string[] = [];
  for (const { source } of tasks) {
    const checked = { reward: reward.length === 0 ? null : reward };
    rewardNames.push(...(await checkRewards(checked, source.facts.kind)));
  }
  const several = opened.length > 1 || tasks.length > 1;
  if (given.intervene === true) {
    for (const policy of opened) checkIntervene(cellOf(policy, tasks[0]!, given), temperatures);
  }
  const { out } = given;
  if (out !== undefined) checkResults(out, given, several);
  const single = several ? null : cellOf(opened[0]!, tasks[0]!, given);
  const lock =
    out === undefined
      ? null
      : await takeLock(join(out, '.lock'), {
          refuse: ({ pid }) =>
            new ConfigError(`${out}: process ${pid} is evaluating there; wait for it, or give another --out`),
        });
  try {
    const evaluation =
      single === null
        ? await evaluateBoard(opened, tasks, given, temperatures)
        : await evaluateOne(single, given, temperatures);
    const sets =
      evaluation.kind === 'single'
        ? evaluation.sets.map(([, metrics]) => rowMetrics(metrics))
        : evaluation.board.contenders.flatMap(({ rows }) =>
            [...rows.values()].map(({ metrics }) => metrics ?? {}),
          );
    for (const name of new Set(rewardNames)) {
      if (!sets.some((set) => Object.hasOwn(set, REWARD + name)))
        say(`warning: reward ${name}: it applies to no response`);
    }
    return evaluation;
  } finally {
    lock?.release();
  }
}
