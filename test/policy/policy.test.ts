import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CheckpointError, EngineError } from '../../src/ground/errors.ts';
import { MANIFEST_FILE } from '../../src/ground/manifest.ts';
import { Policy } from '../../src/policy/policy.ts';
import { openCheckpoint, openSafetensors } from '../../src/policy/safetensors.ts';
import { trainBpe } from '../../src/policy/tokenizer.ts';
import { loadShared, WorkerGroup } from '../../src/train/worker-group.ts';
import { DEVICE } from '../helpers/device.ts';
import { corpus } from './corpus.ts';
import { brains } from './craft.ts';
import { engine, GOLDEN } from './golden.ts';

let directory: string;
let live: number;
beforeEach(() => {
  live = engine.live();
  directory = mkdtempSync(join(tmpdir(), 'policy-'));
});
afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
  expect(engine.live()).toBe(live);
});

const json = (...path: string[]): Record<string, unknown> => JSON.parse(readFileSync(join(...path), 'utf8'));

/** A copy of the golden checkpoint with other contents of some files. */
function copied(files: Record<string, unknown>): string {
  const source = join(directory, 'source');
  cpSync(GOLDEN, source, { recursive: true });
  for (const [name, content] of Object.entries(files)) {
    writeFileSync(join(source, name), typeof content === 'string' ? content : JSON.stringify(content));
  }
  return source;
}

describe('the dtype of a policy', () => {
  it.runIf(DEVICE === 'cpu')(
    'is float32 on the CPU, whatever the checkpoint says, unless asked otherwise',
    () => {
      const source = copied({ 'config.json': { ...json(GOLDEN, 'config.json'), dtype: 'bfloat16' } });
      const usual = Policy.load(engine, source);
      const half = Policy.load(engine, source, { dtype: 'bfloat16' });
      expect([usual.dtype, half.dtype, half.weights.norm.dtype]).toEqual(['float32', 'bfloat16', 'bfloat16']);
      expect(Buffer.from(engine.bytes(half.flat))).toEqual(brains(engine.floats(usual.flat)));
      usual.dispose();
      half.dispose();
    },
  );

  it.runIf(DEVICE === 'cpu')('is what it is saved in, with what config.json says of it', () => {
    const half = Policy.load(engine, GOLDEN, { dtype: 'bfloat16' });
    half.save(join(directory, 'half'));
    expect(json(directory, 'half', 'config.json')).toEqual({
      ...json(GOLDEN, 'config.json'),
      dtype: 'bfloat16',
    });
    const stored = openSafetensors(join(directory, 'half', 'model.safetensors'));
    expect(new Set([...stored.values()].map(({ dtype }) => dtype))).toEqual(new Set(['BF16']));
    const again = Policy.load(engine, join(directory, 'half'));
    const plain = Policy.load(engine, GOLDEN);
    expect(Buffer.from(engine.bytes(again.flat)).equals(engine.bytes(plain.flat))).toBe(true); // few mantissa bits
    for (const policy of [half, again, plain]) policy.dispose();
  });

  it('may be chosen for random weights, which are then those of float32 rounded', () => {
    const tokenizer = trainBpe(corpus(30));
    const [plain, half] = (['float32', 'bfloat16'] as const).map((dtype) =>
      Policy.create(engine, { tokenizer, seed: 3, dtype, tuning: 'none' }),
    );
    expect([half!.dtype, half!.parts.config['dtype'], half!.trainable.leaves.length]).toEqual([
      'bfloat16',
      'bfloat16',
      0,
    ]);
    const rounded = engine.scope(() => engine.floats(engine.cast(plain!.flat, 'bfloat16')));
    expect(Buffer.from(engine.floats(half!.flat).buffer).equals(Buffer.from(rounded.buffer))).toBe(true);
    plain!.dispose();
    half!.dispose();
  });
});

describe('a saved checkpoint', () => {
  it('is sharded where told so, and the same as a whole one', () => {
    const policy = Policy.load(engine, GOLDEN);
    const target = join(directory, 'sharded');
    policy.save(target, { shardBytes: 60_000 });
    const shards = readdirSync(target).filter((name) => name.endsWith('.safetensors'));
    expect(shards.length).toBeGreaterThan(5);
    expect(shards[0]).toBe(`model-00001-of-0000${shards.length}.safetensors`);
    expect(json(target, 'model.safetensors.index.json')['metadata']).toEqual({
      total_parameters: policy.layout.size,
      total_size: 4 * policy.layout.size,
    });
    expect([...openCheckpoint(target).keys()].sort()).toEqual([...openCheckpoint(GOLDEN).keys()].sort());
    const again = Policy.load(engine, target);
    expect(Buffer.from(engine.bytes(again.flat)).equals(engine.bytes(policy.flat))).toBe(true);
    policy.dispose();
    again.dispose();
  });

  it('is named by shard and tensor when a shard ends too early, by shard when it is not there', () => {
    const policy = Policy.load(engine, GOLDEN);
    const target = join(directory, 'sharded');
    policy.save(target, { shardBytes: 250_000 });
    rmSync(join(target, MANIFEST_FILE)); // as one from elsewhere
    policy.dispose();
    const shard = join(target, 'model-00002-of-00002.safetensors');
    truncateSync(shard, readFileSync(shard).length - 100);
    expect(() => Policy.load(engine, target)).toThrow(CheckpointError);
    expect(() => Policy.load(engine, target)).toThrow(
      /model-00002-of-00002\.safetensors: tensor visual\.\S+ ends at byte .* truncated/,
    );
    rmSync(shard);
    expect(() => Policy.load(engine, target)).toThrow(
      /index\.json: 1 of 2 shards are not in the directory: model-00002-of-00002\.safetensors;/,
    );
  });

  it('stays as it was when the one that should replace it cannot be written', () => {
    const target = join(directory, 'policy');
    const policy = Policy.load(engine, GOLDEN);
    policy.save(target);
    const before = readdirSync(target).map((name) => [name, readFileSync(join(target, name), 'base64')]);
    policy.dispose();
    expect(() => policy.save(target, { shardBytes: 60_000 })).toThrow(EngineError); // its weights are gone
    expect(readdirSync(target).map((name) => [name, readFileSync(join(target, name), 'base64')])).toEqual(
      before,
    );
    expect(readdirSync(directory)).toEqual(['policy']);
  });

  it('has every key of config.json and every file of the one that it came from, unchanged', () => {
    const { text_config, rope_parameters: _, ...rest } = json(GOLDEN, 'config.json');
    const { rope_parameters, ...text } = text_config as Record<string, unknown>;
    const { mrope_section } = rope_parameters as Record<string, unknown>;
    // The flat layout of published checkpoints, with keys that mean nothing here.
    const flat: Record<string, unknown> = {
      ...rest,
      ...text,
      model_type: 'qwen2_5_vl',
      rope_scaling: { type: 'mrope', mrope_section },
      rope_theta: 10000,
      vision_token_id: 3,
      sliding_window: 32768,
      torch_dtype: 'float16',
      made_by: ['somebody', { else: null }],
    };
    delete flat['dtype'];
    const files = {
      'generation_config.json': '{"temperature":0.5,"note":"\u00fc"}',
      'merges.txt': '#version: 0.2\nĠ t\n',
      'vocab.json': '{"a":0}\n\n',
      'chat_template.json': { chat_template: 'unused' },
      'video_preprocessor_config.json': '\ufeff{}',
      LICENSE: 'Permission is granted\n',
    };
    const source = copied({ 'config.json': flat, ...files, 'README.md': 'a model', 'training.json': '{}' });
    const policy = Policy.load(engine, source, { dtype: 'bfloat16' });
    const target = join(directory, 'target');
    policy.save(target);
    expect(json(target, 'config.json')).toEqual({ ...flat, torch_dtype: 'bfloat16' });
    expect(Object.keys(json(target, 'config.json'))).toEqual(Object.keys(flat));
    const carried = [
      ...Object.keys(files),
      'chat_template.jinja',
      'preprocessor_config.json',
      'tokenizer.json',
      'tokenizer_config.json',
    ];
    for (const name of carried) {
      expect(readFileSync(join(target, name)).equals(readFileSync(join(source, name)))).toBe(true);
    }
    expect(readdirSync(target).sort()).toEqual(
      [...carried, 'config.json', 'model.safetensors', MANIFEST_FILE].sort(),
    );
    const twin = new Policy(engine, structuredClone(policy.parts), engine.detach(policy.flat));
    expect(twin.parts).toEqual(policy.parts);
    twin.dispose();
    policy.dispose();
  });
});

describe('files that do not belong together', () => {
  it('are found before the weights are read', () => {
    const tokenizer = json(GOLDEN, 'tokenizer.json');
    const extra = {
      id: 296,
      content: '<|more|>',
      special: true,
      normalized: false,
      lstrip: false,
      rstrip: false,
      single_word: false,
    };
    const source = copied({
      'tokenizer.json': { ...tokenizer, added_tokens: [...(tokenizer['added_tokens'] as object[]), extra] },
      'model.safetensors': 'damaged',
    });
    expect(() => Policy.load(engine, source)).toThrow(CheckpointError);
    expect(() => Policy.load(engine, source)).toThrow(
      /source\/tokenizer\.json has 297 ids, config\.json's vocab_size is 296; take both from one checkpoint/,
    );
  });

  it('are told by the id of the image token', () => {
    const config = json(GOLDEN, 'config.json');
    const source = copied({
      'config.json': { ...config, image_token_id: Number(config['image_token_id']) + 1 },
      'model.safetensors': 'damaged',
    });
    expect(() => Policy.load(engine, source)).toThrow(
      /source\/tokenizer\.json gives <\|image_pad\|> the id \d+, config\.json's image_token_id is \d+; take both from one/,
    );
  });

  it('name another architecture before anything else', () => {
    const source = copied({ 'config.json': { model_type: 'qwen3_vl', architectures: ['Other'] } });
    rmSync(join(source, 'tokenizer.json'));
    expect(() => Policy.load(engine, source)).toThrow(
      /config\.json: 'model_type' is "qwen3_vl"; .*only Qwen2\.5-VL can/,
    );
  });

  it('name a file that is no text', () => {
    const source = copied({});
    writeFileSync(join(source, 'merges.txt'), Buffer.from([0x61, 0xff]));
    expect(() => Policy.load(engine, source)).toThrow(/merges\.txt: cannot be read as UTF-8 text/);
  });
});

describe('weights that ranks share', () => {
  it('are loaded with the options of all', () => {
    const options = { dtype: 'bfloat16', tuning: 'decoder' } as const;
    const policy = loadShared(engine, WorkerGroup.single(), GOLDEN, options);
    expect([policy.dtype, policy.tuning]).toEqual(['bfloat16', 'decoder']);
    const ticket = engine.share(policy.flat);
    const other = Policy.attach(engine, GOLDEN, ticket, { tuning: 'decoder' });
    engine.unshare(ticket);
    expect([other.dtype, other.tuning]).toEqual(['bfloat16', 'decoder']);
    expect(other.trainable.leaves.length).toBe(policy.trainable.leaves.length);
    engine.scope(() => engine.write(policy.flat, 0, 7, engine.tensor(Float32Array.of(42), [1])));
    expect(engine.floats(other.weights.embed)[7]).toBe(42);
    policy.dispose();
    other.dispose();
  });
});
