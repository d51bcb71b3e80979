import { describe, expect, test } from 'vitest';
import { ADAPTER_TARGETS } from '../../src/policy/adapter.ts';
import { type Dims, nanoDims } from '../../src/policy/dims.ts';
import { layoutOf } from '../../src/policy/layout.ts';
import { ADAPTER_TARGETS as RECIPE_TARGETS } from '../../src/recipe.ts';
import { keptBytes, recomputes } from '../../src/train/recompute.ts';

const special = { image: 1, video: 2, visionStart: 3, visionEnd: 4, end: 5, pad: 6 };
const nano = nanoDims(512, special);
/** Decoder sizes of the published 3B. */
const large: Dims = {
  ...nano,
  vocabulary: 151_936,
  width: 2048,
  layers: 36,
  heads: 16,
  kvHeads: 2,
  headDim: 128,
  inner: 11_008,
};
const sizes = (dims: Dims, width: number, memory: number | null) => ({
  dims,
  width,
  memory,
  trained: layoutOf(dims).size,
});
const GIB = 2 ** 30;

describe('layers are computed again', () => {
  test('where the recipe says so, whatever fits', () => {
    expect(recomputes({ tokens: 1, recompute: 'always' }, sizes(nano, 4, 80 * GIB))).toBe(true);
    expect(recomputes({ tokens: 1e9, recompute: 'never' }, sizes(large, 4, GIB))).toBe(false);
  });

  test('by themselves where weights, optimiser and activations leave less than a fifth of the memory', () => {
    const auto = (dims: Dims, width: number, memory: number, tokens: number): boolean =>
      recomputes({ tokens, recompute: 'auto' }, sizes(dims, width, memory));
    expect(auto(nano, 4, 8 * GIB, 32_768)).toBe(false);
    expect(auto(nano, 4, 2 ** 20, 32_768)).toBe(true);
    expect(auto(large, 2, 80 * GIB, 1024)).toBe(false);
    expect(auto(large, 2, 80 * GIB, 32_768)).toBe(true);
    expect(auto(large, 2, 1024 * GIB, 32_768)).toBe(false);
  });

  test('by themselves from 100 million parameters on where the memory is not known', () => {
    expect(recomputes({ tokens: 1, recompute: 'auto' }, sizes(nano, 4, null))).toBe(false);
    expect(recomputes({ tokens: 1, recompute: 'auto' }, sizes(large, 2, null))).toBe(true);
  });
});

test('what training keeps: weights, gradients and moments, a master copy in 16 bits, activations by tokens and layers', () => {
  const size = layoutOf(nano).size;
  expect(keptBytes(sizes(nano, 4, null), 0)).toBe(20 * size);
  expect(keptBytes(sizes(nano, 2, null), 0)).toBe(20 * size);
  expect(keptBytes({ ...sizes(nano, 2, null), trained: 1000 }, 0)).toBe(2 * size + 18_000);
  const perToken = keptBytes(sizes(nano, 4, null), 11) - keptBytes(sizes(nano, 4, null), 10);
  // Of each layer: 4 · 128 stream and norms, 2 · 256 projections, 2 · 128 attention, 3 · 256 gate, up and product.
  expect(perToken).toBe(4 * 3 * (512 + 512 + 256 + 768));
});

test('a recipe knows the projections that an adapter can stand beside', () => {
  expect(RECIPE_TARGETS).toEqual(ADAPTER_TARGETS);
});
