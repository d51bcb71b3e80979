import { describe, expect, test } from 'vitest';
import { readTs } from '../../../datasets/readers/ts.ts';
import { DataError } from '../../../src/ground/errors.ts';
import { failure, plain, readerFiles } from '../../helpers/reader-files.ts';

const files = readerFiles();
const read = (text: string) => plain(readTs(files.write('x.ts', text)));
const fails = (text: string): string => {
  const error = failure(() => readTs(files.write('x.ts', text)));
  expect(error).toBeInstanceOf(DataError);
  return error.message.replace(/^.*x\.ts/, '');
};
const NAN = Number.NaN;

describe('headers as found in the wild', () => {
  const one = [{ label: 'b', channels: [[1, 2.5]] }];
  test.each([
    ['a whole header', '@problemName x\n@univariate true\n@classLabel true a b\n@data\n1,2.5:b\n'],
    [
      'upper case, blanks, comments in between',
      '# c\n@PROBLEMNAME x\n\n%\n @ClassLabel  TRUE a b \n#\n@DATA\n1,2.5:b',
    ],
    ['a byte-order mark before and inside a comment', '\ufeff#\ufeffx\n@classLabel true a b\n@data\n1,2.5:b'],
    ['no @data', '@classLabel true a b\n1,2.5:b\n'],
    ['no header at all: a single last field after longer ones is the label', '1,2.5:b\n'],
    ['labels that were not declared', '@classLabel true x y\n@data\n1,2.5:b\n'],
    ['a flag without labels', '@classLabel true\n@data\n1,2.5:b\n'],
    ['labels without the flag', '@classLabel a b\n@data\n1,2.5:b\n'],
    [
      'wrong dimensions and length',
      '@univariate true\n@dimensions 7\n@seriesLength 99\n@equalLength true\n@data\n1,2.5:b',
    ],
    ['a target', '@targetLabel true\n@data\n1,2.5:b\n'],
    ['CRLF', '@classLabel true a b\r\n@data\r\n1,2.5:b\r\n'],
    ['blank lines and comments among the data', '@data\n\n# x\n1,2.5:b\n\n'],
    ['blanks around fields', '@data\n 1 ,\t2.5 : b \n'],
  ])('%s', (_, text) => {
    expect(read(text)).toEqual(one);
  });

  test('counts the series of a file', () => {
    const [record] = [
      ...readTs(files.write('x.ts', '@problemName Two Words\n@classLabel true a b\n@data\n1,2:b')),
    ];
    expect(record!.id).toBe('x/0');
  });
});

describe('data', () => {
  test('channels of unequal lengths, missing values, no label', () => {
    expect(read('@classLabel false\n@data\n1,?,NaN:4\n5,,7,8:9\n')).toEqual([
      { label: null, channels: [[1, NAN, NAN], [4]] },
      { label: null, channels: [[5, NAN, 7, 8], [9]] },
    ]);
  });

  test('without a header, one field after one field is a channel', () => {
    expect(read('1:2\n3:4\n')).toEqual([
      { label: null, channels: [[1], [2]] },
      { label: null, channels: [[3], [4]] },
    ]);
  });

  test('an empty channel has no values; an empty last field is a missing one', () => {
    expect(read('@classLabel true a\n@data\n1,2::a\n3,:4:a\n')).toEqual([
      { label: 'a', channels: [[1, 2], []] },
      { label: 'a', channels: [[3, NAN], [4]] },
    ]);
  });

  test('pairs share a time axis; channels of other times are joined over the union', () => {
    const head = '@timeStamps true\n@classLabel true a\n@data\n';
    const records = [
      ...readTs(files.write('x.ts', `${head}(0,1),(2.5,2):(0,3),(2.5,4):a\n(0,1),(2,2):(1,3),(2,?):a\n`)),
    ];
    expect([...records[0]!.times!]).toEqual([0, 2.5]);
    expect([...records[1]!.times!]).toEqual([0, 1, 2]);
    expect(records[1]!.channels.map((c) => [...c])).toEqual([
      [1, NAN, 2],
      [NAN, 3, NAN],
    ]);
  });

  test('dates in pairs are seconds since 1970', () => {
    const [record] = [
      ...readTs(files.write('x.ts', '@data\n(2014-04-01 00:05:00,1),(2014-04-01 00:10:00,2):a\n')),
    ];
    expect([...record!.times!]).toEqual([1396310700, 1396311000]);
    expect(record!.label).toBe('a');
  });
});

describe('errors name file, line and column', () => {
  test.each([
    ['text', '@data\n1,2:a\n3,x:b', ':3:3: "x" is not a number'],
    [
      'an infinity',
      '@data\n1,inf:a',
      ':2:3: "inf" is not a finite number; write ? or NaN for a missing value',
    ],
    [
      'another number of channels',
      '@classLabel true a\n1:2:a\n1:2:3:a',
      ':3:1: 3 channels, the first line has 2',
    ],
    ['no label', '@classLabel true a\n1,2:a\n1,2', ':3:1: no label at the end of this line'],
    ['an empty label', '@classLabel true a\n1,2:', ':2:5: an empty label'],
    ['a header line among the data', '@data\n1,2:a\n@data\n', ':3:1: a header line among the data'],
    ['a series without values', '@classLabel true a\n:a', ':2:1: a series without values'],
    ['a pair without value', '@data\n(1:a', ':2:2: expected (time,value)'],
    [
      'a pair of three',
      '@data\n(1,2,3):a',
      ':2:4: expected one value and ) after the time; several values per time are not read',
    ],
    ['two values at one time', '@data\n(1,2),(1,3):(1,2):a', ':2:1: channel 1 has two values at time 1'],
    ['a missing time', '@data\n(?,2):a', ':2:2: a missing time; every pair needs one'],
    ['nothing', '', ': no series; expected lines of values after @data'],
    ['only a header', '@data\n', ': no series; expected lines of values after @data'],
  ])('%s', (_, text, message) => {
    expect(fails(text)).toBe(message);
  });

  test('stopping early closes the file', () => {
    for (let i = 0; i < 3000; i++) {
      for (const record of readTs(files.write('x.ts', '1,2:a\n3,4:b\n'))) {
        expect(record.label).toBe('a');
        break;
      }
    }
  });
});
