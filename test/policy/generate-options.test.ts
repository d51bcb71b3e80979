/** What is sampled: stop tokens, top-k, the penalty on repeating, streaming, 16 bits. */
import { afterAll, describe, expect, it } from 'vitest';
import { processor } from '../../src/engine/torch/kernel.ts';
import { ConfigError } from '../../src/ground/errors.ts';
import { type GenerateOptions, type GenerateSchedule, generate } from '../../src/policy/generate.ts';
import { Policy } from '../../src/policy/policy.ts';
import { biased, logProbsOf, policy, prompts, scored } from './generate-policy.ts';
import { distance, engine, GOLDEN, golden } from './golden.ts';

const born = engine.live();
afterAll(() => expect(engine.live()).toBe(born));

const { end, pad } = policy.dims.special;
const greedy = { temperature: 0, maxTokens: 12, seed: 0 };
const SCHEDULES: readonly Partial<GenerateSchedule>[] = [
  { stepsPerLook: 1 },
  { stepsPerLook: 5, staticCache: 'always' },
];

describe('stop tokens', () => {
  it('end a response as the end token does', async () => {
    const { greedy: tokens } = golden.cases[0]!;
    const [fourth, ninth] = [tokens[3]!, tokens[8]!];
    expect(tokens.indexOf(fourth)).toBe(3);
    for (const how of SCHEDULES) {
      const [one] = await generate(policy, [prompts[0]!], { ...greedy, stops: [ninth, fourth] }, how);
      expect([...one!.ids]).toEqual(tokens.slice(0, 4));
      expect(one!.finished).toBe(true);
      expect(one!.text).toBe(policy.tokenizer.decode(tokens.slice(0, 3)));
    }
  });

  it('may be special tokens, the padding too, which are sampled then and only then', async () => {
    const special = policy.tokenizer.special('<|im_start|>');
    await biased(special, 40, async () => {
      const options: GenerateOptions = { samples: 4, temperature: 1, maxTokens: 8, seed: 1 };
      const without = await generate(policy, prompts, options);
      expect(without.some(({ ids }) => ids.includes(special))).toBe(false);
      const among = await generate(policy, prompts, { ...options, stops: [special] });
      expect(among.filter(({ ids }) => ids.at(-1) === special).length).toBeGreaterThan(0);
    });
    await biased(pad, 40, async () => {
      const options: GenerateOptions = { samples: 4, maxTokens: 8, seed: 1 };
      const without = await generate(policy, prompts, options);
      expect(without.some(({ ids }) => ids.includes(pad))).toBe(false);
      const among = await generate(policy, prompts, { ...options, stops: [pad] });
      expect(among.filter(({ ids }) => ids.at(-1) === pad).length).toBeGreaterThan(0);
      for (const { ids } of among) expect(ids.subarray(0, -1)).not.toContain(pad);
    });
  });

  it('leave other special tokens to a free policy, which still never says an image', async () => {
    const special = policy.tokenizer.special('<|im_start|>');
    const image = policy.tokenizer.special('<|image_pad|>');
    const options: GenerateOptions = { samples: 4, maxTokens: 8, seed: 1, free: true };
    await biased(special, 40, async () => {
      const all = await generate(policy, prompts, options);
      expect(all.some(({ ids }) => ids.includes(special))).toBe(true);
    });
    await biased(image, 40, async () => {
      const all = await generate(policy, prompts, options);
      expect(all.some(({ ids }) => ids.includes(image))).toBe(false);
    });
  });
});

describe('suppressed tokens', () => {
  it('are never sampled, be they ordinary, special or a stop', async () => {
    const [first] = golden.cases[0]!.greedy;
    const special = policy.tokenizer.special('<|im_start|>');
    const [without] = await generate(policy, [prompts[0]!], { ...greedy, suppress: [first!, end] });
    expect([...without!.ids]).not.toContain(first);
    expect([...without!.ids]).not.toContain(end);
    await biased(special, 40, async () => {
      const options: GenerateOptions = { samples: 4, maxTokens: 8, seed: 1, free: true };
      const all = await generate(policy, prompts, { ...options, suppress: [special] });
      expect(all.some(({ ids }) => ids.includes(special))).toBe(false);
    });
    for (const suppress of [[-1], [1.5], [policy.dims.vocabulary]]) {
      await expect(generate(policy, prompts, { ...greedy, suppress })).rejects.toThrow(/suppressed token/);
    }
    const suppress = Array.from({ length: policy.dims.vocabulary }, (_, id) => id);
    await expect(generate(policy, prompts, { ...greedy, suppress })).rejects.toThrow(/every token is/);
  });
});

describe('top-k', () => {
  it('of one is greedy, and of several samples only the likeliest', async () => {
    const one = await generate(policy, prompts, { temperature: 1, topK: 1, maxTokens: 12, seed: 5 });
    for (const { prompt, ids } of one) expect([...ids]).toEqual(golden.cases[prompt]!.greedy);
    const options = { samples: 6, temperature: 3, topK: 4, maxTokens: 10, seed: 5 };
    const several = await generate(policy, prompts, options);
    const ranks = new Set<number>();
    for (const { prompt, ids } of several) {
      const { logits } = scored(policy, prompts[prompt]!, ids);
      const vocabulary = policy.dims.vocabulary;
      for (const [t, id] of ids.entries()) {
        const allowed = [...logits.subarray(t * vocabulary, (t + 1) * vocabulary)].map(
          (v, i) => v + policy.forbidden[i]!,
        );
        ranks.add(allowed.filter((v) => v > allowed[id]!).length);
      }
    }
    expect([...ranks].sort()).toEqual([0, 1, 2, 3]);
  });
});

describe('the repetition penalty', () => {
  /** Token by token with whole forward passes, from the definition. */
  function slowly(prompt: number, penalty: number, count: number): number[] {
    const { vocabulary } = policy.dims;
    const out: number[] = [];
    const seen = new Set(prompts[prompt]!.ids);
    for (let t = 0; t < count; t++) {
      const { logits } = scored(policy, prompts[prompt]!, Int32Array.from([...out, 0]));
      const last = logits.subarray(t * vocabulary);
      let best = -1;
      let most = Number.NEGATIVE_INFINITY;
      for (let v = 0; v < vocabulary; v++) {
        const logit = last[v]!;
        const changed = seen.has(v) ? (logit < 0 ? logit * penalty : logit / penalty) : logit;
        if (changed + policy.forbidden[v]! > most) {
          most = changed + policy.forbidden[v]!;
          best = v;
        }
      }
      out.push(best);
      seen.add(best);
    }
    return out;
  }

  it.each([1.4, 0.7])(
    'of %f changes the logits of what prompt and response hold',
    async (repetitionPenalty) => {
      const wanted = prompts.map((_, p) => slowly(p, repetitionPenalty, 10));
      expect(wanted).not.toEqual(golden.cases.map(({ greedy: tokens }) => tokens.slice(0, 10)));
      for (const how of [...SCHEDULES, { refill: true }]) {
        const options = { ...greedy, samples: 2, maxTokens: 10, repetitionPenalty, maxRows: 4 };
        for (const { prompt, ids } of await generate(policy, prompts, options, how)) {
          expect([...ids]).toEqual(wanted[prompt]!.slice(0, ids.length));
        }
      }
    },
  );

  it('stays with its row when others leave', async () => {
    const options = { samples: 5, temperature: 1, repetitionPenalty: 1.3, maxTokens: 40, seed: 9 };
    await biased(end, 4, async () => {
      const together = await generate(policy, prompts, options);
      expect(new Set(together.map(({ ids }) => ids.length)).size).toBeGreaterThan(4);
      const alone = await generate(policy, [prompts[2]!], { ...options, examples: [2], maxRows: 5 });
      expect(alone.map(({ ids }) => [...ids])).toEqual(together.slice(10).map(({ ids }) => [...ids]));
    });
  });
});

describe('streaming', () => {
  it('tells every token of every response once, in order, at most once per block', async () => {
    for (const how of [...SCHEDULES, { stepsPerLook: 4, refill: true }]) {
      const told = new Map<string, number[]>();
      let calls = 0;
      const all = await biased(end, 4, () =>
        generate(
          policy,
          prompts,
          {
            samples: 3,
            maxTokens: 20,
            seed: 2,
            maxRows: 6,
            onTokens: ({ prompt, sample }, ids) => {
              calls++;
              expect(ids.length).toBeGreaterThan(0);
              told.set(`${prompt}/${sample}`, [...(told.get(`${prompt}/${sample}`) ?? []), ...ids]);
            },
          },
          how,
        ),
      );
      for (const { prompt, sample, ids } of all) expect(told.get(`${prompt}/${sample}`)).toEqual([...ids]);
      const { stepsPerLook = 1 } = how;
      // The first token comes by itself; a block may be cut short by the end.
      const most = all.reduce((sum, { ids }) => sum + 1 + Math.ceil((ids.length - 1) / stepsPerLook), 0);
      expect(calls).toBeLessThanOrEqual(most);
    }
  });
});

describe('16 bits', () => {
  it('decode with caches of 16 bits and return float32 states of the forward pass', async () => {
    const half = Policy.load(engine, GOLDEN, { dtype: 'bfloat16', tuning: 'none' });
    try {
      // Eight bits of each number, through two layers; without AVX-512 also those of the parts of a product.
      const limit = processor().instructions === 'AVX-512' ? 0.06 : 0.12;
      for (const how of SCHEDULES) {
        const options = { samples: 2, temperature: 1, maxTokens: 12, seed: 3, hidden: true };
        for (const { prompt, ids, logProbs, hidden } of await generate(half, prompts, options, how)) {
          const { states, logits } = scored(half, prompts[prompt]!, ids);
          expect(distance(hidden, states)).toBeLessThan(limit);
          expect(distance(logProbs, logProbsOf(logits, ids, 1))).toBeLessThan(limit);
        }
      }
    } finally {
      half.dispose();
    }
  });
});

describe('bad options', () => {
  it.each<[string, Partial<GenerateOptions>, RegExp]>([
    ['a negative temperature', { temperature: -1 }, /temperature.*≥ 0, got -1/],
    ['top-p of 0', { topP: 0 }, /topP.*got 0/],
    ['half a top-k', { topK: 1.5 }, /topK.*got 1.5/],
    ['a penalty of 0', { repetitionPenalty: 0 }, /repetitionPenalty.*got 0/],
    ['no room', { maxTokens: 0 }, /maxTokens.*got 0/],
    [
      'a stop beyond the vocabulary',
      { stops: [policy.dims.vocabulary] },
      /stop token: expected an id from 0 to .*, got/,
    ],
  ])('are complained about: %s', async (_, wrong, message) => {
    const running = generate(policy, prompts, { maxTokens: 5, seed: 0, ...wrong });
    await expect(running).rejects.toThrow(ConfigError);
    await expect(running).rejects.toThrow(message);
  });

  it('no prompts give no responses', async () => {
    expect(await generate(policy, [], { maxTokens: 5, seed: 0 })).toEqual([]);
  });
});

describe('samples that are there already', () => {
  it('are left out, and the others are what they are among all; each is told as it is complete', async () => {
    const options: GenerateOptions = { samples: 3, temperature: 1, maxTokens: 9, seed: 5, examples: [4, 11] };
    for (const how of SCHEDULES) {
      const pair = prompts.slice(0, 2);
      const all = await generate(policy, pair, options, how);
      const told: string[] = [];
      const some = await generate(
        policy,
        pair,
        {
          ...options,
          skip: [new Set([0, 2]), new Set([1])],
          onResponse: ({ prompt, sample, text }) => told.push(`${prompt}.${sample} ${text}`),
        },
        how,
      );
      const wanted = [all[1]!, all[3]!, all[5]!];
      expect(some.map(({ prompt, sample, ids }) => [prompt, sample, [...ids]])).toEqual(
        wanted.map(({ prompt, sample, ids }) => [prompt, sample, [...ids]]),
      );
      expect(told.sort()).toEqual(wanted.map(({ prompt, sample, text }) => `${prompt}.${sample} ${text}`));
    }
  });
});
