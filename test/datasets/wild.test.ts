import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { checkExample, exampleLine, parseExample } from '../../datasets/example.ts';
import { addCalendar, addRegimes } from '../../datasets/generators/wild/components.ts';
import { COMPONENTS, type Draft, emptyDraft } from '../../datasets/generators/wild/draft.ts';
import { FAMILIES } from '../../datasets/generators/wild/family.ts';
import { makeSensor } from '../../datasets/generators/wild/sensor.ts';
import {
  BEYOND_USUAL,
  longestStill,
  Usual,
  usualRange,
  VISIBLE,
  VISIBLE_STILL,
} from '../../datasets/generators/wild/visibility.ts';
import {
  WILD_MINIMUM_LENGTH,
  WILD_PARAMETERS,
  type WildSeries,
  wildSeries,
} from '../../datasets/generators/wild/wild.ts';
import { openExamples } from '../../datasets/source.ts';
import { SPLITS } from '../../datasets/split.ts';
import { Random } from '../../src/ground/random.ts';
import { ANOMALY_CLASSES, type AnomalyGold, DEPARTURE_KINDS, type Interval } from '../../src/ground/types.ts';

const COUNT = 2000;
const valuesOf = ({ example }: WildSeries): Float64Array => example.channels[0]!;
const goldOf = ({ example }: WildSeries): AnomalyGold => example.gold as AnomalyGold;
const factsOf = ({ example }: WildSeries) => example.facts!;

let drawn: WildSeries[] | undefined;
function sample(): WildSeries[] {
  drawn ??= Array.from({ length: COUNT }, (_, i) => wildSeries(42, 'test', i, 600));
  return drawn;
}

/** The runs of samples in which two series differ; points that are missing in both do not. */
function differences(a: Float64Array, b: Float64Array): number[] {
  return Array.from(a.keys()).filter((t) => !Object.is(a[t], b[t]));
}

const addresses = fc.record({
  seed: fc.nat({ max: 2 ** 40 }),
  split: fc.constantFrom(...SPLITS),
  index: fc.nat({ max: 2 ** 32 - 1 }),
  length: fc.integer({ min: WILD_MINIMUM_LENGTH, max: 2500 }),
});

describe('a series of wild', () => {
  it('differs from its unmodified twin in its intervals alone, at their first and last sample', () => {
    fc.assert(
      fc.property(addresses, ({ seed, split, index, length }) => {
        const series = wildSeries(seed, split, index, length);
        const { intervals } = goldOf(series);
        const different = differences(valuesOf(series), series.unmodified);
        const covered = (t: number): boolean => intervals.some(([a, b]) => t >= a && t < b);
        expect(different.every(covered)).toBe(true);
        for (const [a, b] of intervals) {
          expect(different).toContain(a);
          expect(different).toContain(b - 1);
        }
      }),
      { numRuns: 150 },
    );
  });

  it('is a valid example: sorted intervals with a gap, facts for each, no number but where it is finite or missing in both', () => {
    fc.assert(
      fc.property(addresses, ({ seed, split, index, length }) => {
        const series = wildSeries(seed, split, index, length);
        checkExample(series.example);
        const { intervals, class: label } = goldOf(series);
        const { departures, periods, step, range } = factsOf(series);
        expect(valuesOf(series)).toHaveLength(length);
        expect(departures).toHaveLength(intervals.length);
        for (const [k, [start, end]] of intervals.entries()) {
          if (k > 0) expect(start).toBeGreaterThanOrEqual(intervals[k - 1]![1] + 3);
          expect(end - start).toBeLessThanOrEqual(WILD_PARAMETERS.longest * length);
          const { kind, severity, visibility, observed, unmodified } = departures[k]!;
          expect(severity).toBeGreaterThan(0);
          expect(visibility).toBeGreaterThanOrEqual(kind === 'flat line' ? VISIBLE_STILL : VISIBLE);
          const inside = valuesOf(series)
            .slice(start, end)
            .filter((value) => !Number.isNaN(value));
          expect(observed[0]).toBe(Math.min(...inside));
          expect(observed[2]).toBe(Math.max(...inside));
          expect(unmodified[0]).toBeLessThanOrEqual(unmodified[2]);
          // A stretch in another order may have the same extremes and the same mean.
          expect(valuesOf(series).slice(start, end)).not.toEqual(series.unmodified.slice(start, end));
        }
        expect(label === 'normal').toBe(intervals.length === 0);
        expect([...periods]).toEqual([...periods].sort((a, b) => a - b));
        for (const period of periods) expect(period).toBeGreaterThan(1);
        expect(step).toBeGreaterThan(0);
        expect(range[0]).toBeLessThanOrEqual(range[1]);
        const missing = valuesOf(series).filter((value) => Number.isNaN(value)).length;
        expect(missing > 0).toBe(factsOf(series).components.includes('gaps'));
        expect(missing).toBeLessThanOrEqual(0.1 * length);
        expect(series.unmodified.map((value) => (Number.isNaN(value) ? 1 : 0))).toEqual(
          valuesOf(series).map((value) => (Number.isNaN(value) ? 1 : 0)),
        );
      }),
      { numRuns: 150 },
    );
  });

  it('is the same whatever is made beside it, and another one for every seed, split and index', () => {
    const wanted = wildSeries(7, 'train', 5);
    for (let i = 0; i < 5; i++) wildSeries(7, 'train', i);
    expect(wildSeries(7, 'train', 5)).toEqual(wanted);
    for (const other of [wildSeries(8, 'train', 5), wildSeries(7, 'test', 5), wildSeries(7, 'train', 6)]) {
      expect(valuesOf(other)).not.toEqual(valuesOf(wanted));
    }
    const source = openExamples({ name: 'wild', split: 'train', seed: 7, length: 1000, offset: 3, count: 4 });
    expect(source.at(2)).toEqual(wanted.example);
  });

  it('comes back from its line with its facts, and a wrong fact is refused by name', () => {
    const { example } = sample().find((one) => goldOf(one).intervals.length === 2)!;
    const line = exampleLine(example);
    expect(parseExample(line)).toEqual(example);
    const { kind } = example.facts!.departures[0]!;
    expect(() => parseExample(line.replace(`"kind":"${kind}"`, '"kind":"hiccup"'))).toThrow(
      /facts\.departures\.0\.kind: got "hiccup", expected/,
    );
    const facts = { ...example.facts!, departures: example.facts!.departures.slice(1) };
    expect(() => checkExample({ ...example, facts })).toThrow(/facts\.departures: 1 for 2 intervals/);
    expect(() => parseExample(line.replace('"step":', '"pace":'))).toThrow(/facts\.step: got/);
  });

  it('says no on lengths below the least, and makes long ones', () => {
    expect(valuesOf(wildSeries(1, 'train', 0, 10_000))).toHaveLength(10_000);
    expect(() => wildSeries(1, 'train', 0, 99)).toThrow(
      /length: got 99, expected an integer of at least 100/,
    );
  });
});

describe('wild', () => {
  it('has 35 to 50 % normal series, whatever their length', () => {
    const share = (series: readonly WildSeries[]): number =>
      series.filter((one) => goldOf(one).class === 'normal').length / series.length;
    const of = (length: number, count: number) =>
      share(Array.from({ length: count }, (_, i) => wildSeries(3, 'train', i, length)));
    for (const one of [share(sample()), of(100, 1500), of(1000, 700), of(4000, 200)]) {
      expect(one).toBeGreaterThan(0.35);
      expect(one).toBeLessThan(0.5);
    }
  });

  it('has every part, every kind of anomaly, every class, and none to four anomalies', () => {
    const count = <T>(items: readonly T[]): Map<T, number> => {
      const counts = new Map<T, number>();
      for (const item of items) counts.set(item, (counts.get(item) ?? 0) + 1);
      return counts;
    };
    const parts = count(sample().flatMap((one) => [...factsOf(one).components]));
    for (const name of COMPONENTS) expect([name, (parts.get(name) ?? 0) >= 10]).toEqual([name, true]);
    const kinds = count(sample().flatMap((one) => factsOf(one).departures.map(({ kind }) => kind)));
    for (const name of DEPARTURE_KINDS) expect([name, (kinds.get(name) ?? 0) >= 40]).toEqual([name, true]);
    const classes = count(sample().map((one) => goldOf(one).class));
    for (const name of ANOMALY_CLASSES) expect([name, (classes.get(name) ?? 0) >= 40]).toEqual([name, true]);
    const numbers = count(sample().map((one) => goldOf(one).intervals.length));
    for (const k of [0, 1, 2, 3, 4]) expect(numbers.get(k) ?? 0).toBeGreaterThan(5);
    expect(new Set(sample().map(({ family }) => family))).toEqual(new Set(Object.keys(FAMILIES)));
  });

  it('has what looks like an anomaly in series that are normal', () => {
    const normal = sample().filter((one) => goldOf(one).class === 'normal');
    for (const name of ['holidays', 'regimes', 'rare jobs', 'changing amplitude', 'outliers', 'bursts']) {
      expect(normal.some((one) => factsOf(one).components.includes(name))).toBe(true);
    }
    // And changes that cannot be seen.
    expect(normal.some(({ unseen }) => unseen.length > 0)).toBe(true);
  });

  it('has anomalies of one sample and of a fifth of the series, and severities from slight to extreme', () => {
    const lengths = sample().flatMap((one) => goldOf(one).intervals.map(([a, b]) => b - a));
    expect(Math.min(...lengths)).toBe(1);
    expect(Math.max(...lengths)).toBeGreaterThan(0.18 * 600);
    const severities = sample()
      .flatMap((one) => factsOf(one).departures.map(({ severity }) => severity))
      .sort((a, b) => a - b);
    expect(severities[Math.floor(0.1 * severities.length)]).toBeLessThan(2);
    expect(severities[Math.floor(0.9 * severities.length)]).toBeGreaterThan(10);
  });

  it('has any unit, whole numbers and rounded ones', () => {
    const widths = sample().map((one) => {
      const [low, high] = factsOf(one).range;
      return high - low;
    });
    expect(widths.some((width) => width > 0 && width < 1e-4)).toBe(true);
    expect(widths.some((width) => width > 1e7)).toBe(true);
    const all = sample()
      .flatMap((one) => [...valuesOf(one).slice(0, 3)])
      .filter((value) => !Number.isNaN(value));
    expect(all.every((value) => Math.abs(value) < 1e13)).toBe(true);
    const whole = sample().filter((one) =>
      valuesOf(one).every((value) => Number.isNaN(value) || Number.isInteger(value)),
    );
    expect(whole.length).toBeGreaterThan(COUNT / 10);
    expect(whole.length).toBeLessThan(COUNT / 2);
  });
});

/** White noise of deviation 1 around 0 that a sensor passes on as it is, with a pattern if any. */
function whiteDraft(n: number): { draft: Draft; clean: Float64Array } {
  const random = new Random(5, 'white');
  const draft = emptyDraft(random, n, { step: 60, start: 0 });
  for (let t = 0; t < n; t++) {
    draft.noise[t] = random.normal();
    draft.deviation[t] = 1;
  }
  return { draft, clean: draft.noise.slice() };
}
const PLAIN = {
  read: (latent: Float64Array) => latent,
  expected: (x: number) => x,
  spread: (_: number, deviation: number) => deviation,
  given: (value: number) => value,
  quantum: 0,
};
const usualOf = (draft: Draft, clean: Float64Array): Usual =>
  new Usual(clean, usualRange(clean), draft, PLAIN);
const shifted = (clean: Float64Array, [start, end]: Interval, by: number): Float64Array =>
  clean.map((value, t) => (t >= start && t < end ? value + by : value));

describe('the visibility of a change', () => {
  const { draft, clean } = whiteDraft(4000);
  const usual = usualOf(draft, clean);

  it('is size over noise times the root of the length in white noise, and severity is size over noise', () => {
    for (const [length, size] of [
      [100, 0.9],
      [25, 3],
    ] as const) {
      const place: Interval = [700, 700 + length];
      const { severity, visibility } = usual.judge(shifted(clean, place, size), ...place, 'values');
      expect(Math.abs(severity / size - 1)).toBeLessThan(0.12);
      expect(Math.abs(visibility / (size * Math.sqrt(length)) - 1)).toBeLessThan(0.12);
    }
  });

  it('lets a long slight shift be seen, and a short one of the same size not', () => {
    const judge = (length: number) =>
      usual.judge(shifted(clean, [900, 900 + length], 1), 900, 900 + length, 'values').visible;
    expect(judge(120)).toBe(true);
    expect(judge(12)).toBe(false);
  });

  it('counts the steps of a walk, not how far it gets', () => {
    const walk = clean.slice();
    for (let t = 1; t < walk.length; t++) walk[t] = walk[t - 1]! + clean[t]!;
    const events = { ...draft, noise: new Float64Array(4000), events: walk };
    const own = usualOf({ ...events, deviation: new Float64Array(4000) }, walk);
    const long: Interval = [1000, 1500];
    const width = usualRange(walk)[1] - usualRange(walk)[0];
    const { visibility } = own.judge(shifted(walk, long, 4), ...long, 'values');
    // One step up and one down, each against a step of the walk or what a picture shows.
    expect(visibility).toBeLessThan((1.1 * 4 * Math.SQRT2) / Math.max(1, 0.01 * width));
    expect(own.judge(shifted(walk, long, width), ...long, 'values').visible).toBe(true);
  });

  it('asks a lone value to be further out than such values are', () => {
    const far = clean.slice();
    for (const t of [100, 650, 1200, 3000, 3400]) far[t] = far[t]! + 12;
    const own = usualOf({ ...draft }, far);
    const judge = (by: number) => own.judge(shifted(far, [2000, 2001], by), 2000, 2001, 'values').visible;
    expect(judge(11)).toBe(false);
    expect(judge(-11)).toBe(true);
    expect(judge(12 * BEYOND_USUAL + 4)).toBe(true);
    expect(usual.judge(shifted(clean, [2000, 2001], 11), 2000, 2001, 'values').visible).toBe(true);
  });

  it('asks values that stand still to do so for longer than ever', () => {
    const steps = clean.map((_, t) => Math.floor(t / 40) % 7);
    const own = usualOf(
      { ...draft, noise: new Float64Array(4000), deviation: new Float64Array(4000) },
      steps,
    );
    const judge = (length: number) =>
      own.judge(steps.slice().fill(3, 500, 500 + length), 500, 500 + length, 'still').visible;
    expect(longestStill(steps, 0, 4000)).toBe(40);
    expect(judge(50)).toBe(false);
    expect(judge(70)).toBe(true);
  });

  it('takes noise that is twice as loud for a change over many samples, not over a few', () => {
    const louder = (length: number) => {
      const changed = clean.map((value, t) => (t >= 300 && t < 300 + length ? 2 * value : value));
      return usual.judge(changed, 300, 300 + length, 'noise').visible;
    };
    expect(louder(400)).toBe(true);
    expect(louder(12)).toBe(false);
  });

  it('takes noise that no picture shows for none, however much louder it gets', () => {
    const line = { ...draft, pattern: clean.map((_, t) => 0.5 * t) };
    const values = clean.map((value, t) => value + 0.5 * t);
    const louder = values.map((value, t) => (t >= 300 && t < 700 ? value + 2 * clean[t]! : value));
    expect(
      usual.judge(
        clean.map((value, t) => (t >= 300 && t < 700 ? 3 * value : value)),
        300,
        700,
        'noise',
      ).visible,
    ).toBe(true);
    expect(usualOf(line, values).judge(louder, 300, 700, 'noise').visible).toBe(false);
  });

  it('leaves a change out that no picture shows, however little noise there is', () => {
    const wave = clean.map((_, t) => 10 * Math.sin(t / 9));
    const quiet = {
      ...draft,
      noise: new Float64Array(4000),
      deviation: new Float64Array(4000),
      pattern: wave,
    };
    const own = usualOf(quiet, wave);
    expect(own.judge(shifted(wave, [50, 51], 0.5), 50, 51, 'values').visible).toBe(false);
    expect(own.judge(shifted(wave, [50, 51], 3), 50, 51, 'values').visible).toBe(true);
  });
});

describe('what is usual', () => {
  it('holds every level of a series of regimes at least twice', () => {
    for (let seed = 0; seed < 30; seed++) {
      const draft = emptyDraft(new Random(seed, 'regimes'), 900, { step: 60, start: 0 });
      addRegimes(draft, 1);
      const stretches = new Map<number, number>();
      for (let t = 0; t < 900; t++) {
        const value = draft.events[t]!;
        if (draft.events[t + 3] === value && draft.events[t - 1] !== value) {
          stretches.set(value, (stretches.get(value) ?? 0) + 1);
        }
      }
      expect([...stretches.values()].every((count) => count >= 2)).toBe(true);
      expect(stretches.size).toBeGreaterThanOrEqual(2);
    }
  });

  it('has holidays that come at least three times, on days that would be working days', () => {
    let seen = 0;
    for (let seed = 0; seed < 60; seed++) {
      const draft = emptyDraft(new Random(seed, 'holidays'), 24 * 63, { step: 3600, start: 0 });
      addCalendar(draft, 1, 0);
      const mean = (day: number): number =>
        draft.pattern.slice(24 * day, 24 * day + 24).reduce((a, b) => a + b) / 24;
      // Days like the first Sunday among the Tuesdays to Fridays of all weeks; some weekday is the usual one.
      const sunday = mean(6);
      const weekdays = Array.from({ length: 63 }, (_, d) => d).filter((d) => d % 7 < 5);
      const free = weekdays.filter((d) => Math.abs(mean(d) - sunday) < 1e-9);
      if (!draft.components.has('holidays')) continue;
      seen++;
      expect(free.length).toBeGreaterThanOrEqual(3);
      expect(free.length).toBeLessThan(weekdays.length / 3);
    }
    expect(seen).toBeGreaterThan(5);
  });

  it('has counts that are whole, never negative, and as many as their rate says', () => {
    const draft = emptyDraft(new Random(3, 'counts'), 5000, { step: 60, start: 0 });
    for (let t = 0; t < 5000; t++) draft.level[t] = t % 2;
    const sensor = makeSensor(draft, { counts: { rate: 9, clumped: false } });
    const counts = sensor.read(draft.level);
    expect(counts.every((value) => Number.isInteger(value) && value >= 0)).toBe(true);
    const high = counts.filter((_, t) => t % 2 === 1);
    const mean = high.reduce((a, b) => a + b) / high.length;
    const rate = sensor.expected(1);
    expect(Math.abs(mean - rate)).toBeLessThan(5 * Math.sqrt(rate / high.length));
    const variance = high.reduce((sum, value) => sum + (value - mean) ** 2, 0) / high.length;
    expect(Math.abs(variance / rate - 1)).toBeLessThan(0.2);
  });
});

describe('wild-long', () => {
  const spans = (name: string, length: number): number[] => {
    const source = openExamples({ name, split: 'train', seed: 3, length, count: 150 });
    return Array.from(source).flatMap(({ gold }) =>
      gold.kind === 'anomaly' ? gold.intervals.map(([start, end]) => end - start) : [],
    );
  };
  const median = (list: readonly number[]): number => list.toSorted((a, b) => a - b)[list.length >> 1]!;

  it('has anomalies of any size, so that half of them are far shorter than those of wild at that length', () => {
    const [long, relative] = [spans('wild-long', 8000), spans('wild', 8000)];
    expect(long.length).toBeGreaterThan(80);
    expect(median(long)).toBeLessThan(0.6 * median(relative));
    expect(Math.max(...long)).toBeGreaterThan(400);
  });

  it('is wild in series of its usual length', () => {
    expect(spans('wild-long', 1000)).toEqual(spans('wild', 1000));
  });
});
