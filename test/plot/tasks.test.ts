import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { DataError } from '../../src/ground/errors.ts';
import type { Picture } from '../../src/ground/types.ts';
import type { FigureValues } from '../../src/plot/data.ts';
import { type Figure, figure, isBare, panels } from '../../src/plot/figure.ts';
import { RenderPool } from '../../src/plot/pool.ts';
import { FIGURE_NAMES } from '../../src/plot/presets.ts';
import { render, shade } from '../../src/plot/raster.ts';
import { renderVega } from '../../src/plot/vega-raster.ts';
import { CHANNELS } from './shapes.ts';

type Color = readonly [number, number, number];
const rgb = (hex: string): Color =>
  [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16)) as never;
const at = (picture: Picture, x: number, y: number): Color =>
  [...picture.data.subarray((y * picture.width + x) * 3, (y * picture.width + x) * 3 + 3)] as never;
const near = (a: Color, b: Color, tolerance = 40) =>
  a.every((value, i) => Math.abs(value - b[i]!) <= tolerance);

/** Extent of the pixels of a colour inside a rectangle, and how many there are. */
function extent(
  picture: Picture,
  color: Color,
  x0 = 0,
  y0 = 0,
  x1 = picture.width,
  y1 = picture.height,
  tolerance = 40,
) {
  let [left, right, top, bottom, count] = [Infinity, -Infinity, Infinity, -Infinity, 0];
  for (let y = y0; y < y1; y++) {
    for (let x = x0; x < x1; x++) {
      if (!near(at(picture, x, y), color, tolerance)) continue;
      left = Math.min(left, x);
      right = Math.max(right, x);
      top = Math.min(top, y);
      bottom = Math.max(bottom, y);
      count++;
    }
  }
  return { left, right, top, bottom, count };
}

/** Extent of a shaded band under its strip. */
const bandOf = (picture: Picture) => extent(picture, [217, 238, 217], 0, 0, picture.width, picture.height, 2);

const wave = (n: number, period: number) =>
  Float64Array.from({ length: n }, (_, i) => Math.sin((i * 2 * Math.PI) / period));
const samples: Readonly<Record<string, number>> = {
  ctu: 720,
  tee: 319,
  ecg: 1500,
  emg: 1500,
  har: 128,
  rcw: 4000,
  vta: 400,
};
/** Something to draw in each figure. */
function valuesFor(name: string): FigureValues {
  if (name === 'har' || name === 'nano-channels' || name === 'nano-har') return CHANNELS;
  if (name === 'nano-analysis') return [wave(560, 40), wave(560, 9), wave(560, 70)];
  if (name === 'vta-grid' || name === 'nano-variates')
    return Array.from({ length: 9 }, (_, i) => wave(200, 20 + 3 * i));
  return wave(samples[name] ?? 1000, 80);
}

describe.each(FIGURE_NAMES)('figure %s', (name) => {
  it('keeps its text and lines off the edges of the picture', async () => {
    if (isBare(figure(name))) return; // lines from edge to edge
    const picture = await render(figure(name), valuesFor(name));
    const { width, height } = picture;
    const border = [
      ...Array.from({ length: width }, (_, x) => [at(picture, x, 0), at(picture, x, height - 1)]),
      ...Array.from({ length: height }, (_, y) => [at(picture, 0, y), at(picture, width - 1, y)]),
    ].flat();
    expect(border.every((color) => near(color, [255, 255, 255]))).toBe(true);
  });

  it('has its frame where its padding says', async () => {
    if (isBare(figure(name))) return;
    const { padding, width, height, grid } = figure(name);
    const picture = await render(figure(name), valuesFor(name));
    const place = grid
      ? panels(figure(name))[0]!
      : { width: width - padding.left - padding.right, height: height - padding.top - padding.bottom };
    const dark = (x: number, y: number) =>
      [-1, 0, 1].some((d) => [-1, 0, 1].some((e) => near(at(picture, x + d, y + e), [0, 0, 0], 150)));
    const [left, top] = [padding.left, padding.top];
    const [right, bottom] = [Math.round(left + place.width), Math.round(top + place.height)];
    for (let x = left; x <= right; x += 7) expect([dark(x, top), dark(x, bottom)]).toEqual([true, true]);
    for (let y = top; y <= bottom; y += 7) expect([dark(left, y), dark(right, y)]).toEqual([true, true]);
  });
});

describe('lines', () => {
  it('start and end where the x margin says, at the heights of their values', async () => {
    for (const name of ['tee', 'ecg', 'rcw', 'vta'] as const) {
      const fig = figure(name, { lineWidth: 2 });
      const n = samples[name]!;
      const ramp = Float64Array.from({ length: n }, (_, i) => i);
      const { left, right, top, bottom } = extent(await render(fig, ramp), rgb(fig.colors[0]!));
      const { padding, width, height, xMargin, yMargin } = fig;
      const [w, h] = [width - padding.left - padding.right, height - padding.top - padding.bottom];
      const mx = (w * xMargin!) / (1 + 2 * xMargin!);
      const my = (h * yMargin) / (1 + 2 * yMargin);
      expect(Math.abs(left - (padding.left + mx))).toBeLessThan(2.5);
      expect(Math.abs(right - (width - padding.right - mx))).toBeLessThan(2.5);
      expect(Math.abs(top - (padding.top + my))).toBeLessThan(2.5);
      expect(Math.abs(bottom - (height - padding.bottom - my))).toBeLessThan(2.5);
    }
  });

  it('of har have three colours in the plot and in a legend clear of it', async () => {
    const fig = figure('har');
    const picture = await render(fig, CHANNELS);
    for (const color of fig.colors.slice(0, 3).map(rgb)) {
      expect(extent(picture, color, 0, fig.padding.top + 2).count).toBeGreaterThan(200);
      const legend = extent(picture, color, 0, 0, fig.width, fig.padding.top - 1);
      expect(legend.count).toBeGreaterThan(10);
      expect(legend.bottom).toBeLessThan(fig.padding.top - 4);
    }
  });
});

describe('missing samples', () => {
  const values = wave(400, 100);
  values.fill(Number.NaN, 120, 180);
  const color = rgb(figure('vta').colors[0]!);
  const columns = (fig: Figure) => {
    const w = fig.width - fig.padding.left - fig.padding.right;
    const x = (i: number) => Math.round(fig.padding.left + (w * (i / 399 + 0.05)) / 1.1);
    return [x(123), x(176)] as const;
  };

  it('leave a gap as wide as they are', async () => {
    const fig = figure('vta');
    const [from, to] = columns(fig);
    const picture = await render(fig, values);
    expect(
      extent(picture, color, from, fig.padding.top + 2, to, fig.height - fig.padding.bottom - 2).count,
    ).toBe(0);
    expect(extent(picture, color, to + 10, 0, to + 60).count).toBeGreaterThan(50);
  });

  it('are joined across where the figure says so', async () => {
    const fig = figure('vta', { missing: 'join' });
    const [from, to] = columns(fig);
    const inside = extent(
      await render(fig, values),
      color,
      from,
      fig.padding.top + 2,
      to,
      fig.height - fig.padding.bottom - 2,
    );
    expect([inside.left, inside.right]).toEqual([from, to - 1]);
  });

  it('between others show the sample as a dot', async () => {
    const sparse = wave(400, 100).map((value, i) => (i % 2 === 0 ? value : Number.NaN));
    const picture = await render(figure('vta'), sparse);
    expect(extent(picture, color).count).toBeGreaterThan(200);
  });

  it('joined, and downsampled, keep every extreme', async () => {
    const long = Float64Array.from({ length: 50_000 }, (_, i) =>
      i % 3 === 0 ? Number.NaN : Math.sin(i / 3000),
    );
    long[20_000] = 9;
    const fig = figure('vta', { missing: 'join' });
    const { top } = extent(await render(fig, long), color);
    expect(top).toBeLessThan(fig.padding.top + 8);
  });
});

describe('x values of the series', () => {
  it('place the samples, in the units of the axis', async () => {
    const fig = figure('vta', { step: null, lineWidth: 2 });
    const step = Float64Array.from({ length: 100 }, (_, i) => (i < 50 ? 0 : 1));
    const times = Float64Array.from({ length: 100 }, (_, i) => (i < 50 ? i : 50 + 9 * (i - 50)));
    const picture = await render(fig, step, times);
    const color = rgb(fig.colors[0]!);
    const low = extent(
      picture,
      color,
      0,
      fig.height - fig.padding.bottom - 12,
      fig.width,
      fig.height - fig.padding.bottom - 2,
    );
    // 50 of 491 units, of a plot area of 940 px with margins of 5 %.
    expect(Math.abs(low.right - (45 + (940 * (50 / 491 + 0.05)) / 1.1))).toBeLessThan(4);
  });

  it('are asked for, and not wanted where samples are counted', async () => {
    const values = Float64Array.of(1, 2, 3);
    await expect(renderVega(figure('vta', { step: null }), values)).rejects.toThrow(/x axis from the series/);
    await expect(renderVega(figure('vta'), values, values)).rejects.toThrow(/counts samples/);
    await expect(renderVega(figure('vta', { step: null }), values, Float64Array.of(3, 2, 1))).rejects.toThrow(
      DataError,
    );
  });
});

describe('grid', () => {
  const golden = JSON.parse(readFileSync(new URL('../golden/plot/geometry.json', import.meta.url), 'utf8'));

  it('has panels where the published figure has them', () => {
    const { padding } = figure('vta-grid');
    const places = panels(figure('vta-grid'));
    for (const [i, [left, top, right, bottom]] of golden['vta-grid'].boxes.entries()) {
      const { x, y, width, height } = places[i]!;
      const ours = [padding.left + x, padding.top + y, padding.left + x + width, padding.top + y + height];
      for (const [k, edge] of [left, top, right, bottom].entries())
        expect(Math.abs(ours[k]! - edge)).toBeLessThan(0.75);
    }
  });

  it.each([
    [4, 2, 2],
    [5, 3, 2],
    [7, 3, 3],
    [12, 4, 3],
    [36, 6, 6],
  ])('lays %d panels in %d columns and %d rows, row by row, without overlap', (count, columns, rows) => {
    const names = Array.from({ length: count }, (_, i) => `v${i}`);
    const places = panels(figure('vta-grid', { channels: names }));
    expect(new Set(places.map(({ x }) => x)).size).toBe(columns);
    expect(new Set(places.map(({ y }) => y)).size).toBe(rows);
    for (const [i, { x, y, width, height }] of places.entries()) {
      expect(Math.round((x / (1000 - 35 + 20)) * columns)).toBe(i % columns);
      expect(x + width).toBeLessThanOrEqual(965 + 1e-9);
      expect(y + height).toBeLessThanOrEqual(965 + 1e-9);
      expect(width).toBeGreaterThan(100);
    }
  });

  it('gives each variate a y axis of its own, and leaves the panel of an empty one empty', async () => {
    const fig = figure('vta-grid', { width: 500, height: 500, channels: ['0', '1', '2', '3'] });
    const values = [
      wave(200, 50),
      wave(200, 50).map((v) => 1e6 * v),
      new Float64Array(200).fill(Number.NaN),
      wave(200, 25),
    ];
    const picture = await render(fig, values);
    const color = rgb(fig.colors[0]!);
    const inks = panels(fig).map(({ x, y, width, height }) => {
      const [left, top] = [Math.ceil(fig.padding.left + x) + 2, Math.ceil(fig.padding.top + y) + 2];
      return {
        height,
        ink: extent(picture, color, left, top, left + Math.floor(width) - 4, top + Math.floor(height) - 4),
      };
    });
    for (const i of [0, 1, 3]) {
      const { ink, height } = inks[i]!;
      expect((ink.bottom - ink.top) / height).toBeGreaterThan(0.88);
      expect((ink.bottom - ink.top) / height).toBeLessThan(0.95);
    }
    expect(inks[2]!.ink.count).toBe(0);
    expect(inks[3]!.ink.count).toBeGreaterThan(inks[0]!.ink.count);
    await expect(
      render(
        fig,
        values.map((v) => v.map(() => Number.NaN)),
      ),
    ).rejects.toThrow(/every sample is missing/);
  });

  it('draws no line between panels', async () => {
    const fig = figure('vta-grid', { width: 500, height: 500, channels: ['0', '1', '2', '3'] });
    const picture = await render(
      fig,
      Array.from({ length: 4 }, () => wave(200, 50)),
    );
    const [first, second] = panels(fig);
    const from = Math.ceil(fig.padding.left + first!.width) + 2;
    const to = Math.floor(fig.padding.left + second!.x) - 1;
    expect(extent(picture, rgb(fig.colors[0]!), from, 30, to, 480).count).toBe(0);
  });

  it('draws several colours, one per panel, and the same after another series', async () => {
    const fig = figure('vta-grid', {
      width: 400,
      height: 400,
      channels: ['0', '1', '2', '3'],
      colors: ['#ff0000', '#0000ff'],
    });
    const one = Array.from({ length: 4 }, (_, i) => wave(200, 30 + i));
    const first = await render(fig, one);
    await render(fig, [...one].reverse());
    expect(Buffer.from((await render(fig, one)).data).equals(Buffer.from(first.data))).toBe(true);
    const half = fig.padding.left + panels(fig)[0]!.width;
    expect(extent(first, [255, 0, 0]).right).toBeLessThan(half);
    expect(extent(first, [0, 0, 255]).left).toBeGreaterThan(half);
  });

  it('shades the panels asked for', async () => {
    const fig = figure('vta-grid');
    const blank = { width: 1000, height: 1000, data: new Uint8Array(3_000_000).fill(255) };
    const shaded = shade(fig, blank, [[50, 100]], 200, { channels: [5] });
    const { left, right, top, bottom } = bandOf(shaded);
    const { x, y, width, height } = panels(fig)[5]!;
    expect(Math.abs(left - (20 + x + (width * (49.5 / 199 + 0.05)) / 1.1))).toBeLessThan(1.5);
    expect(Math.abs(right - (20 + x + (width * (99.5 / 199 + 0.05)) / 1.1))).toBeLessThan(2);
    expect([top, bottom].map((edge) => edge >= 15 + y - 1 && edge <= 15 + y + height + 1)).toEqual([
      true,
      true,
    ]);
  });
});

describe('shading', () => {
  const same = (a: Picture, b: Picture) => Buffer.from(a.data).equals(Buffer.from(b.data));

  it('follows the step and the x values', () => {
    const blank = { width: 1000, height: 150, data: new Uint8Array(450_000).fill(255) };
    const counted = shade(figure('vta'), blank, [[100, 140]], 400);
    expect(same(shade(figure('vta', { step: 0.25 }), blank, [[100, 140]], 400), counted)).toBe(true);
    const own = figure('vta', { step: null });
    const times = Float64Array.from({ length: 400 }, (_, i) => 7 + 3 * i);
    expect(same(shade(own, blank, [[100, 140]], 400, { times }), counted)).toBe(true);
    const late = times.map((time, i) => (i >= 100 ? time + 600 : time));
    const moved = bandOf(shade(own, blank, [[100, 140]], 400, { times: late }));
    // The boundary lies half-way across the hole of 603 units, of 1797 in all.
    expect(Math.abs(moved.left - (45 + (940 * ((297 + 301.5) / 1797 + 0.05)) / 1.1))).toBeLessThan(1.5);
    expect(Math.abs(moved.right - (45 + (940 * ((297 + 600 + 121.5) / 1797 + 0.05)) / 1.1))).toBeLessThan(
      1.5,
    );
    const last = bandOf(shade(figure('vta'), blank, [[399, 400]], 400));
    expect(Math.abs(last.right - (45 + (940 * (399.5 / 399 + 0.05)) / 1.1))).toBeLessThan(1.5);
  });
});

describe('in Workers', () => {
  it('every figure has the same pixels as here', async () => {
    const pool = new RenderPool(2);
    try {
      const jobs = FIGURE_NAMES.flatMap((name) =>
        [name, name].map((each) => ({ figure: figure(each), values: valuesFor(each) })),
      );
      let i = 0;
      let here: Picture | undefined;
      for await (const picture of pool.renderAll(jobs)) {
        const job = jobs[i]!;
        if (i++ % 2 === 0) here = await render(job.figure, job.values);
        expect(Buffer.from(picture.data).equals(Buffer.from(here!.data)), job.figure.name).toBe(true);
      }
      expect(i).toBe(2 * FIGURE_NAMES.length);
    } finally {
      await pool.close();
    }
  });
});
