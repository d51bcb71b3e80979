import { describe, expect, it } from 'vitest';
import { analyse } from '../../src/expcot/evidence.ts';
import { recurrence, tailTest } from '../../src/expcot/false-alarms.ts';
import { route } from '../../src/expcot/route.ts';
import { blind } from '../../src/expcot/trace.ts';
import { Random, standardNormal } from '../../src/ground/random.ts';
import type { Interval } from '../../src/ground/types.ts';
import { outlierTest } from '../../src/series/analyses.ts';
import { savgol } from '../../src/series/savgol.ts';
import { moments } from '../../src/series/stats.ts';

const SERIES = 60;
/** Noise by its quantile function or its draw: [1000] a seed. */
const KINDS = {
  normal: (random: Random) => standardNormal(random),
  // Laplace by the difference of two exponentials; excess kurtosis 3.
  laplace: (random: Random) => Math.log(random.uniform() + 1e-12) - Math.log(random.uniform() + 1e-12),
  // Student's t with 3 degrees of freedom; its kurtosis is infinite.
  student: (random: Random) =>
    standardNormal(random) /
    Math.sqrt((standardNormal(random) ** 2 + standardNormal(random) ** 2 + standardNormal(random) ** 2) / 3),
};
const draw = (kind: keyof typeof KINDS, seed: number): Float64Array => {
  const random = new Random(seed, kind, 0);
  return Float64Array.from({ length: 1000 }, () => KINDS[kind](random));
};
const share = (kind: keyof typeof KINDS, change: (values: Float64Array) => void = () => {}) => {
  let flagged = 0;
  let counted = 0;
  for (let seed = 0; seed < SERIES; seed++) {
    const values = draw(kind, seed);
    change(values);
    if (outlierTest(values).intervals.length > 0) flagged++;
    if (route(analyse(values)).intervals.length > 0) counted++;
  }
  return { flagged: flagged / SERIES, counted: counted / SERIES };
};

describe('outliers beside the tail of the series itself', () => {
  it('are hardly ever called anomalous in heavy-tailed noise, where five standard deviations are passed all the time', () => {
    const [laplace, student] = [share('laplace'), share('student')];
    expect(laplace.flagged).toBeGreaterThan(0.6);
    expect(laplace.counted).toBeLessThan(0.15);
    expect(student.flagged).toBeGreaterThan(0.95);
    expect(student.counted).toBeLessThan(student.flagged / 2);
    expect(share('normal').counted).toBe(0);
  });

  it('count where they are far beyond it, be they several', () => {
    expect(share('normal', (values) => values.fill(7, 300, 301)).counted).toBeGreaterThan(0.95);
    expect(share('laplace', (values) => values.fill(-25, 300, 302)).counted).toBe(1);
    const strewn = (values: Float64Array) => {
      for (const i of [37, 288, 301, 555, 731]) values[i] = 9;
    };
    expect(share('normal', strewn).counted).toBe(1);
  });

  it('count where they stand together, however far the others reach', () => {
    const values = draw('laplace', 5);
    values.fill(6, 400, 440);
    const test = outlierTest(values);
    const { beyond, limit } = tailTest(values, test, test.intervals);
    expect(limit).toBeGreaterThan(6);
    expect(beyond).toHaveLength(1);
    expect(beyond[0]![0]).toBeGreaterThan(390);
    expect(beyond[0]![1]).toBeLessThan(450);
  });

  it('all count in a series too short to know its tail', () => {
    const values = draw('normal', 3).slice(0, 60);
    values[20] = 40;
    const test = outlierTest(values);
    expect(tailTest(values, test, test.intervals)).toEqual({ limit: 0, beyond: [[20, 21]] });
  });
});

/** Departures of some sizes at some places, two samples wide, and those above 5 as stretches. */
function at(places: readonly (readonly [at: number, size: number])[], n = 900) {
  const departures = new Float64Array(n);
  for (const [place, size] of places) departures.fill(size, place, place + 2);
  const stretches = places
    .filter(([, size]) => Math.abs(size) > 5)
    .map(([place]): Interval => [place, place + 2]);
  return { departures, stretches };
}
const found = (places: readonly (readonly [number, number])[]) => {
  const { departures, stretches } = at(places);
  return recurrence(departures, stretches);
};

describe('recurrence', () => {
  it('sees what comes at equal distances through the whole series', () => {
    expect(
      found([
        [101, 6],
        [340, 7],
        [581, 6.5],
        [819, 6],
      ]),
    ).toEqual({ lag: 238, rest: [] });
  });

  it('allows for occurrences that are weaker and not flagged', () => {
    expect(
      found([
        [101, 6],
        [340, 4.5],
        [581, 6.5],
        [819, 4.9],
      ]),
    ).toEqual({
      lag: null,
      rest: [
        [101, 103],
        [581, 583],
      ],
    });
    expect(
      found([
        [101, 6],
        [340, 6],
        [581, 4.5],
        [819, 4.9],
      ]),
    ).toEqual({ lag: 239, rest: [] });
  });

  it('leaves over what stands beside the pattern', () => {
    const { lag, rest } = found([
      [101, 6],
      [340, 7],
      [450, 9],
      [581, 6.5],
      [819, 6],
    ]);
    expect([lag, rest]).toEqual([238, [[450, 452]]]);
  });

  it('leaves over what is much larger than what recurs', () => {
    const { lag, rest } = found([
      [101, 20],
      [341, 6],
      [581, 6],
      [821, 6],
    ]);
    expect([lag, rest]).toEqual([240, [[101, 103]]]);
  });

  it.each([
    [
      'twice only',
      [
        [300, 6],
        [550, 6],
      ],
    ],
    [
      'with one missing in between',
      [
        [101, 6],
        [341, 6],
        [821, 6],
      ],
    ],
    [
      'in other directions',
      [
        [101, 6],
        [341, -6],
        [581, 6],
        [821, -6],
      ].slice(0, 3),
    ],
    [
      'at unequal distances',
      [
        [101, 6],
        [331, 6],
        [621, 6],
      ],
    ],
  ] as [string, [number, number][]][])('does not take for a pattern what comes %s', (_, places) => {
    const { stretches } = at(places);
    expect(found(places)).toEqual({ lag: null, rest: stretches });
  });

  it('does not take neighbours for recurrences, nor try very many', () => {
    const wide = new Float64Array(900).fill(6, 400, 460);
    const parts: Interval[] = [
      [400, 418],
      [421, 439],
      [442, 460],
    ];
    expect(recurrence(wide, parts)).toEqual({ lag: null, rest: parts });
    const many = Array.from({ length: 150 }, (_, i): Interval => [6 * i, 6 * i + 1]);
    expect(recurrence(new Float64Array(900).fill(6), many).lag).toBeNull();
  });
});

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
