/** MATLAB, WFDB, emgdb and UCI HAR: what is refused or tolerated; golden.test.ts has what is read. */
import { describe, expect, test } from 'vitest';
import { readEmgdb } from '../../../datasets/readers/emgdb.ts';
import { readMatlab } from '../../../datasets/readers/matlab.ts';
import type { RawRecord } from '../../../datasets/readers/record.ts';
import { readUciHar } from '../../../datasets/readers/uci-har.ts';
import { readWfdb, readWfdbHeader } from '../../../datasets/readers/wfdb.ts';
import { ConfigError, DataError } from '../../../src/ground/errors.ts';
import { failure, plain, readerFiles } from '../../helpers/reader-files.ts';

const files = readerFiles();
const NAN = Number.NaN;

function refusal(read: () => Iterable<RawRecord>): string {
  const error = failure(read);
  expect(error).toBeInstanceOf(DataError);
  return error.message.replace(/^\/\S*\/(?=\w+\.\w+:)/, '');
}

/** One variable of a MATLAB 4 file, little endian. */
function variable(
  type: number,
  rows: number,
  columns: number,
  name: string,
  data: Uint8Array,
  imaginary = 0,
): Buffer {
  const head = Buffer.alloc(20);
  [type, rows, columns, imaginary, name.length + 1].forEach((value, i) => {
    head.writeInt32LE(value, 4 * i);
  });
  return Buffer.concat([head, Buffer.from(`${name}\0`), data]);
}
const int16 = (...values: number[]): Buffer => Buffer.from(Int16Array.from(values).buffer);
const doubles = (...values: number[]): Buffer => Buffer.from(Float64Array.from(values).buffer);

describe('MATLAB 4', () => {
  const two = variable(30, 2, 3, 'val', int16(1, 4, 2, 5, 3, 6));

  test('rows are the channels; a column vector is one channel', () => {
    const path = files.write('a.mat', two);
    expect(plain(readMatlab(path))[0]!.channels).toEqual([
      [1, 2, 3],
      [4, 5, 6],
    ]);
    expect(
      plain(readMatlab(files.write('b.mat', variable(0, 3, 1, 'x', doubles(1, NAN, 3)))))[0]!.channels,
    ).toEqual([[1, NAN, 3]]);
  });

  test('several variables but texts are several records, one can be chosen', () => {
    const text = variable(51, 1, 2, 'unit', Buffer.from('mV'));
    const path = files.write('a.mat', Buffer.concat([two, text, variable(50, 1, 2, 'q', Buffer.of(7, 255))]));
    const records = [...readMatlab(path)];
    expect(records.map(({ id }) => id)).toEqual(['a/val', 'a/q']);
    expect([...records[1]!.channels[0]!]).toEqual([7, 255]);
    expect([...readMatlab(path, 'q')].map(({ id }) => id)).toEqual(['a']);
    expect(failure(() => readMatlab(path, 'z'))).toBeInstanceOf(ConfigError);
    expect(failure(() => readMatlab(path, 'unit')).message).toContain('"unit": is text');
  });

  test.each([
    [
      'version 5',
      Buffer.from('MATLAB 5.0 MAT-file, written by x'),
      'a.mat: a MATLAB file of version 5 or later',
    ],
    ['another file', Buffer.from('hello, this is just some text'), 'no MATLAB version 4 header'],
    [
      'more than the file holds',
      variable(0, 30_000, 30_000, 'v', doubles(1)),
      '"v" of 30000 × 30000 needs 7200000000 bytes',
    ],
    ['a negative size', variable(0, -1, 3, 'v', doubles(1)), 'a matrix of -1 × 3'],
    ['VAX numbers', variable(2000, 1, 1, 'v', doubles(1)), 'numbers of another machine (type 2000)'],
    [
      'an infinity',
      variable(0, 1, 2, 'v', doubles(1, Number.POSITIVE_INFINITY)),
      '"v": infinite value in channel 1, point 2',
    ],
    ['complex numbers', variable(0, 1, 1, 'v', doubles(1, 2), 1), '"v": is complex'],
    ['a sparse matrix', variable(2, 1, 1, 'v', doubles(1)), '"v": is a sparse matrix'],
    ['an empty matrix', variable(0, 0, 3, 'v', Buffer.alloc(0)), '"v": is empty'],
    ['only text', variable(51, 1, 1, 'v', Buffer.from('a')), 'no numeric variable'],
    ['a cut-off header', two.subarray(0, 12), 'a.mat: ends after 12 bytes'],
  ])('refuses %s', (_, bytes, message) => {
    const path = files.write('a.mat', bytes);
    expect(refusal(() => readMatlab(path))).toContain(message);
  });
});

describe('WFDB', () => {
  const record = (header: string, data: Buffer): Iterable<RawRecord> => {
    files.write('r.dat', data);
    return readWfdb(files.write('r.hea', header));
  };

  test('gain, baseline, units, comments, several signals per frame', () => {
    const header =
      'r 2 100/20(3) 2 # c\nr.dat 16x2+4 10(5)/uV 12 0 15 30 0 first one\nr.dat 16 0 12 2 2 5 0\n# note\n';
    const data = Buffer.concat([Buffer.from('skip'), int16(15, 5, 2, 25, -15, 3)]);
    const [found] = [...record(header, data)];
    expect(found!.channels.map((c) => [...c])).toEqual([
      [1, 0, 2, -2],
      [0, 1 / 200],
    ]);
    expect(found!.channelNames).toEqual(['first one', 'channel 2']);
  });

  test('samples that the format marks as missing are NaN', () => {
    const [found] = [...record('r 1 100\nr.dat 16 1\n', int16(1, -32768, 3))];
    expect([...found!.channels[0]!]).toEqual([1, NAN, 3]);
  });

  test('signals in several files', () => {
    files.write('s.dat', Buffer.of(129, 127));
    const [found] = [...record('r 2 100\nr.dat 16 1\ns.dat 80 1\n', int16(7, 8))];
    expect(found!.channels.map((c) => [...c])).toEqual([
      [7, 8],
      [1, -1],
    ]);
  });

  test('a checksum that does not fit is refused', () => {
    const header = 'r 1 100 3\nr.dat 16 200 12 0 1 7 0 I\n';
    expect(refusal(() => record(header, int16(1, 2, 3)))).toBe(
      'r.dat: signal 1 (I): checksum 6, the header says 7; damaged',
    );
  });

  test.each([
    ['a missing file', 'r 1 100 3\nnone.dat 16\n', 'none.dat: cannot be read'],
    [
      'a file that is too short',
      'r 1 100 3000000000\nr.dat 16\n',
      'r.dat: holds 3 frames, the header says 3000000000',
    ],
    [
      'a file elsewhere',
      'r 1 100 3\n../r.dat 16\n',
      'r.hea:2:1: signal file "../r.dat"; expected the name of a file beside',
    ],
    ['another format', 'r 1 100 3\nr.dat 8\n', 'r.hea: signal format 8; read are 16, '],
    ['several segments', 'r/3 1 100 3\nr.dat 16\n', 'r.hea:1:1: a record of several segments'],
    ['skew', 'r 1 100 3\nr.dat 16:2\n', 'r.hea:2:1: signals that are skewed'],
    ['fewer signals', 'r 2 100 3\nr.dat 16\n', 'r.hea: 2 signals announced, 1 described'],
    ['no signals', 'r 0 100\n', 'r.hea: a record without signals'],
    ['no record line', '# only\n', 'r.hea: no record line'],
    ['another first line', 'hello\n', 'r.hea:1:1: expected NAME SIGNALS [RATE [FRAMES]]'],
    ['a rate of 0', 'r 1 0 3\nr.dat 16\n', 'r.hea:1:1: rate "0"'],
    ['another gain', 'r 1 100 3\nr.dat 16 x\n', 'r.hea:2:1: gain "x"'],
    [
      'two formats in one file',
      'r 2 100 1\nr.dat 16\nr.dat 80\n',
      'r.hea: "r.dat" holds signals of two formats',
    ],
    ['no frames per sample', 'r 1 100 1\nr.dat 16x0\n', 'r.hea:2:1: 0 samples per frame'],
  ])('refuses %s', (_, header, message) => {
    expect(refusal(() => record(header, int16(1, 2, 3)))).toContain(message);
  });

  test('defaults of a short header', () => {
    expect(readWfdbHeader(files.write('d.hea', '\r\n# c\r\nd 1\r\nd.dat 16\r\n'))).toEqual({
      name: 'd',
      frames: null,
      signals: [
        {
          file: 'd.dat',
          format: 16,
          samplesPerFrame: 1,
          byteOffset: 0,
          gain: 200,
          baseline: 0,
          checksum: null,
          description: '',
        },
      ],
    });
  });
});

describe('emgdb', () => {
  test('corrupt lines are counted; a readable time keeps its place', () => {
    const text = '0.1 1\n0.2 -0.03+\xff=0.35\n\xfe 3\n0.4\n\n0.5 4 5\r\n0.5 6';
    const [record] = [...readEmgdb(files.write('e.txt', Buffer.from(text, 'latin1')))];
    expect([...record!.channels[0]!]).toEqual([1, NAN, NAN, 6]);
    expect([...record!.times!]).toEqual([0.1, 0.2, 0.5, 0.5]);
    expect(record!.faults).toBe(4);
  });

  test('counts up to one per cent of faults', () => {
    const lines = Array.from({ length: 5000 }, (_, i) => (i % 200 === 7 ? `${i} x` : `${i} 1`));
    const [record] = [...readEmgdb(files.write('e.txt', lines.join('\n')))];
    expect(record!.faults).toBe(25);
  });

  test.each([
    ['another kind of file', 'a b\n'.repeat(200), 'corrupt lines of'],
    ['times that fall', '2 1\n1 1\n', 'e.txt:2:1: time 1 after 2'],
    ['an infinity', '1 1e999\n', 'e.txt:1:3: not a finite number'],
    ['nothing', '', 'e.txt: no line of time and value'],
  ])('refuses %s', (_, text, message) => {
    const path = files.write('e.txt', text);
    expect(refusal(() => readEmgdb(path))).toContain(message);
  });
});

describe('UCI HAR', () => {
  const har = (x: string, z: string, y?: string, subjects?: string): Iterable<RawRecord> =>
    readUciHar({
      signals: [
        ['x', files.write('x.txt', x)],
        ['z', files.write('z.txt', z)],
      ],
      labels: y === undefined ? undefined : files.write('y.txt', y),
      subjects: subjects === undefined ? undefined : files.write('s.txt', subjects),
    });

  test('windows of several signals with activity and volunteer', () => {
    const records = [...har('  1e0  2\n 3 4 \n', '5 6\n\n7 NaN\n', '5\n2\n', '1\n30')];
    expect(plain(records)).toEqual([
      {
        label: '5',
        channels: [
          [1, 2],
          [5, 6],
        ],
      },
      {
        label: '2',
        channels: [
          [3, 4],
          [7, NAN],
        ],
      },
    ]);
    expect(records.map(({ group, id }) => [group, id])).toEqual([
      ['1', 'x/0'],
      ['30', 'x/1'],
    ]);
    expect(records[0]!.channelNames).toEqual(['x', 'z']);
  });

  test.each([
    ['fewer lines', () => har('1 2\n3 4\n', '5 6\n'), 'z.txt: ends after 1 lines, the other files do not'],
    ['fewer labels', () => har('1 2\n3 4\n', '5 6\n7 8\n', '1\n'), 'y.txt: ends after 1 lines'],
    ['more labels', () => har('1 2\n', '5 6\n', '1\n2\n'), 'x.txt: ends after 1 lines'],
    ['another length', () => har('1 2\n', '5 6 7\n'), 'z.txt:1:5: 3 values, the first line has 2'],
    ['text', () => har('1 a\n', '5 6\n'), 'x.txt:1:3: "a" is not a number'],
    ['two labels', () => har('1 2\n', '5 6\n', '1 2\n'), 'y.txt:1:3: expected one word per line'],
    ['nothing', () => har('\n', ''), 'x.txt: no windows'],
  ])('refuses %s', (_, read, message) => {
    expect(refusal(read)).toContain(message);
  });
});
