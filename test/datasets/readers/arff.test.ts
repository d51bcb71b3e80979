import { describe, expect, test } from 'vitest';
import { readArff } from '../../../datasets/readers/arff.ts';
import { DataError } from '../../../src/ground/errors.ts';
import { failure, plain, readerFiles } from '../../helpers/reader-files.ts';

const files = readerFiles();
const read = (text: string) => plain(readArff(files.write('x.arff', text)));
const fails = (text: string): string => {
  const error = failure(() => readArff(files.write('x.arff', text)));
  expect(error).toBeInstanceOf(DataError);
  return error.message.replace(/^.*x\.arff/, '');
};
const TWO = '@relation r\n@attribute a numeric\n@attribute b real\n';
const CLASS = '@attribute class {x, y}\n@data\n';
const REL = '@relation r\n@attribute m relational\n @attribute t0 numeric\n @attribute t1 numeric\n@end m\n';

describe('what is read', () => {
  test.each([
    ['class last', `${TWO}${CLASS}1,2,x\n`],
    ['class first', `@relation r\n@attribute class {x,y}\n${TWO.slice(12)}@data\nx,1,2\n`],
    [
      'a byte-order mark, CRLF, comments',
      `\ufeff% c\r\n${TWO.replaceAll('\n', '\r\n')}${CLASS}%\r\n1,2,x\r\n`,
    ],
    [
      'upper case and quotes',
      `@RELATION 'r r'\n@ATTRIBUTE 'a b' NUMERIC\n@Attribute "b" REAL\n@attribute c{'x',"y"}\n@DATA\n1 , 2 , 'x'\n`,
    ],
    ['classes that were not declared', `${TWO}@attribute class {p,q}\n@data\n1,2,x\n`],
  ])('%s', (_, text) => {
    expect(read(text)).toEqual([{ label: 'x', channels: [[1, 2]] }]);
  });

  test('a class with a comma among those declared, and missing values', () => {
    const [record] = [...readArff(files.write('x.arff', `${TWO}@attribute c {'a, b',y}\n@data\n?,,y`))];
    expect(plain([record!])).toEqual([{ label: 'y', channels: [[Number.NaN, Number.NaN]] }]);
  });

  test('a relational attribute: channels, also of unequal lengths', () => {
    expect(read(`${REL}${CLASS}'1,2\\n3,4',x\n"5\\n6,?,8\\n",'y'\n`)).toEqual([
      {
        label: 'x',
        channels: [
          [1, 2],
          [3, 4],
        ],
      },
      { label: 'y', channels: [[5], [6, Number.NaN, 8]] },
    ]);
  });

  test('a last numeric attribute named target is the label; without a class there is none', () => {
    expect(read(`${TWO}@attribute target numeric\n@data\n1,2,7.50\n`)).toEqual([
      { label: '7.50', channels: [[1, 2]] },
    ]);
    expect(read(`${TWO}@data\n1,2\n`)).toEqual([{ label: null, channels: [[1, 2]] }]);
  });
});

describe('what is refused, with its place', () => {
  test.each([
    ['too few fields', `${TWO}${CLASS}1,x\n`, ':6:3: "x" is not a number'],
    ['a missing field', `${TWO}${CLASS}1,2\n`, ':6:3: 2 fields, there are 3 attributes'],
    ['too many fields', `${TWO}${CLASS}1,2,x,3\n`, ':6:7: more fields than the 3 attributes'],
    ['a missing class', `${TWO}${CLASS}1,2,?\n`, ':6:5: a missing class'],
    ['a sparse row', `${TWO}${CLASS}{0 1, 2 x}\n`, ':6:1: a sparse row ({index value, …}); write it in full'],
    [
      'a string attribute',
      '@relation r\n@attribute s string\n',
      ':2:1: attribute "s" is of type "string"; expected numeric or a class',
    ],
    [
      'two classes',
      `${TWO}@attribute c {x}\n@attribute d {y}\n`,
      ':5:1: a second nominal attribute, "d"; expected one class',
    ],
    ['an open quote', `${REL}${CLASS}'1,2\n`, ':8:4: this quote never closes'],
    ['text after a quote', `${REL}${CLASS}'1,2'3,x\n`, ':8:6: text after a closing quote'],
    ['another escape', `${REL}${CLASS}'1\\t2',x\n`, ':8:4: expected \\n between the channels'],
    ['no quote', `${REL}${CLASS}1,2,x\n`, ':8:1: expected a quoted matrix'],
    [
      'an infinity',
      `${TWO}${CLASS}1,-inf,x\n`,
      ':6:3: "-inf" is not a finite number; write ? or NaN for a missing value',
    ],
    [
      'no attributes',
      '@relation r\n@data\n1\n',
      ':2:1: expected numeric attributes, or one relational attribute, and at most one class',
    ],
    ['no @data', TWO, ': no @data line'],
    ['no series', `${TWO}${CLASS}`, ': no series after @data'],
    ['something else', 'hello\n', ':1:1: expected @relation, @attribute or @data'],
  ])('%s', (_, text, message) => {
    expect(fails(text)).toBe(message);
  });
});
