import { cpSync, mkdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { benchmarkNamed } from '../../datasets/benchmarks/registry.ts';
import { prepare } from '../../datasets/prepare.ts';
import { type ExampleAddress, openExamples, trainingExamples } from '../../datasets/source.ts';
import type { Split } from '../../datasets/split.ts';
import { DataError } from '../../src/ground/errors.ts';
import { Chat } from '../../src/policy/chat.ts';
import { recipeSchema } from '../../src/recipe/recipe.ts';
import { nanoCard } from '../../src/run/policy-task.ts';
import type { PromptReader } from '../../src/run/prompt-length.ts';
import { checkData, checkSameData, dataRecord } from '../../src/run/run-data.ts';
import { editLine, editManifest } from '../helpers/edit-set.ts';
import { writeMadeSet } from '../helpers/example-run.ts';
import { temporary } from '../helpers/temporary.ts';
import { edit } from '../helpers/tiny-run.ts';

const root = temporary('check');
const good = join(root, 'good');
const set = join(root, 'set');
beforeAll(() => writeMadeSet(good, 'classification'));
beforeEach(() => cpSync(good, set, { recursive: true }));
afterEach(() => rmSync(set, { recursive: true, force: true }));

/** A reader whose tokens are characters. */
const readerOf = (context: number): PromptReader => ({
  context,
  chat: new Chat(),
  tokens: (text) => text.length,
});

function check(
  name: string,
  {
    splits = ['train'],
    set = {},
    reader = readerOf(1e6),
    at = { name, split: 'train', seed: 1, length: 400 },
  }: {
    splits?: readonly Split[];
    set?: object;
    reader?: PromptReader;
    at?: ExampleAddress;
  } = {},
): void {
  const recipe = recipeSchema.parse({ data: { name, heldOut: 1 }, ...set });
  const { facts } = openExamples(at);
  checkData({ name, facts, splits, card: nanoCard(recipe, facts), reader: () => reader });
}

function failure(...given: Parameters<typeof check>): DataError {
  try {
    check(...given);
  } catch (error) {
    expect(error).toBeInstanceOf(DataError);
    return error as DataError;
  }
  throw new Error('nothing was found');
}

describe('the check of a prepared data set', () => {
  test('finds nothing wrong in a whole one, of any kind', async () => {
    check(set, { splits: ['train', 'validation', 'test'] });
    for (const kind of ['variates', 'anomaly'] as const) {
      const other = join(root, kind);
      await writeMadeSet(other, kind);
      check(other, { splits: ['train', 'validation', 'test'] });
    }
  });

  test.each<[string, (record: Record<string, unknown>) => void, RegExp]>([
    [
      'a class that the manifest does not list',
      (row) => Object.assign(row, { gold: { kind: 'classification', class: 'triangle' } }),
      /made\/train\/6: class "triangle" is none of the manifest's: slow, quick, very quick/,
    ],
    [
      'an id that was there before',
      (row) => Object.assign(row, { id: 'made/train/2' }),
      /made\/train\/2: this id occurs twice/,
    ],
    [
      'a value that cannot be drawn',
      (row) => ((row['channels'] as number[][])[0]![3] = 1e308),
      /made\/train\/6: channels\[0\]\[3\]: 1e\+308 is beyond/,
    ],
    [
      'another number of channels',
      (row) => {
        row['names'] = ['a', 'b'];
        row['channels'] = [0, 1].map(() => (row['channels'] as number[][])[0]);
      },
      /made\/train\/6: channels a, b, but the first example has value/,
    ],
    [
      'text for a value',
      (row) => ((row['channels'] as unknown[][])[0]![3] = 'x'),
      /channels\[0\]\[3\]: got "x"/,
    ],
  ])('names file, line and example of %s', (_, change, expected) => {
    editLine(set, 'train', 7, change);
    const error = failure(set);
    expect(error).toMatchObject({ file: join(set, 'train.jsonl'), line: 7 });
    expect(error.message).toMatch(expected);
  });

  test('takes anomalies of unnamed kind, and none of a kind that the manifest does not list', async () => {
    const anomalies = join(root, 'anomalies');
    await writeMadeSet(anomalies, 'anomaly');
    check(anomalies);
    const gold = { kind: 'anomaly', class: 'seasonal', intervals: [[3, 9]] };
    editLine(anomalies, 'train', 5, (row) => Object.assign(row, { gold }));
    expect(failure(anomalies).message).toMatch(
      /train\.jsonl:5: .*class "seasonal" is none of .* trend, normal/,
    );
  });

  test('looks at the splits that it is told of', () => {
    editLine(set, 'test', 2, (row) => ((row['channels'] as number[][])[0]![0] = -1e305));
    check(set);
    expect(failure(set, { splits: ['train', 'test'] }).message).toMatch(
      /test\.jsonl:2: made\/test\/1: channels/,
    );
  });

  test('finds a file that was changed behind the manifest, and one that was cut', () => {
    edit(join(set, 'train.jsonl'), (text) => text.replace(/\d\]\]\}/, (end) => `${9 - Number(end[0])}]]}`));
    expect(failure(set).message).toMatch(/train\.jsonl: SHA-256 is not the one in the manifest/);
    truncateSync(join(set, 'train.jsonl'), 1000);
    expect(() => check(set)).toThrow(/train\.jsonl: truncated: 1000 bytes/);
  });

  test('refuses a training split of one class', () => {
    for (let line = 1; line <= 45; line++) {
      editLine(set, 'train', line, (row) =>
        Object.assign(row, { gold: { kind: 'classification', class: 'quick' } }),
      );
    }
    editManifest(set, ({ splits }) => Object.assign(splits['train']!, { classes: { quick: 45 } }));
    expect(failure(set).message).toMatch(/train\.jsonl: the training split has one class only \(quick\)/);
  });

  test('takes any number of channels where it is variates that are asked for', async () => {
    const variates = join(root, 'any');
    await writeMadeSet(variates, 'variates');
    editLine(variates, 'train', 3, (row) => {
      row['channels'] = (row['channels'] as number[][]).slice(0, 3);
      row['names'] = ['0', '1', '2'];
      row['gold'] = { kind: 'variates', variates: [2] };
    });
    check(variates);
  });

  test('draws a figure of each shape: series of too many channels are refused', async () => {
    const variates = join(root, 'drawn');
    await writeMadeSet(variates, 'variates');
    editLine(variates, 'train', 3, (row) => {
      row['channels'] = Array.from({ length: 300 }, () => (row['channels'] as number[][])[0]);
      row['names'] = Array.from({ length: 300 }, (_, c) => String(c));
    });
    const error = failure(variates, { set: { figure: 'nano-analysis' } });
    expect(error.message).toMatch(/train\.jsonl:3: made\/train\/2: .*figure\.height: .*got 8400/);
  });
});

describe('prompts with numbers', () => {
  const numbers = { input: 'numbers', numbers: { digits: 3, points: 120 } };

  test('longer than the context are refused, naming the longest and what to lower', () => {
    editLine(set, 'train', 9, (row) => {
      row['channels'] = [(row['channels'] as number[][])[0]!.map((_, t) => -1.23e-150 - t * 1e-153)];
    });
    const reader = readerOf(1000);
    const { message } = failure(set, { set: numbers, reader });
    expect(message).toMatch(
      /train\.jsonl:9: made\/train\/8: its prompt with numbers has \d+ tokens, and the policy's context ends at 1000; lower numbers\.points \(now 120\)/,
    );
  });

  test('are counted only where their bytes are more than the context has tokens', () => {
    let counted = 0;
    const tokens = (): number => 500 - (counted++ % 2);
    check(set, { set: numbers, reader: { ...readerOf(2000), tokens } });
    expect(counted).toBe(0);
    check(set, { set: numbers, reader: { ...readerOf(500), tokens } });
    expect(counted).toBe(45);
  });
});

describe('a set of generated series of one split', () => {
  test('is gone through whole, also where it is not the training split; a generator is not', async () => {
    const directory = join(root, 'series');
    const counts = { validation: 6 };
    const options = { directory: null, counts, splits: ['validation'] as const, seed: 4, length: 400 };
    await prepare(benchmarkNamed('nano5'), directory, options);
    const at = trainingExamples({ name: directory, length: 400, heldOut: 1, traces: null }, 1);
    check(directory, { at });
    edit(join(directory, 'validation.jsonl'), (text) =>
      text.replace(/\d\]\]\}/, (end) => `${9 - Number(end[0])}]]}`),
    );
    const changed = failure(directory, { at }).message;
    expect(changed).toMatch(/validation\.jsonl: SHA-256 is not the one in the manifest/);
    check('nano5');
  });
});

describe('the record of the data that a run began with', () => {
  const run = join(root, 'run');

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
      const [before, now] = [good, set].map((path) =>
        dataRecord(path).files['validation.jsonl']!.slice(0, 12),
      );
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
});
