import { createHash } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { figureFile, type MaterialFacts, materialFile } from '../../datasets/example-manifest.ts';
import { type ExampleOrigin, ExampleSet, writeExamples } from '../../datasets/example-set.ts';
import { type Material, Materials, MaterialWriter } from '../../datasets/materials.ts';
import type { Split } from '../../datasets/split.ts';
import { DataError } from '../../src/ground/errors.ts';
import type { Example } from '../../src/ground/types.ts';
import { temporary } from '../helpers/temporary.ts';

const root = temporary('materials');
let made = 0;
const freshPath = (): string => join(root, `m${made++}`);

const ORIGIN: ExampleOrigin = {
  task: 'machines',
  title: 'Machines',
  kind: 'classification',
  source: { description: 'd', licence: 'l', citation: null, addresses: [], files: [] },
  parameters: {},
  split: { statement: 's', recordingsApart: null },
  classes: ['on', 'off'],
  rate: null,
  figure: { preset: 'line', missing: 'break' },
  notes: [],
};

const example = (split: Split, index: number): Example => ({
  id: `machines/${split}/${index} "é"`,
  task: 'machines',
  channels: [Float64Array.of(index, 2, Number.NaN)],
  names: ['value'],
  times: null,
  gold: { kind: 'classification', class: index % 2 === 0 ? 'on' : 'off' },
  recording: null,
});

const material = (split: Split, index: number): Material => ({
  id: example(split, index).id,
  image: index === 1 ? null : figureFile(split, index),
  prompt: `What is it? ${index}\nLine 2`,
  gold: `<class>${index % 2 === 0 ? 'on' : 'off'}</class>`,
  teacher: split === 'test' ? null : `<think>é ${index}</think><class>on</class>`,
  blind: index === 2 ? null : '<think>no</think><class>off</class>',
});

const pngOf = (split: Split, index: number): Uint8Array => Buffer.from(`picture ${split} ${index}`);
const COUNTS = { train: 3, test: 2 } as const;

/** A set whose materials are as `material` says; `change` may alter what is written in a split's file. */
async function written(
  change: (lines: string[], split: Split) => string[] = (lines) => lines,
): Promise<string> {
  const path = freshPath();
  const examples = (['train', 'test'] as const).flatMap((split) =>
    Array.from({ length: COUNTS[split] }, (_, index) => [split, example(split, index)] as const),
  );
  await writeExamples(path, () => ORIGIN, examples, {
    complete: async (temporary, manifest) => {
      const splits: MaterialFacts['splits'] = {};
      for (const split of ['train', 'test'] as const) {
        const writer = new MaterialWriter(temporary, split, true);
        for (let index = 0; index < COUNTS[split]; index++) {
          const { image, ...rest } = material(split, index);
          writer.add(rest, image === null ? null : pngOf(split, index));
        }
        const facts = await writer.finish();
        const file = join(temporary, materialFile(split));
        const text = `${change(readFileSync(file, 'utf8').trimEnd().split('\n'), split).join('\n')}\n`;
        writeFileSync(file, text);
        const sha256 = createHash('sha256').update(text).digest('hex');
        splits[split] = {
          ...facts,
          prompts: { file: materialFile(split), bytes: Buffer.byteLength(text), sha256 },
          score: null,
        };
      }
      return { ...manifest, materials: { prompt: 'p@1.1', traces: 1, classes: null, splits, notes: [] } };
    },
  });
  return path;
}

const opened = (path: string): Materials => Materials.of(new ExampleSet(path))!;

describe('materials of a data set', () => {
  it('come back as they were written, in the order of the examples, one by one and all together', async () => {
    const path = await written();
    const materials = opened(path);
    for (const split of ['train', 'test'] as const) {
      const all = Array.from({ length: COUNTS[split] }, (_, index) => material(split, index));
      expect([...materials.read(split)]).toEqual(all);
      expect(all.map((_, index) => materials.at(split, index))).toEqual(all);
    }
    expect(() => materials.at('test', 2)).toThrow(RangeError);
    expect(() => materials.at('validation', 0)).toThrow(/has no validation split/);
  });

  it('have their figures in files that are numbered like the examples; the manifest has the digest of all', async () => {
    const path = await written();
    expect(readFileSync(join(path, 'figures/train/000002.png'), 'utf8')).toBe('picture train 2');
    expect(existsSync(join(path, 'figures/train/000001.png'))).toBe(false);
    const { train, test } = opened(path).facts.splits;
    const all = Buffer.concat([pngOf('train', 0), pngOf('train', 2)]);
    expect(train).toMatchObject({
      figures: { count: 2, bytes: all.length, sha256: createHash('sha256').update(all).digest('hex') },
      teacher: 3,
      blind: 2,
    });
    expect(test).toMatchObject({ figures: { count: 1 }, teacher: 0, blind: 2 });
  });

  it('are null where a data set has examples alone', async () => {
    const path = freshPath();
    await writeExamples(path, () => ORIGIN, [['test', example('test', 0)]]);
    expect(Materials.of(new ExampleSet(path))).toBeNull();
  });

  it('never give a test split a teacher', async () => {
    const path = freshPath();
    await expect(
      writeExamples(path, () => ORIGIN, [['test', example('test', 0)]], {
        complete: async (temporary, manifest) => {
          const { image: _, ...rest } = material('train', 0);
          new MaterialWriter(temporary, 'test', false).add(rest, null);
          return manifest;
        },
      }),
    ).rejects.toThrow(RangeError);
    expect(existsSync(path)).toBe(false);
  });
});

describe('damaged materials', () => {
  it.each<[string, (line: string) => string, RegExp]>([
    ['text that is no JSON', (line) => line.slice(0, -3), /test\.prompts\.jsonl:2:\d+: not JSON/],
    [
      'an id of another example',
      (line) => line.replace('test/1', 'test/7'),
      /jsonl:2: id: got .*test\/7.* is .*test\/1/,
    ],
    [
      'a picture of another example',
      (line) => line.replace('null', '"figures/test/000000.png"'),
      /jsonl:2: image: got/,
    ],
    ['a path that leads out', (line) => line.replace('null', '"../../x.png"'), /jsonl:2: image: got/],
    [
      'a teacher of the test split',
      (line) => line.replace('"teacher":null', '"teacher":"<think>"'),
      /jsonl:2: teacher: the test split/,
    ],
    [
      'an empty prompt',
      (line) => line.replace(/"prompt":"[^"]*"/, '"prompt":""'),
      /jsonl:2: prompt: is empty/,
    ],
    ['a number for text', (line) => line.replace(/"gold":"[^"]*"/, '"gold":3'), /jsonl:2: gold: got 3/],
    ['a field too many', (line) => line.replace('{', '{"x":1,'), /jsonl:2: "x": unknown field/],
  ])('%s is refused with file and line', async (_, change, reason) => {
    const path = await written((lines, split) => (split === 'test' ? [lines[0]!, change(lines[1]!)] : lines));
    const materials = opened(path);
    expect(() => materials.at('test', 1)).toThrow(DataError);
    expect(() => materials.at('test', 1)).toThrow(reason);
    expect(materials.at('test', 0)).toEqual(material('test', 0));
    expect(() => [...materials.read('test')]).toThrow(reason);
    expect([...materials.check('test')].map(({ problem }) => problem === null)).toEqual([true, false]);
  });

  it('a file of another size, another content, or none at all is refused', async () => {
    const path = await written();
    const file = join(path, 'train.prompts.jsonl');
    const text = readFileSync(file, 'utf8');
    writeFileSync(file, text.replace('Line 2', 'Line 3'));
    expect(() => [...opened(path).read('train')]).toThrow(/train\.prompts\.jsonl: SHA-256/);
    writeFileSync(file, text.slice(0, -1));
    expect(() => opened(path)).toThrow(/truncated/);
    rmSync(file);
    expect(() => opened(path)).toThrow(DataError);
  });

  it('any change of a line gives values or a DataError', async () => {
    const change = fc.tuple(fc.nat(), fc.nat(4), fc.string({ maxLength: 4 }));
    const lines = fc.sample(change, { numRuns: 400, seed: 5 }).map(([place, cut, put], index) => {
      const line = JSON.stringify({
        ...material('train', 0),
        id: `i${index}`,
        image: figureFile('train', index),
      });
      const at = place % line.length;
      return line.slice(0, at) + put.replaceAll(/[\n\r]/g, ' ') + line.slice(at + cut);
    });
    const path = freshPath();
    const examples = lines.map((_, index) => ['train', { ...example('train', 0), id: `i${index}` }] as const);
    await writeExamples(path, () => ORIGIN, examples);
    const text = `${lines.join('\n')}\n`;
    writeFileSync(join(path, materialFile('train')), text);
    const manifest = JSON.parse(readFileSync(join(path, 'manifest.json'), 'utf8'));
    const sha256 = createHash('sha256').update(text).digest('hex');
    const prompts = { file: materialFile('train'), bytes: Buffer.byteLength(text), sha256 };
    const train = { prompts, figures: null, teacher: 0, blind: 0, score: null };
    manifest.materials = { prompt: 'p', traces: null, classes: null, splits: { train }, notes: [] };
    writeFileSync(join(path, 'manifest.json'), JSON.stringify(manifest));
    const checked = [...opened(path).check('train')];
    expect(checked).toHaveLength(400);
    for (const [index, { line, value: own, problem }] of checked.entries()) {
      expect(line).toBe(index + 1);
      if (own === null) expect(problem).toBeInstanceOf(DataError);
      else expect([own.id, own.image]).toEqual([`i${index}`, figureFile('train', index)]);
    }
    const kept = checked.filter(({ problem }) => problem === null).length;
    expect(kept).toBeGreaterThan(20);
    expect(kept).toBeLessThan(380);
  });

  it('a manifest that leaves a split out, or names another file, is refused', async () => {
    const path = await written();
    const file = join(path, 'manifest.json');
    const manifest = JSON.parse(readFileSync(file, 'utf8'));
    const { test, ...rest } = manifest.materials.splits;
    const refused = (splits: unknown): RegExpMatchArray | null => {
      writeFileSync(file, JSON.stringify({ ...manifest, materials: { ...manifest.materials, splits } }));
      try {
        opened(path);
        return null;
      } catch (error) {
        expect(error).toBeInstanceOf(DataError);
        return (error as Error).message.match(/materials\.splits\.\S+/);
      }
    };
    expect(refused(rest)?.[0]).toBe('materials.splits.test:');
    expect(
      refused({ ...rest, test: { ...test, prompts: { ...test.prompts, file: 'train.prompts.jsonl' } } })?.[0],
    ).toBe('materials.splits.test.prompts.file:');
    expect(refused({ ...rest, test: { ...test, score: { count: 2, accuracy: 2 } } })?.[0]).toMatch(/score/);
    expect(refused({ ...rest, test })).toBeNull();
  });
});
