import { expect, it } from 'vitest';
import { figure } from '../../src/plot/figure.ts';
import { shade } from '../../src/plot/shade.ts';

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
  const full = 255 - 0x2c;
  expect(255 - pixel(data, 0, 0)[0]!).toBeCloseTo(0.56 * full, -1);
  expect(pixel(data, 1, 0)[0]).toBe(255);
});

it('changes nothing without intervals', () => {
  expect(shade(nano, blank, [], 20)).toEqual(blank);
});
