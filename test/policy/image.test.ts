import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CheckpointError, DataError } from '../../src/errors.ts';
import { ImageProcessor, resizeBicubic, smartResize } from '../../src/policy/image-processor.ts';
import { nanoDims } from '../../src/policy/model-config.ts';
import { ropeIndex, rotaryTables } from '../../src/policy/rope.ts';
import { planVision, type Segments } from '../../src/policy/vision.ts';
import { distance, golden, picture } from './golden.ts';

const dims = nanoDims(400, { image: 1, video: 2, visionStart: 3, visionEnd: 4, end: 5, pad: 6 });
const processor = new ImageProcessor(dims.vision, { min_pixels: 784 });

describe('image processor', () => {
  it('cuts and normalises patches as the reference does, the repeated frame left out', () => {
    const { patches, rows, columns } = processor.process(picture(...golden.pixels.size));
    const [count, width] = golden.pixels.shape as [number, number];
    expect([rows, columns]).toEqual([4, 6]);
    // Back to [L, 3, 2, 14·14] with both frames.
    const full = new Float32Array(count * width);
    for (let patch = 0; patch < count; patch++) {
      for (let channel = 0; channel < 3; channel++) {
        const from = patches.subarray((patch * 3 + channel) * 196, (patch * 3 + channel + 1) * 196);
        for (let frame = 0; frame < 2; frame++) full.set(from, patch * width + (channel * 2 + frame) * 196);
      }
    }
    expect(
      distance(
        full.filter((_, i) => i % 37 === 0),
        golden.pixels.every37,
      ),
    ).toBeLessThan(1e-6);
    expect(distance(full.subarray(5 * width + 190, 5 * width + 400), golden.pixels.row5)).toBeLessThan(1e-6);
    expect(full.reduce((sum, v) => sum + v, 0) / full.length).toBeCloseTo(golden.pixels.mean, 5);
  });

  it.each(golden.smartResize)(
    'resizes $width × $height between $min and $max pixels to the size of the reference',
    (row) => {
      const to = smartResize(row.width, row.height, 28, row.min, row.max);
      expect([to.width, to.height]).toEqual(row.to);
    },
  );

  it.each(golden.resized)('resamples $from to $to as Pillow, byte for byte', ({ from, to, every7 }) => {
    const { data, width, height } = resizeBicubic(picture(...from), ...to, 'pillow');
    expect([width, height]).toEqual(to);
    expect([...data.filter((_, i) => i % 7 === 0)]).toEqual(every7);
  });

  it('keeps a constant picture constant whatever the size', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 40 }),
        fc.integer({ min: 1, max: 40 }),
        fc.nat(255),
        (w, h, grey) => {
          const flat = { width: w, height: h, data: new Uint8Array(w * h * 3).fill(grey) };
          expect(resizeBicubic(flat, 28, 56).data.every((v) => v === grey)).toBe(true);
        },
      ),
    );
  });

  it('predicts the number of visual tokens', () => {
    fc.assert(
      fc.property(fc.integer({ min: 5, max: 300 }), fc.integer({ min: 5, max: 300 }), (w, h) => {
        const { rows, columns } = processor.process(picture(w, h));
        expect(processor.tokens(w, h)).toBe((rows * columns) / 4);
      }),
      { numRuns: 15 },
    );
  });

  it('refuses data that do not fit the size, and absurd shapes', () => {
    expect(() => processor.process({ width: 10, height: 10, data: new Uint8Array(299) })).toThrow(DataError);
    expect(() => processor.process(picture(1000, 4))).toThrow(/aspect ratio/);
  });
});

const grids = fc.array(
  fc
    .record({ rows: fc.integer({ min: 1, max: 7 }), columns: fc.integer({ min: 1, max: 12 }) })
    .map(({ rows, columns }) => ({
      rows: 2 * rows,
      columns: 2 * columns,
    })),
  { minLength: 1, maxLength: 3 },
);

const total = (runs: readonly Segments[]): number =>
  runs.reduce((sum, { count, length }) => sum + count * length, 0);

describe('vision plan', () => {
  it('is a permutation with its inverse, and windows and images each cover all patches once', () => {
    fc.assert(
      fc.property(grids, (images) => {
        const plan = planVision(dims.vision, images);
        expect([...plan.order].sort((a, b) => a - b)).toEqual(Array.from(plan.order, (_, i) => i));
        if (plan.inverse !== null) {
          for (const [place, token] of plan.order.entries()) expect(plan.inverse[token]).toBe(place);
        }
        if (plan.gather !== null)
          for (const [i, from] of plan.gather.entries()) expect(plan.scatter![from]).toBe(i);
        for (const runs of [plan.windows, plan.images]) {
          expect(total(runs)).toBe(plan.patches);
          let at = 0;
          for (const run of runs) {
            expect(run.start).toBe(at);
            at += run.count * run.length;
          }
        }
      }),
    );
  });

  it('joins in a window only tokens of one image within four rows and columns', () => {
    fc.assert(
      fc.property(grids, (images) => {
        const plan = planVision(dims.vision, images);
        const where = images.flatMap(({ rows, columns }, image) =>
          Array.from({ length: (rows * columns) / 4 }, (_, i) => {
            const row = Math.floor(i / (columns / 2));
            const column = i % (columns / 2);
            return `${image}:${Math.floor(row / 4)}:${Math.floor(column / 4)}`;
          }),
        );
        for (const { start, count, length } of plan.windows) {
          for (let n = 0; n < count; n++) {
            const first = (start + n * length) / 4;
            const names = new Set(
              Array.from(plan.order.subarray(first, first + length / 4), (token) => where[token]),
            );
            expect(names.size).toBe(1);
            expect(where.filter((name) => names.has(name)).length).toBe(length / 4);
          }
        }
      }),
    );
  });

  it('needs no reordering for a figure whose windows are all equal', () => {
    const plan = planVision(dims.vision, [
      { rows: 2, columns: 40 },
      { rows: 2, columns: 40 },
    ]);
    expect(plan.inverse).toBeNull();
    expect(plan.gather).toBeNull();
    expect(plan.windows).toEqual([{ start: 0, count: 10, length: 16 }]);
    expect(plan.images).toEqual([{ start: 0, count: 2, length: 80 }]);
  });
});

describe('positions', () => {
  it('continues from the largest position plus one, not from the length', () => {
    const ids = Int32Array.of(9, 3, 1, 1, 1, 1, 1, 1, 4, 9);
    const { positions, next } = ropeIndex(ids, [{ rows: 4, columns: 6 }], dims);
    expect([...positions.subarray(0, 10)]).toEqual([0, 1, 2, 2, 2, 2, 2, 2, 5, 6]);
    expect([...positions.subarray(10, 20)]).toEqual([0, 1, 2, 2, 2, 3, 3, 3, 5, 6]);
    expect([...positions.subarray(20, 30)]).toEqual([0, 1, 2, 3, 4, 2, 3, 4, 5, 6]);
    expect(next).toBe(7);
  });

  it('says when image tokens and images do not match', () => {
    expect(() => ropeIndex(Int32Array.of(9, 1, 1, 9), [{ rows: 4, columns: 6 }], dims)).toThrow(
      /6 visual tokens .* 2 image tokens/,
    );
    expect(() => ropeIndex(Int32Array.of(9, 9), [{ rows: 2, columns: 2 }], dims)).toThrow(CheckpointError);
    expect(() => ropeIndex(Int32Array.of(9, 1), [], dims)).toThrow(CheckpointError);
  });

  it('ends where the context of the checkpoint ends, and names both lengths', () => {
    const short = { ...dims, maxPositions: 9 };
    const ids = Int32Array.of(9, 3, 1, 1, 1, 1, 1, 1, 4, 9);
    expect(() => ropeIndex(ids, [{ rows: 4, columns: 6 }], short)).toThrow(DataError);
    expect(() => ropeIndex(ids, [{ rows: 4, columns: 6 }], short)).toThrow(
      /10 tokens, 6 of them of images, .* ends at 9 \(max_position_embeddings\)/,
    );
    expect(ropeIndex(ids.subarray(0, 9), [{ rows: 4, columns: 6 }], short).next).toBe(6);
  });

  it('turns each section of a head by its own position', () => {
    const { cos, sin } = rotaryTables(dims, Int32Array.of(3, 300, 7)); // one token: temporal 3, height 300, width 7
    for (let j = 0; j < 16; j++) {
      const angle = (j < 1 ? 3 : j < 2 ? 300 : 7) * 1000 ** (-j / 16);
      for (const at of [j, j + 16]) {
        expect(cos[at]).toBeCloseTo(Math.cos(angle), 5);
        expect(sin[at]).toBeCloseTo(Math.sin(angle), 5);
      }
    }
  });
});
