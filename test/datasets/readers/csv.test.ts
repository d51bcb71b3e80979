import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readCsv } from '../../../datasets/readers/csv.ts';
import { ConfigError, DataError } from '../../../src/ground/errors.ts';
import { temporary } from '../../helpers/temporary.ts';

const root = temporary('csv');
const path = join(root, 'pump.csv');
const NAN = Number.NaN;

function readSeries(column?: string | number) {
  const [record] = readCsv(path, column === undefined ? {} : { columns: [column] });
  return record!;
}

function read(content: string | Uint8Array, column?: string | number) {
  writeFileSync(path, content);
  const { channels, channelNames, times } = readSeries(column);
  return { values: [...channels[0]!], times: times === null ? null : [...times], column: channelNames[0] };
}

function failure(content: string | Uint8Array, column?: string | number): Error {
  try {
    read(content, column);
  } catch (error) {
    return error as Error;
  }
  throw new Error('expected an error, nothing was thrown');
}

describe('files that can be read', () => {
  it.each<[string, string, number[], readonly number[] | null, string]>([
    ['one column', '1\n-2.5\n3e2\n', [1, -2.5, 300], null, 'column 1'],
    ['one column that counts up', '0\n1\n2\n3\n', [0, 1, 2, 3], null, 'column 1'],
    ['no newline at the end', '1\n2', [1, 2], null, 'column 1'],
    ['a header', 'flow\n1\n2\n', [1, 2], null, 'flow'],
    ['a byte-order mark', '\ufeffflow\n1\n2\n', [1, 2], null, 'flow'],
    ['CRLF', 'flow\r\n1\r\n2\r\n', [1, 2], null, 'flow'],
    ['CR alone', 'flow\r1\r2\r', [1, 2], null, 'flow'],
    ['blank lines around', '\n\nflow\n1\n2\n\n  \n\r\n', [1, 2], null, 'flow'],
    [
      'dates',
      'timestamp,value\n2014-04-01 00:00:00,5\n2014-04-01 00:05:00,7\n',
      [5, 7],
      [1396310400, 1396310700],
      'value',
    ],
    ['dates after the values', 'v;day\n5;1.4.2014\n7;2.4.2014\n', [5, 7], null, 'v'],
    ['clock times without a header', '10:00\t5\n10:05\t7\n', [5, 7], null, 'column 2'],
    ['numeric time by its name', 't,flow\n0.5,5\n1.0,7\n', [5, 7], [0.5, 1], 'flow'],
    [
      'ms since 1970',
      'timestamp,v\n1396310400000,5\n1396310400500,7\n',
      [5, 7],
      [1396310400, 1396310400.5],
      'v',
    ],
    ['ns of a clock of its own', 't,v\n0,5\n200000000000,7\n', [5, 7], [0, 2e11], 'v'],
    ['a counter that begins high', 't,v\n200000000000,5\n200000000001,7\n', [5, 7], [2e11, 2e11 + 1], 'v'],
    ['a date far ahead', 'day,v\n9999-12-31,5\n2014-04-01,7\n', [5, 7], [253402214400, 1396310400], 'v'],
    ['row numbers of pandas', ',flow\n0,5\n1,7\n2,6\n', [5, 7, 6], [0, 1, 2], 'flow'],
    ['row numbers without a header', '1,5\n2,7\n3,6\n', [5, 7, 6], [1, 2, 3], 'column 2'],
    [
      'dates beside row numbers',
      ',date,flow\n0,2020-01-01,5\n1,2020-01-02,7\n2,2020-01-03,6\n',
      [5, 7, 6],
      [1577836800, 1577923200, 1578009600],
      'flow',
    ],
    ['other text beside the values', 'site,flow\nnorth,5\nsouth,7\n', [5, 7], null, 'flow'],
    [
      'quoted fields',
      '"time","flow, ""m³/s"""\n"10:00","1.5"\n"10:05", "2" \n',
      [1.5, 2],
      null,
      'flow, "m³/s"',
    ],
    ['a newline inside quotes', '"flow\nin"\n1\n2\n', [1, 2], null, 'flow\nin'],
    ['commas inside quotes in a semicolon file', '"a,b";v\n"x,y";1\n"z,w";2\n', [1, 2], null, 'v'],
    ['an empty last column beside a time column', 'time,\n3,\n4,\n', [3, 4], null, 'time'],
    ['words that begin like a missing value', 'note,v\nnA,0\nn,1\n', [0, 1], null, 'v'],
    ['an empty column beside a whole one', 'note,v\n,0\n,1\n', [0, 1], null, 'v'],
    ['an empty last column', 'flow,\n1,\n2,\n', [1, 2], null, 'flow'],
    ['spaces around', 'flow , note\n 1 , a\n 2 , b\n', [1, 2], null, 'flow'],
    ['missing values', 't,v\n0,1\n1,NaN\n2,\n3,n/a\n', [1, NAN, NAN, NAN], [0, 1, 2, 3], 'v'],
    ['a missing value in the first row of all', 'NaN\n1\n2\n', [NAN, 1, 2], null, 'column 1'],
    ['a blank line of an only column', 'v\n1\n\n2\n', [1, NAN, 2], null, 'v'],
    ['only a time column of numbers', 'time\n3\n4\n', [3, 4], null, 'time'],
  ])('%s', (_, content, values, times, column) => {
    expect(read(content)).toEqual({ values, times, column });
  });

  it('is named after its file', () => {
    writeFileSync(path, '1\n2\n');
    expect(readSeries().id).toBe('pump');
  });

  it('reads back any finite numbers, with any delimiter, line end and quoting', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.string()), {
          minLength: 2,
          maxLength: 30,
        }),
        fc.constantFrom(',', ';', '\t'),
        fc.constantFrom('\n', '\r\n', '\r'),
        fc.boolean(),
        (rows, delimiter, end, quoted) => {
          const cell = (x: number): string => (quoted ? `"${x}"` : String(x));
          const note = (text: string): string => `"note ${text.replaceAll('"', '""')}"`;
          const lines = rows.map(([x, text]) => `${note(text)}${delimiter}${cell(x)}`);
          const content = `note${delimiter}value${end}${lines.join(end)}${end}`;
          expect(read(content).values).toEqual(rows.map(([x]) => Number(String(x))));
        },
      ),
    );
  });

  it('reads a million points', () => {
    const lines = Array.from({ length: 1_000_000 }, (_, i) => `${i % 60}:${10 + (i % 50)},${i / 8}`);
    writeFileSync(path, `clock,value\n${lines.join('\n')}\n`);
    const [values] = readSeries().channels;
    expect(values!.length).toBe(1_000_000);
    expect(values![999_999]).toBe(999_999 / 8);
  });
});

describe('a choice of column', () => {
  const TSB = 'Data,Label\n1.5,0\n2.5,1\n3.5,0\n';

  it('names ten of many columns, and says how many there are', () => {
    const many = Array.from({ length: 200 }, (_, i) => `c${i}`).join(',');
    const { message } = failure(`${many}\n${many.replaceAll('c', '')}\n${many.replaceAll('c', '1')}\n`);
    expect(message).toContain('200 columns of numbers: "c0", "c1"');
    expect(message).toContain('"c9" and 190 more; name one');
    expect(message).not.toContain('"c10"');
  });

  it('is needed when two columns are numbers, and names them', () => {
    const error = failure(TSB);
    expect(error).toBeInstanceOf(DataError);
    expect(error.message).toBe(
      `${path}: 2 columns of numbers: "Data", "Label"; name one, for example --column "Data"`,
    );
    expect(failure('1.5,0\n2.5,1\n').message).toContain(
      '"column 1", "column 2"; name one, for example --column 1',
    );
  });

  it.each<[string | number, number[], string]>([
    ['Data', [1.5, 2.5, 3.5], 'Data'],
    ['label', [0, 1, 0], 'Label'],
    [2, [0, 1, 0], 'Label'],
    ['1', [1.5, 2.5, 3.5], 'Data'],
  ])('takes %j by name, by name in another case, or by number', (column, values, name) => {
    expect(read(TSB, column)).toEqual({ values, times: null, column: name });
  });

  it('keeps the time column', () => {
    const content = 'time,a,b\n2014-04-01,1,2\n2014-04-02,3,4\n';
    expect(read(content, 'b')).toEqual({ values: [2, 4], times: [1396310400, 1396396800], column: 'b' });
  });

  it('is refused when it is not there, with the closest and all columns', () => {
    const error = failure(TSB, 'lable');
    expect(error).toBeInstanceOf(ConfigError);
    expect(error.message).toContain('Did you mean Label? Columns: "Data", "Label", or a number from 1 to 2');
    expect(failure(TSB, 0)).toBeInstanceOf(ConfigError);
    expect(failure(TSB, 3)).toBeInstanceOf(ConfigError);
  });

  it('is refused when two columns share the name', () => {
    expect(failure('a,a\n1,2\n3,4\n', 'a').message).toContain('2 columns of');
    expect(read('a,a\n1,2\n3,4\n', 2).values).toEqual([2, 4]);
  });
});

describe('files that cannot be read give one error that says where', () => {
  it.each<[string, string, string]>([
    ['text', 't,v\n0,1\n1,abc\n2,3\n', ':3:3: "abc" in column "v" is not a number'],
    ['only text', 'v\nabc\n', ':2:1: "abc" in column "v" is not a number'],
    ['a unit', 'v\n1\n2 m\n', ':3:1: "2 m" in column "v" is not a number'],
    ['a hexadecimal number', 'v\n1\n0x10\n', ':3:1: "0x10" in column "v" is not a number'],
    ['an infinity', 'v\r\n1\r\n-Infinity\r\n', ':3:1: "-Infinity" in column "v" is not a finite number'],
    ['an overflow', 'v\n1\n1e999\n', ':3:1: "1e999" in column "v" is not a finite number'],
    [
      'no value beside a time column',
      't,v\n0,\n1,NA\n',
      ': column "v" holds no number; remove it, or fill it',
    ],
    [
      'a decimal comma',
      'day;v\n1.4.2014;1,5\n2.4.2014;2\n',
      ':2:10: "1,5" in column "v" is not a number; write a decimal point',
    ],
    ['a blank line inside', 't,v\n0,1\n\n1,2\n', ':3:1: blank line inside the data'],
    ['a missing field', 't,v\n0,1\n1\n2,3\n', ':3:1: 1 fields, the first record has 2'],
    ['a field too many', 't,v\n0,1\n1,2,3\n', ':3:3: 3 fields, the first record has 2'],
    ['a quote that never closes', 'v\n1\n"2\n3\n', ':3:1: this quote never closes'],
    ['text after a quote', '"v"x\n1\n2\n', ':1:4: text after a closing quote'],
    ['an empty file', '', ': empty; expected a column of numbers'],
    ['blank lines alone', '\n \n\n', ': empty; expected a column of numbers'],
    ['a byte-order mark alone', '\ufeff', ': empty; expected a column of numbers'],
    ['a header alone', 'time,flow\n', ': only a header ("time", "flow"), no data below it'],
    ['one point', 'v\n1\n', ': 1 point; a series needs at least 2'],
    [
      'no column of numbers',
      'a,b\nx,y\nz,w\n',
      ': no column of numbers: "a" begins with "x", "b" begins with "y"',
    ],
  ])('%s', (_, content, message) => {
    const error = failure(content);
    expect(error).toBeInstanceOf(DataError);
    expect(error.message.startsWith(path + message)).toBe(true);
  });

  it('counts columns in characters, after quoted newlines and beyond ASCII', () => {
    const error = failure('"né\nw",v\n"ü\n€",x\n"a",1\n"b",2\n') as DataError;
    expect([error.line, error.column]).toEqual([4, 4]);
    expect(error.message).toContain('"x" in column "v"');
  });

  it('shortens long text', () => {
    expect(failure(`v\n1\n${'x'.repeat(500)}\n`).message.length).toBeLessThan(200);
  });

  it('finds a wrong cell far behind the rows that told the columns apart', () => {
    const rows = Array.from({ length: 5000 }, (_, i) => String(i * 0.5));
    rows[4321] = 'gap';
    expect(failure(`v\n${rows.join('\n')}\n`).message).toContain(':4323:1: "gap"');
  });

  it('bytes that are no UTF-8', () => {
    expect(failure(Uint8Array.of(0x76, 0xe9, 10, 49, 10, 50, 10)).message).toContain(
      'not UTF-8 text; save it as UTF-8 CSV',
    );
  });

  it('a file that is missing, or a directory', () => {
    expect(() => [...readCsv(join(root, 'none.csv'))]).toThrow(/none.csv: cannot be read \(no such file/);
    expect(() => [...readCsv(root)]).toThrow(DataError);
  });
});
