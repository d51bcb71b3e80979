import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  formatTime,
  type Recording,
  type RecordingOptions,
  readRecording,
  readRecordings,
} from '../../../datasets/readers/recording.ts';
import { ConfigError, DataError, TimeseerError } from '../../../src/ground/errors.ts';
import { mutant } from '../../helpers/mutate.ts';
import { temporary } from '../../helpers/temporary.ts';

const root = temporary('recording');
const path = join(root, 'pump.csv');

function read(content: string | Uint8Array, options: RecordingOptions = {}): Recording {
  writeFileSync(path, content);
  return readRecording(path, options);
}

function failure(content: string | Uint8Array, options: RecordingOptions = {}): Error {
  try {
    read(content, options);
  } catch (error) {
    return error as Error;
  }
  throw new Error('expected an error, nothing was thrown');
}

const values = (recording: Recording, k = 0): number[] => [...recording.columns[k]!.values];
const times = (recording: Recording): string[] => [...recording.time!].map((ms) => formatTime(ms, recording));
const note = (recording: Recording, code: string): string =>
  recording.notes
    .filter((one) => one.kind === code)
    .map(({ text }) => text)
    .join(' ');
const codes = (recording: Recording): string[] => recording.notes.map(({ kind }) => kind);
const stamp = (ms: number): string => new Date(ms).toISOString().slice(0, 19).replace('T', ' ');
const NOON = Date.parse('2024-03-01T12:00:00Z');
const minutes = (n: number): string => stamp(NOON + n * 60_000);

describe('the order of rows', () => {
  it('is that of the time, and says what was out of order', () => {
    const r = read(
      `time,v\n${minutes(0)},5\n${minutes(2)},7\n${minutes(1)},6\n${minutes(3)},9\n${minutes(4)},1\n`,
    );
    expect(values(r)).toEqual([5, 6, 7, 9, 1]);
    expect([...r.rows]).toEqual([2, 4, 3, 5, 6]);
    expect(r.step).toBe(60_000);
    expect(note(r, 'sorted')).toBe(
      '1 of 5 rows were out of order, the first in line 4 (2024-03-01 12:01 after 2024-03-01 12:02); they were sorted.',
    );
  });

  it('is turned round where times go down', () => {
    const r = read(`time,v\n${[3, 2, 1, 0].map((n) => `${minutes(n)},${n * n}`).join('\n')}\n`);
    expect(values(r)).toEqual([0, 1, 4, 9]);
    expect([...r.rows]).toEqual([5, 4, 3, 2]);
    expect(note(r, 'order')).toBe('The rows are in descending order of time and were reversed.');
  });

  it('does not matter', () => {
    const row = fc.record({ at: fc.integer({ min: 0, max: 400 }), v: fc.integer({ min: -99, max: 99 }) });
    const writing = fc.constantFrom<(ms: number) => string>(
      stamp,
      (ms) => new Date(ms).toISOString(),
      (ms) => String(ms / 1000),
      (ms) => new Date(ms).toISOString().replace(/(\d+)-(\d+)-(\d+)T(\d+:\d+).*/, '$3.$2.$1 $4'),
    );
    fc.assert(
      fc.property(
        fc.array(row, { minLength: 4, maxLength: 60 }),
        fc.constantFrom(1, 60, 3600),
        writing,
        fc.integer({ min: 1, max: 1e6 }),
        (rows, seconds, write, seed) => {
          const lines = rows.map(({ at, v }) => `${write(NOON + at * seconds * 60_000)};${v};${v % 7}`);
          const shuffled = lines
            .map((line, i) => [Math.sin(seed * (i + 1)), line] as const)
            .sort((a, b) => a[0] - b[0])
            .map(([, line]) => line);
          const content = (some: readonly string[]): string => `time;v;w\n${some.join('\n')}\n`;
          let a: Recording;
          try {
            a = read(content(lines));
          } catch (error) {
            expect(failure(content(shuffled)).constructor).toBe((error as Error).constructor);
            return;
          }
          const b = read(content(shuffled));
          expect({ ...b, notes: [], rows: [] }).toEqual({ ...a, notes: [], rows: [] });
          expect(a.time!.every((ms, i) => i === 0 || ms > a.time![i - 1]!)).toBe(true);
        },
      ),
      { numRuns: 60 },
    );
  });
});

describe('several rows of one time', () => {
  it('are one where they are equal', () => {
    const r = read(`time,v\n${minutes(0)},5\n${minutes(1)},6\n${minutes(1)},6\n${minutes(2)},8\n`);
    expect(values(r)).toEqual([5, 6, 8]);
    expect(note(r, 'duplicates')).toBe('1 repeated row was dropped, the first in line 4.');
  });

  it('give their mean where nothing tells them apart', () => {
    const r = read(`time,v,w\n${minutes(0)},5,1\n${minutes(1)},6,2\n${minutes(1)},9,2\n${minutes(2)},8,3\n`);
    expect(values(r)).toEqual([5, 7.5, 8]);
    expect(values(r, 1)).toEqual([1, 2, 3]);
    expect(note(r, 'duplicates')).toBe(
      '1 time stamp has several rows of different values, the first 2024-03-01 12:01 in line 3; their mean is used.',
    );
  });

  const HOSTS = `time,host,load\n${Array.from({ length: 6 }, (_, i) => `${minutes(i)},web-1,${i}\n${minutes(i)},db,${100 - i * i}\n`).join('')}`;

  it('are series where a column tells them apart, and the message says how to read one', () => {
    const error = failure(HOSTS);
    expect(error).toBeInstanceOf(DataError);
    expect(error.message).toBe(
      `${path}: 2 series in one file, separated by column "host": "web-1", "db"; choose one with --key host --select web-1, or all with --select '*'`,
    );
    const db = read(HOSTS, { key: 'host', select: 'db' });
    expect(values(db)).toEqual([100, 99, 96, 91, 84, 75]);
    expect(db.key).toBe('db');
    expect([...db.rows]).toEqual([3, 5, 7, 9, 11, 13]);
    expect(values(read(HOSTS, { select: 'web-1' }))).toEqual([0, 1, 2, 3, 4, 5]);
    expect(note(db, 'split')).toBe('Series "db" of 2, separated by column "host": 6 of 12 rows.');
    expect(readRecordings(path).map(({ key, columns }) => [key, columns[0]!.values[1]])).toEqual([
      ['web-1', 1],
      ['db', 99],
    ]);
  });

  it('stand side by side on request, by their common times', () => {
    const all = read(HOSTS, { key: 'host', select: '*' });
    expect(all.columns.map(({ name }) => name)).toEqual(['web-1', 'db']);
    expect([values(all), values(all, 1)]).toEqual([
      [0, 1, 2, 3, 4, 5],
      [100, 99, 96, 91, 84, 75],
    ]);
    expect(all.key).toBeNull();
    expect([...all.rows]).toEqual([2, 4, 6, 8, 10, 12]);
    expect(note(all, 'split')).toBe('2 series of column "host", side by side.');
    expect(all.notes.some(({ kind }) => kind === 'sorted' || kind === 'duplicates')).toBe(false);

    const long = `time,host,cpu,mem\n${[0, 1, 2, 3].flatMap((i) => (i === 2 ? ['b'] : ['a', 'b']).map((h) => `${minutes(i)},${h},${i},${10 * i}`)).join('\n')}\n${minutes(3)},b,5,30\n`;
    const wide = read(long, { select: '*', key: 'host' });
    expect(wide.columns.map(({ name }) => name)).toEqual(['a cpu', 'a mem', 'b cpu', 'b mem']);
    expect(values(wide)).toEqual([0, 1, Number.NaN, 3]);
    expect(values(wide, 2)).toEqual([0, 1, 2, 4]);
    expect(note(wide, 'duplicates')).toContain('several rows of different values');

    const alternating = (pace: number): string =>
      `time,host,v\n${[0, 1, 2, 3].map((i) => `${minutes(2 * i)},a,${i}\n${minutes(pace * i + 1)},b,${i}`).join('\n')}\n`;
    const near = read(alternating(2), { select: '*', key: 'host' });
    expect([values(near), values(near, 1)]).toEqual([
      [0, 1, 2, 3],
      [0, 1, 2, 3],
    ]);
    expect(note(near, 'aligned')).toContain('up to 1 min away');
    const fives = Array.from({ length: 40 }, (_, i) =>
      ['a', 'b'].map(
        (host, k) => `${new Date(Date.UTC(2024, 2, 1, 0, 5 * i, 30 * k)).toISOString()},${host},${i}`,
      ),
    );
    const alternate = `time,host,v\n${fives.flat().join('\n')}\n`;
    expect(failure(alternate).message).toContain('2 series in one file, separated by column "host"');
    expect(values(read(alternate, { select: '*' }), 1)).toHaveLength(40);
    const shifts = fives.flat().map((row, i) => row.replace(/,[ab],/, i < 40 ? ',early,' : ',late,'));
    expect(read(`time,shift,v\n${shifts.join('\n')}\n`).key).toBeNull();
    const apart = alternating(3);
    expect(failure(apart, { select: '*', key: 'host' }).message).toContain('sampled at different times');
    const one = `time,v\n${minutes(0)},5\n${minutes(1)},6\n`;
    expect(values(read(one, { select: '*' }))).toEqual([5, 6]);
  });

  it('a key or value that is not there is refused with the ones that are', () => {
    expect(failure(HOSTS, { key: 'host', select: 'dbb' })).toBeInstanceOf(ConfigError);
    expect(failure(HOSTS, { key: 'host', select: 'dbb' }).message).toContain(
      'Did you mean db? Values: "web-1", "db"',
    );
    const one = `time,host,v\n${minutes(0)},a,5\n${minutes(1)},a,6\n`;
    expect(read(one, { key: 'host', select: 'a' }).key).toBe('a');
    expect(failure(one, { key: 'host', select: 'b' })).toBeInstanceOf(ConfigError);
    expect(() => readRecordings(path, { key: 'host', select: 'b' })).toThrow(/Values: "a"/);
    expect(failure(HOSTS, { key: 'hots' }).message).toContain('--key hots');
    expect(failure(`time,v\n${minutes(0)},5\n${minutes(1)},6\n`, { select: 'x' }).message).toContain(
      'holds one series',
    );
  });

  it('are told apart by a column of numbers, or by two columns, where no other does', () => {
    const ids = `time,sensor,v\n${[0, 1, 2, 3].flatMap((i) => [7, 9].map((id) => `${minutes(i)},${id},${i * id}.5`)).join('\n')}\n`;
    expect(failure(ids).message).toContain(
      'column "sensor": "7", "9"; choose one with --key sensor --select 7',
    );
    const nine = read(ids, { key: 'sensor', select: '9' });
    expect(nine.columns.map(({ name }) => name)).toEqual(['v']);
    const long = `time,host,metric,v\n${[0, 1, 2, 3].flatMap((i) => ['a', 'b'].flatMap((h) => ['cpu', 'mem'].map((m, k) => `${minutes(i)},${h},${m},${i + 10 * k}`))).join('\n')}\n`;
    expect(failure(long).message).toContain('4 series in one file, separated by column "host,metric"');
    expect(values(read(long, { key: 'host,metric', select: 'b / mem' }))).toEqual([10, 11, 12, 13]);
  });

  it('are told apart where rows are repeated, too', () => {
    const rows = HOSTS.trimEnd().split('\n');
    const repeated = `${[...rows, ...rows.slice(3, 7)].join('\n')}\n`;
    expect(failure(repeated).message).toContain('2 series in one file, separated by column "host"');
    expect(note(read(repeated, { select: 'db' }), 'duplicates')).toContain('repeated rows were dropped');
    const levels = Array.from({ length: 40 }, (_, i) => `${minutes(i >> 1)},${i < 4 ? 5 : 300 + i}`);
    expect(read(`time,v\n${levels.join('\n')}\n`).key).toBeNull();
    const twice = Array.from(
      { length: 12 },
      (_, i) => `${minutes(i >> 1)},${i < 6 ? 'on' : 'off'},${i >> 1}`,
    );
    expect(values(read(`time,state,v\n${twice.join('\n')}\n`))).toEqual([0, 1, 2, 3, 4, 5]);
  });

  it('of two hosts that report at different seconds are series, too', () => {
    const rows = Array.from(
      { length: 10 },
      (_, i) => `${stamp(NOON + i * 60_000)},a,1${i}\n${stamp(NOON + i * 60_000 + 17_000)},b,2${i}\n`,
    );
    expect(failure(`time,host,v\n${rows.join('')}`).message).toContain(
      'separated by column "host": "a", "b"',
    );
  });

  it('a column of states is no key', () => {
    const rows = Array.from(
      { length: 12 },
      (_, i) => `${minutes(i)},${i % 5 === 0 ? 'warn' : 'ok'},${i * i}`,
    );
    expect(values(read(`time,state,v\n${rows.join('\n')}\n`)).length).toBe(12);
  });
});

describe('the time', () => {
  const four = (cells: readonly string[], header = 'time'): string =>
    `${header};v\n${cells.map((cell, i) => `${cell};${i * i}.5`).join('\n')}\n`;

  it.each<[string, string[], string[], string | null]>([
    [
      'T and Z',
      ['2024-03-01T23:50:00Z', '2024-03-01T23:55:00Z', '2024-03-02T00:00:00Z'],
      ['2024-03-01 23:50 UTC', '2024-03-01 23:55 UTC', '2024-03-02 00:00 UTC'],
      'UTC',
    ],
    [
      'one offset',
      ['2024-03-01 23:50+0200', '2024-03-01 23:55+0200', '2024-03-02 00:00+0200'],
      ['2024-03-01 23:50 +02:00', '2024-03-01 23:55 +02:00', '2024-03-02 00:00 +02:00'],
      '+02:00',
    ],
    [
      'fractions',
      ['2024-03-01 10:00:00.25', '2024-03-01 10:00:00.5', '2024-03-01 10:00:00.75'],
      ['2024-03-01 10:00:00.250', '2024-03-01 10:00:00.500', '2024-03-01 10:00:00.750'],
      null,
    ],
    ['points', ['30.04.2024', '01.05.2024', '02.05.2024'], ['2024-04-30', '2024-05-01', '2024-05-02'], null],
    [
      'AM and PM',
      ['4/30/2024 11:00 PM', '5/1/2024 12:00 AM', '5/1/2024 1:00 AM'],
      ['2024-04-30 23:00', '2024-05-01 00:00', '2024-05-01 01:00'],
      null,
    ],
    [
      'a day above 12 that comes first',
      ['11/03/2024', '12/03/2024', '13/03/2024', '14/03/2024'],
      ['2024-03-11', '2024-03-12', '2024-03-13', '2024-03-14'],
      null,
    ],
    [
      'names of months',
      ['30 Apr 2024', '1 May 2024', '2 May 2024'],
      ['2024-04-30', '2024-05-01', '2024-05-02'],
      null,
    ],
    [
      'months',
      ['2024-01', '2024-02', '2024-03', '2024-04'],
      ['2024-01-01', '2024-02-01', '2024-03-01', '2024-04-01'],
      null,
    ],
    [
      'months as one word',
      ['1920M01', '1920M02', '1920M03'],
      ['1920-01-01', '1920-02-01', '1920-03-01'],
      null,
    ],
    ['years', ['1899', '1900', '1901'], ['1899', '1900', '1901'], null],
    ['figures alone', ['20240229', '20240301', '20240302'], ['2024-02-29', '2024-03-01', '2024-03-02'], null],
    [
      'figures with a clock',
      ['202402292330', '202403010000', '202403010030'],
      ['2024-02-29 23:30', '2024-03-01 00:00', '2024-03-01 00:30'],
      null,
    ],
  ])('with %s', (_, cells, expected, zone) => {
    const r = read(four(cells));
    expect(times(r)).toEqual(expected);
    expect(r.zone).toBe(zone);
    expect(r.columns.map(({ name }) => name)).toEqual(['v']);
    expect(codes(r).includes('naive-time')).toBe(zone === null && !['years'].includes(_));
  });

  it('of day and month in figures is read so that samples are even, and that is said', () => {
    const r = read(four(['03/01/2024', '04/01/2024', '05/01/2024', '06/01/2024']));
    expect(times(r)).toEqual(['2024-01-03', '2024-01-04', '2024-01-05', '2024-01-06']);
    expect(note(r, 'day-order')).toBe(
      'Dates such as "03/01/2024" are read with the day first; this way the rows are more evenly spaced.',
    );
    const one = read(four(['03/04/2024 10:00', '03/04/2024 10:05', '03/04/2024 10:10']));
    expect(times(one)[0]).toBe('2024-03-04 10:00');
    expect(note(one, 'day-order')).toContain(
      'read with the month first; the file does not show which is right',
    );
    const error = failure(four(['13/01/2024', '01/14/2024', '01/15/2024'])) as DataError;
    expect(error.message).toContain('mixes two date formats: day first in line 2, month first in line 3');
  });

  it.each<[string, number]>([
    ['seconds', 1e-3],
    ['milliseconds', 1],
    ['microseconds', 1e3],
    ['nanoseconds', 1e6],
  ])('since 1970 in %s is told by its size', (unit, factor) => {
    const r = read(
      four(
        [0, 1, 2].map((i) => String((NOON + i * 60_000) * factor)),
        'ts',
      ),
    );
    expect(times(r)).toEqual(['2024-03-01 12:00 UTC', '2024-03-01 12:01 UTC', '2024-03-01 12:02 UTC']);
    expect(note(r, 'epoch-unit')).toBe(
      `Column "ts" is read as ${unit} since 1970 (UTC), judging by the size of its numbers.`,
    );
    expect(r.step).toBe(60_000);
  });

  it('since 1970 in two units is read by the size of each number, with a note', () => {
    const stamps = [0, 1, 2, 3].map((i) => (NOON + i * 60_000) / (i < 2 ? 1000 : 1));
    const r = read(four(stamps.map(String), 'ts'));
    expect(times(r).map((time) => time.slice(11, 16))).toEqual(['12:00', '12:01', '12:02', '12:03']);
    expect(note(r, 'mixed-units')).toBe(
      '2 of 4 numbers in column "ts" are in another unit, the first, in milliseconds, in line 4; each is read by its size.',
    );
  });

  it('in two columns is joined', () => {
    const r = read('v,Date,Clock\n5,2024-02-29,23:50\n7,2024-02-29,23:55\n8,2024-03-01,0:00\n');
    expect(times(r)).toEqual(['2024-02-29 23:50', '2024-02-29 23:55', '2024-03-01 00:00']);
    expect(values(r)).toEqual([5, 7, 8]);
    const named = read('v,d,c,made\n5,2024-02-29,23:50,2024-03-09\n7,2024-02-29,23:55,2024-03-09\n', {
      time: 'd,c',
    });
    expect(times(named)).toEqual(['2024-02-29 23:50', '2024-02-29 23:55']);
  });

  it('of whole hours beside dates that repeat is joined', () => {
    const rows = Array.from(
      { length: 48 },
      (_, i) => `2024-02-${28 + Math.floor(i / 24)},${i % 24},${i * i}`,
    );
    const r = read(`day,hr,count\n${rows.join('\n')}\n`);
    expect(times(r).slice(22, 26)).toEqual([
      '2024-02-28 22:00',
      '2024-02-28 23:00',
      '2024-02-29 00:00',
      '2024-02-29 01:00',
    ]);
    expect(r.columns.map(({ name }) => name)).toEqual(['count']);
  });

  const part = (time: string, unit: string): number => {
    const date = new Date(`${time}Z`);
    const days = (date.getTime() - Date.UTC(date.getUTCFullYear(), 0, 1)) / 86_400_000;
    return {
      ...{ year: date.getUTCFullYear(), quarter: Math.ceil((date.getUTCMonth() + 1) / 3) },
      ...{ month: date.getUTCMonth() + 1, day: date.getUTCDate(), doy: 1 + Math.floor(days) },
      ...{ hour: date.getUTCHours(), minute: date.getUTCMinutes(), second: date.getUTCSeconds() },
      time: 100 * date.getUTCHours() + date.getUTCMinutes(),
    }[unit]!;
  };
  it.each<[string, string[]]>([
    ['Year,Month', ['1920-11-01', '1920-12-01', '1921-01-01', '1921-02-01']],
    ['year,quarter', ['1972-04-01', '1972-07-01', '1972-10-01', '1973-01-01']],
    ['YEAR,MONTH,DAY', ['2023-12-30', '2023-12-31', '2024-01-01', '2024-01-02']],
    ['year,doy', ['2024-12-30', '2024-12-31', '2025-01-01', '2025-01-02']],
    ['day,month,year,hour', ['2024-02-29 22:00', '2024-02-29 23:00', '2024-03-01 00:00', '2024-03-01 01:00']],
    [
      'year,month,day,hour,minute',
      ['2024-02-29 23:15', '2024-02-29 23:30', '2024-02-29 23:45', '2024-03-01 00:00'],
    ],
    ['year,month,day,time', ['2024-02-29 23:15', '2024-02-29 23:30', '2024-02-29 23:45', '2024-03-01 00:00']],
  ])('in columns %s is joined', (header, expected) => {
    const rows = expected.map((time, i) => {
      const stamp = time.length > 10 ? time.replace(' ', 'T') : `${time}T00:00`;
      return `${i},${header
        .toLowerCase()
        .split(',')
        .map((unit) => part(stamp, unit))
        .join(',')},${i * i}`;
    });
    const content = `No,${header},v\n${rows.join('\n')}\n`;
    const r = read(content);
    expect(times(r)).toEqual(expected);
    expect(r.columns.map(({ name }) => name)).toEqual(['v']);
    expect(note(r, 'time-columns')).toContain(` together are read as the time; line 2 is ${expected[0]}.`);
    expect(times(read(content, { time: header }))).toEqual(expected);
  });

  it('of dates beside hours, or clocks in figures, is joined', () => {
    const expected = [22, 23, 24, 25].map((hour) => stamp(Date.UTC(2024, 1, 28, hour)).slice(0, 16));
    const rows = (header: string, cell: (time: string) => string): string =>
      `${header},v\n${expected.map((time, i) => `${cell(time)},${i * i}`).join('\n')}\n`;
    const date = (time: string): string => time.slice(0, 10).replaceAll('-', '');
    expect(times(read(rows('date,hour', (time) => `${date(time)},${Number(time.slice(11, 13))}`)))).toEqual(
      expected,
    );
    const figures = rows('DATE,TIME', (time) => `${date(time)},${time.slice(11).replace(':', '')}`);
    expect(times(read(figures))).toEqual(expected);
  });

  it('in columns of a year and a week, or a month by its name, is joined', () => {
    const weeks = read('year,week,v\n2001,51,1\n2001,52,4\n2002,01,9\n');
    expect(times(weeks)).toEqual(['2001-12-17', '2001-12-24', '2001-12-31']);
    const months = read('month,year,v\nNov,2001,1\nDec,2001,4\nJan,2002,9\n');
    expect(times(months)).toEqual(['2001-11-01', '2001-12-01', '2002-01-01']);
  });

  it('in columns that do not give it together is refused, or they are not judged', () => {
    const content = 'ozone,Month,Day\n41,5,1\n36,5,2\n12,5,3\n';
    expect(failure(content, { time: 'Month,Day' })).toBeInstanceOf(ConfigError);
    expect(failure(content, { time: 'Month,Day' }).message).toContain(
      '--time Month,Day: these columns give no time together; name one column, a date and a clock',
    );
    const r = read(content);
    expect(r.time).toBeNull();
    expect(r.columns.map(({ name }) => name)).toEqual(['ozone']);
    expect(note(r, 'date-parts')).toBe(
      'Parts of dates are not judged: "Month", "Day"; they give no time together, so the samples are numbered. --column judges the columns that it names.',
    );
    expect(values(read(content, { columns: ['Day'] }))).toEqual([1, 2, 3]);
    const beside = read(
      `time,Year,Month,Hour,v\n${minutes(0)},2024.0,3.5,11.5,5\n${minutes(1)},2024.0,3.5,11.5,7\n`,
    );
    expect(beside.columns.map(({ name }) => name)).toEqual(['v']);
    const none = failure('year,month,day,v\n2024,2,28,1\n2024,2,30,4\n2024,3,1,9\n') as DataError;
    expect([none.line, none.column]).toEqual([3, 8]);
    expect(none.message).toContain('"30" in the time column "day"; expected a day in figures');
  });

  it('beside labels of points leaves them out, unless they are named', () => {
    const rows = [0, 1, 2, 3].map((n) => `${minutes(n)},${n * n},${n === 2 ? 1 : 0},0`).join('\n');
    const content = `timestamp,value,is_anomaly,changepoint\n${rows}\n`;
    const r = read(content);
    expect(r.columns.map(({ name }) => name)).toEqual(['value']);
    expect(note(r, 'labels')).toBe(
      'Labels of points are not judged: "is_anomaly", "changepoint". --column judges the columns that it names.',
    );
    expect(values(read(content, { columns: ['is_anomaly'] }))).toEqual([0, 0, 1, 0]);
    expect(read('v,label\n1,5\n2,7\n4,6\n').columns.map(({ name }) => name)).toEqual(['v', 'label']);
    // A count that begins with 0 and 1 is no label.
    const counts = Array.from({ length: 3000 }, (_, n) => `${minutes(n)},${n % 9},${n < 2999 ? n % 2 : 7}`);
    const counted = read(`timestamp,v,anomaly\n${counts.join('\n')}\n`);
    expect(counted.columns.map(({ name }) => name)).toEqual(['v', 'anomaly']);
    // Labels alone are judged, and not the parts of dates beside them.
    const alone = read('hour,anomaly\n5,0\n6,0\n8,1\n7,0\n');
    expect(alone.columns.map(({ name }) => name)).toEqual(['anomaly']);
    const out = readRecording(new TextEncoder().encode('1,0.0\n5,1.0\n2,0.0\n'), { name: 'a.out' });
    expect(out.columns.map(({ name }) => name)).toEqual(['column 1']);
  });

  it('of several series is told from hexadecimal names that begin like numbers', () => {
    const rows = (id: string): string =>
      Array.from({ length: 20 }, (_, n) => `${minutes(n)},${n * n},0,${id}`).join('\n');
    const kpi = `timestamp,value,label,KPI ID\n${rows('02e99bd4f6cfb33f')}\n${rows('046ec29ddf80d62e')}\n`;
    expect(failure(kpi).message).toMatch(/2 series in one file, separated by column "KPI ID"/);
    for (const unit of ['m3/h', 'm2s2', ' W/m2K4', ' H2O2'])
      expect(values(read(`t,v\n0,1${unit}\n1,2${unit}\n`))).toEqual([1, 2]);
  });

  it('that cannot be read is said to be missing', () => {
    const r = read('time,v\nMar  1 noon 01,5\nMar  1 noon 02,7\n');
    expect(r.time).toBeNull();
    expect(note(read('n,week,v\n0,no 1,5\n1,no 2,7\n'), 'no-time')).toContain('Column "week" is not read');
    expect(note(r, 'no-time')).toContain(
      'Column "time" is not read as time: "Mar  1 noon 01" is no known date or clock time',
    );
  });

  it('of the hour that is there twice is not averaged without a word', () => {
    const rows = ['00', '01', '02', '02', '03', '04'].map((hour, i) => `2024-10-27 ${hour}:00,${i * i}`);
    expect(note(read(`time,v\n${rows.join('\n')}\n`), 'duplicates')).toContain(
      'set the zone with --tz to keep both readings.',
    );
    expect(values(read(`time,v\n${rows.join('\n')}\n`, { tz: 'Europe/Berlin' }))).toEqual([
      0, 1, 4, 9, 16, 25,
    ]);
  });

  it('is not what numbers of another meaning are', () => {
    const rows = Array.from({ length: 6 }, (_, i) => `${20 + ((i * 7) % 5)},${(i * 37) % 11},${300 + i}00`);
    const r = read(`t,response_time,voltage\n${rows.join('\n')}\n`);
    expect(r.time).toBeNull();
    expect(r.columns.map(({ name }) => name)).toEqual(['t', 'response_time', 'voltage']);
  });

  it('of day alone goes on after midnight', () => {
    const r = read('clock,v\n23:50,1\n23:55,2\n00:00,4\n00:05,8\n');
    expect(times(r)).toEqual(['23:50', '23:55', 'day 2, 00:00', 'day 2, 00:05']);
    expect(r.origin).toBe('midnight');
    expect(note(r, 'time-of-day')).toContain('a new day begins where the clock goes back (once)');
  });

  it('of day in figures is told from seconds by its even steps, and its rows keep their order', () => {
    const clock = (minute: number): number => 100 * Math.floor((minute / 60) % 24) + (minute % 60);
    const content = (from: number, step: number): string =>
      `day,time,v\n${Array.from({ length: 30 }, (_, i) => `${346 + Math.floor((from + step * i) / 1440)},${clock(from + step * i)},${i * i}`).join('\n')}\n`;
    const r = read(content(1380, 10));
    expect(times(r).slice(0, 8)).toEqual(
      ['23:00', '23:10', '23:20', '23:30', '23:40', '23:50'].concat(['day 2, 00:00', 'day 2, 00:10']),
    );
    expect(values(r)).toEqual(Array.from({ length: 30 }, (_, i) => i * i));
    expect(note(r, 'time-of-day')).toContain('times of day such as 2300 in hours and minutes without a date');
    expect(note(r, 'date-parts')).toContain('not judged: "day"');
    expect(times(read(content(1320, 60)))[2]).toBe('day 2, 00:00');
    const seconds = Array.from({ length: 20 }, (_, i) => `${100 * i},${i * i}`);
    expect(codes(read(`time,v\n${seconds.join('\n')}\n`))).toContain('elapsed');
  });

  it('as a spreadsheet counts days is one under a header of dates alone', () => {
    const r = read('date,v\n45352,1\n45352.5,2\n45353,4\n');
    expect(times(r)).toEqual(['2024-03-01 00:00', '2024-03-01 12:00', '2024-03-02 00:00']);
    expect(codes(r)).toContain('excel-date');
    expect(read('a,v\n45352,1\n45353,4\n').time).toBeNull();
  });

  it.each<[string, (i: number) => number, number, string[]]>([
    ['months, rounded to two decimals', (i) => 1998 + i / 12, 2, ['1998-01-01', '1998-02-01', '1998-03-01']],
    ['quarters', (i) => 1960.25 + i / 4, 9, ['1960-04-01', '1960-07-01', '1960-10-01']],
    ['middles of months', (i) => 1998 + (i + 0.5) / 12, 4, ['1998-01-01', '1998-02-01', '1998-03-01']],
    ['weeks', (i) => 2001 + i / 52, 4, ['2001-01-01', '2001-01-08', '2001-01-15']],
    ['days', (i) => 2001 + i / 365, 3, ['2001-01-01', '2001-01-02', '2001-01-03']],
    ['middles of years', (i) => 1700.5 + i, 1, ['1700-07-01', '1701-07-01', '1702-07-01']],
  ])('in decimal years is read as %s', (_, year, decimals, expected) => {
    const rows = Array.from({ length: 60 }, (_, i) => `${Number(year(i).toFixed(decimals))},${i % 7}`);
    const r = read(`time,v\n${rows.join('\n')}\n`);
    expect(times(r).slice(0, 3)).toEqual(expected);
    expect(r.gaps).toEqual([]);
    expect(note(r, 'decimal-year')).toContain(` in line 2 is ${expected[0]}.`);
  });

  it('in decimal years may be that of several series', () => {
    const rows = ['a', 'b'].flatMap((host) =>
      Array.from({ length: 24 }, (_, i) => `${host},${1998 + i / 12},${i}`),
    );
    expect(times(read(`host,time,v\n${rows.join('\n')}\n`, { select: 'b' }))[23]).toBe('1999-12-01');
  });

  it('in seconds is not decimal years', () => {
    const rows = (count: number): string =>
      Array.from({ length: count }, (_, i) => `${1600 + i / 4},${i % 7}`).join('\n');
    expect(read(`time_s,v\n${rows(60)}\n`)).toMatchObject({ origin: 'start', step: 250 });
    expect(read(`time,v\n${rows(4000)}\n`)).toMatchObject({ origin: 'start', step: 250 });
    expect(read(`time,v\n${rows(60)}\n`)).toMatchObject({ origin: 'start', step: 250 });
    const whole = Array.from({ length: 60 }, (_, i) => `${1500 + i},${i % 7}`).join('\n');
    expect(read(`time (s),v\n${whole}\n`)).toMatchObject({ origin: 'start', step: 1000 });
  });

  it('as R counts days is one where it is as late as that, and days or weeks apart', () => {
    const days = (first: number, steps: readonly number[], header = 'Date'): string =>
      `${header},v\n${[0, ...steps].map((_, i) => `${steps.slice(0, i).reduce((a, b) => a + b, first)},${i * i}`).join('\n')}\n`;
    const r = read(days(11344, [1, 1, 1, 3, 1]));
    expect(times(r).slice(0, 2)).toEqual(['2001-01-22', '2001-01-23']);
    expect(note(r, 'day-number')).toBe('Column "Date" is read as days since 1970-01-01, as R counts dates.');
    expect(times(read(days(20_089, [7, 7, 7, 7])))).toContain('2025-01-08');
    expect(times(read(days(-7, [7, 7, 7, 7])))[0]).toBe('1969-12-25');
    expect(read(days(1, [1, 1, 1, 1], 'day')).time).toBeNull();
    expect(codes(read(days(45_352, [1, 1, 1, 1])))).toContain('excel-date');
    expect(codes(read(days(11_344, [5, 9, 11, 3])))).toContain('elapsed');
  });

  it.each<[string, string[], string[], string]>([
    ['month', ['192011', '192012', '192101'], ['1920-11-01', '1920-12-01', '1921-01-01'], 'months'],
    ['yyyymm', ['192011', '192012', '192101'], ['1920-11-01', '1920-12-01', '1921-01-01'], 'months'],
    ['Date', ['11/1920', '12/1920', '01/1921'], ['1920-11-01', '1920-12-01', '1921-01-01'], 'months'],
    ['week', ['200151', '200152', '200201'], ['2001-12-17', '2001-12-24', '2001-12-31'], 'weeks'],
    ['week', ['51/2001', '52/2001', '01/2002'], ['2001-12-17', '2001-12-24', '2001-12-31'], 'weeks'],
  ])('of a %s in figures is read: %s', (header, cells, expected, unit) => {
    const r = read(four(cells, header));
    expect(times(r)).toEqual(expected);
    expect(note(r, 'period')).toBe(`Column "${header}" is read as ${unit}, written like "${cells[0]}".`);
  });

  it('in figures of no month is no month', () => {
    expect(codes(read(four(['192012', '192013', '192014'])))).toContain('elapsed');
    expect(read(four(['192001', '192002', '192003'], 'load')).columns).toHaveLength(2);
  });

  it('elapsed is counted from the beginning, in the unit of the header', () => {
    const r = read('time_ms,v\n0,1\n500,2\n1000,4\n1500,3\n');
    expect(times(r)).toEqual(['0:00:00.000', '0:00:00.500', '0:00:01.000', '0:00:01.500']);
    expect(r).toMatchObject({ origin: 'start', step: 500, zone: null });
    expect(note(r, 'elapsed')).toContain('milliseconds since the start');
  });

  it('is none where there are row numbers alone, or nothing', () => {
    expect(read(',v\n0,5\n1,7\n2,6\n')).toMatchObject({ time: null, step: null, zone: null, gaps: [] });
    const r = read('5\n7\n6\n');
    expect(r.time).toBeNull();
    expect(values(r)).toEqual([5, 7, 6]);
    expect([...r.rows]).toEqual([1, 2, 3]);
  });

  it('with several offsets is shown in UTC, or in the zone that is asked for', () => {
    const cells = ['2024-03-31T01:30+01:00', '2024-03-31T03:00+02:00', '2024-03-31T03:30+02:00'];
    const r = read(four(cells));
    expect(times(r)).toEqual(['2024-03-31 00:30 UTC', '2024-03-31 01:00 UTC', '2024-03-31 01:30 UTC']);
    expect(note(r, 'mixed-offsets')).toContain('2 offsets (+01:00, +02:00)');
    expect(times(read(four(cells), { tz: 'Europe/Berlin' }))[1]).toBe('2024-03-31 03:00 +02:00');
  });

  it('of a zone keeps its order and step on days of 23 and 25 hours', () => {
    const local = (from: number, to: number): string[] => {
      const format = new Intl.DateTimeFormat('sv-SE', {
        timeZone: 'Europe/Berlin',
        dateStyle: 'short',
        timeStyle: 'short',
      });
      const cells: string[] = [];
      for (let ms = from; ms < to; ms += 1_800_000) cells.push(format.format(ms));
      return cells;
    };
    for (const [day, hours, twice] of [
      ['2024-03-31', 23, 0],
      ['2024-10-27', 25, 4],
    ] as const) {
      const from = Date.parse(`${day}T00:00:00${day < '2024-06' ? '+01:00' : '+02:00'}`);
      const cells = local(from, from + hours * 3_600_000);
      expect(cells.length).toBe(2 * hours);
      for (const some of [cells, cells.toReversed()]) {
        const r = read(four(some), { tz: 'Europe/Berlin' });
        expect([...r.time!]).toEqual(cells.map((_, i) => from + i * 1_800_000));
        expect(r.gaps).toEqual([]);
        expect(r.zone).toBe('Europe/Berlin');
        if (twice > 0)
          expect(note(r, 'ambiguous-hour')).toContain(
            `${twice} time stamps are in an hour that occurs twice in Europe/Berlin, because clocks are set back, the first in line ${some === cells ? 6 : 44};`,
          );
      }
      const hourly = read(four(cells.filter((_, i) => i % 2 === 0)), { tz: 'Europe/Berlin' });
      expect(hourly.time!.length).toBe(hours);
      expect(codes(hourly)).not.toContain('duplicates');
    }
  });

  it('few rows without a time are left out of every column and series, and counted', () => {
    const rows = Array.from({ length: 60 }, (_, i) => [
      ...[i === 7 ? '' : i === 20 ? 'never' : minutes(i >> 1), i % 2 === 0 ? 'a' : 'b', String(i)],
    ]);
    const text = `time,host,v\n${rows.map((row) => row.join(',')).join('\n')}\n`;
    const all = read(text, { select: '*' });
    expect(all.columns.map(({ name }) => name)).toEqual(['a', 'b']);
    for (const [k, left] of [
      [0, 10],
      [1, 3],
    ] as const)
      expect(values(all, k)).toEqual(
        Array.from({ length: 30 }, (_, i) => (i === left ? Number.NaN : 2 * i + k)),
      );
    const { count, lines, text: words } = all.notes.find(({ kind }) => kind === 'left-out')!;
    expect([count, lines]).toEqual([2, [9, 9]]);
    expect(words).toBe(
      '2 rows without a time left out, the first in line 9: empty cell in the time column "time".',
    );
  });

  it.each<[string, string, number, number, string]>([
    [
      'no date',
      'time,v\n2024-03-01 10:00,5\n2024-03-01 10:05,6\n2024-13-01 10:10,7\n',
      4,
      1,
      '"2024-13-01 10:10" in the time column "time"; expected a time written like "2024-03-01 10:00" of line 2',
    ],
    [
      'nothing',
      'v,time\n5,2024-03-01 10:00\n6,\n7,2024-03-01 10:10\n',
      3,
      3,
      'empty cell in the time column "time"',
    ],
    [
      'a clock among dates',
      'time,v\n2024-03-01 10:00,5\n10:05,6\n2024-03-01 10:10,7\n',
      3,
      1,
      '"10:05" in the time column',
    ],
    [
      'a word among numbers',
      'ts,v\n1700000000,5\n1700000060,6\nnow,7\n1700000180,8\n',
      4,
      1,
      '"now" in the time column "ts"; expected a number of seconds',
    ],
  ])('that is %s is refused with its place', (_, content, line, column, message) => {
    const error = failure(content) as DataError;
    expect(error).toBeInstanceOf(DataError);
    expect([error.line, error.column]).toEqual([line, column]);
    expect(error.message).toContain(message);
  });

  it('since which samples are read', () => {
    const content = `time,v\n${[0, 1, 2, 3, 4, 5].map((n) => `${minutes(n)},${n * n}`).join('\n')}\n`;
    expect(values(read(content, { since: '2min' }))).toEqual([9, 16, 25]);
    expect(values(read(content, { since: '2024-03-01 12:04' }))).toEqual([16, 25]);
    expect(failure(content, { since: '2024-03-01 13:00' }).message).toContain('no sample since');
    expect(failure(content, { tz: 'Mars/Base' })).toBeInstanceOf(ConfigError);
  });
});

describe('the step', () => {
  const at = (offsets: readonly number[], unit = 60_000): string =>
    `time,v\n${offsets.map((n, i) => `${new Date(NOON + n * unit).toISOString()},${i + 1}`).join('\n')}\n`;

  it('is the median, and what it lacks is a gap of missing values', () => {
    const r = read(at([0, 1, 2, 3, 7, 8, 9, 10, 12, 13, 14, 15, 16, 17, 18, 19]));
    expect(r.step).toBe(60_000);
    expect(values(r).slice(0, 10)).toEqual([1, 2, 3, 4, Number.NaN, Number.NaN, Number.NaN, 5, 6, 7]);
    expect([...r.rows].slice(2, 8)).toEqual([4, 5, -1, -1, -1, 6]);
    expect(r.gaps).toEqual([
      { from: NOON + 180_000, to: NOON + 420_000, missing: 3 },
      { from: NOON + 600_000, to: NOON + 720_000, missing: 1 },
    ]);
    expect([...r.time!]).toEqual(Array.from({ length: 20 }, (_, i) => NOON + i * 60_000));
    expect(note(r, 'gaps')).toBe(
      '2 gaps without samples (4 missing at a step of 1 min), the longest from 2024-03-01 12:03 UTC to 2024-03-01 12:07 UTC.',
    );
  });

  it('leaves long gaps as jumps, and says so', () => {
    const r = read(at([0, 1, 2, 3, 50_000, 50_001, 50_002]));
    expect(r.columns[0]!.values.length).toBe(7);
    expect(r.gaps).toEqual([{ from: NOON + 180_000, to: NOON + 50_000 * 60_000, missing: 49_996 }]);
    expect(note(r, 'gaps')).toContain('too long to be filled, so the time jumps there');
  });

  it('keeps samples that are a little off, and says so', () => {
    const r = read(at([0, 1.01, 2, 2.97, 4, 5.02, 6, 7, 8, 9]));
    expect(r.step).toBe(60_000);
    expect([...r.time!][1]).toBe(NOON + 60_600);
    expect(codes(r)).not.toContain('resampled');
    expect(note(r, 'jitter')).toContain(
      'of 10 are off an even step of 1 min, most of them by 3 % of it or less',
    );
  });

  it('of stamps that were rounded to the second is their mean', () => {
    const r = read(
      at(
        Array.from({ length: 41 }, (_, i) => Math.floor(2.5 * i)),
        1000,
      ),
    );
    expect(r.step).toBe(2500);
    expect(r.columns[0]!.values.length).toBe(41);
    expect(codes(r)).not.toContain('resampled');
  });

  it('is made even where no step explains the times, but not over long gaps', () => {
    const offsets = [0, 1, 2.4, 3, 4.7, 5, 6.3, 7, 8.5, 9, 30, 31.5, 32, 33, 34.6, 35];
    const r = read(at(offsets));
    expect(r.step).toBe(60_000);
    expect(r.time!.every((ms, i) => ms === NOON + i * 60_000)).toBe(true);
    expect(values(r)[3]).toBe(4);
    expect(values(r)[2]).toBeCloseTo(2 + 1 / 1.4, 12);
    expect(values(r)[15]).toBeNaN();
    expect(values(r).slice(30, 31)).toEqual([11]);
    expect(r.rows[2]).toBe(4);
    expect(r.rows[15]).toBe(-1);
    expect(r.gaps).toEqual([{ from: NOON + 9 * 60_000, to: NOON + 30 * 60_000, missing: 20 }]);
    expect(note(r, 'resampled')).toBe(
      'The samples are unevenly spaced (18 s to 21 min apart); 16 samples were interpolated to 36, one every 1 min.',
    );
  });

  it('of months, quarters, years and working days is that of the calendar', () => {
    const rows = (dates: readonly string[]): string =>
      `date,v\n${dates.map((date, i) => `${date},${i * i}`).join('\n')}\n`;
    const months = Array.from({ length: 30 }, (_, i) =>
      new Date(Date.UTC(2021, i + 1, 0)).toISOString().slice(0, 10),
    );
    const r = read(rows(months.filter((_, i) => i !== 13)));
    expect(r.columns[0]!.values.length).toBe(30);
    expect(times(r)[13]).toBe('2022-02-28');
    expect(values(r)[13]).toBeNaN();
    expect(note(r, 'calendar')).toBe('There is one sample per month; all are kept as they are.');
    const years = read(rows(['1999-06-30', '2000-06-30', '2001-06-30', '2002-06-30', '2003-06-30']));
    expect(note(years, 'calendar')).toContain('year');
    const days = Array.from({ length: 40 }, (_, i) => new Date(Date.UTC(2024, 2, 1 + i))).filter(
      (day) => day.getUTCDay() % 6 !== 0,
    );
    const work = read(rows(days.filter((_, i) => i !== 9).map((day) => day.toISOString().slice(0, 10))));
    expect(work.gaps).toHaveLength(1);
    expect(times(work)).toEqual(days.map((day) => day.toISOString().slice(0, 10)));
    expect(note(work, 'calendar')).toContain('working day');
  });
});

describe('numbers', () => {
  it.each<[string, string, number[], string[]]>([
    ['a decimal comma', 'v\n1,5\n2,25\n-3\n', [1.5, 2.25, -3], ['decimal-comma']],
    [
      'a decimal comma and points between thousands',
      'a;v\nx;1.234,5\ny;987,25\nz;1.000\n',
      [1234.5, 987.25, 1000],
      ['delimiter', 'decimal-comma', 'thousands'],
    ],
    ['commas between thousands', 'a,v\nx,"1,234.5"\ny,12\nz,"3,000"\n', [1234.5, 12, 3000], ['thousands']],
    [
      'blanks between thousands',
      'a;v\nx;1 234,5\ny;12\nz;3\u00a0000\n',
      [1234.5, 12, 3000],
      ['delimiter', 'decimal-comma', 'thousands'],
    ],
    ['apostrophes between thousands', "a;v\nx;1'234.5\ny;12\n", [1234.5, 12], ['delimiter', 'thousands']],
    ['percent', 'v\n45%\n7 %\n-3.5%\n', [45, 7, -3.5], ['unit']],
    ['a unit', 'v\n12 ms\n13ms\n0\n', [12, 13, 0], ['unit']],
    ['a currency', 'v\n"$1,200.50"\n-$3.00\n$5\n', [1200.5, -3, 5], ['thousands', 'unit']],
    ['quotes', '"v"\n"1.5"\n"2"\n', [1.5, 2], []],
    ['true and false', 'v\ntrue\nFALSE\nTrue\n', [1, 0, 1], ['boolean']],
    [
      'marks of missing values',
      'a,v\nx,1\ny,-\nz,#N/A\nw,\n',
      [1, Number.NaN, Number.NaN, Number.NaN],
      ['missing'],
    ],
    ['infinities', 'v\n1\ninf\n1e999\n-2\n', [1, Number.NaN, Number.NaN, -2], ['infinite', 'missing']],
    ['a typographic minus', 'v\n\u22121.5\n2\n', [-1.5, 2], []],
    [
      'points that are decimal, beside semicolons',
      'a;v\nx;1.234\ny;5.678\n',
      [1.234, 5.678],
      ['delimiter', 'ambiguous-number'],
    ],
  ])('with %s', (_, content, expected, said) => {
    const r = read(content);
    expect(values(r)).toEqual(expected);
    expect(codes(r)).toEqual(said);
  });

  it('say how they were read by an example', () => {
    expect(note(read('a;v\nx;1.234,5\ny;987,25\n'), 'decimal-comma')).toBe(
      'Numbers are read with a decimal comma: "1.234,5" in line 2 is 1234.5.',
    );
    expect(note(read('v\n12 ms\n13ms\n'), 'unit')).toBe(
      'The unit "ms" was removed from the numbers of column "v".',
    );
    expect(note(read('v\n1\n\n3\n\n'), 'missing')).toBe('1 value missing, the first in line 3, column "v".');
  });

  it('among a few words have missing values, and a first line', () => {
    const rows = Array.from(
      { length: 300 },
      (_, i) => `${minutes(i)},${i % 2},${i === 41 ? 'timeout' : i / 2}`,
    );
    const r = read(`time,up,latency\n${rows.join('\n')}\n`);
    expect(values(r, 1)[41]).toBeNaN();
    expect(note(r, 'words')).toBe(
      '1 cell with words among the numbers counts as missing, the first "timeout" in line 43, column "latency".',
    );
  });

  it.each<[string, string, number, number, string]>([
    [
      'many words',
      'a,v\nx,1\ny,error\nz,3\n',
      3,
      3,
      '"error" in column "v" is not a number; 1 cell of 3 are words, too many to count as missing',
    ],
    [
      'another way of writing',
      'a;v\nx;1,5\ny;2.5\nz;3,5\nw;4,5\n',
      3,
      3,
      '"2.5" in column "v" is not a number; others are written like "1,5"',
    ],
    [
      'another unit',
      'v\n12 ms\n13 ms\n1 s\n14 ms\n',
      4,
      1,
      '"1 s" in column "v" is not a number; others are written like "12 ms"',
    ],
    [
      'a field too many',
      'a,v\nx,1\ny,1,5\n',
      3,
      3,
      '3 fields where the others have 2; if a decimal comma splits a number',
    ],
    [
      'a field too few in the middle',
      'a,b,v\nx,1,2\ny,1\nz,1,3\nw,2,4\n',
      3,
      3,
      '2 fields where the others have 3',
    ],
  ])('with %s are refused with the place', (_, content, line, column, message) => {
    const error = failure(content) as DataError;
    expect(error).toBeInstanceOf(DataError);
    expect(error.message).toContain(message);
    expect([error.line, error.column]).toEqual([line, column]);
  });

  it.each<[string, string, RecordingOptions, string]>([
    ['one row', 'v\n1\n', {}, '1 row of data; a recording needs at least 2'],
    [
      'one long row',
      `${Array.from({ length: 30 }, (_, i) => i % 7).join(' ')}\n`,
      {},
      '1 row of data; a recording needs at least 2, one for each sample: write the 30 values one below the other',
    ],
    ['one time', `time,v\n${minutes(0)},1\n${minutes(0)},3\n`, {}, '1 sample; a recording needs at least 2'],
    ['an empty file', '', {}, 'empty; expected a column of numbers'],
    ['a header alone', 'time,v\n', {}, 'only a header ("time", "v"), no data below it'],
    [
      'words alone',
      'a,b\nx,y\nz,w\n',
      {},
      'no column of numbers beside the time: "a" begins with "x", "b" begins with "y"',
    ],
    ['a column without a number', 'a,v\nx,NA\ny,\n', {}, 'column "v" holds no number'],
    [
      'numbers that decimal commas split',
      `time,v\n${minutes(0)},1,5\n${minutes(1)},2,5\n`,
      {},
      'the header has 2 fields and the rows have 3; if decimal commas split the numbers',
    ],
    [
      '1001 columns',
      `${Array.from({ length: 1001 }, (_, i) => `c${i}`).join(',')}\n${'1.5,'.repeat(1000)}2\n${'2.5,'.repeat(1000)}3\n`,
      {},
      '1001 columns of numbers, more than the 1000 that are read at once',
    ],
  ])('of %s are refused', (_, content, options, message) => {
    expect(failure(content, options)).toBeInstanceOf(TimeseerError);
    expect(failure(content, options).message).toContain(message);
  });

  it('of a gzip archive or a workbook are refused with what to do', () => {
    expect(failure(Uint8Array.of(0x1f, 0x8b, 8, 0, 0)).message).toContain('gzip archive; unpack it first');
    expect(failure(Uint8Array.of(0x50, 0x4b, 3, 4, 0)).message).toContain('save the sheet as CSV');
    expect(() => readRecording(join(root, 'none.csv'))).toThrow(/none.csv: cannot be read \(no such file/);
  });
});

describe('columns', () => {
  const WIDE = `time,host,cpu,mem,ok\n${[0, 1, 2].map((n) => `${minutes(n)},a,${n + 0.5},${n * 10},true`).join('\n')}\n`;

  it('are all of numbers that are no time', () => {
    expect(read(WIDE).columns.map(({ name }) => name)).toEqual(['cpu', 'mem', 'ok']);
    expect(read('n,v\n0,5\n1,7\n2,9\n').columns.map(({ name }) => name)).toEqual(['v']);
  });

  it('are the ones asked for, by name or number', () => {
    expect(read(WIDE, { columns: ['MEM', 3] }).columns).toEqual([
      { name: 'mem', values: Float64Array.of(0, 10, 20) },
      { name: 'cpu', values: Float64Array.of(0.5, 1.5, 2.5) },
    ]);
    expect(failure(WIDE, { columns: ['men'] }).message).toContain('--column men');
    expect(failure(WIDE, { columns: ['host'] }).message).toContain(
      ':2:21: "a" in column "host" is not a number',
    );
    expect(failure(WIDE, { time: 'tmie' }).message).toContain('--time tmie');
  });

  it('come from bytes, too', () => {
    const r = readRecording(new TextEncoder().encode(WIDE), { name: 'upload.csv', columns: ['cpu'] });
    expect([r.name, values(r)]).toEqual(['upload', [0.5, 1.5, 2.5]]);
  });
});

describe('tables', () => {
  const rows = (between: string): string => ['time', 'v'].join(between);
  it.each<[string, string]>([
    ['|', `${rows('|')}\n${minutes(0)}|5\n${minutes(1)}|7\n`],
    ['tabs', `${rows('\t')}\n${minutes(0)}\t5\n${minutes(1)}\t7\n`],
    ['blanks', `date time v\n${minutes(0)}   5\n${minutes(1)}\t 7  \n`],
    ['blanks and a decimal comma', `date time v w\n${minutes(0)}   5,0 1,5\n${minutes(1)}  7,0  2,5\n`],
    ['a stated delimiter', `sep=;\ntime;v\n${minutes(0)};5\n${minutes(1)};7\n`],
    [
      'comments',
      `# made by pump 7, on Monday\n// and more\ntime,v\n${minutes(0)},5\n# restart, by hand\n${minutes(1)},7\n% end\n`,
    ],
    ['a header in a comment', `# time, v\n${minutes(0)},5\n${minutes(1)},7\n`],
    ['lines above', `Report of pump 7\n\nExported today\ntime,v\n${minutes(0)},5\n${minutes(1)},7\n`],
    ['units below the header', `time,v\n,%\n${minutes(0)},5\n${minutes(1)},7\n`],
    ['a delimiter at the end of rows', `time,v\n${minutes(0)},5,\n${minutes(1)},7,\n`],
    ['a delimiter at the end of all lines', `time,v,\n${minutes(0)},5,\n${minutes(1)},7,\n`],
    ['a header that comes again', `time,v\n${minutes(0)},5\ntime,v\n${minutes(1)},7\n`],
    ['a last line that ends early', `time,v\n${minutes(0)},5\n${minutes(1)},7\n2024-03-0`],
    ['a ruler', ` time | v \n--------+----\n ${minutes(0)} | 5 \n ${minutes(1)} | 7 \n(2 rows)`],
    ['blank lines', `\n\ntime,v\n\n${minutes(0)},5\n \n${minutes(1)},7\n\n`],
    ['NUL bytes', `\0\0\0time,v\n${minutes(0)},5\n${minutes(1)},7\n`],
    ['row names without a header', `time v\n1 2024-03-01T12:00 5\n2 2024-03-01T12:01 7\n`],
  ])('with %s are read', (_, content) => {
    const r = read(content);
    expect(times(r)).toEqual(['2024-03-01 12:00', '2024-03-01 12:01']);
    expect(r.columns[0]).toEqual({ name: 'v', values: Float64Array.of(5, 7) });
  });

  it('say what was skipped', () => {
    const r = read(`Report\ntime,v\nh,%\n${minutes(0)},5\n# restart\n${minutes(1)},7\ntime,v\n2024`);
    expect(r.notes.map(({ text }) => text)).toEqual([
      '1 line above the table was skipped.',
      '1 comment line skipped.',
      'The row below the header holds only words ("h", "%") and was skipped.',
      'The header is repeated 1 time, first in line 7; these lines were skipped.',
      'The last line (8) is incomplete and was left out.',
      'The time stamps have no time zone and are shown as written; set their zone with --tz.',
    ]);
  });

  const text = `time;Größe\n${minutes(0)};5\n${minutes(1)};7\n`;
  const utf16 = Buffer.from(text, 'utf16le');
  it.each<[string, Uint8Array, string]>([
    ['UTF-16, little-endian', Buffer.concat([Uint8Array.of(0xff, 0xfe), utf16]), 'UTF-16, little-endian.'],
    [
      'UTF-16, big-endian',
      Buffer.concat([Uint8Array.of(0xfe, 0xff), Buffer.from(utf16).swap16()]),
      'UTF-16, big-endian.',
    ],
    ['UTF-16 without a mark', utf16, 'UTF-16, little-endian, though it has no byte-order mark.'],
    ['UTF-8 with a mark', Buffer.from(`\ufeff${text}`), ''],
    ['Latin-1', Buffer.from(text, 'latin1'), 'Windows-1252 (Western European).'],
  ])('in %s are read', (_, bytes, said) => {
    const r = read(bytes);
    expect(r.columns[0]).toEqual({ name: 'Größe', values: Float64Array.of(5, 7) });
    expect(note(r, 'encoding').endsWith(said)).toBe(true);
  });
});

describe('whatever the file', () => {
  const WHOLE = [
    `time,host,v,w\n${[0, 1, 2, 3, 4].map((n) => `${minutes(n)},a,${n},"1,50${n}"\n${minutes(n)},b,${n / 3},3`).join('\n')}\n`,
    `# pump\nDatum;Zeit;Druck\n01.03.2024;10:00;1,5\n01.03.2024;10:05;1.200,5\n02.03.2024;10:05;-\n`,
    `ts v\n1700000000 12ms\n1700000060 13ms\n1700000190 -1ms\n`,
  ];
  it('it gives recordings that hold together, or a typed error', () => {
    const tally = { read: 0, refused: 0 };
    for (let i = 0; i < 1200; i++) {
      const bytes = mutant(Buffer.from(WHOLE[i % WHOLE.length]!), 7, 'recording', i);
      let all: Recording[];
      try {
        all = readRecordings(bytes, { ...(i % 4 === 0 ? { tz: 'Europe/Berlin' } : {}) });
      } catch (error) {
        if (!(error instanceof TimeseerError))
          throw new Error(`mutant ${i}: ${(error as Error).stack}`, { cause: error });
        tally.refused++;
        continue;
      }
      tally.read++;
      for (const { columns, time, rows, step, notes } of all) {
        const { length } = columns[0]!.values;
        expect(length).toBeGreaterThan(1);
        expect(rows.length).toBe(length);
        expect(columns.every((column) => column.values.length === length)).toBe(true);
        expect(
          columns.every((column) => column.values.every((v) => Number.isFinite(v) || Number.isNaN(v))),
        ).toBe(true);
        expect(
          time === null || (time.length === length && time.every((ms, k) => k === 0 || ms > time[k - 1]!)),
        ).toBe(true);
        expect(step === null || step > 0).toBe(true);
        const wrong = notes.filter(
          ({ text: said }) => !said.endsWith('.') || / (?:NaN|undefined|null)/.test(said),
        );
        expect(wrong).toEqual([]);
      }
    }
    expect(Math.min(tally.read, tally.refused)).toBeGreaterThan(100);
  });

  it('many rows keep their times and lines', () => {
    // A day of stamps, again and again under another date.
    const day = Array.from({ length: 86_400 }, (_, i) => `${stamp(NOON + i * 1000).slice(10)},${i / 8}`);
    const lines = ['time,v'];
    for (let i = 0; i < 100_000; i++) {
      const date = Math.floor((43_200 + i) / 86_400);
      lines.push(`2024-03-${date < 9 ? 0 : ''}${date + 1}${day[i % 86_400]}`);
    }
    const r = readRecording(new TextEncoder().encode(lines.join('\n')));
    expect([r.step, r.time!.length, r.rows[99_999]]).toEqual([1000, 100_000, 100_001]);
    expect(r.time![99_999]).toBe(NOON + 99_999_000);
    expect(r.columns[0]!.values[99_999]).toBe((99_999 % 86_400) / 8);
  });
});

describe('files as people have them', () => {
  const hours = (n: number, cell: (i: number) => string): string =>
    `time,load\n${Array.from({ length: n }, (_, i) => `2025-03-01T${String(i).padStart(2, '0')}:00,${cell(i)}`).join('\n')}\n`;

  it('columns of one name are told apart by their numbers, and this is said', () => {
    const recording = read('time,load,load\n2025-03-01,1,7\n2025-03-02,2,8\n2025-03-03,4,9\n');
    expect(recording.columns.map(({ name }) => name)).toEqual(['load', 'load (column 3)']);
    expect(values(recording, 1)).toEqual([7, 8, 9]);
    expect(note(recording, 'names')).toMatch(/"load \(column 3\)"/);
  });

  it('numbers with and without a multiplying unit are not read as of one size', () => {
    const { message } = failure(hours(20, (i) => (i === 7 ? '950' : `1.${i % 9}k`)));
    expect(message).toMatch(/:9:18: "950" in column "load" has no "k"/);
    expect(values(read(hours(20, (i) => (i === 7 ? '0' : `1.${i % 9}k`))))[7]).toBe(0);
  });

  it('days of a spreadsheet with clocks are dates, whatever the column of time is called', () => {
    const rows = Array.from({ length: 9 }, (_, i) => `${45717 + (i + 1) / 24},${i % 4}`);
    const recording = read(`time,load\n${rows.join('\n')}\n`);
    expect(times(recording).slice(0, 2)).toEqual(['2025-03-01 01:00', '2025-03-01 02:00']);
    expect(recording.step).toBe(3_600_000);
    const seconds = Array.from({ length: 9 }, (_, i) => `${40_000 + i / 2},${i % 4}`);
    expect(read(`time,load\n${seconds.join('\n')}\n`)).toMatchObject({ origin: 'start', step: 500 });
  });

  it('days of ISO weeks are dates', () => {
    const recording = read('day,load\n2024-W01-6,1\n2024-W01-7,4\n2024-W02-1,2\n');
    expect(times(recording)).toEqual(['2024-01-06', '2024-01-07', '2024-01-08']);
  });

  it('"n.a." is a missing value', () => {
    expect(values(read(hours(6, (i) => (i % 3 === 1 ? 'n.a.' : String(i)))))).toEqual([
      ...[0, Number.NaN, 2, 3, Number.NaN, 5],
    ]);
  });
});
