import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { detect } from '../../src/detect/detect.ts';
import { LEVELS } from '../../src/detect/finding.ts';
import { join } from '../../src/detect/join.ts';
import type { Candidate } from '../../src/detect/scan.ts';
import { statementOf } from '../../src/detect/sentence.ts';
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import { Random } from '../../src/ground/random.ts';
import { battery, disk, hourlyCounts, jobs, noise, switching, testUsual, withStretch } from './usual.ts';

/** Requests of a shop: a busy hour a day of 96 samples, noise that grows with the load. */
function days(seed: number, n = 1440): Float64Array {
  return noise(seed, n).map((error, i) => {
    const hour = (i % 96) / 96;
    return 300 + 200 * Math.exp(-((hour - 0.55) ** 2) / 0.02) + (6 + 12 * hour) * error;
  });
}

/** 100 for 10 to 60 samples, then 0 for as many, with noise. */
function onOff(seed: number, n = 1500): Float64Array {
  const draw = new Random(seed, 'load');
  let [on, left] = [false, 0];
  return noise(seed, n).map((error) => {
    if (left-- <= 0) {
      on = !on;
      left = draw.integer(10, 60);
    }
    return (on ? 100 : 0) + error;
  });
}

/** Another level every 150 samples, with noise. */
function levelEvery150(seed: number): Float64Array {
  const draw = new Random(seed, 'levels');
  let level = 0;
  return noise(seed, 2400).map((error, i) => {
    if (i % 150 === 0) level = draw.between(0, 10);
    return level + 0.5 * error;
  });
}

/** Between 19.5 and 20.5 degrees. */
function thermostat(seed: number): Float64Array {
  let [degrees, heating] = [20, false];
  return noise(seed, 2100).map((error) => {
    if (degrees < 19.5) heating = true;
    if (degrees > 20.5) heating = false;
    degrees += heating ? 0.08 + 0.02 * error : -0.03 + 0.01 * error;
    return degrees;
  });
}

/** Intersection over union of the worst finding and a stretch. */
function overlapOfWorst(values: Float64Array, start: number, end: number): number {
  const worst = detect(values).findings[0];
  if (worst === undefined) return 0;
  const shared = Math.max(0, Math.min(worst.end, end) - Math.max(worst.start, start));
  return shared / (worst.end - worst.start + end - start - shared);
}

describe('a level that stays', () => {
  test('is told from its first sample in a daily course, and not as an unusual day', () => {
    for (const [seed, n, at, by] of [
      [61, 4032, 2419, 100],
      [62, 4032, 2419, -90],
      [63, 6048, 3024, 100],
    ] as const) {
      const values = noise(seed, n).map((error, i) => {
        const hour = (i % 288) / 288;
        return 200 - 110 * Math.cos(2 * Math.PI * (hour - 0.1)) + 6 * error + (i >= at ? by : 0);
      });
      const [worst] = detect(values, { calendar: [12, 288, 2016] }).findings;
      const direction = by > 0 ? 'above' : 'below';
      expect(worst).toMatchObject({ kind: 'level', lasting: true, direction, end: n });
      expect(Math.abs(worst!.start - at)).toBeLessThanOrEqual(3);
    }
  });

  test('is told where working days and weekends make jumps as large', () => {
    for (const [seed, at, times] of [
      [64, 150, 1.7],
      [65, 250, 0.5],
      [66, 200, 2],
    ] as const) {
      const values = noise(seed, 365).map(
        (error, i) => 1000 * (i % 7 >= 5 ? 0.5 : 1) * (1 + 0.04 * error) * (i >= at ? times : 1),
      );
      const [worst] = detect(values, { calendar: [7] }).findings;
      expect(worst).toMatchObject({ kind: 'level', direction: times > 1 ? 'above' : 'below' });
      expect([Math.abs(worst!.start - at) <= 2, worst!.end]).toEqual([true, 365]);
    }
  });

  test('is told where a slow change led to it, and slow waves and walks are no levels', () => {
    for (const [seed, from, to, by] of [
      [67, 2000, 2500, 40],
      [68, 2000, 3600, 30],
      [69, 3000, 3400, -36],
    ] as const) {
      const change = (i: number): number => by * Math.min(1, Math.max(0, (i - from) / (to - from)));
      const { findings, expected, low, high } = detect(
        noise(seed, 5000).map((error, i) => 50 + change(i) + 3 * error),
      );
      const [worst, ...more] = findings;
      expect(worst).toMatchObject({
        kind: 'level',
        lasting: true,
        direction: by > 0 ? 'above' : 'below',
        end: 5000,
      });
      expect([Math.abs(worst!.start - from) < 160, more.length]).toEqual([true, 0]);
      // On its way it is expected on its way, in a band as narrow as before.
      for (const i of [from - 500, Math.round((from + to) / 2), to + 500]) {
        expect(Math.abs(expected[i]! - 50 - change(i))).toBeLessThan(4);
        expect(high[i]! - low[i]!).toBeLessThan(24);
      }
    }
    // A wave that the series is made of, and a random walk, change as slowly all the time.
    const wave = noise(70, 3000).map((error, i) => 40 * Math.sin(i / 500) + 3 * error);
    let place = 0;
    const walk = noise(71, 3000).map((step) => (place += step));
    const waves = Array.from({ length: 12 }, (_, k) =>
      noise(72 + k, 2400).map(
        (error, i) => 20 * Math.sin((i / 2400) * 0.35 * 2 * Math.PI + k / 2) + 5 * error,
      ),
    );
    for (const values of [wave, walk, ...waves]) {
      expect(detect(values).findings.filter(({ lasting }) => lasting)).toEqual([]);
    }
  });
});

test('events that are counted, and rare, are hardly ever anomalies when they come at random, and keep no time', () => {
  let alarmed = 0;
  for (const rate of [0.008, 0.01, 0.015, 0.03]) {
    for (let seed = 0; seed < 6; seed++) {
      const draw = new Random(seed, 'restarts', rate);
      const values = Float64Array.from({ length: 4000 }, () => {
        let [count, left] = [-1, 1];
        for (; left > Math.exp(-rate); count++) left *= draw.between(0, 1);
        return count;
      });
      const { findings, seasons } = detect(values);
      alarmed += findings.length > 0 ? 1 : 0;
      expect([seasons, findings.length <= 3]).toEqual([[], true]);
      for (const { severity } of findings) expect(severity).toBeLessThan(20);
    }
  }
  expect(alarmed).toBeLessThanOrEqual(8);
});

test('events that are counted, and rare, are an anomaly where many come at once', () => {
  for (let seed = 0; seed < 6; seed++) {
    const draw = new Random(seed, 'burst');
    const values = Float64Array.from({ length: 4000 }, (_, i) =>
      draw.between(0, 1) < (i >= 2500 && i < 2600 ? 0.5 : 0.015) ? 1 : 0,
    );
    const [worst] = detect(values).findings;
    expect([worst!.direction, worst!.severity > 3]).toEqual(['above', true]);
    expect(Math.abs(worst!.start - 2500)).toBeLessThan(20);
    expect(worst!.end).toBeGreaterThan(2580);
  }
});

test('a job that runs for a sample every hour has its season', () => {
  const values = Float64Array.from({ length: 3000 }, (_, i) => (i % 60 === 7 ? 5 : 0));
  expect(detect(values).seasons).toEqual([60]);
});

describe('a stretch that departs is found where it is', () => {
  test.each([
    ['a spike in noise', withStretch(noise(1, 1500), 700, 701, (value) => value + 9), 700, 701],
    [
      'a dip of three samples in noise',
      withStretch(noise(2, 1500), 411, 414, (value) => value - 9),
      411,
      414,
    ],
    ['an outage of a busy day', withStretch(days(3), 1010, 1034, () => 0), 1010, 1034],
    [
      'a level shift that is taken back',
      withStretch(noise(4, 1500), 900, 990, (value) => value + 5),
      900,
      990,
    ],
    ['noise that grows', withStretch(noise(5, 1500), 300, 380, (value) => 5 * value), 300, 380],
    ['a stuck sensor', withStretch(noise(6, 1500), 1200, 1260, () => 0.3), 1200, 1260],
  ])('%s', (_, values, start, end) => {
    expect(overlapOfWorst(values, start, end)).toBeGreaterThan(0.7);
  });

  test('a spike on a slope, which lies inside the range of the values', () => {
    const slope = noise(7, 1500).map((error, i) => 0.05 * i + 0.5 * error);
    expect(
      overlapOfWorst(
        withStretch(slope, 640, 641, (value) => value + 12),
        640,
        641,
      ),
    ).toBe(1);
  });

  test('of a job that runs every day the runs at other times, and not the job', () => {
    const at = [30, 126, 222, 318, 414, 510, 606, 702, 798, 894, 990, 1127, 1160, 1200];
    const values = noise(34, 1500).map((error, i) => (at.includes(i) ? 25 : 0) + error);
    const found = detect(values).findings.map(({ start }) => start);
    expect(found).toEqual(expect.arrayContaining([1127, 1160, 1200]));
    expect(found.filter((start) => start < 900)).toEqual([]);
  });

  test('a limit that the values reach again and again', () => {
    const wave = noise(35, 1500).map((error, i) => 50 + 20 * Math.sin(i / 9) + 2 * error);
    const [worst] = detect(withStretch(wave, 600, 760, (value) => Math.min(55, value))).findings;
    expect(worst).toMatchObject({ kind: 'cutoff', direction: 'above' });
    expect(statementOf(worst!.says)).toMatch(/^was cut off at 55 \(expected up to \d+/);
    expect(Math.abs(worst!.start - 600)).toBeLessThan(40);
  });

  test('twenty spikes at random places, nearly all of them', () => {
    const draw = new Random(36, 'places');
    const at = Array.from({ length: 20 }, () => draw.integer(10, 1990));
    const values = noise(37, 2000);
    for (const i of at) values[i]! += 14;
    const found = detect(values).findings;
    expect(at.filter((i) => found.some(({ start, end }) => start <= i && i < end)).length).toBeGreaterThan(
      14,
    );
  });

  test('a quiet night hour at noon, which is unusual only for its phase', () => {
    const worst = detect(withStretch(days(8), 672 + 48, 672 + 60, (value) => 300 + (value - 300) / 40))
      .findings[0]!;
    expect(worst).toMatchObject({ direction: 'below' });
    expect(Math.abs(worst.start - 720)).toBeLessThanOrEqual(4);
    expect(Math.abs(worst.end - 732)).toBeLessThanOrEqual(4);
    expect(worst.expected.value).toBeGreaterThan(420);
  });

  test('what lasts to the end is ongoing', () => {
    const [worst] = detect(withStretch(noise(9, 1500), 1300, 1500, (value) => value + 5)).findings;
    expect(worst).toMatchObject({ kind: 'level', direction: 'above', ongoing: true, end: 1500 });
    expect(Math.abs(worst!.start - 1300)).toBeLessThanOrEqual(3);
  });
});

describe('what goes on until now', () => {
  test.each([300, 1000, 1200])(
    'a level that went elsewhere at sample %i of 2016 and stayed is told once, against what was before',
    (at) => {
      const values = noise(51, 2016).map((error, i) => 50 + 2 * error + (i >= at ? 30 : 0));
      const { findings, expected } = detect(values);
      expect(findings).toHaveLength(1);
      const [one] = findings;
      expect(one).toMatchObject({ kind: 'level', direction: 'above', end: 2016, ongoing: true });
      expect(Math.abs(one!.start - at)).toBeLessThanOrEqual(2);
      expect(statementOf(one!.says)).toMatch(
        /^rose to (79|80)\.?\d* on average and stayed there \((49|50)\.?\d* in the \d+ samples before; observed /,
      );
      // What is expected now is what is usual now.
      expect(expected[1990]).toBeGreaterThan(75);
      expect(expected[at - 50]).toBeLessThan(55);
    },
  );

  test('a spike behind such a change is a finding of its own, and the change goes on', () => {
    const values = noise(52, 2016).map(
      (error, i) => 50 + 2 * error + (i >= 900 ? 30 : 0) + (i === 1500 ? 60 : 0),
    );
    const { findings } = detect(values);
    expect(findings.map(({ kind }) => kind).sort()).toEqual(['level', 'spike']);
    expect(findings.find(({ kind }) => kind === 'level')).toMatchObject({
      end: 2016,
      ongoing: true,
      lasting: true,
    });
  });

  test('a leak is a trend since it began, with or without a season', () => {
    const leak = noise(53, 2016).map((error, i) => 40 + 0.5 * error + Math.max(0, i - 1000) * 0.03);
    const [found, ...more] = detect(leak).findings;
    expect(more).toEqual([]);
    expect(found).toMatchObject({ kind: 'trend', direction: 'above', end: 2016, ongoing: true });
    expect(Math.abs(found!.start - 1000)).toBeLessThan(70);
    expect(statementOf(found!.says)).toMatch(
      /^rose steadily to (69|70)\.?\d* \(mean of its last \d+ samples; (39\.\d+|40\.?\d*) in the \d+ samples before\)$/,
    );
    const daily = days(54, 2016).map((value, i) => value - Math.max(0, i - 1100) * 0.2);
    const [falling] = detect(daily).findings;
    expect(falling).toMatchObject({ kind: 'trend', direction: 'below', ongoing: true });
  });

  test('growth, a random walk and a bent curve are no leak', () => {
    let at = 0;
    const series = [
      noise(55, 2000).map((error, i) => 10 + 0.03 * i + error),
      noise(56, 2000).map((step) => (at += step)),
      noise(57, 2000).map((error, i) => Math.exp((1.5 * i) / 2000) * (10 + 0.1 * error)),
      noise(58, 2000).map((error, i) => (i / 300) ** 2 + error),
    ];
    for (const values of series)
      expect(detect(values).findings.filter(({ kind }) => kind === 'trend')).toEqual([]);
  });

  test('a job that did not run is missed, however rarely it runs', () => {
    const jobs = (miss: number) =>
      noise(59, 2016).map((error, i) => (i % 72 < 3 && Math.floor(i / 72) !== miss ? 500 : 5) + 2 * error);
    expect(detect(jobs(-1)).findings).toEqual([]);
    const { findings, seasons } = detect(jobs(15));
    expect(seasons).toEqual([72]);
    expect(findings).toHaveLength(1);
    expect(findings[0]).toMatchObject({ kind: 'dip', direction: 'below' });
    expect(findings[0]!.start).toBeGreaterThanOrEqual(1080);
    expect(findings[0]!.end).toBeLessThanOrEqual(1083);
    expect(findings[0]!.expected.value).toBeGreaterThan(480);
  });
});

describe('what is usual is no finding', () => {
  // All of the series: `npm run soak`.
  testUsual(1 / 3);

  const shape = (f: (i: number) => number) => Float64Array.from({ length: 1500 }, (_, i) => f(i));
  test.each([
    ['a sine', shape((i) => Math.sin(i / 7.3))],
    ['a square wave', shape((i) => (i % 74 < 30 ? 5 : 1))],
    ['a sawtooth whose period is no whole number', shape((i) => (i / 41.7) % 1)],
    ['a line', shape((i) => 3 + 0.01 * i)],
    ['one value', shape(() => 7)],
    [
      'heart beats, narrow and a part of a sample early or late',
      noise(31, 1500).map((error, i) => 8 * Math.exp(-((((i / 61.7) % 1) - 0.3) ** 2) / 3e-4) + 0.05 * error),
    ],
    ['a load that goes on and off at any time', onOff(32)],
    ['a machine that goes to another level every 150 samples', levelEvery150(36)],
    ['a room that is heated and cools at rates that vary', thermostat(33)],
    ['rare events that are counted', noise(33, 1500).map((value) => (value > 2.2 ? 2 : value > 1.1 ? 1 : 0))],
    ['spikes at equal distances', noise(11, 1500).map((error, i) => (i % 61 === 7 ? 30 : 0) + error)],
  ])('%s', (_, values) => {
    expect(detect(values).findings).toEqual([]);
  });

  test('what was usual at the place of the only other cycle that did not depart', () => {
    for (const seed of [61, 62, 63]) {
      const calm = noise(seed, 1000).map(
        (error, i) => 40 + 25 * Math.sin((2 * Math.PI * i) / 288) + 1.5 * error,
      );
      const { findings } = detect(withStretch(calm, 500, 512, () => 97));
      expect(findings.map(({ start, end }) => [start, end])).toEqual([[500, 512]]);
    }
  });

  test('days of sun, some brighter than others, are told by days and not by what few of them have in common', () => {
    const sun = (seed: number): Float64Array => {
      const draw = new Random(seed, 'sun');
      let brightness = 1;
      return noise(seed, 1600).map((error, i) => {
        if (i % 96 === 0) brightness = draw.between(60, 100);
        return (
          brightness *
          Math.max(0, Math.sin(2 * Math.PI * ((i % 96) / 96 - 0.25))) *
          (1 - 0.1 * Math.abs(error))
        );
      });
    };
    // In one series of twelve the first days are like those five days later by chance.
    const all = Array.from({ length: 12 }, (_, seed) => detect(sun(seed + 1)));
    expect(all.filter(({ seasons }) => seasons[0] === 96).length).toBeGreaterThanOrEqual(11);
    expect(all.filter(({ findings }) => findings.length > 0).length).toBeLessThanOrEqual(1);
  });

  test('a battery that is charged at any level departs where it leaves its two paces', () => {
    // Half the charge lost at once, a charge beyond the limit, and readings that stand still.
    for (const seed of [1, 2, 3]) {
      const values = battery(seed);
      const fall = values.map((value, i) => (i >= 900 && i < 906 ? value / 4 - 20 : value));
      const beyond = values.map((value, i) => (i >= 900 && i < 930 ? value + 90 : value));
      const stuck = values.map((value, i) => (i >= 900 && i < 1200 ? values[900]! : value));
      for (const [some, end] of [
        [fall, 906],
        [beyond, 930],
        [stuck, 1200],
      ] as const)
        expect(overlapOfWorst(some, 900, end)).toBeGreaterThan(0.3);
    }
  });

  test('jobs that come at distances that vary are no spikes where they may come', () => {
    const jobs = (seed: number): Float64Array => {
      const draw = new Random(seed, 'jobs');
      let [next, left, height] = [30, 0, 0];
      return noise(seed, 1900).map((error, i) => {
        if (i >= next)
          [left, height, next] = [draw.integer(3, 8), draw.between(40, 60), next + draw.integer(50, 70)];
        return (left-- > 0 ? height : 5) + error;
      });
    };
    for (const seed of [1, 2, 3, 4, 5, 6]) {
      for (const { kind, observed, expected } of detect(jobs(seed)).findings) {
        if (kind === 'spike') expect(observed.peak).toBeGreaterThan(expected.high);
      }
    }
  });

  test('a counter that is stuck stands still, though counts are equal by chance at the pace of an hour', () => {
    const stuck = hourlyCounts(1).map((value, i) => (i >= 1800 && i < 1824 ? 4 : value));
    expect(overlapOfWorst(stuck, 1800, 1824)).toBeGreaterThan(0.9);
  });

  test('what comes at many places at no distance in particular is not rare, however far it lies from the rest', () => {
    const slow = (seed: number): Float64Array => {
      const draw = new Random(seed, 'slow');
      return noise(seed, 1500).map((error) => {
        const late = draw.uniform() < 0.03 ? -60 * Math.log(1 - draw.uniform()) : 0;
        return 20 + 5 * Math.abs(error) + late;
      });
    };
    const all = Array.from({ length: 10 }, (_, seed) => detect(slow(seed + 100)).findings.length);
    expect(all.reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(10);
    const usual = slow(5);
    expect(
      overlapOfWorst(
        withStretch(usual, 900, 960, (value) => value + 80),
        900,
        960,
      ),
    ).toBeGreaterThan(0.8);
  });

  test('edges of a season that come early or late, also at the ends of the series', () => {
    for (const seed of [1, 2, 3, 4]) {
      const draw = new Random(seed, 'edges');
      const errors = noise(seed, 3000);
      const values = errors.map((error) => 0.1 * error);
      // A load on for 40 of 100 samples; the first one begins late, and the last one ends before the series.
      for (let at = 0; at < 3000; at += 100) {
        const from = at + (at === 0 ? 4 : Math.round(2 * draw.normal()));
        const to = at + 40 + Math.round(2 * draw.normal());
        for (let i = Math.max(0, from); i < to; i++) values[i] = values[i]! + 5;
      }
      for (const length of [3000, 2898]) expect(detect(values.slice(0, length)).findings).toEqual([]);
    }
  });
});

describe('what a finding says', () => {
  const values = withStretch(days(12), 580, 600, () => 0);
  const { findings, score, low, high, seasons, structure } = detect(values);
  const [worst] = findings;

  test('are values of the series, at places of the series', () => {
    expect(worst).toMatchObject({
      kind: 'level',
      direction: 'below',
      observed: { least: 0, mean: 0, largest: 0, peak: 0 },
      ongoing: false,
    });
    expect(statementOf(worst!.says)).toMatch(/^fell to 0 \(expected about \d+(\.\d)?\)$/);
    expect(worst!.severity).toBeGreaterThanOrEqual(LEVELS[worst!.level]);
    expect(worst!.evidence.for.length).toBeGreaterThan(0);
  });

  test('with a score for every sample, above 1 in findings alone, and a band that holds the others', () => {
    expect(score).toHaveLength(values.length);
    expect(Math.min(...score)).toBeGreaterThanOrEqual(0);
    expect(Math.min(...score.subarray(580, 600))).toBeGreaterThanOrEqual(LEVELS.high);
    const outside = values.filter(
      (value, i) => (i < 570 || i > 610) && (value < low[i]! || value > high[i]!),
    );
    expect(outside.length / values.length).toBeLessThan(0.03);
    expect(seasons).toEqual([96]);
    expect(structure.text).toMatch(/^Repeats every 96 samples/);
  });

  test('with what the series did at the same phase of earlier cycles', () => {
    const { before, start } = worst!;
    expect(before).toMatchObject({ period: 96, starts: [1, 2, 3, 4, 5, 6].map((k) => start - 96 * k) });
    const mean = (from: number): number =>
      values.subarray(from, from + worst!.end - start).reduce((sum, value) => sum + value, 0) /
      (worst!.end - start);
    expect(before!.least).toBeCloseTo(Math.min(...before!.starts.map(mean)), 9);
    expect(before!.largest).toBeCloseTo(Math.max(...before!.starts.map(mean)), 9);
  });

  test('apart from cycles with another finding, and null where there is no season', () => {
    const twice = withStretch(values, 580 - 192, 600 - 192, () => 900);
    const again = detect(twice).findings.find((one) => one.direction === 'below')!;
    expect(again.before!.starts.slice(0, 2)).toEqual([again.start - 96, again.start - 288]);
    expect(detect(withStretch(noise(1, 1500), 700, 703, () => 12)).findings[0]!.before).toBeNull();
  });

  test('of a level that stays, beside a worse spike at its beginning, is what it was before', () => {
    const stays = withStretch(noise(14, 1440), 1000, 1440, (value) => value - 5);
    const both = withStretch(stays, 1001, 1004, (value) => value + 60);
    const step = detect(both).findings.find((one) => one.ongoing)!;
    expect(step).toMatchObject({ kind: 'level', direction: 'below', end: 1440 });
    expect(Math.abs(step.start - 1000)).toBeLessThan(30);
    const { since, mean } = step.stepped!;
    expect(since).toBe(2 * step.start - 1440);
    const before = both.subarray(since, step.start);
    expect(mean).toBeCloseTo(before.reduce((sum, value) => sum + value, 0) / before.length, 9);
    expect(statementOf(step.says)).toMatch(
      /^fell to -5(\.\d+)? on average \(0\.\d+ in the \d+ samples before; observed .* to .*\)$/,
    );
  });

  test('of a long rise in noise is the level of the other samples', () => {
    // Rises fill 27 % of the samples, so that a running median follows them.
    const twice = withStretch(noise(15, 450), 235, 259, (value) => value + 40);
    const { findings } = detect(withStretch(twice, 352, 450, (value) => value + 40));
    expect(findings.map(({ kind, start, end }) => [kind, start, end]).sort()).toEqual([
      ['level', 235, 259],
      ['level', 352, 450],
    ]);
    for (const { expected } of findings) expect(Math.abs(expected.value)).toBeLessThan(0.5);
  });

  test('that other findings are similar', () => {
    const twice = withStretch(
      withStretch(noise(13, 1500), 300, 303, () => 12),
      1100,
      1103,
      () => 12,
    );
    const [first, second] = detect(twice).findings;
    expect([first!.similar, second!.similar].flat()).toHaveLength(2);
    expect(first!.evidence.against.join()).toMatch(/another stretch/);
  });
});

describe('a drift of days', () => {
  /** Days of 48 samples, a swing of 6 and noise; from `begins` on a rise of 40 in 288 samples. */
  const leak = (seed: number, n: number, begins: number): Float64Array =>
    noise(seed, n).map(
      (error, i) =>
        40 + 3 * Math.sin((2 * Math.PI * i) / 48) + error + Math.max(0, (40 * (i - begins)) / 288),
    );

  test('is found at any length of it, though it hides the season', () => {
    for (const seed of [1, 2, 3])
      for (const length of [100, 130, 160, 190, 220, 250, 280]) {
        const found = detect(leak(seed, 600, 600 - length), { calendar: [48, 336] }).findings;
        expect(found.map(({ kind, end }) => [kind, end])).toEqual([['trend', 600]]);
        expect(Math.abs(found[0]!.start - (600 - length))).toBeLessThan(24);
      }
  });
});

describe('two rises of one level', () => {
  test.each([
    [498, 'are no season'],
    [569, 'are two findings, not one between them'],
  ])('in the %i samples so far %s', (n) => {
    for (const seed of [1, 2, 3]) {
      const rises = noise(seed, n).map((value, i) =>
        (i >= 315 && i < 339) || i >= 442 ? value + 40 : value,
      );
      const found = detect(rises.subarray(n - 450));
      expect(found.seasons).toEqual([]);
      const places = found.findings.map(({ start, end, direction }) => [
        start + n - 450,
        end + n - 450,
        direction,
      ]);
      expect(places.sort()).toEqual([
        [315, 339, 'above'],
        [442, n, 'above'],
      ]);
    }
  });
});

describe('stretches of several tracks', () => {
  const part = (start: number, end: number, severity: number): Candidate => ({
    ...{ start, end, severity, sign: 1, peak: start, track: 'season' },
  });
  const extents = (parts: readonly Candidate[], period: number | null) =>
    join(parts, 1000, period).map(({ start, end }) => [start, end]);

  test('are one change where little lies between two parts of a cycle that are about as severe', () => {
    expect(extents([part(610, 632, 18), part(648, 740, 16)], 68)).toEqual([[610, 740]]);
    expect(extents([part(610, 632, 18), part(648, 740, 6)], 68)).toHaveLength(2);
    expect(extents([part(610, 632, 18), part(656, 740, 16)], 68)).toHaveLength(2);
    expect(extents([part(610, 632, 18), part(648, 740, 16)], null)).toHaveLength(2);
  });

  test('keep their bounds where a faint one reaches beyond, and not where it is high by itself', () => {
    // The faint one begins as a group of its own, in the middle.
    const with339 = (severe: number, faint: number) =>
      extents(
        [part(428, 479, severe), part(190, 196, 5), part(339, 340, faint), part(94, 479, 0.8 * faint)],
        null,
      );
    expect(with339(27, 2.3)).toEqual([
      [428, 479],
      [190, 196],
    ]);
    expect(with339(27, 4.5)).toEqual([[94, 479]]);
    expect(with339(9, 2.3)).toEqual([[94, 479]]);
  });
});

describe('kinds', () => {
  const kindOf = (values: Float64Array) => {
    const { kind, direction, says } = detect(values).findings[0]!;
    return { kind, direction, statement: statementOf(says) };
  };

  test('a drift away is a trend', () => {
    const drift = withStretch(days(21), 600, 800, (value, i) => value + 0.9 * (i - 600));
    expect(kindOf(drift)).toMatchObject({ kind: 'trend', direction: 'above' });
  });

  test('a wave that runs faster for a time is a change of frequency, told by its period', () => {
    const noisy = noise(22, 1600);
    let phase = 0;
    const wave = noisy.map((error, i) => {
      phase += i >= 700 && i < 900 ? 1 / 21 : 1 / 47;
      return 10 * Math.sin(2 * Math.PI * phase) + 0.4 * error;
    });
    expect(kindOf(wave)).toMatchObject({
      kind: 'frequency',
      statement: expect.stringMatching(/^repeated every (20|21|22) samples instead of every 47/),
    });
  });
});

describe('the clock of the calendar', () => {
  /** Quarter hours of 20 days whose 9th has 23 hours: from then on the peak comes an hour earlier. */
  const shifted = noise(23, 20 * 96).map((error, i) => {
    const hour = ((i + (i >= 9 * 96 ? 4 : 0)) % 96) / 96;
    return 300 + 200 * Math.exp(-((hour - 0.55) ** 2) / 0.002) + 6 * error;
  });

  test('a day of 23 hours keeps its season', () => {
    const clock = Int32Array.from(shifted, (_, i) => (i >= 9 * 96 ? 4 : 0));
    expect(detect(shifted, { calendar: [4, 96], clock }).findings).toEqual([]);
    expect(detect(shifted, { calendar: [4, 96] }).findings.length).toBeGreaterThan(0);
  });
});

describe('options', () => {
  const values = withStretch(
    withStretch(noise(14, 1500), 300, 303, () => 9),
    900,
    903,
    () => -14,
  );

  test('a direction leaves the other one out', () => {
    expect(detect(values, { direction: 'above' }).findings.map(({ start }) => start)).toEqual([300]);
    expect(detect(values, { direction: 'below' }).findings.map(({ start }) => start)).toEqual([900]);
    expect(detect(values).findings.map(({ start }) => start)).toEqual([900, 300]);
  });

  test('a floor leaves smaller departures out', () => {
    expect(detect(values, { absoluteFloor: 12 }).findings.map(({ start }) => start)).toEqual([900]);
  });

  test('each finding left out is counted under the filter that left it out', () => {
    const values = withStretch(noise(91, 1500), 400, 403, (value) => value + 12);
    const leftOut = (options: object) => detect(values, options).leftOut;
    const none = { severity: 0, direction: 0, change: 0, share: 0 };
    expect(detect(values).findings).toHaveLength(1);
    expect(leftOut({})).toEqual(none);
    expect(leftOut({ severity: 100 })).toEqual({ ...none, severity: 1 });
    expect(leftOut({ direction: 'below' })).toEqual({ ...none, direction: 1 });
    expect(leftOut({ absoluteFloor: 99 })).toEqual({ ...none, change: 1 });
    // The range, 1 % to 99 %, is about five.
    expect(leftOut({ absoluteFloor: 1, relativeFloor: 1 })).toEqual(none);
    expect(leftOut({ absoluteFloor: 50, relativeFloor: 1, severity: 100 })).toEqual({ ...none, severity: 1 });
  });

  test('filters only filter: what they leave is as it was without them', () => {
    const shifted = withStretch(values, 1300, 1500, (value) => value + 4);
    const series = [shifted, withStretch(days(12), 700, 712, () => 0), onOff(3)].map((given) => ({
      ...{ given, all: detect(given, { relativeFloor: 0 }).findings },
    }));
    fc.assert(
      fc.property(
        fc.constantFrom(...series),
        fc.double({ min: 0, max: 0.5, noNaN: true }),
        fc.double({ min: 0, max: 12, noNaN: true }),
        fc.constantFrom('above' as const, 'below' as const, 'both' as const),
        fc.double({ min: 2, max: 9, noNaN: true }),
        ({ given, all }, relativeFloor, absoluteFloor, direction, severity) => {
          const some = detect(given, { relativeFloor, absoluteFloor, direction, severity }).findings;
          for (const { similar: _, ...finding } of some) {
            expect(all.map(({ similar: __, ...other }) => other)).toContainEqual(finding);
          }
        },
      ),
      { numRuns: 25 },
    );
  });

  test('a higher severity leaves fewer', () => {
    const [first, second] = detect(values).findings;
    expect(detect(values, { severity: (first!.severity + second!.severity) / 2 }).findings).toHaveLength(1);
  });

  test('out of range are refused by name', () => {
    for (const wrong of [
      { severity: 0.5 },
      { severity: Number.NaN },
      { relativeFloor: 2 },
      { absoluteFloor: -1 },
    ]) {
      expect(() => detect(values, wrong)).toThrow(ConfigError);
    }
  });
});

describe('any series', () => {
  test('with gaps: a gap is no finding, and none begins or ends in one', () => {
    const gappy = withStretch(
      withStretch(days(15), 200, 260, () => Number.NaN),
      700,
      712,
      (_, i) => (i < 704 ? Number.NaN : 0),
    );
    const { findings } = detect(gappy);
    expect(findings[0]).toMatchObject({ start: 704, observed: { least: 0 } });
    for (const one of findings) {
      expect(one.end <= 200 || one.start >= 260).toBe(true);
      expect(Number.isNaN(gappy[one.start]!) || Number.isNaN(gappy[one.end - 1]!)).toBe(false);
    }
  });

  test('too short or without a value says so', () => {
    expect(detect(Float64Array.of(1, 5, 2)).structure.text).toMatch(/3 samples are too few/);
    expect(() => detect(new Float64Array(30).fill(Number.NaN))).toThrow(DataError);
    expect(() => detect(new Float64Array(0))).toThrow(DataError);
    expect(() => detect(Float64Array.of(...noise(1, 30), Number.POSITIVE_INFINITY))).toThrow(DataError);
  });

  test('says the same in other units, also where squares overflow', () => {
    const values = withStretch(days(16), 500, 520, () => 0);
    const found = (factor: number, offset = 0) =>
      detect(values.map((value) => factor * value + offset)).findings.map(({ start, end, kind }) => ({
        start,
        end,
        kind,
      }));
    const plain = found(1);
    expect(plain.length).toBeGreaterThan(0);
    expect(found(1024)).toEqual(plain);
    expect(found(2 ** -20, 0)).toEqual(plain);
    expect(found(1e250)).toEqual(plain);
    expect(found(1e-250)).toEqual(plain);
  });

  test('gives findings inside the series, sorted and apart, and finite numbers', () => {
    const value = fc.oneof(
      fc.double({ min: -1e3, max: 1e3, noNaN: true }),
      fc.constantFrom(0, 1, Number.NaN, 1e300, -1e-300),
    );
    fc.assert(
      fc.property(fc.array(value, { minLength: 2, maxLength: 120 }), (raw) => {
        if (raw.every(Number.isNaN)) return;
        const values = Float64Array.from(raw);
        const { findings, score, expected } = detect(values, { severity: 1 });
        expect(score.every((one) => Number.isFinite(one) && one >= 0)).toBe(true);
        expect(expected.every(Number.isFinite)).toBe(true);
        findings.forEach((one, i) => {
          expect(one.start).toBeGreaterThanOrEqual(0);
          expect(one.end).toBeLessThanOrEqual(values.length);
          expect(one.start).toBeLessThan(one.end);
          expect(one.peak.index >= one.start && one.peak.index < one.end).toBe(true);
          expect(one.severity).toBeGreaterThanOrEqual(findings[i + 1]?.severity ?? 1);
          for (const other of findings)
            expect(other === one || other.end <= one.start || one.end <= other.start).toBe(true);
        });
      }),
      { numRuns: 60 },
    );
  });
});

describe('what is plain to the eye', () => {
  /** A disk that fills and is emptied every night, a little early or late. */
  function emptied(seed: number): Float64Array {
    const draw = new Random(seed, 'disk');
    let [value, next] = [50, 40];
    return Float64Array.from({ length: 3000 }, (_, i) => {
      if (i > next) {
        value = 18 + 3 * draw.uniform();
        next = 288 * (Math.floor(i / 288) + 1.13 + 0.02 * draw.normal());
      }
      value += 0.15 * draw.uniform();
      return value;
    });
  }

  /** Counts with bursts: log-normal, correlated, with a daily cycle. */
  function bursts(seed: number): Float64Array {
    let level = 0;
    return noise(seed, 8000).map((error, i) => {
      level = 0.7 * level + 0.6 * error;
      return Math.round(20 * Math.exp(1.1 * level) * (1 + 0.5 * Math.sin((2 * Math.PI * i) / 288)));
    });
  }

  test('a job that runs a little early or late each night is usual', () => {
    for (const seed of [1, 2, 3])
      expect(
        detect(emptied(seed), { calendar: [12, 288, 2016] }).findings.filter(({ start }) => start > 288),
      ).toEqual([]);
  });

  test('a value far above all others is found in a heavy tail, which has no finding without it', () => {
    for (const seed of [1, 3]) {
      const values = bursts(seed);
      expect(detect(values, { calendar: [12, 288, 2016] }).findings).toEqual([]);
      const most = values.reduce((a, b) => Math.max(a, b));
      const burst = withStretch(values, 5003, 5007, (_, i) => 4 * most * Math.exp((5003 - i) / 2));
      const [worst] = detect(burst, { calendar: [12, 288, 2016] }).findings;
      expect(worst).toMatchObject({ start: 5003, direction: 'above' });
    }
  });

  test('fluctuations that grow are found, those that have always grown are the usual course', () => {
    const grows = noise(4, 2000).map((error, i) => error * (1 + Math.max(0, (i - 1000) / 600)));
    expect(detect(grows).findings).toMatchObject([{ kind: 'variance', direction: 'above', end: 2000 }]);
    const always = noise(4, 2000).map((error, i) => error * Math.exp(i / 1000));
    expect(detect(always).findings).toEqual([]);
  });

  test.each([
    ['in the middle', 4000, 2000, 2400],
    ['an eighth of the recording', 2000, 800, 1050],
    ['to the end', 2000, 1700, 2000],
    ['at the beginning', 2000, 0, 300],
  ])(
    'noise of a tenth, or of six times its size, for long is one change of variance: %s',
    (_, n, from, to) => {
      for (const seed of [1, 2, 3]) {
        for (const factor of [0.1, 6]) {
          if (factor > 1 && (from === 0 || to === n)) continue;
          const values = noise(seed, n).map(
            (error, i) => 3 * Math.sin(i / 15) + error * (i >= from && i < to ? factor : 1),
          );
          const { findings } = detect(values);
          expect(findings[0]).toMatchObject({ kind: 'variance', direction: factor > 1 ? 'above' : 'below' });
          expect(findings.length).toBeLessThanOrEqual(2);
          const [{ start, end }] = findings as [(typeof findings)[0]];
          const common = Math.min(end, to) - Math.max(start, from);
          expect(common / (Math.max(end, to) - Math.min(start, from))).toBeGreaterThan(0.4);
        }
      }
    },
  );

  test('a second incident, which goes on, is not hidden by the first one, nor taken for a season', () => {
    const values = withStretch(
      withStretch(noise(5, 450), 83, 107, (value) => value + 40),
      424,
      450,
      (value) => value + 40,
    );
    const { findings, seasons } = detect(values, { calendar: [4, 96, 672] });
    expect(seasons).toEqual([]);
    expect(findings.map(({ start, end, ongoing }) => [start, end, ongoing]).sort()).toEqual([
      [424, 450, true],
      [83, 107, false],
    ]);
  });

  test('a change with a weekend is not reported where fewer than two weeks are known', () => {
    const values = withStretch(days(6, 960), 480, 672, (value) => value / 2);
    const calendar = [4, 96, 672];
    expect(detect(values, { calendar }).findings.length).toBeGreaterThan(0);
    expect(detect(values, { calendar, weekends: [[480, 672]] }).findings).toEqual([]);
    expect(detect(values, { calendar, weekends: [[340, 532]] }).findings.length).toBeGreaterThan(0);
    // Hours alone are no weekend.
    const outage = withStretch(days(6, 960), 640, 672, (value) => value / 4);
    expect(detect(outage, { calendar, weekends: [[480, 672]] }).findings).toMatchObject([{ start: 640 }]);
  });

  test('a level that went elsewhere and returns behind a spike is one episode that has ended', () => {
    const random = new Random(12, 'return');
    const values = Float64Array.from({ length: 720 }, (_, i) => {
      const level = i >= 290 && i < 566 ? 1.2 : -0.8;
      return (i === 566 ? 1.9 : level) + 0.1 * random.normal();
    });
    const { findings } = detect(values);
    expect(findings[0]).toMatchObject({ kind: 'level', direction: 'above', start: 290, ongoing: false });
    expect(findings.filter(({ ongoing }) => ongoing)).toEqual([]);
  });

  test.each([0, 20])('a dip inside a level is a finding of its own, season of ±%i', (swing) => {
    const [day, start] = [288, 4 * 288 + 37];
    const random = new Random(1, 'inside');
    const values = Float64Array.from({ length: 6 * day }, (_, i) => {
      const level = i >= start && i < start + 220 ? (i >= start + 100 && i < start + 106 ? -40 : 19) : 0;
      return 100 + swing * Math.sin((2 * Math.PI * i) / day) + level + 3 * random.normal();
    });
    const options = { calendar: [12, day, 7 * day] };
    const below = { start: start + 100, end: start + 106, direction: 'below' };
    expect(detect(values, options).findings).toMatchObject([below, { kind: 'level', direction: 'above' }]);
    expect(detect(values, { ...options, direction: 'below' }).findings).toMatchObject([below]);
  });

  test.each([120, 70, 60])('a departure to %i inside a level of 90 over 50 is one of its own', (inside) => {
    const random = new Random(2, 'inside');
    const values = Float64Array.from({ length: 1300 }, (_, i) => {
      const usual = i < 900 ? 50 : i >= 1040 && i < 1046 ? inside : 90;
      return usual + random.normal();
    });
    const { findings } = detect(values);
    expect(findings).toHaveLength(2);
    expect(findings.find(({ ongoing }) => ongoing)).toMatchObject({
      direction: 'above',
      start: 900,
      end: 1300,
    });
    const own = findings.find(({ ongoing }) => !ongoing)!;
    expect(own).toMatchObject({ direction: inside > 90 ? 'above' : 'below', start: 1040, end: 1046 });
    expect(Math.abs(own.expected.value - 90)).toBeLessThan(1);
  });

  test('a level under a weekly season goes on for as long as it lasts', () => {
    const [day, start] = [96, 25 * 96 + 19];
    const random = new Random(4, 'weekly level');
    const values = Float64Array.from({ length: 35 * day }, (_, i) => {
      const share = Math.floor(i / day) % 7 < 5 ? 1 : 0.45;
      const usual = share * (300 + 200 * Math.sin(2 * Math.PI * (i / day - 1 / 3)));
      return usual + 15 * random.normal() + (i >= start ? 350 : 0);
    });
    for (let end = start + 2 * day; end <= values.length; end += 2 * day) {
      const { findings } = detect(values.slice(0, end), { calendar: [4, day, 7 * day] });
      expect(findings.filter(({ ongoing }) => ongoing)).toMatchObject([{ direction: 'above' }]);
    }
  });

  test.each([1, 24, 330])('a spike inside a small level is found %i samples later', (later) => {
    const random = new Random(3, 'spike inside');
    const values = Float64Array.from({ length: 2551 + later }, (_, i) =>
      i >= 2546 && i < 2551 ? 10 : 7 + 0.2 * random.normal() + (i >= 2073 ? 0.9 : 0),
    );
    const { findings } = detect(values);
    expect(findings).toHaveLength(2);
    const own = findings.find(({ ongoing, start }) => !ongoing || start > 2500)!;
    expect(Math.abs(own.start - 2546)).toBeLessThan(3);
    expect(own.end - own.start).toBeLessThan(10);
    expect(findings.find(({ ongoing }) => ongoing)).toMatchObject({ kind: 'level', end: values.length });
  });

  test.each([
    ['', 0, 0],
    [' that begins with a larger spike', 0, 60],
    [' of a season', 20, 0],
    [' of a season, that begins with a larger spike', 20, 60],
  ])('a level%s is ongoing from its first hours for two days', (_, swing, spike) => {
    const [day, start, shift] = [288, 4 * 288 + 37, 19];
    const random = new Random(1, 'ongoing');
    const values = Float64Array.from({ length: 6 * day }, (_, i) => {
      const level = i >= start ? shift + (i < start + 4 ? spike : 0) : 0;
      return 100 + swing * Math.sin((2 * Math.PI * i) / day) + level + 3 * random.normal();
    });
    for (let end = start + 36; end <= values.length; end += 60) {
      const { findings } = detect(values.slice(0, end), { calendar: [12, day, 7 * day] });
      expect(findings.filter(({ ongoing }) => ongoing)).toMatchObject([
        { kind: 'level', direction: 'above' },
      ]);
    }
  });

  test('a day that stands still is no weekend because one begins behind it, or goes on behind it', () => {
    const calendar = [4, 96, 672];
    const still = (start: number, end: number): Float64Array =>
      withStretch(days(6, 960), start, end, () => 40.25);
    for (const [start, end] of [
      [386, 480],
      [480, 770],
    ] as const) {
      expect(detect(still(start, end), { calendar, weekends: [[480, 672]] }).findings[0]).toMatchObject({
        start,
        end,
      });
    }
    // Closed from Saturday to Monday; nights are as low as the weekend, so that its ends do not show.
    expect(detect(still(490, 668), { calendar, weekends: [[480, 672]] }).findings).toEqual([]);
    expect(detect(still(480, 672), { calendar, weekends: [[480, 672]] }).findings).toEqual([]);
  });

  test.each([
    [300, 900],
    [500, 800],
    [600, 950],
  ])(
    'a level from %i to %i of 1000 samples that returns is over, and its way back is no finding',
    (from, to) => {
      const random = new Random(3, 'returns');
      const values = Float64Array.from(
        { length: 1000 },
        (_, i) => 20 + random.normal() + (i >= from && i < to ? 8 : 0),
      );
      const { findings, expected } = detect(values);
      expect(findings).toMatchObject([
        { kind: 'level', direction: 'above', start: from, end: to, lasting: false, ongoing: false },
      ]);
      expect(expected[999]).toBeCloseTo(20, 0);
    },
  );

  test.each([
    ['steadily', 1, 0.5],
    ['steeply, from within a part', 1, 1.1],
    ['ever slower', 0.5, 0.5],
    ['ever faster', 2, 0.5],
  ])('a leak that rises %s to the end is one trend', (_, power, slope) => {
    for (const seed of [6, 8]) {
      const random = new Random(seed, 'leak');
      const values = Float64Array.from(
        { length: 1600 },
        (_, i) => 500 + random.normal(0, 5) + 695 * slope * (Math.max(0, i - 905) / 695) ** power,
      );
      const [leak, ...others] = detect(values).findings;
      expect(leak).toMatchObject({ kind: 'trend', direction: 'above', end: 1600, ongoing: true });
      expect(Math.abs(leak!.start - 905)).toBeLessThan(40);
      expect(others).toEqual([]);
    }
  });

  test.each([0.05, 0.2, 1])(
    'a leak of %d a sample is told with its extent, not the level after its restart',
    (slope) => {
      const values = noise(81, 2000).map(
        (error, i) => 500 + 3 * error + (i < 1600 ? Math.max(0, i - 1000) * slope : 0),
      );
      const [leak, ...others] = detect(values).findings;
      expect(leak).toMatchObject({
        kind: 'trend',
        direction: 'above',
        end: 1600,
        lasting: false,
        ongoing: false,
      });
      expect(Math.abs(leak!.start - 1000)).toBeLessThan(60);
      expect(leak!.says.fact.text).toMatch(/^rose steadily to /);
      expect(others).toEqual([]);
    },
  );

  test('a spike on a leak that has ended is found apart from it', () => {
    const values = noise(82, 2000).map(
      (error, i) => 500 + 3 * error + (i < 1600 ? Math.max(0, i - 1000) * 0.2 : 0) + (i === 1400 ? 90 : 0),
    );
    expect(detect(values).findings.map(({ kind, start }) => [kind, kind === 'spike' ? start : 0])).toEqual([
      ['trend', 0],
      ['spike', 1400],
    ]);
  });

  test('a slow rise that a step ends is told as above, where it is too rough for a trend', () => {
    let wander = 0;
    const values = noise(83, 1500).map((error, i) => {
      wander = 0.8 * wander + 3 * error;
      return 500 + wander + (i < 1356 ? Math.max(0, i - 730) * 0.1 : 0);
    });
    const [worst] = detect(values).findings;
    expect(worst).toMatchObject({ direction: 'above', lasting: false });
    expect(Math.abs(worst!.end - 1356)).toBeLessThan(5);
  });

  test('a leak that begins with a weekend is no weekend', () => {
    const values = noise(84, 1500).map((error, i) => 500 + 5 * error + Math.max(0, i - 720) * 0.2);
    const [leak] = detect(values, { calendar: [6, 144, 1008], weekends: [[720, 1008]] }).findings;
    expect(leak).toMatchObject({ kind: 'trend', direction: 'above', ongoing: true });
  });
});

describe('series that switch at no fixed time', () => {
  test('a disk that is not emptied in time is found', () => {
    const [worst] = detect(disk(3, 150, [1200, 1500])).findings;
    expect(worst!.start).toBeGreaterThan(1150);
    expect(worst!.end).toBeLessThan(1550);
  });

  test.each([
    ['a load', switching(5, 60, 60), 400, 1],
    ['a load that is on for short', switching(6, 12, 35), 150, 1],
    ['a job with noise', jobs(7), 150, 45],
  ])('%s that stays on for far longer than ever is found with its extent', (_, values, length, level) => {
    const draw = new Random(1, 'stuck');
    const stuck = withStretch(values, 1200, 1200 + length, () => (level === 1 ? 1 : draw.normal(45, 3)));
    const [worst] = detect(stuck).findings;
    expect(Math.abs(worst!.start - 1200)).toBeLessThan(60);
    expect(Math.abs(worst!.end - 1200 - length)).toBeLessThan(60);
  });

  test('days of sun and cloud repeat by the day and not by nine of them', () => {
    for (let seed = 0; seed < 6; seed++) {
      const draw = new Random(seed, 'clouds');
      let clear = 1;
      const values = Float64Array.from({ length: 1440 }, (_, i) => {
        if (i % 48 === 0) clear = draw.pick([1, 1, 0.9, 0.8, 0.3, 0.5]);
        const height = Math.max(0, Math.sin(((i % 48) / 2 - 6) * (Math.PI / 12)));
        return Math.round(5000 * height * clear * (clear > 0.8 ? 1 : draw.between(0.6, 1.2)));
      });
      expect(detect(values, { calendar: [48, 336] }).seasons).toEqual([48]);
    }
  });
});

/** Hourly load of a year's part: a daily course, calmer weekends, and a level that wanders. */
function load(seed: number, days = 120): Float64Array {
  const random = new Random(seed, 'load');
  let level = 0;
  return Float64Array.from({ length: 24 * days }, (_, i) => {
    level = 0.98 * level + 12 * random.normal();
    const hour = i % 24;
    const course =
      250 * Math.sin((2 * Math.PI * (hour - 9)) / 24) + 120 * Math.sin((4 * Math.PI * (hour - 3)) / 24);
    return 900 + course - (Math.floor(i / 24) % 7 >= 5 ? 180 : 0) + level + 15 * random.normal();
  });
}

test('a single odd hour is found, also where the course of the day is steep', () => {
  for (const seed of [1, 2, 3, 4]) {
    const values = load(seed);
    expect(detect(values, { calendar: [24, 168] }).findings.filter(({ kind }) => kind === 'spike')).toEqual(
      [],
    );
    const at = 24 * 80 + 5 + 3 * seed;
    values[at]! += 450;
    const { findings } = detect(values, { calendar: [24, 168] });
    expect([seed, findings.filter(({ start, end }) => start <= at && at < end)]).toMatchObject([
      seed,
      [{ kind: 'spike' }],
    ]);
  }
});

/** Rounded readings whose level wanders. */
function wandering(seed: number): Float64Array {
  const random = new Random(seed, 'wandering');
  let level = 0;
  return Float64Array.from({ length: 2700 }, (_, i) => {
    level = 0.995 * level + 0.15 * random.normal();
    return Math.round(10 * (21 + 2 * Math.sin((2 * Math.PI * i) / 288) + level)) / 10;
  });
}

test('an episode between two jumps is found on a level that wanders', () => {
  for (const seed of [1, 2, 3, 4]) {
    const values = wandering(seed).map((value, i) => (i >= 2000 && i < 2140 ? value + 8 : value));
    const { findings } = detect(values, { calendar: [12, 288] });
    const found = findings.filter(({ start, end }) => start <= 2005 && end >= 2135);
    expect([seed, found]).toMatchObject([seed, [{ direction: 'above' }]]);
  }
});

test('two working days as low as weekends are found in daily values', () => {
  for (const seed of [1, 2, 3, 4]) {
    const random = new Random(seed, 'working days');
    const share = [1, 1.05, 1.02, 1, 0.95, 0.5, 0.5];
    const at = 7 * 58 + 1; // a Tuesday
    const values = Float64Array.from({ length: 511 }, (_, i) => {
      const usual = 12_000 * share[i % 7]! * (1 + 0.1 * Math.sin(i / 58)) * (1 + 0.04 * random.normal());
      return i === at || i === at + 1 ? 0.4 * usual : usual;
    });
    const { findings } = detect(values, { calendar: [7] });
    expect([seed, findings.filter(({ start, end }) => start <= at && end > at)]).toMatchObject([
      seed,
      [{ direction: 'below' }],
    ]);
  }
});

test('fluctuations that grow are found on a course of the day', () => {
  for (const seed of [1, 2, 3, 4]) {
    const random = new Random(seed, 'grows');
    const values = Float64Array.from({ length: 288 * 14 }, (_, i) => {
      const noise = i < 288 * 10 ? 1 : 1 + (3 * (i - 288 * 10)) / (288 * 4);
      return 100 + 20 * Math.sin((2 * Math.PI * i) / 288) + noise * random.normal();
    });
    const { findings } = detect(values, { calendar: [12, 288, 2016] });
    expect([seed, findings[0]]).toMatchObject([seed, { kind: 'variance', ongoing: true }]);
  }
});

test('a level that ends is no drift, a leak that ends is one', () => {
  for (let seed = 1; seed <= 24; seed++) {
    const draw = new Random(seed, 'box');
    const length = [12, 20, 40][seed % 3]!;
    const [start, height] = [draw.integer(200, 500), (seed % 2 === 0 ? 1 : -1) * draw.between(8, 11)];
    const base = Float64Array.from({ length: 600 }, () =>
      seed % 4 === 0 ? draw.between(-1.7, 1.7) : draw.normal(),
    );
    const box = detect(withStretch(base, start, start + length, (value) => value + height)).findings;
    expect([seed, box.map(({ kind }) => kind)]).not.toEqual([seed, expect.arrayContaining(['trend'])]);
    expect([seed, box[0]!.start >= start - 3 && box[0]!.end <= start + length + 3]).toEqual([seed, true]);
  }
  for (const seed of [1, 2, 3, 4, 5, 6]) {
    const leak = withStretch(noise(seed, 1000), 500, 700, (value, i) => value + (i - 500) / 20);
    expect([seed, detect(leak).findings]).toMatchObject([seed, [{ kind: 'trend', direction: 'above' }]]);
  }
});

test('seven dips that stand apart from the noise do not hide each other, and noise with far values stays usual', () => {
  const starts = [300, 900, 3100, 3900, 4300, 6600, 7500];
  for (const seed of [1, 2, 3]) {
    const usual = noise(seed, 8000);
    const far = 1.75 * usual.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    const dips = usual.map((value, i) => (starts.includes(i) ? -far : value));
    expect([seed, detect(usual).findings]).toEqual([seed, []]);
    expect([
      seed,
      detect(dips)
        .findings.map(({ start }) => start)
        .sort((a, b) => a - b),
    ]).toEqual([seed, starts]);
  }
  const found = Array.from({ length: 8 }, (_, seed) => {
    const parts = [1, 2, 3, 4].map((k) => noise(1000 * k + seed, 3000));
    const student = noise(seed, 3000).map(
      (value, i) => value / Math.sqrt(parts.reduce((sum, part) => sum + part[i]! ** 2, 0) / 4),
    );
    return detect(student).findings.length;
  });
  expect(found.filter((count) => count > 0).length).toBeLessThanOrEqual(1);
});
