/** Exports computed by onnxruntime, beside the engine and beside what transformers computed. */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { drawToken } from '../../src/ground/draw.ts';
import { CheckpointError } from '../../src/ground/errors.ts';
import { MANIFEST_FILE } from '../../src/ground/manifest.ts';
import { exportOnnx } from '../../src/onnx/export.ts';
import { generateOnnx } from '../../src/onnx/generate.ts';
import { OnnxPolicy } from '../../src/onnx/policy.ts';
import { generate } from '../../src/policy/generate.ts';
import { Policy } from '../../src/policy/policy.ts';
import { trainBpe } from '../../src/policy/tokenizer.ts';
import { tinyDims } from '../helpers/tiny-policy.ts';
import { corpus } from '../policy/corpus.ts';
import { distance, engine, GOLDEN, golden, picture } from '../policy/golden.ts';

const root = mkdtempSync(join(tmpdir(), 'timeseer-onnx-generate-'));
const exported = join(root, 'exported');
let policy: Policy;
let onnx: OnnxPolicy;
beforeAll(async () => {
  exportOnnx(GOLDEN, exported, { types: ['float32', 'int8'], version: '1' });
  policy = Policy.load(engine, GOLDEN, { tuning: 'none' });
  onnx = await OnnxPolicy.open(exported);
});
afterAll(async () => {
  policy.dispose();
  await onnx.dispose();
  rmSync(root, { recursive: true, force: true });
});

const prompts = () =>
  golden.cases.map(({ text, sizes }) =>
    policy.encodePrompt(
      text,
      sizes.map(([width, height]) => picture(width, height)),
    ),
  );
const text = (words: string) =>
  policy.encodePrompt(`<|im_start|>user\n${words}<|im_end|>\n<|im_start|>assistant\n`, []);

describe('onnxruntime on an export', () => {
  test('computes what transformers computed: visual tokens, logits alone and padded in a batch', async () => {
    const all = prompts();
    const { logits } = await onnx.prefill(all);
    const { vocabulary } = onnx.dims;
    expect(new Set(all.map(({ ids }) => ids.length)).size).toBeGreaterThan(1);
    for (const [i, one] of golden.cases.entries()) {
      if (one.features.length > 0) {
        expect(distance(await onnx.visualTokens([all[i]!]), one.features)).toBeLessThan(1e-4);
      }
      const alone = await onnx.prefill([all[i]!]);
      expect(distance(alone.logits, one.lastLogits)).toBeLessThan(1e-4);
      const padded = logits.subarray(i * vocabulary, (i + 1) * vocabulary);
      expect(distance(padded, one.lastLogits)).toBeLessThan(1e-4);
    }
  });

  test('answers greedily as the engine does, token for token', async () => {
    const asked = [...prompts(), text('which class?'), text('period 62; a longer question about the trend')];
    const options = { temperature: 0, maxTokens: 24, seed: 0 };
    const ours = await generate(policy, asked, options);
    const theirs = await generateOnnx(onnx, asked, { ...options, maxRows: 3 });
    expect(theirs.map(({ ids }) => [...ids])).toEqual(ours.map(({ ids }) => [...ids]));
    expect(theirs.map((one) => [one.text, one.finished])).toEqual(
      ours.map((one) => [one.text, one.finished]),
    );
    for (const [i, { logProbs }] of theirs.entries()) {
      expect(distance(logProbs, ours[i]!.logProbs)).toBeLessThan(1e-4);
    }
  });

  test('answers greedily with heads of 12, which its attention does not take, in batches of several lengths', async () => {
    const from = join(root, 'heads');
    const made = Policy.create(engine, {
      ...{ tokenizer: trainBpe(corpus(30)), seed: 5, tuning: 'none' },
      dims: (vocabulary, special) => ({
        ...{ ...tinyDims(vocabulary, special), width: 48, heads: 4, kvHeads: 2, headDim: 12 },
        sections: [1, 1, 4],
      }),
    });
    made.save(from);
    exportOnnx(from, join(root, 'heads-exported'), { types: ['float32'], version: '1' });
    const runtime = await OnnxPolicy.open(join(root, 'heads-exported'));
    const asked = ['which class?', 'period 62; a longer question about the trend', 'where?'].map((words) =>
      made.encodePrompt(words, []),
    );
    const options = { temperature: 0, maxTokens: 40, seed: 0 };
    const ours = await generate(made, asked, options);
    const theirs = await generateOnnx(runtime, asked, { ...options, maxRows: 2 });
    made.dispose();
    await runtime.dispose();
    expect(theirs.map(({ ids }) => [...ids])).toEqual(ours.map(({ ids }) => [...ids]));
    expect(ours.some(({ ids }) => ids.length > 20)).toBe(true);
  });

  test.each([
    { temperature: 1 },
    { temperature: 0.7, topP: 0.9 },
    { temperature: 1.3, topK: 7, repetitionPenalty: 1.4 },
    { temperature: 0, repetitionPenalty: 2 },
  ])('draws the same tokens from the same random numbers: %o', async (sampling) => {
    const asked = [text('which class?'), ...prompts().slice(0, 2)];
    const options = {
      ...{ ...sampling, samples: 3, maxTokens: 12, seed: 5, examples: [4, 9, 1], stream: 'x' },
      skip: [new Set([1]), new Set<number>(), new Set([0, 1, 2])],
    };
    const ours = await generate(policy, asked, options);
    const heard: number[][] = [];
    const complete: string[] = [];
    const theirs = await generateOnnx(onnx, asked, {
      ...options,
      onTokens: ({ prompt, sample }, ids) => {
        heard.push([prompt, sample, ...ids]);
      },
      onResponse: ({ text: said }) => complete.push(said),
    });
    const of = (all: typeof ours) => all.map(({ prompt, sample, ids }) => [prompt, sample, ...ids]);
    expect(of(theirs)).toEqual(of(ours));
    expect(theirs).toHaveLength(5);
    expect(complete.sort()).toEqual(theirs.map((one) => one.text).sort());
    for (const { prompt, sample, ids } of theirs) {
      const own = heard.filter(([p, s]) => p === prompt && s === sample);
      expect(own.map(([, , id]) => id)).toEqual([...ids]);
    }
  });

  test('stops at the signal', async () => {
    const controller = new AbortController();
    const run = generateOnnx(onnx, [text('a')], {
      ...{ temperature: 0, maxTokens: 50, seed: 0, signal: controller.signal },
      onTokens: () => controller.abort(new Error('enough')),
    });
    await expect(run).rejects.toThrow('enough');
  });

  test('of 8-bit weights stays near the logits of all bits', async () => {
    const narrow = join(root, 'narrow');
    cpSync(exported, narrow, { recursive: true });
    for (const name of ['vision_encoder', 'embed_tokens', 'decoder_model_merged']) {
      rmSync(join(narrow, 'onnx', `${name}.onnx`));
    }
    const eight = await OnnxPolicy.open(narrow);
    expect(eight.type).toBe('int8');
    const [asked] = prompts();
    const { logits } = await eight.prefill([asked!]);
    const { logits: whole } = await onnx.prefill([asked!]);
    await eight.dispose();
    const spread = Math.max(...whole) - Math.min(...whole);
    const worst = Math.max(...logits.map((value, i) => Math.abs(value - whole[i]!)));
    expect(worst).toBeGreaterThan(0);
    expect(worst).toBeLessThan(0.1 * spread);
  });
});

describe('drawToken', () => {
  const LOGITS = fc.array(fc.double({ min: -9, max: 9, noNaN: true }), { minLength: 2, maxLength: 12 });

  test('follows the cumulative probabilities', () => {
    const logits = Float64Array.from([0.5, 0.2, 0.3], Math.log);
    const ids = [0, 0.49, 0.51, 0.69, 0.71, 0.99].map((draw) => drawToken(logits, draw, {}).id);
    expect(ids).toEqual([0, 0, 1, 1, 2, 2]);
    expect(drawToken(logits, 0.6, {}).logProb).toBeCloseTo(Math.log(0.2), 12);
    expect(drawToken(logits, 0.7, { topK: 2 }).id).toBe(2); // 0.5 and 0.3 are left
    expect(drawToken(logits, 0.999, { topP: 0.4 }).id).toBe(0);
  });

  test('takes the likeliest at temperature 0, and of one token always that one', () => {
    fc.assert(
      fc.property(LOGITS, fc.double({ min: 0, max: 0.999, noNaN: true }), (values, draw) => {
        const logits = Float64Array.from(values);
        const best = values.indexOf(Math.max(...values));
        expect(drawToken(logits, 0, { temperature: 0 }).id).toBe(best);
        const { id, logProb } = drawToken(logits, draw, { topK: 1 });
        expect(values[id]).toBeCloseTo(values[best]!, 9);
        expect(logProb).toBeLessThanOrEqual(1e-12);
      }),
    );
  });

  test('never takes what is hidden, and shows NaN in the logarithm', () => {
    expect(drawToken(Float64Array.of(-1e9, 2, -1e9), 0.999999, {}).id).toBe(1);
    expect(drawToken(Float64Array.of(1, Number.NaN), 0.5, {}).logProb).toBeNaN();
  });
});

describe('refuses', () => {
  /** A copy of the export: without its manifest, as one from elsewhere, unless `listed`. */
  const changed = (name: string, { listed = false } = {}): string => {
    const to = join(root, name);
    cpSync(exported, to, { recursive: true });
    if (!listed) rmSync(join(to, MANIFEST_FILE));
    return to;
  };
  const refusal = async (directory: string): Promise<string> => {
    const error = await OnnxPolicy.open(directory).then(
      () => null,
      (cause: unknown) => cause,
    );
    expect(error).toBeInstanceOf(CheckpointError);
    return (error as Error).message;
  };

  test('a directory without all graphs, a damaged graph, and a graph of something else', async () => {
    const incomplete = changed('incomplete');
    for (const suffix of ['', '_int8']) rmSync(join(incomplete, 'onnx', `embed_tokens${suffix}.onnx`));
    expect(await refusal(incomplete)).toMatch(/onnx: embed_tokens\.onnx missing; write the directory again/);
    const damaged = changed('damaged');
    const file = join(damaged, 'onnx/decoder_model_merged.onnx');
    writeFileSync(file, readFileSync(file).subarray(0, 5000));
    expect(await refusal(damaged)).toMatch(/decoder_model_merged\.onnx: onnxruntime cannot load it/);
    const foreign = changed('foreign');
    renameSync(join(foreign, 'onnx/embed_tokens.onnx'), join(foreign, 'onnx/vision_encoder.onnx'));
    cpSync(join(exported, 'onnx/embed_tokens.onnx'), join(foreign, 'onnx/embed_tokens.onnx'));
    expect(await refusal(foreign)).toMatch(/vision_encoder\.onnx: its inputs are not those/);
  });

  test('a graph with 4 KiB of zeros in its weights, by the manifest of its export', async () => {
    const zeros = changed('zeros', { listed: true });
    const file = join(zeros, 'onnx/decoder_model_merged.onnx');
    const bytes = readFileSync(file);
    const at = (bytes.length - 4096) >> 1;
    writeFileSync(file, bytes.fill(0, at, at + 4096));
    expect(await refusal(zeros)).toMatch(/decoder_model_merged\.onnx: differs from what was saved there/);
    // What is not opened is not read.
    const other = changed('other type', { listed: true });
    writeFileSync(join(other, 'onnx/decoder_model_merged_int8.onnx'), '');
    await (await OnnxPolicy.open(other)).dispose();
  });

  test('a pipe in the place of a graph or of its weights, at once', async () => {
    const pipe = changed('pipe');
    const file = join(pipe, 'onnx/decoder_model_merged.onnx');
    rmSync(file);
    execFileSync('mkfifo', [file]);
    expect(await refusal(pipe)).toMatch(/decoder_model_merged\.onnx: is not a regular file/);
    const outside = changed('outside');
    execFileSync('mkfifo', [join(outside, 'onnx/decoder_model_merged.onnx_data')]);
    expect(await refusal(outside)).toMatch(/decoder_model_merged\.onnx_data: is not a regular file/);
  });

  test('graphs whose sizes are not those of config.json, and a newer operator set', async () => {
    const other = changed('other');
    const file = join(other, 'config.json');
    const config = JSON.parse(readFileSync(file, 'utf8'));
    config.text_config.num_key_value_heads = 1;
    writeFileSync(file, JSON.stringify(config));
    expect(await refusal(other)).toMatch(/past_key_values\.0\.key is \[.*config\.json contradicts/);
    const newer = changed('newer');
    const graph = join(newer, 'onnx/embed_tokens.onnx');
    const bytes = readFileSync(graph);
    // The operator set, field 8 of the model: a message of the domain, empty or absent, and version 17.
    const at = [...bytes.keys()].filter(
      (i) => bytes[i] === 0x10 && bytes[i + 1] === 17 && (bytes[i - 2] === 0x42 || bytes[i - 4] === 0x42),
    );
    expect(at).toHaveLength(1);
    bytes[at[0]! + 1] = 99;
    writeFileSync(graph, bytes);
    expect(await refusal(newer)).toMatch(/embed_tokens\.onnx: onnxruntime cannot load it \(.*[Oo]pset/);
  });
});
