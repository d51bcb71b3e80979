/** Plans against what the engine then counts: the same stage, once without elements and once with them. */
import { describe, expect, test } from 'vitest';
import type { Tensor } from '../../src/engine/engine.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { type Layout, layoutOf } from '../../src/policy/layout.ts';
import { createAdapter } from '../../src/policy/lora.ts';
import { type Dims, parseDims, type SpecialIds } from '../../src/policy/model-config.ts';
import { Policy } from '../../src/policy/policy.ts';
import { trainBpe } from '../../src/policy/tokenizer.ts';
import { defaultRecipe, type Recipe } from '../../src/recipe/recipe.ts';
import { dryRun, OneOfMany, type PlannedPolicy, type TrainingStage } from '../../src/train/dry-run.ts';
import { Learner } from '../../src/train/learner.ts';
import {
  bytesText,
  planLine,
  planLines,
  planStage,
  recomputes,
  remedyLine,
  trainingStages,
  USABLE,
} from '../../src/train/memory-plan.ts';
import { rl } from '../../src/train/rl.ts';
import { sft } from '../../src/train/sft.ts';
import type { Task } from '../../src/train/task.ts';
import { WorkerGroup } from '../../src/train/worker-group.ts';
import { TRACES, tinyDims, tinyTask } from '../helpers/tiny-policy.ts';

const engine = openTorch({ threads: 1 });
const tokenizer = trainBpe(TRACES, { vocabulary: 330 });

/** About 2 million parameters, with what tiny sizes lack: grouped heads, several layers, windows beside full attention. */
function mediumDims(vocabulary: number, special: SpecialIds): Dims {
  const tiny = tinyDims(vocabulary, special);
  return {
    ...tiny,
    vocabulary: 3000,
    width: 192,
    layers: 3,
    heads: 6,
    kvHeads: 2,
    headDim: 32,
    inner: 512,
    sections: [4, 6, 6],
    vision: { ...tiny.vision, depth: 3, width: 64, heads: 4, inner: 172, fullAttention: [1] },
  };
}

interface Case {
  readonly stage: TrainingStage;
  readonly dims: 'tiny' | 'medium';
  readonly dtype: 'float32' | 'bfloat16';
  readonly tune: 'all' | 'decoder' | 'adapter';
  readonly recompute: boolean;
  /** Tokens of a piece. */
  readonly tokens?: number;
  /** With a teacher that is shown the traces. */
  readonly distilled?: boolean;
  /** Processes, of which the first is measured. */
  readonly processes?: number;
  /** Stage of ZeRO, of processes. */
  readonly zero?: 2 | 3;
  /** Longer texts: attention then takes the tiled kernel where there is one. */
  readonly long?: boolean;
  readonly optimizer?: 'adamw' | 'muon';
}

const cases: readonly Case[] = [
  { stage: 'sft', dims: 'tiny', dtype: 'float32', tune: 'all', recompute: false },
  { stage: 'sft', dims: 'tiny', dtype: 'float32', tune: 'all', recompute: true, tokens: 150 },
  { stage: 'sft', dims: 'medium', dtype: 'float32', tune: 'all', recompute: false, tokens: 200 },
  { stage: 'sft', dims: 'medium', dtype: 'bfloat16', tune: 'all', recompute: true },
  { stage: 'sft', dims: 'medium', dtype: 'bfloat16', tune: 'adapter', recompute: false },
  { stage: 'sft', dims: 'medium', dtype: 'float32', tune: 'decoder', recompute: false, long: true },
  { stage: 'rl', dims: 'tiny', dtype: 'float32', tune: 'all', recompute: false },
  { stage: 'rl', dims: 'tiny', dtype: 'bfloat16', tune: 'all', recompute: true, tokens: 150 },
  { stage: 'rl', dims: 'medium', dtype: 'float32', tune: 'adapter', recompute: true },
  { stage: 'rl', dims: 'medium', dtype: 'bfloat16', tune: 'decoder', recompute: false, tokens: 300 },
  {
    stage: 'rl',
    dims: 'medium',
    dtype: 'float32',
    tune: 'all',
    recompute: false,
    long: true,
    distilled: true,
  },
  { stage: 'sft', dims: 'medium', dtype: 'bfloat16', tune: 'all', recompute: true, processes: 3 },
  { stage: 'rl', dims: 'medium', dtype: 'float32', tune: 'all', recompute: false, processes: 2 },
  { stage: 'rl', dims: 'medium', dtype: 'bfloat16', tune: 'all', recompute: true, processes: 3, zero: 2 },
  { stage: 'rl', dims: 'medium', dtype: 'bfloat16', tune: 'decoder', recompute: true, processes: 3, zero: 3 },
  { stage: 'sft', dims: 'medium', dtype: 'float32', tune: 'all', recompute: true, processes: 2, zero: 3 },
  { stage: 'sft', dims: 'medium', dtype: 'bfloat16', tune: 'all', recompute: true, optimizer: 'muon' },
  {
    ...{ stage: 'rl', dims: 'medium', dtype: 'float32', tune: 'all', recompute: true, processes: 3, zero: 3 },
    optimizer: 'muon',
  },
];

/** Rank 0 of processes of which the others send what it sends. */
class FirstProcess extends OneOfMany {
  override gatherTensor(part?: Tensor, parts: readonly Tensor[] = []): () => void {
    for (const to of parts) engine.write(to, 0, 0, part!);
    return () => {};
  }
}

/** Every response is scored otherwise than the one before: no group has zero variance. */
function variedScore(): Task['score'] {
  let turn = 0;
  return () => {
    turn = (turn + 2) % 5;
    return { total: turn / 5, parts: {} };
  };
}

const taskOf = ({ long }: Case): Task =>
  tinyTask(
    long === true
      ? { trace: ({ channels }) => (TRACES[channels[0]![0]!] ?? '').repeat(6), score: variedScore() }
      : { score: variedScore() },
  );

function recipeOf({ stage, tune, tokens, distilled, zero, optimizer = 'adamw' }: Case): Recipe {
  const base = defaultRecipe();
  const distillation = { ...base.rl.distillation, weight: distilled === true ? 1 : 0 };
  return {
    ...base,
    policy: {
      ...base.policy,
      tune,
      adapter: {
        rank: 4,
        alpha: 8,
        rslora: false,
        targets: ['q_proj', 'v_proj', 'down_proj', 'visual.qkv', 'visual.merger.0'],
      },
    },
    memory: { ...base.memory, tokens: tokens ?? 4096, zero: zero ?? 1 },
    sft: { ...base.sft, optimizer, samples: stage === 'sft' ? 16 : 0, batch: 8, workers: 1 },
    rl: {
      ...base.rl,
      distillation,
      optimizer,
      steps: stage === 'rl' ? 1 : 0,
      prompts: 3,
      group: 3,
      kl: 0.001,
      maxTokens: 18,
      workers: 1,
    },
  };
}

/** Everything but the weights of a policy of such sizes. */
const partsOf = {
  tiny: Policy.create(engine, { tokenizer, seed: 7, dims: tinyDims, tuning: 'none' }).parts,
  medium: Policy.create(engine, { tokenizer, seed: 7, dims: mediumDims, tuning: 'none' }).parts,
};

const TILE = Float32Array.from({ length: 1 << 16 }, (_, i) => 0.04 * Math.sin(i * i));

/** A policy of many weights, made quickly: of any value, since nothing is learnt. It rarely ends what it says. */
function create({ dims, dtype }: Case, options: ConstructorParameters<typeof Policy>[3] = {}): Policy {
  const flat = (layout: Layout) =>
    engine.scope(() => {
      const all = engine.zeros([layout.size], dtype); // [P]
      for (let at = 0; at < layout.size; at += TILE.length) {
        const part = TILE.subarray(0, Math.min(TILE.length, layout.size - at));
        engine.scope(() => engine.write(all, 0, at, engine.tensor(part, [part.length])));
      }
      return all;
    });
  return new Policy(engine, partsOf[dims], flat, options);
}

const subjectOf = ({ dims, dtype }: Case): PlannedPolicy => ({
  parts: partsOf[dims],
  dtype,
  device: 'cpu',
});

/** Bytes that the stage takes at most, as the engine counts them. */
async function measured(one: Case): Promise<number> {
  const recipe = recipeOf(one);
  engine.trackMemory();
  const before = engine.memory()!.now;
  const adapter = (dims: Dims) => createAdapter(engine, dims, recipe.policy.adapter, 1);
  const policy = create(one, one.tune === 'adapter' ? { adapter } : { tuning: one.tune });
  const own = recipe[one.stage];
  const { betas, weightDecay, clip, optimizer } = own;
  const options = { betas, weightDecay, clip, optimizer };
  const ranks = one.processes === undefined ? WorkerGroup.single() : new FirstProcess(one.processes, false);
  const learner = new Learner(policy, ranks, options, one.recompute, { zero: recipe.memory.zero });
  const { tokens } = recipe.memory;
  const save = (): void => {
    const { optimizer } = learner;
    for (const name of Object.keys(optimizer.buffers)) {
      for (const range of policy.trainable.parameters) for (const _ of optimizer.stateBytes(name, range));
    }
  };
  const silent = { onStep: () => {}, onCompletions: () => {}, save };
  let reference: Policy | null = null;
  if (one.stage === 'sft') await sft(learner, taskOf(one), { ...recipe.sft, tokens }, silent);
  else {
    reference = policy.adapter === null ? create(one, { tuning: 'none' }) : null;
    const scorer = reference ?? { ...policy.withoutAdapter, forbidden: policy.forbidden };
    await rl(
      learner,
      scorer,
      taskOf(one),
      { ...recipe.rl, tokens, advantage: 'timerpo' },
      recipe.seed,
      silent,
    );
  }
  const { peak } = engine.memory()!;
  learner.optimizer.dispose();
  reference?.dispose();
  policy.dispose();
  return peak - before;
}

const named = cases.map((one) => [Object.values(one).join(' '), one] as const);

test.each(named)('is what the engine then counts: %s', async (_, one) => {
  const recipe = recipeOf(one);
  const plan = await dryRun({
    subject: subjectOf(one),
    stage: one.stage,
    recipe,
    task: taskOf(one),
    recompute: one.recompute,
    processes: one.processes,
  });
  const peak = await measured(one);
  expect(Math.abs(plan.peak / peak - 1)).toBeLessThan(0.03);
  expect(plan.phases.get(plan.at)).toBe(plan.peak);
});

test('shares of the weights lower the peak of the backward pass of many layers', async () => {
  const dims: typeof tinyDims = (vocabulary, special) => ({ ...tinyDims(vocabulary, special), layers: 60 });
  const deep = Policy.create(engine, { tokenizer, seed: 7, dims, tuning: 'none' });
  const { parts } = deep;
  deep.dispose();
  const one = { stage: 'sft', dims: 'tiny', dtype: 'bfloat16', tune: 'all', recompute: true } as const;
  const plans = await Promise.all(
    ([2, 3] as const).map((zero) =>
      dryRun({
        subject: { ...subjectOf(one), parts },
        stage: 'sft',
        recipe: recipeOf({ ...one, zero }),
        task: taskOf(one),
        recompute: true,
        processes: 4,
      }),
    ),
  );
  const [whole, shared] = plans.map(({ phases }) => phases.get('backward')!);
  const { weights } = plans[0]!.held;
  expect(whole! - shared!).toBeGreaterThan(0.5 * weights);
});

type Plan = ReturnType<typeof planStage>;

describe('a plan', () => {
  const one: Case = { stage: 'rl', dims: 'medium', dtype: 'bfloat16', tune: 'all', recompute: false };
  const given = {
    subject: subjectOf(one),
    stage: one.stage,
    recipe: recipeOf(one),
    task: taskOf(one),
  };
  const { size } = layoutOf(parseDims(given.subject.parts.config));
  /** More memory than the stage takes, and less than anything makes it fit. */
  const [roomy, hopeless] = [1e12, 3e6].map((memory) => planStage({ ...given, memory })) as [Plan, Plan];

  test('lists what is held: 16-bit weights and reference, float32 master copy, moments and gradients', async () => {
    const plan = await planStage({ ...given, memory: null });
    expect(plan.held).toEqual({
      weights: 2 * size,
      reference: 2 * size,
      adapter: 0,
      master: 4 * size,
      moments: 8 * size,
      prepared: 0,
      gradients: 4 * size,
    });
    expect([...plan.phases.keys()]).toEqual(
      expect.arrayContaining(['load', 'rollout', 'transport', 'reference', 'forward', 'backward']),
    );
    expect(plan.fits).toBeNull();
    expect([plan.usable, plan.remedy]).toEqual([null, null]);
    expect(plan.otherwise.recompute).toBe(!plan.recompute);
    expect(plan.activations).toBeGreaterThan(2 * plan.otherwise.activations);
  });

  test('computes layers again where keeping them would fill the memory, and only then', async () => {
    const kept = await roomy;
    expect([kept.recompute, kept.fits]).toEqual([false, true]);
    const again = await planStage({ ...given, memory: kept.peak / 0.85 });
    expect(again.recompute).toBe(true);
    expect(again.peak).toBe(kept.otherwise.peak);
  });

  test('names changes that make a stage fit together, each of them needed', async () => {
    const fitting = await roomy;
    const [peaks, memory] = [fitting.otherwise.phases, (0.7 * fitting.otherwise.peak) / USABLE];
    expect(peaks.size).toBeGreaterThan(4);
    const plan = await planStage({ ...given, memory });
    expect(plan.usable).toBe(Math.floor(USABLE * memory));
    expect(plan.fits).toBe(false);
    const { changes, peak, fits } = plan.remedy!;
    expect(fits).toBe(true);
    expect(peak).toBeLessThanOrEqual(plan.usable!);
    const set = Object.entries(changes).map(([key, value]) => `--set ${key}=${value}`);
    const usable = `${bytesText(plan.usable!)} usable`;
    expect(remedyLine(plan)).toBe(`${set.join(' ')} makes it fit: ${bytesText(peak)} of ${usable}`);
    expect(planLine(plan)).toMatch(
      /^rl: memory .* of .* usable in .*, gradient checkpointing, does not fit$/,
    );
    expect(planLines(plan).join('\n')).toMatch(
      /reference policy +\d[\s\S]*\nusable: .*, 92 % of [\d.]+ [MG]B;/,
    );
    const changed = (keys: readonly string[]) => {
      const recipe = structuredClone(given.recipe) as unknown as Record<string, Record<string, unknown>>;
      for (const key of keys) recipe[key.split('.')[0]!]![key.split('.')[1]!] = changes[key];
      return planStage({ ...given, recipe: recipe as unknown as Recipe, memory });
    };
    const all = await changed(Object.keys(changes));
    expect(all.fits).toBe(true);
    expect([all.peak, all.otherwise.peak]).toContain(peak); // what then fits may be kept after all
    for (const key of Object.keys(changes)) {
      const without = await changed(Object.keys(changes).filter((other) => other !== key));
      expect([key, without.fits]).toEqual([key, false]);
    }
  });

  test('counts the larger memory of each Worker of tfjs where there are fewer', async () => {
    const recipe = { ...given.recipe, rl: { ...given.recipe.rl, prompts: 2, workers: 2 } };
    const apart = { ...given, recipe, subject: { ...given.subject, dtype: 'float32' as const, heap: 1e12 } };
    const { otherwise } = await planStage({ ...apart, memory: null });
    // Two Workers have a third each, which is a little too small; one has half.
    const memory = (3 * 0.9 * otherwise.peak) / 0.65;
    const plan = await planStage({ ...apart, memory });
    expect([plan.fits, plan.memory]).toEqual([false, memory / 3]);
    const { changes, peak } = plan.remedy!;
    expect(plan.remedy).toMatchObject({ fits: true, changes: { 'rl.workers': 1 } });
    expect(peak).toBeGreaterThan(plan.usable!);
    expect(changes).not.toHaveProperty(['policy.tune']);
    // What decides is shown: the limit of the plan, of each candidate and of the remedy, and where it comes from.
    const [own, half, whole] = [plan.usable!, 0.65 * (memory / 2), memory].map(bytesText);
    expect(planLine(plan)).toContain(` of ${own} usable in each Worker in `);
    expect(remedyLine(plan)).toMatch(new RegExp(`makes it fit: .* of ${half} usable$`));
    const text = planLines(plan).join('\n');
    expect(text).toMatch(new RegExp(` of ${half} usable  --set rl\\.workers=1`));
    expect(text).toContain(
      `usable: ${own} in each Worker, 65 % of ${bytesText(memory / 3)}; the rest is for copies and fragmentation\n` +
        `${bytesText(memory / 3)}: ${whole} / 3, for 2 Workers and one copy of what they share\n`,
    );
  });

  test('changes what costs speed before what is learnt', async () => {
    const kept = await roomy;
    const memory = (kept.otherwise.peak - 1) / USABLE;
    const { remedy } = await planStage({ ...given, memory });
    expect(remedy!.fits).toBe(true);
    expect(Object.keys(remedy!.changes).every((key) => key.startsWith('memory.'))).toBe(true);
  });

  test('says so where nothing makes a stage fit', async () => {
    const plan = await hopeless;
    expect(plan.remedy).toMatchObject({ fits: false, changes: { 'policy.tune': 'adapter' } });
    expect(remedyLine(plan)).toMatch(
      /^nothing in the recipe makes rl fit: --set .* still takes [\d.]+ MB of [\d.]+ MB usable; take a smaller policy/,
    );
  });

  test('stops the search in time, with the change that saves the most, and lists what was tried', async () => {
    const plan = await planStage({ ...given, memory: 3e6, searchSeconds: 0 });
    expect(plan.search).toMatchObject({
      complete: false,
      tried: [{ changes: { 'policy.tune': 'adapter' } }],
    });
    expect(remedyLine(plan)).toMatch(
      /^no change that was tried makes rl fit: --set policy\.tune=adapter still takes/,
    );
    expect(planLines(plan).join('\n')).toMatch(
      /^tried, until the search time was over\n {2}[\d.]+ MB {2}--set policy\.tune=adapter$/m,
    );
    const whole = await hopeless;
    expect(whole.search!.complete).toBe(true);
    // What is held throughout does not fit: smaller micro-batches are not even tried first.
    expect(Object.keys(whole.search!.tried[0]!.changes)[0]).not.toMatch(/^memory\./);
  });

  test('counts every worker: gradients and activations of each, weights and moments once', async () => {
    const [alone, two] = await Promise.all(
      [1, 2].map((workers) => {
        const recipe = { ...given.recipe, rl: { ...given.recipe.rl, prompts: 2 * workers, workers } };
        return planStage({ ...given, recipe, memory: null });
      }),
    );
    const { gradients, ...shared } = alone!.held;
    const held = Object.values(shared).reduce((sum, bytes) => sum + bytes, 0);
    expect(two!.held).toEqual(alone!.held);
    expect(two!.workers).toBe(2);
    expect(gradients).toBe(4 * size);
    // The same share of prompts for each worker: all but what is shared is there twice.
    for (const phase of ['forward', 'logits', 'backward'] as const) {
      expect(two!.phases.get(phase)! - held).toBe(2 * (alone!.phases.get(phase)! - held));
    }
  });
});

test('a recipe has the stages that it does not leave out', () => {
  const recipe = defaultRecipe();
  expect(trainingStages(recipe)).toEqual(['sft', 'rl']);
  expect(trainingStages({ ...recipe, sft: { ...recipe.sft, samples: 0 } })).toEqual(['rl']);
});

test('amounts of memory have three digits', () => {
  expect([0, 999, 1000, 75_412_000_000, 999_700].map(bytesText)).toEqual([
    '0 B',
    '999 B',
    '1.00 kB',
    '75.4 GB',
    '1.00 MB',
  ]);
});

describe('layers are computed again', () => {
  test('where the recipe says so, whatever fits', () => {
    expect(recomputes('always', { kept: 1, memory: 100, parameters: 10 })).toBe(true);
    expect(recomputes('never', { kept: 1000, memory: 100, parameters: 1e9 })).toBe(false);
  });

  test('by themselves where all that is kept would leave less than a fifth of the memory', () => {
    expect(recomputes('auto', { kept: 79, memory: 100, parameters: 1e9 })).toBe(false);
    expect(recomputes('auto', { kept: 81, memory: 100, parameters: 10 })).toBe(true);
  });

  test('by themselves from 100 million parameters on where the memory is not known', () => {
    expect(recomputes('auto', { kept: 1e12, memory: null, parameters: 99e6 })).toBe(false);
    expect(recomputes('auto', { kept: 1, memory: null, parameters: 101e6 })).toBe(true);
  });
});
