/** Recordings of operations: sparse counts, jobs of working days, deployments, mailings, light, tides. */
import { describe, expect, test } from 'vitest';
import { describeAll } from '../../src/detect/describe.ts';
import { detect } from '../../src/detect/detect.ts';
import { statementOf } from '../../src/detect/sentence.ts';
import { recurring } from '../../src/detect/usual.ts';
import { Random } from '../../src/ground/random.ts';
import { noise, withStretch } from './usual.ts';

const SEEDS = [1, 2, 3, 4, 5, 6];

/** Counts of [N] samples, Poisson-distributed with the mean of each sample. */
function counts(seed: number, n: number, mean: (i: number) => number): Float64Array {
  const draw = new Random(seed, 'counts');
  return Float64Array.from({ length: n }, (_, i) => {
    let count = -1;
    for (let product = 1; product > Math.exp(-mean(i)); count++) product *= draw.uniform();
    return count;
  });
}

describe('a lasting rise of a sparse count', () => {
  test.each([0.5, 0.6])('is told from its beginning after %d of the series', (part) => {
    for (const seed of SEEDS) {
      const at = Math.round(part * 5000);
      const [worst] = detect(counts(seed, 5000, (i) => (i < at ? 0.3 : 4))).findings;
      expect(worst).toMatchObject({ kind: 'level', direction: 'above', lasting: true });
      expect(Math.abs(worst!.start - at)).toBeLessThan(10);
    }
  });

  test('leaves no standstill in the zeros before it', () => {
    for (const seed of SEEDS) {
      const values = counts(seed, 5000, (i) => (i < 1500 ? 0.3 : 4));
      const { findings } = detect(values.fill(0, 700, 716));
      expect(findings.filter(({ kind, end }) => kind === 'flat' && end < 1400)).toEqual([]);
    }
  });
});

test.each([
  [8, 0.5],
  [12, 1],
])(
  'counts that vary more for long are told where a step of them is too faint to be told, seed %d',
  (seed, mean) => {
    const values = counts(seed, 4032, (i) => (i < 2696 ? mean : 2.5 * mean));
    const { findings } = detect(values, { calendar: [288, 2016] });
    expect(findings).toMatchObject([{ kind: 'variance', end: 4032 }]);
  },
);

test.each([29, 221])('a silence of a count is not stretched by a faint step behind it, seed %d', (seed) => {
  const values = counts(seed, 864, () => 1.5).fill(0, 550, 590);
  const { findings } = detect(values, { calendar: [288, 2016] });
  expect(findings).toMatchObject([{ kind: 'level', start: 550, end: 590 }]);
});

test.each([0.2, 0.3])(
  'counts of %d on average have no season by chance, with an incident among them',
  (mean) => {
    for (let seed = 1; seed <= 12; seed++) {
      const values = counts(seed, 5760, () => mean).fill(20, 4000, 4020);
      expect(detect(values, { calendar: [60, 1440, 10080] }).seasons).toEqual([]);
    }
  },
);

describe('flapping of a constant', () => {
  test.each([2, 4])('every %d samples is found where it is, and is no season', (period) => {
    const values = Float64Array.from({ length: 5000 }, (_, i) =>
      i >= 3787 && i < 3847 && i % period < period / 2 ? 3 : 6,
    );
    const { findings, seasons } = detect(values);
    expect(seasons).toEqual([]);
    expect(findings).toHaveLength(1);
    expect(findings[0]!.start).toBeGreaterThanOrEqual(3780);
    expect(findings[0]!.end).toBeLessThanOrEqual(3850);
  });
});

/** Light of 21 days of 144 samples: none at night, and less under clouds. */
function daylight(seed: number): Float64Array {
  const draw = new Random(seed, 'light');
  let clear = 1;
  return noise(seed, 144 * 21).map((error, i) => {
    if (i % 144 === 0) clear = draw.between(0.7, 1);
    const height = Math.max(0, Math.sin((2 * Math.PI * ((i % 144) - 36)) / 144));
    return Math.round(Math.max(0, 5000 * height * clear * (1 + 0.1 * error)));
  });
}

test('light at night is found, though no more than by day', () => {
  for (const seed of SEEDS) {
    const values = daylight(seed).map((value, i) => (i >= 1878 && i < 1892 ? 1500 + (i % 7) : value));
    const { findings, expected } = detect(values, { calendar: [6, 144, 1008] });
    expect(findings.some(({ start, end }) => start >= 1876 && end <= 1894)).toBe(true);
    expect(expected[1885]).toBe(0);
  }
});

test('departures on several days of a week are findings of their own', () => {
  const values = noise(7, 2016 * 4).map((error, i) => {
    const [day, hour] = [Math.floor(i / 288) % 7, (i % 288) / 12];
    const busy = day < 5 ? 200 * Math.exp(-((hour - 13) ** 2) / 18) : 20;
    return 100 + busy + 5 * error + ([15, 16, 17].includes(Math.floor(i / 288)) && i % 288 < 12 ? 120 : 0);
  });
  const { findings, seasons } = detect(values, { calendar: [12, 288, 2016] });
  expect(seasons).toEqual([2016]);
  expect(findings).toHaveLength(3);
});

/** Share of answers from a cache, which a deployment empties every few hours. */
function cache(seed: number): Float64Array {
  const draw = new Random(seed, 'cache');
  const values = noise(seed, 7200).map((error) => 0.95 + 0.006 * error);
  for (let at = draw.integer(60, 300); at < 7200; at += draw.integer(260, 620)) {
    const depth = draw.between(0.18, 0.25);
    for (let i = at; i < Math.min(7200, at + 150); i++) values[i]! -= depth * Math.exp((at - i) / 22);
  }
  return values;
}

/** Bursts of three samples of about 8 at random times, on noise of 0.3; no two overlap. */
function bursts(seed: number, count: number, floor: (draw: Random) => number): Float64Array {
  const draw = new Random(seed, 'bursts');
  const values = Float64Array.from({ length: 4000 }, () => floor(draw));
  for (let k = 0; k < count; ) {
    const at = draw.integer(10, 3980);
    if (values.subarray(at - 4, at + 7).some((value) => value > 5)) continue;
    for (let i = at; i < at + 3; i++) values[i] = draw.normal(8, 0.5);
    k++;
  }
  return values;
}

describe('thirty or more alike bursts at random times', () => {
  const floors = [
    (draw: Random) => Math.abs(draw.normal(0, 0.3)),
    (draw: Random) => 0.2 * Math.exp(0.4 * draw.normal()),
    (draw: Random) => draw.normal(1, 0.3),
  ];

  test('are hardly ever findings', () => {
    const all = SEEDS.flatMap((seed) =>
      floors.flatMap((floor) => [30, 60].map((count) => detect(bursts(seed, count, floor)).findings.length)),
    );
    expect(all.reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(all.length / 4);
  });

  test('leave one that is longer, one that is higher, and a crowd of them to be found', () => {
    for (const seed of SEEDS) {
      const usual = bursts(seed, 40, floors[0]!);
      const changes: readonly (readonly [number, number, (value: number, i: number) => number])[] = [
        [2000, 2020, (value) => value + 8],
        [2000, 2003, (value) => value + 20],
        [2000, 2060, (value, i) => (i % 6 < 3 ? 8 : value)],
      ];
      for (const [start, end, change] of changes) {
        const { findings } = detect(withStretch(usual, start, end, change));
        const found = findings.some((finding) => finding.start < end && start < finding.end);
        expect([seed, start, end, found]).toEqual([seed, start, end, true]);
      }
    }
  });
});

describe('events that come at a pace', () => {
  test('are no findings', () => {
    for (const seed of SEEDS) expect(detect(cache(seed)).findings).toEqual([]);
  });

  test('do not hide one that is deeper, or longer', () => {
    for (const seed of SEEDS) {
      const deep = cache(seed).map((value, i) => (i >= 5000 && i < 5012 ? value - 0.5 : value));
      const long = cache(seed).map((value, i) => (i >= 5000 && i < 5100 ? Math.min(value, 0.76) : value));
      for (const values of [deep, long])
        expect(detect(values).findings.some(({ start, end }) => start < 5012 && end > 5000)).toBe(true);
    }
  });
});

/** Traffic of 21 days of 288 samples, from a Monday on, with a backup in the night before each working day. */
function backups(seed: number, missing = -1): Float64Array {
  const draw = new Random(seed, 'backups');
  const values = noise(seed, 288 * 21).map(
    (error, i) => (60 + 80 * Math.exp(-(((i % 288) / 12 - 14) ** 2) / 32)) * Math.exp(0.12 * error),
  );
  for (let day = 0; day < 21; day++) {
    const [at, length] = [day * 288 + 24 + draw.integer(0, 1), draw.integer(20, 25)];
    if (day % 7 < 5 && day !== missing) values.fill(940, at, at + length);
  }
  return values;
}

describe('a job of working days in three weeks', () => {
  const options = { calendar: [12, 288, 2016] };

  test('does not make a weekend unusual', () => {
    for (const seed of SEEDS)
      expect(detect(backups(seed), options).findings.filter(({ end, start }) => end - start > 50)).toEqual(
        [],
      );
  });

  test('is mostly missed where it does not run', () => {
    const missed = SEEDS.filter((seed) => {
      const [worst] = detect(backups(seed, 9), options).findings;
      return worst?.direction === 'below' && Math.abs(worst.start - (9 * 288 + 24)) < 5;
    });
    expect(missed.length).toBeGreaterThanOrEqual(4);
  });
});

/** Visitors by the half-hour over eight weeks, with a mailing on Monday and on Thursday whose success varies by 15 %. */
function mailings(seed: number): Float64Array {
  const draw = new Random(seed, 'mailings');
  const values = noise(seed, 2688).map(
    (error, i) => 50 + 30 * Math.sin((2 * Math.PI * ((i % 48) - 14)) / 48) + 6 * error,
  );
  for (let week = 0; week < 8; week++) {
    for (const at of [68, 164]) {
      const height = 900 * draw.between(0.85, 1.15);
      [1, 0.7, 0.4, 0.2].forEach((part, k) => {
        values[week * 336 + at + k]! += part * height;
      });
    }
  }
  return values;
}

describe('rare peaks of a season', () => {
  const options = { calendar: [2, 48, 336] };

  test('are hardly ever findings where their height varies', () => {
    const withFindings = SEEDS.filter((seed) => detect(mailings(seed), options).findings.length > 0);
    expect(withFindings.length).toBeLessThanOrEqual(2);
  });

  test('do not hide another peak, nor take it for a week', () => {
    for (const seed of SEEDS) {
      const values = mailings(seed);
      [900, 630, 360, 180].forEach((height, k) => {
        values[1652 + k]! += height;
      });
      const [worst] = detect(values, options).findings;
      expect(Math.abs(worst!.start - 1652)).toBeLessThan(3);
      expect(worst!.end - worst!.start).toBeLessThan(8);
    }
  });
});

describe('the level before a step', () => {
  const day = Float64Array.from({ length: 6000 }, (_, i) => 50 - 20 * Math.cos((2 * Math.PI * i) / 1000));
  const band = { expected: day, low: day.map((value) => value - 4), high: day.map((value) => value + 4) };
  const described = { base: band, usualStep: 0.1, least: 30, largest: 80, steps: { sum: 600, count: 5999 } };
  const told = (values: Float64Array, start: number, kind: 'lasting' | 'drifts') => {
    const candidate = {
      start,
      end: 6000,
      sign: 1,
      severity: 9,
      peak: start,
      track: 'step',
      [kind]: true,
    } as const;
    const season = { period: 1000, clock: null };
    return describeAll([{ ...candidate, members: [candidate] }], { ...described, values, season })[0]!;
  };

  test('is not that of the hours before a part of a day', () => {
    const finding = told(
      day.map((value, i) => value + Math.max(0, (i - 5700) / 20)),
      5700,
      'drifts',
    );
    expect(finding).toMatchObject({ kind: 'trend', direction: 'above', stepped: null });
    expect(statementOf(finding.says)).toMatch(/^drifted up to .* \(expected about/);
  });

  test('is none where the means hardly differ', () => {
    const finding = told(
      day.map((value, i) => value + (i >= 4000 && i % 2 === 0 ? 5 : i >= 4000 ? -4.9 : 0)),
      4000,
      'lasting',
    );
    expect(finding).toMatchObject({ kind: 'shape', direction: null, stepped: null });
    expect(statementOf(finding.says)).not.toMatch(/stayed there/);
  });
});

/** Waves of about 75 samples, whose heights and distances repeat every 1500. */
function waves(seed: number): Float64Array {
  return noise(seed, 6000).map((error, i) => {
    const slow = (2 * Math.PI * i) / 1500;
    return 3 + (1.6 + 0.5 * Math.cos(2 * slow)) * Math.cos(20 * slow + 2 * Math.sin(slow)) + 0.02 * error;
  });
}

test('a single odd sample is found in a long season that may come early or late', () => {
  for (const seed of SEEDS) {
    const values = waves(seed);
    values[4163]! -= 0.6;
    const { findings, seasons } = detect(values);
    expect(seasons).toEqual([1500]);
    expect(findings[0]).toMatchObject({ start: 4163, end: 4164, kind: 'dip' });
  }
});

test.each([1, 2])('a counter that reads 0 once is told, though it is reset at times, seed %d', (seed) => {
  const draw = new Random(seed, 'counter');
  let [count, reset] = [0, draw.integer(200, 600)];
  const values = Float64Array.from({ length: 1440 }, (_, i) => {
    if (i === reset) [count, reset] = [0, i + draw.integer(200, 600)];
    count += Math.round(draw.normal(20, 4));
    return count;
  });
  const at = values.findIndex((value, i) => i > 400 && value > 1000);
  values[at] = 0;
  expect(detect(values).findings[0]).toMatchObject({ kind: 'dip', start: at, end: at + 1 });
});

test('a burst one and a half times as tall as those that come at a pace is not usual', () => {
  const departures = new Float64Array(3000);
  const starts = Array.from({ length: 28 }, (_, k) => 100 * (k + 1) + ((k * k * 7) % 53));
  for (const at of starts) departures.fill(2.4, at, at + 3);
  const [start, end] = [starts[14]!, starts[14]! + 3];
  const isUsual = (height: number): boolean =>
    recurring(departures.fill(height, start, end), 0.1)({ start, end, sign: 1 });
  expect([2.4, 3, 3.6].map(isUsual)).toEqual([true, true, false]);
});
