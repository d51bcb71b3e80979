/** Policies and detectors of users' modules: their definitions, the thread they run in, and how they answer. */
import { ConfigError } from '../ground/errors.ts';
import { checkKeys } from '../ground/json-record.ts';
import { type ModuleAdapter, ModuleHost } from '../ground/module-host.ts';
import type { Example, Gold, Interval, Json, Picture, TokenUsage } from '../ground/types.ts';
import { readExport } from '../ground/user-code.ts';
import { type ModuleAddress, moduleHash } from '../ground/user-module.ts';
import { taskKind } from '../tasks/kinds.ts';
import type { Shot } from '../train/task.ts';
import type { Answerer, AnswerOptions, AnswerRequest, Response } from './answerer.ts';
import { answerEach, responseSeed } from './each.ts';

/** An example without its answer. */
export type Question = Pick<Example, 'id' | 'task' | 'channels' | 'names' | 'times'>;

/** One response that is wanted. */
export interface PolicyRequest {
  /** Question with the form of the answer; includes the numbers where they are asked for instead of a picture. */
  readonly instruction: string;
  /** RGB; null where numbers are asked for. */
  readonly picture: Picture | null;
  /** Solved training examples before the question. */
  readonly shots: readonly Shot[];
  readonly series: Question;
  /** 0: greedy. */
  readonly temperature: number;
  /** Index of the response among several, 0-based. */
  readonly sample: number;
  /** Seed of this response: equal whenever the evaluation is run with the same seed. */
  readonly seed: number;
  /** Longest response, in tokens. */
  readonly maxTokens: number;
  /** Aborted when the time limit has passed, or the evaluation is stopped. */
  readonly signal: AbortSignal;
}

/** A text; with what it took; or null: there is no response, which counts as missing. */
export type PolicyOutcome =
  | string
  | null
  | { readonly text: string; readonly usage?: TokenUsage; readonly cost?: number };

interface Common {
  /** Name in tables: letters, digits, blanks and `_ . : -`. */
  readonly name: string;
  /** Calls at once; 1 when absent. */
  readonly concurrency?: number;
  /** Seconds that a call may take; 300 when absent. */
  readonly timeLimit?: number;
}

export interface PolicyDefinition extends Common {
  readonly answer: (request: PolicyRequest) => PolicyOutcome | Promise<PolicyOutcome>;
}

/** Result of a detector: the fields of the requested answer kind. */
export interface DetectorOutcome {
  /** Intervals of anomalies: half-open [start, end) on the index, in any order. */
  readonly intervals?: readonly Interval[];
  /** Class of the series, or kind of the anomalies (`contextual point` when absent). */
  readonly class?: string;
  /** Channels, 0-based, for questions about variates. */
  readonly variates?: readonly number[];
}

export interface DetectorDefinition extends Common {
  /** Null: it cannot say, which counts as an answer that cannot be read. */
  readonly detect: (
    series: Question,
    asked: { readonly kind: Gold['kind']; readonly classes: readonly string[]; readonly signal: AbortSignal },
  ) => DetectorOutcome | null | Promise<DetectorOutcome | null>;
}

/** A response without the place where it belongs. */
type Answered = Omit<Response, 'key' | 'sample' | 'failure'>;

const NAME = /^[\p{L}\p{N}][\p{L}\p{N} _.:-]{0,63}$/u;

function checkCommon(definer: 'definePolicy' | 'defineDetector', definition: Partial<Common>): void {
  const { name, concurrency = 1, timeLimit = 1 } = definition;
  const call = definer === 'definePolicy' ? 'answer' : 'detect';
  if (typeof name !== 'string' || !NAME.test(name)) {
    throw new ConfigError(
      `${definer}: name: got ${JSON.stringify(name)}, expected letters, digits, blanks and _ . : -, at most 64 of them`,
    );
  }
  if (!Number.isInteger(concurrency) || concurrency < 1) {
    throw new ConfigError(`${definer} ${name}: concurrency: got ${concurrency}, expected an integer ≥ 1`);
  }
  if (!(timeLimit > 0 && timeLimit <= 86_400)) {
    throw new ConfigError(`${definer} ${name}: timeLimit: got ${timeLimit}, expected seconds, at most a day`);
  }
  checkKeys(`${definer} ${name}`, definition, ['name', 'concurrency', 'timeLimit', call]);
}

/**
 * Declares a policy, for `timeseer eval --policy FILE`. It runs in a thread of its own, which is ended where a call blocks it beyond the
 * time limit. Write it as the default export of a module:
 *
 *     import { definePolicy } from 'timeseer';
 *
 *     export default definePolicy({
 *       name: 'my server',
 *       concurrency: 8,
 *       answer: async ({ instruction, picture, signal }) => {
 *         const response = await fetch('http://localhost:9000', { method: 'POST', body: instruction, signal });
 *         return response.text();
 *       },
 *     });
 *
 * @throws ConfigError for a definition that is none
 */
export function definePolicy(definition: PolicyDefinition): PolicyDefinition {
  checkCommon('definePolicy', definition ?? {});
  if (typeof definition.answer === 'function') return definition;
  throw new ConfigError(`definePolicy ${definition.name}: expected a function answer`);
}

/**
 * Declares a detector or classifier that reads values and writes no text, for `timeseer eval --policy FILE`:
 *
 *     export default defineDetector({
 *       name: 'largest',
 *       detect: ({ channels: [values] }) => {
 *         const at = values!.indexOf(Math.max(...values!));
 *         return { intervals: [[at, at + 1]], class: 'global point' };
 *       },
 *     });
 *
 * @throws ConfigError for a definition that is none
 */
export function defineDetector(definition: DetectorDefinition): DetectorDefinition {
  checkCommon('defineDetector', definition ?? {});
  if (typeof definition.detect === 'function') return definition;
  throw new ConfigError(`defineDetector ${definition.name}: expected a function detect`);
}

/** Returns the policy or detector that a module exports. @throws ConfigError naming the file */
export function answererOf(value: unknown, file: string): PolicyDefinition | DetectorDefinition {
  const given = (value ?? {}) as Partial<PolicyDefinition & DetectorDefinition>;
  return readExport(file, 'policy and no detector', () =>
    typeof given.detect === 'function'
      ? defineDetector(given as DetectorDefinition)
      : definePolicy(given as PolicyDefinition),
  );
}

type Hint = Omit<Parameters<DetectorDefinition['detect']>[1], 'signal'>;

/** One call of a module's function. */
type PolicyCall =
  | { readonly kind: 'answer'; readonly request: Omit<PolicyRequest, 'signal'> }
  | { readonly kind: 'detect'; readonly series: Question; readonly asked: Hint };

interface PolicyInfo {
  readonly common: Common;
  readonly detects: boolean;
}

/** Default of seconds that a call may take. */
const TIME_LIMIT = 300;

export const adapter: ModuleAdapter<PolicyInfo, PolicyCall, unknown> = {
  wanted: 'a policy made with definePolicy',
  open([module]) {
    const definition = answererOf(module!.value, module!.file);
    const { name, concurrency, timeLimit } = definition;
    const common = {
      name,
      ...(concurrency === undefined ? {} : { concurrency }),
      ...(timeLimit === undefined ? {} : { timeLimit }),
    };
    return {
      info: { common, detects: 'detect' in definition },
      async answer(call, { signal }) {
        if (call.kind === 'answer') {
          return { reply: await (definition as PolicyDefinition).answer({ ...call.request, signal }) };
        }
        const { series, asked } = call;
        return { reply: await (definition as DetectorDefinition).detect(series, { ...asked, signal }) };
      },
    };
  },
};

/**
 * Loads a policy or a detector in its own thread. A call whose signal is aborted is given up; where the function blocks its thread, the
 * thread is ended, and all other calls that wait for it fail. `ready` waits for a thread that can be called.
 * @throws ConfigError for a module that cannot be loaded within a minute, or exports neither
 */
export async function hostPolicy(module: ModuleAddress) {
  const host = await ModuleHost.open<PolicyInfo, PolicyCall, unknown>({
    modules: [module],
    adapter: import.meta.url,
    timeLimit: ({ common }) => common.timeLimit ?? TIME_LIMIT,
    failure: (message) => new Error(message),
  });
  const { common, detects } = host.info;
  const definition: PolicyDefinition | DetectorDefinition = detects
    ? {
        ...common,
        detect: (series, { signal, ...asked }) =>
          host.call({ kind: 'detect', series, asked }, { signal }) as Promise<DetectorOutcome | null>,
      }
    : {
        ...common,
        answer: ({ signal, ...request }) =>
          host.call({ kind: 'answer', request }, { signal }) as Promise<PolicyOutcome>,
      };
  return { definition, ready: () => host.ready(), close: () => host.close() };
}

/** Class of anomalies for which a detector gives none. */
const UNNAMED = 'contextual point';

/**
 * Converts the result of a detector to an answer of a kind.
 * @throws DataError, TypeError where it is no such answer
 */
export function detectedAnswer(
  outcome: DetectorOutcome,
  kind: Gold['kind'],
  shape: { readonly length: number; readonly channels: number },
): Gold {
  const { intervals, class: label, variates } = outcome;
  const { fields, read, check } = taskKind(kind);
  const sorted = intervals?.toSorted(([a], [b]) => a - b);
  const unnamed = fields.includes('intervals') ? UNNAMED : undefined;
  const parts: Readonly<Record<string, unknown>> = {
    ...{ kind, intervals: sorted, variates },
    class: label ?? (sorted?.length === 0 && unnamed !== undefined ? 'normal' : unnamed),
  };
  const answer = read(Object.fromEntries(fields.map((field) => [field, parts[field]])), {});
  check(answer, shape, {});
  return answer;
}

/** Copies the values of a question: a call may change them, and the next one must not see that. */
const copyOf = ({ id, task, channels, names, times }: Question): Question => ({
  ...{ id, task, names },
  channels: channels.map((channel) => channel.slice()),
  times: times?.slice() ?? null,
});

/** Stands for the series where the question has words and pictures alone. */
const NO_SERIES: Question = { id: '', task: '', channels: [], names: [], times: null };

/** Runs a call within its time; the reason of whatever went wrong names the function. */
async function call<T>(
  where: string,
  seconds: number,
  signal: AbortSignal,
  body: (signal: AbortSignal) => T | Promise<T>,
): Promise<T> {
  const late = new AbortController();
  const over = AbortSignal.any([signal, late.signal]);
  const timer = setTimeout(() => late.abort(new Error(`gave nothing within ${seconds} s`)), seconds * 1000);
  try {
    const ended = new Promise<never>((_, refuse) =>
      over.addEventListener('abort', () => refuse(over.reason), { once: true }),
    );
    return await Promise.race([Promise.resolve().then(() => body(over)), ended]);
  } catch (error) {
    signal.throwIfAborted();
    const { name = 'Error', message = String(error) } = (error ?? {}) as Error;
    const plain = late.signal.aborted || name === 'Stalled';
    const problem = plain ? message : `threw ${name}: ${message.split('\n')[0]}`;
    throw new Error(`${where}: ${problem}`, { cause: error });
  } finally {
    clearTimeout(timer);
  }
}

const shown = (value: unknown): string => (JSON.stringify(value) ?? typeof value).slice(0, 80);

/** Checks what `answer` returned. @throws Error where it is no response */
function responseOf(outcome: PolicyOutcome, where: string): Pick<Response, 'text' | 'usage' | 'cost'> {
  if (outcome === null) throw new Error(`${where}: gave no response`);
  const { text, usage, cost }: Partial<Exclude<PolicyOutcome, string | null>> =
    typeof outcome === 'string' ? { text: outcome } : (outcome ?? {});
  if (typeof text !== 'string') {
    throw new Error(`${where}: returned ${shown(outcome)}; return a text, { text, usage, cost }, or null`);
  }
  const counts = usage === undefined ? [] : [usage.prompt, usage.completion];
  if (counts.some((count) => !Number.isInteger(count) || count < 0)) {
    throw new Error(
      `${where}: returned usage ${shown(usage)}; expected { prompt, completion }, whole numbers`,
    );
  }
  if (cost !== undefined && !(Number.isFinite(cost) && cost >= 0)) {
    throw new Error(`${where}: returned cost ${shown(cost)}; expected a number from 0`);
  }
  return {
    text,
    ...(usage === undefined ? {} : { usage: { prompt: usage.prompt, completion: usage.completion } }),
    ...(cost === undefined ? {} : { cost }),
  };
}

const reasonOf = (error: unknown): string => (error as Error).message;

/** A user's definition, and the thread in which it runs. */
interface UserPolicy {
  readonly given: string;
  readonly definition: PolicyDefinition | DetectorDefinition;
  /** Tells this version of the definition from others. */
  readonly identity: Readonly<Record<string, Json>>;
  /** Waited for before each call, outside of its time limit. */
  readonly ready?: () => Promise<void>;
  readonly close?: () => Promise<void>;
}

/**
 * Answers by a definition of the user. A call that throws, hangs or returns no answer leaves a response missing, with the reason; many in a
 * row end the call.
 */
export function userAnswerer({
  given,
  definition,
  identity,
  ready = async () => {},
  close = async () => {},
}: UserPolicy): Answerer {
  const { name, concurrency = 1, timeLimit = TIME_LIMIT } = definition;
  const where = `${'detect' in definition ? 'detect' : 'answer'} of ${name}`;
  const detected = async (
    { detect }: DetectorDefinition,
    request: AnswerRequest,
    { data }: AnswerOptions,
    stop: AbortSignal,
  ): Promise<Answered> => {
    const { kind, classes } = data?.facts ?? { kind: 'anomaly' as const, classes: [] };
    const series = request.series() ?? NO_SERIES;
    const shape = { length: series.channels[0]?.length ?? 0, channels: series.channels.length };
    await ready();
    const outcome = await call(where, timeLimit, stop, (signal) =>
      detect(copyOf(series), { kind, classes, signal }),
    );
    if (outcome === null) return { text: '', answer: `${where} cannot say` };
    if (typeof outcome !== 'object') {
      throw new Error(`${where}: returned ${shown(outcome)}; return { intervals, class, variates }, or null`);
    }
    try {
      return { text: '', answer: detectedAnswer(outcome, kind, shape) };
    } catch (error) {
      throw new Error(`${where}: ${reasonOf(error)}`, { cause: error });
    }
  };
  const answered = async (
    { answer }: PolicyDefinition,
    request: AnswerRequest,
    sample: number,
    { temperature, maxTokens, seed }: AnswerOptions,
    stop: AbortSignal,
  ): Promise<Answered> => {
    const { system, shots, pictures, text } = await request.prompt();
    const asked = {
      instruction: system === undefined ? text : `${system}\n\n${text}`,
      picture: pictures[0] ?? null,
      shots,
      series: copyOf(request.series() ?? NO_SERIES),
      ...{ temperature, sample, maxTokens, seed: responseSeed(seed, request.key, sample) },
    };
    await ready();
    const began = performance.now();
    const outcome = await call(where, timeLimit, stop, (signal) => answer({ ...asked, signal }));
    return { ...responseOf(outcome, where), seconds: (performance.now() - began) / 1000 };
  };
  return {
    ...{ given, name, identity, local: null, dispose: close },
    reads: 'detect' in definition ? 'values' : 'prompt',
    answer: (requests, options, report) =>
      answerEach(
        {
          ...{ given, concurrency, failure: reasonOf },
          respond: (request, sample, stop) =>
            'detect' in definition
              ? detected(definition, request, options, stop)
              : answered(definition, request, sample, options, stop),
        },
        requests,
        options,
        report,
      ),
  };
}

/** Opens a user's module in its own thread. @throws ConfigError for one that exports no policy and no detector */
export async function moduleAnswerer(given: string, module: ModuleAddress): Promise<Answerer> {
  const { definition, ready, close } = await hostPolicy(module);
  const identity = { module: moduleHash(module.file), export: module.name };
  return userAnswerer({ given, definition, identity, ready, close });
}
