/** `.npy` and `.npz`: what is read is in golden.test.ts; here headers, axes, archives and what is refused. */
import { deflateRawSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { readNpy, readNpz } from '../../../datasets/readers/numpy.ts';
import { DataError } from '../../../src/ground/errors.ts';
import { dict, npy, type ZipChanges, zip, zipOf } from '../../helpers/numpy-files.ts';
import { failure, plain, readerFiles } from '../../helpers/reader-files.ts';

const files = readerFiles();
const refusal = (name: string, bytes: Buffer): string => {
  const path = files.write(name, bytes);
  const error = failure(() => (name.endsWith('z') ? readNpz(path) : readNpy(path)));
  expect(error).toBeInstanceOf(DataError);
  return error.message.replace(path, '');
};
const bytesOf = (...values: number[]): Buffer => Buffer.from(Float64Array.from(values).buffer);
const SIX = bytesOf(1, 2, 3, 4, 5, 6);

describe('axes', () => {
  test.each([
    ['6,', 'False', [[[1, 2, 3, 4, 5, 6]]]],
    ['2, 3', 'False', [[[1, 2, 3]], [[4, 5, 6]]]],
    ['2, 3', 'True', [[[1, 3, 5]], [[2, 4, 6]]]],
    ['2, 1, 3', 'False', [[[1, 2, 3]], [[4, 5, 6]]]],
    ['2, 3, 1', 'False', [[[1, 2, 3]], [[4, 5, 6]]]],
    ['2, 3, 1', 'True', [[[1, 3, 5]], [[2, 4, 6]]]],
    ['6, 1, 1', 'False', [[[1]], [[2]], [[3]], [[4]], [[5]], [[6]]]],
    [
      '1, 2, 3',
      'True',
      [
        [
          [1, 3, 5],
          [2, 4, 6],
        ],
      ],
    ],
  ])('of (%s), Fortran %s', (shape, fortran, expected) => {
    const path = files.write('a.npy', npy(dict("'<f8'", shape, fortran), SIX));
    expect(plain(readNpy(path)).map(({ channels }) => channels)).toEqual(expected);
  });

  test('more than three are refused', () => {
    expect(refusal('a.npy', npy(dict("'<f8'", '1, 1, 2, 3'), SIX))).toContain(
      'an array of 4 axes; at most 3',
    );
  });
});

describe('.npy headers', () => {
  test.each([
    ['text', dict("'<U3'", '2,'), 'an array of dtype "<U3": text; save numbers'],
    ['objects', dict("'|O'", '2,'), 'an array of dtype "|O": Python objects, which only Python can read'],
    ['bytes', dict("'|S4'", '2,'), 'an array of dtype "|S4": bytes; save numbers'],
    ['complex numbers', dict("'<c16'", '2,'), 'an array of dtype "<c16": complex numbers'],
    ['dates', dict("'<M8[ns]'", '2,'), 'an array of dtype "<M8[ns]": dates'],
    ['long doubles', dict("'<f16'", '2,'), 'an array of dtype "<f16": floating-point numbers of this size'],
    ['structures', dict("[('a', '<f8')]", '2,'), 'an array of structures; save one array per field'],
    ['a scalar', dict("'<f8'", ''), 'a single number; expected an array'],
    ['an empty axis', dict("'<f8'", '1000000000, 0'), 'an empty array of shape (1000000000, 0)'],
    ['more than the file holds', dict("'<f8'", '99999999999, 99999999999'), 'there are 48'],
    ['a negative size', dict("'<f8'", '-3'), 'a header without descr, fortran_order and shape'],
    ['nothing', 'x', 'a header without descr, fortran_order and shape'],
  ])('refuses %s', (_, header, expected) => {
    expect(refusal('a.npy', npy(header, SIX))).toContain(expected);
  });

  test('refuses other files and versions, and headers longer than the file', () => {
    expect(refusal('a.npy', Buffer.from('hello, this is text'))).toBe(': not an .npy array');
    const other = npy(dict("'<f8'", '6,'), SIX);
    other[6] = 4;
    expect(refusal('a.npy', other)).toBe(': .npy version 4; versions 1 to 3 are read');
    const long = npy(dict("'<f8'", '6,'), SIX);
    long.writeUInt16LE(60_000, 8);
    expect(refusal('a.npy', long)).toContain('expected 60000 bytes from byte 10');
  });

  test('refuses infinities with their place, and keeps NaN', () => {
    const infinite = bytesOf(1, Number.NaN, 3, Number.NEGATIVE_INFINITY);
    expect(refusal('a.npy', npy(dict("'<f8'", '2, 2'), infinite))).toContain(
      'infinite value in case 1, channel 0, point 1',
    );
    const path = files.write('a.npy', npy(dict("'<f8'", '2,'), infinite));
    expect(plain(readNpy(path))).toEqual([{ label: null, channels: [[1, Number.NaN]] }]);
  });

  test('64-bit integers are rounded to the nearest float64', () => {
    const values = [9007199254740993n, -9007199254740995n, 9223372036854775807n, -1n];
    const path = files.write(
      'a.npy',
      npy(dict("'<i8'", '4,'), Buffer.from(BigInt64Array.from(values).buffer)),
    );
    expect(plain(readNpy(path))[0]!.channels).toEqual([values.map(Number)]);
  });
});

describe('.npz archives', () => {
  const array = npy(dict("'<f8'", '2, 3'), SIX);
  const stored = (changes: ZipChanges = {}): Buffer => zip('a.npy', array, array, changes);
  const packed = deflateRawSync(array);
  const deflated = (changes: ZipChanges = {}): Buffer =>
    zip('a.npy', packed, array, { method: 8, ...changes });
  const expected = [
    { label: null, channels: [[1, 2, 3]] },
    { label: null, channels: [[4, 5, 6]] },
  ];

  test.each([
    ['stored', stored()],
    ['deflated', deflated()],
    ['zip64, stored', stored({ zip64: true })],
    ['zip64, deflated', deflated({ zip64: true })],
    ['something before the end record', Buffer.concat([stored(), Buffer.from('a comment')])],
  ])('%s', (_, bytes) => {
    expect(plain(readNpz(files.write('a.npz', bytes)))).toEqual(expected);
  });

  test.each([
    ['an encrypted entry', stored({ flags: 1 }), 'entry "a.npy": encrypted'],
    ['another compression', stored({ method: 12 }), 'entry "a.npy": compression method 12'],
    ['another checksum', deflated({ crc: 1 }), 'entry "a.npy": damaged: its checksum is another'],
    [
      'a size that the packed bytes cannot have',
      deflated({ unpacked: 4_000_000_000 }),
      'cannot hold 4000000000',
    ],
    ['a size that is too small', deflated({ unpacked: 20 }), 'entry "a.npy": damaged'],
    ['a size that is too large', deflated({ unpacked: 300 }), 'bytes unpacked, the directory says 300'],
    ['a file that is cut off', stored().subarray(0, 150), 'no end record'],
    ['a file without its beginning', stored().subarray(30), 'ends after 196 bytes'],
    ['no archive', Buffer.from('hello'), 'not a zip archive'],
  ])('refuses %s', (_, bytes, message) => {
    expect(refusal('a.npz', bytes)).toContain(message);
  });

  test('a bomb of zeros is refused before it is unpacked further than stated', () => {
    const bomb = deflateRawSync(Buffer.alloc(50_000_000));
    expect(refusal('a.npz', zip('a.npy', bomb, Buffer.alloc(100), { method: 8 }))).toContain('damaged');
  });

  test('labels that are missing are refused', () => {
    const one = npy(dict("'<f8'", '2, 3'), SIX);
    const marks = npy(dict("'<f8'", '2,'), bytesOf(1, Number.NaN));
    const path = files.write(
      'y.npz',
      zipOf([
        ['X.npy', one],
        ['y.npy', marks],
      ]),
    );
    expect(failure(() => readNpz(path)).message).toContain('y.npz!y.npy: label of series 1 is NaN');
    const wrong = zipOf([
      ['X.npy', one],
      ['y.npy', npy(dict("'<f8'", '3,'), bytesOf(1, 2, 3))],
    ]);
    expect(refusal('y.npz', wrong)).toContain('labels of shape (3); expected (2)');
    const text = zipOf([
      ['X.npy', one],
      ['y.npy', npy(dict("'<U1'", '2,'), Buffer.alloc(8))],
    ]);
    expect(refusal('y.npz', text)).toBe('!y.npy: label of series 0 is empty');
    const utf32 = Buffer.from(Uint32Array.from([...'aß😀b\0\0'].map((c) => c.codePointAt(0)!)).buffer);
    const named = zipOf([
      ['X.npy', one],
      ['y.npy', npy(dict("'<U3'", '2,'), utf32)],
    ]);
    expect([...readNpz(files.write('names.npz', named))].map(({ label }) => label)).toEqual(['aß😀', 'b']);
    const wild = zipOf([
      ['X.npy', one],
      ['y.npy', npy(dict("'<U1'", '2,'), Buffer.alloc(8, 0xff))],
    ]);
    expect(refusal('y.npz', wild)).toBe('!y.npy: text 0 is not Unicode');
    const nameless = zipOf([
      ['p.npy', one],
      ['q.npy', one],
    ]);
    expect(refusal('y.npz', nameless)).toContain(
      '"p", "q": none of these is known to hold the series; call them X, and their labels y',
    );
  });

  test('arrays of a training and a test part are one data set, and each record names its part', () => {
    const parts = zipOf([
      ['y_test.npy', npy(dict("'<f8'", '1,'), bytesOf(7))],
      ['X_TRAIN.npy', npy(dict("'<f8'", '2, 3'), SIX)],
      ['y_train.npy', npy(dict("'<f8'", '2,'), bytesOf(7, 8))],
      ['X_test.npy', npy(dict("'<f8'", '1, 3'), bytesOf(9, 8, 7))],
    ]);
    const records = [...readNpz(files.write('p.npz', parts))].map(({ id, label, split, channels }) => [
      ...[id, label, split],
      [...channels[0]!],
    ]);
    expect(records).toEqual([
      ['p/test/0', '7', 'test', [9, 8, 7]],
      ['p/train/0', '7', 'train', [1, 2, 3]],
      ['p/train/1', '8', 'train', [4, 5, 6]],
    ]);
    const half = zipOf([
      ['X_train.npy', npy(dict("'<f8'", '2, 3'), SIX)],
      ['y_train.npy', npy(dict("'<f8'", '3,'), bytesOf(7, 8, 9))],
    ]);
    expect(refusal('p.npz', half)).toContain('labels of shape (3); expected (2)');
  });

  test('parts may come first in the names, have groups, and stand beside arrays that belong to none', () => {
    const parts: [string, Buffer][] = [
      ['train_X.npy', npy(dict("'<f8'", '2, 3'), SIX)],
      ['train_y.npy', npy(dict("'<f8'", '2,'), bytesOf(7, 8))],
      ['train_subject.npy', npy(dict("'<f8'", '2,'), bytesOf(4, 5))],
      ['classes.npy', npy(dict("'<U1'", '2,'), Buffer.alloc(8))],
    ];
    const test: [string, Buffer] = ['test_X.npy', npy(dict("'<f8'", '1, 3'), bytesOf(9, 8, 7))];
    const read = [...readNpz(files.write('g.npz', zipOf(parts)))];
    expect(read.map(({ label, group, split }) => [label, group, split])).toEqual([
      ['7', '4', 'train'],
      ['8', '5', 'train'],
    ]);
    expect(refusal('g.npz', zipOf([...parts, test]))).toContain(
      '"test_X" has no groups, and another part has',
    );
    for (const name of ['X_dev', 'subject', 'y_train']) {
      const more: [string, Buffer] = [`${name}.npy`, npy(dict("'<f8'", '2,'), bytesOf(7, 8))];
      expect(refusal('g.npz', zipOf([...parts, more]))).toContain(
        `"${name}": what it holds is not clear beside`,
      );
    }
    const hot = npy(dict("'<f8'", '2, 2'), bytesOf(1, 0, 0, 1));
    expect(refusal('h.npz', zipOf([parts[0]!, ['train_y.npy', hot]]))).toContain('as argmax(axis=1) gives');
    const whole = zipOf([
      ['X_train.npy', npy(dict("'<f8'", '2, 3'), SIX)],
      ['y.npy', npy(dict("'<f8'", '2,'), bytesOf(7, 8))],
    ]);
    expect([...readNpz(files.write('w.npz', whole))].map(({ label, split }) => [label, split])).toEqual([
      ['7', null],
      ['8', null],
    ]);
  });

  test('without an axis of cases, as many labels as points are point labels', () => {
    const six = npy(dict("'<f8'", '6,'), SIX);
    const marks = npy(dict("'|b1'", '6,'), Buffer.of(0, 1, 0, 0, 1, 0));
    const [record] = [
      ...readNpz(
        files.write(
          'y.npz',
          zipOf([
            ['X.npy', six],
            ['y.npy', marks],
          ]),
        ),
      ),
    ];
    expect(record!.anomalies).toEqual(Uint8Array.of(0, 1, 0, 0, 1, 0));
  });
});
