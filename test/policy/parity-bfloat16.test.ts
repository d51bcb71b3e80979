import { describe, expect, it } from 'vitest';
import { processor } from '../../src/engine/torch/kernel.ts';
import { generate } from '../../src/policy/generate.ts';
import { responseLogProbs } from '../../src/train/micro-batch.ts';
import { engine } from './golden.ts';
import { gradientsOf, parity, parityPolicy, relative, weighted } from './parity.ts';
import { allLogits, encode, layerStates, logProbs, note, visualTokens } from './parity-run.ts';

/**
 * Largest error of ours in bfloat16 against float32, in units of the reference's own. Both round after every operation, but
 * not the same sums, so that single numbers differ; the errors are alike in size. Measured: at most 1.18 for a tensor of
 * states and 1.02 for the gradients of a policy together; 1.7 for the gradient of one parameter, which is not judged alone. The reference
 * was computed with AVX-512; without it the library rounds between the parts of a product (2.1 times).
 */
const ROUNDING = processor().instructions === 'AVX-512' ? 1.5 : 2.5;

const rowsOf = (values: Float32Array, width: number): number => values.length / width;

const rounded = parity.policies
  .map((row, index) => ({ ...row, index }))
  .filter(({ bfloat16 }) => bfloat16 !== undefined);

describe.each(rounded)('in bfloat16: $name', (row) => {
  const { states, gradients } = row.bfloat16!;

  it('is no farther from float32 than the reference in bfloat16 is', () => {
    const policy = parityPolicy(engine, row, 'bfloat16');
    const prompts = encode(policy, row);
    const tokens = prompts.reduce((sum, { ids }) => sum + ids.length, 0);
    engine.scope(() => {
      const check = (name: string, values: Float32Array, rows: number): void => {
        const ratio = relative(`${row.index}/${name}`, values, rows) / states[name]!;
        note(`bfloat16 ${name.split('.')[0]}`, `${row.name}: ${name}`, ratio);
        expect(ratio, name).toBeLessThan(ROUNDING);
      };
      for (let i = 0; i < policy.dims.vision.depth; i++) {
        const values = visualTokens(policy, prompts, i + 1);
        check(`vision.${i}`, values, rowsOf(values, policy.dims.width));
      }
      for (let i = 0; i < policy.dims.layers; i++)
        check(`layer.${i}`, layerStates(policy, prompts, i + 1), tokens);
      check('logits', allLogits(policy, prompts), tokens);
      const scores = logProbs(policy, prompts);
      check('logProbs', engine.floats(scores), tokens - prompts.length);
      // Single tensors are small samples of the error; all of them together are not.
      let ours = 0;
      let theirs = 0;
      for (const [name, { values, rows }] of gradientsOf(policy, weighted(engine, scores))) {
        const error = relative(`${row.index}/gradient.${name}`, values, rows);
        const known = gradients[name]!;
        note('bfloat16 one gradient', `${row.name}: ${name}`, error / known);
        ours += error ** 2;
        theirs += known ** 2;
      }
      note('bfloat16 gradients', row.name, Math.sqrt(ours / theirs));
      expect(Math.sqrt(ours / theirs)).toBeLessThan(ROUNDING);
    });
    policy.dispose();
  });

  it('decodes with no more error than its own forward pass has', async () => {
    const [policy, exact] = [parityPolicy(engine, row, 'bfloat16'), parityPolicy(engine, row)];
    const prompts = encode(policy, row);
    const sampled = await generate(policy, prompts, { temperature: 0, maxTokens: 64, seed: 0 });
    const responses = sampled.map(({ ids }) => ids);
    const want = responseLogProbs(exact, prompts, responses, 1);
    const error = (got: ArrayLike<number>): number => Math.hypot(...want.map((v, i) => got[i]! - v));
    const decoded = error(sampled.flatMap(({ logProbs: got }) => [...got]));
    const ratio = decoded / error(responseLogProbs(policy, prompts, responses, 1));
    note('bfloat16 decoding', row.name, ratio);
    expect(decoded).toBeGreaterThan(0);
    expect(ratio).toBeLessThan(ROUNDING);
    policy.dispose();
    exact.dispose();
  });
});
