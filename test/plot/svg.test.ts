import { createRequire } from 'node:module';
import { Resvg } from '@resvg/resvg-js';
import { describe, expect, it } from 'vitest';
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import { figureSvg } from '../../src/plot/svg.ts';
import { SHAPES } from './shapes.ts';

const values = SHAPES['sine replaced by noise']!;
const font = createRequire(import.meta.url).resolve('dejavu-fonts-ttf/ttf/DejaVuSans.ttf');

/** Pixel colour at (x, y) of the drawn SVG, on white. */
function painter(svg: string) {
  const image = new Resvg(svg, {
    background: '#ffffff',
    font: { fontFiles: [font], loadSystemFonts: false },
  }).render();
  return (x: number, y: number) => [
    ...image.pixels.subarray((y * image.width + x) * 4, (y * image.width + x) * 4 + 3),
  ];
}

describe('report figures', () => {
  it('show true intervals on top, predicted ones at the bottom, at their places', async () => {
    const svg = await figureSvg(values, {
      gold: [[100, 200]],
      predicted: [[600, 700]],
      width: 1064,
      height: 150,
    });
    // 1000 px of plot area from x = 46: one pixel a sample.
    const at = painter(svg);
    const greenish = ([r, g]: number[]) => g! > r! + 60;
    const reddish = ([r, g]: number[]) => r! > g! + 60;
    const top = 24 + 3;
    const bottom = 150 - 22 - 3;
    expect(greenish(at(46 + 150, top))).toBe(true);
    expect(greenish(at(46 + 90, top))).toBe(false);
    expect(greenish(at(46 + 210, top))).toBe(false);
    expect(greenish(at(46 + 150, bottom))).toBe(false);
    expect(reddish(at(46 + 650, bottom))).toBe(true);
    expect(reddish(at(46 + 590, bottom))).toBe(false);
    expect(reddish(at(46 + 710, bottom))).toBe(false);
    expect(reddish(at(46 + 650, top))).toBe(false);
  });

  it('mark single samples by strips of 4 px, at the ends of the series inside the plot', async () => {
    const gold = [0, 500, 999].map((start) => [start, start + 1] as const);
    const at = painter(await figureSvg(values, { gold, predicted: [[250, 251]], width: 1064, height: 150 }));
    const colored = (y: number, from: number): number[] =>
      Array.from({ length: 16 }, (_, k) => from - 8 + k).filter(
        (x) => Math.max(...at(x, y)) - Math.min(...at(x, y)) > 60,
      );
    expect(colored(27, 46 + 500)).toEqual([544, 545, 546, 547]);
    expect(colored(27, 46)).toEqual([46, 47, 48, 49]);
    expect(colored(27, 1046)).toHaveLength(4);
    // One of the dashed sides may be lit beside it.
    expect([4, 5]).toContain(colored(150 - 22 - 3, 46 + 250).length);
  });

  it('name in the legend what they show, and only that', async () => {
    const legend = async (options: object) =>
      [...(await figureSvg(values, options)).matchAll(/>(true|predicted)<\/text>/g)].map((match) => match[1]);
    expect(await legend({ gold: [[1, 9]], predicted: [[2, 8]] })).toEqual(['true', 'predicted']);
    expect(await legend({ gold: [[1, 9]] })).toEqual(['true']);
    expect(await legend({ predicted: [[2, 8]] })).toEqual(['predicted']);
    expect(await legend({ gold: [], predicted: [] })).toEqual([]);
  });

  it('call the intervals what they are told to', async () => {
    const names = { gold: 'classical', predicted: 'policy & <co>' };
    const svg = await figureSvg(values, { gold: [[1, 9]], predicted: [[2, 8]], names });
    const legend = [...svg.matchAll(/>(true|predicted|classical|policy[^<]*)<\/text>/g)].map(
      (match) => match[1],
    );
    expect(legend).toEqual(['classical', 'policy &amp; &lt;co&gt;']);
  });

  it('stay below 40 kB whatever the length', async () => {
    for (const [n, width] of [
      [1000, 640],
      [1119, 1600],
      [200_000, 640],
      [1_000_000, 2000],
    ] as const) {
      const noisy = Float64Array.from({ length: n }, (_, i) => -100 * Math.sin(i * i));
      const svg = await figureSvg(noisy, { gold: [[10, 20]], predicted: [[10, 20]], width });
      expect(svg.length, `${n} samples`).toBeLessThan(40_000);
    }
  });

  it('keep the extremes of a long series', async () => {
    const long = new Float64Array(300_000);
    long[123_456] = 10;
    const at = painter(await figureSvg(long, { width: 1064, height: 150 }));
    const x = 46 + Math.round((123_456 / 300_000) * 1000);
    const dark = [-2, -1, 0, 1, 2].some((dx) => at(x + dx, 24)[0]! < 200);
    expect(dark).toBe(true);
  });

  it('escape their texts and refer to nothing outside', async () => {
    const title = '<script>alert(1)</script> & "more" </svg><b>';
    const svg = await figureSvg(values, { title, width: 900 });
    expect(svg).not.toContain('<script');
    expect(svg).not.toContain('<b>');
    expect(svg).toContain('&lt;script&gt;');
    expect(svg.match(/<svg/g)).toHaveLength(1);
    expect(svg.replaceAll(/xmlns(:xlink)?="[^"]*"/g, '')).not.toMatch(/https?:|href|url\(|@import/);
    expect(new Set(svg.match(/font-family="[^"]*"/g))).toEqual(
      new Set(['font-family="DejaVu Sans, sans-serif"']),
    );
  });

  it('break the line at missing samples', async () => {
    const gaps = Float64Array.of(1, 2, Number.NaN, 3, 4, Infinity, 5, 6);
    const svg = await figureSvg(gaps);
    const line = /<path[^>]* d="([^"]*)"[^>]*stroke="#1f4e79"/.exec(svg)?.[1];
    expect(line?.match(/M/g)).toHaveLength(3);
    expect(line).not.toMatch(/NaN|Infinity/);
  });

  it('are the same in each run', async () => {
    const options = { gold: [[100, 200]], title: 'a' } as const;
    expect(await figureSvg(values, options)).toBe(await figureSvg(values, options));
  });

  it('refuse intervals outside the series, empty series and sizes without room', async () => {
    await expect(figureSvg(values, { gold: [[990, 1001]] })).rejects.toThrow(/true interval \[990, 1001\)/);
    await expect(figureSvg(values, { predicted: [[-1, 5]] })).rejects.toThrow(/predicted interval/);
    await expect(figureSvg(values, { gold: [[5, 5]] })).rejects.toThrow(DataError);
    await expect(figureSvg(new Float64Array(0))).rejects.toThrow(DataError);
    await expect(figureSvg(values, { width: 50 })).rejects.toThrow(ConfigError);
  });
});
