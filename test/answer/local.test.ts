import { mkdtempSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import {
  answerLocally,
  chooseEngine,
  type LocalOptions,
  localAnswerer,
  torchPolicy,
} from '../../src/answer/local.ts';
import { openLocal } from '../../src/answer/open.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { ConfigError } from '../../src/ground/errors.ts';
import type { Prompting } from '../../src/policy/policy.ts';
import { exportPolicy } from '../../src/run/run-policy.ts';
import { DEVICE } from '../helpers/device.ts';
import { temporary } from '../helpers/temporary.ts';
import { teach, tinyLearner, tinyPolicy, tinyTask } from '../helpers/tiny-policy.ts';
import { writeTinyPolicy } from '../helpers/tiny-run.ts';

const root = temporary('answerer');
const policy = join(root, 'policy');
const exported = join(root, 'exported');
beforeAll(() => {
  writeTinyPolicy(policy);
  exportPolicy({ policy, out: exported, dtype: ['float32'], quiet: true });
});

describe('the engine that computes', () => {
  const missing = 'no libtorch on this machine';
  const choose = (
    options: LocalOptions,
    facts: { graphs?: 'none' | 'shipped' | 'alone'; torch?: boolean } = {},
  ) =>
    chooseEngine(options, {
      graphs: facts.graphs ?? 'none',
      torchProblem: () => (facts.torch === false ? missing : null),
    });

  test('is torch where it is there, and onnx where it is not or the directory holds graphs', () => {
    expect(choose({})).toBe('torch');
    expect(choose({}, { torch: false })).toBe('onnx');
    expect(choose({}, { graphs: 'alone' })).toBe('onnx');
    expect(choose({}, { graphs: 'shipped' })).toBe('onnx');
  });

  test('is the one that is asked for, and the one that an option is for', () => {
    expect(choose({ engine: 'onnx' })).toBe('onnx');
    expect(choose({ engine: 'torch' }, { torch: false })).toBe('torch');
    expect(choose({ device: 'cuda' }, { torch: false })).toBe('torch');
    expect(choose({ adapter: 'adapter' }, { torch: false })).toBe('torch');
    for (const options of [{ engine: 'torch' }, { device: 'cuda' }, { adapter: 'a' }] as const)
      expect(choose(options, { graphs: 'shipped' })).toBe('torch');
  });

  test('is not onnx for another device, a dtype or an adapter, nor torch for graphs', () => {
    expect(() => choose({ engine: 'onnx', device: 'cuda:1' })).toThrow(
      /--device cuda:1: is for the torch engine alone/,
    );
    expect(() => choose({ dtype: 'bfloat16' }, { graphs: 'alone' })).toThrow(
      /--dtype bfloat16: is for the torch/,
    );
    expect(() => choose({ engine: 'onnx', adapter: 'a' })).toThrow(/--adapter: .*timeseer merge/);
    expect(() => choose({ engine: 'torch' }, { graphs: 'alone' })).toThrow(ConfigError);
  });
});

describe('a policy on this machine', () => {
  const ask = async (directory: string, options: LocalOptions) => {
    let told: Prompting | undefined;
    const source = await openLocal(directory, {
      ...options,
      threads: 1,
      beforeWeights: (prompting) => {
        told = prompting;
      },
    });
    const answerer = await source.load();
    const task = tinyTask();
    const prompts = await Promise.all(
      [0, 1, 2].map(async (i) => {
        const content = [
          { type: 'image' as const },
          { type: 'text' as const, text: task.instruction(task.example(i)) },
        ];
        const picture = (await task.picture(task.example(i)))!;
        return told!.encodePrompt(told!.chat.render([{ role: 'user', content }]), [picture]);
      }),
    );
    const answers = await answerer.generate(prompts, { temperature: 0, maxTokens: 16, seed: 0 });
    const features = await answerer.pictureFeatures(prompts);
    await answerer.dispose();
    return { engine: answerer.info.name, parameters: answerer.parameters, answers, features };
  };

  test('gives the same answers from weights by torch and by onnxruntime, and from an export', async () => {
    const temporary = mkdtempSync(join(root, 'temporary-'));
    vi.stubEnv('TMPDIR', temporary);
    const torch = await ask(policy, { engine: 'torch' });
    const others = [await ask(policy, { engine: 'onnx' }), await ask(exported, {})];
    expect([torch, ...others].map(({ engine }) => engine)).toEqual(['torch', 'onnxruntime', 'onnxruntime']);
    for (const { answers, features, parameters } of others) {
      expect(answers.map(({ ids }) => [...ids])).toEqual(torch.answers.map(({ ids }) => [...ids]));
      expect(parameters).toBe(torch.parameters);
      for (const [i, own] of features.entries()) {
        const worst = own.reduce((most, v, d) => Math.max(most, Math.abs(v - torch.features[i]![d]!)), 0);
        expect(worst).toBeLessThan(1e-4);
      }
    }
    vi.unstubAllEnvs();
    // Nothing of the export on the way, and nothing of onnxruntime's telemetry.
    expect(readdirSync(temporary)).toEqual([]);
  });
});

test('an export is computed by onnxruntime, also where the environment names an engine of weights', () => {
  for (const engine of ['tfjs', 'torch']) {
    vi.stubEnv('TIMESEER_ENGINE', engine);
    expect(localAnswerer('exported', exported, {}).local!.engine).toBe('onnx');
    expect(localAnswerer('policy', policy, {}).local!.engine).toBe(engine);
  }
  vi.unstubAllEnvs();
});

describe('a response that was begun', () => {
  test('is continued as it went on by itself, the openings of a question sharing its cache', async () => {
    const engine = openTorch({ device: DEVICE, threads: 1 });
    const taught = tinyPolicy(engine);
    await teach(tinyLearner(taught), { samples: 120, learningRate: 5e-3 });
    const local = torchPolicy(taught);
    const task = tinyTask();
    const ask = async (openings: (i: number) => Record<number, string> | undefined, samples: number[]) => {
      const texts: string[][] = [[], [], []];
      const tokens: number[][] = [[], [], []];
      await answerLocally(
        local,
        [0, 1, 2].map((i) => ({
          ...{ key: i, samples, series: () => null },
          ...(openings(i) === undefined ? {} : { openings: openings(i)! }),
          prompt: async () => {
            const picture = (await task.picture(task.example(i)))!;
            return { shots: [], pictures: [picture], text: task.instruction(task.example(i)) };
          },
        })),
        { temperature: 0, maxTokens: 30, seed: 0, data: null },
        ({ key, sample, text, usage }) => {
          texts[key]![sample] = text;
          tokens[key]![sample] = usage!.prompt;
        },
      );
      return { texts, tokens };
    };
    const own = await ask(() => undefined, [0]);
    const cut = (text: string, at: number): string => text.slice(0, at);
    // Different lengths in one question, and one that starts from nothing.
    const continued = await ask(
      (i) => ({ 0: '<think>', 1: cut(own.texts[i]![0]!, own.texts[i]![0]!.indexOf('</think>') + 8), 2: '' }),
      [0, 1, 2],
    );
    for (const i of [0, 1, 2]) {
      const whole = own.texts[i]![0]!;
      expect(whole).toMatch(/^<think>/);
      expect(continued.texts[i]).toEqual([whole, whole, whole]);
      expect(continued.tokens[i]![1]).toBeGreaterThan(own.tokens[i]![0]!);
      expect(continued.tokens[i]![2]).toBe(own.tokens[i]![0]);
    }
    // Another beginning is kept as it is.
    const changed = await ask(() => ({ 1: '<think>white' }), [1]);
    expect(changed.texts.every(([, text]) => text!.startsWith('<think>white'))).toBe(true);
    await local.dispose();
  });
});
