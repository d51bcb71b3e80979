/** SIMD kernels give the numbers of the plain code, which takes over where there is no SIMD. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { Random } from '../src/ground/random.ts';

const KERNELS = join(import.meta.dirname, '../src/series/kernels');

/** The functions that use kernels, in modules of their own. */
async function load() {
  vi.resetModules();
  const [
    { matrixProfile },
    { anytimeMatrixProfile },
    { analogues },
    { findSeason },
    { detect },
    { neighbourDistances },
    { Simd },
  ] = await Promise.all([
    import('../src/series/matrix-profile.ts'),
    import('../src/series/anytime-profile.ts'),
    import('../src/detect/analog.ts'),
    import('../src/detect/season.ts'),
    import('../src/detect/detect.ts'),
    import('../src/series/deviation.ts'),
    import('../src/series/kernels/kernels.ts'),
  ]);
  const available = Simd.open(8, 1) !== null;
  return {
    matrixProfile,
    anytimeMatrixProfile,
    analogues,
    findSeason,
    detect,
    neighbourDistances,
    available,
  };
}

afterEach(() => {
  vi.unstubAllGlobals();
});

const simd = await load();
vi.stubGlobal('WebAssembly', { validate: () => false });
const plain = await load();
vi.unstubAllGlobals();

/** A season that may lie between the samples, noise, a walk, jumps and constant stretches. */
const made = fc
  .record({
    n: fc.integer({ min: 17, max: 1500 }),
    seed: fc.nat(),
    period: fc.double({ min: 3, max: 90, noNaN: true }),
    whole: fc.boolean(),
    noise: fc.constantFrom(0, 0.1, 2),
    walk: fc.constantFrom(0, 0.3),
    held: fc.boolean(),
  })
  .map(({ n, seed, period, whole, noise, walk, held }) => {
    const random = new Random(seed, 'kernels-test');
    let level = 0;
    const values = new Float64Array(n);
    for (let i = 0; i < n; i++) {
      level += walk * random.normal();
      const phase = (2 * Math.PI * i) / (whole ? Math.round(period) : period);
      values[i] = level + Math.sin(phase) ** 3 + Math.cos(phase) + noise * random.normal();
      if (held && i > n / 3 && i < n / 2) values[i] = values[i - 1]!;
    }
    return values;
  });

describe('kernels', () => {
  test('run in this engine, and not where it has no SIMD, no WebAssembly or no memory', async () => {
    expect([simd.available, plain.available]).toEqual([true, false]);
    vi.stubGlobal('WebAssembly', undefined);
    expect((await load()).available).toBe(false);
    class Memory {
      constructor() {
        throw new RangeError('out of memory');
      }
    }
    vi.stubGlobal('WebAssembly', { validate: () => true, Module: Object, Memory });
    expect((await load()).available).toBe(false);
  });

  test('give matrix profiles equal to those of the plain code to the last bit', () => {
    fc.assert(
      fc.property(
        made,
        fc.integer({ min: 2, max: 40 }),
        fc.integer({ min: 0, max: 9 }),
        (values, window, exclusion) => {
          const options = { window, exclusion };
          expect(simd.matrixProfile(values, options)).toEqual(plain.matrixProfile(values, options));
        },
      ),
    );
  });

  test('give matrix profiles of long and sampled series equal to the plain ones', async () => {
    const random = new Random(1, 'kernels-test');
    // Longer than the refresh of a covariance, and no multiple of four.
    const values = Float64Array.from({ length: 9003 }, (_, i) => Math.sin(i / 9) + random.normal());
    for (const options of [{ window: 17 }, { window: 50, budget: 1e6 }]) {
      expect(simd.matrixProfile(values, options)).toEqual(plain.matrixProfile(values, options));
      const threads = { ...options, threads: 1 };
      expect(await simd.anytimeMatrixProfile(values, threads)).toEqual(
        await plain.anytimeMatrixProfile(values, threads),
      );
    }
  });

  test('give distances of stretches equal to those of the plain code', () => {
    fc.assert(
      fc.property(made, fc.integer({ min: 2, max: 40 }), (values, longest) => {
        const window = Math.min(longest, Math.floor(values.length / 3));
        expect(simd.neighbourDistances(values, window)).toEqual(plain.neighbourDistances(values, window));
      }),
      { numRuns: 300 },
    );
  });

  test('give similar stretches equal to those of the plain code', () => {
    fc.assert(
      fc.property(made, fc.integer({ min: 1, max: 80 }), (values, window) => {
        expect(simd.analogues(values, window)).toEqual(plain.analogues(values, window));
      }),
    );
  });

  test('give seasons and what they predict equal to those of the plain code', () => {
    let seasons = 0;
    fc.assert(
      fc.property(made, (values) => {
        const season = simd.findSeason(values);
        if (season !== null) seasons++;
        expect(season).toEqual(plain.findSeason(values));
      }),
    );
    expect(seasons).toBeGreaterThan(10);
  });

  test('give findings, scores and bands of a long series equal to those of the plain code', () => {
    const random = new Random(2, 'kernels-test');
    const values = Float64Array.from(
      { length: 41_003 },
      (_, i) => 5 * Math.sin(i / 45.3) + random.normal() + (i > 30_000 && i < 30_100 ? 9 : 0),
    );
    const found = simd.detect(values);
    expect(found.findings.length).toBeGreaterThan(0);
    expect(found).toEqual(plain.detect(values));
  });

  test.each([KERNELS, join(KERNELS, '../../engine/tfjs/kernels')])(
    '%s are those that their source compiles to',
    async (directory) => {
      const { compile } = (await import(join(KERNELS, 'compile.js'))) as {
        compile: (directory: string) => Promise<string>;
      };
      expect(readFileSync(join(directory, 'bytes.ts'), 'utf8')).toBe(await compile(directory));
    },
  );
});
