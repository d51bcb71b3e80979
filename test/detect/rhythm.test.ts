/** Rhythms of jobs and teeth, and where they break. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { detect } from '../../src/detect/detect.ts';
import { findRhythm } from '../../src/detect/rhythm.ts';
import { Random } from '../../src/ground/random.ts';

interface Jobs {
  readonly n: number;
  readonly every: number;
  readonly length: number;
  readonly seed: number;
  /** Largest distance of a start from its time. */
  readonly jitter?: number;
  /** Runs that do not happen, and runs at other samples. */
  readonly without?: (run: number) => boolean;
  readonly more?: readonly number[];
}

/** Idle noise with short jobs, whose heights scatter by a factor of two. */
function jobs({ n, every, length, seed, jitter = 0, without = () => false, more = [] }: Jobs): {
  readonly values: Float64Array;
  readonly starts: readonly number[];
} {
  const random = new Random(seed, 'jobs');
  const values = Float64Array.from({ length: n }, () => 5 + 0.2 * random.normal());
  const starts: number[] = [];
  for (let run = 0; (run + 1) * every < n; run++) {
    const at = Math.round((run + 0.5) * every) + random.integer(-jitter, jitter);
    if (!without(run)) starts.push(at);
  }
  for (const at of [...starts, ...more]) {
    const height = 20 + 20 * random.uniform();
    for (let i = at; i < Math.min(n, at + length); i++) values[i] = values[i]! + height;
  }
  return { values, starts };
}

/** Teeth of about `every` samples that drop back to 0; `without`: drops that do not come. */
function teeth(n: number, every: number, seed: number, without: (drop: number) => boolean): Float64Array {
  const random = new Random(seed, 'teeth');
  const values = new Float64Array(n);
  let [height, next, drop] = [0, every, 0];
  for (let i = 0; i < n; i++) {
    if (i === next) {
      if (!without(drop++)) height = 0;
      next += Math.round(every * (0.95 + 0.1 * random.uniform()));
    }
    height += 1;
    values[i] = height + 0.3 * random.normal();
  }
  return values;
}

const found = (values: Float64Array) =>
  detect(values).findings.map(({ start, end, kind, says }) => ({ start, end, kind, says: says.fact.text }));

describe('jobs at equal intervals, of heights that scatter', () => {
  const common = { n: 2400, every: 60, length: 2, seed: 3, jitter: 1 };

  test('are no findings', () => expect(found(jobs(common).values)).toEqual([]));

  test.each([17, 23])('a run that is missing is found where it was due', (missing) => {
    const { values } = jobs({ ...common, without: (run) => run === missing });
    const [finding, ...others] = found(values);
    expect(others).toEqual([]);
    expect(finding).toMatchObject({ kind: 'frequency', says: 'has no peak where one is due' });
    const due = (missing + 0.5) * common.every;
    expect(Math.abs(finding!.start - due)).toBeLessThanOrEqual(2);
    expect(finding!.end - finding!.start).toBeLessThanOrEqual(4);
  });

  test('a run too many is found', () => {
    const { values } = jobs({ ...common, more: [1255] });
    expect(found(values)).toEqual([
      { start: 1255, end: 1257, kind: 'frequency', says: 'has a peak where none is due' },
    ]);
  });

  test('runs that stop are found up to the end', () => {
    const { values, starts } = jobs({ ...common, without: (run) => run >= 30 });
    const [finding] = found(values);
    expect(finding).toMatchObject({ end: 2400, kind: 'frequency' });
    expect(Math.abs(finding!.start - starts.at(-1)! - common.every)).toBeLessThanOrEqual(2);
  });

  test('what may have run among missing samples is not missing', () => {
    const { values, starts } = jobs(common);
    values.fill(Number.NaN, starts[20]! - 2, starts[20]! + 4);
    expect(found(values)).toEqual([]);
  });

  test('states the usual distance, a claim that the report verifies', () => {
    const { values } = jobs({ ...common, without: (run) => run === 17 });
    const [finding] = detect(values).findings;
    expect(finding!.says.context.map(({ text }) => text)).toEqual(['one comes every 60 samples']);
    expect(findRhythm(values)!.every).toBe(60);
  });
});

describe('a sawtooth', () => {
  test('of teeth that vary has no findings', () => {
    expect(found(teeth(2000, 80, 5, () => false))).toEqual([]);
  });

  test('with a drop that is missing rises until the next', () => {
    const values = teeth(2000, 80, 5, (drop) => drop === 11);
    const [finding] = found(values);
    expect(finding!.end - finding!.start).toBeGreaterThan(60);
    expect(finding!.start).toBeGreaterThan(880);
    expect(finding!.end).toBeLessThan(1120);
  });

  test('that stops dropping is found up to the end', () => {
    const values = teeth(2000, 80, 5, (drop) => drop >= 20);
    expect(found(values)[0]!.end).toBeGreaterThan(1980);
  });
});

describe('events that pause or are left out as usual', () => {
  const random = new Random(12, 'pauses');
  const peaks = (n: number, at: (i: number) => boolean): Float64Array =>
    Float64Array.from({ length: n }, (_, i) => (at(i) ? 60 : 5) + random.normal());

  test.each([
    ['four jobs on each working day', peaks(21 * 288, (i) => Math.floor(i / 288) % 7 < 5 && i % 72 === 30)],
    ['one job on each working day', peaks(21 * 24, (i) => Math.floor(i / 24) % 7 < 5 && i % 24 === 9)],
    ['jobs of which one in 25 does not run', peaks(20_000, (i) => i % 20 === 3 && random.uniform() > 0.04)],
  ])('%s are no findings', (_, values) => {
    expect(found(values).filter(({ kind }) => kind === 'frequency')).toEqual([]);
  });

  test('a log that grows slowly on weekends is not due, whatever the time', () => {
    let size = 0;
    const values = Float64Array.from({ length: 504 }, (_, i) => {
      size += Math.floor(i / 24) % 7 < 5 ? 10 + 3 * random.uniform() : 1;
      if (size > 200) size = 0;
      return size;
    });
    expect(found(values).filter(({ kind }) => kind === 'frequency')).toEqual([]);
  });
});

test('peaks at random times hardly ever have a rhythm', () => {
  const withRhythm = Array.from({ length: 200 }, (_, seed) => {
    const random = new Random(seed, 'events');
    const values = Float64Array.from({ length: 1500 }, () => 0.2 * random.normal());
    for (let k = 0; k < 30; k++) values[random.integer(0, 1499)] = 20;
    return findRhythm(values) !== null;
  }).filter(Boolean);
  expect(withRhythm.length).toBeLessThanOrEqual(6);
});

test('breaks do not depend on unit, offset or sign', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(1e-6, 0.01, 1, 1e6),
      fc.integer({ min: -100, max: 100 }),
      fc.constantFrom(1, -1),
      fc.integer({ min: 5, max: 30 }),
      (unit, offset, sign, missing) => {
        const { values } = jobs({
          n: 2400,
          every: 60,
          length: 3,
          seed: 9,
          without: (run) => run === missing,
        });
        const usual = findRhythm(values)!;
        const other = findRhythm(values.map((value) => sign * unit * (value + offset)))!;
        expect(other.breaks).toEqual(usual.breaks);
        expect([other.every, other.sign]).toEqual([usual.every, sign]);
      },
    ),
    { numRuns: 20 },
  );
});

describe('hourly jobs on a daily course', () => {
  /** Ten days of 144 samples with a job of two samples in six. */
  const course = (amplitude: (day: number) => number, runs: (i: number) => boolean): Float64Array => {
    const random = new Random(4, 'course');
    return Float64Array.from({ length: 1440 }, (_, i) => {
      const day = amplitude(Math.floor(i / 144)) * (1 - Math.cos((2 * Math.PI * i) / 144));
      return 20 + 20 * day + (i % 6 < 2 && runs(i) ? 45 : 0) + random.normal();
    });
  };

  test('are no findings, and repeat by the day', () => {
    const { findings, seasons } = detect(
      course(
        () => 1,
        () => true,
      ),
    );
    expect(findings).toEqual([]);
    expect(seasons).toEqual([144]);
  });

  test('a day of twice the height is found', () => {
    const [finding] = detect(
      course(
        (day) => (day === 6 ? 2 : 1),
        () => true,
      ),
    ).findings;
    expect(finding!.start).toBeGreaterThanOrEqual(6 * 144);
    expect(finding!.end).toBeLessThanOrEqual(7 * 144);
    expect(finding!.end - finding!.start).toBeGreaterThan(60);
  });

  test('jobs that stop for ten hours are found', () => {
    const { findings } = detect(
      course(
        () => 1,
        (i) => i < 800 || i >= 860,
      ),
    );
    const [start, end] = [
      Math.min(...findings.map((finding) => finding.start)),
      Math.max(...findings.map((finding) => finding.end)),
    ];
    expect(Math.abs(start - 804)).toBeLessThanOrEqual(6);
    expect(Math.abs(end - 860)).toBeLessThanOrEqual(8); // the last run is over at 854
  });
});

test.each([1, 4])('noise that reaches the height of faint peaks is no peak too many, seed %d', (seed) => {
  const random = new Random(seed, 'pauses');
  const values = Float64Array.from(
    { length: 1000 },
    (_, i) => 8 - 3 * Math.log(1 - random.uniform()) + (i % 40 === 7 ? random.normal(25, 3) : 0),
  );
  expect(detect(values).findings.filter(({ kind }) => kind === 'frequency')).toEqual([]);
});
