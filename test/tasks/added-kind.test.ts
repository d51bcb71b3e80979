/** A kind of answer is its file and a line in the table: the functions of all kinds then know it. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { DataError } from '../../src/ground/errors.ts';
import type { Place } from '../../src/ground/json-record.ts';
import type { Gold } from '../../src/ground/types.ts';
import type { TaskKind } from '../../src/tasks/kind.ts';
import {
  goldFrom,
  goldParts,
  goldResponse,
  KINDS,
  labelOf,
  ownQuestion,
  parseResponse,
  readGold,
  scoreAnswer,
  statedTrace,
  taskKind,
} from '../../src/tasks/kinds.ts';

/** Number of peaks in a series. */
interface CountGold {
  readonly kind: 'count';
  readonly count: number;
}

const FORM = '<think>…</think><count>…</count>';

const count = {
  ...taskKind('variates'),
  fields: ['kind', 'count'],
  fieldsFrom: ({ count: given = 0 }) => ({ count: given }),
  asks: () => ({ text: 'How many peaks?', options: [] }),
  read({ count: given }: Record<string, unknown>, at: Place) {
    if (typeof given !== 'number') throw new DataError('count: expected a number', at);
    return { kind: 'count', count: given };
  },
  label: (gold: CountGold) => `${gold.count} peaks`,
  parts: (gold: CountGold) => `<count>${gold.count}</count>`,
  parse(response: string) {
    const text = /<count>(\d+)<\/count>/.exec(response)?.[1] ?? null;
    return {
      think: null,
      intervals: null,
      class: text,
      wellFormed: text !== null,
      problem: text === null ? FORM : null,
    };
  },
  reward: {
    name: 'count',
    weights: { count: 1 },
    score: ({ class: said }: { readonly class: string | null }, gold: CountGold) => {
      const total = said === String(gold.count) ? 1 : 0;
      return { total, parts: { count: total } };
    },
  },
} as unknown as TaskKind<Gold>;

const name = 'count' as Gold['kind'];
beforeAll(() => {
  Object.assign(KINDS, { count });
});
afterAll(() => {
  delete (KINDS as Record<string, unknown>)['count'];
});

test('it is read, asked, answered and scored like every other', () => {
  const gold = goldFrom(name, { count: 3 } as never);
  expect(gold).toEqual({ kind: 'count', count: 3 });
  expect(goldFrom(name, {} as never)).toEqual({ kind: 'count', count: 0 });
  expect(readGold({ kind: 'count', count: 3 }, {})).toEqual(gold);
  expect(() => readGold({ kind: 'count', count: 'x' }, {})).toThrow('count: expected a number');
  expect([labelOf(gold), goldParts(gold)]).toEqual(['3 peaks', '<count>3</count>']);
  expect(ownQuestion(gold)).toEqual({ question: { text: 'How many peaks?', options: [] } });
  expect(statedTrace(gold)).toBeNull();
  const asked = { kind: name, length: 10, channels: 1, classes: [] };
  const answer = parseResponse(goldResponse(gold, 'three'), asked);
  expect(scoreAnswer(answer, gold, 10)).toMatchObject({ total: 1, parts: { count: 1 } });
  expect(scoreAnswer(parseResponse('<count>4</count>', asked), gold, 10).total).toBe(0);
});
