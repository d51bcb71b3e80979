import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { seconds } from '../../../datasets/readers/record.ts';
import { COMMAS, decimal, END, LINE, Scanner, WORDS } from '../../../datasets/readers/scanner.ts';
import { readerFiles } from '../../helpers/reader-files.ts';

describe('decimal', () => {
  test('reads every float64 as Number does, however it is written', () => {
    fc.assert(
      fc.property(
        fc.double({ noNaN: true, noDefaultInfinity: true }),
        fc.integer({ min: 0, max: 20 }),
        (value, digits) => {
          for (const text of [String(value), value.toExponential(digits)])
            expect(decimal(text)).toBe(Number(text));
          if (Math.abs(value) < 1e20)
            expect(decimal(value.toFixed(digits))).toBe(Number(value.toFixed(digits)));
        },
      ),
      { numRuns: 2000 },
    );
  });

  test('reads any digits, point and exponent as Number does', () => {
    const digits = fc.stringMatching(/^[+-]?(\d{1,20}\.?\d{0,20}|\.\d{1,20})([eE][+-]?\d{1,3})?$/);
    fc.assert(
      fc.property(digits, (text) => {
        expect(decimal(text)).toBe(Number(text));
      }),
      { numRuns: 2000 },
    );
  });

  test.each([
    '',
    '-',
    '.',
    'e5',
    '1e',
    '1e+',
    '1.2.3',
    '--1',
    '1,5',
    ' 1',
    '1 ',
    '0x10',
    'NaN',
    'inf',
    '1_0',
    '1f',
  ])('takes %j for no number', (text) => {
    expect(decimal(text)).toBeNaN();
  });

  test('keeps the sign of zero, and shows what is too large as infinite', () => {
    expect(Object.is(decimal('-0'), -0)).toBe(true);
    expect(Object.is(decimal('-0.000e5'), -0)).toBe(true);
    expect(decimal('-1e999')).toBe(Number.NEGATIVE_INFINITY);
    expect(decimal('1e99999999999999999999')).toBe(Number.POSITIVE_INFINITY);
    expect(decimal('1e-99999999999999999999')).toBe(0);
  });
});

const files = readerFiles();

/** All fields as [text, line, column]; a line end as '|'. */
function fields(content: string | Uint8Array, stops = COMMAS): (string | number)[][] {
  const scanner = new Scanner(files.write('fields.txt', content));
  const out: (string | number)[][] = [];
  for (;;) {
    const stop = scanner.next(stops);
    if (stop === END && scanner.empty) break;
    out.push([scanner.text() + (stop === LINE ? '|' : ''), scanner.line, scanner.column]);
    if (stop === END) break;
  }
  scanner.close();
  return out;
}

describe('Scanner', () => {
  test('counts lines and columns for LF, CRLF and CR', () => {
    for (const end of ['\n', '\r\n', '\r']) {
      expect(fields(`a, bc${end}${end}d ,e`)).toEqual([
        ['a', 1, 1],
        ['bc|', 1, 4],
        ['|', 2, 1],
        ['d', 3, 1],
        ['e', 3, 4],
      ]);
    }
  });

  test('skips a byte-order mark, which is no column', () => {
    expect(fields('\ufeffa,b\n')).toEqual([
      ['a', 1, 1],
      ['b|', 1, 3],
    ]);
  });

  test('places fields right across chunks', () => {
    const cells = Array.from({ length: 60_000 }, (_, i) => `v${i}`);
    const text = cells.map((cell, i) => cell + (i % 7 === 6 ? '\r\n' : ',')).join('');
    const lines = text.split('\r\n');
    const found = fields(text);
    expect(found.filter(([cell]) => cell !== '').length).toBe(60_000);
    for (const [cell, line, column] of found.slice(0, 60_000)) {
      const word = String(cell).replace('|', '');
      expect(lines[(line as number) - 1]!.startsWith(word, (column as number) - 1)).toBe(true);
    }
  });

  test('reads a field that is longer than a chunk, and refuses one of more than 1 MiB with its place', () => {
    const long = 'x'.repeat(200_000);
    expect(fields(`a\nb,${long},c`)[2]).toEqual([long, 2, 3]);
    expect(() => fields(`a\nb,${'x'.repeat(3_000_000)}`)).toThrow(/:2:3: a field of more than 1048576 bytes/);
  });

  test('separates words by any blanks', () => {
    expect(fields('  1  2\t3 \n', WORDS).map(([cell]) => cell)).toEqual(['1', '2', '3', '|']);
  });

  test.each(['?', '', 'nan', 'NaN', '-NaN', 'NA', 'n/a', 'null', 'None', '""'])(
    'takes %j for missing',
    (text) => {
      const scanner = new Scanner(files.write('one.txt', `${text},`));
      scanner.next(COMMAS);
      expect(scanner.number()).toBeNaN();
      scanner.close();
    },
  );

  test.each([
    ['abc', 'is not a number'],
    ['1.2.3', 'is not a number'],
    ['inf', 'is not a finite number'],
    ['-Infinity', 'is not a finite number'],
    ['1e999', 'is not a finite number'],
  ])('refuses %j as a value, with its place', (text, message) => {
    const path = files.write('one.txt', `1\n2,${text}`);
    const scanner = new Scanner(path);
    for (let i = 0; i < 3; i++) scanner.next(COMMAS);
    expect(() => scanner.number()).toThrow(`${path}:2:3: ${JSON.stringify(text)} ${message}`);
    scanner.close();
  });

  test('reads numbers in quotes', () => {
    const scanner = new Scanner(files.write('one.txt', '"1.5"'));
    scanner.next(COMMAS);
    expect(scanner.number()).toBe(1.5);
    scanner.close();
  });

  test('refuses what is not UTF-8, with its place', () => {
    expect(() => fields(Buffer.from('a,\xe9\n', 'latin1'))).toThrow(/:1:3: not UTF-8/);
  });

  test('refuses UTF-16, compressed files, directories and files that are not there', () => {
    expect(() => fields(Buffer.from('\ufeff1,2', 'utf16le'))).toThrow('UTF-16');
    expect(() => fields(Buffer.from([0x1f, 0x8b, 8, 0]))).toThrow('compressed');
    const directory = join(dirname(files.write('x', '')), 'inner');
    mkdirSync(directory);
    expect(() => new Scanner(directory)).toThrow('a directory, where a file is expected');
    expect(() => new Scanner(join(directory, 'none.csv'))).toThrow(
      /none\.csv: cannot be read \(no such file or directory\)$/,
    );
  });
});

describe('seconds', () => {
  test.each([
    ['2014-04-01', 1396310400],
    ['2014-04-01 00:05:00', 1396310700],
    ['2014/4/1 0:05', 1396310700],
    ['2014-04-01T00:05:00.250Z', 1396310700.25],
    ['2014-04-01 02:05:00+02:00', 1396310700],
    ['2014-03-31T19:05:00-0500', 1396310700],
    ['2014-04-01 00:05:00.000000', 1396310700],
    ['1969-12-31 23:59:59', -1],
  ])('%s', (text, expected) => {
    expect(seconds(text)).toBe(expected);
  });

  test.each([
    '',
    '12',
    '1.5',
    '2014-13-01',
    '2014-02-30',
    '2014-04-01 25:00',
    '0001-99-01',
    'now',
    '2014-04-01x',
  ])('%j is no date', (text) => {
    expect(seconds(text)).toBeNaN();
  });
});
