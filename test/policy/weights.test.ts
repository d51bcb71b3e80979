import {
  closeSync,
  cpSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CheckpointError, EngineError } from '../../src/ground/errors.ts';
import { Policy } from '../../src/policy/policy.ts';
import { elements, openSafetensors } from '../../src/policy/safetensors.ts';
import { trainBpe } from '../../src/policy/tokenizer.ts';
import { loadTensor, tensorBytes } from '../../src/policy/weights.ts';
import { readTensor } from '../helpers/safetensors.ts';
import { corpus } from './corpus.ts';
import { brains, craft, craftText, type Entry, floats } from './craft.ts';
import { engine, GOLDEN } from './golden.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'weights-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

/** The flat weights as bytes: comparing a million floats one by one is slow. */
function bytes(policy: Policy): Buffer {
  return Buffer.from(engine.floats(policy.flat).buffer);
}

/** All tensors of the tiny checkpoint, to be tampered with. */
function tiny(): Record<string, Entry> {
  const out: Record<string, Entry> = {};
  for (const [name, tensor] of openSafetensors(join(GOLDEN, 'model.safetensors'))) {
    const values = readTensor(tensor);
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

  it('names the file that is cut while its tensors are read', () => {
    const file = join(directory, 'model.safetensors');
    cpSync(join(GOLDEN, 'model.safetensors'), file);
    const tensors = [...openSafetensors(file).values()];
    const size = Math.max(...tensors.map(({ shape }) => elements(shape)));
    engine.scope(() => {
      const flat = engine.zeros([size]);
      loadTensor(engine, tensors[0]!, flat, 0);
      truncateSync(file, tensors[1]!.offset + 4);
      expect(() => loadTensor(engine, tensors[1]!, flat, 0)).toThrow(EngineError);
      expect(() => loadTensor(engine, tensors[1]!, flat, 0)).toThrow(
        `model.safetensors: cannot be read as float32 [${elements(tensors[1]!.shape)}]`,
      );
      expect([...engine.floats(engine.narrow(flat, 0, 0, 4))]).toEqual([
        ...readTensor(tensors[0]!).slice(0, 4),
      ]);
    });
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

  it('lists every problem, eight names of each at most', () => {
    const load = tampered((e) => {
      for (const name of Object.keys(e).filter((key) => key.startsWith('visual.blocks.1.'))) delete e[name];
      e['model.norm.weight']!.shape = [16, 2];
      e['model.layers.0.mlp.up_proj.weight']!.shape.reverse();
      Object.assign(e, { extra: { dtype: 'F16', shape: [1], bytes: Buffer.alloc(2) } });
    });
    expect(load).toThrow(CheckpointError);
    expect(load).toThrow(
      /differ; 12 missing: (visual\.blocks\.1\.\S+, ){7}visual\.blocks\.1\.\S+ and 4 more; /,
    );
    expect(load).toThrow(/; 1 not part of this policy: extra; 2 of another shape: /);
    expect(load).toThrow('model.norm.weight is [16, 2] instead of [32]');
    expect(load).toThrow('up_proj.weight is [32, 44] instead of [44, 32]');
  });

  it('says how the head may be tied when it is missing', () => {
    expect(tampered((e) => delete e['lm_head.weight'])).toThrow(
      /1 missing: lm_head\.weight\. .* 'tie_word_embeddings': true/,
    );
  });

  it('holds a tied head once, under either name, and refuses one that differs', () => {
    const tied = (change: (entries: Record<string, Entry>) => void): (() => Policy) => {
      const load = tampered((entries) => {
        entries['lm_head.weight'] = { ...entries['model.embed_tokens.weight']! };
        change(entries);
      });
      const file = join(directory, 'config.json');
      const config = JSON.parse(readFileSync(file, 'utf8'));
      writeFileSync(file, JSON.stringify({ ...config, tie_word_embeddings: true }));
      return load;
    };
    const plain = tied((e) => delete e['lm_head.weight'])();
    for (const change of [() => {}, (e: Record<string, Entry>) => delete e['model.embed_tokens.weight']]) {
      const policy = tied(change)();
      expect(policy.layout.size).toBe(plain.layout.size);
      expect(bytes(policy).equals(bytes(plain))).toBe(true);
      policy.dispose();
    }
    plain.dispose();
    const other = tied((e) => {
      const copy = Buffer.from(e['lm_head.weight']!.bytes);
      copy.writeFloatLE(9, 400);
      e['lm_head.weight']!.bytes = copy;
    });
    expect(other).toThrow(
      /tensor lm_head\.weight differs from the embedding.*'tie_word_embeddings' to false/,
    );
  });

  it('refuses the same weights by two names', () => {
    const twice = tampered((e) => (e['model.language_model.norm.weight'] = { ...e['model.norm.weight']! }));
    expect(twice).toThrow(/tensors model\.\S*norm\.weight and model\.\S*norm\.weight are the same weights/);
  });

  it('converts tensors of all dtypes, mixed in one file, to that of the policy', () => {
    const widths = ['F32', 'BF16', 'F64'];
    const load = tampered((entries) => {
      for (const [i, entry] of Object.values(entries).entries()) {
        const values = new Float32Array(
          entry.bytes.buffer.slice(entry.bytes.byteOffset, entry.bytes.byteOffset + entry.bytes.length),
        );
        entry.dtype = widths[i % 3]!;
        if (entry.dtype === 'BF16') entry.bytes = brains(values);
        if (entry.dtype === 'F64') entry.bytes = Buffer.from(Float64Array.from(values).buffer);
      }
    });
    const plain = Policy.load(engine, GOLDEN);
    const mixed = load();
    expect(bytes(mixed).equals(bytes(plain))).toBe(true);
    expect(mixed.dtype).toBe('float32');
    plain.dispose();
    mixed.dispose();
  });

  it('names a tensor that its dtype can hold and that of the policy cannot', () => {
    const name = 'visual.blocks.2.norm1.weight';
    const load = tampered((e) => {
      e[name]!.dtype = 'F64';
      e[name]!.bytes = Buffer.from(new Float64Array(24).fill(1e39).buffer);
    });
    expect(load).toThrow(`tensor ${name} holds NaN or Infinity (as float32)`);
  });

  it('takes values whose sum no float32 holds, but no infinities of either sign', () => {
    const norm = (...values: number[]) =>
      tampered(
        (e) =>
          (e['model.norm.weight']!.bytes = floats(Array.from({ length: 32 }, (_, i) => values[i] ?? 0.5))),
      );
    const policy = norm(3e38, 2e38, -1e38)();
    expect([...engine.floats(policy.weights.norm).subarray(0, 4)]).toEqual(
      [3e38, 2e38, -1e38, 0.5].map(Math.fround),
    );
    policy.dispose();
    expect(norm(Number.POSITIVE_INFINITY, 1, Number.NEGATIVE_INFINITY)).toThrow(
      /norm\.weight holds NaN or Infinity/,
    );
    expect(norm(3e38, 3e38, Number.NEGATIVE_INFINITY)).toThrow(/norm\.weight holds NaN or Infinity/);
  });

  it('moves a tensor of several slices whole, into and out of a flat one', () => {
    const file = join(directory, 'large.safetensors');
    const size = 2 ** 23 + 6; // one slice and a little
    craftText(
      file,
      JSON.stringify({ large: { dtype: 'BF16', shape: [2, size / 2], data_offsets: [0, 2 * size] } }),
      Buffer.alloc(0),
    );
    const end = statSync(file).size + 2 * size;
    truncateSync(file, end); // zeros that take no room
    const handle = openSync(file, 'r+');
    writeSync(handle, brains([1.5, -2, 3, -4]), 0, 8, end - 16); // two before the end of the slice, two behind it
    closeSync(handle);
    engine.scope(() => {
      const flat = engine.zeros([size + 4], 'bfloat16');
      loadTensor(engine, openSafetensors(file).get('large')!, flat, 3);
      expect([...engine.floats(engine.narrow(flat, 0, size - 6, 10))]).toEqual([
        0, 1.5, -2, 3, -4, 0, 0, 0, 0, 0,
      ]);
      const pieces = [...tensorBytes(engine, flat, 3, size)];
      expect(pieces.map((piece) => piece.length)).toEqual([2 ** 24, 12]);
      expect(Buffer.concat(pieces).subarray(-16, -8)).toEqual(brains([1.5, -2, 3, -4]));
    });
  });

  it.each([
    [
      'transformers 5',
      /^(?:model|visual)\./,
      (name: string) => name.replace(/^model\./, 'language_model.').replace(/^/, 'model.'),
    ],
    ['wrapped models', /^(?:model|lm_head)\./, (name: string) => `language_model.${name}`],
  ])('reads the module names of %s too', (_, which, rename) => {
    const load = tampered((entries) => {
      for (const [name, entry] of Object.entries(entries)) {
        delete entries[name];
        entries[which.test(name) ? rename(name) : name] = entry;
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
