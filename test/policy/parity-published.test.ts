import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { layoutOf } from '../../src/policy/layout.ts';
import { parseDims, VISION_EPSILON } from '../../src/policy/model-config.ts';
import * as published from './published.ts';

/** What test/golden/make_published.py stores. */
const golden = JSON.parse(readFileSync(new URL('../golden/published.json', import.meta.url), 'utf8')) as {
  sizes: Record<
    string,
    {
      tensors: Record<string, { shape: number[]; count: number }>;
      parameters: number;
      facts: Record<string, unknown>;
    }
  >;
};

describe.each(Object.entries(published))('config.json of %s', (name, config) => {
  const want = golden.sizes[name]!;
  const dims = parseDims(config);
  const layout = layoutOf(dims);

  it('asks for the tensors that transformers builds, of the same names and shapes', () => {
    const tensors: Record<string, { shape: number[]; count: number }> = {};
    for (const part of layout.parameters.flatMap(({ parts }) => parts)) {
      const key = part.name.replace(/(layers|blocks)\.\d+\./, '$1.N.');
      tensors[key] ??= { shape: [...part.shape], count: 0 };
      expect([...part.shape]).toEqual(tensors[key].shape);
      tensors[key].count++;
    }
    expect(tensors).toEqual(want.tensors);
    expect(layout.size).toBe(want.parameters);
  });

  it('is read as transformers reads it', () => {
    const { vision, special } = dims;
    expect({
      tied: dims.tied,
      headDim: dims.headDim,
      theta: dims.theta,
      sections: [...dims.sections],
      epsilon: dims.epsilon,
      maxPositions: dims.maxPositions,
      window: vision.window,
      fullAttention: [...vision.fullAttention],
      merge: vision.merge,
      patch: vision.patch,
      temporal: vision.temporal,
      visionHeadDim: vision.width / vision.heads,
      visionTheta: vision.theta,
      visionEpsilon: VISION_EPSILON,
      image: special.image,
      video: special.video,
      end: special.end,
    }).toEqual(want.facts);
  });
});
