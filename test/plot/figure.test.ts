import { readFileSync } from 'node:fs';
import { describe, expect, it, test } from 'vitest';
import { ConfigError } from '../../src/ground/errors.ts';
import { channelsOf, xDomain, yDomain } from '../../src/plot/data.ts';
import { axesText, figure, isBare, plotSize } from '../../src/plot/figure.ts';
import { FIGURE_HELP, FIGURE_NAMES } from '../../src/plot/presets.ts';
import { vegaLite } from '../../src/plot/spec.ts';
import { inside } from '../helpers/command-line.ts';

interface Geometry {
  readonly size: readonly [number, number];
  readonly box: readonly [left: number, top: number, right: number, bottom: number];
  readonly xlim: readonly [number, number];
  readonly n: number;
}
const geometry: Record<'anomllm' | 'ctu' | 'vta', Geometry> = JSON.parse(
  readFileSync(new URL('../golden/plot/geometry.json', import.meta.url), 'utf8'),
);

describe('figure presets', () => {
  it.each(['anomllm', 'ctu', 'vta'] as const)('%s has the geometry of the published figure', (name) => {
    const { size, box, xlim, n } = geometry[name];
    const { width, height, padding } = figure(name);
    expect([width, height]).toEqual(size);
    const ours = [padding.left, padding.top, width - padding.right, height - padding.bottom];
    ours.forEach((edge, i) => {
      expect(Math.abs(edge - box[i]!)).toBeLessThanOrEqual(0.75);
    });
    const [lo, hi] = xDomain(figure(name), n);
    expect(lo).toBeCloseTo(xlim[0], 9);
    expect(hi).toBeCloseTo(xlim[1], 9);
  });

  it('signals take whole blocks of 28 px, which Qwen2.5-VL does not resize', () => {
    for (const name of ['tee', 'ecg', 'emg', 'har', 'rcw']) {
      const { width, height } = figure(name);
      expect([width % 28, height % 28], name).toEqual([0, 0]);
    }
  });

  it.each([
    ['tee', 319, 0, 797.492],
    ['ecg', 1500, 0, 4.997],
    ['emg', 1500, 0, 0.3748],
    ['har', 128, 0, 2.54],
    ['rcw', 4000, 0, 1.9995],
  ] as const)('%s shows its %d samples over the time that they took', (name, n, first, last) => {
    const [lo, hi] = xDomain(figure(name, { xMargin: 0 }), n);
    expect(lo).toBe(first);
    expect(hi).toBeCloseTo(last, 3);
  });

  it('nano gives whole patches, and each pixel block of 28 px the samples of one twentieth', () => {
    const nano = figure('nano');
    expect([nano.width % 28, nano.height % 28]).toEqual([0, 0]);
    expect(plotSize(nano)).toEqual({ width: 560, height: 28 });
    for (const n of [20, 1000, 1500]) expect(xDomain(nano, n)).toEqual([-0.5, n - 0.5]);
  });

  it('only the nano figures are bare', () => {
    expect(FIGURE_NAMES.filter((name) => isBare(figure(name)))).toEqual(
      FIGURE_NAMES.filter((name) => name.startsWith('nano')),
    );
    expect(isBare(figure('nano', { title: 'x' }))).toBe(false);
    expect(isBare(figure('nano', { missing: 'join' }))).toBe(false);
    expect(isBare(figure('nano', { step: null }))).toBe(false);
    expect(isBare(figure('nano', { channels: ['x', 'y'] }))).toBe(false);
    expect(isBare(figure('nano-channels', { colors: ['#000000', '#ff0000'] }))).toBe(false);
  });

  it('figures of rows grow by a row of 28 px for every channel, unless they are given a height', () => {
    for (let count = 1; count <= 12; count++) {
      const channels = Array.from({ length: count }, (_, c) => `c${c}`);
      expect(figure('nano-channels', { channels })).toMatchObject({ width: 560, height: 28 * count });
      expect(isBare(figure('nano-channels', { channels }))).toBe(true);
      expect(figure('nano-variates', { channels, width: 112 })).toMatchObject({
        width: 112,
        height: 28 * count,
      });
    }
    const padding = { left: 0, top: 3, right: 0, bottom: 4 };
    expect(figure('nano-channels', { channels: ['a', 'b'], padding }).height).toBe(63);
    expect(figure('nano-channels', { channels: ['a', 'b'], height: 112 }).height).toBe(112);
  });

  it('compiles to a specification that holds no data and is plain JSON', () => {
    for (const name of FIGURE_NAMES) {
      const spec = vegaLite(figure(name));
      expect(JSON.parse(JSON.stringify(spec))).toEqual(spec);
      expect(spec).toMatchObject({ autosize: 'none', data: { name: 'series' } });
    }
  });

  it('names what is wrong with a figure', () => {
    expect(() => figure('nanno')).toThrow(
      /nanno.*line, nano, nano-tall, nano-channels, nano-har, nano-variates, nano-analysis, anomllm, ctu/,
    );
    expect(() => figure('nano', { width: 0 })).toThrow(/figure\.width/);
    expect(() => figure('nano', { height: 28.5 })).toThrow(/figure\.height/);
    expect(() => figure('line', { height: 60 })).toThrow(/no room/);
    expect(() => figure('nano', { lineWidth: 0 })).toThrow(/lineWidth/);
    expect(() => figure('nano', { yMargin: Number.NaN })).toThrow(/margins/);
    expect(() => figure('line', { channels: ['x', 'x'] })).toThrow(/channels/);
    expect(() => figure('line', { colors: [] })).toThrow(ConfigError);
    expect(() => figure('ecg', { step: 0 })).toThrow(/figure\.step/);
    expect(() => figure('vta-grid', { time: true })).toThrow(/exclude each other/);
    expect(() => figure('nano-channels', { grid: true })).toThrow(/rows and overlay exclude each other/);
    expect(() => figure('nano-channels', { height: 85 })).toThrow(/3 rows of 28.33 px; .*whole px/);
    expect(() => figure('nano-channels', { height: 12 })).toThrow(/3 rows of 4 px.*at least 8/);
    expect(() => figure('nano-channels', { channels: [] })).toThrow(/at least one name/);
    expect(() => figure('vta-grid', { width: 100, height: 100 })).toThrow(/9 panels of 8 × 8 px.*larger/);
  });
});

describe('axis domains', () => {
  const line = figure('line', { yMargin: 0.1 });

  it('leave the margin on both sides of the finite values', () => {
    expect(yDomain(line, [Float64Array.of(2, Number.NaN, 12, Infinity)])).toEqual([1, 13]);
    expect(yDomain(line, [Float64Array.of(2, 3), Float64Array.of(12, -8)])).toEqual([-10, 14]);
  });

  it('always show what the figure includes, and widen instead of clipping', () => {
    const anomllm = figure('anomllm');
    expect(yDomain(anomllm, [Float64Array.of(0.1, -0.2)])).toEqual([-1.1, 1.1]);
    const [lo, hi] = yDomain(anomllm, [Float64Array.of(0, 2)]);
    expect(lo).toBeCloseTo(-1.15);
    expect(hi).toBeCloseTo(2.15);
    expect(yDomain(anomllm, [Float64Array.of(0.5, 0.5)])).toEqual([-1.1, 1.1]);
  });

  it('leave that out where it would flatten a series on another scale', () => {
    const anomllm = figure('anomllm', { yMargin: 0 });
    expect(yDomain(anomllm, [Float64Array.of(1e-7, 3e-7)])).toEqual([1e-7, 3e-7]);
    expect(yDomain(anomllm, [Float64Array.of(100, 105)])).toEqual([100, 105]);
    expect(yDomain(anomllm, [Float64Array.of(100, 115)])).toEqual([-1, 115]);
    expect(yDomain(anomllm, [Float64Array.of(40)])).toEqual([38, 42]);
  });

  it('put a constant in the middle', () => {
    expect(yDomain(line, [Float64Array.of(0, 0)])).toEqual([-0.5, 0.5]);
    expect(yDomain(line, [Float64Array.of(40, 40)])).toEqual([38, 42]);
    expect(yDomain(line, [Float64Array.of(-40)])).toEqual([-42, -38]);
  });

  it('stay finite up to the largest values', () => {
    for (const bound of yDomain(line, [Float64Array.of(-1e300, 1e300)]))
      expect(Number.isFinite(bound)).toBe(true);
  });

  it('follow the times, and give a single sample a cell of its own', () => {
    expect(xDomain(figure('line', { xMargin: 0.5 }), 3, Float64Array.of(10, 20, 30))).toEqual([0, 40]);
    expect(xDomain(figure('nano'), 3, Float64Array.of(10, 20, 30))).toEqual([5, 35]);
    expect(xDomain(line, 1)).toEqual([-0.5, 0.5]);
    expect(xDomain(figure('nano', { step: 4 }), 3)).toEqual([-2, 10]);
    expect(xDomain(figure('nano', { step: 4 }), 1)).toEqual([-2, 2]);
  });

  it('need channels of one length, as many as the figure has', () => {
    const xyz = figure('line', { channels: ['x', 'y', 'z'] });
    expect(() => channelsOf(xyz, Float64Array.of(1, 2))).toThrow(/3 channel\(s\) \(x, y, z\).*has 1/);
    const uneven = [Float64Array.of(1, 2), Float64Array.of(1), Float64Array.of(1, 2)];
    expect(() => channelsOf(xyz, uneven)).toThrow(/equally long.*2 and 1/);
  });
});

test.each([
  ['anomllm', {}, 1000, 'the x axis is the index, 0 to 999'],
  ['tee', {}, 319, 'the x axis is the time in µs, 0 to 797'],
  ['emg', {}, 1500, 'the x axis is the time in s, 0 to 0.375'],
  ['nano-har', {}, 128, 'each channel has a row of its own, from the top; the x axis is the index, 0 to 127'],
  [
    'vta-grid',
    { channels: ['a', 'b'] },
    200,
    'each channel has a small plot of its own, row by row from the upper left; the x axis is the index, 0 to 199',
  ],
  ['line', { time: true, xLabel: '' }, 50, 'the x axis is the date'],
] as const)('%s with %j tells its axes', (preset, more, length, text) => {
  expect(axesText(figure(preset, more), length)).toBe(text);
});

test('x values of the series itself give the range', () => {
  const shape = figure('line', { step: null, xLabel: 'Time' });
  expect(axesText(shape, 3, Float64Array.of(2.5, 4, 17.25))).toBe('the x axis is the time, 2.5 to 17.3');
});

describe('the presets in help', () => {
  it('of render stand each with a few words', async () => {
    const { out } = await inside('render', '--help');
    expect(out.replace(/\s+/g, ' ')).toContain(FIGURE_HELP);
    for (const name of FIGURE_NAMES) expect(FIGURE_HELP).toMatch(new RegExp(`(^|, )${name} \\([^()]+\\)`));
  });

  it.each(['prepare', 'show'])('of data %s are left to that of render', async (command) => {
    const { out } = await inside('data', command, '--help');
    expect(out.replace(/\s+/g, ' ')).toContain('timeseer render --help lists them');
  });
});
