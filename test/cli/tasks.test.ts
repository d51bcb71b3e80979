import { cpSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { ExampleSet } from '../../datasets/example-set.ts';
import { checkTraces } from '../../datasets/materials.ts';
import { readCard } from '../../src/tasks/card.ts';
import { editLine, editManifest } from '../helpers/edit-set.ts';
import { done, prepareClasses, refused, SMALL, taskSets, through } from '../helpers/task-sets.ts';
import { temporary } from '../helpers/temporary.ts';
import { bits, edit, listing } from '../helpers/tiny-run.ts';

const root = temporary('tasks');

const { classes } = taskSets(root);
const trained = join(root, 'run-classes');

beforeAll(() => prepareClasses(root));

describe('a prepared data set goes through sft, train and eval', () => {
  test('of classes, with its split said beside the result', async () => {
    const result = await through(classes, trained);
    const { metrics, classical, data, prompt } = result as unknown as {
      metrics: { overall: Record<string, { n: number }> };
      classical: Record<string, Record<string, { mean: number }>>;
      data: { statement: string };
      prompt: { picture: { tokens: number; visual: number }; numbers: { tokens: number } };
    };
    expect(metrics.overall['class_accuracy']!.n).toBe(12);
    expect(metrics.overall).not.toHaveProperty('point_f1');
    expect(classical['expcot-blind']!['class_accuracy']!.mean).toBe(1); // waves and noise are far apart
    expect(data.statement).toMatch(/Our own split/);
    expect(prompt.picture.visual).toBe(20); // 560 × 28 pixels
    expect(prompt.numbers.tokens).toBeGreaterThan(prompt.picture.tokens);
    expect(readCard(join(trained, 'rl/policy'))).toMatchObject({
      kind: 'classification',
      classes: ['noise', 'slow wave'],
      length: 60,
      stage: 'rl',
    });
    const [line] = readFileSync(join(trained, 'rl/metrics.jsonl'), 'utf8').split('\n');
    expect(Object.keys((JSON.parse(line!) as { parts: object }).parts)).toEqual(['accuracy', 'format']);
  });
});

describe('a stage over a data set', () => {
  test('uses stored traces and classes where they are there, and makes the same where they are not', async () => {
    const bare = join(root, 'bare');
    const file = join(root, 'classes.tsv');
    await done(
      'data',
      'prepare',
      'custom',
      '--from',
      file,
      '--out',
      bare,
      '--shares',
      '5,2,3',
      '--no-traces',
      '--no-figures',
      '--json',
    );
    expect(existsSync(join(bare, 'classes.json'))).toBe(false);
    const out = join(root, 'run-bare');
    await done('sft', '--out', out, '--quiet', ...SMALL, '--set', `data.name=${bare}`);
    const file2 = 'sft/policy/model.safetensors';
    expect(bits(join(out, file2)).equals(bits(join(trained, file2)))).toBe(true);
  });

  test('refuses what does not go together, before anything is written', async () => {
    const out = join(root, 'never');
    const sft = ['sft', '--out', out, '--set'];
    expect(await refused(...sft, `data.name=${classes}`, '--set', 'reward=anomseer')).toMatch(
      /no reward called anomseer for this data; known are task, /,
    );
    expect(await refused(...sft, 'data.name=nano5', '--set', 'figure=task')).toMatch(
      /names no figure of its own/,
    );
    expect(await refused(...sft, `data.name=${join(root, 'nothing')}`)).toMatch(/timeseer data prepare/);
    expect(existsSync(out)).toBe(false);
  });
});

describe('a data set that is not as it should be', () => {
  /** A copy of the set of classes. */
  function copy(name: string): string {
    const path = join(root, name);
    cpSync(classes, path, { recursive: true });
    return path;
  }
  const begin = (out: string, data: string, ...more: string[]): string[] => {
    return ['sft', '--out', out, '--quiet', ...SMALL, '--set', `data.name=${data}`, ...more];
  };

  test('ends neither stage of a run that began with another one silently', async () => {
    const data = copy('changing');
    const out = join(root, 'run-changing');
    await done(...begin(out, data));
    const before = listing(out);
    editLine(data, 'train', 3, (row) => (row['channels'] as number[][])[0]!.reverse());
    for (const command of [['sft', '--resume'], ['train']]) {
      expect(await refused(...command, '--out', out)).toMatch(
        /changing.train\.jsonl: not what the run .*run-changing began with; changed since then: train\.jsonl \(/,
      );
    }
    expect(listing(out)).toEqual(before);
    // An older run has no record, and goes on.
    edit(join(out, 'recipe.json'), (text) => {
      const { data: _, ...header } = JSON.parse(text) as Record<string, unknown>;
      return JSON.stringify(header);
    });
    await done('train', '--out', out, '--quiet');
  });

  test('is refused for learned classes that are not those of the manifest, and taken without them', async () => {
    const data = copy('learned');
    const out = join(root, 'run-learned');
    const file = join(data, 'classes.json');
    const whole = readFileSync(file, 'utf8');
    for (const [content, expected] of [
      [
        whole.replace(/"bias":-?\d/, '"bias":7'),
        /classes\.json: SHA-256 is not the one .* or remove the file/,
      ],
      [whole.slice(0, 900), /classes\.json: SHA-256 .* \(900 bytes, the manifest says \d+\)/],
    ] as const) {
      writeFileSync(file, content);
      expect(await refused(...begin(out, data))).toMatch(expected);
      expect(existsSync(out)).toBe(false);
    }
    rmSync(file);
    await done(...begin(out, data));
    // Stored traces are for policies that answer in the full style.
    const set = new ExampleSet(data);
    checkTraces(set);
    edit(join(data, 'train.prompts.jsonl'), (text) =>
      text.replace('"teacher":"<think>', '"teacher":"<thinK>'),
    );
    expect(() => checkTraces(set)).toThrow(/train\.prompts\.jsonl: SHA-256 is not the one in the manifest/);
  });

  test('is refused for what would end the training on its way, before anything is written', async () => {
    const data = copy('broken');
    const out = join(root, 'run-broken');
    editLine(data, 'train', 19, (row) =>
      Object.assign(row, { gold: { kind: 'classification', class: 'triangle' } }),
    );
    expect(await refused(...begin(out, data))).toMatch(
      /broken.train\.jsonl:19: \S+: class "triangle" is none/,
    );
    const numbers = ['--set', 'input=numbers', '--set', 'numbers.points=60', '--set', 'numbers.digits=17'];
    const long = copy('long');
    editManifest(long, ({ splits }) => Object.assign(splits['train']!, { length: null }));
    editLine(long, 'train', 4, (row) => {
      row['channels'] = [Array.from({ length: 4000 }, (_, t) => Math.sin(t * 0.7371))];
    });
    expect(await refused(...begin(out, long, ...numbers, '--set', 'numbers.points=4000'))).toMatch(
      /long.train\.jsonl:4: \S+: its prompt with numbers has \d+ tokens, .* ends at 4096; lower numbers\.points \(now 4000\)/,
    );
    expect(existsSync(out)).toBe(false);
  });

  test('is refused by quickstart without a test split; --force then leaves the former run', async () => {
    const data = copy('untested');
    editManifest(data, (manifest) => {
      delete manifest.splits['test'];
      delete (manifest['materials'] as { splits: Record<string, unknown> }).splits['test'];
    });
    const out = join(root, 'run-untested');
    const quickstart = ['quickstart', '--quiet', '--set', `data.name=${data}`, '--out'];
    expect(await refused(...quickstart, out)).toMatch(/has the splits train, validation, but no test/);
    expect(existsSync(out)).toBe(false);
    const before = listing(trained);
    expect(before).toContain('rl/policy/model.safetensors');
    expect(await refused(...quickstart, trained, '--force')).toMatch(/but no test/);
    expect(listing(trained)).toEqual(before);
  });
});

describe('a small policy of classes', () => {
  test('is not asked for intervals', async () => {
    expect(await refused('eval', '--policy', trained, '--data', 'nano5')).toMatch(
      /answer with classes, but nano5/,
    );
    const csv = join(root, 'own.csv');
    writeFileSync(csv, Array.from({ length: 50 }, (_, t) => Math.sin(t).toFixed(3)).join('\n'));
    expect(await refused('explain', csv, '--policy', trained, '--out', join(root, 'own'))).toMatch(
      /answers with classes, not with intervals/,
    );
  });
});
