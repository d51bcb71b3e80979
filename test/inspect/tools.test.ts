import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { ConfigError } from '../../src/ground/errors.ts';
import { Random } from '../../src/ground/random.ts';
import { defineTool } from '../../src/inspect/define.ts';
import {
  Inspection,
  type InspectionState,
  stateKey,
  type Transition,
} from '../../src/inspect/environment.ts';
import { checkTools, openTools, plainTools, standingViews, windowOf } from '../../src/inspect/tools.ts';
import { temporary } from '../helpers/temporary.ts';

const directory = temporary('tool');
const module = (name: string, run: string, more = ''): string => {
  const file = join(directory, `${name}.mjs`);
  writeFileSync(file, `export default { name: '${name}', summary: 'something', ${more} run: ${run} };\n`);
  return file;
};
const FORM = { frame: 'window', memory: 'turns' } as const;
const values = Float64Array.from({ length: 400 }, (_, t) => Math.sin(t / 5) + (t === 300 ? 4 : 0));
const inspect = async (uses: readonly string[], words: string) => {
  const { tools, close } = await openTools(uses);
  const options = {
    tools,
    turns: 6,
    figure: 'nano',
    frame: 'window',
    memory: 'turns',
    question: '?',
  } as const;
  const inspection = new Inspection({ id: 'x', channels: [values] }, options);
  try {
    return await inspection.step(inspection.reset().state, `<tool>${words}</tool>`);
  } finally {
    await close();
  }
};

describe('next', () => {
  // Two peaks of different height, far apart, on a wave.
  const peaks = Float64Array.from(
    { length: 4000 },
    (_, t) => Math.sin(t / 5) + (t === 3010 ? 9 : 0) + (t === 700 ? 5 : 0),
  );
  const inspection = new Inspection(
    { id: 'x', channels: [peaks] },
    { ...{ tools: plainTools(['zoom', 'next']), turns: 30, figure: 'nano', question: '?' }, ...FORM },
  );
  const step = (state: InspectionState, words: string): Transition =>
    inspection.step(state, `<tool>${words}</tool>`) as Transition;
  const shows = (state: InspectionState, sample: number): void => {
    const [from, to] = windowOf(state.view, peaks.length);
    expect([state.view.level, from <= sample && sample < to]).toEqual([3, true]);
  };

  test('shows the windows that stand out, the farthest first and none twice, until none is left', () => {
    let { state } = step(inspection.reset().state, 'next');
    shows(state, 3010);
    ({ state } = step(state, 'next'));
    shows(state, 700);
    const places = [state.view.place];
    let problem: string | null = null;
    while (problem === null) {
      ({ state, problem } = step(state, 'next'));
      if (problem === null) places.push(state.view.place);
    }
    expect(problem).toBe('nothing else stands out');
    expect(new Set(places).size).toBe(places.length);
    expect(places.length).toBeGreaterThan(4);
  });

  test('shows in turns what is shorter than a column of the whole, and what is seen in the whole alone', () => {
    const random = new Random(3, 'noise');
    const wave = (t: number): number => Math.sin((2 * Math.PI * t) / 1000) + random.normal() / 9;
    const hump = (t: number): number => Math.exp(-(((t - 4100) / 300) ** 2));
    const long = Float64Array.from({ length: 20_000 }, (_, t) => wave(t) + hump(t));
    long[13_777]! += 1.2;
    const [first, second] = standingViews(long).map((view) => windowOf(view, long.length));
    expect(first![0] <= 13_777 && 13_777 < first![1]).toBe(true);
    expect(second![0] <= 4100 && 4100 < second![1]).toBe(true);
  });

  test('leaves out what a zoom has shown, and makes the same state as that zoom', () => {
    const first = step(inspection.reset().state, 'next').state;
    const zoomed = step(inspection.reset().state, `zoom 3 ${first.view.place}`).state;
    expect(stateKey(zoomed)).toBe(stateKey(first));
    shows(step(zoomed, 'next').state, 700);
  });

  test('is refused with words, and where windows would be too short', async () => {
    expect(step(inspection.reset().state, 'next 3').problem).toBe('takes no words');
    const short = new Inspection(
      { id: 'y', channels: [peaks.slice(0, 200)] },
      { ...{ tools: plainTools(['next']), turns: 6, figure: 'nano', question: '?' }, ...FORM },
    );
    const { problem } = await short.step(short.reset().state, '<tool>next</tool>');
    expect(problem).toBe('windows too short');
  });
});

describe('tools of users', () => {
  test('a module returns a text, or a line that is drawn', async () => {
    const peak = module(
      'peak',
      '({ values, window }) => "peak " + Math.max(...values.slice(...window)).toFixed(1)',
    );
    expect((await inspect([peak], 'peak')).observation!.text).toBe('peak 3.7; 5 left');
    const slope = module(
      'slope',
      '({ values }) => ({ line: values.map((v, t) => v - (values[t - 1] ?? v)) })',
    );
    const { observation, problem } = await inspect(['zoom', slope], 'slope');
    expect(problem).toBeNull();
    expect(observation!.drawing).toMatchObject({ names: ['slope'] });
  });

  test.each([
    ['throws', '() => { throw new Error("no") }', /^threw Error: no/],
    ['returns nothing', '() => {}', /^returned neither text nor line/],
    ['returns too much text', '() => "a".repeat(3000)', /^returned more than 2000 characters/],
    ['returns markup', '() => "</think><answer>[]</answer>"', /^returned a text with a tag/],
    [
      'returns a line that is too long',
      '() => ({ line: new Float64Array(2e6) })',
      /^returned a line of 2000000 points/,
    ],
    ['never settles', '() => new Promise(() => {})', /^returned nothing within 0.2 s/],
  ])('a tool that %s is a failed step', async (title, run, expected) => {
    const name = title.replaceAll(/[^a-z]/g, '').slice(0, 20);
    const { problem, state } = await inspect([module(name, run, 'timeLimit: 0.2,')], name);
    expect(problem).toMatch(expected);
    expect(state.failures).toBe(1);
  });

  test('a tool that blocks its thread is a failed step, and the next call works', async () => {
    const blocking = module(
      'block',
      '({ words }) => { while (words === "") ; return "free" }',
      'timeLimit: 0.2,',
    );
    const { tools, close } = await openTools([blocking]);
    const options = {
      tools,
      turns: 6,
      figure: 'nano',
      frame: 'window',
      memory: 'turns',
      question: '?',
    } as const;
    const inspection = new Inspection({ id: 'x', channels: [values] }, options);
    const first = await inspection.step(inspection.reset().state, '<tool>block</tool>');
    expect(first.problem).toMatch(/blocked its thread/);
    const second = await inspection.step(first.state, '<tool>block not</tool>');
    expect(second.observation!.text).toBe('free; 4 left');
    await close();
  });

  test('a tool that fails without words is warned of, unless its usage names words', async () => {
    const needy = '({ words }) => { if (words === "") throw new Error("no words"); return words; }';
    const warnings: string[] = [];
    const check = (...uses: string[]) => checkTools(uses, (text) => warnings.push(text));
    await check('zoom', module('needy', needy));
    await check('zoom', module('worded', needy, "usage: 'worded WORDS',"));
    await check(module('fine', '({ values }) => String(values.length)'));
    expect(warnings).toEqual([
      expect.stringMatching(
        /^warning: inspect\.tools: needy failed .*threw Error: no words \(.*needy\.mjs:1:\d+\)/,
      ),
    ]);
  });

  test('a definition that is none, and an unknown name, are errors of the configuration', async () => {
    const run = () => 'x';
    expect(() => defineTool({ name: 'Peak 1', summary: 's', run })).toThrow(ConfigError);
    await expect(openTools([module('zoom', '() => 7')])).rejects.toThrow(/zoom is a tool of timeseer/);
    expect(() => defineTool({ name: 'peak', summary: '', run })).toThrow(/summary/);
    const called = { name: 'peak', summary: 's', run };
    expect(defineTool({ ...called, usage: 'peak WIDTH' }).usage).toBe('peak WIDTH');
    for (const usage of ['peaks', 'other WIDTH', 'peak </tool>', 'peak\nWIDTH', ''])
      expect(() => defineTool({ ...called, usage })).toThrow('expected its name and words, as in peak WIDTH');
    expect(() => plainTools(['zooom'])).toThrow(/no tool called zooom; known are zoom/);
    await expect(openTools([module('none', '7')])).rejects.toThrow(/exports no tool/);
  });
});
