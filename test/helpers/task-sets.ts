/** Prepared data sets of several kinds of answers, and their way through training and evaluation. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { Random } from '../../src/ground/random.ts';
import { timeseer } from './tiny-run.ts';

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

export const SMALL = [
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

export async function done(...args: string[]): Promise<string> {
  const { code, out, err } = await timeseer(...args);
  expect({ code, err: code === 0 ? '' : err }).toEqual({ code: 0, err: '' });
  return out;
}

export async function refused(...args: string[]): Promise<string> {
  const { code, err } = await timeseer(...args);
  expect(code).not.toBe(0);
  return err;
}

/** Prepares nothing: trains in both stages, evaluates, and gives the result. */
export async function through(data: string, out: string, ...set: string[]): Promise<Record<string, never>> {
  await done('sft', '--out', out, '--quiet', ...SMALL, '--set', `data.name=${data}`, ...set);
  await done('train', '--out', out, '--quiet');
  const text = await done('eval', '--policy', out, '--data', data, '--maxTokens', '30', '--quiet', '--json');
  return JSON.parse(text) as Record<string, never>;
}

export interface TaskSets {
  readonly classes: string;
  readonly variates: string;
  readonly unnamed: string;
}

export const taskSets = (root: string): TaskSets => ({
  classes: join(root, 'classes'),
  variates: join(root, 'variates'),
  unnamed: join(root, 'unnamed'),
});

const prepare = (...args: string[]): Promise<string> => done('data', 'prepare', ...args, '--json');

/** Prepares the set of classes of `taskSets`, from a table that stays beside it. */
export async function prepareClasses(root: string): Promise<void> {
  const file = join(root, 'classes.tsv');
  writeClasses(file);
  await prepare('custom', '--from', file, '--out', taskSets(root).classes, '--shares', '5,2,3');
}

/** Prepares all sets of `taskSets`. */
export async function prepareTaskSets(root: string): Promise<void> {
  const { variates, unnamed } = taskSets(root);
  await prepareClasses(root);
  const files = join(root, 'files');
  writeUnnamed(files);
  await prepare('custom', '--from', files, '--out', unnamed, '--shares', '5,0,3');
  await prepare('vta/multivariate', '--out', variates, '--count', 'train=10,validation=2,test=4');
}
