/** Evaluates policies and detectors of users' modules. */

import { baselineRecord } from '../../eval/baselines.ts';
import {
  type DetectorDefinition,
  detectedAnswer,
  type PolicyDefinition,
  type PolicyOutcome,
  type Question,
  TIME_LIMIT,
} from '../../eval/define.ts';
import type { EvalPolicy } from '../../eval/policy.ts';
import type { Example, Json } from '../ground/types.ts';
import { answerOneByOne, asked, type OneAnswer, type OneByOne } from './one-by-one.ts';
import { foreignCard } from './task.ts';

const questionOf = ({ id, task, channels, names, times }: Example): Question => ({
  ...{ id, task, names },
  // Copies: what is done to them must not reach the next one that looks.
  channels: channels.map((channel) => channel.slice()),
  times: times?.slice() ?? null,
});

/** A call within its time, with the reason of whatever went wrong naming the function. */
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
function responseOf(outcome: PolicyOutcome, where: string): Omit<OneAnswer, 'seconds'> {
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

/**
 * What a definition of the user evaluates as. A call that throws, hangs or gives back what is no answer leaves a response missing, with
 * the reason; many in a row end the evaluation.
 * @param identity what tells this version of the definition from others
 * @param ready waited for before each call, outside of its time limit
 */
export function userPolicy(
  definition: PolicyDefinition | DetectorDefinition,
  identity: Readonly<Record<string, Json>>,
  ready: () => Promise<void> = async () => {},
): EvalPolicy {
  const { name, concurrency = 1, timeLimit = TIME_LIMIT } = definition;
  const card: EvalPolicy['card'] = (facts) => foreignCard(facts, null);
  if ('detect' in definition) {
    const where = `detect of ${name}`;
    return {
      ...{ name, identity, card, asked: false },
      answer: (data, ...rest) => {
        const { kind, classes } = data.source.facts;
        const record: OneByOne['record'] = async ({ number }, stop) => {
          const example = data.source.at(number);
          const shape = { length: example.channels[0]!.length, channels: example.channels.length };
          await ready();
          const found = await call(where, timeLimit, stop, (signal) =>
            definition.detect(questionOf(example), { kind, classes, signal }),
          );
          if (found === null) return baselineRecord(example, `${where} cannot say`);
          try {
            return baselineRecord(example, detectedAnswer(found, kind, shape));
          } catch (error) {
            throw new Error(`${where}: ${reasonOf(error)}`, { cause: error });
          }
        };
        return answerOneByOne({ concurrency, record, failure: reasonOf }, data, ...rest);
      },
    };
  }
  const where = `answer of ${name}`;
  return {
    ...{ name, identity, card, asked: true },
    answer: (data, ...rest) => {
      const record = asked(data, async ({ number, ...request }, stop) => {
        const series = questionOf(data.source.at(number));
        await ready();
        const began = performance.now();
        const outcome = await call(where, timeLimit, stop, (signal) =>
          definition.answer({ ...request, series, signal }),
        );
        return { ...responseOf(outcome, where), seconds: (performance.now() - began) / 1000 };
      });
      return answerOneByOne({ concurrency, record, failure: reasonOf }, data, ...rest);
    },
  };
}
