import { readFileSync } from 'node:fs';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import type { Picture } from '../../src/ground/types.ts';
import { canvas } from '../../src/plot/canvas.ts';
import { type Figure, figure } from '../../src/plot/figure.ts';
import { encodePng } from '../../src/plot/png.ts';
import { render, renderColumns } from '../../src/plot/raster.ts';
import { renderVega } from '../../src/plot/vega-raster.ts';
import { decodePng } from '../helpers/png.ts';
import { GOLDEN } from './golden.ts';
import { CHANNELS, SHAPES } from './shapes.ts';

const line = figure('line', { width: 300, height: 120 });

/** Share of pixels in a rectangle that differ clearly from white. */
function inkIn(picture: Picture, x0: number, y0: number, x1: number, y1: number): number {
  let dark = 0;
  for (let y = y0; y < y1; y++) {
    for (let x = x0; x < x1; x++) if (picture.data[(y * picture.width + x) * 3]! < 200) dark++;
  }
  return dark / ((x1 - x0) * (y1 - y0));
}

// Our own output; geometry against matplotlib is in figure.test.ts and tasks.test.ts.
describe('regression snapshots', () => {
  it.each(Object.entries(GOLDEN))(
    'the picture %s looks as it did',
    async (name, { figure, values, times }) => {
      const path = new URL(`../golden/plot/${name}.png`, import.meta.url);
      const golden = decodePng(readFileSync(path));
      const picture = await render(figure, values, times);
      expect([picture.width, picture.height]).toEqual([golden.width, golden.height]);
      let sum = 0;
      let far = 0;
      picture.data.forEach((value, i) => {
        const difference = Math.abs(value - golden.data[i]!);
        sum += difference;
        if (difference > 48) far++;
      });
      // Another processor may round a glyph's or a line's edge otherwise; it does not move either.
      expect(sum / golden.data.length).toBeLessThan(0.5);
      expect(far / golden.data.length).toBeLessThan(0.002);
    },
  );
});

describe('render', () => {
  it('gives the same pixels whatever the view drew before', async () => {
    const first = await renderVega(line, SHAPES['noisy sine']!);
    await renderVega(line, SHAPES['huge']!);
    await renderVega(figure('ctu'), SHAPES['spikes']!);
    await renderVega(line, SHAPES['gaps']!);
    const again = await renderVega(line, SHAPES['noisy sine']!);
    expect(Buffer.from(again.data).equals(Buffer.from(first.data))).toBe(true);
  });

  it('gives the same pixels to calls that overlap', async () => {
    const names = ['noisy sine', 'spikes', 'constant', 'gaps'] as const;
    const alone: Picture[] = [];
    for (const name of names) alone.push(await renderVega(line, SHAPES[name]!));
    const together = await Promise.all(names.map((name) => renderVega(line, SHAPES[name]!)));
    together.forEach((picture, i) => {
      expect(Buffer.from(picture.data).equals(Buffer.from(alone[i]!.data))).toBe(true);
    });
  });

  it('draws bare figures with the column rasteriser', async () => {
    const picture = await render(figure('nano'), SHAPES['spikes']!);
    expect(picture).toEqual(renderColumns(figure('nano'), SHAPES['spikes']!));
  });

  it('goes on after a series that it refuses', async () => {
    await expect(renderVega(line, Float64Array.of(Number.NaN))).rejects.toThrow(DataError);
    const picture = await renderVega(line, Float64Array.of(1, 2));
    expect(inkIn(picture, 60, 30, 280, 70)).toBeGreaterThan(0.002);
  });

  it('writes text with the bundled fonts alone', async () => {
    const families = canvas.GlobalFonts.families.map(({ family }) => family);
    expect(families).toEqual(['DejaVu Sans', 'Timeseer Sans', 'DejaVu Sans Mono', 'Timeseer Mono']);
    const values = SHAPES['noisy sine']!;
    const titled = await renderVega(figure('ctu'), values);
    const untitled = await renderVega(figure('ctu', { title: '' }), values);
    expect(inkIn(titled, 250, 4, 380, 20)).toBeGreaterThan(0.1);
    expect(inkIn(untitled, 250, 4, 380, 20)).toBe(0);
  });

  it('cuts no line and no label: the outermost pixels stay blank', async () => {
    const wave = SHAPES['trend with a rise']!;
    const cases = [
      wave.map((value) => -12345.678 * value),
      wave.map((value) => -1e-7 * value),
      wave.map((value) => -1e299 * value),
      wave.map((value) => 123456 + value),
      wave.map((value) => -10 + 1e-4 * value),
    ];
    for (const [name, values] of cases.flatMap((each) =>
      (['anomllm', 'ctu', 'line'] as const).map((n) => [n, each] as const),
    )) {
      const picture = await renderVega(figure(name), values);
      const { width, height } = picture;
      const edges = [
        inkIn(picture, 0, 0, width, 1),
        inkIn(picture, 0, height - 1, width, height),
        inkIn(picture, 0, 0, 1, height),
        inkIn(picture, width - 1, 0, width, height),
      ];
      expect(edges, name).toEqual([0, 0, 0, 0]);
    }
  });

  it('shows each channel in its own colour, and a legend', async () => {
    const xyz = figure('line', { channels: ['x', 'y', 'z'], colors: ['#ff0000', '#00ff00', '#0000ff'] });
    const { data } = await renderVega(xyz, CHANNELS);
    const colors = new Map<string, number>();
    for (let i = 0; i < data.length; i += 3) {
      const color = data.subarray(i, i + 3).join();
      colors.set(color, (colors.get(color) ?? 0) + 1);
    }
    for (const color of ['255,0,0', '0,255,0', '0,0,255']) expect(colors.get(color)).toBeGreaterThan(50);
  });

  it('draws a million samples as it draws their every extreme', async () => {
    const values = Float64Array.from({ length: 1_000_000 }, (_, i) => Math.sin(i / 40_000));
    values[400_123] = 5;
    const picture = await renderVega(line, values);
    const left = 56 + Math.round(((400_123 / 1e6) * 0.98 + 0.01) * 230);
    expect(inkIn(picture, left - 3, 30, left + 3, 50)).toBeGreaterThan(0.1);
  });

  it('takes times exactly where the figure has a time axis', async () => {
    const timed = figure('line', { time: true });
    const values = Float64Array.of(1, 2, 3);
    await expect(renderVega(timed, values)).rejects.toThrow(/time axis/);
    await expect(renderVega(line, values, Float64Array.of(1, 2, 3))).rejects.toThrow(/counts samples/);
    await expect(renderVega(timed, values, Float64Array.of(1, 2))).rejects.toThrow(/2 times for 3/);
    await expect(renderVega(timed, values, Float64Array.of(1, 3, 2))).rejects.toThrow(/time 2 of sample 2/);
    await expect(renderVega(timed, values, Float64Array.of(1, Number.NaN, 2))).rejects.toThrow(/sample 1/);
    const even = await renderVega(timed, values, Float64Array.of(0, 1e6, 2e6));
    const late = await renderVega(timed, values, Float64Array.of(0, 1.9e6, 2e6));
    expect(late.data).not.toEqual(even.data);
  });
});

describe('PNG', () => {
  it('comes back as it went', () => {
    const picture = { width: 7, height: 5, data: Uint8Array.from({ length: 105 }, (_, i) => (i * 37) % 256) };
    expect(decodePng(encodePng(picture))).toEqual(picture);
  });

  it('is read by others', async () => {
    const picture = renderColumns(figure('nano'), SHAPES['spikes']!);
    const image = await canvas.loadImage(encodePng(picture));
    const context = canvas.createCanvas(image.width, image.height).getContext('2d');
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(0, 0, image.width, image.height);
    expect(Uint8Array.from(data.filter((_, i) => i % 4 !== 3))).toEqual(picture.data);
  });

  it('of others is read, with any filter and with alpha', () => {
    const page = canvas.createCanvas(64, 48);
    const context = page.getContext('2d');
    const gradient = context.createLinearGradient(0, 0, 64, 48);
    gradient.addColorStop(0, '#ff8800');
    gradient.addColorStop(1, '#0033aa');
    context.fillStyle = gradient;
    context.fillRect(0, 0, 64, 48);
    const { data } = context.getImageData(0, 0, 64, 48);
    const read = decodePng(page.encodeSync('png'));
    expect(read.data).toEqual(Uint8Array.from(data.filter((_, i) => i % 4 !== 3)));
  });
});

const nano = figure('nano');
const small = figure('nano', { width: 40, height: 24 });

function meanDifference(a: Picture, b: Picture): number {
  return a.data.reduce((sum, value, i) => sum + Math.abs(value - b.data[i]!), 0) / a.data.length;
}

/** Darkness of a pixel, 0–1. */
function ink(picture: Picture, x: number, y: number): number {
  return 1 - picture.data[(y * picture.width + x) * 3]! / 255;
}

/** First and last row of column x that the line covers by half or more. */
function extent(picture: Picture, x: number): readonly [number, number] {
  const rows = Array.from({ length: picture.height }, (_, y) => y).filter((y) => ink(picture, x, y) >= 0.5);
  return [rows[0] ?? -1, rows.at(-1) ?? -1];
}

/** Share of columns whose line lies in the rows of the other's, up to one px, within [top, bottom). */
function agreement(a: Picture, b: Picture, top: number, bottom: number): number {
  const within = (picture: Picture, x: number) => {
    const ys = Array.from({ length: bottom - top }, (_, y) => y + top).filter(
      (y) => ink(picture, x, y) >= 0.5,
    );
    return [ys[0] ?? -1, ys.at(-1) ?? -1] as const;
  };
  let agree = 0;
  for (let x = 0; x < a.width; x++) {
    const [p, q] = [within(a, x), within(b, x)];
    if (Math.abs(p[0] - q[0]) <= 1 && Math.abs(p[1] - q[1]) <= 1) agree++;
  }
  return agree / a.width;
}

/** The definition, by brute force: 12 × 12 points a pixel, inked within half a line width of the polyline. */
function reference(fig: Figure, values: readonly number[]): number[] {
  const [lo, hi] = [Math.min(...values), Math.max(...values)];
  const margin = lo === hi ? 1 : (hi - lo) * fig.yMargin;
  const at = values.map((v, i) => [
    ((i + 0.5) * fig.width) / values.length,
    (fig.height * (hi + margin - v)) / (hi - lo + 2 * margin),
  ]);
  const distance = (x: number, y: number) => {
    let least = Infinity;
    for (let i = 0; i < at.length; i++) {
      const [x0, y0] = at[i]! as [number, number];
      const [x1, y1] = (at[i + 1] ?? at[i]!) as [number, number];
      const length = (x1 - x0) ** 2 + (y1 - y0) ** 2;
      const t =
        length === 0 ? 0 : Math.min(1, Math.max(0, ((x - x0) * (x1 - x0) + (y - y0) * (y1 - y0)) / length));
      least = Math.min(least, Math.hypot(x - x0 - t * (x1 - x0), y - y0 - t * (y1 - y0)));
    }
    return least;
  };
  const grid = Array.from({ length: 12 }, (_, k) => (k + 0.5) / 12);
  return Array.from({ length: fig.width * fig.height }, (_, pixel) => {
    const [px, py] = [pixel % fig.width, Math.floor(pixel / fig.width)];
    const inside = grid.flatMap((dy) => grid.filter((dx) => distance(px + dx, py + dy) <= fig.lineWidth / 2));
    return inside.length / 144;
  });
}

describe('the column rasteriser', () => {
  it.each(Object.entries(SHAPES))('draws what vega draws: %s', async (_, values) => {
    const ours = renderColumns(nano, values);
    const vega = await renderVega(nano, values);
    expect(meanDifference(ours, vega)).toBeLessThan(2);
    let agree = 0;
    for (let x = 0; x < nano.width; x++) {
      const [top, bottom] = extent(ours, x);
      const [vegaTop, vegaBottom] = extent(vega, x);
      if (Math.abs(top - vegaTop) <= 1 && Math.abs(bottom - vegaBottom) <= 1) agree++;
    }
    expect(agree / nano.width).toBeGreaterThan(0.97);
  });

  it('covers exactly what lies within half a line width of the polyline', () => {
    for (const values of [
      [1, 5, 2],
      [0, 3, -4, 4, 4, -1, 2, 0, 1],
      [7, 7, 7, 8],
      [2, 1],
    ]) {
      const picture = renderColumns(small, Float64Array.from(values));
      const expected = reference(small, values);
      const errors = expected.map((share, i) => Math.abs(share - (1 - picture.data[i * 3]! / 255)));
      expect(Math.max(...errors)).toBeLessThan(0.09);
      expect(errors.reduce((sum, error) => sum + error, 0) / errors.length).toBeLessThan(0.006);
    }
  });

  it('inks the pixel of every sample and never touches the rows of the margin', () => {
    const values = fc.array(fc.double({ min: -1e6, max: 1e6, noNaN: true }), { minLength: 1, maxLength: 90 });
    fc.assert(
      fc.property(values, (samples) => {
        const [lo, hi] = [Math.min(...samples), Math.max(...samples)];
        fc.pre(lo === hi || hi - lo > 1e-6);
        const picture = renderColumns(nano, Float64Array.from(samples));
        samples.forEach((value, i) => {
          const share = lo === hi ? 0.5 : (hi + 0.05 * (hi - lo) - value) / (1.1 * (hi - lo));
          const x = Math.floor(((i + 0.5) * nano.width) / samples.length);
          expect(ink(picture, x, Math.min(27, Math.floor(share * 28)))).toBeGreaterThan(0.1);
        });
        const marginInk = Array.from(
          { length: nano.width },
          (_, x) => ink(picture, x, 0) + ink(picture, x, 27),
        );
        expect(Math.max(...marginInk)).toBeLessThan(0.75);
      }),
      { numRuns: 60 },
    );
  });

  it('shows sample block k in pixel block k: changing 50 of 1000 samples changes their 28 px', () => {
    const before = SHAPES['sine replaced by noise']!;
    const after = before.map((value, i) => (i >= 400 && i < 450 ? -0.5 * value : value));
    const [a, b] = [renderColumns(nano, before), renderColumns(nano, after)];
    const changed = new Set<number>();
    for (let i = 0; i < a.data.length; i++) if (a.data[i] !== b.data[i]) changed.add(Math.floor(i / 3) % 560);
    const columns = [...changed].sort((x, y) => x - y);
    // 8 · 28 = 224 … 252; the segments to the neighbouring samples and half a line width reach over the edge.
    expect(columns[0]!).toBeGreaterThanOrEqual(224 - 2);
    expect(columns.at(-1)!).toBeLessThan(252 + 2);
    expect(columns.length).toBeGreaterThan(24);
  });

  it('depends on the shape alone, not on offset and scale', () => {
    const values = SHAPES['trend with a rise']!.map((value) => Math.round(value * 1024) / 1024);
    const picture = renderColumns(nano, values);
    expect(
      renderColumns(
        nano,
        values.map((value) => value * 2 ** 40),
      ).data,
    ).toEqual(picture.data);
    expect(
      meanDifference(
        picture,
        renderColumns(
          nano,
          values.map((value) => value * 2 ** -900),
        ),
      ),
    ).toBeLessThan(0.01);
    expect(
      meanDifference(
        picture,
        renderColumns(
          nano,
          values.map((value) => value + 4096),
        ),
      ),
    ).toBeLessThan(0.01);
  });

  it('keeps apart values that differ in their last digits', () => {
    const picture = renderColumns(small, Float64Array.of(1e16, 1e16 + 200, 1e16));
    expect(extent(picture, 20)[0]).toBeLessThan(5);
    expect(extent(picture, 7)[0]).toBeGreaterThan(15);
  });

  it('draws a constant series, up to rounding, as a line in the middle', () => {
    for (const value of [0, 3, -1e300, 1e-310]) {
      const picture = renderColumns(nano, new Float64Array(50).fill(value));
      expect(extent(picture, 300)).toEqual([13, 14]);
    }
    const rounded = Float64Array.from({ length: 50 }, (_, i) => 0.3 + (i % 2) * 5e-17);
    expect(extent(renderColumns(nano, rounded), 300)).toEqual([13, 14]);
  });

  it('breaks the line at missing samples and leaves no trace of them', () => {
    for (const missing of [Number.NaN, Infinity, -Infinity]) {
      const values = Float64Array.from({ length: 20 }, (_, i) => (i >= 8 && i < 12 ? missing : i % 3));
      const picture = renderColumns(nano, values);
      for (let x = 8 * 28; x < 12 * 28; x++) expect(extent(picture, x)).toEqual([-1, -1]);
      expect(extent(picture, 7 * 28)[0]).toBeGreaterThanOrEqual(0);
      expect(extent(picture, 13 * 28)[0]).toBeGreaterThanOrEqual(0);
    }
  });

  it('forgets the previous picture', () => {
    const first = renderColumns(nano, SHAPES['noisy sine']!).data;
    renderColumns(nano, SHAPES['spikes']!);
    renderColumns(small, SHAPES['gaps']!);
    expect(renderColumns(nano, SHAPES['noisy sine']!).data).toEqual(first);
  });

  it('blends any two colours and writes into a given buffer', () => {
    const blue = figure('nano', { colors: ['#0000ff'], background: '#ffff00' });
    const into = new Uint8Array(560 * 28 * 3).fill(9);
    const picture = renderColumns(blue, SHAPES['constant']!, into);
    expect(picture.data).toBe(into);
    expect([...into.subarray(0, 3)]).toEqual([255, 255, 0]);
    const row = (y: number) => [...into.subarray((y * 560 + 280) * 3, (y * 560 + 280) * 3 + 3)];
    expect(row(13)).toEqual([64, 64, 191]);
  });

  it('refuses figures with axes, buffers of another size and colours that it does not know', () => {
    const values = Float64Array.of(1, 2);
    expect(() => renderColumns(figure('anomllm'), values)).toThrow(/anomllm.*render\(\)/);
    expect(() => renderColumns(nano, values, new Uint8Array(5))).toThrow(ConfigError);
    expect(() => renderColumns(figure('nano', { colors: ['black'] }), values)).toThrow(/#rrggbb/);
  });

  it('refuses series with nothing to draw or beyond ±1e300', () => {
    expect(() => renderColumns(nano, new Float64Array(0))).toThrow(DataError);
    expect(() => renderColumns(nano, Float64Array.of(Number.NaN, Infinity))).toThrow(/missing/);
    expect(() => renderColumns(nano, Float64Array.of(0, -1.5e308))).toThrow(/-1.5e\+308.*1e\+300/);
    expect(() => renderColumns(nano, [Float64Array.of(1), Float64Array.of(2)])).toThrow(/1 channel.*has 2/);
    const rows = figure('nano-channels', { channels: ['a', 'b'], rows: 'own' });
    const gone = Float64Array.of(Number.NaN, Number.NaN);
    expect(() => renderColumns(rows, [gone, gone])).toThrow(/missing/);
    expect(() => renderColumns(rows, Float64Array.of(1, 2))).toThrow(/2 channel.*has 1/);
  });
});

describe('a bare figure of rows', () => {
  const names = Object.keys(SHAPES).filter((name) => SHAPES[name]!.length === 1000 && name !== 'huge');
  const twelve = Array.from({ length: 12 }, (_, c) => SHAPES[names[c % names.length]!]!.subarray(0, 700));
  const gaps = CHANNELS.map((channel, c) =>
    channel.map((value, i) => (i % 11 === 2 * c || (i > 60 && i < 70 + 9 * c) ? Number.NaN : value)),
  );
  const cases: Readonly<Record<string, [fig: Figure, channels: readonly Float64Array[]]>> = {
    'three channels on one axis': [figure('nano-channels'), CHANNELS],
    'three narrow channels with gaps': [figure('nano-channels', { width: 280 }), gaps],
    'acceleration on an axis that is wider than it': [figure('nano-har'), CHANNELS],
    'twelve channels on one axis': [
      figure('nano-channels', { channels: twelve.map((_, c) => `${c}`) }),
      twelve,
    ],
    'twelve channels, each with its own axis': [
      figure('nano-variates', { channels: twelve.map((_, c) => `${c}`), width: 560 }),
      twelve,
    ],
    'a channel without a sample, a constant and a ramp, each with its own axis': [
      figure('nano-variates', {
        channels: ['a', 'b', 'c'],
        padding: { left: 5, top: 3, right: 9, bottom: 4 },
      }),
      [
        new Float64Array(90).fill(Number.NaN),
        new Float64Array(90).fill(7),
        Float64Array.from({ length: 90 }, (_, i) => i),
      ],
    ],
    'one tall line': [figure('nano-tall'), [SHAPES['trend with a rise']!]],
  };

  it.each(Object.entries(cases))('is what vega draws: %s', async (_, [fig, channels]) => {
    const ours = renderColumns(fig, channels);
    const vega = await renderVega(fig, channels);
    expect([ours.width, ours.height]).toEqual([fig.width, fig.height]);
    expect(meanDifference(ours, vega)).toBeLessThan(2);
    const { top, bottom } = fig.padding;
    const row = (fig.height - top - bottom) / channels.length;
    for (let c = 0; c < channels.length; c++) {
      expect(agreement(ours, vega, top + c * row, top + (c + 1) * row)).toBeGreaterThan(0.95);
    }
  });

  it('of one row is the nano figure, bit by bit', () => {
    for (const name of ['nano-channels', 'nano-variates']) {
      const one = figure(name, { channels: ['value'], width: 560 });
      for (const values of Object.values(SHAPES)) {
        expect(renderColumns(one, [values]).data).toEqual(renderColumns(nano, values).data);
      }
    }
  });

  it('with own axes stacks the nano pictures of its channels', () => {
    const picture = renderColumns(figure('nano-variates', { channels: ['x', 'y', 'z'], width: 560 }), gaps);
    const single = gaps.map((values) => renderColumns(nano, values).data);
    const size = 560 * 28 * 3;
    single.forEach((data, c) => {
      const part = picture.data.subarray(c * size, (c + 1) * size);
      const errors = part.map((value, i) => Math.abs(value - data[i]!));
      expect(Math.max(...errors)).toBeLessThanOrEqual(1); // sums of other roundings
    });
  });

  it('with one axis shows levels: a constant lies where its value does', () => {
    const flat = [-1, 0, 3].map((value) => new Float64Array(128).fill(value));
    const picture = renderColumns(figure('nano-channels', { yMargin: 0.125 }), flat);
    // Row by row, share of the axis from −1.5 to 3.5 below the top.
    const expected = [0.9, 0.7, 0.1].map((share, c) => 28 * (c + share));
    for (const [c, y] of expected.entries()) {
      const rows = Array.from({ length: 28 }, (_, k) => 28 * c + k);
      const weight = rows.reduce((sum, k) => sum + ink(picture, 100, k), 0);
      const centre = rows.reduce((sum, k) => sum + (k + 0.5) * ink(picture, 100, k), 0) / weight;
      expect(Math.abs(centre - y)).toBeLessThan(0.1);
    }
  });

  it('keeps each channel in its row, and leaves a gap where samples are missing', () => {
    const values = fc.array(fc.double({ min: -1e6, max: 1e6, noNaN: true }), { minLength: 4, maxLength: 60 });
    fc.assert(
      fc.property(values, fc.integer({ min: 0, max: 2 }), (samples, gone) => {
        const spread = Float64Array.from(samples);
        const none = new Float64Array(samples.length).fill(Number.NaN);
        const channels = [0, 1, 2].map((c) => (c === gone ? none : spread));
        for (const rows of ['shared', 'own'] as const) {
          const picture = renderColumns(figure('nano-channels', { rows }), channels);
          for (let c = 0; c < 3; c++) {
            let most = 0;
            // A line at the edge of its axis reaches less than a px beyond the margin of 5 %.
            for (let y = 28 * c + 1; y < 28 * c + 27; y++)
              for (let x = 0; x < 560; x++) most = Math.max(most, ink(picture, x, y));
            if (c === gone) expect(most).toBe(0);
            else expect(most).toBeGreaterThan(0.3);
          }
        }
      }),
      { numRuns: 30 },
    );
  });
});

describe('lines laid over each other', () => {
  const shape = figure('nano-analysis', { width: 112 });
  const values = Float64Array.from({ length: 112 }, (_, i) => Math.sin(i / 5) * (i + 20));
  const second = Float64Array.from({ length: 112 }, (_, i) => (i === 70 ? 0.8 : -0.2));
  const third = values.map((_, i) => (i < 30 ? -1 : 0.5));
  const alone = (series: Float64Array, changes: Partial<Figure> = {}) =>
    renderColumns(
      figure('nano', { width: 112, background: '#000000', colors: ['#ffffff'], ...changes }),
      series,
    );

  it('have a colour and an axis each, and add up', () => {
    const picture = renderColumns(shape, [values, second, third]);
    const own = alone(values);
    for (let at = 0; at < picture.data.length; at += 3) {
      expect(Math.abs(picture.data[at + 1]! - own.data[at]!)).toBeLessThanOrEqual(1);
    }
    const height = (x: number, colour: number): number => {
      let [sum, mass] = [0, 0];
      for (let y = 0; y < 28; y++) {
        const ink = picture.data[(y * 112 + x) * 3 + colour]!;
        sum += ink * (y + 0.5);
        mass += ink;
      }
      return sum / mass;
    };
    // The axes are from −1 to 1, without a margin.
    expect(Math.abs(height(20, 0) - (28 * (1.05 + 0.2)) / 2.1)).toBeLessThan(0.3);
    expect(Math.abs(height(10, 2) - (28 * 2.05) / 2.1)).toBeLessThan(0.6);
    expect(Math.abs(height(90, 2) - 14 + 28 * 0.25)).toBeLessThan(0.5);
  });

  it('leave a gap where a value is missing, in its line alone', () => {
    const gaps = values.map((value, i) => (i >= 50 && i < 60 ? Number.NaN : value));
    const { data } = renderColumns(shape, [gaps, second, third]);
    const ink = (x: number, colour: number): number =>
      Array.from({ length: 28 }, (_, y) => data[(y * 112 + x) * 3 + colour]!).reduce((a, b) => a + b, 0);
    expect(ink(55, 1)).toBe(0);
    expect(ink(55, 0)).toBeGreaterThan(100);
  });

  it('need a colour for every axis, and no padding around the rows of several channels', () => {
    expect(() => figure('nano-analysis', { colors: ['#ffffff'] })).toThrow(ConfigError);
    const padding = { left: 0, top: 4, right: 0, bottom: 0 };
    expect(() => figure('nano-analysis', { channels: ['a', 'b'], padding })).toThrow(/set it to 0/);
    expect(() => renderColumns(figure('nano-analysis', { channels: ['a', 'b'] }), [values])).toThrow(
      DataError,
    );
    expect(() => figure('nano', { overlay: [null], rows: 'own' })).toThrow(/exclude each other/);
  });
});
