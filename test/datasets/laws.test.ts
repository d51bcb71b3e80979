import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { lawsBenchmark } from '../../datasets/benchmarks/generated.ts';
import { promptFor } from '../../datasets/benchmarks/registry.ts';
import { parseExample } from '../../datasets/example.ts';
import { ExampleSet } from '../../datasets/example-set.ts';
import { LAW_NAMES, laws } from '../../datasets/generators/laws.ts';
import { prepare } from '../../datasets/prepare.ts';
import { openExamples } from '../../datasets/source.ts';
import { DataError } from '../../src/ground/errors.ts';
import type { ClassificationGold } from '../../src/ground/types.ts';
import { recipeSchema } from '../../src/recipe/recipe.ts';
import { nanoCard, trainingTask } from '../../src/run/policy-task.ts';
import { goldFrom, ownQuestion } from '../../src/tasks/kinds.ts';
import { promptText } from '../../src/tasks/prompt.ts';
import { temporary } from '../helpers/temporary.ts';

const root = temporary('laws');

const gold = (index: number, split: 'train' | 'test' = 'train', seed = 1): Required<ClassificationGold> =>
  laws(seed, split, index, 200).gold as Required<ClassificationGold>;
const amongOf = (...address: Parameters<typeof gold>): string => JSON.stringify(gold(...address).among);

describe('tasks of laws', () => {
  test('are 16 examples each, with two to six described classes of which one is theirs', () => {
    const counts = new Set<number>();
    for (let index = 0; index < 800; index++) {
      const { class: name, among, thought } = gold(index);
      expect(amongOf(index)).toBe(amongOf(16 * Math.floor(index / 16)));
      expect(among[name]).toBe(thought);
      expect(new Set(Object.values(among)).size).toBe(Object.keys(among).length);
      for (const known of Object.keys(among)) expect(LAW_NAMES).toContain(known);
      counts.add(Object.keys(among).length);
    }
    expect([...counts].sort()).toEqual([2, 3, 4, 5, 6]);
    expect(amongOf(0)).not.toBe(amongOf(16));
  });

  test('are pure functions of their address, and other ones in another split or with another seed', () => {
    expect(laws(1, 'train', 37, 300)).toEqual(laws(1, 'train', 37, 300));
    expect(amongOf(0, 'test')).not.toBe(amongOf(0));
    expect(amongOf(0, 'train', 2)).not.toBe(amongOf(0));
    const { channels } = laws(1, 'train', 37, 300);
    expect(channels[0]).toHaveLength(300);
    expect(channels[0]!.every(Number.isFinite)).toBe(true);
  });

  test('look as their class says', () => {
    const rises = { rising: [] as number[], falling: [] as number[] };
    for (let index = 0; index < 3200; index++) {
      const example = laws(3, 'train', index, 100);
      const { thought } = example.gold;
      const [values] = example.channels as [Float64Array];
      const mean = (from: number): number =>
        values.slice(from, from + 20).reduce((sum, v) => sum + v, 0) / 20;
      if (thought === 'rising' || thought === 'falling') rises[thought].push(mean(80) - mean(0));
    }
    expect(rises.rising.length).toBeGreaterThan(20);
    expect(rises.rising.every((rise) => rise > 0)).toBe(true);
    expect(rises.falling.every((rise) => rise < 0)).toBe(true);
  });

  test('are asked with their classes, in both styles, and taught by the words of the law', () => {
    const address = { name: 'laws', split: 'train', seed: 1, length: 200 } as const;
    const recipe = recipeSchema.parse({ data: { name: 'laws', length: 200 } });
    const task = trainingTask(nanoCard(recipe, openExamples(address).facts), address, 'sft');
    const example = task.example(0);
    const { class: name, among, thought } = example.gold as Required<ClassificationGold>;
    const lines = Object.entries(among).map(([known, words]) => `${known}: ${words}`);
    expect(task.instruction(example)).toBe(['Name the class.', ...lines].join('\n'));
    const response = task.trace(example);
    expect(response).toBe(`<think>${thought}</think><class>${name}</class>`);
    expect(task.parse(response.replace(name, name.toUpperCase()), example)).toMatchObject({ class: name });
    const request = { length: 200, channels: ['value'], classes: ['other'], ...ownQuestion(example.gold) };
    const text = promptText(promptFor('laws', 'classification'), request);
    for (const line of lines) expect(text).toContain(`- ${line}`);
    expect(text).not.toContain('other');
  });

  test('are prepared and read again as they are', async () => {
    const out = join(root, 'laws');
    const counts = { train: 20, validation: 2, test: 2 };
    await prepare(lawsBenchmark, out, { directory: null, counts, length: 120, seed: 1 });
    expect(new ExampleSet(out).at('train', 17)).toEqual(laws(1, 'train', 17, 120));
  });

  test.each([
    ['not among them', { class: 'c', among: { a: 'x', b: 'y' } }, /class: got "c"/],
    ['of one class', { class: 'a', among: { a: 'x' } }, /among: got/],
    ['with a tag', { class: 'a', among: { a: '<class>', b: 'y' } }, /among: got/],
  ])('with classes of their own are refused where the answer is %s', (_, parts, message) => {
    const read = (): unknown => {
      const line = { id: 'x', task: 't', recording: null, names: ['v'], times: null, channels: [[1, 2]] };
      return parseExample(JSON.stringify({ ...line, gold: { kind: 'classification', ...parts } }));
    };
    expect(read).toThrow(DataError);
    expect(read).toThrow(message);
    expect(goldFrom('classification', { class: 'a', among: { a: 'x', b: 'y' } })).toEqual({
      ...{ kind: 'classification', class: 'a', among: { a: 'x', b: 'y' } },
    });
  });
});
