import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import type { ExampleManifest } from '../../../datasets/example-manifest.ts';
import { ExampleSet } from '../../../datasets/example-set.ts';
import { Materials } from '../../../datasets/materials.ts';
import { openExamples } from '../../../datasets/source.ts';
import { blindLines } from '../../../datasets/statistics.ts';
import { exampleTask } from '../../../src/run/policy-task.ts';
import { FOREIGN_CARD } from '../../../src/tasks/card.ts';
import { inside } from '../../helpers/command-line.ts';
import { temporary } from '../../helpers/temporary.ts';

const root = temporary('prepare-command');
afterEach(() => {
  process.exitCode = undefined;
});
let made = 0;
const freshPath = (): string => join(root, `d${made++}`);

/** Six rows of two classes, with a file beside them. */
function table(files: Readonly<Record<string, string>> = {}): string {
  const folder = freshPath();
  mkdirSync(folder);
  const row = (n: number): string =>
    [
      n % 2 === 0 ? 'new' : 'worn',
      ...Array.from({ length: 24 }, (_, t) => Math.sin(n + t / (2 + (n % 2))).toFixed(3)),
    ].join();
  const head = ['class', ...Array.from({ length: 24 }, (_, t) => `t${t}`)].join();
  writeFileSync(join(folder, 't.csv'), [head, ...Array.from({ length: 6 }, (_, n) => row(n))].join('\n'));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return join(folder, 't.csv');
}

describe('prepare custom', () => {
  it("puts the user's words into the prompts that are written and those that are asked, and not the generic title", async () => {
    const words = 'title: Pumps\ndescription: Hum of a pump.\nhints:\n  worn: a rough hum\n';
    const out = freshPath();
    const from = table({ 'task.yaml': words });
    const { code, err } = await inside(
      'data',
      'prepare',
      'custom',
      '--from',
      from,
      '--out',
      out,
      '--json',
      '--no-figures',
    );
    expect([code, err]).toEqual([0, '']);
    const source = openExamples({ name: out, split: 'train', seed: 0, length: 0 });
    const { facts } = source;
    const card = { ...FOREIGN_CARD, kind: facts.kind, task: facts.task, classes: [...facts.classes] };
    const asked = exampleTask({ ...card, figure: 'line' }, { facts }).instruction(source.at(0));
    const set = new ExampleSet(out);
    const { prompt } = Materials.of(set)!.at('train', 0);
    for (const text of [asked, prompt]) {
      expect(text).toContain('Hum of a pump.\n');
      expect(text).toContain('- worn: a rough hum\n');
      expect(text).not.toContain('Pumps');
    }
    const plain = freshPath();
    await inside('data', 'prepare', 'custom', '--from', table(), '--out', plain, '--json', '--no-figures');
    expect(Materials.of(new ExampleSet(plain))!.at('train', 0).prompt).not.toContain('Your own files');
  });

  it.each<[string, string[], RegExp]>([
    ['two --out', ['--out', 'x'], /^error: --out: given twice/],
    ['two counts', ['--count', '3', '--count', '4'], /^error: --count: given twice/],
    ['text for a number', ['--shots', 'x'], /--shots: got 'x', expected a number/],
    ['text for a share', ['--validation', 'some'], /--validation: got 'some', expected a number/],
    [
      'a split counted twice',
      ['--count', 'train=5,train=6'],
      /--count: got 'train=5,train=6', which names train twice/,
    ],
    [
      'a split that is not there',
      ['--shares', '1,0,1', '--count', 'validation=3'],
      /--count validation=3: there is no validation split/,
    ],
    ['an unknown figure', ['--figure', 'lin'], /unknown name "lin"/],
  ])('refuses %s before it writes', async (_, more, reason) => {
    const out = freshPath();
    const { code, err } = await inside(
      'data',
      'prepare',
      'custom',
      '--from',
      table(),
      '--out',
      out,
      '--json',
      ...more,
    );
    expect(err).toMatch(reason);
    expect(code).toBe(2);
    expect(existsSync(out)).toBe(false);
  });

  it('refuses an empty --out before it reads', async () => {
    const { code, err } = await inside(
      'data',
      'prepare',
      'custom',
      '--from',
      join(root, 'nowhere'),
      '--out',
      ' ',
    );
    expect([code, err]).toEqual([2, expect.stringMatching(/^error: --out: empty/)]);
  });

  it('names the line of task.yaml whose figure is unknown', async () => {
    const from = table({ 'task.yaml': 'title: x\nfigure: lin\n' });
    const { code, err } = await inside(
      'data',
      'prepare',
      'custom',
      '--from',
      from,
      '--out',
      freshPath(),
      '--json',
    );
    expect(err).toMatch(/task\.yaml:2: figure: unknown name "lin"/);
    expect(code).toBe(3);
  });

  it('shows in its help the six kinds of anomaly and a task.yaml that works', async () => {
    const { out } = await inside('data', 'prepare', '--help');
    expect(out.replaceAll(/\s+/g, ' ')).toContain(
      'contextual point, global point, seasonal, trend, shapelet, normal',
    );
    expect(out).toContain('hints:');
    expect(out).toContain('--allow-shared-recordings');
  });
});

describe('a manifest', () => {
  it('with null for a number is refused by field', async () => {
    const out = freshPath();
    await inside('data', 'prepare', 'custom', '--from', table(), '--out', out, '--no-figures', '--no-traces');
    const file = join(out, 'manifest.json');
    const manifest = JSON.parse(readFileSync(file, 'utf8'));
    manifest.splits.train.count = null;
    writeFileSync(file, JSON.stringify(manifest));
    const { err } = await inside('data', 'stats', out);
    expect(err).toMatch(/manifest\.json: splits\.train\.count: got null, expected a number\n/);
    writeFileSync(file, JSON.stringify({ ...manifest, splits: {}, colour: 'red' }));
    expect((await inside('data', 'stats', out)).err).toMatch(/manifest\.json: colour: unknown; leave it out/);
  });
});

describe('a figure that a manifest names', () => {
  it('and that is unknown, or made for another rate, is an error of the manifest', async () => {
    const out = freshPath();
    await inside('data', 'prepare', 'custom', '--from', table(), '--out', out, '--no-figures', '--no-traces');
    const file = join(out, 'manifest.json');
    const manifest = JSON.parse(readFileSync(file, 'utf8'));
    const change = (preset: string, rate: number | null): void =>
      writeFileSync(file, JSON.stringify({ ...manifest, rate, figure: { ...manifest.figure, preset } }));
    change('lin', null);
    for (const command of ['show', 'validate']) {
      const { code, err } = await inside('data', command, out);
      expect(err).toMatch(/manifest\.json: figure\.preset: unknown name "lin"; use one of line, /);
      expect(code).toBe(3);
    }
    expect((await inside('data', 'show', out, '--figure', 'line')).code).toBe(0);
  });
});

describe('prepare refuses', () => {
  it.each(['ctu', 'tee', 'har'])('windows of %s, whose series are examples as they are', async (name) => {
    const from = ['--from', root, '--window', '64', '--out', freshPath()];
    const { code, err } = await inside('data', 'prepare', name, ...from);
    expect([code, err]).toEqual([
      2,
      `error: ${name}: its series are examples as they are; leave --window out\n`,
    ]);
  });

  it('a place that is a link to nowhere', async () => {
    const out = freshPath();
    symlinkSync(join(root, 'nowhere'), out);
    const { code, err } = await inside('data', 'prepare', 'nano5', '--count', 'train=2', '--out', out);
    expect(code).toBe(2);
    expect(err).toMatch(/--out .*: is a broken link; remove it, or choose another place/);
  });
});

describe('the blind expert', () => {
  const score = { count: 35, accuracy: 4 / 26, chance: 1, f1: 0.25 };
  const manifest = (kind: string, own: object): ExampleManifest =>
    ({
      kind,
      splits: { test: { classes: { normal: 26, 'unnamed anomaly': 9 } } },
      materials: { classes: null, splits: { test: { score: { ...score, ...own } } } },
    }) as unknown as ExampleManifest;
  it('on data that name no kinds of anomaly: how many normal series it leaves alone', () => {
    expect(blindLines(manifest('anomaly', {}))).toEqual([
      'blind expert: test leaves 15.4 % of the 26 normal ones alone, F1 0.250 of 35',
    ]);
    expect(blindLines(manifest('anomaly', { chance: 0.5 }))[0]).toContain(
      'class 15.4 % (most frequent 50.0 %)',
    );
    expect(blindLines(manifest('classification', {}))[0]).toContain('class 15.4 % (all of one class)');
  });
});
