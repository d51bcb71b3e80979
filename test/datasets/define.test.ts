import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { defineTask, type TaskDefinition, userTask } from '../../datasets/define.ts';
import { ExampleSet } from '../../datasets/example-set.ts';
import { prepare } from '../../datasets/prepare.ts';
import { openExamples } from '../../datasets/source.ts';
import { main } from '../../src/cli.ts';
import { ConfigError, DataError } from '../../src/errors.ts';
import { goldResponse } from '../../src/tasks/kinds.ts';

const root = mkdtempSync(join(tmpdir(), 'timeseer-define-task-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const REQUEST = { directory: null, seed: 3 };
let made = 0;

/** A module whose default export is this definition, as text. */
function module(definition: string): { file: string; name: string } {
  const file = join(root, `task-${made++}.mjs`);
  writeFileSync(file, `export default ${definition};\n`);
  return { file, name: 'default' };
}
const task = (examples: string, more = "kind: 'anomaly'"): { file: string; name: string } =>
  module(`{ name: 'pumps', ${more}, examples: ${examples} }`);

describe('a task of a module', () => {
  test('becomes a data set with its words, its splits and the hashes of its files', async () => {
    const helper = join(root, 'wave.mjs');
    writeFileSync(
      helper,
      'export const wave = (n, at) => Array.from({ length: n }, (_, t) => (t < at ? Math.sin(t) : 5));\n',
    );
    const file = join(root, 'steps.ts');
    writeFileSync(
      file,
      `import { defineTask } from 'timeseer';
import { wave } from './wave.mjs';

export default defineTask({
  name: 'steps',
  kind: 'anomaly',
  title: 'Steps of a valve',
  description: 'Readings of a valve, one a second.',
  rate: 1,
  *examples({ seed }: { seed: number }) {
    for (let i = 0; i < 12; i++) {
      const at = 10 + seed + i;
      const split = i < 9 ? 'train' : ('test' as const);
      if (i % 3 === 0) yield { values: wave(40, 40), intervals: [], split };
      else yield { values: wave(40, at), intervals: [[at, 40] as const], class: 'trend', split };
    }
  },
});
`,
    );
    const out = join(root, 'set');
    const spec = await userTask({ file, name: 'default' }, REQUEST);
    await prepare(spec, out, { directory: file, seed: 3 });
    const { manifest } = new ExampleSet(out);
    expect(manifest).toMatchObject({
      ...{ task: 'steps', title: 'Steps of a valve', kind: 'anomaly', rate: 1 },
      parameters: { module: 'default', seed: 3 },
      split: { statement: expect.stringContaining('Split of the task.') },
    });
    expect(manifest.source.files.map(({ path }) => path)).toEqual(['steps.ts', 'wave.mjs']);
    const source = openExamples({ name: out, split: 'train', seed: 1, length: 40 });
    expect(source.count).toBe(9);
    expect(source.at(1)).toMatchObject({ id: 'steps/1', gold: { class: 'trend', intervals: [[14, 40]] } });
    expect(source.facts.prompt?.description).toBe('Readings of a valve, one a second.');
  });

  test('is prepared from the command line, from a folder and with a seed', async () => {
    const { file } = task(
      "({ directory, seed }) => [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map((k) => ({ values: [k, seed, directory.length, 0], class: k % 2 ? 'odd' : 'even' }))",
      "kind: 'classification'",
    );
    const out = join(root, 'by-command');
    expect(
      await main([
        'data',
        'prepare',
        file,
        '--from',
        'abc',
        '--seed',
        '5',
        '--out',
        out,
        '--no-figures',
        '--no-traces',
        '--json',
      ]),
    ).toBe(0);
    const lines = readFileSync(join(out, 'train.jsonl'), 'utf8').trim().split('\n');
    expect(JSON.parse(lines[0]!).channels[0].slice(1)).toEqual([5, 3, 0]);
    expect(new ExampleSet(out).manifest.classes).toEqual(['even', 'odd']);
  });

  test('may answer in every kind, of generators that take their time too', async () => {
    const all = async (address: { file: string; name: string }) =>
      [...(await userTask(address, REQUEST)).open({ directory: null }).load()].map(({ example }) => example);
    const [one] = await all(
      task(
        'async function* () { yield { channels: [[1, 2], [3, NaN]], variates: [1], id: "x" } }',
        "kind: 'variates'",
      ),
    );
    expect(one).toMatchObject({ id: 'pumps/x', names: ['channel 0', 'channel 1'], gold: { variates: [1] } });
    const [asked] = await all(
      task(
        'async () => [{ values: [1, 2], question: "Up?", options: ["yes", "no"], answer: "YES" }]',
        "kind: 'question'",
      ),
    );
    expect(goldResponse(asked!.gold, 't')).toBe('<think>t</think><answer>A</answer>');
    const [normal] = await all(task('() => [{ values: [1, 2], intervals: [] }]'));
    expect(normal!.gold).toMatchObject({ class: 'normal' });
    const [unnamed] = await all(task('() => [{ values: [1, 2, 3], intervals: [[1, 2]] }]'));
    expect(unnamed!.gold).toMatchObject({ class: null });
  });
});

describe('a module that is wrong', () => {
  const DRAWN = '() => [{ values: [1, 2], intervals: [] }]';
  test.each<[string, { file: string; name: string }, typeof ConfigError | typeof DataError, RegExp]>([
    ['is no task', module('3'), ConfigError, /exports no task: defineTask: name: got undefined/],
    [
      'has a name of ours',
      module(`{ name: 'CTU', kind: 'anomaly', examples: ${DRAWN} }`),
      ConfigError,
      /there is a task called ctu/,
    ],
    [
      'has an unknown kind',
      task(DRAWN, "kind: 'forecast'"),
      ConfigError,
      /kind: got "forecast", expected one of anomaly,/,
    ],
    ['has no function', task('3'), ConfigError, /expected a function examples/],
    [
      'has classes of anomalies',
      task(DRAWN, "kind: 'anomaly', classes: ['a']"),
      ConfigError,
      /classes: of anomaly/,
    ],
    ['has an unknown figure', task(DRAWN, "kind: 'anomaly', figure: 'pie'"), ConfigError, /no preset "pie"/],
    [
      'has a tag in its words',
      task(DRAWN, "kind: 'anomaly', description: '<class>'"),
      ConfigError,
      /description: holds a tag/,
    ],
    [
      'throws',
      task("() => { throw new TypeError('no disk') }"),
      ConfigError,
      /task pumps: examples threw TypeError: no disk \(.*:1:\d+\)/,
    ],
    [
      'throws in the middle',
      task('function* () { yield { values: [1, 2], intervals: [] }; null.x }'),
      ConfigError,
      /examples threw TypeError/,
    ],
    ['gives nothing', task('() => []'), DataError, /task pumps: examples gave none/],
    ['gives no list', task('() => 3'), ConfigError, /examples threw TypeError/],
    ['gives a number', task('() => [3]'), DataError, /example 0: got 3, expected an object with values/],
    [
      'gives no series',
      task('() => [{ intervals: [] }]'),
      DataError,
      /example 0: expected values, or channels/,
    ],
    ['gives words', task("() => [{ values: [1, 'x'], intervals: [] }]"), DataError, /values\[1\]: got "x"/],
    [
      'gives an infinity',
      task('() => [{ values: [1, 1 / 0], intervals: [] }]'),
      DataError,
      /example 0: channels\[0\]\[1\]: Infinity/,
    ],
    ['gives no answer', task('() => [{ values: [1, 2] }]'), DataError, /intervals: got undefined/],
    [
      'gives an interval outside',
      task('() => [{ values: [1, 2], intervals: [[1, 5]] }]'),
      DataError,
      /leaves the series/,
    ],
    [
      'gives an unknown kind of anomaly',
      task("() => [{ values: [1, 2], intervals: [[1, 2]], class: 'odd' }]"),
      DataError,
      /unknown "odd"/,
    ],
    [
      'gives a split to some',
      task("() => [{ values: [1, 2], intervals: [], split: 'train' }, { values: [1, 2], intervals: [] }]"),
      DataError,
      /example 1: has no split/,
    ],
    [
      'gives an unknown split',
      task("() => [{ values: [1, 2], intervals: [], split: 'exam' }]"),
      DataError,
      /split: got "exam"/,
    ],
    [
      'gives a class that it does not have',
      task("() => [{ values: [1, 2], class: 'b' }]", "kind: 'classification', classes: ['a']"),
      DataError,
      /class "b" is not among/,
    ],
    [
      'hints at no class',
      task("() => [{ values: [1, 2], class: 'b' }]", "kind: 'classification', hints: { c: 'x' }"),
      ConfigError,
      /no class "c"/,
    ],
  ])('%s', async (_, address, type, message) => {
    const opened = userTask(address, REQUEST);
    await expect(opened).rejects.toThrow(type);
    await expect(opened).rejects.toThrow(message);
    await expect(opened).rejects.toThrow(address.file);
  });

  test('has the same id twice', async () => {
    const address = task(
      "() => [{ id: 'a', values: [1, 2], intervals: [] }, { id: 'a', values: [1, 3], intervals: [] }]",
    );
    const spec = await userTask(address, REQUEST);
    await expect(prepare(spec, join(root, 'twice'), { directory: address.file })).rejects.toThrow(
      /'pumps\/a' occurs twice/,
    );
  });

  test('cannot be cut', async () => {
    const spec = await userTask(task(DRAWN), REQUEST);
    expect(() => spec.open({ directory: null, window: 5 })).toThrow(/--window: task pumps/);
  });
});

test('defineTask gives its definition back', () => {
  const definition: TaskDefinition = { name: 'mine', kind: 'anomaly', examples: () => [] };
  expect(defineTask(definition)).toBe(definition);
});
