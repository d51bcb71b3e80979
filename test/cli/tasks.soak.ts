import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Random } from '../../src/ground/random.ts';
import { timeseer } from '../helpers/tiny-run.ts';

const root = mkdtempSync(join(tmpdir(), 'timeseer-tasks-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** Two kinds of series of 60 points: slow waves, and noise. */
function writeClasses(file: string): void {
  const lines = Array.from({ length: 40 }, (_, i) => {
    const random = new Random(5, 'classes', i);
    const slow = i % 2 === 0;
    const values = Array.from({ length: 60 }, (_, t) =>
      (slow ? Math.sin(0.2 * t + i) + random.normal(0, 0.05) : random.normal()).toFixed(3),
    );
    return [slow ? 'slow wave' : 'noise', ...values].join('\t');
  });
  writeFileSync(file, `${lines.join('\n')}\n`);
}

/** Series of labelled points; what kind of anomaly they are is not said. */
function writeUnnamed(folder: string): void {
  mkdirSync(folder);
  for (let i = 0; i < 8; i++) {
    const lines = Array.from({ length: 90 }, (_, t) => {
      const odd = t >= 20 + 5 * i && t < 28 + 5 * i;
      return `${(Math.sin(0.3 * t) + (odd ? 3 : 0)).toFixed(3)},${odd ? 1 : 0}`;
    });
    writeFileSync(join(folder, `series${i}.out`), `${lines.join('\n')}\n`);
  }
}

const SMALL = [
  ...['--set', 'sft.samples=32', '--set', 'sft.batch=8', '--set', 'sft.workers=1'],
  ...[
    '--set',
    'rl.steps=1',
    '--set',
    'rl.prompts=2',
    '--set',
    'rl.group=2',
    '--set',
    'rl.maxTokens=24',
    '--set',
    'rl.workers=1',
  ],
];

async function done(...args: string[]): Promise<string> {
  const { code, out, err } = await timeseer(...args);
  expect({ code, err: code === 0 ? '' : err }).toEqual({ code: 0, err: '' });
  return out;
}

async function refused(...args: string[]): Promise<string> {
  const { code, err } = await timeseer(...args);
  expect(code).not.toBe(0);
  return err;
}

/** Prepares nothing: trains in both stages, evaluates, and gives the result. */
async function through(data: string, out: string, ...set: string[]): Promise<Record<string, never>> {
  await done('sft', '--out', out, '--quiet', ...SMALL, '--set', `data.name=${data}`, ...set);
  await done('train', '--out', out, '--quiet');
  const text = await done('eval', '--policy', out, '--data', data, '--maxTokens', '30', '--quiet', '--json');
  return JSON.parse(text) as Record<string, never>;
}

const classes = join(root, 'classes');
const variates = join(root, 'variates');
const unnamed = join(root, 'unnamed');

beforeAll(async () => {
  const file = join(root, 'classes.tsv');
  writeClasses(file);
  writeUnnamed(join(root, 'files'));
  await done('data', 'prepare', 'custom', '--from', file, '--out', classes, '--shares', '5,2,3', '--json');
  await done(
    'data',
    'prepare',
    'custom',
    '--from',
    join(root, 'files'),
    '--out',
    unnamed,
    '--shares',
    '5,0,3',
    '--json',
  );
  await done(
    'data',
    'prepare',
    'vta/multivariate',
    '--out',
    variates,
    '--count',
    'train=10,validation=2,test=4',
    '--json',
  );
});

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
      await refused('train', '--policy', out, '--set', `data.name=${classes}`, '--out', join(root, 'x')),
    ).toMatch(/trained with numbers; set input=numbers/);
  });
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
