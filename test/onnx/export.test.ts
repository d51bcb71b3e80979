import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { main } from '../../src/cli.ts';
import { CheckpointError, ConfigError } from '../../src/ground/errors.ts';
import { MANIFEST_FILE } from '../../src/ground/manifest.ts';
import { exportOnnx } from '../../src/onnx/export.ts';
import { DATA_BYTES, DATA_TYPE } from '../../src/onnx/graph.ts';
import { parseDims } from '../../src/policy/model-config.ts';
import { openCheckpoint, writeSafetensors } from '../../src/policy/safetensors.ts';
import { decodeModel } from '../helpers/onnx-model.ts';
import { float32Tensor, readTensor } from '../helpers/safetensors.ts';
import { temporary } from '../helpers/temporary.ts';
import { writeTinyPolicy } from '../helpers/tiny-run.ts';

const root = temporary('onnx');
const policy = join(root, 'policy');
const out = join(root, 'out');
beforeAll(() => {
  writeTinyPolicy(policy);
  exportOnnx(policy, out, { types: ['float32', 'int8'], version: '1' });
});

const model = (name: string, from = out) => decodeModel(readFileSync(join(from, 'onnx', name)));

describe('an export', () => {
  test('has the files that transformers.js looks for', () => {
    expect(readdirSync(join(out, 'onnx')).sort()).toEqual([
      ...['decoder_model_merged.onnx', 'decoder_model_merged_int8.onnx', 'embed_tokens.onnx'],
      ...['embed_tokens_int8.onnx', 'vision_encoder.onnx', 'vision_encoder_int8.onnx'],
    ]);
    for (const name of [
      'config.json',
      'generation_config.json',
      'tokenizer.json',
      'tokenizer_config.json',
      'preprocessor_config.json',
    ]) {
      expect(existsSync(join(out, name))).toBe(true);
    }
    const config = JSON.parse(readFileSync(join(out, 'config.json'), 'utf8'));
    expect(parseDims(config)).toEqual(
      parseDims(JSON.parse(readFileSync(join(policy, 'config.json'), 'utf8'))),
    );
    expect(typeof config.text_config.num_key_value_heads).toBe('number');
    expect(config).not.toHaveProperty('transformers.js_config');
  });

  test('has the inputs and outputs of its layout', () => {
    const dims = parseDims(JSON.parse(readFileSync(join(policy, 'config.json'), 'utf8')));
    const shapes = (values: { name: string; shape: readonly (number | string)[] }[]) =>
      Object.fromEntries(values.map(({ name, shape }) => [name, shape]));
    const vision = model('vision_encoder.onnx');
    expect(shapes(vision.inputs)).toEqual({
      pixel_values: ['num_patches', 1176],
      image_grid_thw: ['num_images', 3],
    });
    expect(shapes(vision.outputs)).toEqual({ image_features: ['num_image_tokens', dims.width] });
    const decoder = model('decoder_model_merged.onnx');
    expect(shapes(decoder.inputs)).toMatchObject({
      inputs_embeds: ['batch_size', 'sequence_length', dims.width],
      position_ids: [3, 'batch_size', 'sequence_length'],
      'past_key_values.1.value': ['batch_size', dims.kvHeads, 'past_sequence_length', dims.headDim],
    });
    expect(Object.keys(shapes(decoder.outputs))).toHaveLength(1 + 2 * dims.layers);
    expect(shapes(decoder.outputs)['logits']).toEqual(['batch_size', 'sequence_length', dims.vocabulary]);
  });

  test.each([
    'decoder_model_merged.onnx',
    'decoder_model_merged_int8.onnx',
    'vision_encoder.onnx',
    'embed_tokens.onnx',
  ])('%s: every value is made once and before it is read, and none is left over', (name) => {
    const { nodes, initializers, inputs, outputs } = model(name);
    const made = [...inputs.map((one) => one.name), ...initializers.map((one) => one.name)];
    const known = new Set(made);
    expect(known.size).toBe(made.length);
    const read = new Set<string>();
    for (const node of nodes) {
      for (const input of node.input.filter((one) => one !== '')) {
        expect(known.has(input), `${node.name} reads ${input}`).toBe(true);
        read.add(input);
      }
      for (const output of node.output) {
        expect(known.has(output), `${output} twice`).toBe(false);
        known.add(output);
      }
    }
    for (const one of outputs) read.add(one.name);
    expect([...known].filter((value) => !read.has(value))).toEqual([]);
  });

  test('holds every weight of the policy, to the bit', () => {
    const graphs = ['vision_encoder', 'embed_tokens', 'decoder_model_merged'].map((name) =>
      model(`${name}.onnx`),
    );
    const held = new Map(
      graphs.flatMap(({ initializers }) => initializers.map((one) => [one.name, one] as const)),
    );
    for (const [name, tensor] of openCheckpoint(policy)) {
      const own = held.get(name)!;
      expect(own.dataType).toBe(DATA_TYPE.float32);
      const bytes = readFileSync(tensor.file).subarray(tensor.offset, tensor.offset + own.rawData.length);
      expect(Buffer.from(own.rawData).equals(bytes)).toBe(true);
      expect(own.rawData.length).toBe(4 * tensor.shape.reduce((a, b) => a * b, 1));
    }
    for (const one of held.values()) {
      const type = Object.entries(DATA_TYPE).find(
        ([, id]) => id === one.dataType,
      )![0] as keyof typeof DATA_BYTES;
      expect(one.rawData.length).toBe(DATA_BYTES[type] * one.dims.reduce((a, b) => a * b, 1));
    }
  });

  test('of large weights puts them beside the graph, each where it says', () => {
    const beside = join(root, 'beside');
    exportOnnx(policy, beside, { types: ['float32'], version: '1', mostInside: 1000 });
    const inside = model('decoder_model_merged.onnx');
    const { initializers } = model('decoder_model_merged.onnx', beside);
    const data = readFileSync(join(beside, 'onnx/decoder_model_merged.onnx_data'));
    const outside = initializers.filter(({ external }) => external !== null);
    expect(outside.length).toBeGreaterThan(10);
    for (const { name, external } of outside) {
      const { location, offset, length } = external!;
      expect(location).toBe('decoder_model_merged.onnx_data');
      expect(Number(offset) % 4096).toBe(0);
      const own = inside.initializers.find((one) => one.name === name)!;
      expect(data.subarray(Number(offset), Number(offset) + Number(length)).equals(own.rawData)).toBe(true);
    }
    const cut = join(root, 'cut-up');
    exportOnnx(policy, cut, { types: ['float32'], version: '1', mostInside: 1000, shardBytes: 20_000 });
    const places = model('decoder_model_merged.onnx', cut).initializers.filter(
      (one) => one.external !== null,
    );
    const names = [...new Set(places.map(({ external }) => external!.location))];
    expect(names.length).toBeGreaterThan(2);
    expect(names).toEqual(names.map((_, i) => `decoder_model_merged.onnx_data${i === 0 ? '' : `_${i}`}`));
    for (const { name, external } of places) {
      const file = readFileSync(join(cut, 'onnx', external!.location!));
      const [offset, length] = [Number(external!.offset), Number(external!.length)];
      expect(file.length <= 20_000 || file.length === length).toBe(true);
      const own = inside.initializers.find((one) => one.name === name)!;
      expect(file.subarray(offset, offset + length).equals(own.rawData)).toBe(true);
    }
    const counts = JSON.parse(readFileSync(join(cut, 'config.json'), 'utf8'))['transformers.js_config'];
    expect(counts.use_external_data_format['decoder_model_merged.onnx']).toBe(names.length);
    const config = JSON.parse(readFileSync(join(beside, 'config.json'), 'utf8'));
    expect(config['transformers.js_config'].use_external_data_format['decoder_model_merged.onnx']).toBe(1);
  });

  test('is written by the command, with the card, and never over anything', async () => {
    const given = ['export', '--onnx', '--policy', policy, '--out', join(root, 'by-command'), '--quiet'];
    expect(await main([...given, '--dtype', 'float16'])).toBe(0);
    expect(readdirSync(join(root, 'by-command/onnx'))).toContain('vision_encoder_fp16.onnx');
    expect(existsSync(join(root, 'by-command/timeseer.json'))).toBe(true);
    expect(await main(given)).toBe(2);
    expect(await main(given.filter((word) => word !== '--onnx'))).toBe(2);
  });
});

describe('refuses', () => {
  const copy = (name: string): string => {
    const to = join(root, name);
    cpSync(policy, to, { recursive: true });
    return to;
  };
  const exporting =
    (from: string, to = join(root, 'never')) =>
    () =>
      exportOnnx(from, to, { types: ['float32'], version: '1' });

  test('a directory that is no policy, another architecture, and weights that do not fit the config', () => {
    expect(exporting(root)).toThrow(CheckpointError);
    const other = copy('other');
    const file = join(other, 'config.json');
    const config = JSON.parse(readFileSync(file, 'utf8'));
    rmSync(join(other, MANIFEST_FILE)); // as one from elsewhere
    writeFileSync(file, JSON.stringify({ ...config, model_type: 'llama', architectures: ['Llama'] }));
    expect(exporting(other)).toThrow(/llama/);
    writeFileSync(
      file,
      JSON.stringify({ ...config, text_config: { ...config.text_config, intermediate_size: 44 } }),
    );
    expect(exporting(other)).toThrow(/do not fit config\.json: .*of another shape: .*\[/);
    expect(existsSync(join(root, 'never'))).toBe(false);
  });

  test('a head that is said to be the embedding and differs from it', () => {
    const twisted = copy('twisted');
    rmSync(join(twisted, MANIFEST_FILE));
    const file = join(twisted, 'config.json');
    const config = JSON.parse(readFileSync(file, 'utf8'));
    const text_config = { ...config.text_config, tie_word_embeddings: true };
    writeFileSync(file, JSON.stringify({ ...config, text_config, tie_word_embeddings: true }));
    const tensors = [...openCheckpoint(policy)]
      .filter(([name]) => name !== 'lm_head.weight')
      .map(([name, stored]) => float32Tensor(name, stored.shape, readTensor(stored)));
    const { shape } = tensors.find(({ name }) => name.endsWith('embed_tokens.weight'))!;
    const head = float32Tensor('lm_head.weight', shape, new Float32Array(shape[0]! * shape[1]!));
    writeSafetensors(join(twisted, 'model.safetensors'), [...tensors, head]);
    expect(exporting(twisted)).toThrow(/tensor lm_head\.weight differs from the embedding/);
  });

  test('a target that holds something, is a file, or is the policy itself', () => {
    const full = join(root, 'full');
    mkdirSync(full);
    writeFileSync(join(full, 'mine.txt'), 'x');
    expect(exporting(policy, full)).toThrow(ConfigError);
    expect(exporting(policy, join(full, 'mine.txt'))).toThrow(/is a file/);
    expect(exporting(policy, policy)).toThrow(/is the policy that is read/);
    expect(readdirSync(full)).toEqual(['mine.txt']);
  });

  test('weights that end too early, and leaves nothing behind', () => {
    const cut = copy('cut');
    const file = join(cut, 'model.safetensors');
    writeFileSync(file, readFileSync(file).subarray(0, -8));
    expect(exporting(cut)).toThrow(CheckpointError);
    expect(readdirSync(root).filter((name) => name.startsWith('never'))).toEqual([]);
  });
});
