/** Learned backgrounds as a source of the generator wild. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { wildOver } from '../../datasets/benchmarks/generated.ts';
import { learnBackground, writeBackgrounds } from '../../src/background/background.ts';
import { taskNamed } from '../../src/commands/data/prepare.ts';
import { Random } from '../../src/ground/random.ts';
import { openBackgrounds } from '../../src/run/backgrounds.ts';

const directory = mkdtempSync(join(tmpdir(), 'backgrounds-'));
const [both, uneven] = ['both', 'uneven'].map((name) => join(directory, name)) as [string, string];
afterAll(() => rmSync(directory, { recursive: true }));

const noEngine = (): never => {
  throw new Error('no engine is needed');
};

/** A source around `level`, with a season of 24 samples. */
function learned(source: string, level: number, length: number) {
  const random = new Random(level, source);
  const windows = Array.from({ length: 12 }, (_, i) => ({
    start: 48 * i,
    values: Float64Array.from(
      { length },
      (_, t) => level + 3 * Math.sin((2 * Math.PI * t) / 24) + random.normal(0, 0.3),
    ),
  }));
  return learnBackground('bootstrap', source, { windows, periods: [24] }, { seed: 1 }, noEngine);
}

beforeAll(async () => {
  const [low, high] = [await learned('low', 10, 240), await learned('high', 1000, 240)];
  writeBackgrounds(both, [low, high]);
  writeBackgrounds(uneven, [low, await learned('short', 10, 120)]);
});

describe('wild over learned backgrounds', () => {
  const at = (index: number, split: 'train' | 'test' = 'train', seed = 5) =>
    wildOver(openBackgrounds(both, noEngine)).generator!.at(seed, split, index, 240);

  test('takes the sources in turn, with anomalies of several kinds, exact to the sample', () => {
    const backgrounds = openBackgrounds(both, noEngine);
    const { generator } = wildOver(backgrounds);
    const kinds = new Set<string>();
    let marked = 0;
    for (let index = 0; index < 64; index++) {
      const { id, channels, gold, facts } = generator!.at(5, 'train', index, 240);
      const source = index % 2 === 0 ? 'low' : 'high';
      expect(id).toBe(`wild/train/${source}/${index}`);
      expect(facts!.components).toContain('season');
      const { values } = backgrounds.at(5, 'train', index)!.recorded;
      const intervals = 'intervals' in gold ? gold.intervals : [];
      marked += intervals.length;
      for (const { kind, severity } of facts!.departures) {
        kinds.add(kind);
        expect(severity).toBeGreaterThan(0);
      }
      for (const [start, end] of intervals) {
        for (const edge of [start, end - 1]) expect(channels[0]![edge]).not.toBe(values[edge]);
      }
      const outside = values.filter(
        (value, t) => value !== channels[0]![t] && !intervals.some(([start, end]) => t >= start && t < end),
      );
      // A change too small to be seen is no anomaly; it is rare.
      if (intervals.length > 0) expect(outside.length).toBeLessThan(60);
    }
    expect(marked).toBeGreaterThan(20);
    expect(kinds.size).toBeGreaterThan(4);
  });

  test('gives the same series for the same address in any order, and others to each split and seed', () => {
    const { generator } = wildOver(openBackgrounds(both, noEngine));
    const series = [600, 1, 0, 7].map((index) => generator!.at(5, 'train', index, 240));
    expect(series).toEqual([at(600), at(1), at(0), at(7)]);
    expect(at(0).channels).not.toEqual(at(0, 'test').channels);
    expect(at(0).channels).not.toEqual(at(0, 'train', 6).channels);
  });

  test('refuses another length, sources of different lengths, and tasks without families', async () => {
    const { generator } = wildOver(openBackgrounds(both, noEngine));
    expect(() => generator!.at(5, 'train', 0, 300)).toThrow('have windows of 240; leave it out');
    expect(() => openBackgrounds(uneven, noEngine)).toThrow('windows of 240 and of 120 samples');
    await expect(
      taskNamed('nano5', { from: undefined, backgrounds: both, seed: 0, json: true }),
    ).rejects.toThrow('--backgrounds: replaces the families of wild, not of nano5');
    const { spec } = await taskNamed('wild', { from: undefined, backgrounds: both, seed: 0, json: true });
    expect(spec.generator!.length).toBe(240);
    expect(spec.generator!.parameters['backgrounds']).toMatchObject({
      sources: ['low: bootstrap', 'high: bootstrap'],
    });
  });
});
