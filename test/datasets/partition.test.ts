import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { benchmarkNamed } from '../../datasets/benchmarks/registry.ts';
import {
  heldOutExamples,
  reinforcementExamples,
  trainingExamples,
  validationExamples,
} from '../../datasets/partition.ts';
import { prepare } from '../../datasets/prepare.ts';
import { open } from '../../datasets/registry.ts';
import { openExamples } from '../../datasets/source.ts';

const root = mkdtempSync(join(tmpdir(), 'timeseer-partition-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const name = join(root, 'vta');
const bare = join(root, 'bare');
const data = { name, length: 400, heldOut: 6 };

beforeAll(async () => {
  const task = benchmarkNamed('vta');
  await prepare(task, name, { directory: null, counts: { train: 12, validation: 4, test: 9 }, length: 60 });
  await prepare(task, bare, { directory: null, counts: { train: 5 }, splits: ['train'], length: 60 });
});

describe('stages read a prepared data set', () => {
  it('each from its own split, whatever a recipe keeps back', () => {
    const ids = (address: Parameters<typeof openExamples>[0]): string[] =>
      [...openExamples(address)].map(({ id }) => id);
    const training = ids(trainingExamples(data, 1));
    expect(training.length).toBe(12);
    expect(training.every((id) => id.includes('/train/'))).toBe(true);
    expect(ids(reinforcementExamples(data, 1))).toEqual(training);
    const held = ids(heldOutExamples(data, 1, 100));
    expect(held.length).toBe(9);
    expect(held.every((id) => id.includes('/test/'))).toBe(true);
    expect(ids(validationExamples(data, 1, 100)!).length).toBe(4);
    const drawn = ids(heldOutExamples(data, 1, 4));
    expect(drawn.length).toBe(4);
    expect(held.filter((id) => drawn.includes(id))).toEqual(drawn); // in the order of the file
    expect(ids(heldOutExamples(data, 2, 4))).not.toEqual(drawn);
  });

  it('one without a validation or a test split says so', () => {
    expect(validationExamples({ ...data, name: bare }, 1, 3)).toBeNull();
    expect(() => openExamples(heldOutExamples({ ...data, name: bare }, 1, 3))).toThrow(
      /the splits train, but no test/,
    );
  });

  it('by number and in order, with its classes and length', () => {
    const source = open(name, { split: 'test', offset: 2, count: 5 });
    const series = [...source];
    expect(source.length).toBe(60);
    expect(source.classes).toEqual(['contextual point', 'global point', 'seasonal', 'trend', 'shapelet']);
    expect(series.map((_, i) => source.at(i))).toEqual(series);
    expect(() => source.at(5)).toThrow(RangeError);
    expect(() => open(name, { length: 9 })).toThrow(/prepared already/);
    expect(() => open(name, { count: 13 })).toThrow(/from 1 to 12/);
  });

  it('only where its examples are univariate series with named anomalies', async () => {
    const many = join(root, 'many');
    await prepare(benchmarkNamed('vta/multivariate'), many, {
      directory: null,
      counts: { train: 2, validation: 2, test: 2 },
    });
    expect(() => open(many)).toThrow(/answers are of kind 'variates'/);
    writeFileSync(join(root, 'x.out'), '1,0\n2,1\n3,0\n');
    const unnamed = join(root, 'unnamed');
    await prepare(benchmarkNamed('custom'), unnamed, {
      directory: join(root, 'x.out'),
      shares: { train: 1, validation: 0, test: 0 },
    });
    expect(() => [...open(unnamed)]).toThrow(/not named/);
  });
});
