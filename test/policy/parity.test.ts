import { afterAll, describe, expect, it } from 'vitest';
import { generate } from '../../src/policy/generate.ts';
import { ENGINES } from './golden.ts';
import { gradientNames, gradientsOf, parity, parityPolicy, TOLERANCE, weighted, worst } from './parity.ts';
import { allLogits, encode, layerStates, logProbs, note, visualTokens } from './parity-run.ts';

const rowsOf = (values: Float32Array, width: number): number => values.length / width;

const policies = ENGINES.flatMap((engine) =>
  parity.policies.map((row, index) => ({
    ...{ ...row, index, title: `${engine.info.name}: ${row.name}` },
    policy: parityPolicy(engine, row),
  })),
);
const born = ENGINES.map((engine) => engine.live());
afterAll(() => expect(ENGINES.map((engine) => engine.live())).toEqual(born));

describe.each(policies)('$title', (row) => {
  const { policy } = row;
  const { engine } = policy;
  const prompts = encode(policy, row);
  const tokens = prompts.reduce((sum, { ids }) => sum + ids.length, 0);
  const { width, layers, vision } = policy.dims;

  const check = (quantity: string, name: string, values: Float32Array, rows: number): void => {
    const error = worst(`${row.index}/${name}`, values, rows);
    note(quantity, `${row.name}: ${name}`, error);
    expect(error, name).toBeLessThan(TOLERANCE);
  };

  it('gives the same text, ids, positions, grids and pixels', () => {
    for (const [i, want] of row.rows.entries()) {
      const prompt = prompts[i]!;
      expect(policy.chat.render(want.messages)).toBe(want.text);
      expect([...prompt.ids]).toEqual(want.ids);
      expect([...prompt.positions]).toEqual(want.positions.flat());
      expect(prompt.images.map(({ rows, columns }) => [1, rows, columns])).toEqual(want.grids);
      if (prompt.images.length === 0) continue;
      // Back to [L, 3, frames, patch²] with every frame.
      const area = vision.patch ** 2;
      const own = prompt.images.flatMap(({ patches }) => [...patches]);
      const full = Float32Array.from({ length: own.length * vision.temporal }, (_, at) => {
        const channel = Math.floor(at / (area * vision.temporal));
        return own[channel * area + (at % area)]!;
      });
      check('pixels', `pixels.${i}`, full, rowsOf(full, 3 * vision.temporal * area));
    }
  });

  it('gives the same visual tokens after every vision block', () => {
    engine.scope(() => {
      for (let i = 0; i < vision.depth; i++) {
        const values = visualTokens(policy, prompts, i + 1);
        check('vision', `vision.${i}`, values, rowsOf(values, width));
      }
    });
  });

  it('gives the same state after every decoder layer, in a padded batch and alone', () => {
    engine.scope(() => {
      for (let i = 0; i < layers; i++) {
        check('layers', `layer.${i}`, layerStates(policy, prompts, i + 1), tokens);
      }
      const alone = prompts.flatMap((prompt) => [...layerStates(policy, [prompt], layers)]);
      check('alone', `layer.${layers - 1}`, Float32Array.from(alone), tokens);
    });
  });

  it('gives the same logits and log-probabilities of tokens', () => {
    engine.scope(() => {
      check('logits', 'logits', allLogits(policy, prompts), tokens);
      check('logProbs', 'logProbs', engine.floats(logProbs(policy, prompts)), tokens - prompts.length);
    });
  });

  it('gives the same loss and the same gradient of every parameter', () => {
    engine.scope(() => {
      const loss = weighted(engine, logProbs(policy, prompts));
      expect(Math.abs(engine.item(loss) / row.loss - 1)).toBeLessThan(1e-5);
      const gradients = gradientsOf(policy, loss);
      expect([...gradients.keys()].sort()).toEqual(gradientNames(`${row.index}/gradient.`));
      for (const [name, { values, rows }] of gradients) check('gradients', `gradient.${name}`, values, rows);
    });
  });

  it.each([1, 2])(
    'continues greedily with the same 64 tokens and log-probabilities, %i samples per prompt',
    async (samples) => {
      const all = await generate(policy, prompts, { samples, temperature: 0, maxTokens: 64, seed: 0 });
      expect(all).toHaveLength(samples * prompts.length);
      for (const { prompt, ids, logProbs: got } of all) {
        expect([...ids]).toEqual(row.rows[prompt]!.greedy);
        check('greedy', `greedy.${prompt}`, got, 64);
      }
    },
  );
});
