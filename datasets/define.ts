/** User-defined tasks: a function that makes examples becomes a benchmark that `timeseer data prepare FILE.ts` writes as a data set. */
import { ConfigError, DataError } from '../src/ground/errors.ts';
import { checkKeys, show } from '../src/ground/json-record.ts';
import { memory } from '../src/ground/machine.ts';
import { type ModuleAdapter, ModuleHost } from '../src/ground/module-host.ts';
import type { Gold } from '../src/ground/types.ts';
import { checkName, readExport, thrownText } from '../src/ground/user-code.ts';
import { addressText, type ModuleAddress, moduleTexts } from '../src/ground/user-module.ts';
import { isFigureName } from '../src/plot/presets.ts';
import { CLASS, CLASS_RULE } from '../src/tasks/classification.ts';
import { type GoldParts, KIND_NAMES, taskKind } from '../src/tasks/kinds.ts';
import { RESERVED } from '../src/tasks/response.ts';
import type { Benchmark, Loaded, SplitPlan } from './benchmarks/benchmark.ts';
import { BENCHMARKS } from './benchmarks/registry.ts';
import { statedExample } from './benchmarks/stated-example.ts';
import { type DataFacts, type ExampleSource, exampleValues } from './source.ts';
import type { Split } from './split.ts';

/** Series of an example, and facts about it beside the answer. */
type TaskSeries = {
  /** Unique ID, one line. Default: the number of the example. */
  readonly id?: string;
  /** Names of the channels [C]. Default: `value`, or `channel 0` and so on. */
  readonly names?: readonly string[];
  /** x values of the points, ascending [N]. */
  readonly times?: ArrayLike<number> | null;
  /** Split of the example, given for all examples or for none. Without it splits are drawn (`--shares`). */
  readonly split?: Split;
  /** Name of the source recording: examples of one recording stay in one split. */
  readonly recording?: string | null;
} & (
  | {
      /** Points of a single channel, at least 2; NaN where missing. */
      readonly values: ArrayLike<number>;
      readonly channels?: never;
    }
  | {
      /** Points of several channels: [C][N]. */
      readonly channels: readonly ArrayLike<number>[];
      readonly values?: never;
    }
);

/** One example: its series, and the parts of the right answer of its kind. */
export type TaskExample<K extends Gold['kind'] = Gold['kind']> = TaskSeries & GoldParts<K>;

/** Argument of the function that makes examples. */
export interface TaskRequest {
  /** `--from`; null without one. */
  readonly directory: string | null;
  /** `--seed`; 0 without one. */
  readonly seed: number;
}

export interface TaskDefinition<K extends Gold['kind'] = Gold['kind']> {
  /** One word: letters, digits, `_` and `-`; not the name of a built-in task. */
  readonly name: string;
  /** Answer kind: `classification`, `anomaly`, `variates` or `question`. */
  readonly kind: K;
  /** Title for people, one line. Default: the name. */
  readonly title?: string;
  /** Origin of the series and meaning of a point; part of prompts. */
  readonly description?: string;
  /** Classes in the order of prompts, for a classification. Default: those that occur, sorted by name. */
  readonly classes?: readonly string[];
  /** Description of each class's appearance, by name. */
  readonly hints?: Readonly<Record<string, string>>;
  /** Advice requested after the class, as a clause. */
  readonly advice?: string;
  /** Samples per second. */
  readonly rate?: number;
  /** Figure preset. Default: `line`. */
  readonly figure?: string;
  readonly licence?: string;
  readonly citation?: string;
  /** Time limit per example in seconds, the first included. Default: 300. */
  readonly timeLimit?: number;
  /** All examples, at most a million: a list, a generator or an async generator. The same request gives the same examples. */
  readonly examples: (
    request: TaskRequest,
  ) => Iterable<TaskExample<K>> | AsyncIterable<TaskExample<K>> | Promise<Iterable<TaskExample<K>>>;
}

const TITLE = /^[^\n\r]{1,100}$/u;
const MOST_EXAMPLES = 1_000_000;
const TIME_LIMIT = 300;
const KEYS = [
  ...['name', 'kind', 'title', 'description', 'classes', 'hints', 'advice', 'rate', 'figure'],
  ...['licence', 'citation', 'timeLimit', 'examples'],
];
const isHint = (text: unknown): boolean => typeof text === 'string' && !RESERVED.test(text);

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
 * @throws ConfigError for a wrong or unknown key
 */
export function defineTask<K extends Gold['kind']>(definition: TaskDefinition<K>): TaskDefinition<K> {
  const given = (definition ?? {}) as TaskDefinition;
  const { name, kind, title, examples, classes, hints = {}, rate, figure, advice, timeLimit } = given;
  checkName('defineTask', name);
  const fail = (message: string): never => {
    throw new ConfigError(`defineTask ${name}: ${message}`);
  };
  checkKeys(`defineTask ${name}`, given, KEYS);
  if (BENCHMARKS.some((benchmark) => benchmark.name.split('/')[0] === name.toLowerCase())) {
    fail(`name: there is a task called ${name.toLowerCase()}; give it another`);
  }
  if (!KIND_NAMES.includes(kind)) fail(`kind: got ${show(kind)}, expected one of ${KIND_NAMES.join(', ')}`);
  if (typeof examples !== 'function') fail('expected a function examples');
  if (classes !== undefined) {
    if (taskKind(kind).classes !== 'data') fail(`classes: those of ${kind} are fixed; leave them out`);
    if (!Array.isArray(classes) || classes.length === 0 || new Set(classes).size < classes.length) {
      fail(`classes: got ${show(classes)}, expected a list of different names`);
    }
    const wrong = classes.find((entry) => typeof entry !== 'string' || !CLASS.test(entry));
    if (wrong !== undefined) fail(`classes: got ${show(wrong)}, expected ${CLASS_RULE}`);
  }
  for (const key of ['title', 'description', 'advice', 'licence', 'citation', 'figure'] as const) {
    const text = given[key];
    if (text === undefined) continue;
    if (typeof text !== 'string' || text.trim() === '') fail(`${key}: got ${show(text)}, expected text`);
    if (RESERVED.test(text)) fail(`${key}: holds a tag of the answer or a special token; leave it out`);
  }
  if (title !== undefined && !TITLE.test(title)) fail('title: expected one line of at most 100 characters');
  if (typeof hints !== 'object' || hints === null || !Object.values(hints).every(isHint)) {
    fail('hints: expected texts by class, without tags of the answer and special tokens');
  }
  if (advice !== undefined && !taskKind(kind).evaluation.answerParts.includes('extension')) {
    fail('advice: applies to classifications only; leave it out');
  }
  if (rate !== undefined && !(Number.isFinite(rate) && rate > 0)) {
    fail(`rate: got ${show(rate)}, expected samples per second, above 0`);
  }
  if (timeLimit !== undefined && !(Number.isFinite(timeLimit) && timeLimit > 0 && timeLimit <= 86_400)) {
    fail(`timeLimit: got ${show(timeLimit)}, expected seconds, above 0 and at most a day`);
  }
  if (figure !== undefined && !isFigureName(figure)) fail(`figure: there is no preset ${show(figure)}`);
  return definition;
}

/** A definition without its function; it can be sent between threads. */
type TaskFacts = Omit<TaskDefinition, 'examples'>;

/** Examples are sent in batches: after this many milliseconds, or this many points. */
const SEND_MS = 200;
const SEND_POINTS = 1e6;

const pointsOf = ({ example: { channels } }: Loaded): number =>
  channels.reduce((sum, channel) => sum + channel.length, 0);

/** Runs the function of a task in the thread of its module, and checks its examples there. */
class TaskRun {
  readonly #task: TaskDefinition;
  readonly #file: string;
  /** Time limit of the current example; it does not keep the process alive. */
  readonly #timer: NodeJS.Timeout;
  /** Number of the next example. */
  #index = 0;
  #fail: (problem: string) => void = () => {};

  constructor(task: TaskDefinition, file: string, signal: AbortSignal) {
    const { timeLimit = TIME_LIMIT } = task;
    this.#task = task;
    this.#file = file;
    this.#timer = setTimeout(() => {
      this.#fail(
        `gave no example ${this.#index} within ${timeLimit} s; raise timeLimit where it must take longer`,
      );
    }, 1000 * timeLimit).unref();
    signal.addEventListener('abort', () => this.#fail((signal.reason as Error).message), { once: true });
  }

  /**
   * All examples, checked, one by one.
   * @throws ConfigError where the function throws, or takes too long; DataError for a wrong example
   */
  async *examples(request: TaskRequest): AsyncGenerator<Loaded> {
    const numbers = new Map<string, number>();
    let split: Split | null = null;
    let points = 0;
    const most = memory().total / 2 / Float64Array.BYTES_PER_ELEMENT;
    for await (const value of this.#values(request)) {
      const index = this.#index;
      if (index === MOST_EXAMPLES)
        throw this.#wrong(`more than ${MOST_EXAMPLES} examples; end the generator`);
      let loaded: Loaded;
      try {
        loaded = statedExample(this.#task, value, index);
      } catch (error) {
        throw error instanceof DataError ? this.#wrong(error.message) : this.#thrown(error);
      }
      const { example } = loaded;
      const same = numbers.get(example.id);
      if (same !== undefined) throw this.#wrong(`its id is that of example ${same}, ${show(example.id)}`);
      if (index === 0) split = loaded.split;
      if ((split === null) !== (loaded.split === null)) {
        const has = loaded.split === null ? 'has no split' : 'has a split';
        throw this.#wrong(`${has}, unlike the first; give all examples one, or none`);
      }
      points += pointsOf(loaded);
      if (points > most) {
        throw this.#wrong(
          `all together have ${points} points, more than half of this machine's memory holds`,
        );
      }
      numbers.set(example.id, index);
      this.#index++;
      yield { ...loaded, place: { file: this.#file } };
    }
    if (this.#index === 0) {
      throw new DataError(`task ${this.#task.name}: examples gave none`, { file: this.#file });
    }
  }

  /** Values of the user's function. @throws ConfigError for anything but a list, and where it throws or takes too long */
  async *#values(request: TaskRequest): AsyncGenerator<unknown> {
    const list: unknown = await this.#within(() => this.#task.examples(request));
    const given = (typeof list === 'object' ? (list ?? {}) : {}) as Partial<
      AsyncIterable<unknown> & Iterable<unknown>
    >;
    const iterator = given[Symbol.asyncIterator]?.() ?? given[Symbol.iterator]?.();
    if (iterator === undefined) {
      throw new ConfigError(
        `${this.#file}: task ${this.#task.name}: examples gave ${show(list)}, expected a list or a generator of examples`,
      );
    }
    for (;;) {
      const { done, value } = await this.#within(() => iterator.next());
      if (done === true) return;
      yield await this.#within(() => value);
    }
  }

  /** Awaits user code within the time limit. */
  #within<T>(work: () => T | Promise<T>): Promise<T> {
    this.#timer.refresh();
    return new Promise((resolve, reject) => {
      this.#fail = (problem) =>
        reject(new ConfigError(`${this.#file}: task ${this.#task.name}: examples ${problem}`));
      Promise.resolve()
        .then(work)
        .then(resolve, (cause: unknown) => reject(this.#thrown(cause)));
    });
  }

  #wrong(message: string): DataError {
    return new DataError(`task ${this.#task.name}: example ${this.#index}: ${message}`, { file: this.#file });
  }

  #thrown(cause: unknown): ConfigError {
    const what = thrownText(this.#file, cause);
    return new ConfigError(`${this.#file}: task ${this.#task.name}: examples ${what}`, { cause });
  }
}

export const adapter: ModuleAdapter<TaskFacts, TaskRequest, null, readonly Loaded[]> = {
  wanted: 'a task made with defineTask',
  open([module]) {
    const { value, file } = module!;
    const task = readExport(file, 'task', () => defineTask(value as TaskDefinition));
    const { examples: _, ...info } = task;
    return {
      info,
      async answer(request, { signal, part, beat }) {
        let [pending, points, sent]: [Loaded[], number, number] = [[], 0, performance.now()];
        const send = (): void => {
          const buffers = pending.flatMap(({ example: { channels } }) =>
            channels.map(({ buffer }) => buffer),
          );
          part(pending, buffers as ArrayBuffer[]);
          [pending, points, sent] = [[], 0, performance.now()];
        };
        for await (const loaded of new TaskRun(task, file, signal).examples(request)) {
          beat();
          pending.push(loaded);
          points += pointsOf(loaded);
          if (points >= SEND_POINTS || performance.now() - sent >= SEND_MS) send();
        }
        send();
        return { reply: null };
      },
    };
  },
};

/**
 * Runs the module of a task in a thread of its own, and takes its examples.
 * @throws ConfigError for a module that cannot be loaded, exports no task, throws, exits or takes too long; DataError for a wrong example
 */
async function runTask(
  address: ModuleAddress,
  request: TaskRequest,
  onProgress: (count: number) => void,
): Promise<{ readonly task: TaskFacts; readonly all: readonly Loaded[] }> {
  const host = await ModuleHost.open<TaskFacts, TaskRequest, null, readonly Loaded[]>({
    modules: [address],
    adapter: import.meta.url,
    timeLimit: ({ timeLimit = TIME_LIMIT }) => timeLimit,
    failure: (message) => new ConfigError(message),
  });
  const all: Loaded[] = [];
  try {
    await host.call(request, {
      onPart: (loaded) => {
        for (const each of loaded) all.push(each);
        onProgress(all.length);
      },
    });
    return { task: host.info, all };
  } finally {
    await host.close();
  }
}

/** Lists the classes of a task, in the order of prompts. @throws DataError for an example of another class */
function classesOf({ name, kind, classes }: TaskFacts, all: readonly Loaded[], file: string): string[] {
  const { classes: known, className } = taskKind(kind);
  const named = all.map(({ example }) => className(example.gold));
  const seen = new Set(named.filter((entry) => entry !== null));
  // An anomaly of unnamed kind may be any of them.
  if (known !== 'data') return known.filter((entry) => seen.has(entry) || named.includes(null));
  const stray =
    classes === undefined ? -1 : named.findIndex((entry) => entry !== null && !classes.includes(entry));
  if (stray < 0) return [...(classes ?? [...seen].sort())];
  throw new DataError(
    `task ${name}: example ${stray}: the class ${show(named[stray])} is not among its classes (${classes!.join(', ')})`,
    { file },
  );
}

/**
 * The examples of a task as values, with what is known of them; its function is called once, in this thread. Splits are ignored.
 * @throws ConfigError where the function throws, DataError for a wrong example
 */
export async function taskExamples(definition: TaskDefinition, seed: number): Promise<ExampleSource> {
  const task = defineTask(definition);
  const { name, kind, title = name, description = '', hints = {}, advice = null, rate = null, figure } = task;
  const file = 'defineTask';
  const all: Loaded[] = [];
  const run = new TaskRun(task, file, new AbortController().signal);
  for await (const loaded of run.examples({ directory: null, seed })) all.push(loaded);
  const source = exampleValues(all.map(({ example }) => example));
  const facts: DataFacts = {
    ...source.facts,
    ...{ task: name, title, kind, rate },
    classes: classesOf(task, all, file),
    figure: figure === undefined ? null : { preset: figure, missing: 'break' },
    prompt: { description, hints, advice },
  };
  return { ...source, facts };
}

function planOf(all: readonly Loaded[]): SplitPlan {
  const recordings = all.some(({ example }) => example.recording !== null);
  const by = recordings ? 'recording' : 'example';
  const recordingsApart = recordings ? true : null;
  if (all[0]!.split !== null) {
    return { by: 'given', statement: 'Split of the task.', recordingsApart, validation: by };
  }
  return {
    ...{ by, recordingsApart, sizes: { train: 8, validation: 1, test: 1 } },
    statement: recordings ? 'Examples of one recording are in one split.' : 'The task names no splits.',
  };
}

/**
 * Makes the benchmark of a module. Its function is called once, here.
 * @param onProgress receives the number of examples so far
 * @throws ConfigError for a module that cannot be loaded, exports no task, throws, exits or takes too long; DataError for a wrong example
 */
export async function userTask(
  address: ModuleAddress,
  request: TaskRequest,
  onProgress: (count: number) => void = () => {},
): Promise<Benchmark> {
  const { file } = address;
  const { task, all } = await runTask(address, request, onProgress);
  const { name, kind, title = name, description, hints = {}, advice = null, rate = null, figure } = task;
  const classes = classesOf(task, all, file);
  const kindClasses = taskKind(kind).classes;
  const hinted = kindClasses === 'data' ? classes : kindClasses;
  const unknown = Object.keys(hints).find((entry) => !hinted.includes(entry));
  if (unknown !== undefined) {
    throw new ConfigError(
      `${file}: task ${name}: hints: there is no class ${show(unknown)} (${hinted.join(', ')})`,
    );
  }
  const from = request.directory === null ? {} : { from: request.directory };
  return {
    ...{
      name,
      title,
      kind,
      rate,
      classes: null,
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
      const cut = window !== undefined ? '--window' : length !== undefined ? '--length' : null;
      if (cut !== null) {
        throw new ConfigError(`${cut}: task ${name} gives its series whole; cut them in the module`);
      }
      return {
        files: [...moduleTexts(file).keys()],
        classes: () => classes,
        parameters: { module: address.name, seed: request.seed, ...from },
        plan: planOf(all),
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
