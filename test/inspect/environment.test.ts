import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { wild } from '../../datasets/generators/wild/wild.ts';
import type { Interval } from '../../src/ground/types.ts';
import {
  Inspection,
  type InspectionOptions,
  type InspectionState,
  stateKey,
} from '../../src/inspect/environment.ts';
import { plainTools, TOOL_NAMES, type Tool, viewInside, WHOLE, windowOf } from '../../src/inspect/tools.ts';
import { parseAnswer } from '../../src/tasks/anomaly.ts';
import { MAX_RESPONSE_LENGTH } from '../../src/tasks/response.ts';

const N = 5000;
const example = wild(7, 'train', 3, N);
const options = {
  ...{ tools: plainTools(TOOL_NAMES), turns: 6, figure: 'nano' },
  ...({ frame: 'window', memory: 'turns', question: 'Find the anomalies.' } as const),
};
const open = (changes: Partial<InspectionOptions> = {}): Inspection =>
  new Inspection(example, { ...options, ...changes });
const call = (words: string): string => `<think>scan ....</think><tool>${words}</tool>`;
const answer = (list: string): string =>
  `<think>scan ....</think><answer>${list}</answer><class>trend</class>`;

/** Plays responses one after another; returns the last transition. */
async function play(inspection: Inspection, responses: readonly string[]) {
  let { state }: { state: InspectionState } = inspection.reset();
  let last = null;
  for (const response of responses) {
    last = await inspection.step(state, response);
    state = last.state;
  }
  return last!;
}

describe('windows', () => {
  test('every stretch of at most half a window lies whole in one window of each level', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 5 }), fc.double({ min: 0, max: 1, noNaN: true }), (level, at) => {
        const half = N / 2 ** (level + 1);
        const start = at * (N - half);
        const places = Array.from({ length: 2 ** (level + 1) - 1 }, (_, place) =>
          windowOf({ level, place }, N),
        );
        return places.some(([from, to]) => from <= Math.ceil(start) && to >= Math.floor(start + half));
      }),
    );
  });

  test('two ways to a window give the same window', () => {
    const steps = viewInside(viewInside(WHOLE, 2, 3), 1, 1);
    expect(steps).toEqual(viewInside(viewInside(WHOLE, 1, 1), 2, 3));
    expect(steps).toEqual(viewInside(WHOLE, 3, 7));
  });
});

describe('inspection', () => {
  test('a zoom shows its window, and the number of turns left', async () => {
    const { state, observation, problem } = await play(open(), [call('zoom 3 5')]);
    expect(problem).toBeNull();
    expect(state.view).toEqual({ level: 3, place: 5 });
    expect(observation).toEqual({ text: '5 left', drawing: { window: windowOf(state.view, N) } });
  });

  test('with the state as memory a turn says all that a policy needs, with the window that is shown', async () => {
    const inspection = open({ memory: 'state' } as never);
    const one = await play(inspection, [call('zoom 3 5'), call('stats')]);
    expect(one.observation!.text).toMatch(/^Find the anomalies\. 3 level \d+; spread \d+$/);
    expect(one.observation!.drawing).toEqual({ window: windowOf({ level: 3, place: 5 }, N) });
    const failed = await play(inspection, [call('zoom 3 5'), call('nothing')]);
    expect(failed.observation!.text).toBe('Find the anomalies. 3 failed: no tool nothing');
    expect(failed.observation!.drawing).toEqual({ window: windowOf({ level: 3, place: 5 }, N) });
  });

  test('windows that are called for at once are shown one after another, as many as there are turns for', async () => {
    const inspection = open({ turns: 3 });
    const first = await play(inspection, [`${answer('[[10, 20]]')}+3 5+3 8+3 11`]);
    expect(first.state).toMatchObject({ view: { level: 3, place: 5 }, pending: [{ level: 3, place: 8 }] });
    const second = await inspection.step(first.state, answer('[]'));
    expect(second.state).toMatchObject({ view: { level: 3, place: 8 }, pending: [], answer: null });
    expect(second.observation!.drawing).toEqual({ window: windowOf({ level: 3, place: 8 }, N) });
    const { state } = await inspection.step(second.state, answer('[[0, 1000]]'));
    const [from, to] = windowOf({ level: 3, place: 8 }, N);
    expect(parseAnswer(state.answer!, N).intervals).toEqual([
      [50, 100],
      [from, to],
    ]);
  });

  test('a closer answer replaces what a coarser one marks in its window, whatever their order', async () => {
    const [from, to] = windowOf({ level: 3, place: 5 }, N);
    const scan = (departures: string, list: string, label: string): string =>
      `<think>scan ...; ${departures}</think><answer>${list}</answer><class>${label}</class>`;
    // Steps of 5 samples: one interval in the middle of the window, one elsewhere.
    const coarse = scan('dip 3 sd; spike 9 sd', '[[330, 340], [800, 900]]', 'global point');
    const close = scan('level shift up 2 sd', '[[0, 500]]', 'trend');
    const closer: Interval = [from, Math.round((from + to) / 2)];
    for (const responses of [
      [`${coarse}+3 5`, close],
      [`${coarse}+3 5`, `${close}+0 0`, coarse],
    ]) {
      const { state, observation } = await play(open(), responses);
      expect(observation).toBeNull();
      const { intervals, wellFormed, class: label, think } = parseAnswer(state.answer!, N);
      expect(wellFormed).toBe(true);
      expect(intervals).toEqual([closer, [4000, 4500]]);
      expect(label).toBe('global point');
      expect(think).toMatch(/^looked at zoom@.*; level shift up 2 sd; spike 9 sd$/);
    }
    const nothing = await play(open(), [`${coarse}+3 5`, scan('', '[]', 'normal')]);
    expect(parseAnswer(nothing.state.answer!, N).intervals).toEqual([
      [1650, 1700],
      [4000, 4500],
    ]);
  });

  test('the answer states the facts of the whole, its cycle in samples, and joins the scans of all windows', async () => {
    const wide = (facts: string, symbols: string, list: string): string =>
      `<think>${facts}scan ${symbols}</think><answer>${list}</answer><class>trend</class>`;
    // Windows of 1000 steps: level 3, place 5 shows samples 1562 to 2187, cells of 31 samples.
    const whole = wide('pattern cycle; cycle 34; trend up; ', '....................', '[]');
    const thinkOf = async (last: string): Promise<string> =>
      parseAnswer((await play(open(), [`${whole}+3 5`, last])).state.answer!, N).think!;
    const found = wide('pattern noise; cycle 6; ', '..........(#)..o....', '[[510, 640], [760, 790]]');
    const path = 'pattern cycle; cycle 170; trend up; looked at zoom@3.5';
    expect(await thinkOf(found)).toBe(`${path}; scan .......oo...........`);
    // A scan that its answer does not follow stays what it was.
    expect(await thinkOf(found.replace(/\[\[.*\]\]/, '[]'))).toBe(await thinkOf(found));
    expect(await thinkOf(wide('', '....................', '[[510, 640]]'))).toBe(
      `${path}; scan ${'.'.repeat(20)}`,
    );
    expect(await thinkOf(answer('[]').replace('scan ....', 'nothing'))).toBe(path);
  });

  test('a tour shows all windows of its levels, whatever is called for; the closest and the most central answer counts', async () => {
    const inspection = open({ tour: 2, memory: 'state' });
    // Two quarters see what the whole marks, one of them at its edge; what a half marks is not seen closer by, and stays.
    const marked: Readonly<Record<string, string>> = {
      '0.0': '[[500, 530]]',
      '1.0': '[[230, 250]]',
      '2.3': '[[500, 600]]',
      '2.4': '[[0, 20]]',
    };
    let { state }: { state: InspectionState } = inspection.reset();
    const shown: string[] = [];
    while (state.answer === null) {
      const key = `${state.view.level}.${state.view.place}`;
      shown.push(key);
      const { state: next, problem } = await inspection.step(state, `${answer(marked[key] ?? '[]')}+3 5`);
      expect(problem).toBeNull();
      state = next;
    }
    const places = (level: number) => Array.from({ length: 2 ** (level + 1) - 1 }, (_, p) => `${level}.${p}`);
    expect(shown).toEqual(['0.0', ...places(1), ...places(2)]);
    expect(parseAnswer(state.answer, N).intervals).toEqual([
      [575, 625],
      [2500, 2625],
    ]);
  });

  test('short marks of a window are moved to the spike near them where that is asked for', async () => {
    const values = Float64Array.from({ length: N }, (_, t) => Math.sin(t / 9) + (t === 1700 ? 30 : 0));
    const of = async (sharpen: boolean) => {
      const inspection = new Inspection(
        { id: 'spike', channels: [values] },
        { ...options, memory: 'state', sharpen },
      );
      const { state } = await play(inspection, [`${answer('[]')}+3 5`, answer('[[210, 214]]')]);
      return parseAnswer(state.answer!, N).intervals;
    };
    const [[start, end]] = (await of(true)) as [Interval];
    expect(Math.abs(start - 1700)).toBeLessThanOrEqual(2);
    expect(end - start).toBeLessThanOrEqual(8);
    const [[before]] = (await of(false)) as [Interval];
    expect(Math.abs(before - 1700)).toBeGreaterThan(4);
  });

  test('a mark of the whole that was moved to another spike goes where a closer look marks the one it stood at', async () => {
    const spikes: Readonly<Record<number, number>> = { 1700: 8, 1735: 30 };
    const values = Float64Array.from({ length: N }, (_, t) => Math.sin(t / 9) + (spikes[t] ?? 0));
    const inspection = new Inspection(
      { id: 'spikes', channels: [values] },
      { ...options, memory: 'state', sharpen: true },
    );
    const [whole, close] = [`${answer('[[340, 341]]')}+3 5`, answer('[[218, 224]]')];
    const moved = await play(inspection, [whole]);
    const [[first]] = parseAnswer(inspection.standing(moved.state), N).intervals as [Interval];
    expect(Math.abs(first - 1735)).toBeLessThanOrEqual(5);
    const { state } = await play(inspection, [whole, close]);
    const intervals = parseAnswer(state.answer!, N).intervals!;
    expect(intervals).toHaveLength(1);
    expect(Math.abs(intervals[0]![0] - 1700)).toBeLessThanOrEqual(2);
    // A closer mark elsewhere leaves it.
    const other = await play(inspection, [whole, answer('[[600, 604]]')]);
    expect(parseAnswer(other.state.answer!, N).intervals).toHaveLength(2);
  });

  test('the answer that stands is what the episode would answer if it ended there', async () => {
    const inspection = open({ memory: 'state' });
    const start = inspection.reset().state;
    expect(inspection.standing(start)).toBe('');
    const looked = await play(inspection, [`${answer('[[10, 20]]')}+3 5`]);
    expect(parseAnswer(inspection.standing(looked.state), N).intervals).toEqual([[50, 100]]);
    const { state } = await play(inspection, [`${answer('[[10, 20]]')}+3 5`, answer('[[0, 100]]')]);
    expect(inspection.standing(state)).toBe(state.answer);
  });

  test('answers so far count where the turns end without another', async () => {
    const { state } = await play(open({ turns: 2 }), [`${answer('[[10, 20]]')}+3 5`, call('zoom 9 9')]);
    expect(parseAnswer(state.answer!, N)).toMatchObject({ intervals: [[50, 100]], wellFormed: true });
  });

  test('large policies answer in samples of the series from any window', async () => {
    const { state } = await play(open({ frame: 'series' } as never), [
      call('zoom 3 5'),
      answer('[[4000, 4100]]'),
    ]);
    expect(parseAnswer(state.answer!, N).intervals).toEqual([[4000, 4100]]);
  });

  test('the answer of large policies holds the reasoning of all responses, of too long ones the last', async () => {
    const said = (think: string, rest: string): string => `<think>${think}</think>${rest}`;
    const last = said('So it is [4000, 4100].', '<answer>[[4000, 4100]]</answer><class>trend</class>');
    const thinkOf = async (...calls: string[]): Promise<string | null> => {
      const { state } = await play(open({ frame: 'series' } as never), [...calls, last]);
      return parseAnswer(state.answer!, N).think;
    };
    const zoom = '<tool>zoom 3 5</tool>';
    expect(await thinkOf(said('The mean is 2.', zoom), zoom, said('The period is 40.', zoom))).toBe(
      'The mean is 2.\nThe period is 40.\nSo it is [4000, 4100].',
    );
    const long = 'x'.repeat(0.6 * MAX_RESPONSE_LENGTH);
    const lengths = [said(long, zoom), said('The period is 40.', zoom), said(long, zoom)];
    expect((await thinkOf(...lengths.slice(0, 2)))!.length).toBe(long.length + 41);
    expect((await thinkOf(...lengths))!.length).toBe(long.length + 41);
  });

  test.each([
    ['an unknown tool', call('dance 1'), 'no tool dance'],
    ['a window outside', call('zoom 2 9'), 'no such window'],
    ['two calls at once', call('zoom 1 0') + call('zoom 1 1'), 'two calls at once'],
    [
      'a call in the middle of an answer',
      `<answer>[${call('stats')}]</answer>`,
      'a call in the middle of an answer',
    ],
    ['a call without an end', '<tool>zoom 1 0', 'unfinished call'],
    [
      'a call before the answer',
      `${call('zoom 1 0')}<answer>[]</answer>`,
      'a call in the middle of an answer',
    ],
    ['calls of several tools at once', `${answer('[]')}+3 5=`, 'two calls at once'],
    ['a second window outside', `${answer('[]')}+3 5+2 9`, 'no such window'],
    ['a sign without its numbers', `${answer('[]')}+`, 'expected LEVEL PLACE'],
    [
      'an answer that cannot be read before a call',
      `${answer('[[5, 1')}+3 5`,
      'an answer that cannot be read',
    ],
    ['words that a tool does not take', call('stats now'), 'takes no words'],
  ])('%s is a failed step that is told', async (_, response, problem) => {
    const transition = await play(open(), [response]);
    expect(transition.problem).toBe(problem);
    expect(transition.state).toMatchObject({ view: WHOLE, failures: 1, turn: 1, answer: null, seen: [] });
    expect(transition.observation!.text).toBe(`failed: ${problem}; 5 left`);
  });

  test('windows end where too few points are left', async () => {
    const { problem } = await play(open(), [call('zoom 3 0'), call('zoom 5 0')]);
    expect(problem).toBe('window too short');
  });

  test('the last turn ends the episode without an answer where it calls a tool', async () => {
    const { state, observation } = await play(open({ turns: 2 }), [call('zoom 1 0'), call('zoom 1 0')]);
    expect(state.answer).toBe('');
    expect(observation).toBeNull();
  });

  test('a policy that sees the state alone answers in the last turn, whatever it calls for', async () => {
    const last = `${answer('[[0, 560]]')}+1 0`;
    const { state, observation, problem } = await play(open({ turns: 2, memory: 'state' }), [
      `${answer('[[10, 20]]')}+3 5`,
      last,
    ]);
    expect([observation, problem, state.failures]).toEqual([null, null, 0]);
    const [from] = windowOf({ level: 3, place: 5 }, N);
    expect(parseAnswer(state.answer!, N).intervals).toEqual([
      [50, 100],
      [from, expect.any(Number)],
    ]);
    const told = await play(open({ turns: 2 }), [`${answer('[[10, 20]]')}+3 5`, last]);
    expect(told.state.failures).toBe(1);
  });

  test('a malformed answer stays malformed, and an unreadable one as it is', async () => {
    const { state } = await play(open(), [`so ${answer('[[10, 20]]')}`]);
    expect(parseAnswer(state.answer!, N)).toMatchObject({ wellFormed: false, intervals: [[50, 100]] });
    expect((await play(open(), ['no idea'])).state.answer).toBe('no idea');
    const beyond = await play(open(), [answer('[[1200, 1300]]')]);
    expect(parseAnswer(beyond.state.answer!, N).intervals).toBeNull();
  });

  test('states are JSON, and a state read back goes on in the same way', async () => {
    const inspection = open();
    const { state } = await play(inspection, [
      call('zoom 3 5'),
      call('stats'),
      call('compare'),
      call('spectrum'),
    ]);
    const read = JSON.parse(JSON.stringify(state)) as InspectionState;
    expect(read).toEqual(state);
    expect(await open().step(read, call('zoom 1 1'))).toEqual(await inspection.step(state, call('zoom 1 1')));
  });

  test('equal evidence has one key, whatever the order and the failures', async () => {
    const key = async (...words: string[]) => stateKey((await play(open(), words.map(call))).state);
    expect(await key('stats', 'spectrum')).toBe(await key('spectrum', 'nonsense', 'stats', 'stats'));
    expect(await key('zoom 3 5')).toBe(await key('zoom 3 5', 'zoom 9 9'));
    expect(await key('zoom 3 5')).not.toBe(await key('zoom 3 6'));
  });

  test('pictures of a window are the same whatever the way to it', async () => {
    const one = open();
    const { observation } = await play(one, [call('zoom 1 1'), call('zoom 2 3')]);
    const { observation: other } = await play(open(), [call('zoom 3 7')]);
    expect(await one.picture(observation!)).toEqual(await open().picture(other!));
  });

  test.each(['nano', 'nano-analysis', 'line'])('every tool draws with figure %s', async (figure) => {
    const inspection = open({ figure });
    for (const name of ['compare', 'spectrum', 'stats', 'zoom 2 2']) {
      const { observation, problem } = await play(inspection, [call('zoom 2 1'), call(name)]);
      expect(problem).toBeNull();
      const picture = await inspection.picture(observation!);
      if (name === 'stats') expect(picture).toBeNull();
      else expect(picture!.data.some((value) => value !== picture!.data[0])).toBe(true);
    }
  });

  test('a defect of a tool of ours is thrown, not told', () => {
    const broken: Tool = {
      ...{ label: 'Broken', usage: 'broken', summary: 'nothing' },
      run: () => {
        throw new RangeError('defect');
      },
    };
    const inspection = open({ tools: { broken } } as never);
    expect(() => inspection.step(inspection.reset().state, call('broken'))).toThrow(RangeError);
  });
});
