import { describe, expect, test } from 'vitest';
import { wild } from '../../datasets/generators/wild/wild.ts';
import { Random } from '../../src/ground/random.ts';
import type { AnomalyGold } from '../../src/ground/types.ts';
import { Inspection, type Transition } from '../../src/inspect/environment.ts';
import { scriptOf } from '../../src/inspect/script.ts';
import { plainTools, TOOL_NAMES } from '../../src/inspect/tools.ts';
import { pointF1 } from '../../src/series/intervals.ts';
import { parseAnswer } from '../../src/tasks/anomaly.ts';

const script = {
  turns: 6,
  detours: 0.25,
  calls: 0.2,
  tools: ['compare', 'spectrum', 'stats'],
  ...{ points: 1000, steps: 100, cells: 20 },
  levels: false,
};
const SERIES = 60;

describe.each([2000, 5000, 20_000])('scripted inspections of %i points', (length) => {
  const paths = Array.from({ length: SERIES }, (_, i) => {
    const example = wild(11, 'train', i, length);
    const steps = scriptOf(example, new Random(5, 'script', i), script);
    const inspection = new Inspection(example, {
      ...({
        tools: plainTools(TOOL_NAMES),
        turns: 6,
        figure: 'nano',
        frame: 'window',
        memory: 'turns',
        question: '?',
      } as const),
    });
    let { state } = inspection.reset();
    const transitions = steps.map(({ response }) => {
      const transition = inspection.step(state, response) as Transition;
      state = transition.state;
      return transition;
    });
    return { gold: example.gold as AnomalyGold, steps, transitions, answer: state.answer };
  });

  test('are paths that the environment takes without a failure, within the turns', () => {
    expect(paths.flatMap(({ transitions }) => transitions.flatMap(({ problem }) => problem ?? []))).toEqual(
      [],
    );
    expect(Math.max(...paths.map(({ steps }) => steps.length))).toBeLessThanOrEqual(6);
  });

  test('end in the gold answer, well formed and nearly exact', () => {
    for (const { gold, answer } of paths) {
      const { intervals, wellFormed, class: named } = parseAnswer(answer!, length);
      expect(wellFormed).toBe(true);
      expect(named).toBe(gold.class);
      if (gold.intervals.length === 0) expect(intervals).toEqual([]);
    }
    const anomalous = paths.filter(({ gold }) => gold.intervals.length > 0);
    const f1 = anomalous.map(({ gold, answer }) =>
      pointF1(parseAnswer(answer!, length).intervals!, gold.intervals),
    );
    expect(f1.reduce((sum, value) => sum + value, 0) / f1.length).toBeGreaterThan(0.88);
  });

  test('go wrong at times, in steps that no policy learns', () => {
    const wrong = paths.filter(({ steps }) => steps.some(({ target }) => !target));
    expect(wrong.length).toBeGreaterThan(0);
    for (const { steps } of wrong) expect(steps.at(-1)!.target).toBe(true);
  });

  test('answer at the first look where that shows everything, and look twice elsewhere', () => {
    const lengths = new Set(paths.map(({ steps }) => steps.length));
    expect(lengths.has(1)).toBe(true);
    expect(lengths.size).toBeGreaterThan(2);
  });
});
