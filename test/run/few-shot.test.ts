import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { openExamples } from '../../datasets/source.ts';
import { byLabel, drawShots, fewShot, shotSource } from '../../src/run/few-shot.ts';
import { foreignCard } from '../../src/run/policy-task.ts';
import { labelOf, parseResponse } from '../../src/tasks/kinds.ts';

describe('the places of shots', () => {
  test('are different, balanced by label, and the same for the same question alone', () => {
    const labels = fc.array(fc.constantFrom('a', 'b', 'c'), { minLength: 1, maxLength: 30 });
    fc.assert(
      fc.property(labels, fc.integer({ min: 1, max: 12 }), fc.nat(1000), (all, count, number) => {
        const groups = byLabel(all);
        const drawn = drawShots(groups, count, 7, number);
        expect(drawn).toHaveLength(Math.min(count, all.length));
        expect(new Set(drawn).size).toBe(drawn.length);
        expect(drawShots(groups, count, 7, number)).toEqual(drawn);
        // Nobody has two more than another label that has some left.
        const taken = groups.map((places) => drawn.filter((place) => places.includes(place)).length);
        const open = taken.filter((n, g) => n < groups[g]!.length);
        if (open.length > 0) expect(Math.max(...taken) - Math.min(...open)).toBeLessThanOrEqual(1);
      }),
      { numRuns: 60 },
    );
  });

  test('differ from question to question and from seed to seed', () => {
    const groups = byLabel(Array.from({ length: 60 }, (_, i) => `class ${i % 5}`));
    const drawn = [0, 1, 2, 3].map((number) => drawShots(groups, 4, 7, number).join());
    expect(new Set([...drawn, drawShots(groups, 4, 8, 0).join()]).size).toBe(5);
  });
});

describe('shots of a data set', () => {
  const evaluated = { name: 'nano5', split: 'test', seed: 42, length: 200, count: 4 } as const;
  const { facts } = openExamples(evaluated);
  const card = foreignCard(facts, null);

  test('are solved training examples, with the expert trace or the answer alone', () => {
    const reasoned = fewShot(evaluated, card, { facts }, { count: 5, seed: 42 })(2);
    const bare = fewShot(evaluated, card, { facts, reasoning: false }, { count: 5, seed: 42 })(2);
    expect(bare.map(({ example }) => example.id)).toEqual(reasoned.map(({ example }) => example.id));
    expect(new Set(reasoned.map(({ example }) => labelOf(example.gold))).size).toBe(5);
    for (const [i, { example, response }] of reasoned.entries()) {
      expect(example.id).toMatch(/^nano5\/train\//);
      const asked = { kind: 'anomaly', length: 200, channels: 1, classes: [] } as const;
      const read = parseResponse(response, asked);
      const short = parseResponse(bare[i]!.response, { ...asked, reasoning: false });
      expect(read).toMatchObject({ wellFormed: true, class: labelOf(example.gold) });
      expect(read.think!.length).toBeGreaterThan(20);
      expect(short).toEqual({ ...read, think: null });
      expect(bare[i]!.response).not.toContain('think');
    }
  });

  test('are never drawn from what is evaluated', () => {
    expect(() => shotSource({ ...evaluated, split: 'train' })).toThrow(/--split train evaluates/);
  });
});

describe('a response without reasoning', () => {
  const asked = { kind: 'anomaly', length: 100, channels: 1, classes: [], reasoning: false } as const;
  test.each([
    ['<answer>[[3, 9]]</answer><class>trend</class>', null, [[3, 9]]],
    ['sure: <answer>[[3, 9]]</answer><class>trend</class>', 'text before <answer>', [[3, 9]]],
    [
      '<think>so</think><answer>[[3, 9]]</answer><class>trend</class>',
      'reasoning was not asked for',
      [[3, 9]],
    ],
    ['<class>trend</class>', 'expected <answer>, found <class>', null],
  ])('%j is read in its own form', (text, problem, intervals) => {
    expect(parseResponse(text, asked)).toMatchObject({ problem, intervals, wellFormed: problem === null });
  });
});
