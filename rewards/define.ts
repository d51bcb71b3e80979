/** User-defined rewards: definition, the thread they run in, and checks of their return values. */

import { ConfigError, RewardError, RewardTimeoutError } from '../src/ground/errors.ts';
import { checkKeys, show } from '../src/ground/json-record.ts';
import { getOrMake } from '../src/ground/maps.ts';
import { type ModuleAdapter, ModuleHost } from '../src/ground/module-host.ts';
import type { Example, Gold, ParsedAnswer, Score } from '../src/ground/types.ts';
import { checkName, NAME, readExport, thrownText } from '../src/ground/user-code.ts';
import type { ModuleAddress } from '../src/ground/user-module.ts';

/** One response to score. */
export interface RewardRequest<G extends Gold = Gold> {
  /** The response, raw. */
  readonly text: string;
  /** Answer parsed from the response. */
  readonly answer: ParsedAnswer;
  /** The example it responds to: the series, with names and times. */
  readonly example: Example;
  /** The right answer, `example.gold`. */
  readonly gold: G;
  /** Aborted when the time limit has passed, or the run is stopped. */
  readonly signal: AbortSignal;
}

export interface RewardResult {
  /** Finite; null: not applicable. Recommended: [0, 1], so that weights are comparable between rewards. */
  readonly total: number | null;
  /** Components of the total, for logging only: finite, or null to leave one out. */
  readonly parts?: Readonly<Record<string, number | null>>;
  /** Remarks shown with the completions. */
  readonly notes?: string;
}

/** A number, or a number with parts; null if the reward does not apply to the response (excluded, unlike a 0). */
export type RewardOutcome = number | null | RewardResult;

interface RewardCommon {
  /** Name in metrics and completions, one word: letters, digits, `_` and `-`. */
  readonly name: string;
  /** Time limit of a call in seconds. Default: 60. */
  readonly timeLimit?: number;
}

/** Reward of one response (`score`), or of all waiting responses (`scoreBatch`: one outcome each, in order). */
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

/** Default time limit of a call, seconds. */
const TIME_LIMIT = 60;
/** Seconds after the time limit in which a function may still react to its signal, e.g. return null. */
const GRACE = 1;
/** Grace in seconds if no pending work could settle the call any more. */
const STALL_GRACE = 0.1;
/** Maximum number of concurrent calls. */
const CONCURRENCY = 64;

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
 * @throws ConfigError for a wrong or unknown key
 */
export function defineReward<G extends Gold = Gold>(definition: RewardDefinition<G>): RewardDefinition<G> {
  const { name, timeLimit, score, scoreBatch } = (definition ?? {}) as RewardDefinition<G>;
  checkName('defineReward', name);
  if ((typeof score === 'function') === (typeof scoreBatch === 'function')) {
    throw new ConfigError(`defineReward ${name}: expected one function, either score or scoreBatch`);
  }
  if (timeLimit !== undefined && !(Number.isFinite(timeLimit) && timeLimit > 0 && timeLimit <= 86_400)) {
    throw new ConfigError(
      `defineReward ${name}: timeLimit: got ${show(timeLimit)}, expected seconds, above 0 and at most a day`,
    );
  }
  checkKeys(`defineReward ${name}`, definition, ['name', 'score', 'scoreBatch', 'timeLimit']);
  return definition;
}

/**
 * Reads a module's export as a reward: the result of `defineReward`, an equivalent object, or a plain function, whose name becomes the
 * name of the reward. @throws ConfigError naming the file
 */
export function rewardOf(value: unknown, file: string): RewardDefinition {
  if (typeof value === 'function') {
    return defineReward({
      name: NAME.test(value.name) && value.name !== 'default' ? value.name : 'reward',
      score: value as (request: RewardRequest) => RewardOutcome,
    });
  }
  return readExport(file, 'reward', () => defineReward(value as RewardDefinition));
}

const ADVICE = 'return one finite number, { total, parts, notes }, or null where it does not apply';

/** Checks the return value of a reward function. @throws RewardError */
function checked(outcome: unknown, where: string): Score | null {
  const refuse = (what: string): never => {
    throw new RewardError(`${where} returned ${what}: ${ADVICE}`);
  };
  if (outcome === null) return null;
  if (typeof outcome === 'number') {
    return Number.isFinite(outcome) ? { total: outcome, parts: {} } : refuse(String(outcome));
  }
  if (typeof outcome !== 'object' || Array.isArray(outcome) || !('total' in outcome)) {
    return refuse(outcome === undefined ? 'nothing' : show(outcome));
  }
  const { total, parts = {}, notes } = outcome as Partial<RewardResult>;
  if (total !== null && !(typeof total === 'number' && Number.isFinite(total))) {
    refuse(`a total of ${show(total)}`);
  }
  if (typeof parts !== 'object' || parts === null || Array.isArray(parts)) refuse(`parts of ${show(parts)}`);
  const kept: Record<string, number> = {};
  for (const [name, value] of Object.entries(parts)) {
    if (!NAME.test(name)) refuse(`a part called ${show(name)}`);
    if (value === null) continue;
    if (typeof value !== 'number' || !Number.isFinite(value)) refuse(`${show(value)} as its part ${name}`);
    kept[name] = value;
  }
  if (notes !== undefined && typeof notes !== 'string') refuse(`notes of ${show(notes)}`);
  if (total === null || total === undefined) return null;
  return { total, parts: kept, ...(notes === undefined ? {} : { notes }) };
}

/**
 * Runs a call for at most its time limit plus a grace period. The timers do not keep the event loop alive, so a promise that nothing can
 * settle is detected at once, as `Stalled` on the outer signal.
 * @throws RewardTimeoutError
 */
async function withTimeLimit<T>(
  limit: number,
  outer: AbortSignal | undefined,
  where: string,
  call: (signal: AbortSignal) => T | Promise<T>,
): Promise<T> {
  const timeout = new AbortController();
  const signal = outer === undefined ? timeout.signal : AbortSignal.any([timeout.signal, outer]);
  const reason = new DOMException(`the time limit of ${limit} s has passed`, 'TimeoutError');
  const timers = [setTimeout(() => timeout.abort(reason), 1000 * limit).unref()];
  const expired = new Promise<never>((_, reject) => {
    const expire = (): void => {
      const message = timeout.signal.aborted
        ? `returned nothing within ${limit} s: return null when the signal aborts, or raise timeLimit`
        : (outer!.reason as Error).message;
      const fail = (): void => reject(new RewardTimeoutError(`${where} ${message}`));
      timers.push(setTimeout(fail, 1000 * (timeout.signal.aborted ? GRACE : STALL_GRACE)));
    };
    signal.addEventListener('abort', expire, { once: true });
  });
  try {
    return await Promise.race([call(signal), expired]);
  } finally {
    timers.forEach(clearTimeout);
  }
}

interface ScoringOptions {
  /** File of the module, for messages. */
  readonly file: string;
  readonly signal?: AbortSignal;
  /** Called before every call of the function with what it is about. */
  readonly onCall?: (where: string) => void;
}

type UnscoredResponse = Omit<RewardRequest, 'signal'>;

/**
 * Scores responses by a reward, in order. An entry is null if the reward does not apply, and an error (naming function, file and response)
 * if the function throws, times out or returns an invalid value. `score` runs for up to 64 responses concurrently; after a timeout it is
 * not called again.
 */
export async function scoresBy(
  reward: RewardDefinition,
  requests: readonly UnscoredResponse[],
  { file, signal, onCall }: ScoringOptions,
): Promise<(Score | null | RewardError)[]> {
  const { name, timeLimit = TIME_LIMIT, scoreBatch, score } = reward;
  const who = `${file}: reward ${name}`;
  /** Calls the function and reads its return value; returns errors instead of throwing them. */
  const settled = async <T, R>(
    where: string,
    work: (signal: AbortSignal) => T | Promise<T>,
    read: (value: T) => R,
  ): Promise<R | RewardError> => {
    onCall?.(where);
    try {
      return read(await withTimeLimit(timeLimit, signal, where, work));
    } catch (cause) {
      if (cause instanceof RewardError) return cause;
      return new RewardError(`${where} ${thrownText(file, cause)}`, { cause });
    }
  };
  if (scoreBatch !== undefined) {
    if (requests.length === 0) return [];
    const outcomes = await settled(
      who,
      (limited) => scoreBatch(requests.map((request) => ({ ...request, signal: limited }))),
      (values: unknown) => {
        if (Array.isArray(values) && values.length === requests.length) return values as unknown[];
        const got = Array.isArray(values) ? `${values.length} values` : show(values);
        throw new RewardError(`${who} returned ${got} for ${requests.length} responses: return one for each`);
      },
    );
    if (outcomes instanceof RewardError) return requests.map(() => outcomes);
    return outcomes.map((outcome, i) => {
      try {
        return checked(outcome, `${who}${responseText(requests[i]!)}`);
      } catch (error) {
        return error as RewardError;
      }
    });
  }
  const results: (Score | null | RewardError)[] = new Array(requests.length);
  let next = 0;
  let late: RewardTimeoutError | null = null;
  const work = async (): Promise<void> => {
    while (next < requests.length) {
      const i = next++;
      const where = `${who}${responseText(requests[i]!)}`;
      const result =
        late ??
        (await settled(
          where,
          (limited) => score({ ...requests[i]!, signal: limited }),
          (outcome) => checked(outcome, where),
        ));
      if (result instanceof RewardTimeoutError) late ??= result;
      results[i] = result;
    }
  };
  await Promise.all(Array.from({ length: Math.min(CONCURRENCY, requests.length) }, work));
  return results;
}

const responseText = ({ text, example }: UnscoredResponse): string =>
  ` on a response to ${example.id} (${show(text.length > 55 ? `${text.slice(0, 52)}...` : text)})`;

/** A response to score, with its parsed answer. */
export interface ScoringRequest {
  readonly text: string;
  readonly answer: ParsedAnswer;
  readonly example: Example;
}

/** Responses that are scored together. */
interface Batch {
  readonly examples: readonly Example[];
  readonly responses: readonly {
    /** Index of its example in `examples`. */
    readonly example: number;
    readonly text: string;
    readonly answer: ParsedAnswer;
  }[];
}

/** Outcome of one response, as sent between the threads. */
type SentOutcome = Score | null | { readonly failure: string; readonly late: boolean };

/** Facts about a reward whose module is loaded. */
interface HostedReward {
  readonly name: string;
  readonly timeLimit: number;
}

/** Outcomes by module, then by response. */
type Outcomes = readonly (readonly SentOutcome[])[];

export const adapter: ModuleAdapter<readonly HostedReward[], Batch, Outcomes, string> = {
  wanted: 'a reward made with defineReward',
  open(modules) {
    const rewards = modules.map(({ value, file }) => rewardOf(value, file));
    return {
      info: rewards.map(({ name, timeLimit = TIME_LIMIT }) => ({ name, timeLimit })),
      async answer({ examples, responses }, { signal, beat, part }) {
        const requests = responses.map(({ example: place, text, answer }) => {
          const example = examples[place]!;
          return { text, answer, example, gold: example.gold };
        });
        const scored = rewards.map(async (reward, i): Promise<SentOutcome[]> => {
          const { file } = modules[i]!;
          const onCall = (where: string): void => {
            beat();
            part(where);
          };
          const outcomes = await scoresBy(reward, requests, { file, signal, onCall });
          return outcomes.map((outcome) =>
            outcome instanceof RewardError
              ? { failure: outcome.message, late: outcome instanceof RewardTimeoutError }
              : outcome,
          );
        });
        return { reply: await Promise.all(scored) };
      },
    };
  },
};

interface Waiting {
  readonly request: ScoringRequest;
  readonly resolve: (scores: (Score | null)[]) => void;
  readonly reject: (error: unknown) => void;
}

/** Runs user-defined rewards in a separate thread, concurrently with sampling. */
export class RewardHost {
  readonly #host: ModuleHost<readonly HostedReward[], Batch, Outcomes, string>;
  #queue: Waiting[] = [];

  private constructor(host: ModuleHost<readonly HostedReward[], Batch, Outcomes, string>) {
    this.#host = host;
  }

  /** @throws ConfigError for a module that cannot be loaded, or is no reward */
  static async open(modules: readonly ModuleAddress[]): Promise<RewardHost> {
    const host = await ModuleHost.open<readonly HostedReward[], Batch, Outcomes, string>({
      modules,
      adapter: import.meta.url,
      timeLimit: (rewards) => Math.max(...rewards.map(({ timeLimit }) => timeLimit)),
      failure: (message) => new RewardTimeoutError(message),
    });
    return new RewardHost(host);
  }

  /** Rewards of the modules, in their order. */
  get rewards(): readonly HostedReward[] {
    return this.#host.info;
  }

  /**
   * Scores a response by each reward, in the order of the modules; null where one does not apply. Requests made in one turn of the
   * event loop are batched.
   * @throws RewardError as `scoresBy`; RewardTimeoutError for a function that blocks or ends its thread
   */
  score(request: ScoringRequest): Promise<(Score | null)[]> {
    return new Promise((resolve, reject) => {
      if (this.#queue.push({ request, resolve, reject }) === 1) queueMicrotask(() => void this.#send());
    });
  }

  close(): Promise<void> {
    return this.#host.close();
  }

  async #send(): Promise<void> {
    const waiting = this.#queue;
    this.#queue = [];
    const places = new Map<Example, number>();
    const responses = waiting.map(({ request: { example, text, answer } }) => {
      return { example: getOrMake(places, example, () => places.size), text, answer };
    });
    let last: string | null = null;
    const onPart = (where: string): void => {
      last = where;
    };
    try {
      const outcomes = await this.#host.call({ examples: [...places.keys()], responses }, { onPart });
      for (const [i, { resolve, reject }] of waiting.entries()) {
        const scores: (Score | null)[] = [];
        let error: RewardError | null = null;
        for (const byReward of outcomes) {
          const outcome = byReward[i]!;
          if (outcome === null || 'total' in outcome) scores.push(outcome);
          else error ??= new (outcome.late ? RewardTimeoutError : RewardError)(outcome.failure);
        }
        if (error === null) resolve(scores);
        else reject(error);
      }
    } catch (cause) {
      // This ends the whole batch, whose thread is gone.
      const error =
        cause instanceof RewardTimeoutError && last !== null
          ? new RewardTimeoutError(`${cause.message}; last called: ${last}`, { cause })
          : cause;
      for (const { reject } of waiting) reject(error);
    }
  }
}
