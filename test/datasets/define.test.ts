import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test, vi } from 'vitest';
import type { Loaded } from '../../datasets/benchmarks/benchmark.ts';
import { adapter, defineTask, type TaskDefinition, userTask } from '../../datasets/define.ts';
import { ExampleSet } from '../../datasets/example-set.ts';
import { prepare } from '../../datasets/prepare.ts';
import { openExamples } from '../../datasets/source.ts';
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import { ANOMALY_CLASSES } from '../../src/ground/types.ts';
import { loadModule } from '../../src/ground/user-code.ts';
import { goldResponse } from '../../src/tasks/kinds.ts';
import { inside } from '../helpers/command-line.ts';
import { CLI } from '../helpers/program.ts';

/** Bytes that the machine seems to have; null: its own. */
const memory = vi.hoisted((): { total: number | null } => ({ total: null }));
vi.mock('../../src/ground/machine.ts', async (original) => {
  const real = await original<typeof import('../../src/ground/machine.ts')>();
  return { ...real, memory: () => ({ ...real.memory(), total: memory.total ?? real.memory().total }) };
});

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

/** Runs a task as its thread does, in this one. */
async function ran(address: { file: string; name: string }): Promise<Loaded[]> {
  const { file } = address;
  const { answer } = adapter.open([{ value: await loadModule(address, adapter.wanted), file }]);
  const all: Loaded[] = [];
  const part = (loaded: readonly Loaded[]): void => void all.push(...loaded);
  await answer(REQUEST, { signal: new AbortController().signal, part, beat: () => {} });
  return all;
}

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
    const options = ['--from', 'abc', '--seed', '5', '--no-figures', '--no-traces', '--json'];
    const { code } = await inside('data', 'prepare', file, '--out', out, ...options);
    expect(code).toBe(0);
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

  test('asks for the kinds of anomalies that occur, for all of them where one is not named', async () => {
    const classes = async (examples: string) =>
      (await userTask(task(examples), REQUEST)).open({ directory: null }).classes();
    const normal = '{ values: [1, 2, 3], intervals: [] }';
    expect(
      await classes(`() => [${normal}, { values: [1, 2, 3], intervals: [[1, 2]], class: 'trend' }]`),
    ).toEqual(['trend', 'normal']);
    expect(await classes(`() => [${normal}, { values: [1, 2, 3], intervals: [[1, 2]] }]`)).toEqual(
      ANOMALY_CLASSES,
    );
  });

  test('is shown before it is prepared', async () => {
    const { file } = task(
      '() => [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map((k) => ({ values: [k, 0, 1], intervals: [] }))',
    );
    const { code, out } = await inside('data', 'show', file, '-n', '1', '--json');
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({
      task: 'pumps',
      examples: [{ gold: { class: 'normal' }, points: 3 }],
    });
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
      /classes: those of anomaly are fixed/,
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
    ['gives no list', task('() => 3'), ConfigError, /examples gave 3, expected a list/],
    ['gives a text', task("() => 'abc'"), ConfigError, /examples gave "abc", expected a list/],
    ['gives a list in a list', task('() => [[1]]'), DataError, /example 0: got \[1\], expected an object/],
    [
      'has a getter that throws',
      task('() => [{ get values() { throw new Error("late") }, intervals: [] }]'),
      ConfigError,
      /examples threw Error: late/,
    ],
    [
      'misspells a field of its own',
      task(DRAWN, "kind: 'classification', clases: ['a']"),
      ConfigError,
      /clases: unknown key\. Did you mean classes\?/,
    ],
    [
      'misspells a field of an example',
      task("() => [{ values: [1, 2], intervals: [[0, 1]], clas: 'trend' }]"),
      DataError,
      /example 0: "clas": unknown field; known: .*class, intervals/,
    ],
    [
      'gives the answer of another kind',
      task("() => [{ values: [1, 2], class: 'a', intervals: [] }]", "kind: 'classification'"),
      DataError,
      /example 0: "intervals": unknown field/,
    ],
    [
      'gives values and channels',
      task('() => [{ values: [1, 2], channels: [[1, 2]], intervals: [] }]'),
      DataError,
      /has values and channels; give one/,
    ],
    [
      'gives one list as channels',
      task('() => [{ channels: [1, 2], intervals: [] }]'),
      DataError,
      /channels\[0\]: got 1, expected numbers/,
    ],
    [
      'gives a billion points',
      task('() => [{ values: { length: 1e9 }, intervals: [] }]'),
      DataError,
      /1000000000 points; at most 100000000/,
    ],
    [
      'gives names that are no texts',
      task('() => [{ values: [1, 2], names: [3], intervals: [] }]'),
      DataError,
      /names: got \[3\], expected a list of texts/,
    ],
    [
      'gives a number as an id',
      task('() => [{ id: 7, values: [1, 2], intervals: [] }]'),
      DataError,
      /example 0: id: got 7, expected one line/,
    ],
    [
      'gives a number as a recording',
      task('() => [{ recording: 3, values: [1, 2], intervals: [] }]'),
      DataError,
      /recording: got 3, expected one line/,
    ],
    [
      'gives the same id twice',
      task(
        "() => [{ id: 'a', values: [1, 2], intervals: [] }, { id: 'b', values: [1, 2], intervals: [] }, { id: 'a', values: [1, 3], intervals: [] }]",
      ),
      DataError,
      /example 2: its id is that of example 0, "pumps\/a"/,
    ],
    [
      'names the kind of no anomaly',
      task("() => [{ values: [1, 2], intervals: [], class: 'trend' }]"),
      DataError,
      /class: "trend" with 0 intervals/,
    ],
    [
      'gives an interval that is none',
      task('() => [{ values: [1, 2], intervals: [null] }]'),
      DataError,
      /intervals\[0\]: got null/,
    ],
    [
      'gives a category that is no text',
      task("() => [{ values: [1, 2], question: 'Up?', answer: 'yes', category: 3 }]", "kind: 'question'"),
      DataError,
      /category: got 3, expected text/,
    ],
    [
      'gives an answer that is no number',
      task("() => [{ values: [1, 2], question: 'Up?', answer: 0 / 0 }]", "kind: 'question'"),
      DataError,
      /answer: got NaN, expected text or a finite number/,
    ],
    [
      'gives an answer that is no option',
      task(
        "() => [{ values: [1, 2], question: 'Up?', options: ['yes', 'no'], answer: 'C' }]",
        "kind: 'question'",
      ),
      DataError,
      /answer: "C" is none of the options/,
    ],
    [
      'has a tag as a class',
      task(DRAWN, "kind: 'classification', classes: ['a', '<think>']"),
      ConfigError,
      /classes: got "<think>", expected one line/,
    ],
    [
      'has a class twice',
      task(DRAWN, "kind: 'classification', classes: ['a', 'a']"),
      ConfigError,
      /expected a list of different names/,
    ],
    ['has no hints', task(DRAWN, "kind: 'anomaly', hints: null"), ConfigError, /hints: expected texts/],
    [
      'has a title of two lines',
      task(DRAWN, "kind: 'anomaly', title: 'a\\nb'"),
      ConfigError,
      /title: expected one line/,
    ],
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
  ])('%s', async (_, address, type, message) => {
    const opened = ran(address);
    await expect(opened).rejects.toThrow(type);
    await expect(opened).rejects.toThrow(message);
    await expect(opened).rejects.toThrow(address.file);
  });

  test.each<[string, string, RegExp]>([
    ['ends the process', 'function* () { process.exit(0); }', /ended its thread with process\.exit\(0\)/],
    [
      'blocks without end',
      'function* () { yield { values: [1, 2], intervals: [] }; for (;;); }',
      /a call blocked its thread for more than 0\.2 s/,
    ],
    [
      'throws later',
      'async function* () { setTimeout(() => { throw new Error("late") }); await new Promise(() => {}); }',
      /threw Error: late \(.*\) outside of a call/,
    ],
  ])('%s: one error that names it', async (_, examples, message) => {
    const address = task(examples, "kind: 'anomaly', timeLimit: 0.2");
    const opened = userTask(address, REQUEST);
    await expect(opened).rejects.toThrow(message);
    await expect(opened).rejects.toBeInstanceOf(ConfigError);
  });

  test('waits for ever: an error at once, long before the time limit', async () => {
    const { file, name } = task('async function* () { await new Promise(() => {}); }');
    await expect(userTask({ file, name }, REQUEST)).rejects.toThrow(
      `${file}: task pumps: examples waits for something that never comes`,
    );
  });

  test('takes too long for an example: an error that says how long', async () => {
    const slow = task(
      'async function* () { yield { values: [1, 2], intervals: [] }; for (;;) await new Promise((resolve) => setTimeout(resolve, 5)); }',
      "kind: 'anomaly', timeLimit: 0.05",
    );
    await expect(ran(slow)).rejects.toThrow(/examples gave no example 1 within 0\.05 s; raise timeLimit/);
  });

  test('gives more than the machine holds: an error, not the end of the process', async () => {
    memory.total = 16 * 1000;
    const endless = task('function* () { for (;;) yield { values: [1, 2, 3, 4], intervals: [] }; }');
    await expect(ran(endless)).rejects.toThrow(/example 250: all together have 1004 points, more than half/);
    memory.total = null;
  });

  test.each([
    [
      "kind: 'classification', classes: ['a']",
      DataError,
      /example 0: the class "b" is not among its classes \(a\)/,
    ],
    ["kind: 'classification', hints: { c: 'x' }", ConfigError, /no class "c"/],
  ])('names classes that no example has: %s', async (more, type, message) => {
    const opened = userTask(task("() => [{ values: [1, 2], class: 'b' }]", more), REQUEST);
    await expect(opened).rejects.toThrow(message);
    await expect(opened).rejects.toBeInstanceOf(type);
  });

  test('ends the process: the command fails, and what is printed stays out of --json', () => {
    const run = (examples: string, out: string) =>
      spawnSync(
        process.execPath,
        [CLI, 'data', 'prepare', task(examples).file, '--out', join(root, out), '--json', '--no-traces'],
        { encoding: 'utf8' },
      );
    const ended = run('() => process.exit(0)', 'ended');
    expect(ended).toMatchObject({ status: 2, stdout: '' });
    expect(ended.stderr).toMatch(/task-\d+\.mjs: ended its thread with process\.exit\(0\)/);
    const printed = run(
      "() => { console.log('noise'); return [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map((k) => ({ values: [k, 0, 1], intervals: [] })) }",
      'printed',
    );
    expect(printed.status).toBe(0);
    expect(JSON.parse(printed.stdout)).toMatchObject({ task: 'pumps' });
    expect(printed.stderr).toContain('noise');
  });

  test('is told how it becomes a data set where one is wanted', () => {
    const { file } = task(DRAWN);
    expect(() => openExamples({ name: file, split: 'test', seed: 1, length: 40 })).toThrow(
      `timeseer data prepare ${file} --out DIR`,
    );
  });

  test('cannot be cut', async () => {
    const spec = await userTask(task(DRAWN), REQUEST);
    expect(() => spec.open({ directory: null, window: 5 })).toThrow(/--window: task pumps/);
  });
});

test('defineTask gives its definition back', () => {
  const definition: TaskDefinition<'anomaly'> = { name: 'mine', kind: 'anomaly', examples: () => [] };
  expect(defineTask(definition)).toBe(definition);
});
