import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CheckpointError } from '../../src/errors.ts';
import { trainBpe } from '../../src/policy/bpe.ts';
import { Policy } from '../../src/policy/policy.ts';
import { openSafetensors, writeSafetensors } from '../../src/policy/safetensors.ts';
import { openCheckpoint } from '../../src/policy/shards.ts';
import { corpus } from './corpus.ts';
import { engine, GOLDEN } from './golden.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'weights-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

type Entry = { dtype: string; shape: number[]; bytes: Buffer };

/** The flat weights as bytes: comparing a million floats one by one is slow. */
function bytes(policy: Policy): Buffer {
  return Buffer.from(engine.floats(policy.flat).buffer);
}

/** A safetensors file of raw bytes, written without the code under test. */
function craft(file: string, entries: Record<string, Entry>): void {
  const header: Record<string, unknown> = {};
  let offset = 0;
  for (const [name, { dtype, shape, bytes }] of Object.entries(entries)) {
    header[name] = { dtype, shape, data_offsets: [offset, offset + bytes.length] };
    offset += bytes.length;
  }
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeUInt32LE(json.length);
  writeFileSync(file, Buffer.concat([length, json, ...Object.values(entries).map(({ bytes }) => bytes)]));
}

function floats(values: number[]): Buffer {
  return Buffer.from(Float32Array.from(values).buffer);
}

/** All tensors of the tiny checkpoint, to be tampered with. */
function tiny(): Record<string, Entry> {
  const out: Record<string, Entry> = {};
  for (const [name, tensor] of openSafetensors(join(GOLDEN, 'model.safetensors'))) {
    const values = tensor.read();
    out[name] = {
      dtype: 'F32',
      shape: [...tensor.shape],
      bytes: Buffer.from(values.buffer, values.byteOffset, values.byteLength),
    };
  }
  return out;
}

function tampered(change: (entries: Record<string, Entry>) => void): () => Policy {
  cpSync(GOLDEN, directory, { recursive: true });
  const entries = tiny();
  change(entries);
  craft(join(directory, 'model.safetensors'), entries);
  return () => Policy.load(engine, directory);
}

describe('safetensors', () => {
  it('widens half precision and bfloat16 exactly', () => {
    const file = join(directory, 'x.safetensors');
    craft(file, {
      half: {
        dtype: 'F16',
        shape: [5],
        bytes: Buffer.from(Uint16Array.of(0x3c00, 0xc100, 0x0001, 0x7bff, 0x8000).buffer),
      },
      brain: { dtype: 'BF16', shape: [2, 1], bytes: Buffer.from(Uint16Array.of(0x3fc0, 0xc2f7).buffer) },
    });
    const tensors = openSafetensors(file);
    expect([...tensors.get('half')!.read()]).toEqual([1, -2.5, 2 ** -24, 65504, -0]);
    expect([...tensors.get('brain')!.read()]).toEqual([1.5, -123.5]);
    expect(tensors.get('brain')!.shape).toEqual([2, 1]);
  });

  it('reads back what it writes, data aligned to 8 bytes', () => {
    const file = join(directory, 'x.safetensors');
    const values = Float32Array.of(1.5, -2, 3e-20, 4, 5, 6);
    writeSafetensors(file, [{ name: 'ünï', shape: [2, 3], values: () => values }]);
    expect(openSafetensors(file).get('ünï')!.read()).toEqual(values);
    expect(Number(readFileSync(file).readBigUInt64LE()) % 8).toBe(0);
  });

  it('joins shards by their index, and says which shard lacks a tensor', () => {
    craft(join(directory, 'a.safetensors'), { one: { dtype: 'F32', shape: [1], bytes: floats([1]) } });
    craft(join(directory, 'b.safetensors'), { two: { dtype: 'F32', shape: [2], bytes: floats([2, 3]) } });
    const index = join(directory, 'model.safetensors.index.json');
    writeFileSync(index, JSON.stringify({ weight_map: { one: 'a.safetensors', two: 'b.safetensors' } }));
    expect([...openCheckpoint(directory).get('two')!.read()]).toEqual([2, 3]);
    writeFileSync(index, JSON.stringify({ weight_map: { one: 'b.safetensors' } }));
    expect(() => openCheckpoint(directory)).toThrow(/b\.safetensors: tensor one is missing/);
    writeFileSync(index, JSON.stringify({ weight_map: { one: '../../etc/passwd' } }));
    expect(() => openCheckpoint(directory)).toThrow(/must name a file of the same directory/);
  });

  it('refuses files that are not whole', () => {
    const file = join(directory, 'x.safetensors');
    expect(() => openSafetensors(file)).toThrow(/no such file/);
    writeFileSync(file, 'abc');
    expect(() => openSafetensors(file)).toThrow(/truncated/);
    writeFileSync(file, Buffer.concat([Buffer.from([200, 0, 0, 0, 0, 0, 0, 0]), Buffer.alloc(20)]));
    expect(() => openSafetensors(file)).toThrow(/does not fit/);
    writeFileSync(file, Buffer.concat([Buffer.from([2, 0, 0, 0, 0, 0, 0, 0]), Buffer.from('{[')]));
    expect(() => openSafetensors(file)).toThrow(/not JSON/);
    craft(file, { q: { dtype: 'I8', shape: [4], bytes: Buffer.alloc(4) } });
    expect(() => openSafetensors(file)).toThrow(/tensor q is I8/);
    craft(file, { q: { dtype: 'F32', shape: [2], bytes: Buffer.alloc(4) } });
    expect(() => openSafetensors(file)).toThrow(/tensor q has offsets/);
  });
});

describe('checkpoints', () => {
  it('names the tensor at which a file ends too early', () => {
    cpSync(GOLDEN, directory, { recursive: true });
    const file = join(directory, 'model.safetensors');
    writeFileSync(file, readFileSync(file).subarray(0, -1000));
    expect(() => Policy.load(engine, directory)).toThrow(CheckpointError);
    expect(() => Policy.load(engine, directory)).toThrow(
      /model\.safetensors: tensor visual\.\S+ ends at byte .* truncated/,
    );
  });

  it('names a missing, an unexpected, a misshaped and a non-finite tensor', () => {
    const before = engine.live();
    const name = 'model.layers.1.self_attn.k_proj.weight';
    expect(tampered((e) => delete e[name])).toThrow(`differ; 1 missing: ${name}. Take`);
    expect(
      tampered((e) => Object.assign(e, { extra: { dtype: 'F32', shape: [1], bytes: floats([0]) } })),
    ).toThrow(/differ; 1 not part of this policy: extra\./);
    expect(tampered((e) => (e[name]!.shape = [32, 16]))).toThrow(
      `1 of another shape: ${name} is [32, 16] instead of [16, 32].`,
    );
    expect(tampered((e) => e[name]!.bytes.writeFloatLE(Number.NaN, 40))).toThrow(`tensor ${name} holds NaN`);
    expect(engine.live()).toBe(before);
  });

  it('reads the module names of transformers too', () => {
    const load = tampered((entries) => {
      for (const [name, entry] of Object.entries(entries)) {
        delete entries[name];
        entries[name.replace(/^model\./, 'model.language_model.').replace(/^visual\./, 'model.visual.')] =
          entry;
      }
    });
    const renamed = load();
    const plain = Policy.load(engine, GOLDEN);
    expect(bytes(renamed).equals(bytes(plain))).toBe(true);
    renamed.dispose();
    plain.dispose();
  });

  it('saves and loads bit for bit, twice over the same directory', () => {
    const before = engine.live();
    const tokenizer = trainBpe(corpus(100));
    const target = join(directory, 'policy');
    const nano = Policy.create(engine, { tokenizer, seed: 3 });
    nano.save(target);
    nano.save(target);
    const again = Policy.load(engine, target);
    expect(bytes(again).equals(bytes(nano))).toBe(true);
    expect(again.dims).toEqual(nano.dims);
    expect(again.parts).toEqual(nano.parts);
    nano.dispose();
    again.dispose();
    expect(engine.live()).toBe(before);
  });

  it('starts equal from equal seeds, with the scale of each fan-in', () => {
    const tokenizer = trainBpe(corpus(100));
    const [a, b, c] = [3, 3, 4].map((seed) => Policy.create(engine, { tokenizer, seed }));
    expect(bytes(a!).equals(bytes(b!))).toBe(true);
    expect(bytes(a!).equals(bytes(c!))).toBe(false);
    const flat = engine.floats(a!.flat);
    const std = (name: string): number => {
      const { offset, size } = a!.layout.parameters.find((parameter) => parameter.name === name)!;
      return Math.sqrt(flat.subarray(offset, offset + size).reduce((sum, v) => sum + v * v, 0) / size);
    };
    expect(std('layers.1.gateUp') * Math.sqrt(128)).toBeCloseTo(1, 1);
    expect(std('layers.1.down') * Math.sqrt(256) * Math.sqrt(6)).toBeCloseTo(1, 1);
    expect(std('vision.0.down.weight') * Math.sqrt(128) * 2).toBeCloseTo(1, 1);
    expect(std('norm')).toBe(1);
    expect(std('layers.0.qkv.bias')).toBe(0);
    for (const policy of [a, b, c]) policy!.dispose();
  });

  it('is rebuilt over shared weights from parts that survive a structured clone', () => {
    const before = engine.live();
    const nano = Policy.create(engine, { tokenizer: trainBpe(corpus(100)), seed: 3 });
    const twin = new Policy(engine, structuredClone(nano.parts), engine.detach(nano.flat));
    expect(twin.parts).toEqual(nano.parts);
    engine.scope(() => engine.write(nano.flat, 0, 7, engine.tensor(Float32Array.of(42), [1])));
    expect(engine.floats(twin.flat)[7]).toBe(42);
    expect(engine.floats(twin.weights.embed)[7]).toBe(42);
    expect(() => new Policy(engine, nano.parts, twin.weights.norm)).toThrow(/weights of shape \[128\]/);
    const short = {
      ...nano.parts,
      config: {
        ...nano.parts.config,
        text_config: { ...Object(nano.parts.config['text_config']), vocab_size: nano.dims.vocabulary - 1 },
      },
    };
    expect(() => new Policy(engine, short, nano.flat)).toThrow(CheckpointError);
    nano.dispose();
    twin.dispose();
    expect(engine.live()).toBe(before);
  });

  it('says what is missing when the directory is no checkpoint', () => {
    expect(() => Policy.load(engine, join(directory, 'nowhere'))).toThrow(/no config\.json there/);
    cpSync(GOLDEN, directory, { recursive: true });
    writeFileSync(join(directory, 'config.json'), '{"model_type": "qwen2');
    expect(() => Policy.load(engine, directory)).toThrow(/config\.json: not JSON/);
    cpSync(GOLDEN, directory, { recursive: true });
    rmSync(join(directory, 'tokenizer.json'));
    expect(() => Policy.load(engine, directory)).toThrow(/tokenizer\.json: no such file/);
  });
});
