import { describe, expect, test } from 'vitest';
import { wildLong } from '../../datasets/generators/wild/wild.ts';
import { checkReasoning } from '../../src/claims/reasoning.ts';
import { Random } from '../../src/ground/random.ts';
import type { AnomalyGold } from '../../src/ground/types.ts';
import { Inspection, stateKey, type Transition } from '../../src/inspect/environment.ts';
import { scriptOf, stepsToAnswer } from '../../src/inspect/script.ts';
import { plainTools, TOOL_NAMES } from '../../src/inspect/tools.ts';
import { pointF1 } from '../../src/series/intervals.ts';
import { parseAnswer } from '../../src/tasks/anomaly.ts';
import { columnsOf } from '../../src/tasks/drawing.ts';
import { nanoTrace } from '../../src/tasks/kinds.ts';

const script = {
  ...{ turns: 6, looks: true },
  detours: 0.5,
  calls: 0.2,
  tools: ['compare', 'spectrum', 'stats'] as const,
  ...{ points: 560, steps: 560, cells: 20 },
  levels: false,
};
const SERIES = 60;
const options = {
  tools: plainTools(TOOL_NAMES),
  ...{ turns: 6, figure: 'nano-analysis', question: '?' },
  ...({ frame: 'window', memory: 'turns' } as const),
};

describe.each([2000, 5000, 20_000])('scripted inspections of %i points', (length) => {
  const paths = Array.from({ length: SERIES }, (_, i) => {
    const example = wildLong(11, 'train', i, length);
    const steps = scriptOf(example, new Random(5, 'script', i), script);
    const inspection = new Inspection(example, options);
    let { state } = inspection.reset();
    const transitions = steps.map((response) => {
      const transition = inspection.step(state, response) as Transition;
      state = transition.state;
      return transition;
    });
    return { example, gold: example.gold as AnomalyGold, steps, transitions, answer: state.answer };
  });

  test('are paths that the environment takes without a failure, within the turns', () => {
    expect(paths.flatMap(({ transitions }) => transitions.flatMap(({ problem }) => problem ?? []))).toEqual(
      [],
    );
    expect(Math.max(...paths.map(({ steps }) => steps.length))).toBeLessThanOrEqual(6);
  });

  test('end in the gold answer, well formed and nearly exact', () => {
    for (const { gold, answer } of paths) {
      const { intervals, wellFormed } = parseAnswer(answer!, length);
      expect(wellFormed).toBe(true);
      if (gold.intervals.length === 0) expect(intervals).toEqual([]);
    }
    // With several anomalies the class is that of most samples, where gold names the most visible one.
    const named = paths.filter(({ gold, answer }) => parseAnswer(answer!, length).class === gold.class);
    expect(named.length).toBeGreaterThan(0.9 * paths.length);
    const anomalous = paths.filter(({ gold }) => gold.intervals.length > 0);
    const f1 = anomalous.map(({ gold, answer }) =>
      pointF1(parseAnswer(answer!, length).intervals!, gold.intervals),
    );
    expect(f1.reduce((sum, value) => sum + value, 0) / f1.length).toBeGreaterThan(0.85);
  });

  test('end in a reasoning that states what is true of the plot and the series, and concludes the answer', () => {
    const grades = paths.map(({ example, answer }) => {
      const seen = {
        ...example,
        plotted: example.channels.map((values) => columnsOf(values, script.points)),
      };
      const trace = nanoTrace(seen, null, script);
      return checkReasoning(parseAnswer(answer!, length), seen, { trace })!;
    });
    expect(grades.flatMap(({ wrong }) => wrong)).toEqual([]);
    expect(grades.filter(({ agreement }) => agreement !== true)).toEqual([]);
    // Anomalies too short for the turns stay untold.
    expect(grades.reduce((sum, { f1 }) => sum + f1!, 0) / SERIES).toBeGreaterThan(0.98);
  });

  test('are as long as the distance to the answer says, at each state of those without detours', () => {
    let looked = 0;
    for (let i = 0; i < SERIES; i++) {
      const example = wildLong(11, 'train', i, length);
      const steps = scriptOf(example, new Random(5, 'script', i), { ...script, detours: 0, calls: 0 });
      const inspection = new Inspection(example, options);
      const distance = stepsToAnswer(example, script.points)!;
      let { state } = inspection.reset();
      if (distance(stateKey(state)) > script.turns) continue; // more windows than turns
      for (const [t, response] of steps.entries()) {
        expect(distance(stateKey(state))).toBe(steps.length - t);
        looked += t;
        ({ state } = inspection.step(state, response) as Transition);
      }
    }
    expect(looked).toBeGreaterThan(5);
  });

  test('look at places without anything at times, and say so', () => {
    const normal = paths.filter(({ gold }) => gold.intervals.length === 0);
    const looked = normal.filter(({ steps }) => steps.length > 1);
    expect(looked.length).toBeGreaterThan(0);
    expect(looked.length).toBeLessThan(normal.length);
    for (const { answer } of normal) expect(parseAnswer(answer!, length).intervals).toEqual([]);
  });

  test('answer at the first look where that shows everything, and look twice elsewhere', () => {
    const lengths = new Set(paths.map(({ steps }) => steps.length));
    expect(lengths.has(1)).toBe(true);
    expect(lengths.size).toBeGreaterThan(2);
  });
});
