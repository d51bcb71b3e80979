/** Recordings from JSON lines, InfluxDB's line protocol and annotated CSV, and from stamps of syslog and of web servers. */
import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import {
  openRows,
  type Recording,
  type RecordingOptions,
  readRecording,
} from '../../../datasets/readers/recording.ts';
import { TimeseerError } from '../../../src/ground/errors.ts';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const read = (text: string, options: RecordingOptions = {}): Recording =>
  readRecording(bytes(text), { name: 'input', ...options });
const failure = (text: string, options: RecordingOptions = {}): string => {
  try {
    read(text, options);
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error('nothing was thrown');
};
const columns = (recording: Recording): Record<string, number[]> =>
  Object.fromEntries(recording.columns.map(({ name, values }) => [name, [...values]]));
const stamps = ({ time }: Recording): string[] => Array.from(time!, (ms) => new Date(ms).toISOString());
const note = ({ notes }: Recording, kind: string): string =>
  notes
    .filter((one) => one.kind === kind)
    .map(({ text }) => text)
    .join(' ');
const iso = (minute: number): string => new Date(Date.UTC(2025, 2, 1, 0, minute)).toISOString();
const lines = (objects: readonly object[]): string =>
  objects.map((one) => `${JSON.stringify(one)}\n`).join('');
const NAN = Number.NaN;

describe('JSON lines', () => {
  it('may have numbers that JSON lacks, which are missing', () => {
    const text = Array.from(
      { length: 20 },
      (_, i) =>
        `{"at": "${iso(i)}", "a": ${i}, "b": ${i % 4 === 1 ? 'NaN' : i % 4 === 2 ? '-Infinity' : 1.5}}\n`,
    ).join('');
    const { a, b } = columns(read(text)) as { a: number[]; b: number[] };
    expect(a).toEqual(Array.from({ length: 20 }, (_, i) => i));
    expect(b.slice(0, 5)).toEqual([1.5, NAN, NAN, 1.5, 1.5]);
  });

  it('have dotted keys, missing values where a line lacks a key, and their own line numbers', () => {
    const objects = [
      { at: iso(0), http: { ms: 5, ok: true }, tags: ['a'], msg: 'x, "y"\n# z' },
      { at: iso(1), http: { ms: null, ok: false } },
      { at: iso(2), http: { ms: -1.5e3, ok: true }, queue: 4 },
      { at: iso(3), queue: '7', http: { ms: 2 } },
    ];
    const r = read(`${lines(objects.slice(0, 2))}\r\nstarting\n${lines(objects.slice(2))}{"at": "20`);
    expect(columns(r)).toEqual({
      'http.ms': [5, NAN, -1500, 2],
      'http.ok': [1, 0, 1, NAN],
      queue: [NAN, NAN, 4, 7],
    });
    expect(stamps(r)).toEqual([0, 1, 2, 3].map(iso));
    expect([...r.rows]).toEqual([1, 2, 5, 6]);
    expect(note(r, 'form')).toBe('The file is read as JSON lines.');
    expect(note(r, 'left-out')).toBe('Lines of another form left out: 2, the first is line 4.');
  });

  it('may begin with a line of more than a million characters', () => {
    const objects = [0, 1, 2, 3].map((i) => ({ at: iso(i), a: i, msg: 'x'.repeat(i === 0 ? 1.2e6 : 1) }));
    expect(columns(read(lines(objects)))).toEqual({ a: [0, 1, 2, 3] });
  });

  it('without a time are left out and counted where they are few', () => {
    const objects = Array.from({ length: 30 }, (_, i) => ({ ...(i === 4 ? {} : { at: iso(i) }), a: i }));
    const r = read(lines(objects));
    expect([r.columns[0]!.values[4], [...r.rows].slice(3, 6)]).toEqual([NAN, [4, -1, 6]]);
    expect(note(r, 'left-out')).toBe(
      '1 row without a time left out, the first in line 5: empty cell in the time column "at".',
    );
    const many = objects.map(({ a }, i) => ({ ...(i % 5 === 4 ? {} : { at: iso(i) }), a }));
    expect(failure(lines(many))).toContain('input:5:1: empty cell in the time column "at"');
  });

  it('are read as a CSV with the same cells is', () => {
    const value = fc.oneof(
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.integer(),
      fc.constant(null),
    );
    fc.assert(
      fc.property(fc.array(fc.tuple(value, value), { minLength: 8, maxLength: 40 }), (rows) => {
        const objects = rows.map(([a, b], i) => ({
          time: iso(i),
          a: i === 0 ? 1 : a,
          b: { c: i === 0 ? 1 : b },
        }));
        const csv = objects.map(({ time, a, b }) => `${time},${a ?? ''},${b.c ?? ''}\n`).join('');
        const [json, table] = [read(lines(objects)), read(`time,a,b.c\n${csv}`)];
        expect(columns(json)).toEqual(columns(table));
        expect(json.time).toEqual(table.time);
      }),
      { numRuns: 50 },
    );
  });

  it('of many hosts are a long table', () => {
    const text = lines(
      [0, 1, 2, 3].flatMap((i) =>
        ['a', 'b'].map((host) => ({
          time: iso(i),
          host,
          v: host === 'a' ? i : 9 - i,
          ...(host === 'a' ? { w: 1 } : {}),
        })),
      ),
    );
    expect(failure(text)).toMatch(/2 series in one file, separated by column "host"/);
    expect(columns(read(text, { select: '*' }))).toEqual({
      'a v': [0, 1, 2, 3],
      'a w': [1, 1, 1, 1],
      b: [9, 8, 7, 6],
    });
  });

  it('of events without numbers, and documents of JSON, are refused with what to do', () => {
    const events = [0, 1, 2].map((i) => ({ time: iso(i), level: 'info', msg: `m${i}` }));
    expect(failure(lines(events))).toBe(
      'input: JSON lines without numbers beside the time, with the keys "time", "level", "msg"; events have to be counted first, for example those of each minute',
    );
    expect(failure(lines([{}, {}]))).toMatch(/JSON lines without numbers/);
    expect(failure(JSON.stringify(events))).toMatch(/neither a table nor one object in each line; .*jq -c/);
    expect(failure(`${JSON.stringify({ values: [1, 2] }, null, 2)}\n`)).toMatch(/neither a table/);
  });

  it('do not exhaust memory or stack', () => {
    const deep = `${'{"a":'.repeat(5000)}1${'}'.repeat(5000)}`;
    expect(failure(`${deep}\n${deep}\n`)).toMatch(/without numbers/);
    const many = Array.from({ length: 11_000 }, (_, i) => ({ [`k${i}`]: i }));
    expect(failure(lines(many))).toMatch(/11000 different keys in 11000 lines, too many/);
  });

  it('grow by lines that keep the columns of the first ones', () => {
    const reader = openRows(bytes(lines([0, 1, 2].map((i) => ({ time: iso(i), b: i, a: 2 * i })))), {
      name: 'in',
    });
    const later = reader.read(
      lines([
        { a: 9, more: 1, time: iso(3) },
        { time: iso(4), b: 8 },
      ]),
    );
    expect(later.values.map((column) => [...column])).toEqual([
      [NAN, 8],
      [9, NAN],
    ]);
    expect([...later.time]).toEqual([3, 4].map((i) => Date.parse(iso(i))));
  });
});

describe('line protocol', () => {
  const at = (i: number, digits = 9): string => `${Date.UTC(2025, 2, 1, 0, i) / 1000}${'0'.repeat(digits)}`;

  it('has integers, truths and escapes; texts are left out', () => {
    const text = [0, 1, 2]
      .map(
        (i) =>
          `# comment\ndisk\\ io,ho\\ st=a\\,b\\=c,dc=eu used=${i}i,big=${i}u,free\\ %=-2.5e1,on=${i % 2 ? 'F' : 'true'},s="a b, x=\\"1\\"" ${at(i)}\n`,
      )
      .join('');
    const r = read(text);
    expect(columns(r)).toEqual({ used: [0, 1, 2], big: [0, 1, 2], 'free %': [-25, -25, -25], on: [1, 0, 1] });
    expect([...r.rows]).toEqual([2, 4, 6]);
    expect(stamps(r)).toEqual([0, 1, 2].map(iso));
  });

  it.each([
    ['seconds', 0],
    ['milliseconds', 3],
    ['microseconds', 6],
    ['nanoseconds', 9],
  ])('with times in %s tells their unit', (unit, digits) => {
    const r = read([0, 1, 2, 3].map((i) => `m v=${i} ${at(i, digits)}\n`).join(''));
    expect(stamps(r)).toEqual([0, 1, 2, 3].map(iso));
    expect(note(r, 'epoch-unit')).toContain(`"time" is read as ${unit} since 1970`);
  });

  it('of several series is a long table of those tags that differ, each with its own fields', () => {
    const text = [0, 1, 2, 3]
      .map(
        (i) =>
          `cpu,host=a,dc=eu usage=${i} ${at(i)}\ncpu,host=b,dc=eu usage=${9 - i} ${at(i)}\nmem,dc=eu free=${2 * i},used=1 ${at(i)}\nlog,dc=eu s="x" ${at(i)}\n`,
      )
      .join('');
    expect(failure(text)).toMatch(
      /separated by column "measurement,host": "cpu \/ a", "cpu \/ b", "mem \/ "; choose one with --key measurement,host --select "cpu \/ a"/,
    );
    expect(columns(read(text, { select: '*' }))).toEqual({
      'cpu / a': [0, 1, 2, 3],
      'cpu / b': [9, 8, 7, 6],
      'mem /  free': [0, 2, 4, 6],
      'mem /  used': [1, 1, 1, 1],
    });
    expect(columns(read(text, { key: 'host', select: 'b', columns: ['usage'] }))).toEqual({
      usage: [9, 8, 7, 6],
    });
  });

  it('is told from long lines of anything in linear time', () => {
    const noise = fc.string({
      unit: fc.constantFrom('a', '\\', ',', '=', ' ', '"', '1', '{', '#'),
      minLength: 4,
      maxLength: 12,
    });
    fc.assert(
      fc.property(noise, fc.array(noise, { minLength: 2, maxLength: 6 }), (part, more) => {
        const text = [part.repeat(20_000), ...more].join('\n');
        try {
          expect(note(read(text), 'form')).toBe(''); // now and then two short lines make a table
        } catch (error) {
          expect(error).toBeInstanceOf(TimeseerError);
        }
      }),
      { numRuns: 20 },
    );
  });

  it('is not seen in tables and in lines of other programs', () => {
    expect(columns(read('time v\n1 5\n2 6\n3 7\n'))).toEqual({ v: [5, 6, 7] });
    expect(
      failure('ts=2025-03-01T00:00:00Z level=info n=1\nts=2025-03-01T00:00:01Z level=info n=2\n'),
    ).not.toMatch(/line protocol/);
  });
});

describe('annotated CSV', () => {
  const HEAD = [
    '#group,false,false,true,true,false,false,true,true,true',
    '#datatype,string,long,dateTime:RFC3339,dateTime:RFC3339,dateTime:RFC3339,double,string,string,string',
    '#default,_result,,,,,,,,eu',
    ',result,table,_start,_stop,_time,_value,_field,_measurement,dc',
  ];
  const rows = (table: number, field: string, values: readonly (number | string)[], dc = ''): string[] =>
    values.map((value, i) => `,,${table},${iso(0)},${iso(9)},${iso(i)},${value},${field},cpu,${dc}`);

  it('of one series has its values and times', () => {
    const r = read([...HEAD, ...rows(0, 'idle', [5, 6, '', 8]), ''].join('\r\n'));
    expect(columns(r)).toEqual({ _value: [5, 6, NAN, 8] });
    expect(stamps(r)).toEqual([0, 1, 2, 3].map(iso));
    expect([...r.rows]).toEqual([5, 6, 7, 8]);
    const text = [...HEAD, ...rows(0, 'idle', [5, 6])].join('\n');
    expect(() => openRows(bytes(text), { name: 'in' })).toThrow(/in: annotated CSV .* cannot be followed/);
  });

  it('of several tables has a column for each series, whose labels may be defaults', () => {
    const text = [
      ...HEAD,
      ...rows(0, 'idle', [1, 2, 3]),
      ...rows(1, 'idle', [4, 5, 6], 'us'),
      '',
      ...HEAD.map((line) => line.replace('double', 'long').replace('_measurement,dc', '_measurement,rack')),
      ...rows(2, 'ctx', [7, 8, 9], 'r1'),
      '',
      ...HEAD.map((line) => line.replace('double', 'string')),
      ...rows(3, 'state', ['up', 'up', 'down']),
    ].join('\n');
    expect(columns(read(text, { select: '*' }))).toEqual({
      'idle / eu / ': [1, 2, 3],
      'idle / us / ': [4, 5, 6],
      'ctx /  / r1': [7, 8, 9],
    });
    expect(columns(read(text, { key: '_field', select: 'ctx' }))).toEqual({ _value: [7, 8, 9] });
  });

  it('that is pivoted has the fields as columns, and a failed query its error', () => {
    const head = [
      '#datatype,string,long,dateTime:RFC3339,double,long,string',
      '#default,,,,,,',
      ',result,table,_time,idle,n,host',
    ];
    const r = read([...head, ...[0, 1, 2].map((i) => `,,0,${iso(i)},${i}.5,${i},a`)].join('\n'));
    expect(columns(r)).toEqual({ idle: [0.5, 1.5, 2.5], n: [0, 1, 2] });
    const failed = [
      '#datatype,string,string',
      '#group,true,true',
      '#default,,',
      ',error,reference',
      ',"no bucket, sorry",897',
    ];
    expect(failure(failed.join('\n'))).toBe('input: holds the error of a query that failed, and no table');
  });
});

describe('raw lines of logs', () => {
  it.each([
    [
      'an access log',
      (i: number) => `127.0.0.1 - - [10/Oct/2000:13:55:${10 + i} -0700] "GET /${i} HTTP/1.0" 200 23${i}`,
    ],
    ['syslog', (i: number) => `Oct 11 22:14:${10 + i} host app[3]: done in ${i} ms`],
    ['syslog', (i: number) => `<34>1 2003-10-11T22:14:${10 + i}.003Z host app 12 ID47 - done in ${i}`],
    ['a log', (i: number) => `2024-03-01 10:00:${10 + i},123 INFO [main] done in ${i} ms`],
  ])('of %s are refused with the command that counts them', (_, line) => {
    const text = Array.from({ length: 12 }, (_, i) => `${line(i)}\n`).join('');
    const message = failure(text);
    expect(message).toMatch(/^input: lines of a log, which are events .* per minute: awk '/);
    const [, script] = /awk '(.*)' FILE/.exec(message)!;
    const counted = execFileSync('awk', [script!], { input: text + text, encoding: 'utf8' });
    expect(counted).toMatch(/^time,lines\n[^,\n]*\d\d:\d\d:00Z?,24\n$/);
  });

  it('are not seen in tables that begin with such a stamp', () => {
    const text = [0, 1, 2, 3].map((i) => `Oct 11 22:1${i}:15,${i}\n`).join('');
    expect(columns(read(text))).toEqual({ 'column 2': [0, 1, 2, 3] });
  });
});

describe('stamps of logs', () => {
  const syslog = (ms: number): string => {
    const [, day, month, , clock] = new Date(ms).toUTCString().split(' ');
    return `${month} ${String(Number(day)).padStart(2, ' ')} ${clock}`;
  };
  const table = (stamp: (i: number) => string, n = 30): string =>
    `time,v\n${Array.from({ length: n }, (_, i) => `${stamp(i)},${i}\n`).join('')}`;

  it.each([
    ['in the past of this year', '2026-11-26T12:00Z', '2026-11-20T00:00:00Z'],
    ['later in the year than today', '2026-03-01T12:00Z', '2025-11-20T00:00:00Z'],
    ['over New Year', '2026-01-01T10:00Z', '2025-12-31T18:00:00Z'],
    ['over a 29th of February that is long ago', '2026-11-26T12:00Z', '2024-02-28T12:00:00Z'],
  ])('without a year %s have the newest year that is not in the future', (_, now, from) => {
    vi.useFakeTimers({ now: new Date(now), toFake: ['Date'] });
    try {
      const expected = Array.from({ length: 30 }, (_, i) => Date.parse(from) + i * 3_600_000).filter(
        (ms) => ms <= Date.parse(now),
      );
      const rising = read(table((i) => syslog(expected[i]!), expected.length));
      expect(stamps(rising)).toEqual(expected.map((ms) => new Date(ms).toISOString()));
      const falling = read(table((i) => syslog(expected.at(-1 - i)!), expected.length));
      expect(stamps(falling)).toEqual(stamps(rising));
      expect(note(rising, 'no-year')).toMatch(
        /^Column "time" names no year; its stamps are read as of \d{4}(?: to \d{4})?, /,
      );
    } finally {
      vi.useRealTimers();
    }
  });

  it('go on over New Year where rows follow', () => {
    const from = Date.UTC(new Date().getUTCFullYear() - 1, 11, 31, 22);
    const reader = openRows(bytes(table((i) => syslog(from + i * 60_000), 3)), { name: 'in' });
    const first = [...reader.first.time];
    const later = reader.read(`${syslog(from + 3 * 3_600_000)},5\n${syslog(from + 4 * 3_600_000)},6\n`);
    expect(later.time[0]! - first[0]!).toBe(3 * 3_600_000);
    expect(later.time[1]! - first[0]!).toBe(4 * 3_600_000);
  });

  it('of web servers are instants, and stamps with and without a year do not mix', () => {
    const r = read(table((i) => `[26/Nov/2026:14:03:${String(i).padStart(2, '0')} +0100]`));
    expect(stamps(r)[0]).toBe('2026-11-26T13:03:00.000Z');
    expect(r.zone).toBe('+01:00');
    expect(failure('time,v\nNov 26 14:03:01,1\nNov 26 14:03:02,2\n2026-11-26 14:03:03,3\n')).toMatch(
      /input:4:1: .*written like "Nov 26 14:03:01"/,
    );
    expect(read('time,v\nFeb 30 14:03:01,1\nFeb 30 14:03:02,2\n').time).toBeNull();
    expect(() =>
      read(
        table((i) => iso(i)),
        { since: 'Nov 26 14:03:01' },
      ),
    ).toThrow(/--since/);
  });
});
