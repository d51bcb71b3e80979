import { expect, test } from 'vitest';
import {
  bestOf,
  EvaluatorState,
  isDue,
  isExhausted,
  type ValidationLine,
} from '../../src/train/validation.ts';

const lines = (...rewards: number[]): ValidationLine[] =>
  rewards.map((reward, i) => ({ step: 10 * (i + 1), examples: 8, metrics: { reward, unparsable: reward } }));

test('the best evaluation is the first of the highest, and of unreadable answers the lowest', () => {
  const list = lines(0.3, 0.7, 0.5, 0.7, 0.2);
  expect(bestOf(list, 'reward')?.step).toBe(20);
  expect(bestOf(list, 'unparsable')?.step).toBe(50);
  expect(bestOf([], 'reward')).toBeNull();
});

test('training ends after as many evaluations without a better one as patience has', () => {
  const how = (patience: number) => ({ evalEvery: 10, patience, best: 'reward' });
  expect(isExhausted(lines(0.3, 0.7, 0.5), how(2))).toBe(false);
  expect(isExhausted(lines(0.3, 0.7, 0.5, 0.7), how(2))).toBe(true); // as good is not better
  expect(isExhausted(lines(0.3, 0.7, 0.5, 0.71), how(2))).toBe(false);
  expect(isExhausted(lines(0.9, 0.1, 0.1, 0.1), how(0))).toBe(false);
  expect(isExhausted([], how(1))).toBe(false);
});

test('evaluations are due every so many steps, and after the last one', () => {
  const due = (total: number, every: number) =>
    Array.from({ length: total + 1 }, (_, step) => step).filter((step) => isDue(step, total, every));
  expect(due(7, 3)).toEqual([3, 6, 7]);
  expect(due(6, 3)).toEqual([3, 6]);
  expect(due(6, 0)).toEqual([]);
});

test('a stage waits for an evaluation until it is on record, a stop comes or the evaluator fails', () => {
  const state = new EvaluatorState();
  state.evaluated = 20;
  const other = new EvaluatorState(state.memory);
  expect(other.wait(20, () => false)).toBe(true);
  expect(other.wait(30, () => true)).toBe(false);
  state.fail();
  expect(() => other.wait(30, () => false)).toThrow('the evaluator failed');
  expect(other.wait(10, () => false)).toBe(true);
});
