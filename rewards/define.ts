/** Rewards of the user: what a function that scores responses is given and gives back, and what is checked of it. */

import { performance } from 'node:perf_hooks';
import { ConfigError, RewardError } from '../src/ground/errors.ts';
import type { Example, Gold, ParsedAnswer, Score } from '../src/ground/types.ts';
import { thrownText } from '../src/ground/user-code.ts';

/** One response to score. */
export interface RewardRequest<G extends Gold = Gold> {
  /** The response, raw. */
  readonly text: string;
  /** What it says, as the parser of its kind reads it. */
  readonly answer: ParsedAnswer;
  /** What it responds to: the series, with names and times. */
  readonly example: Example;
  /** The right answer, `example.gold`. */
  readonly gold: G;
  /** Aborted when the time limit has passed, or the run is stopped. */
  readonly signal: AbortSignal;
}

export interface RewardResult {
  /** Finite; null: does not apply. Best in [0, 1], so that weights mean the same beside other rewards. */
  readonly total: number | null;
  /** What it is made of, finite each, for the logs alone; a part that is null is left out. */
  readonly parts?: Readonly<Record<string, number | null>>;
  /** For readers of the completions. */
  readonly notes?: string;
}

/** A number; null: the reward does not apply to the response, which is not 0; or the number with its parts. */
export type RewardOutcome = number | null | RewardResult;

interface RewardCommon {
  /** One word, by which metrics and completions call it: letters, digits, `_` and `-`. */
  readonly name: string;
  /** Seconds that a call of the function may take; 60 when absent. */
  readonly timeLimit?: number;
}

/** A reward of one response at a time, or of all that are waiting (`scoreBatch`, one outcome for each, in order). */
export type RewardDefinition<G extends Gold = Gold> = RewardCommon &
  (
    | {
        readonly score: (request: RewardRequest<G>) => RewardOutcome | Promise<RewardOutcome>;
        readonly scoreBatch?: never;
      }
    | {
        readonly scoreBatch: (
          requests: readonly RewardRequest<G>[],
        ) => readonly RewardOutcome[] | Promise<readonly RewardOutcome[]>;
        readonly score?: never;
      }
  );

/** Seconds that a call may take where the reward does not say. */
export const TIME_LIMIT = 60;
/** Seconds after the time limit in which a function that heeds its signal may still answer, say with null. */
const GRACE = 1;
/** Calls that are under way at a time. */
const CONCURRENCY = 64;
const NAME = /^[A-Za-z][\w-]{0,63}$/u;

const shown = (value: unknown): string => {
  const text =
    typeof value === 'function'
      ? 'a function'
      : typeof value === 'number'
        ? String(value)
        : JSON.stringify(value);
  const plain = text ?? String(value);
  return plain.length > 80 ? `${plain.slice(0, 77)}...` : plain;
};

/**
 * Declares a reward, for `reward:` of a recipe and `--reward FILE`. Write it as the default export of a module:
 *
 *     import { defineReward } from 'timeseer';
 *
 *     export default defineReward({
 *       name: 'brief',
 *       score: ({ text }) => Math.max(0, 1 - text.length / 400),
 *     });
 *
 * @throws ConfigError for a definition that is none
 */
export function defineReward<G extends Gold = Gold>(definition: RewardDefinition<G>): RewardDefinition<G> {
  const { name, timeLimit, score, scoreBatch } = (definition ?? {}) as RewardDefinition<G>;
  if (typeof name !== 'string' || !NAME.test(name)) {
    throw new ConfigError(
      `defineReward: name: got ${shown(name)}, expected a word of letters, digits, _ and - that begins with a letter`,
    );
  }
  if ((typeof score === 'function') === (typeof scoreBatch === 'function')) {
    throw new ConfigError(
      `defineReward ${name}: expected a function score or a function scoreBatch, one of them`,
    );
  }
  if (timeLimit !== undefined && !(Number.isFinite(timeLimit) && timeLimit > 0 && timeLimit <= 86_400)) {
    throw new ConfigError(
      `defineReward ${name}: timeLimit: got ${shown(timeLimit)}, expected seconds, above 0 and at most a day`,
    );
  }
  return definition;
}

/**
 * What a module exports as a reward: what `defineReward` made, the same written as an object, or a function alone, which is called by
 * its own name. @throws ConfigError naming the file
 */
export function rewardOf(value: unknown, file: string): RewardDefinition {
  if (typeof value === 'function') {
    return defineReward({
      name: NAME.test(value.name) && value.name !== 'default' ? value.name : 'reward',
      score: value as (request: RewardRequest) => RewardOutcome,
    });
  }
  try {
    return defineReward(value as RewardDefinition);
  } catch (cause) {
    throw new ConfigError(`${file}: exports no reward: ${(cause as Error).message}`, { cause });
  }
}

const ADVICE = 'return one finite number, { total, parts, notes }, or null where it does not apply';

/** What a function returned, checked. @throws RewardError */
function checked(outcome: unknown, where: string): Score | null {
  const refuse = (what: string): never => {
    throw new RewardError(`${where} returned ${what}: ${ADVICE}`);
  };
  if (outcome === null) return null;
  if (typeof outcome === 'number') {
    return Number.isFinite(outcome) ? { total: outcome, parts: {} } : refuse(String(outcome));
  }
  if (typeof outcome !== 'object' || Array.isArray(outcome) || !('total' in outcome)) {
    return refuse(outcome === undefined ? 'nothing' : shown(outcome));
  }
  const { total, parts = {}, notes } = outcome as Partial<RewardResult>;
  if (total !== null && !(typeof total === 'number' && Number.isFinite(total))) {
    refuse(`a total of ${shown(total)}`);
  }
  if (typeof parts !== 'object' || parts === null || Array.isArray(parts)) refuse(`parts of ${shown(parts)}`);
  const kept: Record<string, number> = {};
  for (const [name, value] of Object.entries(parts)) {
    if (!NAME.test(name)) refuse(`a part called ${shown(name)}`);
    if (value === null) continue;
    if (typeof value !== 'number' || !Number.isFinite(value)) refuse(`${shown(value)} as its part ${name}`);
    kept[name] = value;
  }
  if (notes !== undefined && typeof notes !== 'string') refuse(`notes of ${shown(notes)}`);
  if (total === null || total === undefined) return null;
  return { total, parts: kept, ...(notes === undefined ? {} : { notes }) };
}

/** The value, or an error once the limit and the grace have passed. */
async function within<T>(
  limit: number,
  outer: AbortSignal | undefined,
  where: string,
  call: (signal: AbortSignal) => T | Promise<T>,
): Promise<T> {
  const late = new AbortController();
  const signal = outer === undefined ? late.signal : AbortSignal.any([late.signal, outer]);
  const timers: NodeJS.Timeout[] = [];
  const expired = new Promise<never>((_, reject) => {
    const fail = (): void => {
      reject(
        new RewardError(
          `${where} had no answer after ${limit} s: heed the signal and return null, or raise timeLimit`,
        ),
      );
    };
    const expire = (): void => {
      late.abort(new DOMException(`the time limit of ${limit} s has passed`, 'TimeoutError'));
      timers.push(setTimeout(fail, 1000 * GRACE));
    };
    timers.push(setTimeout(expire, 1000 * limit));
  });
  try {
    return await Promise.race([call(signal), expired]);
  } finally {
    timers.forEach(clearTimeout);
  }
}

export interface ScoringOptions {
  /** The module that the reward comes from, for messages. */
  readonly file: string;
  readonly signal?: AbortSignal;
  /** Called before every call of the function. */
  readonly onCall?: () => void;
  /** Told the milliseconds of every call and how many responses it was for. */
  readonly onTimed?: (milliseconds: number, responses: number) => void;
}

/**
 * Scores of responses by a reward, in their order; null where it does not apply. A function of one response is called for up to 64 of
 * them at a time.
 * @throws RewardError naming function, file and response, where the function throws, has no answer in time, or returns anything but
 * one finite number for each
 */
export async function scoresBy(
  reward: RewardDefinition,
  requests: readonly Omit<RewardRequest, 'signal'>[],
  { file, signal, onCall, onTimed }: ScoringOptions,
): Promise<(Score | null)[]> {
  const { name, timeLimit = TIME_LIMIT } = reward;
  const who = `${file}: reward ${name}`;
  const call = async <T>(where: string, count: number, work: (signal: AbortSignal) => T | Promise<T>) => {
    onCall?.();
    const before = performance.now();
    try {
      return await within(timeLimit, signal, where, work);
    } catch (cause) {
      if (cause instanceof RewardError) throw cause;
      throw new RewardError(`${where} ${thrownText(file, cause)}`, { cause });
    } finally {
      onTimed?.(performance.now() - before, count);
    }
  };
  const { scoreBatch, score } = reward;
  if (scoreBatch !== undefined) {
    if (requests.length === 0) return [];
    const outcomes: unknown = await call(who, requests.length, (own) =>
      scoreBatch(requests.map((one) => ({ ...one, signal: own }))),
    );
    if (!Array.isArray(outcomes) || outcomes.length !== requests.length) {
      const got = Array.isArray(outcomes) ? `${outcomes.length} values` : shown(outcomes);
      throw new RewardError(`${who} returned ${got} for ${requests.length} responses: return one for each`);
    }
    return outcomes.map((one, i) => checked(one, `${who}${responseOf(requests[i]!)}`));
  }
  const results: (Score | null)[] = new Array(requests.length);
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < requests.length) {
      const i = next++;
      const where = `${who}${responseOf(requests[i]!)}`;
      const outcome = await call(where, 1, (own) => score({ ...requests[i]!, signal: own }));
      results[i] = checked(outcome, where);
    }
  };
  await Promise.all(Array.from({ length: Math.min(CONCURRENCY, requests.length) }, work));
  return results;
}

const responseOf = ({ text, example }: Omit<RewardRequest, 'signal'>): string =>
  ` on a response to ${example.id} (${shown(text.length > 60 ? `${text.slice(0, 57)}...` : text)})`;
