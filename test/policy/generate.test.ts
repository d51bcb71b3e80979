import { afterAll, describe, expect, it } from 'vitest';
import { Random } from '../../src/ground/random.ts';
import { collate, joined } from '../../src/policy/batch.ts';
import { forward } from '../../src/policy/forward.ts';
import { generate, Row } from '../../src/policy/generate.ts';
import { biased, policy, prompts } from './generate-policy.ts';
import { distance, engine, golden } from './golden.ts';

const born = engine.live();
afterAll(() => expect(engine.live()).toBe(born));

const { end } = policy.dims.special;

describe('generate', () => {
  it.each(golden.cases.map((row, i) => ({ ...row, i })))(
    'continues greedily as transformers does: $name',
    async ({ greedy, i }) => {
      const [one] = await generate(policy, [prompts[i]!], { temperature: 0, maxTokens: 12, seed: 0 });
      expect([...one!.ids]).toEqual(greedy);
      expect(one!.finished).toBe(false);
    },
  );

  it('continues greedily alike in a padded batch and in groups that share the prompt', async () => {
    for (const samples of [1, 2]) {
      const all = await generate(policy, prompts, { samples, temperature: 0, maxTokens: 12, seed: 0 });
      expect(all.map(({ prompt, sample }) => [prompt, sample])).toEqual(
        prompts.flatMap((_, p) => Array.from({ length: samples }, (__, s) => [p, s])),
      );
      for (const { prompt, ids } of all) expect([...ids]).toEqual(golden.cases[prompt]!.greedy);
    }
  });

  it.each([1, 4])(
    'keeps log-probabilities and hidden states that a forward pass gives, %i samples per prompt',
    async (samples) => {
      const options = { samples, temperature: 0.7, maxTokens: 20, seed: 5, hidden: true };
      const all = await biased(end, 6, () => generate(policy, prompts, options));
      expect(all.some(({ finished }) => finished)).toBe(true);
      await biased(end, 6, async () => {
        for (const { prompt, ids, logProbs, hidden, finished } of all) {
          engine.scope(() => {
            const before = prompts[prompt]!.ids.length;
            const batch = collate([joined(prompts[prompt]!, ids)], 0);
            const states = forward(policy, batch).hidden;
            const scored = engine.narrow(states, 0, before - 1, ids.length);
            const mask = engine.tensor(policy.forbidden, [policy.dims.vocabulary]);
            const targets = engine.tensor(ids, [ids.length]);
            const { logProb } = engine.logProbs(scored, policy.weights.head, targets, {
              temperature: 0.7,
              mask,
            });
            expect(distance(logProbs, engine.floats(logProb))).toBeLessThan(1e-4);
            expect(
              distance(hidden, engine.floats(engine.narrow(states, 0, before, ids.length))),
            ).toBeLessThan(1e-4);
          });
          expect(finished).toBe(ids.at(-1) === end);
        }
      });
    },
  );

  it('draws the same for a row whatever the batch, the chunking and the compaction', async () => {
    const options = { samples: 3, temperature: 1, maxTokens: 40, seed: 11 };
    await biased(end, 3, async () => {
      const together = await generate(policy, prompts, options);
      const chunked = await generate(policy, prompts, { ...options, maxRows: 3 });
      const alone = await generate(policy, [prompts[1]!], { ...options, examples: [1] });
      expect(new Set(together.map(({ ids }) => ids.length)).size).toBeGreaterThan(3);
      expect(chunked.map(({ ids }) => [...ids])).toEqual(together.map(({ ids }) => [...ids]));
      expect(alone.map(({ ids }) => [...ids])).toEqual(together.slice(3, 6).map(({ ids }) => [...ids]));
    });
    const other = await generate(policy, prompts, { ...options, seed: 12 });
    const first = await generate(policy, prompts, options);
    expect(other.map(({ ids }) => [...ids])).not.toEqual(first.map(({ ids }) => [...ids]));
  });

  it('never samples image, padding or unused tokens, even when they are the likeliest', async () => {
    const banned = (id: number): boolean =>
      policy.tokenizer.token(id) === undefined || (policy.tokenizer.isSpecial(id) && id !== end);
    for (const token of [policy.dims.special.image, policy.dims.special.pad, policy.dims.vocabulary - 1]) {
      await biased(token, 30, async () => {
        for (const temperature of [0, 2]) {
          const all = await generate(policy, prompts, { samples: 4, temperature, maxTokens: 15, seed: 2 });
          expect(all.flatMap(({ ids }) => [...ids]).filter(banned)).toEqual([]);
        }
      });
    }
  });

  it('narrows to the likeliest tokens with top-p', async () => {
    const greedy = await generate(policy, prompts, { temperature: 0, maxTokens: 10, seed: 0 });
    const narrow = await generate(policy, prompts, { temperature: 1, topP: 1e-6, maxTokens: 10, seed: 3 });
    expect(narrow.map(({ ids }) => [...ids])).toEqual(greedy.map(({ ids }) => [...ids]));
  });

  it('leaves the end token out of the text', async () => {
    const all = await biased(end, 6, () => generate(policy, prompts, { samples: 4, maxTokens: 40, seed: 1 }));
    for (const { ids, text, finished } of all) {
      expect(text).toBe(policy.tokenizer.decode(finished ? ids.slice(0, -1) : ids));
      expect(text).not.toContain('<|im_end|>');
      expect([...ids].indexOf(end)).toBe(finished ? ids.length - 1 : -1);
    }
  });

  it('stops and frees everything when it is aborted', async () => {
    const stop = new AbortController();
    const running = generate(policy, prompts, {
      temperature: 1,
      maxTokens: 400,
      seed: 1,
      signal: stop.signal,
    });
    setImmediate(() => stop.abort(new Error('enough')));
    await expect(running).rejects.toThrow('enough');
    expect(engine.live()).toBe(born);
  });
});

it('refuses a token of logits that hold NaN', () => {
  const row = new Row(0, 0, new Random(1, 'row'), { stops: new Set(), maxTokens: 3, hidden: false });
  row.take(4, -0.5);
  expect(() => row.take(5, Number.NaN)).toThrow('generate: the logits hold NaN: the weights have diverged');
  expect(row.ids).toEqual([4]);
});
