import { afterAll, describe, expect, test } from 'vitest';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { figure } from '../../src/plot/figure.ts';
import { renderColumns } from '../../src/plot/raster.ts';
import { Policy } from '../../src/policy/policy.ts';
import { trainBpe } from '../../src/policy/tokenizer.ts';
import { encodeImages, pictureFeatures } from '../../src/policy/vision.ts';
import { PromptEncoder } from '../../src/train/task.ts';
import { DEVICE } from '../helpers/device.ts';
import { corpus } from './corpus.ts';

describe('features of pictures', () => {
  const engine = openTorch({ device: DEVICE, threads: 1 });
  const policy = Policy.create(engine, { tokenizer: trainBpe(corpus(200)), seed: 3 });
  afterAll(() => policy.dispose());
  const shape = figure('nano');
  const encoder = new PromptEncoder(policy);
  const prompt = (period: number) =>
    encoder.encode(
      renderColumns(
        shape,
        Float64Array.from({ length: 300 }, (_, i) => Math.sin(i / period)),
      ),
      'What is odd?',
    );

  test('are the mean of the visual tokens, the same in any batch, and another for another picture', () => {
    const prompts = [prompt(3), prompt(8), prompt(21)];
    const born = engine.live();
    const together = pictureFeatures(policy, prompts);
    expect(engine.live()).toBe(born);
    const { width } = policy.dims;
    expect(together.map(({ length }) => length)).toEqual([width, width, width]);
    const [alone] = pictureFeatures(policy, [prompts[1]!]);
    const tokens = engine.scope(() =>
      engine.floats(encodeImages(engine, policy.weights, policy.dims.vision, prompts[1]!.images)),
    );
    for (let d = 0; d < width; d += 17) {
      let sum = 0;
      for (let t = 0; t < tokens.length / width; t++) sum += tokens[t * width + d]!;
      expect(together[1]![d]).toBeCloseTo((sum * width) / tokens.length, 4);
      expect(alone![d]).toBeCloseTo(together[1]![d]!, 4);
    }
    expect(together[0]).not.toEqual(together[1]);
    expect(pictureFeatures(policy, [])).toEqual([]);
  });
});
