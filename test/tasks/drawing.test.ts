import { describe, expect, it } from 'vitest';
import { render as renderAny } from '../../src/index.ts';
import { axesText, figure } from '../../src/plot/figure.ts';
import { render } from '../../src/plot/raster.ts';
import { drawingOf, unusualLines } from '../../src/tasks/drawing.ts';

const values = Float64Array.from({ length: 560 }, (_, i) => Math.sin(i / 4) + (i === 300 ? 4 : 0));
const example = { id: 'x', channels: [values], names: ['value'], times: null, gold: null };

describe('the lines over the values', () => {
  it('stand out where the series is unusual, and lie inside of their axes', () => {
    const [own, deviation, unlikeness] = unusualLines(values);
    expect(own).toBe(values);
    for (const line of [deviation!, unlikeness!]) {
      expect(Math.max(...line.map(Math.abs))).toBeLessThanOrEqual(1);
    }
    expect(deviation!.indexOf(Math.max(...deviation!))).toBe(300);
    expect(Math.abs(unlikeness!.indexOf(Math.max(...unlikeness!)) - 300)).toBeLessThan(13);
  });

  it('are the same in any unit', () => {
    const [, deviation, unlikeness] = unusualLines(values);
    const [, again, other] = unusualLines(values.map((value) => 1e4 * value - 3e5));
    again!.forEach((value, i) => {
      expect(value).toBeCloseTo(deviation![i]!, 6);
      expect(other![i]).toBeCloseTo(unlikeness![i]!, 5);
    });
  });

  it('go on through missing values, and are flat for series too short or without a value', () => {
    const gaps = values.map((value, i) => (i > 99 && i < 140 ? Number.NaN : value));
    expect(unusualLines(gaps)[1]!.every(Number.isFinite)).toBe(true);
    const none = new Float64Array(560).fill(Number.NaN);
    expect(unusualLines(none)[2]!.every((value) => value === 0)).toBe(true);
    expect(unusualLines(values.subarray(0, 3))[1]).toHaveLength(3);
  });

  it('are reduced to columns: means, their distances, and the largest deviation of a sample in each', () => {
    // 1 003 samples in 100 columns: some hold ten, some eleven. The peak is a tenth of that in the mean of its column.
    const long = Float64Array.from({ length: 1003 }, (_, t) => Math.sin(t / 40) + Math.sin(7 * t * t) / 9);
    long[700] = long[700]! - 1;
    const [means, deviation, unlike] = unusualLines(long, 100);
    const column = Math.floor((700 * 100) / 1003);
    expect([means, deviation, unlike].map((line) => line!.length)).toEqual([100, 100, 100]);
    expect(means![0]).toBeCloseTo(long.subarray(0, 10).reduce((a, b) => a + b) / 10, 12);
    expect(means![99]).toBeCloseTo(long.subarray(992).reduce((a, b) => a + b) / 11, 12);
    expect(unlike).toEqual(unusualLines(means!)[2]);
    const bySample = unusualLines(long)[1]!;
    expect(deviation![column]).toBe(bySample[700]);
    expect(deviation!.indexOf(Math.min(...deviation!))).toBe(column);
    const ofMeans = unusualLines(means!)[1]!;
    expect(Math.abs(ofMeans[column]!)).toBeLessThan(Math.max(...ofMeans.map(Math.abs)));
  });

  it('are drawn of each channel as if it was alone, in a row of its own', async () => {
    const { figure: shape, values: lines } = drawingOf(example, {
      preset: 'nano-analysis',
      missing: 'break',
    });
    expect(shape).toEqual(figure('nano-analysis'));
    expect(await render(shape, lines)).toMatchObject({ width: 560, height: 28 });
    const other = values.map((value, i) => 1000 - 3 * value + Math.sin(i / 7));
    const missing = new Float64Array(560).fill(Number.NaN);
    const three = { ...example, channels: [values, other, missing], names: ['a', 'b', 'c'] };
    expect(axesText(figure('nano-analysis', { channels: ['a', 'b'] }), 560)).toMatch(
      /^each channel has a row/,
    );
    const drawn = drawingOf(three, { preset: 'nano-analysis', missing: 'break' });
    const { width, height, data } = await render(drawn.figure, drawn.values);
    expect([width, height]).toEqual([560, 84]);
    for (const [c, channel] of three.channels.entries()) {
      const alone = await render(shape, unusualLines(channel));
      expect(data.slice(c * alone.data.length, (c + 1) * alone.data.length)).toEqual(alone.data);
    }
    expect((await renderAny(three.channels, 'nano-analysis')).data).toEqual(data);
  });
});
