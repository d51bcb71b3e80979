/** Earlier samples in front of a recording. */
import { describe, expect, test } from 'vitest';
import { recordingOfSeries } from '../../../datasets/readers/recording.ts';
import { precede, withFileName } from '../../../datasets/readers/side-by-side.ts';

const HOUR = 3_600_000;
const [MONDAY, DAYS] = [Date.UTC(2025, 5, 2), 24 * HOUR];

/** Hourly samples from an hour on; `value(t)` of each column. */
const recording = (
  name: string,
  from: number,
  length: number,
  columns: Readonly<Record<string, (hour: number) => number>>,
) =>
  recordingOfSeries(
    {
      ...{ name, notes: [] },
      time: Float64Array.from({ length }, (_, i) => MONDAY + (from + i) * HOUR),
      columns: Object.entries(columns).map(([name, value]) => ({
        ...{ name, values: Float64Array.from({ length }, (_, i) => value(from + i)) },
      })),
    },
    {},
  );

const load = (hour: number): number => 10 * hour + 1;
const heat = (hour: number): number => 20 - 0.5 * hour;
const later = recording('web-tuesday', 24, 24, { load, heat });

describe('earlier samples', () => {
  test('stand at their times, behind what is missing between them', () => {
    const before = recording('web', 0, 20, { heat, load });
    const joined = precede(later, [before]);
    if (typeof joined === 'string') throw new Error(joined);
    expect(joined.start).toBe(24);
    const { time, columns, rows, notes } = joined.recording;
    expect([...time!]).toEqual(Array.from({ length: 48 }, (_, i) => MONDAY + i * HOUR));
    for (const [k, value] of [load, heat].entries())
      expect([...columns[k]!.values]).toEqual(
        Array.from({ length: 48 }, (_, i) => (i >= 20 && i < 24 ? Number.NaN : value(i))),
      );
    expect(columns.map(({ name }) => name)).toEqual(['load', 'heat']);
    expect([...rows.subarray(0, 24)]).toEqual(Array(24).fill(-1));
    expect(rows.subarray(24)).toEqual(later.rows);
    expect(notes[0]!.text).toContain('20 earlier samples');
  });

  test('that overlap the recording are taken up to its beginning', () => {
    const joined = precede(later, [recording('web', 5, 40, { load, heat: () => 7 })]);
    if (typeof joined === 'string') throw new Error(joined);
    expect(joined.start).toBe(19);
    expect(joined.recording.columns[1]!.values.slice(17, 20)).toEqual(Float64Array.of(7, 7, heat(24)));
  });

  test('of several files are those of the same file, or of the one that begins its name', () => {
    const files = ['web', 'db'].map((name, k) =>
      withFileName(recording(name, 0, 24, { load: () => k, heat: () => 10 + k }), name),
    );
    const first = (name: string): number | string => {
      const joined = precede({ ...later, name }, files);
      return typeof joined === 'string' ? joined : joined.recording.columns[0]!.values[0]!;
    };
    expect([first('db'), first('web-tuesday')]).toEqual([1, 0]);
    expect(first('other')).toBe('they have no column load, or several');
    expect(precede(withFileName(later, 'db'), files)).toMatchObject({ start: 24 });
  });

  test('before a gap are taken where they, or what comes after it, are longer than the gap', () => {
    const days = (from: number, length: number) => recording('web', from, length, { load, heat });
    expect(precede(later, [days(-90, 60)])).toMatchObject({ start: 114 });
    expect(precede(later, [days(-90, 50)])).toMatch(/^they end 2 d.* before the recording/);
    expect(precede(days(24, 70), [days(-90, 50)])).toMatchObject({ start: 114 });
  });

  test('keep their own stamps, beside those that the step gives to a gap', () => {
    const before = recording('web', 0, 20, { heat, load });
    const late = before.time!.map((ms, i) => ms + (i % 3) * 60_000);
    const joined = precede(later, [{ ...before, time: late }]);
    if (typeof joined === 'string') throw new Error(joined);
    expect(joined.recording.time!.subarray(0, 20)).toEqual(late);
    expect(joined.recording.time![20]).toBe(MONDAY + 20 * HOUR);
  });

  test('far before the rest are left out, and alone they are refused', () => {
    const old = recording('web', -500, 30, { load, heat });
    const near = recording('web', 0, 24, { load, heat });
    const both = recordingOfSeries(
      {
        ...{ name: 'web', notes: [] },
        time: Float64Array.from([...old.time!, ...near.time!]),
        columns: near.columns.map(({ name, values }, k) => ({
          ...{ name, values: Float64Array.from([...old.columns[k]!.values, ...values]) },
        })),
      },
      {},
    );
    expect(precede(later, [both])).toMatchObject({ start: 24 });
    expect(precede(later, [old])).toMatch(/^they end 20 d.* before the recording/);
  });

  test.each([
    ['of other columns', recording('web', 0, 24, { load }), 'they have no column heat, or several'],
    ['that come later', recording('web', 60, 24, { load, heat }), 'none of them comes before the recording'],
    ['without dates', { ...recording('web', 0, 24, { load, heat }), time: null }, 'they have no dates'],
    [
      'without a zone',
      { ...recording('web', 0, 24, { load, heat }), zone: null },
      'only one of both has a time zone',
    ],
    [
      'of another step',
      { ...recording('web', 0, 24, { load, heat }), step: DAYS },
      'they are sampled every 1 d, the recording every 1 h',
    ],
  ])('%s are refused', (_, before, reason) => {
    expect(precede(later, [before])).toBe(reason);
  });
});
