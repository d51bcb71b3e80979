import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  apportion,
  type Entry,
  fewShots,
  roundedTable,
  SPLITS,
  splitByExample,
  splitByRecording,
  stratifiedSubset,
} from '../../datasets/split.ts';
import { ConfigError, DataError } from '../../src/ground/errors.ts';

const sum = (list: readonly number[]): number => list.reduce((all, n) => all + n, 0);
const seeds = fc.integer({ min: 0, max: 2 ** 40 });
const classes = fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { minLength: 12, maxLength: 200 });
const shares = fc.record({
  train: fc.integer({ min: 1, max: 20 }),
  validation: fc.integer({ min: 0, max: 5 }),
  test: fc.integer({ min: 0, max: 9 }),
});
const entriesOf = (names: readonly string[]): Entry[] =>
  names.map((name) => ({ class: name, recording: null }));
const counts = <T>(items: readonly T[], of: (item: T, i: number) => string): Map<string, number> => {
  const found = new Map<string, number>();
  for (const [i, item] of items.entries()) found.set(of(item, i), (found.get(of(item, i)) ?? 0) + 1);
  return found;
};

describe('quotas', () => {
  it('parts sum to the total and are off by less than one', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 5000 }),
        fc.array(fc.integer({ min: 0, max: 40 }), { minLength: 1, maxLength: 9 }).filter((s) => sum(s) > 0),
        (total, weights) => {
          const parts = apportion(total, weights);
          expect(sum(parts)).toBe(total);
          for (const [i, part] of parts.entries())
            expect(Math.abs(part - (total * weights[i]!) / sum(weights))).toBeLessThan(1);
        },
      ),
    );
    expect(apportion(7, [1, 1, 1])).toEqual([3, 2, 2]);
    expect(() => apportion(7, [0, 0])).toThrow(DataError);
  });

  it('tables keep their sums, with every entry rounded up or down', () => {
    const list = fc.array(fc.integer({ min: 0, max: 60 }), { minLength: 1, maxLength: 8 });
    fc.assert(
      fc.property(
        list,
        fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 1, maxLength: 6 }),
        (rows, w) => {
          const total = sum(rows);
          const columns = sum(w) === 0 ? [total] : apportion(total, w);
          const table = roundedTable(rows, columns);
          expect(table.map(sum)).toEqual(rows);
          expect(columns.map((_, c) => sum(table.map((row) => row[c]!)))).toEqual(columns);
          for (const [r, row] of table.entries())
            for (const [c, entry] of row.entries())
              expect(Math.abs(entry - (total === 0 ? 0 : (rows[r]! * columns[c]!) / total))).toBeLessThan(1);
        },
      ),
      { numRuns: 500 },
    );
    expect(() => roundedTable([1, 2], [4])).toThrow(/rows sum to 3, columns to 4/);
  });

  it('the 204 windows of the EMG task split as published', () => {
    expect(roundedTable([33, 73, 98], [122, 41, 41]).map(sum)).toEqual([33, 73, 98]);
  });
});

describe('splits', () => {
  it('by example: classes spread like the whole, within rounding and in exact sizes; of few, every split has each class', () => {
    fc.assert(
      fc.property(classes, shares, seeds, (names, sizes, seed) => {
        const drawn = splitByExample(entriesOf(names), sizes, seed);
        const expected = apportion(
          names.length,
          SPLITS.map((s) => sizes[s]),
        );
        const found = counts(drawn, (s) => s);
        const wanted = SPLITS.filter((s) => sizes[s] > 0);
        const cells = counts(drawn, (s, i) => `${names[i]} ${s}`);
        const perClass = counts(names, (n) => n);
        const has = (name: string, split: string): number => cells.get(`${name} ${split}`) ?? 0;
        if (names.length < 100) {
          for (const [name, n] of perClass)
            if (n >= wanted.length) for (const split of wanted) expect(has(name, split)).toBeGreaterThan(0);
        } else {
          expect(SPLITS.map((s) => found.get(s) ?? 0)).toEqual(expected);
          for (const [name, n] of perClass)
            for (const [k, split] of SPLITS.entries())
              expect(Math.abs(has(name, split) - (n * expected[k]!) / names.length)).toBeLessThan(1);
        }
        for (const [k, split] of SPLITS.entries())
          if (expected[k] === 0)
            expect(found.get(split) ?? 0).toBeLessThanOrEqual(sizes[split] === 0 ? 0 : perClass.size);
        expect(splitByExample(entriesOf(names), sizes, seed)).toEqual(drawn);
      }),
    );
  });

  it('by example: twelve of two classes, and six, give every split both', () => {
    const draw = (names: string[], sizes = { train: 8, validation: 1, test: 1 }): string[] => {
      const drawn = splitByExample(entriesOf(names), sizes, 3);
      return SPLITS.map((split) =>
        names
          .filter((_, i) => drawn[i] === split)
          .sort()
          .join(''),
      );
    };
    expect(draw([...'abababababab'])).toEqual(['aaaabbbb', 'ab', 'ab']);
    expect(draw([...'ababab'])).toEqual(['ab', 'ab', 'ab']);
    // Where another class can make room, the sizes stay: 8 and 4 of 12.
    expect(draw([...'aaaaaaaaaadd'], { train: 2, validation: 0, test: 1 })).toEqual(['aaaaaaad', '', 'aaad']);
    // Two of a class cannot be in three splits.
    expect(draw([...'aaaaaaabb']).map((text) => text.includes('a'))).toEqual([true, true, true]);
  });

  it('by recording: no recording is in two splits, and every example is in one', () => {
    const many = fc.array(
      fc.record({
        class: fc.constantFrom('a', 'b', 'c'),
        recording: fc.option(
          fc.integer({ min: 0, max: 30 }).map((n) => `r${n}`),
          { freq: 20 },
        ),
      }),
      { minLength: 40, maxLength: 300 },
    );
    fc.assert(
      fc.property(many, shares, seeds, (entries, sizes, seed) => {
        const drawn = splitByRecording(entries, sizes, seed);
        expect(drawn.length).toBe(entries.length);
        const home = new Map<string, string>();
        for (const [i, { recording }] of entries.entries()) {
          expect(SPLITS).toContain(drawn[i]);
          if (recording === null) continue;
          expect(home.get(recording) ?? drawn[i]).toBe(drawn[i]);
          home.set(recording, drawn[i]!);
        }
        expect(splitByRecording(entries, sizes, seed)).toEqual(drawn);
      }),
    );
  });

  it('by recording: one recording cannot be in train and test', () => {
    const entries = Array.from({ length: 9 }, () => ({ class: 'a', recording: 'only' }));
    expect(() => splitByRecording(entries, { train: 8, validation: 1, test: 1 }, 0)).toThrow(
      /1 recording for 3 splits/,
    );
    expect(splitByRecording(entries, { train: 0, validation: 0, test: 1 }, 0)).toEqual(
      entries.map(() => 'test'),
    );
  });

  it('another seed gives another draw', () => {
    const entries = entriesOf(Array.from({ length: 60 }, (_, i) => 'abc'[i % 3]!));
    const sizes = { train: 6, validation: 2, test: 2 };
    expect(splitByExample(entries, sizes, 1)).not.toEqual(splitByExample(entries, sizes, 2));
    expect(splitByRecording(entries, sizes, 1)).not.toEqual(splitByRecording(entries, sizes, 2));
  });
});

describe('subsets', () => {
  it('keep the classes in proportion, in order, and never an item twice', () => {
    fc.assert(
      fc.property(classes, fc.integer({ min: 1, max: 220 }), seeds, (names, count, seed) => {
        const kept = stratifiedSubset(names, count, seed);
        expect(kept.length).toBe(Math.min(count, names.length));
        for (let k = 1; k < kept.length; k++) expect(kept[k]).toBeGreaterThan(kept[k - 1]!);
        const found = counts(kept, (i) => names[i]!);
        for (const [name, n] of counts(names, (one) => one)) {
          expect(Math.abs((found.get(name) ?? 0) - (n * kept.length) / names.length)).toBeLessThan(1);
        }
        expect(stratifiedSubset(names, count, seed)).toEqual(kept);
      }),
    );
    expect(() => stratifiedSubset(['a'], 0, 1)).toThrow(ConfigError);
  });

  it('few shots: as many of every class; more shots hold fewer ones', () => {
    const names = Array.from({ length: 40 }, (_, i) => (i % 4 === 0 ? 'rare' : 'common'));
    const three = fewShots(names, 3, 5);
    expect([...counts(three, (i) => names[i]!).values()]).toEqual([3, 3]);
    expect(fewShots(names, 7, 5)).toEqual(expect.arrayContaining(three));
    expect(fewShots(names, 3, 6)).not.toEqual(three);
    expect(() => fewShots(names, 11, 5)).toThrow(/class 'rare' has 10 examples/);
    expect(() => fewShots(names, 1.5, 5)).toThrow(ConfigError);
  });
});
