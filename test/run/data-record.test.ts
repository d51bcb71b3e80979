import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { benchmarkNamed } from '../../datasets/benchmarks/registry.ts';
import { prepare } from '../../datasets/prepare.ts';
import { checkSameData, dataRecord } from '../../src/run/run-data.ts';
import { editLine, editManifest } from '../helpers/edit-set.ts';
import { writeMadeSet } from '../helpers/example-run.ts';
import { edit } from '../helpers/tiny-run.ts';

const root = mkdtempSync(join(tmpdir(), 'timeseer-record-'));
const good = join(root, 'good');
const set = join(root, 'set');
const run = join(root, 'run');
beforeAll(() => writeMadeSet(good, 'classification'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
beforeEach(() => {
  rmSync(set, { recursive: true, force: true });
  cpSync(good, set, { recursive: true });
});

/** A run that began with a data set. */
function begin(name: string): void {
  mkdirSync(run, { recursive: true });
  writeFileSync(join(run, 'recipe.json'), JSON.stringify({ name: 'x', data: dataRecord(name) }));
}

describe('a run on a prepared data set', () => {
  beforeEach(() => begin(set));

  test('goes on where it is the same, also when it says something else of where it came from', () => {
    checkSameData(run, set);
    editManifest(set, (manifest) => {
      manifest['notes'] = ['one more'];
      manifest['source'] = { description: 'x', licence: 'y', citation: null, addresses: [], files: [] };
    });
    checkSameData(run, set);
  });

  test('is refused where a split has changed, naming its file and what to do', () => {
    editLine(set, 'validation', 2, (row) => Object.assign(row, { recording: 'validation 8' }));
    const [before, now] = [good, set].map((path) => dataRecord(path).files['validation.jsonl']!.slice(0, 12));
    expect(() => checkSameData(run, set)).toThrow(
      `${join(set, 'validation.jsonl')}: not what the run ${run} began with; changed since then: ` +
        `validation.jsonl (${before}…, now ${now}…). Put the former data back, or begin a new run with another --out`,
    );
  });

  test('is refused where the order of classes or the figure has changed', () => {
    editManifest(set, (manifest) => {
      (manifest['classes'] as string[]).reverse();
      manifest['figure'] = { preset: 'line', missing: 'break' };
    });
    expect(() => checkSameData(run, set)).toThrow(/manifest\.json: .* manifest\.json \(classes, figure\)/);
  });

  test('is refused where a split is gone, or another kind of data set stands there', async () => {
    editManifest(set, ({ splits }) => delete splits['test']);
    expect(() => checkSameData(run, set)).toThrow(/test\.jsonl \([0-9a-f]{12}…, now none\)/);
    expect(() => checkSameData(run, 'nano5')).toThrow(/another nano5 \(prepared\)/);
  });

  test('goes on without a record, as older runs have none', () => {
    writeFileSync(join(run, 'recipe.json'), '{"name":"x"}');
    editLine(set, 'train', 2, (row) => Object.assign(row, { recording: 'train 8' }));
    checkSameData(run, set);
  });
});

test('a run on a set of generated series is refused where the series have changed', async () => {
  const directory = join(root, 'series');
  const write = (seed: number) =>
    prepare(benchmarkNamed('nano5'), directory, {
      ...{ directory: null, counts: { train: 4 }, splits: ['train'], seed, length: 400 },
    });
  await write(4);
  begin(directory);
  await write(4);
  checkSameData(run, directory);
  await write(5);
  expect(() => checkSameData(run, directory)).toThrow(/train\.jsonl: not what the run .* train\.jsonl \(/);
});

test('a run on a generator is refused where the generator has other parameters', () => {
  begin('nano5');
  checkSameData(run, 'nano5');
  const { parameters } = dataRecord('nano5').about as { parameters: Record<string, unknown> };
  const [key] = Object.keys(parameters);
  edit(join(run, 'recipe.json'), (text) => text.replace(JSON.stringify(key), '"other"'));
  expect(() => checkSameData(run, 'nano5')).toThrow(
    /began with another nano5 \(parameters\); resume it with the version/,
  );
});
