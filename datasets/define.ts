/** Tasks of the user: a module whose function makes examples becomes a benchmark that `timeseer data prepare FILE.ts` writes as a data set. */
import { ConfigError, DataError } from '../src/errors.ts';
import { show } from '../src/json-record.ts';
import { isFigureName } from '../src/plot/presets.ts';
import { type GoldParts, goldFrom } from '../src/tasks/gold-parts.ts';
import { KIND_NAMES, taskKind } from '../src/tasks/kinds.ts';
import { RESERVED } from '../src/tasks/prompt.ts';
import type { Example, Gold } from '../src/types.ts';
import { loadModule, thrownText } from '../src/user-code.ts';
import { addressText, type ModuleAddress, moduleTexts } from '../src/user-module.ts';
import type { Benchmark, Loaded } from './benchmarks/benchmark.ts';
import { BENCHMARKS } from './benchmarks/registry.ts';
import { checkExample, VALUE_CHANNEL } from './example.ts';
import { SPLITS, type Split } from './split.ts';

/** One example: a series, or several of one length, and the parts of the right answer of its kind. */
export interface TaskExample extends GoldParts {
  /** Different for every example; its number when absent. */
  readonly id?: string;
  /** Points of a series of one channel, at least 2; NaN is a missing one. */
  readonly values?: ArrayLike<number>;
  /** Instead of `values`, of several: [C][N]. */
  readonly channels?: readonly ArrayLike<number>[];
  /** Names of the channels; `value`, or `channel 0` and so on, when absent: [C]. */
  readonly names?: readonly string[];
  /** x of each point, ascending: [N]. */
  readonly times?: ArrayLike<number> | null;
  /** Of all examples or of none; without it they are drawn (`--shares`). */
  readonly split?: Split;
  /** What it was cut from: examples of one recording stay in one split. */
  readonly recording?: string | null;
}

/** What examples are asked for with. */
export interface TaskRequest {
  /** `--from`; null without one. */
  readonly directory: string | null;
  /** `--seed`; 0 without one. */
  readonly seed: number;
}

export interface TaskDefinition {
  /** One word: letters, digits, `_` and `-`; no name of a task that there is. */
  readonly name: string;
  readonly kind: Gold['kind'];
  /** What a person calls it, in one line; the name when absent. */
  readonly title?: string;
  /** Where the series come from and what a point is: prompts contain it. */
  readonly description?: string;
  /** Of a classification, in the order of prompts; those that occur, by name, when absent. */
  readonly classes?: readonly string[];
  /** What a class looks like, by its name. */
  readonly hints?: Readonly<Record<string, string>>;
  /** What advice is asked for after the class, as a clause. */
  readonly advice?: string;
  /** Samples per second. */
  readonly rate?: number;
  /** Preset of a figure; `line` when absent. */
  readonly figure?: string;
  readonly licence?: string;
  readonly citation?: string;
  /** All examples, at most a million: a list, a generator, or an asynchronous one. The same for the same request. */
  readonly examples: (
    request: TaskRequest,
  ) => Iterable<TaskExample> | AsyncIterable<TaskExample> | Promise<Iterable<TaskExample>>;
}

const NAME = /^[A-Za-z][\w-]{0,63}$/u;
const MOST_EXAMPLES = 1_000_000;

/**
 * Declares a task, for `timeseer data prepare FILE.ts --out DIR`. Write it as the default export of a module:
 *
 *     import { defineTask } from 'timeseer';
 *
 *     export default defineTask({
 *       name: 'steps',
 *       kind: 'anomaly',
 *       description: 'Readings of a valve, one a second.',
 *       *examples({ seed }) {
 *         for (let i = 0; i < 200; i++) {
 *           const at = 20 + ((seed + 7 * i) % 60);
 *           yield { values: Array.from({ length: 100 }, (_, t) => (t < at ? 0 : 1)), intervals: [[at, 100]], class: 'trend' };
 *         }
 *       },
 *     });
 *
 * @throws ConfigError for a definition that is none
 */
export function defineTask(definition: TaskDefinition): TaskDefinition {
  const given = (definition ?? {}) as TaskDefinition;
  const { name, kind, examples, classes, hints = {}, rate, figure, advice } = given;
  if (typeof name !== 'string' || !NAME.test(name)) {
    throw new ConfigError(
      `defineTask: name: got ${show(name)}, expected a word of letters, digits, _ and - that begins with a letter`,
    );
  }
  const fail = (message: string): never => {
    throw new ConfigError(`defineTask ${name}: ${message}`);
  };
  if (BENCHMARKS.some((one) => one.name.split('/')[0] === name.toLowerCase())) {
    fail(`name: there is a task called ${name.toLowerCase()}; give it another`);
  }
  if (!KIND_NAMES.includes(kind)) fail(`kind: got ${show(kind)}, expected one of ${KIND_NAMES.join(', ')}`);
  if (typeof examples !== 'function') fail('expected a function examples');
  const own = taskKind(kind).classes;
  if (classes !== undefined && own !== 'data') fail(`classes: of ${kind} they are given; leave them out`);
  if (classes !== undefined && !(Array.isArray(classes) && classes.every((one) => typeof one === 'string'))) {
    fail(`classes: got ${show(classes)}, expected a list of names`);
  }
  for (const key of ['title', 'description', 'advice', 'licence', 'citation', 'figure'] as const) {
    const text = given[key];
    if (text === undefined) continue;
    if (typeof text !== 'string' || text.trim() === '') fail(`${key}: got ${show(text)}, expected text`);
    if (RESERVED.test(text)) fail(`${key}: holds a tag of the answer or a special token; leave it out`);
  }
  if (Object.values(hints).some((hint) => typeof hint !== 'string' || RESERVED.test(hint))) {
    fail('hints: expected texts by class, without tags of the answer and special tokens');
  }
  if (advice !== undefined && !taskKind(kind).evaluation.answerParts.includes('extension')) {
    fail('advice: is asked for after classes alone; leave it out');
  }
  if (rate !== undefined && !(Number.isFinite(rate) && rate > 0)) {
    fail(`rate: got ${show(rate)}, expected samples per second, above 0`);
  }
  if (figure !== undefined && !isFigureName(figure)) fail(`figure: there is no preset ${show(figure)}`);
  return definition;
}

/** What a module exports as a task. @throws ConfigError naming the file */
function taskOf(value: unknown, file: string): TaskDefinition {
  try {
    return defineTask(value as TaskDefinition);
  } catch (cause) {
    throw new ConfigError(`${file}: exports no task: ${(cause as Error).message}`, { cause });
  }
}

/** @throws DataError naming file, function and example */
function loadedOf({ name, kind }: TaskDefinition, value: unknown, index: number, file: string): Loaded {
  const fail = (message: string): never => {
    throw new DataError(`task ${name}: example ${index}: ${message}`, { file });
  };
  if (typeof value !== 'object' || value === null)
    return fail(`got ${show(value)}, expected an object with values`);
  const given = value as TaskExample;
  const {
    values,
    channels = values === undefined ? undefined : [values],
    split = null,
    times = null,
  } = given;
  if (!Array.isArray(channels)) return fail('expected values, or channels');
  const read = (list: ArrayLike<number>, what: string): Float64Array => {
    if (typeof list !== 'object' || list === null || !Number.isInteger(list.length)) {
      return fail(`${what}: got ${show(list)}, expected numbers`);
    }
    return Float64Array.from(list, (one, i) =>
      typeof one === 'number'
        ? one
        : fail(`${what}[${i}]: got ${show(one)}, expected a number, NaN where missing`),
    );
  };
  const series = channels.map((list, c) => read(list, channels.length === 1 ? 'values' : `channels[${c}]`));
  const names = given.names ?? (series.length === 1 ? [VALUE_CHANNEL] : series.map((_, c) => `channel ${c}`));
  if (split !== null && !SPLITS.includes(split)) {
    return fail(`split: got ${show(split)}, expected one of ${SPLITS.join(', ')}`);
  }
  const example: Example = {
    ...{ id: `${name}/${given.id ?? index}`, task: name, channels: series, names },
    times: times === null ? null : read(times, 'times'),
    gold: goldFrom(kind, given, fail),
    recording: given.recording ?? null,
  };
  try {
    checkExample(example);
  } catch (error) {
    return error instanceof DataError ? fail(error.message) : fail(String(error));
  }
  return { split, example };
}

/** All examples of a task, checked. @throws ConfigError where the function throws, DataError for what is no example */
async function examplesOf(task: TaskDefinition, request: TaskRequest, file: string): Promise<Loaded[]> {
  const all: Loaded[] = [];
  try {
    for await (const value of await task.examples(request)) {
      if (all.length === MOST_EXAMPLES) {
        throw new DataError(`task ${task.name}: more than ${MOST_EXAMPLES} examples; end the generator`, {
          file,
        });
      }
      all.push(loadedOf(task, value, all.length, file));
    }
  } catch (error) {
    if (error instanceof DataError) throw error;
    throw new ConfigError(`${file}: task ${task.name}: examples ${thrownText(file, error)}`, {
      cause: error,
    });
  }
  if (all.length === 0) throw new DataError(`task ${task.name}: examples gave none`, { file });
  const odd = all.findIndex(({ split }) => (split === null) !== (all[0]!.split === null));
  if (odd > 0) {
    throw new DataError(
      `task ${task.name}: example ${odd}: ${all[odd]!.split === null ? 'has no split' : 'has a split'}, unlike the first; give one to all of them, or to none`,
      { file },
    );
  }
  return all;
}

/**
 * The benchmark of a module. Its function is called once, here.
 * @throws ConfigError for a module that cannot be loaded, is no task, or throws; DataError for what is no example
 */
export async function userTask(address: ModuleAddress, request: TaskRequest): Promise<Benchmark> {
  const { file } = address;
  const task = taskOf(await loadModule(address, 'a task made with defineTask'), file);
  const { name, kind, title = name, description, hints = {}, advice = null, rate = null, figure } = task;
  const all = await examplesOf(task, request, file);
  const own = taskKind(kind).classes;
  const seen = new Set(all.flatMap(({ example: { gold } }) => taskKind(kind).className(gold) ?? []));
  const classes =
    own === 'data'
      ? (task.classes ?? [...seen].sort())
      : own.filter((one) => seen.has(one) || seen.size === 0);
  const stray = own === 'data' ? [...seen].find((one) => !classes.includes(one)) : undefined;
  if (stray !== undefined) {
    throw new DataError(
      `task ${name}: the class ${show(stray)} is not among its classes (${classes.join(', ')})`,
      { file },
    );
  }
  const unknown = Object.keys(hints).find((one) => !classes.includes(one));
  if (unknown !== undefined) {
    throw new ConfigError(
      `${file}: task ${name}: hints: there is no class ${show(unknown)} (${classes.join(', ')})`,
    );
  }
  const given = all[0]!.split !== null;
  const recordings = all.some(({ example }) => example.recording !== null);
  return {
    ...{
      name,
      title,
      kind,
      rate,
      classes: null,
      generator: null,
      needs: 'files',
      shape: 'any',
      prompt: null,
    },
    source: {
      description: description ?? 'A task of the user.',
      licence: task.licence ?? "the user's own",
      citation: task.citation ?? null,
      addresses: [],
    },
    figure: {
      preset: figure ?? (taskKind(kind).countsChannels && !taskKind(kind).readsWords ? 'vta-grid' : 'line'),
      missing: 'break',
    },
    layout: addressText(address),
    open({ window, length }) {
      if (window !== undefined || length !== undefined) {
        throw new ConfigError(
          `--${window !== undefined ? 'window' : 'length'}: task ${name} gives its series whole; cut them in the module`,
        );
      }
      return {
        files: [...moduleTexts(file).keys()],
        classes: () => classes,
        parameters: {
          module: address.name,
          seed: request.seed,
          ...(request.directory === null ? {} : { from: request.directory }),
        },
        total: null,
        notes: () => [],
        plan: given
          ? {
              by: 'given',
              statement: 'Split of the task.',
              recordingsApart: recordings ? true : null,
              validation: recordings ? 'recording' : 'example',
            }
          : {
              by: recordings ? 'recording' : 'example',
              sizes: { train: 8, validation: 1, test: 1 },
              statement: recordings
                ? 'Examples of one recording are in one split.'
                : 'The task names no splits.',
              recordingsApart: recordings ? true : null,
            },
        own: {
          ...{ title, licence: task.licence, citation: task.citation, rate: task.rate },
          figure: figure === undefined ? undefined : { preset: figure, missing: 'break' },
          prompt: { description: description ?? '', hints, advice },
          place: () => ({ file }),
        },
        load: () => all,
      };
    },
  };
}
