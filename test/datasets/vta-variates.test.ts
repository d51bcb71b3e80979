import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { VTA_VARIATE_LENGTH, VTA_VARIATES, VTA_WAVES, type VtaWave } from '../../datasets/generators/vta.ts';
import { SPLITS } from '../../datasets/split.ts';
import { ConfigError } from '../../src/ground/errors.ts';
import { vtaMultivariate } from '../helpers/series.ts';

const N = VTA_VARIATE_LENGTH;

type Basis = readonly ((phase: number) => number)[];
const SINES: Basis = [(p) => Math.sin(2 * Math.PI * p), (p) => Math.cos(2 * Math.PI * p)];
const WAVES: Readonly<Record<Exclude<VtaWave, 'random walk'>, Basis>> = {
  triangle: [(p) => 2 * Math.abs(p - 0.5) - 1],
  square: [(p) => (p < 0.5 ? 1 : -1)],
  sawtooth: [(p) => 2 * p - 1],
};

interface Fit {
  readonly frequency: number;
  readonly amplitude: number;
  readonly offset: number;
  readonly noise: number; // relative to the amplitude
}

/** Least squares of offset + amplitude · wave(f·t) over a grid of frequencies: the stated parameters, estimated. */
function estimate(values: Float64Array, waves: Basis): Fit {
  let best: Fit & { error: number } = { frequency: 0, amplitude: 0, offset: 0, noise: 0, error: Infinity };
  for (const wave of waves) {
    for (let frequency = 0.028; frequency <= 0.052; frequency += 0.0002) {
      const x = Array.from(values, (_, t) => wave((frequency * t) % 1));
      const mx = x.reduce((sum, v) => sum + v, 0) / N;
      const my = values.reduce((sum, v) => sum + v, 0) / N;
      let xx = 0;
      let xy = 0;
      let yy = 0;
      for (let t = 0; t < N; t++) {
        xx += (x[t]! - mx) ** 2;
        xy += (x[t]! - mx) * (values[t]! - my);
        yy += (values[t]! - my) ** 2;
      }
      const amplitude = xy / xx;
      const error = Math.max(0, yy - (xy * xy) / xx);
      const noise = Math.sqrt(error / N) / Math.abs(amplitude);
      if (error < best.error) best = { frequency, amplitude, offset: my - amplitude * mx, noise, error };
    }
  }
  return best;
}

const residual = ({ noise, amplitude }: Fit): number => noise * Math.abs(amplitude);

const between = (value: number, lo: number, hi: number, slack: number): void => {
  expect(value).toBeGreaterThan(lo - slack);
  expect(value).toBeLessThan(hi + slack);
};

describe.each(VTA_WAVES)('vta multivariate, %s', (wave) => {
  it('has normal variates of the stated frequencies, amplitudes, offsets and noise', () => {
    const fits = Array.from({ length: 4 }, (_, i) => vtaMultivariate(wave, 42, 'test', i)).flatMap(
      ({ channels, variates }) =>
        channels.filter((_, id) => !variates.includes(id)).map((c) => estimate(c, SINES)),
    );
    for (const { frequency, amplitude, offset, noise } of fits) {
      between(frequency, 0.03, 0.05, 0.0006);
      between(amplitude, 0.5, 2, 0.08);
      between(offset, -1, 1, 0.1);
      between(noise, 0.05, 0.2, 0.04);
    }
    const spread = (key: keyof Fit) =>
      Math.max(...fits.map((f) => f[key])) - Math.min(...fits.map((f) => f[key]));
    expect(spread('frequency')).toBeGreaterThan(0.015);
    expect(spread('amplitude')).toBeGreaterThan(1.1);
    expect(spread('offset')).toBeGreaterThan(1.5);
    expect(spread('noise')).toBeGreaterThan(0.1);
  });

  it('replaces 1 … ⌊√d⌋ − 1 variates, each count and each id as often as another', () => {
    for (const count of VTA_VARIATES) {
      const most = Math.floor(Math.sqrt(count)) - 1;
      const sizes = new Float64Array(most + 1);
      const ids = new Float64Array(count);
      for (let i = 0; i < 200; i++) {
        const options = { variates: count, length: 20 };
        const { channels, variates } = vtaMultivariate(wave, 42, 'test', i, options);
        expect(channels.length).toBe(count);
        expect([...new Set(variates)].sort((a, b) => a - b)).toEqual(variates);
        sizes[variates.length]!++;
        for (const id of variates) ids[id]!++;
      }
      const near = (got: number, share: number, draws: number) =>
        expect(Math.abs(got - share * draws)).toBeLessThanOrEqual(5 * Math.sqrt(draws * share * (1 - share)));
      for (let size = 1; size <= most; size++) near(sizes[size]!, 1 / most, 200);
      expect(sizes[0]).toBe(0);
      for (const got of ids)
        near(
          got,
          1 / count,
          ids.reduce((sum, n) => sum + n, 0),
        );
    }
  });
});

describe('replaced variates', () => {
  it.each(['triangle', 'square', 'sawtooth'] as const)('are %s waves of the stated ranges', (wave) => {
    for (let i = 0; i < 12; i++) {
      const { channels, variates } = vtaMultivariate(wave, 42, 'test', i);
      for (const id of variates) {
        const own = estimate(channels[id]!, WAVES[wave]);
        between(own.frequency, 0.03, 0.05, 0.0006);
        between(own.amplitude, 0.5, 2, 0.15);
        between(own.noise, 0.05, 0.2, 0.11);
        between(own.offset, -1, 1, 0.2);
        expect(residual(own)).toBeLessThan(residual(estimate(channels[id]!, SINES)));
      }
    }
  });

  it('are random walks: steps without memory, deviations that grow with the root of time', () => {
    const steps: number[] = [];
    let product = 0;
    let square = 0;
    for (let i = 0; i < 150; i++) {
      const { channels, variates } = vtaMultivariate('random walk', 7, 'train', i);
      for (const id of variates) {
        const walk = channels[id]!;
        for (let t = 2; t < N; t++) {
          const [a, b] = [walk[t - 1]! - walk[t - 2]!, walk[t]! - walk[t - 1]!];
          product += a * b;
          square += b * b;
          steps.push(b);
        }
      }
    }
    expect(Math.abs(product / square)).toBeLessThan(0.04);
    // amplitude · noise lies in U(0.5, 2) · U(0.05, 0.2): mean square 1.75 · 0.0175.
    expect(square / steps.length).toBeGreaterThan(0.6 * 1.75 * 0.0175);
    expect(square / steps.length).toBeLessThan(1.5 * 1.75 * 0.0175);
  });
});

const wave = fc.constantFrom(...VTA_WAVES);
const split = fc.constantFrom(...SPLITS);
const index = fc.integer({ min: 0, max: 0xffffffff });

describe('vtaMultivariate', () => {
  it('is a pure function of its address, finite where no point is missing', () => {
    fc.assert(
      fc.property(wave, split, index, fc.integer({ min: 4, max: 36 }), (w, p, i, variates) => {
        const first = vtaMultivariate(w, 3, p, i, { variates });
        vtaMultivariate(w, 3, p, (i + 1) >>> 0, { variates });
        expect(vtaMultivariate(w, 3, p, i, { variates })).toEqual(first);
        expect(first.channels.every((c) => c.every((value) => Number.isFinite(value)))).toBe(true);
        expect(first.id).toBe(`vta/${w.replace(' ', '-')}/${variates}/${p}/${i}`);
      }),
      { numRuns: 40 },
    );
  });

  it('leaves other points out of each variate, and changes none', () => {
    const whole = vtaMultivariate('square', 42, 'test', 5);
    const irregular = vtaMultivariate('square', 42, 'test', 5, { missing: 0.15 });
    expect(irregular.variates).toEqual(whole.variates);
    const gaps = new Set<string>();
    irregular.channels.forEach((values, id) => {
      const lost = [...values.keys()].filter((t) => Number.isNaN(values[t]));
      expect(lost.length).toBe(30);
      gaps.add(lost.join());
      for (let t = 0; t < N; t++)
        if (!Number.isNaN(values[t])) expect(values[t]).toBe(whole.channels[id]![t]);
    });
    expect(gaps.size).toBe(9);
    expect(irregular.id).toBe('vta/square/9/missing-0.15/test/5');
  });

  it('never repeats a series over splits, seeds and indices', () => {
    const seen = new Set<string>();
    for (const p of SPLITS) {
      for (const s of [42, 3407]) {
        for (let i = 0; i < 60; i++)
          seen.add(vtaMultivariate('square', s, p, i).channels[4]!.slice(0, 3).join());
      }
    }
    expect(seen.size).toBe(SPLITS.length * 2 * 60);
  });

  it('keeps its series from version to version', () => {
    const hash = createHash('sha256');
    for (const w of VTA_WAVES) {
      for (let i = 0; i < 5; i++) {
        const { id, channels, variates } = vtaMultivariate(w, 42, 'test', i, { missing: 0.1 });
        const digits = channels.map((c) => Array.from(c, (x) => x.toFixed(9)).join());
        hash.update(`${id} ${variates.join()} ${digits.join(';')}\n`);
      }
    }
    expect(hash.digest('hex').slice(0, 16)).toBe('dd56ac1ff205c9d1');
  });

  it('refuses numbers of variates and shares out of range', () => {
    for (const variates of [3, 37, 9.5]) {
      expect(() => vtaMultivariate('square', 1, 'test', 0, { variates })).toThrow(/variates: got/);
    }
    expect(() => vtaMultivariate('square', 1, 'test', 0, { missing: 0.7 })).toThrow(ConfigError);
    expect(() => vtaMultivariate('square', 1, 'test', 0, { length: 3 })).toThrow(/length: got 3/);
  });
});
