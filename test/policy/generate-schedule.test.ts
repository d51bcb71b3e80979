/** However the work is cut up, a row says the same. */
import { afterAll, describe, expect, it } from 'vitest';
import type { Engine } from '../../src/engine/engine.ts';
import { MetaEngine } from '../../src/engine/torch/meta.ts';
import { Random } from '../../src/ground/random.ts';
import type { EncodedPrompt } from '../../src/policy/batch.ts';
import { freePrompts, keptSlots } from '../../src/policy/decoding-batch.ts';
import {
  defaultSchedule,
  type GenerateOptions,
  type GenerateSchedule,
  generate,
  Row,
  type Sampled,
} from '../../src/policy/generate.ts';
import { KeptCaches } from '../../src/policy/kv-cache.ts';
import { Policy } from '../../src/policy/policy.ts';
import { prefill, prefillChunks } from '../../src/policy/step.ts';
import { PromptEncoder } from '../../src/train/task.ts';
import { tinyPolicy, tinyTask } from '../helpers/tiny-policy.ts';
import { biased, logProbsOf, policy, prompts, scored } from './generate-policy.ts';
import { distance, engine } from './golden.ts';

const born = engine.live();
afterAll(() => expect(engine.live()).toBe(born));

const { end } = policy.dims.special;
const many = Array.from({ length: 9 }, (_, i) => prompts[(2 * i) % 3]!);

function expectSame(got: readonly Sampled[], wanted: readonly Sampled[]): void {
  expect(got.map(({ ids }) => [...ids])).toEqual(wanted.map(({ ids }) => [...ids]));
  expect(got.map(({ text, finished }) => [text, finished])).toEqual(
    wanted.map(({ text, finished }) => [text, finished]),
  );
  for (const [i, { logProbs, hidden }] of got.entries()) {
    expect(distance(logProbs, wanted[i]!.logProbs)).toBeLessThan(1e-4);
    expect(distance(hidden, wanted[i]!.hidden)).toBeLessThan(1e-4);
  }
}

describe('schedules of generation', () => {
  const narrow: GenerateSchedule = { stepsPerLook: 1, staticCache: 'never', refill: false };
  const others: (Partial<GenerateSchedule> & { readonly maxRows?: number })[] = [
    { stepsPerLook: 3 },
    { stepsPerLook: 8 },
    { stepsPerLook: 5, staticCache: 'always' },
    { refill: true, maxRows: 6 },
    { stepsPerLook: 3, refill: true, maxRows: 6 },
    { stepsPerLook: 4, staticCache: 'always', refill: true, maxRows: 6 },
    { stepsPerLook: 16, staticCache: 'recorded', refill: true, maxRows: 6 },
  ];
  it.each(others.flatMap((how) => [1, 3].map((samples) => ({ samples, ...how }))))(
    'give the same tokens, log-probabilities and states: %o',
    async ({ samples, maxRows, ...how }) => {
      const options: GenerateOptions = { samples, temperature: 1, maxTokens: 25, seed: 4, hidden: true };
      await biased(end, 2, async () => {
        const wanted = await generate(policy, many, options, narrow);
        expect(new Set(wanted.map(({ ids }) => ids.length)).size).toBeGreaterThan(5);
        const got = await generate(
          policy,
          many,
          { ...options, ...(maxRows === undefined ? {} : { maxRows }) },
          { ...narrow, ...how },
        );
        expectSame(got, wanted);
      });
    },
  );

  it.each<Partial<GenerateSchedule>>([
    { staticCache: 'never', stepsPerLook: 7 },
    { staticCache: 'always', stepsPerLook: 16 },
  ])('let caches grow past their first size: %o', async (how) => {
    const options = { temperature: 0.8, maxTokens: 300, seed: 8 };
    const [one] = await biased(end, 0, () => generate(policy, [prompts[1]!], options, how));
    expect(one!.ids.length).toBeGreaterThan(270);
    await biased(end, 0, async () => {
      const { logits } = scored(policy, prompts[1]!, one!.ids);
      expect(distance(one!.logProbs, logProbsOf(logits, one!.ids, 0.8))).toBeLessThan(1e-4);
    });
  });

  it.each<Partial<GenerateSchedule>>([
    { staticCache: 'never', stepsPerLook: 1 },
    { staticCache: 'always', stepsPerLook: 8 },
  ])('drop what no row reads any longer while others join: %o', async (how) => {
    const queue = Array.from({ length: 16 }, (_, i) => prompts[i % 3]!);
    const options = { temperature: 1, maxTokens: 90, seed: 4 };
    await biased(end, 1, async () => {
      const wanted = await generate(policy, queue, options, narrow);
      // More tokens than the first cache has columns, so that it is laid out anew.
      expect(wanted.reduce((sum, { ids }) => sum + ids.length, 0)).toBeGreaterThan(2 * 256);
      const got = await generate(
        policy,
        queue,
        { ...options, maxRows: 3 },
        { ...narrow, ...how, refill: true },
      );
      expectSame(got, wanted);
    });
  });

  it('are chosen by device and size', () => {
    expect(defaultSchedule('cuda:1', 1e6)).toEqual({
      stepsPerLook: 16,
      staticCache: 'recorded',
      refill: true,
    });
    expect(defaultSchedule('cpu', 1e6)).toMatchObject({ staticCache: 'never', refill: false });
    expect(defaultSchedule('cpu', 1e8)).toEqual({ stepsPerLook: 1, staticCache: 'never', refill: true });
  });
});

describe('a recorded step', () => {
  /** An engine that "records" by keeping the body, and forbids it to meet the host. */
  function recorder(): { engine: Engine; counts: { recorded: number; replayed: number; freed: number } } {
    const counts = { recorded: 0, replayed: 0, freed: 0 };
    const host = new Set<PropertyKey>(['tensor', 'floats', 'doubles', 'ints', 'item', 'bytes', 'allFinite']);
    let inside = false;
    const guarded = (body: () => void): void => {
      inside = true;
      try {
        body();
      } finally {
        inside = false;
      }
    };
    const record: Engine['record'] = (body) => {
      counts.recorded++;
      guarded(body);
      return {
        replay: () => {
          counts.replayed++;
          guarded(body);
        },
        dispose: () => {
          counts.freed++;
        },
      };
    };
    const proxy = new Proxy<Engine>(engine, {
      get(target, key) {
        if (key === 'record') return record;
        if (inside && host.has(key)) throw new Error(`the recorded step calls ${String(key)}`);
        const value: unknown = Reflect.get(target, key, target);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    return { engine: proxy, counts };
  }

  it('copies nothing to or from the host and is recorded anew only when the batch changes', async () => {
    const { engine: recording, counts } = recorder();
    const flat = engine.scope(() => engine.add(policy.flat, 0));
    const other = new Policy(recording, policy.parts, flat, { tuning: 'none' });
    try {
      const options: GenerateOptions = {
        samples: 2,
        temperature: 0.9,
        topP: 0.95,
        topK: 60,
        repetitionPenalty: 1.2,
        maxTokens: 40,
        seed: 3,
        hidden: true,
      };
      const wanted = await generate(policy, many, options, { stepsPerLook: 1, staticCache: 'never' });
      const how: GenerateSchedule = { stepsPerLook: 4, staticCache: 'recorded', refill: true };
      expectSame(await generate(other, many, options, how), wanted);
      expect(counts.recorded).toBeGreaterThan(0);
      expect(counts.recorded).toBeLessThan(8);
      expect(counts.replayed).toBeGreaterThan(36);
      expect(counts.freed).toBe(counts.recorded);
    } finally {
      other.dispose();
    }
  });
});

describe('prefill', () => {
  it('cuts consecutive prompts into pieces that stay within the budget, padding counted', () => {
    expect(prefillChunks([5, 5, 5, 5], 10)).toEqual([
      { first: 0, count: 2 },
      { first: 2, count: 2 },
    ]);
    expect(prefillChunks([3, 9, 2, 2, 2], 10)).toEqual([
      { first: 0, count: 1 },
      { first: 1, count: 1 },
      { first: 2, count: 3 },
    ]);
    expect(prefillChunks([50], 10)).toEqual([{ first: 0, count: 1 }]);
    expect(prefillChunks([], 10)).toEqual([]);
  });

  it('gives the same logits and caches in pieces as at once', () => {
    const run = (budget: number) =>
      engine.noGrad(() =>
        engine.scope(() => {
          const keys: number[][] = [];
          const logits = prefill(
            policy,
            prompts,
            ({ first, lengths, layers }) => {
              for (const [i, n] of lengths.entries()) {
                const { value } = layers.at(-1)!;
                const own = engine.narrow(engine.narrow(value, 0, i, 1), 2, 0, n);
                keys[first + i] = [...engine.floats(own)];
              }
            },
            { budget },
          );
          return { logits: engine.floats(logits), keys };
        }),
      );
    const whole = run(1000);
    const cut = run(100);
    expect(distance(cut.logits, whole.logits)).toBeLessThan(1e-5);
    for (const [p, keys] of whole.keys.entries()) expect(distance(cut.keys[p]!, keys)).toBeLessThan(1e-5);
  });

  it('encodes consecutive places of one prompt once, and fills all of them', () => {
    const [a, b, c] = prompts as [EncodedPrompt, EncodedPrompt, EncodedPrompt];
    const run = (asked: readonly EncodedPrompt[], budget: number) =>
      engine.noGrad(() =>
        engine.scope(() => {
          const kept = new KeptCaches(policy);
          kept.reserve(asked);
          const places: { length: number; values: number[] }[] = [];
          const logits = prefill(
            policy,
            asked,
            ({ first, lengths, layers }) => {
              for (const [i, length] of lengths.entries()) {
                const row = engine.narrow(layers.at(-1)!.value, 0, i, 1);
                places[first + i] = { length, values: [...engine.floats(engine.narrow(row, 2, 0, length))] };
              }
            },
            { budget, kept },
          );
          const out = { logits: engine.floats(logits), places, encoded: kept.tokens.encoded };
          kept.dispose();
          return out;
        }),
      );
    for (const budget of [1000, 100]) {
      const once = run([a, a, a, b, c, c], budget);
      const each = run([a, b, a, c, a, c], budget); // nothing is consecutive
      const vocabulary = once.logits.length / 6;
      for (const [place, other] of [0, 2, 4, 1, 3, 5].entries()) {
        const logitsAt = ({ logits }: typeof once, at: number) =>
          logits.slice(at * vocabulary, (at + 1) * vocabulary);
        expect(distance(logitsAt(once, place), logitsAt(each, other))).toBeLessThan(1e-5);
        expect(once.places[place]!.length).toBe(each.places[other]!.length);
        expect(distance(once.places[place]!.values, each.places[other]!.values)).toBeLessThan(1e-5);
      }
      expect(once.encoded).toBe(a.ids.length + b.ids.length + c.ids.length);
    }
  });
});

describe('slots', () => {
  const row = (prompt: number): Row =>
    new Row(prompt, 0, new Random(0, 'x'), { stops: new Set(), maxTokens: 3, hidden: false });

  it('are kept so that groups stay of equal size, with fillers where one is smaller', () => {
    const [a, b, c] = [row(0), row(0), row(2)];
    const slots = [a, null, b, null, null, null, null, c, null]; // three prompts of three rows
    expect(keptSlots(slots, 3)).toEqual({ slots: [0, 2, 7, 7], prompts: [0, 2], fillers: new Set([3]) });
    expect(keptSlots([a, b, c, row(3), row(4), null], 6)).toBeNull();
  });

  it('are free for a waiting prompt when all rows of a prompt are complete, if they are enough', () => {
    expect(freePrompts([null, null, row(1), null], 2)).toEqual([0]);
    expect(freePrompts([row(0), row(1), row(2), row(3), row(4), null], 6)).toEqual([]);
  });
});

interface Case {
  readonly samples: number;
  readonly maxTokens: number;
  readonly hidden: boolean;
  readonly device: 'cpu' | 'cuda';
  readonly schedule: Partial<GenerateSchedule>;
}

/** Caches grow twice in the longer ones; blocks end on a growth, before it, and beyond the last token. */
const abridgedCases: readonly Case[] = [
  { samples: 3, maxTokens: 600, hidden: true, device: 'cuda', schedule: {} },
  { samples: 2, maxTokens: 530, hidden: true, device: 'cuda', schedule: {} },
  {
    samples: 1,
    maxTokens: 300,
    hidden: false,
    device: 'cpu',
    schedule: { stepsPerLook: 7 },
  },
  {
    samples: 4,
    maxTokens: 513,
    hidden: true,
    device: 'cpu',
    schedule: { stepsPerLook: 1 },
  },
  {
    samples: 2,
    maxTokens: 40,
    hidden: false,
    device: 'cpu',
    schedule: { staticCache: 'always' },
  },
  { samples: 2, maxTokens: 9, hidden: true, device: 'cpu', schedule: { refill: true } },
];

/** Five prompts in chunks of three at most, on an engine that never samples an end token. */
async function taken(
  one: Case,
  abridged: boolean,
): Promise<{ peak: number; kinds: object; sampled: readonly Sampled[]; steps: number }> {
  const engine = new MetaEngine(one.device);
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
  it.each(abridgedCases.map((one) => [JSON.stringify(one), one] as const))(
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

  it('takes of each growth of the cache the first block and the last', async () => {
    const one = abridgedCases[3]!;
    const [whole, short] = [await taken(one, false), await taken(one, true)];
    expect(whole.steps).toBeGreaterThan(2 * (one.maxTokens - 1));
    expect(short.steps).toBeLessThan(20);
  });
});
