import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { variateMetrics, variatesReward } from '../../rewards/variates.ts';
import { DataError } from '../../src/ground/errors.ts';
import { parseVariates } from '../../src/tasks/variates.ts';

const CHANNELS = 36;
const ids = fc.uniqueArray(fc.nat(CHANNELS - 1), { maxLength: 8 });
const name = (list: readonly number[]) => `<think>t</think><answer>[${list.join(', ')}]</answer>`;

describe('metrics over variates', () => {
  test('tell naming too many from naming too few', () => {
    const many = variateMetrics([1, 2, 7], [2, 7, 8, 11]);
    expect(many.precision).toBeCloseTo(2 / 3, 12);
    expect(many.recall).toBe(0.5);
    expect(many.f1).toBeCloseTo(4 / 7, 12);
    expect(many.exact).toBe(0);
    expect(variateMetrics([4, 9, 30], [9])).toEqual({ precision: 1 / 3, recall: 1, f1: 0.5, exact: 0 });
    expect(variateMetrics([9], [4, 9, 30])).toEqual({ precision: 1, recall: 1 / 3, f1: 0.5, exact: 0 });
  });

  test.each([
    ['none named, none anomalous', [], [], 1],
    ['none named, some anomalous', [], [3], 0],
    ['some named, none anomalous', [3], [], 0],
    ['an unreadable answer', null, [3], 0],
    ['an unreadable answer, none anomalous', null, [], 0],
    ['others named', [1, 2], [3, 4, 5], 0],
    ['the same, in another order', [5, 3, 4], [3, 4, 5], 1],
    ['the same, one twice', [3, 4, 3], [3, 4], 1],
  ])('%s', (_, predicted, gold, value) => {
    expect(variateMetrics(predicted, gold)).toEqual({
      precision: value,
      recall: value,
      f1: value,
      exact: value,
    });
  });

  test('equal a count over channels; F1 is the harmonic mean', () => {
    fc.assert(
      fc.property(ids, ids, (predicted, gold) => {
        fc.pre(predicted.length > 0 && gold.length > 0);
        const channels = Array.from({ length: CHANNELS }, (_, id) => id);
        const both = channels.filter((id) => predicted.includes(id) && gold.includes(id)).length;
        const { precision, recall, f1, exact } = variateMetrics(predicted, gold);
        expect(precision).toBeCloseTo(both / predicted.length, 12);
        expect(recall).toBeCloseTo(both / gold.length, 12);
        expect(f1).toBeCloseTo(both === 0 ? 0 : 2 / (1 / precision + 1 / recall), 12);
        const same = channels.every((id) => predicted.includes(id) === gold.includes(id));
        expect(exact).toBe(same ? 1 : 0);
        expect(f1 === 1).toBe(same);
      }),
    );
  });

  test('swap precision and recall with their arguments', () => {
    fc.assert(
      fc.property(ids, ids, (a, b) => {
        const there = variateMetrics(a, b);
        expect(variateMetrics(b, a)).toEqual({
          ...there,
          precision: there.recall,
          recall: there.precision,
        });
      }),
    );
  });

  test.each([-1, 1.5, Number.NaN])('a gold id of %s is a data error', (id) => {
    expect(() => variateMetrics(null, [0, id])).toThrow(DataError);
  });
});

describe('the reward on variates', () => {
  const of = (response: string, gold: readonly number[]) =>
    variatesReward(parseVariates(response, CHANNELS), gold);

  test('pays 0.9 for F1 and 0.1 for the format', () => {
    expect(of(name([7, 2]), [2, 7])).toEqual({ total: 1, parts: { f1: 1, format: 1 } });
    expect(of(name([1, 2, 7]), [2, 7, 8, 11]).total).toBeCloseTo(0.9 * (4 / 7) + 0.1, 12);
    expect(of(`Hm. ${name([2, 7])}`, [2, 7])).toEqual({ total: 0.9, parts: { f1: 1, format: 0 } });
    expect(of(name([3]), [2, 7])).toEqual({ total: 0.1, parts: { f1: 0, format: 1 } });
    expect(of(name([]), [])).toEqual({ total: 1, parts: { f1: 1, format: 1 } });
    expect(of('', []).total).toBe(0);
  });

  test('does not depend on the order of the ids in the response', () => {
    fc.assert(
      fc.property(
        ids.chain((list) =>
          fc.tuple(fc.constant(list), fc.shuffledSubarray(list, { minLength: list.length })),
        ),
        ids,
        ([list, shuffled], gold) => {
          expect(of(name(shuffled), gold)).toEqual(of(name(list), gold));
        },
      ),
    );
  });
});
