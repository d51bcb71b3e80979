/** Rewards of a recipe, in place of the answer kind's own. */
import { RewardHost } from '../../rewards/define.ts';
import { type NamedReward, namedReward } from '../../rewards/registry.ts';
import { type CombinedReward, combine, combinedWeights, type RewardOptions } from '../../rewards/reward.ts';
import type { Example, Gold, ParsedAnswer, Score } from '../ground/types.ts';
import { isModuleSpecifier, type ModuleAddress, moduleAddress } from '../ground/user-module.ts';
import { defaultRecipe, type Recipe, type RewardRecipe } from '../recipe/recipe.ts';
import { taskKind } from '../tasks/kinds.ts';
import type { Task } from '../train/task.ts';
import type { ExampleTask, TrainingTask } from './policy-task.ts';

interface Member {
  readonly weight: number;
  /** Built-in reward, or index of the hosted module. */
  readonly of: NamedReward | number;
}

interface Plan {
  readonly members: readonly Member[];
  readonly modules: readonly ModuleAddress[];
}

/** Resolves the rewards of a recipe for an answer kind. @throws ConfigError for an unknown name */
function planOf(rewards: readonly RewardRecipe[], kind: Gold['kind']): Plan {
  const modules: ModuleAddress[] = [];
  const members = rewards.map(({ use, weight }): Member => {
    if (!isModuleSpecifier(use)) return { weight, of: namedReward(use, taskKind(kind).reward) };
    return { weight, of: modules.push(moduleAddress(use, '.')) - 1 };
  });
  return { members, modules };
}

const combinedOf = ({ members }: Plan, host: RewardHost | null): CombinedReward[] =>
  members.map(({ weight, of }) =>
    typeof of === 'number'
      ? { name: host!.rewards[of]!.name, weight, weights: null }
      : { name: of.name, weight, weights: of.weights },
  );

/** @throws ConfigError for a reward that is unknown for an answer kind */
export function checkRewardNames({ reward }: Recipe, kind: Gold['kind']): void {
  if (reward !== null) planOf(reward, kind);
}

/**
 * Loads and closes the rewards of a recipe, to check them; resolves to their names.
 * @throws ConfigError for an unknown name, a module that cannot be loaded or is no reward, or parts of the same name
 */
export async function checkRewards(
  { reward }: Pick<Recipe, 'reward'>,
  kind: Gold['kind'],
): Promise<readonly string[]> {
  if (reward === null) return [];
  const opened = await openRewards(reward, kind, defaultRecipe().rl.reward);
  await opened.close();
  return opened.names;
}

export interface RewardedTask {
  readonly task: Task;
  readonly close: () => Promise<void>;
}

export interface OpenRewards {
  /** Names of the rewards, in their order. */
  readonly names: readonly string[];
  /** Weights of the parts of scores, as `combinedWeights`. */
  readonly weights: Readonly<Record<string, number>>;
  /** True where some are modules, which run in a Worker. */
  readonly hosted: boolean;
  /** The combined score of a response; null where none applies. @throws RewardError as `RewardHost.score` */
  score(text: string, answer: ParsedAnswer, example: Example): Promise<Score | null>;
  /** The total of each reward by its name, without those that do not apply. @throws RewardError as `RewardHost.score` */
  totals(text: string, answer: ParsedAnswer, example: Example): Promise<Record<string, number>>;
  close(): Promise<void>;
}

/**
 * Opens rewards for answers of a kind.
 * @param task replaces weights and score of the answer kind's own reward, e.g. by those of a judge
 * @param grader grader of reasonings for the reward `truth`, which does not apply without
 * @throws ConfigError as `checkRewards`
 */
export async function openRewards(
  rewards: readonly RewardRecipe[],
  kind: Gold['kind'],
  options: RewardOptions,
  task?: Pick<Task, 'weights' | 'score'>,
  grader?: ExampleTask['grader'],
): Promise<OpenRewards> {
  const plan = planOf(rewards, kind);
  const host = plan.modules.length === 0 ? null : await RewardHost.open(plan.modules);
  const kindReward = taskKind(kind).reward;
  const combined = combinedOf(plan, host).map((member, i) =>
    task !== undefined && plan.members[i]!.of === kindReward ? { ...member, weights: task.weights } : member,
  );
  let weights: OpenRewards['weights'];
  try {
    weights = combinedWeights(combined);
  } catch (error) {
    await host?.close();
    throw error;
  }
  /** Returns the score of every member. */
  const scoresOf = (text: string, answer: ParsedAnswer, example: Example): Promise<(Score | null)[]> => {
    const custom = host?.score({ text, answer, example }) ?? [];
    const scores = plan.members.map(async ({ of }) => {
      if (typeof of === 'number') return (await custom)[of]!;
      if (of === kindReward && task !== undefined) return task.score(text, example);
      const context = grader === undefined ? options : { ...options, reasoning: () => grader(example) };
      return of.score(answer, example.gold, example.channels[0]!.length, context);
    });
    return Promise.all(scores);
  };
  return {
    names: combined.map(({ name }) => name),
    weights,
    hosted: host !== null,
    async score(text, answer, example) {
      return combine(combined, await scoresOf(text, answer, example));
    },
    async totals(text, answer, example) {
      const scores = await scoresOf(text, answer, example);
      return Object.fromEntries(
        combined.flatMap(({ name }, i) => (scores[i] === null ? [] : [[name, scores[i]!.total]])),
      );
    },
    close: async () => host?.close(),
  };
}

/**
 * Replaces the reward of a training task by those of a recipe, if any. The answer kind's own reward is still scored by the task, which may
 * ask a judge. @throws ConfigError as `checkRewards`
 */
export async function rewardedTask(
  task: Task & Pick<TrainingTask, 'parse' | 'grader'>,
  kind: Gold['kind'],
  { reward, rl }: Recipe,
): Promise<RewardedTask> {
  if (reward === null) return { task, close: async () => {} };
  const opened = await openRewards(reward, kind, rl.reward, task, task.grader);
  const score: Task['score'] = (text, example) => opened.score(text, task.parse(text, example), example);
  const hosted = opened.hosted ? { hosted: true } : {};
  return { task: { ...task, weights: opened.weights, score, ...hosted }, close: () => opened.close() };
}
