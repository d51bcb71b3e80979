import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { done, prepareTaskSets, refused, SMALL, taskSets, through } from '../helpers/task-sets.ts';
import { temporary } from '../helpers/temporary.ts';
import { timeseer } from '../helpers/tiny-run.ts';

const root = temporary('tasks');

const { classes, variates, unnamed } = taskSets(root);

beforeAll(() => prepareTaskSets(root));

describe('a prepared data set goes through sft, train and eval', () => {
  test('of variates, in their own figure', async () => {
    const { metrics } = (await through(
      variates,
      join(root, 'run-variates'),
      '--set',
      'figure=nano-variates',
    )) as unknown as {
      metrics: { overall: Record<string, { n: number }> };
    };
    expect(metrics.overall['variate_f1']!.n).toBe(4);
  });

  test('of anomalies whose kind is not named: the class is neither rewarded nor reported', async () => {
    const out = join(root, 'run-unnamed');
    const { metrics } = (await through(unnamed, out)) as unknown as { metrics: { overall: object } };
    expect(metrics.overall).toHaveProperty('point_f1');
    expect(metrics.overall).not.toHaveProperty('class_accuracy');
    const [line] = readFileSync(join(out, 'rl/metrics.jsonl'), 'utf8').split('\n');
    expect(Object.keys((JSON.parse(line!) as { parts: object }).parts)).toEqual(['format', 'localisation']);
  });

  test('as numbers in the prompt instead of a picture', async () => {
    const out = join(root, 'run-numbers');
    const set = ['--set', 'input=numbers', '--set', 'numbers.points=12', '--set', 'numbers.digits=2'];
    const result = (await through(classes, out, ...set)) as unknown as {
      input: string;
      prompt: { format: object };
    };
    expect(result.input).toBe('numbers');
    expect(result.prompt.format).toEqual({ digits: 2, points: 12 });
    expect(
      await refused('train', '--policy', out, '--set', 'input=picture', '--out', join(root, 'x')),
    ).toMatch(/trained with numbers; set input=numbers/);
  });
});

test('a quickstart from a policy of another kind of answers evaluates it once it was taught these', async () => {
  const out = join(root, 'from-small');
  const set = ['sft.samples=16', 'rl.steps=0', 'eval.series=4', `data.name=${classes}`];
  await done(
    'quickstart',
    '--recipe',
    'classes',
    '--out',
    out,
    '--quiet',
    ...set.flatMap((one) => ['--set', one]),
  );
  const left = readdirSync(join(out, 'eval'));
  expect(left.some((name) => name.startsWith('sft.'))).toBe(true);
  expect(left.some((name) => name.startsWith('initial.'))).toBe(false);
});

test('a baseline that cannot learn from a data set leaves the others their rows', async () => {
  const [file, data] = [join(root, 'unequal.jsonl'), join(root, 'unequal')];
  const lines = Array.from({ length: 24 }, (_, i) => {
    const values = Array.from({ length: 30 + (i % 3) }, (_, t) =>
      Math.sin(t * (i % 2 === 0 ? 0.3 : 0.9) + i),
    );
    return JSON.stringify({ id: `s${i}`, values, class: i % 2 === 0 ? 'slow' : 'fast' });
  });
  writeFileSync(file, `${lines.join('\n')}\n`);
  await done('data', 'prepare', 'custom', '--from', file, '--out', data, '--shares', '2,0,1');
  const policies = ['minirocket', 'majority'].flatMap((name) => ['--policy', `baseline:${name}`]);
  const { code, out, err } = await timeseer('eval', ...policies, '--task', data);
  expect(out).toMatch(/majority +0\.\d+/);
  expect(out).toMatch(/minirocket +–/);
  expect(err).toMatch(/minirocket: needs training examples of one length.*1nn-dtw compares/);
  expect(code).not.toBe(0);
});

describe('a stage over a data set', () => {
  test('is the same on one worker and on two', async () => {
    const outs = ['one', 'two'].map((name) => join(root, name));
    for (const [i, out] of outs.entries()) {
      await done(
        'sft',
        '--out',
        out,
        '--quiet',
        ...SMALL,
        '--set',
        `data.name=${classes}`,
        '--set',
        `sft.workers=${i + 1}`,
      );
    }
    const [one, two] = outs.map((out) =>
      readFileSync(join(out, 'sft/metrics.jsonl'), 'utf8').trim().split('\n'),
    );
    const loss = (line: string): number => (JSON.parse(line) as { loss: number }).loss;
    expect(one!.length).toBe(4);
    one!.forEach((line, i) => {
      expect(loss(two![i]!)).toBeCloseTo(loss(line), 4);
    });
  });
});
