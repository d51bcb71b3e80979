/** Sampling that leaves out steps takes the memory of sampling that takes them all. */
import { describe, expect, test } from 'vitest';
import { DryEngine } from '../../src/engine/dry/dry.ts';
import { type GenerateSchedule, generate, type Sampled } from '../../src/policy/generate.ts';
import { PromptEncoder } from '../../src/train/task.ts';
import { tinyPolicy, tinyTask } from '../helpers/tiny-policy.ts';

interface Case {
  readonly samples: number;
  readonly maxTokens: number;
  readonly hidden: boolean;
  readonly version: string;
  readonly device: 'cpu' | 'cuda';
  readonly schedule: Partial<GenerateSchedule>;
}

/** Caches grow twice in the longer ones; blocks end on a growth, before it, and beyond the last token. */
const cases: readonly Case[] = [
  { samples: 3, maxTokens: 600, hidden: true, version: '1.13.1', device: 'cuda', schedule: {} },
  { samples: 2, maxTokens: 530, hidden: true, version: '2.6.0', device: 'cuda', schedule: {} },
  { samples: 1, maxTokens: 300, hidden: false, version: '2.6.0', device: 'cpu', schedule: { block: 7 } },
  { samples: 4, maxTokens: 513, hidden: true, version: '2.6.0', device: 'cpu', schedule: { block: 1 } },
  {
    samples: 2,
    maxTokens: 40,
    hidden: false,
    version: '1.13.1',
    device: 'cpu',
    schedule: { fixed: 'always' },
  },
  { samples: 2, maxTokens: 9, hidden: true, version: '2.6.0', device: 'cpu', schedule: { refill: true } },
];

/** Five prompts in chunks of three at most, on an engine that never samples an end token. */
async function taken(
  one: Case,
  abridged: boolean,
): Promise<{ peak: number; kinds: object; sampled: readonly Sampled[]; steps: number }> {
  const engine = new DryEngine(one);
  const policy = tinyPolicy(engine, 3, { tuning: 'none' });
  engine.integer = 65;
  const task = tinyTask();
  const encoder = new PromptEncoder(policy);
  const prompts = [];
  for (let i = 0; i < 5; i++) {
    const example = task.example(i);
    prompts.push(encoder.encode(await task.picture(example), task.instruction(example)));
  }
  let steps = 0;
  const sample = engine.sample.bind(engine);
  engine.sample = (logits, how) => {
    steps++;
    return sample(logits, how);
  };
  engine.ledger.phase('sampling');
  const { samples, maxTokens, hidden } = one;
  const options = { samples, maxTokens, hidden, temperature: 1, seed: 5, maxRows: 3 * samples };
  const sampled = await generate(policy, prompts, options, { ...one.schedule, abridged });
  const { bytes, kinds } = engine.ledger.peaks().get('sampling')!;
  policy.dispose();
  expect(engine.live()).toBe(0);
  return { peak: bytes, kinds, sampled, steps };
}

describe('abridged sampling', () => {
  test.each(cases.map((one) => [JSON.stringify(one), one] as const))(
    'peaks where the whole does: %s',
    async (_, one) => {
      const [whole, short] = [await taken(one, false), await taken(one, true)];
      expect(short.peak).toBe(whole.peak);
      expect(short.kinds).toEqual(whole.kinds);
      expect(short.sampled.map(({ ids }) => ids.length)).toEqual(whole.sampled.map(({ ids }) => ids.length));
      expect(short.sampled.every(({ ids }) => ids.length === one.maxTokens)).toBe(true);
      expect(short.steps).toBeLessThanOrEqual(whole.steps);
    },
  );

  test('takes of each growth of the cache the first block and the last', async () => {
    const one = cases[3]!;
    const [whole, short] = [await taken(one, false), await taken(one, true)];
    expect(whole.steps).toBeGreaterThan(2 * (one.maxTokens - 1));
    expect(short.steps).toBeLessThan(20);
  });
});
