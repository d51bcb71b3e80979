import { describe, expect, it } from 'vitest';
import { analyse } from '../../src/expcot/evidence.ts';
import { route } from '../../src/expcot/route.ts';
import { blind } from '../../src/expcot/trace.ts';
import { Random } from '../../src/random.ts';
import { savgol } from '../../src/series/savgol.ts';
import { moments } from '../../src/series/stats.ts';

const N = 1000;
const PHASES = 12;

function wave(cycles: number, noise: number, phase: number): Float64Array {
  const random = new Random(phase, 'slow wave');
  const angle = (2 * Math.PI * phase) / PHASES;
  return Float64Array.from(
    { length: N },
    (_, i) => Math.sin((2 * Math.PI * cycles * i) / N + angle) + noise * random.normal(),
  );
}

/** Root mean square of the z-normalised distances of one smooth arc to itself under other noise. */
function distanceUnder(sigma: number, smoothed: boolean): { distance: number; std: number } {
  const m = 50;
  let squares = 0;
  let variance = 0;
  for (let draw = 0; draw < 2000; draw++) {
    const random = new Random(draw, 'arcs');
    const [a, b] = [0, 1].map(() => {
      const long = Float64Array.from({ length: m + 40 }, (_, i) => {
        const t = (i - 20 - m / 3) / m;
        return t * t + 0.3 * t + sigma * random.normal();
      });
      return (smoothed ? savgol(long, { window: 31, order: 2 }) : long).slice(20, 20 + m);
    });
    const [first, second] = [moments(a!), moments(b!)];
    for (let i = 0; i < m; i++) {
      squares += ((a![i]! - first.mean) / first.std - (b![i]! - second.mean) / second.std) ** 2;
    }
    variance += first.std ** 2;
  }
  return { distance: Math.sqrt(squares / 2000), std: Math.sqrt(variance / 2000) };
}

describe('the distance that noise alone gives', () => {
  it.each([
    ['is what noise drawn anew gives the windows of one arc', false, 1, 0.9],
    ['is no less than smoothed noise gives, and not much more', true, 0.27, 0.65],
  ] as const)('%s', (_, smoothed, left, least) => {
    const { distance, std } = distanceUnder(0.02, smoothed);
    const expected = (Math.sqrt(2 * 50 + 2) * 0.02 * left) / std;
    expect(distance / expected).toBeGreaterThan(least);
    expect(distance / expected).toBeLessThan(1.05);
  });

  it('in evidence is that of the noise that smoothing leaves', () => {
    const evidence = analyse(wave(2, 0.02, 3));
    const { chance, profile } = evidence;
    expect(evidence.denoised).toBe(true);
    const { std } = moments(evidence.analysed, profile!.discord, profile!.discord + 50);
    const sigma = Math.min(evidence.noise.sigma, evidence.local(profile!.intervals[0]!).roughness);
    expect((chance!.noise * std) / (Math.sqrt(102) * sigma)).toBeCloseTo(0.27, 2);
  });
});

describe('slow waves', () => {
  const cycles = [0.5, 1, 1.5, 2, 2.5, 3, 3.3, 3.7, 4.5, 5.3, 7, 8];

  it('have a period where at least about four cycles are seen, the right one, and hardly ever one below', () => {
    let claimed = 0;
    for (const noise of [0, 0.02, 0.1]) {
      for (const count of cycles) {
        for (let phase = 0; phase < PHASES; phase++) {
          const { period, kind } = analyse(wave(count, noise, phase)).base;
          if (count < 3.5) claimed += period === null ? 0 : 1;
          else expect(Math.abs((period ?? 0) * count - N)).toBeLessThan(0.01 * N);
          if (count < 3.5 && noise === 0) expect(kind).toBe('slow');
        }
      }
    }
    expect(claimed).toBeLessThanOrEqual(2); // of 252
  });

  it.each([0, 0.02, 0.1])('without an anomaly are normal, with noise of %d of their amplitude', (noise) => {
    let alarms = 0;
    for (const count of cycles) {
      for (let phase = 0; phase < PHASES; phase++) {
        alarms += route(analyse(wave(count, noise, phase))).intervals.length === 0 ? 0 : 1;
      }
    }
    expect(alarms).toBeLessThanOrEqual(0.02 * cycles.length * PHASES);
  });

  it.each(cycles)('of %d cycles still show a burst, and where they repeat a sensor that sticks', (count) => {
    for (let phase = 0; phase < PHASES; phase += 3) {
      const burst = wave(count, 0, phase).map((value, i) =>
        i < 600 || i >= 640 ? value : value + 0.5 * Math.sin(1.3 * i),
      );
      const plain = wave(count, 0, phase);
      const stuck = plain.map((value, i) => (i < 300 || i >= 340 ? value : plain[300]!));
      const cases = [[burst, 600, 640] as const, ...(count < 3.5 ? [] : [[stuck, 300, 340] as const])];
      for (const [values, from, to] of cases) {
        const found = route(analyse(values)).intervals;
        expect(found.some(([start, end]) => start < to && end > from)).toBe(true);
      }
    }
  });

  it('say why their discord is none, with the number', () => {
    const say = (count: number, noise: number): string => blind(analyse(wave(count, noise, 2))).think;
    expect(say(5.3, 0)).toMatch(/A window of 50 holds an arc .*\. A shift by one sample alone is \d/);
    expect(say(2, 0.02)).toMatch(/It is a slow curve: most of its power lies in fewer than 4 cycles\./);
    expect(say(2, 0.02)).toMatch(
      /Noise alone puts \d[\d.]* on average between windows of this spread, .* No test decides/,
    );
    expect(say(1, 0)).toContain('So slow a curve hardly repeats, and each smooth arc is unlike the others.');
  });

  it('leave waves that a window holds half of alone', () => {
    const values = wave(20, 0.02, 1).map((value, i) => (i > 500 && i < 550 ? 0.2 * value : value));
    const evidence = analyse(values);
    expect(evidence.profile!.intervals.length).toBeGreaterThan(0);
    expect(evidence.chance).toBeNull();
  });
});
