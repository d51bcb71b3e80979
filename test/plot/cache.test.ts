import { describe, expect, it } from 'vitest';
import { DataError } from '../../src/ground/errors.ts';
import { PictureCache, pictureKey } from '../../src/plot/cache.ts';
import { figure } from '../../src/plot/figure.ts';
import { renderColumns } from '../../src/plot/raster.ts';

const nano = figure('nano');
const BYTES = 560 * 28 * 3;
const values = (first: number) => Float64Array.of(first, 2, 5, 3);

/** A drawing function that counts its calls. */
function counted() {
  const drawn: number[] = [];
  const draw = async (...[fig, data]: [typeof nano, Float64Array | readonly Float64Array[]]) => {
    drawn.push((data as Float64Array)[0]!);
    return renderColumns(fig, data);
  };
  return { drawn, draw };
}

describe('picture keys', () => {
  it('are equal for equal content, however it is held', () => {
    const key = pictureKey(nano, values(1));
    expect(pictureKey({ ...nano }, values(1).slice())).toBe(key);
    expect(pictureKey(nano, [values(1)])).toBe(key);
    expect(pictureKey(nano, Float64Array.of(9, 1, 2, 5, 3).subarray(1))).toBe(key);
    const reversed = Object.fromEntries(Object.entries(nano).reverse()) as unknown as typeof nano;
    expect(pictureKey(reversed, values(1))).toBe(key);
  });

  it('differ for other values, figures, channels and times', () => {
    const pair = [Float64Array.of(1, 2), Float64Array.of(5, 3)];
    const keys = [
      pictureKey(nano, values(1)),
      pictureKey(nano, values(1 + 2 ** -52)),
      pictureKey(nano, values(-1)),
      pictureKey(figure('nano', { lineWidth: 2 }), values(1)),
      pictureKey(nano, pair),
      pictureKey(nano, values(1), Float64Array.of(0, 1, 2, 3)),
      pictureKey(nano, values(1), Float64Array.of(0, 1, 2, 4)),
    ];
    expect(new Set(keys).size).toBe(keys.length);
  });
});

describe('the picture cache', () => {
  it('draws each picture once, also when asked for at the same time', async () => {
    const { drawn, draw } = counted();
    const cache = new PictureCache(BYTES, draw);
    const [a, b] = await Promise.all([cache.render(nano, values(1)), cache.render(nano, values(1))]);
    const c = await cache.render(nano, values(1));
    expect(drawn).toEqual([1]);
    expect([b, c]).toEqual([a, a]);
    expect(a).toEqual(renderColumns(nano, values(1)));
  });

  it('lets go of the least recently used beyond its bytes', async () => {
    const { drawn, draw } = counted();
    const cache = new PictureCache(2 * BYTES, draw);
    for (const first of [1, 2, 1, 3, 1, 2]) await cache.render(nano, values(first));
    expect(drawn).toEqual([1, 2, 3, 2]);
  });

  it('keeps nothing in memory when it may not', async () => {
    const { drawn, draw } = counted();
    const cache = new PictureCache(0, draw);
    await cache.render(nano, values(1));
    await cache.render(nano, values(1));
    expect(drawn).toEqual([1, 1]);
  });

  it('does not keep failures', async () => {
    const { drawn, draw } = counted();
    const cache = new PictureCache(BYTES, draw);
    const nothing = Float64Array.of(Number.NaN);
    await expect(cache.render(nano, nothing)).rejects.toThrow(DataError);
    await expect(cache.render(nano, nothing)).rejects.toThrow(DataError);
    expect(drawn).toEqual([Number.NaN, Number.NaN]);
  });
});
