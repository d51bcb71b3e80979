/** Policies and detectors of users' modules: their definitions, the thread they run in, and the checks of what they return. */

import { ConfigError } from '../ground/errors.ts';
import { checkKeys } from '../ground/json-record.ts';
import { type ModuleAdapter, ModuleHost } from '../ground/module-host.ts';
import type { Example, Gold, Interval, Picture, TokenUsage } from '../ground/types.ts';
import type { ModuleAddress } from '../ground/user-module.ts';
import { taskKind } from '../tasks/kinds.ts';
import type { Shot } from '../train/task.ts';

/** An example without its answer. */
export type Question = Pick<Example, 'id' | 'task' | 'channels' | 'names' | 'times'>;

/** One response that is wanted. */
export interface PolicyRequest {
  /** What is asked, with the form of the answer; the numbers too where they are asked for instead of a picture. */
  readonly instruction: string;
  /** RGB; null where numbers are asked for. */
  readonly picture: Picture | null;
  /** Solved training examples before the question. */
  readonly shots: readonly Shot[];
  /** The series itself. */
  readonly series: Question;
  /** 0: greedy. */
  readonly temperature: number;
  /** Which of several responses, 0-based. */
  readonly sample: number;
  /** Of this response: the same whenever the evaluation is run with the same seed. */
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
  /** What it is called in tables: letters, digits, blanks and `_ . : -`. */
  readonly name: string;
  /** Calls at once; 1 when absent. */
  readonly concurrency?: number;
  /** Seconds that a call may take; 300 when absent. */
  readonly timeLimit?: number;
}

export interface PolicyDefinition extends Common {
  readonly answer: (request: PolicyRequest) => PolicyOutcome | Promise<PolicyOutcome>;
}

/** What a detector finds; the parts of the kind of answer that is asked for. */
export interface DetectorOutcome {
  /** Half-open [start, end) on the index, in any order; of anomalies. */
  readonly intervals?: readonly Interval[];
  /** Of a classification; of anomalies their kind, `contextual point` when absent. */
  readonly class?: string;
  /** Channels, 0-based; of questions for variates. */
  readonly variates?: readonly number[];
}

export interface DetectorDefinition extends Common {
  /** Null: it cannot say, which counts as an answer that cannot be read. */
  readonly detect: (
    series: Question,
    asked: { readonly kind: Gold['kind']; readonly classes: readonly string[]; readonly signal: AbortSignal },
  ) => DetectorOutcome | null | Promise<DetectorOutcome | null>;
}

const NAME = /^[\p{L}\p{N}][\p{L}\p{N} _.:-]{0,63}$/u;

function checkCommon(what: 'definePolicy' | 'defineDetector', definition: Partial<Common>): void {
  const { name, concurrency = 1, timeLimit = 1 } = definition;
  const call = what === 'definePolicy' ? 'answer' : 'detect';
  if (typeof name !== 'string' || !NAME.test(name)) {
    throw new ConfigError(
      `${what}: name: got ${JSON.stringify(name)}, expected letters, digits, blanks and _ . : -, at most 64 of them`,
    );
  }
  if (!Number.isInteger(concurrency) || concurrency < 1) {
    throw new ConfigError(`${what} ${name}: concurrency: got ${concurrency}, expected an integer ≥ 1`);
  }
  if (!(timeLimit > 0 && timeLimit <= 86_400)) {
    throw new ConfigError(`${what} ${name}: timeLimit: got ${timeLimit}, expected seconds, at most a day`);
  }
  checkKeys(`${what} ${name}`, definition, ['name', 'concurrency', 'timeLimit', call]);
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

/** What a module exports as something to evaluate. @throws ConfigError naming the file */
export function answererOf(value: unknown, file: string): PolicyDefinition | DetectorDefinition {
  const given = (value ?? {}) as Partial<PolicyDefinition & DetectorDefinition>;
  try {
    return typeof given.detect === 'function'
      ? defineDetector(given as DetectorDefinition)
      : definePolicy(given as PolicyDefinition);
  } catch (cause) {
    throw new ConfigError(`${file}: exports no policy and no detector: ${(cause as Error).message}`, {
      cause,
    });
  }
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

/** Seconds that a call may take where the definition does not say. */
export const TIME_LIMIT = 300;

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

/** A policy or detector in a thread of its own. */
export interface HostedPolicy {
  /** As the module declares it; its function runs in the thread. */
  readonly definition: PolicyDefinition | DetectorDefinition;
  /** Waits until the thread can be called, which is started anew where it has ended. @throws ConfigError as `hostPolicy` */
  ready(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Loads a policy or a detector in a thread of its own. A call whose signal is aborted is given up; where the function does not let its
 * thread hear of that, the thread is ended, and what else waits for it fails.
 * @throws ConfigError for a module that cannot be loaded within a minute, or exports neither
 */
export async function hostPolicy(module: ModuleAddress): Promise<HostedPolicy> {
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

/** The class of anomalies whose kind a detector does not say. */
const UNNAMED = 'contextual point';

/**
 * What a detector found as an answer of a kind.
 * @throws DataError, TypeError where it is none
 */
export function detectedAnswer(
  found: DetectorOutcome,
  kind: Gold['kind'],
  shape: { readonly length: number; readonly channels: number },
): Gold {
  const { intervals, class: label, variates } = found;
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
