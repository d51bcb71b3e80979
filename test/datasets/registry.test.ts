import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { writeDataset } from '../../datasets/dataset.ts';
import { anomllm, anomllmMixed } from '../../datasets/generators/anomllm.ts';
import { nano5 } from '../../datasets/generators/nano5.ts';
import { generators, open } from '../../datasets/registry.ts';
import { ConfigError, closest } from '../../src/errors.ts';

const root = mkdtempSync(join(tmpdir(), 'timeseer-registry-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

describe('generators by name', () => {
  it('knows nano5, the eight AnomLLM tasks with their mixture, and the five of VisualTimeAnomaly', () => {
    expect(generators().map(({ name }) => name)).toEqual([
      'nano5',
      'anomllm',
      'anomllm/point',
      'anomllm/range',
      'anomllm/freq',
      'anomllm/trend',
      'anomllm/flat-trend',
      'anomllm/noisy-point',
      'anomllm/noisy-freq',
      'anomllm/noisy-trend',
      'vta/global',
      'vta/contextual',
      'vta/seasonal',
      'vta/trend',
      'vta/shapelet',
    ]);
  });

  it('walks through the window that was asked for, again and again', () => {
    const source = open('nano5', { split: 'test', seed: 9, count: 4, offset: 10, length: 300 });
    const expected = [10, 11, 12, 13].map((i) => nano5(9, 'test', i, 300));
    expect([...source]).toEqual(expected);
    expect([...source]).toEqual(expected);
    expect(source.at(3)).toEqual(expected[3]);
  });

  it('gives the same series by walking and by number, in any order', () => {
    const walked = [...open('anomllm/freq', { count: 20 })];
    const source = open('anomllm/freq', { count: 20 });
    fc.assert(
      fc.property(fc.nat({ max: 19 }), (i) => {
        expect(source.at(i)).toEqual(walked[i]);
      }),
      { numRuns: 40 },
    );
  });

  it('takes the published seeds: 3407 to train, 42 to test', () => {
    expect(open('anomllm/point').at(0)).toEqual(anomllm('point', 3407, 'train', 0));
    expect(open('anomllm/point', { split: 'test' }).at(0)).toEqual(anomllm('point', 42, 'test', 0));
    expect(open('anomllm', { split: 'test' }).at(11)).toEqual(anomllmMixed(42, 'test', 11));
  });

  it('is endless without a count', () => {
    const source = open('nano5', { length: 200 });
    expect(source.count).toBe(2 ** 32);
    expect(source.at(2 ** 32 - 1).id).toBe(`nano5/train/${2 ** 32 - 1}`);
    expect(open('nano5', { offset: 5 }).count).toBe(2 ** 32 - 5);
  });

  it('only gives classes that it announces', () => {
    for (const { name } of generators()) {
      const source = open(name, { count: 120 });
      const seen = new Set([...source].map((s) => s.class));
      expect([...seen].sort()).toEqual([...source.classes].sort());
    }
  });

  it('refuses options out of range by name', () => {
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

  it('names the closest and the known ones for an unknown name', () => {
    expect(() => open('nano')).toThrow(ConfigError);
    expect(() => open('nano')).toThrow(
      /no data set named 'nano'\. Did you mean nano5\? Known: nano5, anomllm, /,
    );
    expect(() => open('anomllm/flat_trend')).toThrow(/Did you mean anomllm\/flat-trend\?/);
    expect(() => open('zzzzzz')).toThrow(/'zzzzzz'\. Known: /);
  });
});

describe('directories by path', () => {
  const path = join(root, 'set');
  const series = [0, 1, 2, 3, 4, 5].map((i) => nano5(1, 'validation', i, 200));
  const ready = writeDataset(
    path,
    { name: 'mine', generator: 'nano5', parameters: { a: 1 }, split: 'validation', seed: 1, offset: 0 },
    series,
  );

  it('gives what was written, or a part of it', async () => {
    await ready;
    const source = open(path);
    expect([...source]).toEqual(series);
    const { name, kind, split, seed, count, length, parameters } = source;
    expect({ name, kind, split, seed, count, length, parameters }).toEqual({
      name: 'mine',
      kind: 'directory',
      split: 'validation',
      seed: 1,
      count: 6,
      length: 200,
      parameters: { a: 1 },
    });
    const part = open(path, { offset: 2, count: 3 });
    expect([...part]).toEqual(series.slice(2, 5));
    expect(part.at(0)).toEqual(series[2]);
    expect(() => part.at(3)).toThrow(RangeError);
  });

  it('refuses another split, seed, length or window than it has', async () => {
    await ready;
    expect(() => open(path, { split: 'test' })).toThrow(
      /split: asked for test, but the data set .* has validation/,
    );
    expect(() => open(path, { seed: 2 })).toThrow(/seed: asked for 2/);
    expect(() => open(path, { length: 1000 })).toThrow(/length: asked for 1000/);
    expect(() => open(path, { count: 7 })).toThrow(/count: got 7, expected an integer from 1 to 6/);
    expect(() => open(path, { offset: 6 })).toThrow(/offset: got 6/);
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
