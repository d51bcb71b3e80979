/** TSB-UAD, TSB-AD, TAB, NAB and plain CSV. */
import { describe, expect, test } from 'vitest';
import {
  readNab,
  readNabWindows,
  readTab,
  readTsbAd,
  readTsbUad,
  tsbAdTrain,
} from '../../../datasets/readers/anomaly-files.ts';
import { readCsv } from '../../../datasets/readers/csv.ts';
import { readRecords } from '../../../datasets/readers/formats.ts';
import type { RawRecord } from '../../../datasets/readers/record.ts';
import { readUcrTsv } from '../../../datasets/readers/ucr-tsv.ts';
import { ConfigError, DataError } from '../../../src/ground/errors.ts';
import { failure, plain, readerFiles } from '../../helpers/reader-files.ts';

const files = readerFiles();
const NAN = Number.NaN;

function message(read: (path: string) => Iterable<RawRecord>, text: string, name = 'x.csv'): string {
  const path = files.write(name, text);
  const error = failure(() => read(path));
  expect(error).toBeInstanceOf(DataError);
  return error.message.replace(path, '');
}

describe('UCR tsv', () => {
  test.each([
    ['tabs', '-1\t1\t2\n3\t4\t5\n'],
    ['commas, as in the archive of 2015', '-1,1,2\n3,4,5\n'],
    ['blanks', '  -1   1  2\n3 4 5  \n'],
    ['a byte-order mark, CRLF, blank lines', '\ufeff-1\t1\t2\r\n\r\n3\t4\t5\r\n'],
    ['a tab at the end of the line', '-1\t1\t2\t\n3\t4\t5\t\n'],
  ])('label first, separated by %s', (_, text) => {
    expect(plain(readUcrTsv(files.write('x.tsv', text)))).toEqual([
      { label: '-1', channels: [[1, 2]] },
      { label: '3', channels: [[4, 5]] },
    ]);
  });

  test('missing values and the NaN at the end of short series stay', () => {
    expect(plain(readUcrTsv(files.write('x.tsv', '1\t1\t\t?\tNaN\n2\t5\n')))).toEqual([
      { label: '1', channels: [[1, NAN, NAN, NAN]] },
      { label: '2', channels: [[5]] },
    ]);
  });

  test.each([
    ['text', '1\t2\tx\n', ':1:5: "x" is not a number'],
    ['a missing label', '1\t2\n\t3\n', ':2:1: a missing label; the label stands first'],
    ['a label alone', '1\t2\n7\n', ':2:1: a label without values'],
    ['nothing', '\n\n', ': empty; expected lines of a label and values'],
  ])('refuses %s', (_, text, expected) => {
    expect(message(readUcrTsv, text, 'x.tsv')).toBe(expected);
  });
});

describe('the anomaly archive of UCR', () => {
  const name = '204_UCR_Anomaly_CHARISfive_2_4_5.txt';
  test.each(['1\n2\n3\n4.5e+00\n5\n6\n', '  1.0e0   2 3\t4.5 5 6  \r\n'])(
    '%j: the anomaly is in the name',
    (text) => {
      const [record, ...more] = [...readRecords(files.write(name, text))];
      expect(more).toEqual([]);
      expect(record!.channels).toEqual([Float64Array.of(1, 2, 3, 4.5, 5, 6)]);
      expect(record!.anomalies).toEqual([[3, 5]]);
    },
  );

  test('a file that was cut off is refused', () => {
    expect(message(readRecords, '1\n2\n3\n4\n', name)).toBe(
      ': the name states an anomaly from point 4 to 5, the file has 4 points',
    );
  });
});

describe('TSB-UAD', () => {
  test('values and point labels', () => {
    const [plainRecord] = [...readTsbUad(files.write('yahoo_1.out', '1.5,0\n,1.0\n-3,1\n\n\n'))];
    expect([...plainRecord!.channels[0]!]).toEqual([1.5, NAN, -3]);
    expect(plainRecord!.anomalies).toEqual(Uint8Array.of(0, 1, 1));
  });

  test.each([
    ['another label', '1,0\n2,2\n', ':2:3: a label that is neither 0 nor 1'],
    ['one field', '1,0\n2\n', ':2:1: one field; expected value,label'],
    ['three fields', '1,0,4\n', ':1:3: more than two fields; expected value,label'],
    ['a blank line inside', '1,0\n\n2,0\n', ':2:1: blank line inside the data'],
    ['text', 'value,label\n', ':1:1: "value" is not a number'],
    ['nothing', '', ': empty; expected lines of value,label'],
  ])('refuses %s', (_, text, expected) => {
    expect(message(readTsbUad, text)).toBe(expected);
  });

  test('refuses a training length that the series does not have', () => {
    expect(message(readTsbUad, '1,0\n', '1_UCR_Anomaly_x_5_6_7.out')).toContain(
      'states 5 points of training',
    );
  });
});

describe('TSB-AD', () => {
  test('reads the grammar of its names', () => {
    expect(tsbAdTrain('/d/001_NAB_id_1_Facility_tr_1007_1st_2014.csv')).toBe(1007);
    expect(tsbAdTrain('057_SMD_v2_id_12_Web_Service_tr_500_1st_900')).toBe(500);
    expect(tsbAdTrain('art_daily.csv')).toBeNull();
  });

  test('several columns, Label last, missing values', () => {
    const name = '7_A_id_2_B_tr_1_1st_1.csv';
    const [record] = [...readTsbAd(files.write(name, '\ufeff"cpu",mem,Label\r\n1,,0\r\n2,?,1\r\n\r\n'))];
    expect(record!.channels.map((c) => [...c])).toEqual([
      [1, 2],
      [NAN, NAN],
    ]);
    expect(record!.channelNames).toEqual(['cpu', 'mem']);
    expect(record!.anomalies).toEqual(Uint8Array.of(0, 1));
  });

  test.each([
    ['another header', '1,0\n', ':1:3: expected a header whose last column is Label, such as Data,Label'],
    ['too few fields', 'a,b,Label\n1,0\n', ':2:3: 2 fields, the header has 3'],
    ['too many fields', 'a,Label\n1,0,0\n', ':2:3: more fields than the 2 of the header'],
    ['a blank line inside', 'a,Label\n1,0\n\n2,0\n', ':4:1: a blank line before this one; remove or fill it'],
    ['a missing label', 'a,Label\n1,\n', ':2:3: a label that is neither 0 nor 1'],
    ['only a header', 'a,Label\n', ': only a header, no data below it'],
  ])('refuses %s', (_, text, expected) => {
    expect(message(readTsbAd, text)).toBe(expected);
  });

  test('refuses a training length that the series does not have', () => {
    expect(message(readTsbAd, 'a,Label\n1,0\n', '7_A_id_2_B_tr_5_1st_6.csv')).toContain(
      'states 5 points of training, the file has 1',
    );
  });
});

describe('TAB', () => {
  test('stacks channels by cols, in any order of rows, without dates too', () => {
    const [record] = [
      ...readTab(files.write('t.csv', 'cols,data,extra\nb,1,x\na,3,x\nb,2,y\na,,y\nlabel,0,\nlabel,1,\n')),
    ];
    expect(record!.channelNames).toEqual(['b', 'a']);
    expect(record!.channels.map((c) => [...c])).toEqual([
      [1, 2],
      [3, NAN],
    ]);
    expect(record!.anomalies).toEqual(Uint8Array.of(0, 1));
    expect(record!.times).toBeNull();
  });

  test('numeric dates stay numbers', () => {
    const [record] = [...readTab(files.write('t.csv', 'date,data,cols\n1,5,a\n2,6,a\n'))];
    expect([...record!.times!]).toEqual([1, 2]);
    expect(record!.anomalies).toBeNull();
  });

  test.each([
    ['another header', 'a,b\n1,2\n', ':1:3: expected a header with data and cols, such as date,data,cols'],
    ['unequal lengths', 'data,cols\n1,a\n2,a\n3,b\n', ': "b" has 1 points, "a" has 2'],
    ['other dates', 'date,data,cols\n1,1,a\n2,1,b\n', ': point 1 of "b" has another date than that of "a"'],
    ['a label that is none', 'data,cols\n1,a\n7,label\n', ': "label", point 1 of 1: 7; a label is 0 or 1'],
    ['too few fields', 'data,cols\n1\n', ':2:1: 1 fields, the header has 2'],
    ['too many fields', 'data,cols\n1,a,2\n', ':2:3: more fields than the 2 of the header'],
    ['a missing date', 'date,data,cols\n,1,a\n', ':2:1: a missing date'],
    ['no channel', 'data,cols\n1,label\n', ': no points of a channel'],
    ['no name', 'data,cols\n1,\n', ':2:3: an empty name in cols'],
  ])('refuses %s', (_, text, expected) => {
    expect(message(readTab, text)).toBe(expected);
  });
});

describe('NAB', () => {
  const CSV =
    'timestamp,value\n2014-01-01 00:00:00,1\n2014-01-01 00:05:00,2\n2014-01-01 00:10:00,3\n2014-01-01 00:15:00,4\n';
  const windows = (content: unknown) => readNabWindows(files.write('w.json', JSON.stringify(content)));

  test('windows count both ends, are sorted, and joined where they overlap', () => {
    const path = files.write('n.csv', CSV);
    const list = [
      ['2014-01-01 00:10:00.000000', '2014-01-01 00:10:00.000000'],
      ['2014-01-01 00:00:00', '2014-01-01 00:04:59'],
    ];
    expect([...readNab(path, windows({ 'd/n.csv': list }))][0]!.anomalies).toEqual([
      [0, 1],
      [2, 3],
    ]);
    const overlapping = [...list, ['2014-01-01 00:05:00', '2014-01-01 00:10:00']];
    expect([...readNab(path, windows({ 'n.csv': overlapping }))][0]!.anomalies).toEqual([[0, 3]]);
    expect([...readNab(path)][0]!.anomalies).toBeNull();
  });

  test.each([
    ['no entry', { 'd/other.csv': [] }, 'no entry of this name'],
    ['two entries', { 'd/n.csv': [], 'e/n.csv': [] }, '2 entries of this name: d/n.csv, e/n.csv'],
    [
      'no point in a window',
      { 'd/n.csv': [['2015-01-01', '2015-01-02']] },
      'no point lies in the window that begins at 2015-01-01',
    ],
  ])('refuses %s', (_, content, expected) => {
    const path = files.write('n.csv', CSV);
    expect(failure(() => readNab(path, windows(content))).message).toContain(expected);
  });

  test.each([
    ['[]', 'expected an object'],
    ['{"a": 1}', '"a": expected a list of windows'],
    ['{"a": [["2014-01-01"]]}', '"a": expected windows of two dates'],
    ['{"a": [["2014-01-01", 5]]}', '"a": not a window of two dates'],
    ['{"a": [["2014-01-02", "2014-01-01"]]}', '"a": a window that ends before it begins'],
  ])('refuses the windows %s', (text, expected) => {
    expect(() => readNabWindows(files.write('w.json', text))).toThrow(expected);
  });

  test('names the place where windows are not JSON', () => {
    const path = files.write('w.json', '{\n "a": [[}\n');
    expect(() => readNabWindows(path)).toThrow(`${path}:2:9: not JSON`);
  });

  test.each([
    ['another header', 'time,value\n', ':1:6: expected the header timestamp,value'],
    ['no date', 'timestamp,value\nnow,1\n', ':2:1: not a date such as 2014-04-01 00:05:00'],
    [
      'a third field',
      'timestamp,value\n2014-01-01,1,2\n',
      ':2:12: more than two fields; expected timestamp,value',
    ],
    ['one field', 'timestamp,value\n2014-01-01\n', ':2:1: one field; expected timestamp,value'],
    ['only a header', 'timestamp,value\n', ': only a header, no data below it'],
  ])('refuses %s', (_, text, expected) => {
    expect(message((path) => readNab(path), text)).toBe(expected);
  });
});

describe('CSV', () => {
  test('several columns and times', () => {
    const path = files.write('p.csv', 'day;a;b\n2014-04-01;1;4\n2014-04-02;2;5\n');
    const [record] = [...readCsv(path, { columns: ['b', 2] })];
    expect(record!.channelNames).toEqual(['b', 'a']);
    expect(record!.channels.map((c) => [...c])).toEqual([
      [4, 5],
      [1, 2],
    ]);
    expect([...record!.times!]).toEqual([1396310400, 1396396800]);
  });

  test('times that are neither dates nor numbers are left out', () => {
    const [record] = [...readCsv(files.write('p.csv', 'time,a\n10:05,1\n10:10,2\n'))];
    expect(record!.times).toBeNull();
  });

  test('refuses no columns', () => {
    const path = files.write('p.csv', 'a,mark\n1,0\n2,3\n');
    expect(failure(() => readCsv(path, { columns: [] }))).toBeInstanceOf(ConfigError);
  });
});
