import { expect, it } from 'vitest';
import { figure } from '../../src/plot/figure.ts';
import { shade } from '../../src/plot/raster.ts';

const nano = figure('nano');
const blank = { width: 560, height: 28, data: new Uint8Array(560 * 28 * 3).fill(255) };
const pixel = (data: Uint8Array, x: number, y: number) => [
  ...data.subarray((y * 560 + x) * 3, (y * 560 + x) * 3 + 3),
];

it('shades the pixels of the interval and no others, on a copy', () => {
  const { data } = shade(nano, blank, [[5, 10]], 20);
  const shaded = Array.from({ length: 560 }, (_, x) => x).filter((x) => pixel(data, x, 20)[0]! < 255);
  expect([shaded[0], shaded.at(-1), shaded.length]).toEqual([140, 279, 140]);
  expect(pixel(data, 200, 0)).toEqual([0x2c, 0xa0, 0x2c]);
  expect(pixel(data, 200, 27)).toEqual([217, 238, 217]);
  expect(blank.data.every((value) => value === 255)).toBe(true);
});

it('shades a partly covered pixel in part', () => {
  const { data } = shade(nano, blank, [[0, 1]], 1000);
  expect(255 - pixel(data, 0, 20)[0]!).toBe(Math.round(0.56 * 0.18 * (255 - 0x2c)));
  expect(pixel(data, 1, 20)[0]).toBe(255);
});

it.each<[start: number, from: number]>([
  [0, 0],
  [500, 278.28],
  [999, 556],
])(
  'marks sample %i of 1000 by a strip of 4 px inside the picture, and a band of its own width',
  (start, from) => {
    const { data } = shade(nano, blank, [[start, start + 1]], 1000);
    const width = (y: number): number => {
      const dark = pixel(blank.data, 0, y)[0]! - (y < 4 ? 0x2c : 217);
      return Array.from({ length: 560 }, (_, x) => (255 - pixel(data, x, y)[0]!) / dark).reduce(
        (a, b) => a + b,
      );
    };
    const first = Array.from({ length: 560 }, (_, x) => x).find((x) => pixel(data, x, 0)[0]! < 255);
    expect(first).toBe(Math.floor(from));
    expect(width(0)).toBeCloseTo(4, 1);
    expect(width(20)).toBeCloseTo(0.56, 1);
  },
);

it('changes nothing without intervals', () => {
  expect(shade(nano, blank, [], 20)).toEqual(blank);
});
