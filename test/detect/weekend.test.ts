/** Traffic of ten to twelve days, in which one weekend is known as a whole, and office hours over three to twenty days. */
import { expect, test } from 'vitest';
import { type DetectOptions, detect } from '../../src/detect/detect.ts';
import { restingWeekends } from '../../src/detect/weekend.ts';
import { Random } from '../../src/ground/random.ts';
import { clocksOf, detectValues, weekendsOf } from '../../src/run/detect.ts';

const HOUR = 3_600_000;
const MONDAY = Date.UTC(2025, 5, 2);
const bump = (hour: number, centre: number, width: number): number =>
  Math.exp(-(((((hour - centre + 36) % 24) - 12) / width) ** 2) / 2);

/** Usual value at an hour of a working day, or of a day of rest whose traffic is a share of it. */
const TRAFFIC: Readonly<Record<string, (hour: number, rest: boolean, share: number) => number>> = {
  lower: (hour, rest, share) => 100 + (rest ? share : 1) * 400 * (bump(hour, 11, 2.5) + bump(hour, 19, 2)),
  'without rush hours': (hour, rest, share) =>
    50 + (rest ? 200 * share * bump(hour, 14, 4) : 300 * (bump(hour, 8, 1.2) + bump(hour, 17.5, 1.5))),
  later: (hour, rest, share) =>
    80 + 300 * (rest ? share * bump(hour, 13, 3.5) : bump(hour, 10, 3) + 0.6 * bump(hour, 20, 2)),
  closed: (hour, rest) => (!rest && hour >= 8 && hour < 18 ? 60 : 8),
  higher: (hour, rest, share) => 60 + 200 * (rest ? (1 + share) * bump(hour, 15, 4) : bump(hour, 20, 2)),
};

/** Series of every kind that begin on every day of the week, hourly or every 15 minutes. */
const SERIES = Object.keys(TRAFFIC).flatMap((kind) =>
  Array.from({ length: 7 }, (_, first) => {
    const perHour = first % 2 === 0 ? 1 : 4;
    const random = new Random(first, `weekend/${kind}`);
    const [share, noise] = [0.3 + 0.5 * random.uniform(), 0.02 + 0.03 * random.uniform()];
    const days = 10 + (first % 3);
    const time = Float64Array.from(
      { length: days * 24 * perHour },
      (_, i) => MONDAY + (first * 29 + i / perHour) * HOUR,
    );
    const values = Float64Array.from(time, (ms) => {
      const date = new Date(ms);
      const usual = TRAFFIC[kind]!(
        date.getUTCHours() + date.getUTCMinutes() / 60,
        date.getUTCDay() % 6 === 0,
        share,
      );
      return usual * (1 + noise * random.normal());
    });
    const calendar = [1, 24, 168].map((hours) => hours * perHour).filter((samples) => samples >= 3);
    const weekends = weekendsOf({ step: HOUR / perHour, time, clockZone: null, origin: 'calendar' });
    const noon = time.findIndex((ms) => new Date(ms).getUTCDay() === 6 && new Date(ms).getUTCHours() === 12);
    return { kind, values, options: { calendar, weekends }, outage: [noon, noon + 3 * perHour] as const };
  }),
);

test('a weekend is usual where it is lower, higher, later or closed, with one known', () => {
  const alarmed = SERIES.filter(({ values, options }) => detect(values, options).findings.length > 0);
  expect(SERIES).toHaveLength(35);
  expect(alarmed.length).toBeLessThanOrEqual(3);
});

test('an outage at noon of the only Saturday is found', () => {
  const open = SERIES.filter(({ kind, outage: [start] }) => kind !== 'closed' && start > 0);
  const found = open.filter(({ values, options, outage: [start, end] }) =>
    detect(
      values.map((value, i) => (i >= start && i < end ? 1 : value)),
      options,
    ).findings.some((finding) => finding.start < end && start < finding.end),
  );
  expect(open.length).toBeGreaterThan(20);
  expect(found.length).toBeGreaterThanOrEqual(0.85 * open.length);
});

/** A daily wave every 15 minutes from a Monday on, 40 higher from a moment on. */
function raised(days: number, samples: number, seed: number): readonly [Float64Array, object] {
  const random = new Random(seed, 'raised');
  const begin = days * 96;
  const time = Float64Array.from({ length: begin + samples }, (_, i) => MONDAY + (i * HOUR) / 4);
  const values = Float64Array.from(
    time,
    (_, i) => 100 + 20 * Math.sin((2 * Math.PI * i) / 96) + 3 * random.normal() + (i >= begin ? 40 : 0),
  );
  const weekends = weekendsOf({ step: HOUR / 4, time, clockZone: null, origin: 'calendar' });
  return [values, { calendar: [4, 96, 672], weekends }];
}

test.each([
  ['Monday after a whole week', 7],
  ['Saturday after a usual weekend', 12],
])('a level from %s on is found and goes on', (_, days) => {
  for (const samples of [96, 144, 240]) {
    const found = [1, 2, 3].map((seed) => detect(...raised(days, samples, seed)).findings);
    for (const findings of found)
      expect(findings.filter(({ ongoing }) => ongoing)).toMatchObject([{ direction: 'above' }]);
  }
});

/** Office hours from 8:30 to 17:30, `perHour` samples each, from midnight of a date on; weekends reach shares of them. */
function office(
  date: string,
  days: number,
  { seed = 1, perHour = 4, saturday = 0.05, sunday = 0.05 } = {},
): { values: Float64Array; options: DetectOptions } {
  const random = new Random(seed, 'office');
  const first = Date.parse(date);
  const time = Float64Array.from({ length: days * 24 * perHour }, (_, i) => first + (i / perHour) * HOUR);
  let noise = 0;
  const values = Float64Array.from(time, (ms) => {
    const hour = (ms / HOUR) % 24;
    const share = [sunday, 1, 1, 1, 1, 1, saturday][new Date(ms).getUTCDay()]!;
    noise = 0.5 * noise + 2 * random.normal();
    return 20 + (60 * share) / (1 + Math.exp(4 * (8.5 - hour))) / (1 + Math.exp(4 * (hour - 17.5))) + noise;
  });
  const recording = { step: HOUR / perHour, time, clockZone: null, origin: 'calendar' } as const;
  const calendar = [1, 24, 168].map((hours) => hours * perHour);
  return { values, options: { calendar, weekends: weekendsOf(recording), ...clocksOf(recording) } };
}

test.each([
  ['Wednesday to Sunday', '2024-09-04', 5, {}],
  ['Thursday to Monday', '2024-03-14', 5, {}],
  ['Friday to Sunday: one working day', '2024-04-26', 3, {}],
  ['a Saturday half as busy, and an idle Sunday, in front of a week', '2024-08-10', 8, { saturday: 0.4 }],
  ['a shop that is idle on Sundays alone', '2024-08-12', 12, { saturday: 1 }],
  ['two weekends of which the first begins on a Sunday', '2024-07-07', 16, {}],
  ['a day on which America changes its clock, and the office does not', '2024-03-02', 12, {}],
])('office hours are usual: %s', (_, date, days, shape) => {
  for (const seed of [1, 2, 3, 4, 5]) {
    const { values, options } = office(date, days, { seed, ...shape });
    const strong = detect(values, options).findings.filter(({ severity }) => severity >= 3);
    expect([seed, strong]).toEqual([seed, []]);
  }
});

test.each([
  ['Wednesday to Sunday', '2024-09-04', 5, 49],
  ['Saturday to next Friday', '2024-06-01', 7, 107],
  ['sixteen days', '2024-07-07', 16, 180],
])('an outage of two hours in office hours is found: %s', (_, date, days, hour) => {
  for (const seed of [1, 2, 3, 4, 5]) {
    const { values, options } = office(date, days, { seed });
    values.fill(5, 4 * (hour + 9), 4 * (hour + 11));
    const { findings } = detect(values, options);
    const [start, end] = [4 * (hour + 9), 4 * (hour + 11)];
    expect(findings.filter((found) => found.start < end && found.end > start)).toMatchObject([
      { direction: 'below' },
    ]);
  }
});

test('an outage on the only working day is found, whatever the hour', () => {
  for (const seed of [1, 2, 3, 4, 5]) {
    const random = new Random(seed, 'server');
    const time = Float64Array.from({ length: 700 }, (_, i) => Date.parse('2024-06-01') + (i * HOUR) / 12);
    const values = Float64Array.from(time, (_, i) => (i >= 12 * 58 - 16 ? 0 : 100 + 4 * random.normal()));
    const weekends = weekendsOf({ step: HOUR / 12, time, clockZone: null, origin: 'calendar' });
    const { findings } = detect(values, { calendar: [12, 288, 2016], weekends });
    expect([seed, findings]).toMatchObject([seed, [{ direction: 'below', ongoing: true }]]);
  }
});

test('a clock that office hours follow is found in less than three weeks', () => {
  const first = Date.parse('2025-03-17');
  for (const seed of [1, 2, 3, 4, 5]) {
    const random = new Random(seed, 'clock');
    const time = Float64Array.from({ length: 20 * 96 }, (_, i) => first + (i * HOUR) / 4);
    const values = Float64Array.from(time, (ms) => {
      const wall = new Date(ms + (ms < Date.UTC(2025, 2, 30, 1) ? 1 : 2) * HOUR);
      const hour = wall.getUTCHours() + wall.getUTCMinutes() / 60;
      const open = wall.getUTCDay() % 6 === 0 ? 0.05 : 1;
      return (
        20 +
        (60 * open) / (1 + Math.exp(4 * (8.5 - hour))) / (1 + Math.exp(4 * (hour - 17.5))) +
        2 * random.normal()
      );
    });
    const recording = { step: HOUR / 4, time, clockZone: null, origin: 'calendar' } as const;
    const options = { calendar: [4, 96, 672], weekends: weekendsOf(recording), ...clocksOf(recording) };
    const strong = detect(values, options).findings.filter(({ severity }) => severity >= 3);
    expect([seed, strong]).toEqual([seed, []]);
  }
});

/** A metric of every hour of the week, every five minutes from a Wednesday noon on: level 500 at work, `rest` of it at weekends, with a daily wave or none. */
function allHours(
  days: number,
  seed: number,
  { wave = 0, rest = 1, steady = false } = {},
): { time: Float64Array; values: Float64Array; options: DetectOptions } {
  const random = new Random(seed, 'all hours');
  const first = MONDAY + 60 * HOUR;
  const time = Float64Array.from({ length: days * 288 }, (_, i) => first + (i * HOUR) / 12);
  const values = Float64Array.from(time, (ms) => {
    const level = 500 + wave * Math.cos((2 * Math.PI * (ms / HOUR - 15)) / 24);
    const atRest = new Date(ms).getUTCDay() % 6 === 0;
    return level * (atRest ? rest : 1) * (steady ? 1 : 1 + 0.02 * random.normal());
  });
  const weekends = weekendsOf({ step: HOUR / 12, time, clockZone: null, origin: 'calendar' });
  return { time, values, options: { calendar: [12, 288, 2016], weekends } };
}

/** Hours from Monday midnight on. */
const [FRIDAY, SATURDAY, NEXT_MONDAY] = [4 * 24, 5 * 24, 7 * 24];

test.each([
  ['an outage from Friday evening to Saturday noon', FRIDAY + 22, SATURDAY + 12, () => 0],
  ['an outage until midnight on Friday', FRIDAY + 22, SATURDAY, () => 0],
  ['an outage from midnight on Monday', NEXT_MONDAY, NEXT_MONDAY + 2, () => 0],
  [
    'five times the traffic from midnight on Monday',
    NEXT_MONDAY,
    NEXT_MONDAY + 2,
    (value: number) => 5 * value,
  ],
])(
  'an incident beside the only weekend, or in a part of it, is none of a weekend: %s',
  (_, from, to, made) => {
    for (const wave of [0, 300]) {
      const { time, values, options } = allHours(7, 3, { wave });
      const inside = (ms: number): boolean => ms >= MONDAY + from * HOUR && ms < MONDAY + to * HOUR;
      const { findings } = detect(
        values.map((value, i) => (inside(time[i]!) ? made(value) : value)),
        options,
      );
      expect(findings).toMatchObject([{ start: time.findIndex(inside), level: 'critical' }]);
    }
  },
);

test('weekends of another level are usual where days have no cycle, and a Saturday unlike the other is none', () => {
  for (const [seed, rest] of [
    [1, 0.6],
    [2, 0.8],
    [3, 1.5],
    [4, 0.3],
  ] as const) {
    const { time, values, options } = allHours(14, seed, { rest });
    expect([rest, detect(values, options).findings]).toEqual([rest, []]);
    // Of a day of rest unlike the others it is told, and of no other.
    const second = MONDAY + (NEXT_MONDAY + SATURDAY) * HOUR;
    const isSecond = (ms: number): boolean => ms >= second && ms < second + 24 * HOUR;
    for (const change of [0.5, 1.8]) {
      const { findings } = detect(
        values.map((value, i) => (isSecond(time[i]!) ? change * value : value)),
        options,
      );
      expect(findings.map(({ start, end }) => isSecond(time[(start + end) >> 1]!))).toEqual([true]);
    }
  }
  const { values, options } = allHours(10, 1, { rest: 0.4, steady: true });
  expect(detect(values, options)).toMatchObject({ findings: [], expected: values });
});

test.each([
  ['a night at office load', '2026-03-18T02:00Z', 3],
  ['a Saturday at office load', '2026-03-21T08:00Z', 10],
])('in four weeks of office hours %s is found', (_, from, hours) => {
  for (const seed of [1, 2, 3]) {
    const { values, options } = office('2026-03-02', 28, { seed });
    const start = ((Date.parse(from) - Date.parse('2026-03-02')) / HOUR) * 4;
    const busy = values.map((value, i) => (i >= start && i < start + 4 * hours ? value + 60 : value));
    const found = detect(busy, options).findings.some(
      (finding) => finding.start < start + 4 * hours && start < finding.end,
    );
    expect([seed, found]).toEqual([seed, true]);
  }
});

test('jobs of every night that are heavier at weekends are weekends, and no incident', () => {
  for (const seed of [1, 2, 3, 4]) {
    const { time, values, options } = allHours(8, seed);
    const nightly = values.map((value, i) => {
      const [hour, atRest] = [(time[i]! / HOUR) % 24, new Date(time[i]!).getUTCDay() % 6 === 0];
      return value + (hour >= 1 && hour < (atRest ? 5 : 3) ? (atRest ? 1700 : 1100) : 0);
    });
    expect(restingWeekends(nightly, options.weekends!, 288)).toEqual(options.weekends);
    expect(restingWeekends(values, options.weekends!, 288)).toEqual([]);
  }
});

test('an outage of an office within eighteen days is found', () => {
  const { values, options } = office('2025-06-05', 18);
  const start = 13 * 96 + 12 * 4;
  const { findings } = detect(
    values.map((value, i) => (i >= start && i < start + 12 ? 0 : value)),
    options,
  );
  expect(findings[0]).toMatchObject({ start, end: start + 12, direction: 'below' });
});

test('times let the library know weekends, as a file lets the command', () => {
  const random = new Random(1, 'office');
  const step = HOUR / 4;
  const times = Array.from({ length: 14 * 96 }, (_, i) => MONDAY - 2 * 24 * HOUR + 14 * HOUR + i * step);
  const values = times.map((time) => {
    const date = new Date(time);
    const isBusy = date.getUTCDay() % 6 !== 0 && date.getUTCHours() >= 8 && date.getUTCHours() < 18;
    return (isBusy ? 78 : 18) + random.normal();
  });
  expect(detectValues(values, times, {}).findings).toEqual([]);
  for (const i of [900, 901]) values[i]! += 50;
  expect(detectValues(values, times, {}).findings).toMatchObject([{ kind: 'spike', start: 900, end: 902 }]);
});
