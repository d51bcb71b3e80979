import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { beforeAll, describe, expect, it, test } from 'vitest';
import { BENCHMARKS, benchmarkNamed } from '../../datasets/benchmarks/registry.ts';
import { ExampleSet } from '../../datasets/example-set.ts';
import { ANOMLLM_TASKS } from '../../datasets/generators/anomllm.ts';
import { nano5 } from '../../datasets/generators/nano5.ts';
import { VTA_TYPES } from '../../datasets/generators/vta.ts';
import { prepare } from '../../datasets/prepare.ts';
import {
  EpochOrder,
  type ExampleAddress,
  heldOutExamples,
  isGenerator,
  openExamples,
  reinforcementExamples,
  trainingExamples,
  trainingSplit,
  validationExamples,
} from '../../datasets/source.ts';
import { ConfigError, closest } from '../../src/ground/errors.ts';
import { labelOf } from '../../src/tasks/kinds.ts';
import { temporary } from '../helpers/temporary.ts';

const root = temporary('partition');
const name = join(root, 'vta');
const one = join(root, 'one');
const data = { name, length: 400, heldOut: 6, traces: null };

beforeAll(async () => {
  const task = benchmarkNamed('vta');
  await prepare(task, name, { directory: null, counts: { train: 12, validation: 4, test: 9 }, length: 60 });
  await prepare(task, one, { directory: null, counts: { test: 7 }, splits: ['test'], length: 60 });
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

  it('one without a validation or a test split says so', async () => {
    const rows = [1, 2, 3, 4].map((i) => `${'ab'[i % 2]},${i},${i + 1},${i * i}\n`).join('');
    writeFileSync(join(root, 'x.csv'), `class,1,2,3\n${rows}`);
    const bare = join(root, 'bare');
    await prepare(benchmarkNamed('custom'), bare, {
      directory: join(root, 'x.csv'),
      shares: { train: 1, validation: 0, test: 0 },
    });
    expect(validationExamples({ ...data, name: bare }, 1, 3)).toBeNull();
    expect(() => openExamples(heldOutExamples({ ...data, name: bare }, 1, 3))).toThrow(
      /the splits train, but no test/,
    );
  });

  it('of generated series in one split, the last ones are held out', () => {
    const few = { ...data, name: one, heldOut: 3 };
    const all = [...new ExampleSet(one).read('test')];
    expect([...openExamples(trainingExamples(few, 1))]).toEqual(all.slice(0, 4));
    expect([...openExamples(heldOutExamples(few, 1, 100))]).toEqual(all.slice(4));
    expect([...openExamples(heldOutExamples(few, 1, 2))]).toEqual(all.slice(4, 6));
    expect(validationExamples(few, 1, 3)).toBeNull();
    expect(trainingSplit(one)).toBeNull();
    expect(openExamples(trainingExamples(few, 1)).facts.statement).toBeNull();
    expect(() => trainingExamples({ ...few, heldOut: 7 }, 1)).toThrow(/has 7 series .* lower data\.heldOut/);
  });

  it('of few traces, the supervised stage sees those and reinforcement all others', () => {
    const ids = (address: ExampleAddress): string[] => [...openExamples(address)].map(({ id }) => id);
    const all = ids(trainingExamples(data, 1));
    const few = { ...data, traces: 5 };
    const [taught, others] = [ids(trainingExamples(few, 1)), ids(reinforcementExamples(few, 1))];
    expect(taught.length).toBe(5);
    expect([...taught, ...others].sort()).toEqual([...all].sort());
    expect(all.filter((id) => others.includes(id))).toEqual(others); // in the order of the file
    expect(ids(trainingExamples(few, 1))).toEqual(taught);
    expect(ids(trainingExamples(few, 2))).not.toEqual(taught);
    expect(openExamples(reinforcementExamples(few, 1)).at(0).id).toBe(others[0]);
    expect(() => openExamples(trainingExamples({ ...data, traces: 12 }, 1))).toThrow(
      /data\.traces: got 12, but .* has 12 examples to train on/,
    );
  });

  it('of few traces of a generator, the first series', () => {
    const few = { name: 'nano5', length: 200, heldOut: 1, traces: 7 };
    const taught = [...openExamples(trainingExamples(few, 3))];
    expect(taught).toEqual(
      Array.from({ length: 7 }, (_, i) => openExamples(trainingExamples({ ...few, traces: null }, 3)).at(i)),
    );
    const other = openExamples(reinforcementExamples(few, 3)).at(0);
    expect(taught.map(({ id }) => id)).not.toContain(other.id);
  });

  it('by number and in order, from an offset on', () => {
    const address = { name, split: 'test', seed: 1, length: 0 } as const;
    const source = openExamples({ ...address, offset: 2, count: 5 });
    const series = [...source];
    expect(source.facts.length).toBe(60);
    expect(series).toEqual([...new ExampleSet(name).read('test', 2, 5)]);
    expect(series.map((_, i) => source.at(i))).toEqual(series);
    expect(() => source.at(5)).toThrow(RangeError);
    expect(() => openExamples({ ...address, offset: 9 })).toThrow(/offset: got 9/);
  });
});

describe('generators by name', () => {
  const open = (name: string, more: Partial<ExampleAddress> = {}) =>
    openExamples({ name, split: 'train', seed: 3407, length: 1000, ...more });

  it('are the generated benchmarks of one channel', () => {
    expect(BENCHMARKS.map(({ name }) => name).filter(isGenerator)).toEqual([
      'nano5',
      'laws',
      'wild',
      'wild-long',
      'anomllm',
      ...ANOMLLM_TASKS.map((task) => `anomllm/${task}`),
      'vta',
      'vta/irregular',
      ...VTA_TYPES.map((type) => `vta/${type}`),
    ]);
  });

  it('walk through the range that was asked for, again and again', () => {
    const source = open('nano5', { split: 'test', seed: 9, count: 4, offset: 10, length: 300 });
    const expected = [10, 11, 12, 13].map((i) => nano5(9, 'test', i, 300));
    expect([...source]).toEqual(expected);
    expect([...source]).toEqual(expected);
    expect(source.at(3)).toEqual(expected[3]);
  });

  it('give the same series by walking and by number, in any order', () => {
    const walked = [...open('anomllm/freq', { count: 20 })];
    const source = open('anomllm/freq', { count: 20 });
    fc.assert(
      fc.property(fc.nat({ max: 19 }), (i) => {
        expect(source.at(i)).toEqual(walked[i]);
      }),
      { numRuns: 40 },
    );
  });

  it('are endless without a count', () => {
    const source = open('nano5', { length: 200 });
    expect(source.count).toBe(2 ** 32);
    expect(source.at(2 ** 32 - 1).id).toBe(`nano5/train/${2 ** 32 - 1}`);
    expect(open('nano5', { offset: 5 }).count).toBe(2 ** 32 - 5);
  });

  it('give the classes that they announce, and no other', () => {
    for (const name of BENCHMARKS.map((one) => one.name).filter(isGenerator)) {
      // Tasks of laws have few of the names each.
      const source = open(name, name === 'laws' ? { count: 800, length: 80 } : { count: 120 });
      const seen = new Set([...source].map(({ gold }) => labelOf(gold)));
      const announced = source.facts.classes.filter((one) => name !== 'vta/irregular' || one !== 'normal');
      expect([...seen].sort()).toEqual([...announced].sort());
    }
  });

  it('refuse options out of range by name', () => {
    expect(() => open('nano5', { count: 0 })).toThrow(/count: got 0/);
    expect(() => open('nano5', { count: 1.5 })).toThrow(/count: got 1.5/);
    expect(() => open('nano5', { count: Number.NaN })).toThrow(ConfigError);
    expect(() => open('nano5', { offset: -1 })).toThrow(/offset: got -1/);
    expect(() => open('nano5', { offset: 2 ** 32 - 1, count: 2 })).toThrow(
      /count: got 2, expected .* 1 to 1/,
    );
    expect(() => open('nano5', { length: 100 })).toThrow(
      /length: got 100, expected an integer of at least 200/,
    );
    expect(() => open('nano5', { seed: -3 })).toThrow(/seed: got -3/);
    expect(() => open('nano5', { count: 3 }).at(3)).toThrow(RangeError);
  });

  it('name the closest and the known ones for an unknown name, and say how to make data of a benchmark', () => {
    expect(() => open('nano')).toThrow(ConfigError);
    expect(() => open('nano')).toThrow(
      /no data set named 'nano'\. Did you mean nano5\? Known: nano5, laws, wild, wild-long, anomllm, /,
    );
    expect(() => open('anomllm/flat_trend')).toThrow(/Did you mean anomllm\/flat-trend\?/);
    expect(() => open('zzzzzz')).toThrow(/'zzzzzz'\. Known: /);
    expect(() => open('har')).toThrow(
      /no data set in 'har'; create it with timeseer data prepare har --out data\/har/,
    );
  });
});

describe('closest', () => {
  const known = ['nano5', 'anomllm/trend', 'anomllm/flat-trend'];
  it('finds a name by case, by a slip, and by its last part', () => {
    expect(closest('NANO5', known)).toBe('nano5');
    expect(closest('nan05', known)).toBe('nano5');
    expect(closest('trends', known)).toBe('anomllm/trend');
  });
  it('gives none when nothing is close', () => {
    expect(closest('quux', known)).toBeUndefined();
    expect(closest('', known)).toBeUndefined();
  });
});

const places = (order: EpochOrder, from: number, to: number): number[] =>
  Array.from({ length: to - from }, (_, i) => order.place(from + i));

test('every epoch is a permutation of the whole', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 60 }), fc.nat(1000), fc.nat(5), (count, seed, epoch) => {
      const seen = places(new EpochOrder(count, seed, 'sft'), epoch * count, (epoch + 1) * count);
      expect(seen.toSorted((a, b) => a - b)).toEqual(Array.from({ length: count }, (_, i) => i));
    }),
  );
});

test('epochs, stages and seeds have orders of their own', () => {
  const first = places(new EpochOrder(40, 7, 'sft'), 0, 40);
  expect(places(new EpochOrder(40, 7, 'sft'), 40, 80)).not.toEqual(first);
  expect(places(new EpochOrder(40, 7, 'rl'), 0, 40)).not.toEqual(first);
  expect(places(new EpochOrder(40, 8, 'sft'), 0, 40)).not.toEqual(first);
});

test('a place does not depend on what was asked before, so that ranks and resumed runs agree', () => {
  const straight = places(new EpochOrder(17, 3, 'sft'), 0, 100);
  const jumping = new EpochOrder(17, 3, 'sft');
  for (const index of [99, 3, 50, 4, 0, 98, 51, 33, 34]) expect(jumping.place(index)).toBe(straight[index]);
});
