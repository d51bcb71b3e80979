import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { TimeseerError } from '../../src/ground/errors.ts';
import type { EncodedPrompt } from '../../src/policy/batch.ts';
import { generate } from '../../src/policy/generate.ts';
import { Policy } from '../../src/policy/policy.ts';
import { FOREIGN_CARD } from '../../src/tasks/card.ts';
import { readState, restoreOptimizer, saveCheckpoint } from '../../src/train/checkpoint.ts';
import type { StageStart } from '../../src/train/learner.ts';
import { Learner } from '../../src/train/learner.ts';
import type { SftMetrics } from '../../src/train/metrics.ts';
import { cosineSchedule } from '../../src/train/optimizer.ts';
import { sft, sftSteps } from '../../src/train/sft.ts';
import { PromptEncoder } from '../../src/train/task.ts';
import { requestStop, WorkerGroup, workerGroupMemory } from '../../src/train/worker-group.ts';
import { DEVICE, REPEATS } from '../helpers/device.ts';
import { flatGradient, identical, predictingStates, relativeDistance } from '../helpers/full-sequence.ts';
import { temporary } from '../helpers/temporary.ts';
import {
  moments,
  OPTIMIZER,
  ORIGIN,
  SFT,
  TRACES,
  teach,
  tinyLearner,
  tinyPolicy,
  tinyTask,
} from '../helpers/tiny-policy.ts';

const engine = openTorch({ device: DEVICE, threads: 1 });
const task = tinyTask();
const directory = temporary('sft');

const timeless = ({ ms: _, ...rest }: SftMetrics) => rest;

describe('a supervised step', () => {
  test.each([{ tied: true }, { tied: false }])(
    'updates along the gradient of the mean −log π of the response tokens, head tied: $tied',
    async ({ tied }) => {
      const policy = tinyPolicy(engine, 4, { tied });
      const encoder = new PromptEncoder(policy);
      const examples: { prompt: EncodedPrompt; response: Int32Array }[] = [];
      for (const i of [0, 1, 2]) {
        const series = task.example(i);
        const prompt = encoder.encode(await task.picture(series), task.instruction(series));
        examples.push({ prompt, response: policy.encodeResponse(task.trace(series)) });
      }
      const want = engine.scope(() => {
        const losses = examples.map(({ prompt, response }) => {
          const states = predictingStates(policy, prompt, response);
          const targets = engine.tensor(response, [response.length]);
          return engine.logProbs(states, policy.weights.head, targets).logProb;
        });
        const all = engine.concat(losses, 0); // [K]
        const mean = engine.div(engine.sum(all), -all.shape[0]!);
        return { loss: engine.item(mean), tokens: all.shape[0], gradient: flatGradient(policy, mean) };
      });
      const learner = tinyLearner(policy, 1e9);
      const [line] = await teach(learner, { samples: 3 });
      expect(line!.loss).toBeCloseTo(want.loss, 4);
      expect(line!.tokens).toBe(want.tokens);
      expect(line!.gradNorm).toBeCloseTo(Math.hypot(...want.gradient), 3);
      // After one update Adam's first moment is (1 − β₁) times the gradient that it was given.
      const given = moments(learner).first.map((value) => value / (1 - OPTIMIZER.betas[0]));
      expect(relativeDistance(given, want.gradient)).toBeLessThan(1e-4);
    },
  );

  test('is clipped to the wanted norm', async () => {
    const learner = tinyLearner(tinyPolicy(engine), 0.01);
    const [line] = await teach(learner, { samples: 3 });
    expect(line!.gradNorm).toBeGreaterThan(0.01);
    const norm = Math.hypot(...moments(learner).first) / (1 - OPTIMIZER.betas[0]);
    expect(norm).toBeCloseTo(0.01, 5);
  });
});

describe('the supervised stage', () => {
  test('learns three traces by heart from their pictures', async () => {
    const policy = tinyPolicy(engine);
    const lines = await teach(tinyLearner(policy));
    expect(lines[0]!.loss).toBeGreaterThan(3);
    expect(lines.at(-1)!.loss).toBeLessThan(0.02);
    const encoder = new PromptEncoder(policy);
    for (const kind of [0, 1, 2]) {
      const series = task.example(kind);
      const prompt = encoder.encode(await task.picture(series), task.instruction(series));
      const [answer] = await generate(policy, [prompt], { temperature: 0, maxTokens: 60, seed: 0 });
      expect(answer!.text).toBe(TRACES[kind]);
    }
  });

  test('says after each step what was seen, and ends after its samples, the last batch cut short', async () => {
    const lines = await teach(tinyLearner(tinyPolicy(engine)), { samples: 7, warmup: 2 });
    expect(lines.map(({ step, samples }) => [step, samples])).toEqual([
      [1, 3],
      [2, 6],
      [3, 7],
    ]);
    const full = TRACES.map((trace) => tinyPolicy(engine).encodeResponse(trace).length);
    expect(lines[0]!.tokens).toBe(full[0]! + full[1]! + full[2]!);
    expect(lines[2]!.tokens).toBe(full[0]);
    lines.forEach(({ learningRate, skipped }, step) => {
      expect(learningRate).toBeCloseTo(cosineSchedule(step, 3, { ...SFT, warmup: 2 }), 12);
      expect(skipped).toBe(0);
    });
    expect(sftSteps({ ...SFT, samples: 7 })).toBe(3);
  });

  test('asks for checkpoints as often as it is told, and for one at its end', async () => {
    const saved: number[] = [];
    const hooks = { onStep: () => {}, save: ({ step }: StageStart) => void saved.push(step) };
    const options = { ...SFT, samples: 18, checkpointEvery: 2 };
    expect(await sft(tinyLearner(tinyPolicy(engine)), task, options, hooks)).toBe(6);
    expect(saved).toEqual([2, 4, 6]);
  });

  test('stopped and resumed from its checkpoint it is the uninterrupted run, bit for bit', async ({
    skip,
  }) => {
    skip(!REPEATS);
    const options = { ...SFT, samples: 33, checkpointEvery: 4 };
    const whole = tinyLearner(tinyPolicy(engine));
    const want: SftMetrics[] = [];
    await sft(whole, task, options, { onStep: (line) => void want.push(line), save: () => {} });

    const memory = workerGroupMemory(1);
    const lines: SftMetrics[] = [];
    const checkpoint = join(directory, 'checkpoint');
    const hooksOf = (learner: Learner, stopAt: number) => ({
      onStep: (line: SftMetrics) => {
        lines.push(line);
        if (line.step === stopAt) requestStop(memory);
      },
      save: (at: StageStart) =>
        saveCheckpoint(checkpoint, learner, FOREIGN_CARD, { stage: 'sft', ...at, origin: ORIGIN }),
    });
    const first = new Learner(tinyPolicy(engine), new WorkerGroup(memory, 0, 1), OPTIMIZER);
    expect(await sft(first, task, options, hooksOf(first, 6))).toBe(6);
    const state = readState(checkpoint)!;
    expect(state).toMatchObject({ step: 6, updates: 6 });
    const second = tinyLearner(Policy.load(engine, checkpoint));
    restoreOptimizer(checkpoint, second, state);
    expect(await sft(second, task, options, hooksOf(second, -1), state)).toBe(11);

    expect(lines.map(timeless)).toEqual(want.map(timeless));
    expect(identical(engine.floats(second.policy.flat), engine.floats(whole.policy.flat))).toBe(true);
    const [a, b] = [moments(second), moments(whole)];
    expect(identical(a.first, b.first) && identical(a.second, b.second)).toBe(true);
    expect(readState(checkpoint)).toMatchObject({ step: 11, updates: 11 });
  });
});

describe('a gradient that is not finite', () => {
  const offset = (policy: Policy): number =>
    policy.layout.parameters.find(({ name }) => name === 'norm')!.offset;

  function poison(policy: Policy, value: number): void {
    engine.scope(() =>
      engine.write(policy.flat, 0, offset(policy), engine.tensor(Float32Array.of(value), [1])),
    );
  }

  test('leaves out the update and is counted; training goes on after it', async () => {
    const policy = tinyPolicy(engine);
    const learner = tinyLearner(policy);
    const lines: SftMetrics[] = [];
    poison(policy, Number.NaN);
    const before = engine.floats(policy.flat);
    const onStep = (line: SftMetrics): void => {
      lines.push(line);
      if (line.step !== 3) return;
      expect(identical(engine.floats(policy.flat), before)).toBe(true);
      poison(policy, 1);
    };
    await sft(learner, task, { ...SFT, samples: 15 }, { onStep, save: () => {} });
    expect(lines.map(({ skipped }) => skipped)).toEqual([1, 2, 3, 3, 3]);
    expect(lines.map(({ loss }) => Number.isFinite(loss))).toEqual([false, false, false, true, true]);
    expect(lines.map(({ gradNorm }) => Number.isFinite(gradNorm))).toEqual([false, false, false, true, true]);
    expect(learner.optimizer.steps).toBe(2);
  });

  test('in twenty steps on end stops the run with what to do, and without another checkpoint', async () => {
    const policy = tinyPolicy(engine);
    poison(policy, Number.POSITIVE_INFINITY);
    const saved: number[] = [];
    const lines: SftMetrics[] = [];
    const hooks = {
      onStep: (line: SftMetrics) => void lines.push(line),
      save: ({ step }: StageStart) => void saved.push(step),
    };
    const run = sft(tinyLearner(policy), task, { ...SFT, samples: 90, checkpointEvery: 50 }, hooks);
    await expect(run).rejects.toThrow(TimeseerError);
    await expect(run).rejects.toThrow(/20 updates in a row.*step 20.*lower sft\.learningRate/);
    expect(lines).toHaveLength(20);
    expect(saved).toEqual([]);
  });
});

test('updates left out before a checkpoint count towards the limit after it', async () => {
  const policy = tinyPolicy(engine);
  engine.scope(() => engine.write(policy.flat, 0, 0, engine.tensor(Float32Array.of(Number.NaN), [1])));
  const lines: SftMetrics[] = [];
  const hooks = { onStep: (line: SftMetrics) => void lines.push(line), save: () => {} };
  const start = { step: 4, skippedInARow: 18 };
  await expect(sft(tinyLearner(policy), task, { ...SFT, samples: 90 }, hooks, start)).rejects.toThrow(
    /20 updates/,
  );
  expect(lines.map(({ step }) => step)).toEqual([5, 6]);
});
