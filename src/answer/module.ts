/** Policies and detectors of users' modules as answerers. */

import type { Json } from '../ground/types.ts';
import { type ModuleAddress, moduleHash } from '../ground/user-module.ts';
import type { Answerer, Response } from './answerer.ts';
import {
  type DetectorDefinition,
  detectedAnswer,
  hostPolicy,
  type PolicyDefinition,
  type PolicyOutcome,
  type Question,
  TIME_LIMIT,
} from './define.ts';
import { answerEach } from './each.ts';
import { responseSeed } from './endpoint.ts';

/** A question with copies of its values: what a call does to them must not reach the next one. */
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
    const what = plain ? message : `threw ${name}: ${message.split('\n')[0]}`;
    throw new Error(`${where}: ${what}`, { cause: error });
  } finally {
    clearTimeout(timer);
  }
}

const shown = (value: unknown): string => (JSON.stringify(value) ?? typeof value).slice(0, 80);

/** @throws Error for what is no response */
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

/** A definition of the user, and where it runs. */
export interface UserPolicy {
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
  const common = { given, name, identity, local: null, dispose: close };
  const queue = { concurrency, failure: reasonOf };
  if ('detect' in definition) {
    const where = `detect of ${name}`;
    return {
      ...{ ...common, reads: 'values' },
      answer: (requests, { data, signal: outer }, report) => {
        const { kind, classes } = data?.facts ?? { kind: 'anomaly' as const, classes: [] };
        return answerEach(
          {
            ...queue,
            async respond(request, _, stop) {
              const series = request.series() ?? NO_SERIES;
              const shape = { length: series.channels[0]?.length ?? 0, channels: series.channels.length };
              await ready();
              const outcome = await call(where, timeLimit, stop, (signal) =>
                definition.detect(copyOf(series), { kind, classes, signal }),
              );
              if (outcome === null) return { text: '', answer: `${where} cannot say` };
              try {
                return { text: '', answer: detectedAnswer(outcome, kind, shape) };
              } catch (error) {
                throw new Error(`${where}: ${reasonOf(error)}`, { cause: error });
              }
            },
          },
          requests,
          outer === undefined ? {} : { signal: outer },
          report,
        );
      },
    };
  }
  const where = `answer of ${name}`;
  return {
    ...{ ...common, reads: 'prompt' },
    answer: (requests, { temperature, maxTokens, seed: base, signal: outer }, report) =>
      answerEach(
        {
          ...queue,
          async respond(request, sample, stop) {
            const { system, shots, pictures, text } = await request.prompt();
            const asked = {
              instruction: system === undefined ? text : `${system}\n\n${text}`,
              picture: pictures[0] ?? null,
              shots,
              series: copyOf(request.series() ?? NO_SERIES),
              ...{ temperature, sample, maxTokens, seed: responseSeed(base, request.key, sample) },
            };
            await ready();
            const began = performance.now();
            const outcome = await call(where, timeLimit, stop, (signal) =>
              definition.answer({ ...asked, signal }),
            );
            return { ...responseOf(outcome, where), seconds: (performance.now() - began) / 1000 };
          },
        },
        requests,
        outer === undefined ? {} : { signal: outer },
        report,
      ),
  };
}

/** Loads a module of the user in a thread of its own. @throws ConfigError for one that exports no policy and no detector */
export async function moduleAnswerer(given: string, module: ModuleAddress): Promise<Answerer> {
  const { definition, ready, close } = await hostPolicy(module);
  const identity = { module: moduleHash(module.file), export: module.name };
  return userAnswerer({ given, definition, identity, ready, close });
}
