import { describe, expect, it } from 'vitest';
import { analyseChannels, blindOf } from '../../src/expcot/anomaly.ts';
import { cycleOf } from '../../src/expcot/cycle-trace.ts';
import { analyse } from '../../src/expcot/evidence.ts';
import { load, NORMAL, series, type Value, weekday } from '../helpers/everyday.ts';

describe('the expert on everyday series without anomalies', () => {
  it.each(NORMAL)('%s', (_, length, expected, value, most = 0) => {
    let alarms = 0;
    for (let seed = 0; seed < 6; seed++) {
      const analysed = analyseChannels([series(length, value, seed)], ['value']);
      const { period } = analysed[0]!.evidence.base;
      if (expected === null) expect(period).toBeNull();
      else expect(Math.abs((period ?? 0) / expected - 1)).toBeLessThan(0.01);
      alarms += blindOf(analysed, ['value']).intervals.length > 0 ? 1 : 0;
    }
    expect(alarms).toBeLessThanOrEqual(most);
  });

  it('says of weekends that they are a longer pattern', () => {
    const values = series(840, (i, r) => load(i, Math.floor(i / 24)) + 3 * r.normal(), 1);
    expect(cycleOf(analyse(values), values)).toMatchObject({ recurs: 168, intervals: [] });
  });
});

describe('the expert on everyday series with an anomaly', () => {
  it.each([
    [
      'a working day like a weekend',
      840,
      24 * 14,
      24 * 15,
      (i, r) => load(i, Math.floor(i / 24) === 14 ? 5 : Math.floor(i / 24)) + 3 * r.normal(),
    ],
    [
      'a day of twice the counts',
      730,
      400,
      401,
      (i, r) => (i === 400 ? 2 : 1) * (1000 + (weekday(i) ? 300 : 0)) + 30 * r.normal(),
    ],
    [
      'a nightly job that did not run',
      288 * 8,
      288 * 4,
      288 * 4 + 9,
      (i, r) => (i % 288 < 9 && Math.floor(i / 288) !== 4 ? 60 : 10) + r.normal(),
    ],
  ] as [string, number, number, number, Value][])('finds %s', (_, length, from, to, value) => {
    for (let seed = 0; seed < 4; seed++) {
      const { intervals } = blindOf(analyseChannels([series(length, value, seed)], ['value']), ['value']);
      expect(intervals.some(([start, end]) => start < to && end > from)).toBe(true);
    }
  });
});
