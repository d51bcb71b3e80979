import { describe, expect, it } from 'vitest';
import { heightsInMonths } from '../../src/detect/month.ts';
import { Random } from '../../src/ground/random.ts';
import { detect } from '../../src/index.ts';

const DAY = 864e5;
const WEEK = [0.6, 1.1, 1, 1, 1.05, 1.3, 0.8];
/** 420 days from 13 May 2024. */
const dates = Float64Array.from({ length: 420 }, (_, i) => Date.UTC(2024, 4, 13) + i * DAY);
const at = (text: string): number => dates.indexOf(Date.parse(text));

/** Sales with a week in them, times `factor` of the day. */
function sales(factor: (date: Date) => number): Float64Array {
  const random = new Random(7, 'sales');
  return dates.map((ms) => {
    const date = new Date(ms);
    return 1000 * WEEK[date.getUTCDay()]! * (1 + 0.05 * random.normal()) * factor(date);
  });
}
const isLast = (date: Date): boolean => new Date(date.getTime() + DAY).getUTCDate() === 1;
const doubled = (date: Date): number => (isLast(date) ? 2 : 1);
const on = (text: string, date: Date): boolean => date.getTime() === Date.parse(text);
const found = async (values: Float64Array) =>
  (await detect(values, dates)).findings.map(({ start, end, direction }) => ({ start, end, direction }));

describe('days on which every month departs', () => {
  it('are expected, whatever day of the week they are', async () => {
    expect(await found(sales(doubled))).toEqual([]);
  });

  it('are missed where they do not come, and do not hide the same value on another day', async () => {
    const start = at('2025-02-28');
    expect(await found(sales((date) => (on('2025-02-28', date) ? 1 : doubled(date))))).toEqual([
      { start, end: start + 1, direction: 'below' },
    ]);
    const other = at('2025-03-11');
    expect(await found(sales((date) => (on('2025-03-11', date) ? 2 : doubled(date))))).toEqual([
      { start: other, end: other + 1, direction: 'above' },
    ]);
  });

  it('are found by day, by distance from the end, and as working days, two of them in one series', () => {
    const heights = (factor: (date: Date) => number): number[] => {
      const given = heightsInMonths(sales(factor), dates)!;
      return [...given.keys()].filter((i) => given[i] !== 0).map((i) => new Date(dates[i]!).getUTCDate());
    };
    expect(new Set(heights((date) => (date.getUTCDate() === 25 ? 0.2 : 1)))).toEqual(new Set([25]));
    expect(
      new Set(heights((date) => (date.getUTCDate() === 1 ? 3 : date.getUTCDate() === 15 ? 2 : 1))),
    ).toEqual(new Set([1, 15]));
    // Fridays before a Saturday or Sunday that ends the month: 31 August 2024 is a Saturday, 30 November too.
    const lastWorking = (date: Date): boolean => {
      const end = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0));
      const back = [2, 0, 0, 0, 0, 0, 1][end.getUTCDay()]!;
      return date.getTime() === end.getTime() - back * DAY;
    };
    const given = heightsInMonths(
      sales((date) => (lastWorking(date) ? 2 : 1)),
      dates,
    )!;
    const high = [...given.keys()].filter((i) => given[i] !== 0);
    expect(high).toContain(at('2024-08-30'));
    expect(high).not.toContain(at('2024-08-31'));
    expect(high).toHaveLength(14);
  });

  it('tell nothing of weekdays without anything', () => {
    const closed = sales((date) => (date.getUTCDay() === 0 ? 0 : date.getUTCDate() === 25 ? 0.2 : 1));
    const given = heightsInMonths(closed, dates)!;
    const sundays = [...dates.keys()].filter((i) => new Date(dates[i]!).getUTCDay() === 0);
    expect(sundays.every((i) => given[i] === 0)).toBe(true);
    expect(given.some((height) => height < -500)).toBe(true);
  });

  it('are not seen in noise, in walks, or every thirty days', () => {
    for (let seed = 0; seed < 20; seed++) {
      const random = new Random(seed, 'none');
      let walk = 50;
      const noise = dates.map(() => random.normal() / Math.max(0.05, random.uniform()));
      const walks = dates.map(() => {
        walk += random.normal();
        return walk;
      });
      const thirty = dates.map((_, i) => 20 + random.normal() + (i % 30 === seed ? 15 : 0));
      for (const values of [noise, walks, thirty]) expect(heightsInMonths(values, dates)).toBeNull();
    }
  });
});
