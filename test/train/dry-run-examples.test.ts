/** A dry run on the examples that can make a peak says what one on all of them would. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { MetaEngine } from '../../src/engine/torch/meta.ts';
import type { Layout } from '../../src/policy/layout.ts';
import { Policy } from '../../src/policy/policy.ts';
import { trainBpe } from '../../src/policy/tokenizer.ts';
import { defaultRecipe, type Recipe } from '../../src/recipe/recipe.ts';
import type { AdvantageName } from '../../src/train/advantage.ts';
import {
  dryRun,
  ExampleReader,
  lengthsOf,
  type PlannedPolicy,
  plannedGroups,
  undominated,
  WatchedLearner,
} from '../../src/train/dry-run.ts';
import { rl } from '../../src/train/rl.ts';
import { sft } from '../../src/train/sft.ts';
import type { Task } from '../../src/train/task.ts';
import { WorkerGroup } from '../../src/train/worker-group.ts';
import { TRACES, tinyDims, tinyTask } from '../helpers/tiny-policy.ts';

const scratch = new MetaEngine('cpu');
const subject: PlannedPolicy = {
  parts: Policy.create(scratch, {
    tokenizer: trainBpe(TRACES, { vocabulary: 330 }),
    seed: 7,
    dims: tinyDims,
    tuning: 'none',
  }).parts,
  dtype: 'float32',
  device: 'cpu',
};

/** Prompts of many lengths, traces of many others, pictures of two sizes. */
function variedTask(): Task {
  let turn = 0;
  const number = ({ id }: { readonly id: string }): number => Number(id.split('/').at(-1));
  const tiny = tinyTask();
  return {
    ...tiny,
    picture: async (example) => {
      const picture = (await tiny.picture(example))!;
      if (number(example) % 3 > 0) return picture;
      return { width: 84, height: 56, data: new Uint8Array(84 * 56 * 3) };
    },
    instruction: (example) => `Where? ${'dark '.repeat((7 * number(example)) % 13)}`,
    trace: (example) => TRACES[number(example) % 3]!.repeat(1 + ((5 * number(example)) % 4)),
    score: () => {
      turn = (turn + 2) % 5;
      return { total: turn / 5, parts: {} };
    },
  };
}

function recipeOf(changes: { readonly [stage in 'sft' | 'rl' | 'memory']?: object }): Recipe {
  const base = defaultRecipe();
  return {
    ...base,
    sft: { ...base.sft, samples: 60, batch: 12, workers: 1, ...changes.sft },
    rl: { ...base.rl, steps: 1, prompts: 30, group: 3, maxTokens: 20, kl: 0, workers: 1, ...changes.rl },
    memory: { ...base.memory, rows: 12, tokens: 400, ...changes.memory },
  };
}

/** Largest of each phase of the stage run on everything, with every step taken. */
async function whole(stage: 'sft' | 'rl', recipe: Recipe, recompute: boolean): Promise<Map<string, number>> {
  const engine = new MetaEngine(subject.device);
  const { ledger } = engine;
  const flat = (layout: Layout) => engine.zeros([layout.size], subject.dtype);
  const usual = new Policy(engine, subject.parts, flat, { tuning: 'all' });
  const policy = Object.assign(usual, { branching: false }); // all responses are alike here
  engine.integer = policy.forbidden.findIndex(
    (penalty, id) => penalty === 0 && id !== policy.dims.special.end,
  );
  engine.onBackward = () => ledger.phase('backward');
  const own = recipe[stage];
  const options = { betas: own.betas, epsilon: 1e-8, weightDecay: own.weightDecay, clip: own.clip };
  const learner = new WatchedLearner(policy, WorkerGroup.single(), options, recompute, 1, ledger);
  const silent = { onStep: () => {}, onCompletions: () => {}, save: () => {} };
  ledger.phase(stage === 'sft' ? 'forward' : 'rollout');
  const task = variedTask();
  const score: Task['score'] = (response, example) => {
    ledger.phase('transport');
    return task.score(response, example);
  };
  if (stage === 'sft') await sft(learner, task, { ...recipe.sft, ...recipe.memory }, silent);
  else {
    const advantage = recipe.rl.advantage as AdvantageName;
    const all = { ...recipe.rl, ...recipe.memory, advantage };
    await rl(learner, null, { ...task, score }, all, recipe.seed, silent);
  }
  return new Map([...ledger.peaks()].map(([phase, { bytes }]) => [phase, bytes]));
}

const DISTILLED = { ...defaultRecipe().rl.distillation, weight: 1, teacher: 'current' } as const;

describe('a plan of some examples peaks where all of them do', () => {
  test.each([
    ['sft', recipeOf({}), false],
    ['sft', recipeOf({ sft: { batch: 7 }, memory: { tokens: 1000 } }), true],
    ['sft', recipeOf({ sft: { batch: 60 }, memory: { tokens: 30 } }), false],
    ['rl', recipeOf({}), false],
    ['rl', recipeOf({ memory: { tokens: 1000 } }), true],
    ['rl', recipeOf({ rl: { maxTokens: 300, group: 2, prompts: 9 }, memory: { tokens: 600 } }), false],
    ['rl', recipeOf({ rl: { miniBatches: 3, prompts: 12 } }), false],
    [
      'rl',
      recipeOf({ rl: { timerpo: { ...defaultRecipe().rl.timerpo, context: 'prompt', gatesEvery: 0 } } }),
      false,
    ],
    ['rl', recipeOf({ rl: { distillation: DISTILLED, advantage: 'none' } }), false],
    ['rl', recipeOf({ rl: { group: 8, maxTokens: 60 }, memory: { tokens: 200 } }), false],
  ] as const)('%s, case %#', async (stage, recipe, recompute) => {
    const plan = await dryRun({ subject, stage, recipe, task: variedTask(), recompute });
    const phases = await whole(stage, recipe, recompute);
    for (const [phase, bytes] of plan.phases) {
      if (phase === 'load') continue;
      // Prompts as long as each other may have other pictures: the plan takes the larger ones together.
      const ratio = bytes / phases.get(phase)!;
      expect([phase, ratio >= 0.995 && ratio <= 1.015]).toEqual([phase, true]);
      if (stage === 'sft') expect([phase, bytes]).toEqual([phase, phases.get(phase)]);
    }
    const { forward, backward } = Object.fromEntries(plan.phases);
    expect(forward).toBeGreaterThan(0);
    expect(backward).toBeGreaterThan(0);
  });
});

describe('examples of a plan', () => {
  const sizes = {
    group: 3,
    maxTokens: 20,
    rows: 12,
    tokens: 400,
    grounded: false,
    behind: false,
    distilled: false,
    taught: 0,
  };

  test('are read once, and prompts that differ in pixels alone are one', async () => {
    let drawn = 0;
    const tiny = tinyTask();
    const task: Task = {
      ...tiny,
      picture: (example) => {
        drawn++;
        return tiny.picture(example);
      },
    };
    const reader = new ExampleReader(subject, task);
    const [first, more] = [await reader.first(6), await reader.first(9)];
    expect(more.slice(0, 6)).toEqual(first);
    expect(drawn).toBe(9);
    expect(reader.prompting.prompts.size).toBe(3); // one for each instruction
    // Of one shape, but each is encoded.
    expect(more[3]!.prompt.ids).toBe(more[0]!.prompt.ids);
    expect(more[3]!.prompt).not.toBe(more[0]!.prompt);
  });

  test('are for reinforcement the longest prompts, as many as are sampled at once, and micro-batches of them are trained', async () => {
    const examples = await new ExampleReader(subject, variedTask()).first(64);
    const planned = plannedGroups(examples, sizes);
    expect(planned.examples.length).toBeLessThan(examples.length);
    expect(planned.examples.length).toBeGreaterThanOrEqual(4); // 12 rows in groups of three
    expect(planned.trained).toBeLessThanOrEqual(planned.examples.length);
    expect(lengthsOf(planned.examples).prompt).toBe(lengthsOf(examples).prompt);
    const lengths = planned.examples.map(({ prompt }) => prompt.ids.length);
    expect(lengths).toEqual([...lengths].sort((a, b) => b - a));
    const grounded = plannedGroups(examples, { ...sizes, grounded: true });
    expect(grounded.examples).toHaveLength(64); // all of their cost matrices fit together
  });

  test('leave out what another one exceeds in every extent, and nothing else', () => {
    const extents = fc.tuple(fc.nat(6), fc.nat(6), fc.nat(6));
    fc.assert(
      fc.property(fc.array(extents, { maxLength: 12 }), (items) => {
        const within = (a: readonly number[], b: readonly number[]) => a.every((x, i) => x <= b[i]!);
        const kept = undominated(items, (item) => item);
        for (const item of items) expect(kept.some((other) => within(item, other))).toBe(true);
        for (const [i, a] of kept.entries()) {
          expect(items).toContain(a);
          for (const [j, b] of kept.entries()) expect(i === j || !within(a, b)).toBe(true);
        }
      }),
    );
  });
});
