/** Advantage estimators of users: the function that they write, what it receives, and the checks of what it returns. */
import { AdvantageError, ConfigError } from '../ground/errors.ts';
import { checkKeys } from '../ground/json-record.ts';
import type { ModuleAdapter } from '../ground/module-host.ts';
import { thrownText } from '../ground/user-code.ts';
import type { ModuleAddress } from '../ground/user-module.ts';
import type { GroupRecord, Ranks } from './advantage.ts';

export interface AdvantageDefinition {
  /** Name in logs and reports: letters, digits, `_` and `-`. */
  readonly name: string;
  /** True: groups carry the similarity of each response to the expert trace (`rl.timerpo` says which); it costs a forward pass. Default: false. */
  readonly similarity?: boolean;
  /**
   * Advantages of all groups of a step: [P][G] finite numbers, in the order given. Groups have no responses without a reward, and may
   * differ in size. Every rank calls it with the groups of all ranks and uses its share, so it must be a pure, synchronous function.
   */
  readonly advantages: (groups: readonly GroupRecord[]) => readonly (readonly number[])[];
  /** File of the module, for messages. */
  readonly file?: string;
}

const NAME = /^[A-Za-z][\w-]{0,63}$/u;
const KEYS = ['name', 'similarity', 'advantages', 'file'];

/**
 * Declares an advantage estimator, for `rl.advantage: ./FILE` of a recipe and for `rl()` of the library:
 *
 *     import { defineAdvantage } from 'timeseer';
 *
 *     export default defineAdvantage({
 *       name: 'best',
 *       advantages: (groups) =>
 *         groups.map(({ rewards }) => rewards.map((reward) => (reward === Math.max(...rewards) ? 1 : 0))),
 *     });
 *
 * @throws ConfigError for a definition with a wrong or unknown key
 */
export function defineAdvantage(definition: AdvantageDefinition): AdvantageDefinition {
  const { name, advantages, similarity } = (definition ?? {}) as Partial<AdvantageDefinition>;
  if (typeof name !== 'string' || !NAME.test(name)) {
    throw new ConfigError(
      `defineAdvantage: name: got ${JSON.stringify(name)}, expected a word of letters, digits, _ and - that begins with a letter`,
    );
  }
  checkKeys(`defineAdvantage ${name}`, definition, KEYS);
  if (typeof advantages !== 'function') {
    throw new ConfigError(`defineAdvantage ${name}: advantages: expected a function from groups to numbers`);
  }
  if (similarity !== undefined && typeof similarity !== 'boolean') {
    throw new ConfigError(`defineAdvantage ${name}: similarity: expected true or false`);
  }
  return definition;
}

/** The estimator that a module exports. @throws ConfigError naming the file */
export function advantageOf(value: unknown, file: string): AdvantageDefinition {
  try {
    return { ...defineAdvantage(value as AdvantageDefinition), file };
  } catch (cause) {
    throw new ConfigError(`${file}: exports no advantage estimator: ${(cause as Error).message}`, { cause });
  }
}

export const adapter: ModuleAdapter<Pick<AdvantageDefinition, 'name'>, never, never> = {
  wanted: 'an advantage estimator made with defineAdvantage',
  open([module]) {
    const { name } = advantageOf(module!.value, module!.file);
    return {
      info: { name },
      answer: () => {
        throw new AdvantageError('estimators are called by the Workers that train');
      },
    };
  },
};

/**
 * Loads a module in a thread of its own, to know that it can be used before anything is written. Training loads it in each of its Workers, where its
 * function blocks the step.
 * @throws ConfigError for a module that cannot be loaded, or exports no estimator
 */
export async function checkAdvantage(module: ModuleAddress): Promise<void> {
  const { ModuleHost } = await import('../ground/module-host.ts');
  const host = await ModuleHost.open({
    modules: [module],
    adapter: import.meta.url,
    timeLimit: () => 60,
    failure: (message) => new ConfigError(message),
  });
  await host.close();
}

const ADVICE = 'return one array per group with one finite number per response';

function checked(value: unknown, groups: readonly GroupRecord[], where: string): number[][] {
  const refuse = (problem: string): never => {
    throw new AdvantageError(`${where} returned ${problem}; ${ADVICE}`);
  };
  if (!Array.isArray(value)) return refuse(value instanceof Promise ? 'a promise' : `a ${typeof value}`);
  if (value.length !== groups.length) return refuse(`${value.length} arrays for ${groups.length} groups`);
  return value.map((group: unknown, p) => {
    const { rewards } = groups[p]!;
    const numbers = Array.isArray(group) || group instanceof Float64Array ? Array.from<unknown>(group) : null;
    if (numbers === null) return refuse(`a ${typeof group} for group ${p}`);
    if (numbers.length !== rewards.length) {
      return refuse(`${numbers.length} numbers for the ${rewards.length} responses of group ${p}`);
    }
    const bad = numbers.findIndex((one) => typeof one !== 'number' || !Number.isFinite(one));
    if (bad >= 0) return refuse(`${String(numbers[bad])} for response ${bad} of group ${p}`);
    return numbers as number[];
  });
}

/** Lines of text of all ranks, in rank order. Collective. */
function gatherLines(line: string, ranks: Ranks): string[] {
  const codes = ranks.gather(Array.from(`${line}\n`, (letter) => letter.charCodeAt(0)));
  const text = Array.from(codes, (code) => String.fromCharCode(code)).join('');
  return text.split('\n').slice(0, -1);
}

/**
 * Advantages of this rank's groups by a user's estimator, which sees the groups of all ranks: [P][G]. Collective.
 * @throws AdvantageError where the function throws or returns anything but one finite number per response
 */
export function userAdvantages(
  definition: AdvantageDefinition,
  groups: readonly GroupRecord[],
  ranks: Ranks,
): number[][] {
  const all = gatherLines(JSON.stringify(groups), ranks).map((line) => JSON.parse(line) as GroupRecord[]);
  const rewarded = all.flat().filter(({ rewards }) => rewards.length > 0);
  const { name, file } = definition;
  const where = `${file === undefined ? '' : `${file}: `}advantage ${name}`;
  let returned: unknown;
  try {
    returned = definition.advantages(rewarded);
  } catch (cause) {
    throw new AdvantageError(`${where} ${thrownText(file ?? '', cause)}`, { cause });
  }
  const advantages = checked(returned, rewarded, where);
  const count = (some: readonly GroupRecord[]): number =>
    some.filter(({ rewards }) => rewards.length > 0).length;
  let next = count(all.slice(0, ranks.rank).flat());
  return groups.map(({ rewards }) => (rewards.length === 0 ? [] : advantages[next++]!));
}
