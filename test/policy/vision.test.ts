import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { nanoDims } from '../../src/policy/model-config.ts';
import { type AttentionSpans, planVision } from '../../src/policy/vision.ts';

const dims = nanoDims(400, { image: 1, video: 2, visionStart: 3, visionEnd: 4, end: 5, pad: 6 });

const grids = fc.array(
  fc
    .record({ rows: fc.integer({ min: 1, max: 7 }), columns: fc.integer({ min: 1, max: 12 }) })
    .map(({ rows, columns }) => ({
      rows: 2 * rows,
      columns: 2 * columns,
    })),
  { minLength: 1, maxLength: 3 },
);

const total = (runs: readonly AttentionSpans[]): number =>
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
