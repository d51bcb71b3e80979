import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { jsonPlace } from '../../../datasets/readers/nab.ts';

describe('jsonPlace', () => {
  test.each([
    ['{\n "a": [[}\n', 2, 9],
    ['{"a" 1}', 1, 6],
    ['{"a": 1,}', 1, 9],
    ['[1,, 2]', 1, 4],
    ['[1,\n 2', 2, 3],
    ['{"a": tru}', 1, 7],
    ['{a: 1}', 1, 2],
    ['["x\n"]', 1, 2],
    ['[01]', 1, 3],
    ['[1] 2', 1, 5],
    ['', 1, 1],
    ['[}', 1, 2],
    ['{]', 1, 2],
    ['{"a": "\\x"}', 1, 7],
  ])('%j: line %i, column %i', (text, line, column) => {
    expect(() => JSON.parse(text)).toThrow();
    expect(jsonPlace(text)).toEqual({ line, column });
  });

  test('finds nothing wrong in JSON: the place is its end', () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        expect(jsonPlace(text)).toEqual({ line: 1, column: text.length + 1 });
      }),
    );
  });
});
