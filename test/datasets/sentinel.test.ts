import { describe, expect, it } from 'vitest';
import { sentinelsOf } from '../../datasets/readers/quality.ts';
import { readRecording } from '../../datasets/readers/recording.ts';

const TEMPERATURES = [21.5, 22, -999, 21, 20.5, -999, 19, 18.5];
const csv = (values: readonly (number | string)[]): Uint8Array =>
  new TextEncoder().encode(
    `time,temperature\n${values.map((value, i) => `2025-03-01 0${i}:00,${value}`).join('\n')}\n`,
  );

describe('numbers that stand for a missing value', () => {
  it('are known ones that come again, far from all others', () => {
    expect(sentinelsOf(Float64Array.from(TEMPERATURES))).toEqual([{ value: -999, rows: 2, first: 2 }]);
    const spread = [0, 400, -999, 800, 1200, -999, 300, 60];
    for (const values of [
      spread,
      [21, 22, -999, 20, 19, 18], // once may be a reading
      [21, 22, -998, 20, -998, 19], // no number that stands for anything
      [-999, -999, -999, 20, 19], // most of the column
      [],
      [Number.NaN, Number.NaN],
    ])
      expect(sentinelsOf(Float64Array.from(values))).toEqual([]);
  });

  it('are missing in a recording, which says so, unless they are to be kept', () => {
    const { columns, notes } = readRecording(csv(TEMPERATURES));
    expect(Array.from(columns[0]!.values)).toEqual([21.5, 22, Number.NaN, 21, 20.5, Number.NaN, 19, 18.5]);
    expect(notes.find(({ kind }) => kind === 'sentinel')!.text).toBe(
      '-999 in 2 rows of column "temperature", the first in line 4, stands for a missing value (--keep-sentinels keeps it).',
    );
    const kept = readRecording(csv(TEMPERATURES), { keepSentinels: true });
    expect(Array.from(kept.columns[0]!.values)).toEqual(TEMPERATURES);
    expect(kept.notes.map(({ kind }) => kind)).not.toContain('sentinel');
  });
});
