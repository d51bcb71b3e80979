import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { DataError } from '../../src/errors.ts';
import { canvas } from '../../src/plot/canvas.ts';
import { renderColumns } from '../../src/plot/column.ts';
import { figure } from '../../src/plot/figure.ts';
import { decodePng, encodePng } from '../../src/plot/png.ts';
import { render } from '../../src/plot/raster.ts';
import { renderVega } from '../../src/plot/vega-raster.ts';
import type { Picture } from '../../src/types.ts';
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

describe('golden pictures', () => {
  it.each(Object.entries(GOLDEN))('%s looks as it did', async (name, { figure, values, times }) => {
    const path = new URL(`../golden/plot/${name}.png`, import.meta.url);
    const golden = decodePng(readFileSync(path), `${name}.png`);
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
  });
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

  it('writes text with the bundled font alone', async () => {
    expect(canvas.GlobalFonts.families.map(({ family }) => family)).toEqual(['DejaVu Sans', 'Timeseer Sans']);
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

  it('does not grow over 2000 pictures', async () => {
    const fig = figure('line', { width: 200, height: 100 });
    const draw = async (count: number) => {
      for (let i = 0; i < count; i++) {
        await renderVega(
          fig,
          Float64Array.from({ length: 20 }, (_, k) => Math.sin(k + i)),
        );
      }
    };
    await draw(500);
    const before = process.memoryUsage().rss;
    await draw(2000);
    // Unreleased canvases alone would be 160 MB.
    expect((process.memoryUsage().rss - before) / 2 ** 20).toBeLessThan(60);
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

  it('that is damaged, cut or of another kind is an error that names the file', () => {
    const bytes = encodePng({ width: 2, height: 2, data: new Uint8Array(12).fill(77) });
    expect(() => decodePng(bytes.subarray(0, 40), 'a.png')).toThrow(/a\.png.*truncated/);
    expect(() => decodePng(Buffer.from('GIF89a'), 'b.png')).toThrow(/b\.png.*signature/);
    const flipped = Buffer.from(bytes);
    flipped[45]! ^= 0xff;
    expect(() => decodePng(flipped)).toThrow(/checksum/);
    expect(() => decodePng(bytes.subarray(0, 8))).toThrow(DataError);
  });
});
