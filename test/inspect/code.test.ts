import { describe, expect, test } from 'vitest';
import { wild } from '../../datasets/generators/wild/wild.ts';
import { CodeInspection } from '../../src/inspect/code.ts';
import { type InspectionState, stateKey, type Transition } from '../../src/inspect/environment.ts';
import { parseAnswer } from '../../src/tasks/anomaly.ts';

const N = 2000;
const example = wild(7, 'train', 3, N);
const open = (turns = 6): CodeInspection =>
  new CodeInspection(example, { turns, figure: 'nano-analysis', question: 'Find the anomalies.' });
const block = (code: string): string => `I look.\n\`\`\`js\n${code}\n\`\`\``;

/** Plays responses one after another from a state; returns the last transition. */
async function play(
  inspection: CodeInspection,
  responses: readonly string[],
  from: InspectionState = inspection.reset().state,
): Promise<Transition> {
  let last: Transition | null = null;
  for (const response of responses) last = await inspection.step(last?.state ?? from, response);
  return last!;
}

describe('inspection by code', () => {
  test('starts with the picture of the series and the question', async () => {
    const inspection = open();
    const { observation } = inspection.reset();
    expect(observation.text).toBe('Find the anomalies.');
    expect((await inspection.picture(observation))!.width).toBeGreaterThan(100);
  });

  test('runs a block a turn, whose output comes back and whose variables stay', async () => {
    const { state, observation, problem } = await play(open(), [
      block('const n = series.length'),
      block('print(n, summarise(series).n)'),
    ]);
    expect(problem).toBeNull();
    expect(observation!.text).toBe(`<execution_output>\n${N} ${N}\n</execution_output>\n4 left`);
    expect(state).toMatchObject({ turn: 2, failures: 0, answer: null });
  });

  test('ends with a response without a block', async () => {
    const said = '<think>level</think><answer>[[10, 20]]</answer><class>trend</class>';
    const { state, observation } = await play(open(), [block('print(1)'), said]);
    expect(observation).toBeNull();
    expect(state.answer).toContain('<answer>[[10,20]]</answer>');
  });

  test('takes the variable answer where the last response names none', async () => {
    const inspection = open();
    const { state } = await play(inspection, [block('var answer = [[30, 40]]'), 'It is in answer.']);
    expect(state.answer).toContain('[[30,40]]');
    const answered = '<think>It is in answer.</think><class>trend</class>';
    const named = await play(inspection, [block('var answer = [[30, 40]]'), answered]);
    expect(parseAnswer(named.state.answer!, N)).toMatchObject({
      ...{ intervals: [[30, 40]], class: 'trend', wellFormed: true, problem: null },
    });
    const without = await play(inspection, [block('var other = 1'), 'Nothing.']);
    expect(without.state.answer).toBe('Nothing.');
  });

  test('counts blocks that fail, and tells why', async () => {
    const failed = await play(open(), [block('print(1)\nnothing()')]);
    expect(failed.problem).toContain("'nothing' is not defined");
    expect(failed.observation!.text).toContain('1\nReferenceError');
    expect(failed.state.failures).toBe(1);
    const two = await play(open(), ['```js\n1\n```\n```js\n2\n```']);
    expect([two.problem, two.state.seen]).toEqual(['one block a turn', []]);
  });

  test('a block in the last turn ends the episode without an answer', async () => {
    const { state, observation, problem } = await play(open(2), [block('1'), block('print(2)')]);
    expect([state.answer, observation, problem]).toEqual(['', null, 'no turn left']);
  });

  test('does not mix the variables of episodes that part', async () => {
    const inspection = open();
    const { state } = await play(inspection, [block('var n = 1')]);
    const [one, other] = [
      await play(inspection, [block('n += 1')], state),
      await play(inspection, [block('n += 10')], state),
    ];
    for (const [from, expected] of [
      [one, 2],
      [other, 11],
      [await play(inspection, [block('n += 1')], state), 2],
    ] as const) {
      const { observation } = await play(inspection, [block('print(n)')], from.state);
      expect(observation!.text).toContain(`\n${expected}\n`);
    }
    expect(stateKey(one.state)).not.toBe(stateKey(other.state));
  });

  test('goes on from a state that was saved, in another process as in this', async () => {
    const inspection = open();
    const { state } = await play(inspection, [
      block('var n = Math.random()'),
      block('n += Math.random(); nothing()'),
    ]);
    const saved = JSON.parse(JSON.stringify(state)) as InspectionState;
    const [here, there] = [
      await play(inspection, [block('print(n)')], state),
      await play(open(), [block('print(n)')], saved),
    ];
    expect(there).toEqual(here);
  });
});
