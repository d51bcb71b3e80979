import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CheckpointError } from '../../src/ground/errors.ts';
import {
  describedTensors,
  openCheckpoint,
  openSafetensors,
  type StoredTensor,
  writeCheckpoint,
  writeSafetensors,
} from '../../src/policy/safetensors.ts';
import { float32Tensor, readTensor } from '../helpers/safetensors.ts';
import { brains, craft, craftText, floats } from './craft.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'safetensors-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const f32 = (...values: number[]) => ({ dtype: 'F32', shape: [values.length], bytes: floats(values) });

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
    expect([...readTensor(tensors.get('half')!)]).toEqual([1, -2.5, 2 ** -24, 65504, -0]);
    expect([...readTensor(tensors.get('brain')!)]).toEqual([1.5, -123.5]);
    expect(tensors.get('brain')!.shape).toEqual([2, 1]);
  });

  it('reads back what it writes, data aligned to 8 bytes', () => {
    const file = join(directory, 'x.safetensors');
    const values = Float32Array.of(1.5, -2, 3e-20, 4, 5, 6);
    writeSafetensors(file, [float32Tensor('ünï', [2, 3], values)]);
    expect(readTensor(openSafetensors(file).get('ünï')!)).toEqual(values);
    expect(Number(readFileSync(file).readBigUInt64LE()) % 8).toBe(0);
  });

  it('says where each tensor lies, whatever the order of the header', () => {
    const file = join(directory, 'x.safetensors');
    const header = {
      late: { dtype: 'F64', shape: [1], data_offsets: [6, 14] },
      __metadata__: { format: 'pt' },
      scalar: { dtype: 'BF16', shape: [], data_offsets: [0, 2] },
      nothing: { dtype: 'F32', shape: [0, 7], data_offsets: [2, 2] },
      early: { dtype: 'F32', shape: [1, 1], data_offsets: [2, 6] },
    };
    const data = Buffer.concat([brains([-3]), floats([7.5]), Buffer.from(Float64Array.of(0.1).buffer)]);
    craftText(file, JSON.stringify(header), data);
    const start = 8 + JSON.stringify(header).length;
    const found = [...openSafetensors(file).values()].map((tensor) => [
      tensor.name,
      tensor.offset - start,
      tensor.dtype,
      tensor.shape,
      ...readTensor(tensor),
    ]);
    expect(found).toEqual([
      ['scalar', 0, 'BF16', [], -3],
      ['nothing', 2, 'F32', [0, 7]],
      ['early', 2, 'F32', [1, 1], 7.5],
      ['late', 6, 'F64', [1], Math.fround(0.1)],
    ]);
  });

  const entry = (start: unknown, end: unknown, shape: unknown = [1], dtype = 'F32') => ({
    dtype,
    shape,
    data_offsets: [start, end],
  });
  it.each([
    ['a tensor that overlaps another', { a: entry(0, 4), b: entry(2, 6) }, /tensor b overlaps a;/],
    ['a gap between tensors', { a: entry(0, 4), b: entry(6, 10) }, /tensor b leaves a gap after a;/],
    ['a gap before the first', { a: entry(4, 8) }, /tensor a leaves a gap after the header/],
    ['data behind the last', { a: entry(0, 4) }, /16 bytes follow the last tensor/],
    ['a file that ends before its data', { a: entry(0, 40, [10]) }, /tensor a ends at byte .* truncated/],
    ['negative offsets', { a: entry(-4, 0) }, /tensor a has a shape or offsets that are not counts/],
    ['offsets in reverse', { a: entry(4, 0) }, /tensor a has offsets that do not match/],
    ['offsets beyond all integers', { a: entry(0, 2 ** 60) }, /not counts/],
    ['a shape beyond all integers', { a: entry(0, 4, [2 ** 40, 2 ** 40]) }, /do not match its shape/],
    [
      'a shape whose product overflows',
      { a: entry(0, 4, Array(40).fill(2 ** 30)) },
      /do not match its shape/,
    ],
    ['nothing times too much', { a: entry(0, 4, [...Array(40).fill(2 ** 30), 0]) }, /do not match its shape/],
    ['a negative side', { a: entry(0, 4, [-1]) }, /not counts/],
    ['a shape as text', { a: entry(0, 4, ['1']) }, /not counts/],
    ['a tensor inside another', { a: entry(0, 20, [5]), b: entry(4, 8) }, /tensor b overlaps a;/],
    ['two tensors in one place', { a: entry(0, 4), b: entry(0, 4) }, /tensor b overlaps a;/],
    ['a broken shape', { a: entry(0, 4, [0.5, 2]) }, /not counts/],
    ['a shape that is no list', { a: entry(0, 4, { length: 1 }) }, /not counts/],
    ['one offset', { a: { dtype: 'F32', shape: [1], data_offsets: [0] } }, /not counts/],
    ['a tensor that is null', { a: null }, /tensor a is not described by an object/],
    ['no dtype', { a: { shape: [1], data_offsets: [0, 4] } }, /tensor a is of no dtype/],
    ['a dtype named as a method of objects', { a: entry(0, 4, [1], 'valueOf') }, /tensor a is valueOf/],
    ['8-bit floats', { a: entry(0, 4, [4], 'F8_E4M3') }, /tensor a is F8_E4M3; .* quantised/],
    ['packed integers', { 'model.q_proj.qweight': entry(0, 4, [1], 'I32') }, /q_proj\.qweight is I32/],
    ['a header that is a list', [], /no object/],
    ['a header that is null', null, /no object/],
  ])('refuses %s', (_, header, message) => {
    const file = join(directory, 'x.safetensors');
    craftText(file, JSON.stringify(header), Buffer.alloc(20));
    expect(() => openSafetensors(file)).toThrow(CheckpointError);
    expect(() => openSafetensors(file)).toThrow(message);
  });

  const prefixed = (length: bigint, rest: string | Buffer): Buffer => {
    const prefix = Buffer.alloc(8);
    prefix.writeBigUInt64LE(length);
    return Buffer.concat([prefix, Buffer.from(rest)]);
  };
  const header = '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}';
  const size = BigInt(header.length);
  it.each([
    ['nothing', Buffer.alloc(0), /0 bytes is too short/],
    ['half a length', Buffer.alloc(7), /7 bytes is too short/],
    ['a length without a header', prefixed(54n, ''), /header of 54 bytes does not fit in 8/],
    ['a header of no bytes', prefixed(0n, ''), /the header is not JSON/],
    ['a header longer than the file', prefixed(size + 5n, `${header}data`), /does not fit/],
    ['a header of 2^63 bytes', prefixed(2n ** 63n, `${header}data`), /does not fit/],
    ['a header of 2^64 - 1 bytes', prefixed(2n ** 64n - 1n, `${header}data`), /does not fit/],
    ['a header that ends too early', prefixed(size - 1n, `${header}data`), /the header is not JSON/],
    ['a header that runs into the data', prefixed(size + 4n, `${header}data`), /the header is not JSON/],
    ['a header that is no UTF-8', prefixed(3n, Buffer.from([0x22, 0xff, 0x22])), /the header is not JSON/],
    [
      'a header behind a byte-order mark',
      prefixed(size + 3n, `\ufeff${header}data`),
      /the header is not JSON/,
    ],
    ['a header of brackets alone', prefixed(2_000_000n, '['.repeat(2_000_000)), /the header is not JSON/],
    ['a header of nested lists', prefixed(200_000n, '['.repeat(1e5) + ']'.repeat(1e5)), /header is n/],
    ['another kind of file', Buffer.from('PK\x03\x04 archive/data.pkl and so on'), /does not fit/],
  ])('refuses %s', (_, bytes, message) => {
    const file = join(directory, 'x.safetensors');
    writeFileSync(file, bytes);
    expect(() => openSafetensors(file)).toThrow(CheckpointError);
    expect(() => openSafetensors(file)).toThrow(message);
  });

  it('takes memory for no more of a header than there can be', () => {
    const file = join(directory, 'x.safetensors');
    writeFileSync(file, prefixed(200_000_000n, ''));
    truncateSync(file, 200_000_008); // a hole, which takes no disk
    expect(() => openSafetensors(file)).toThrow(/header of 200000000 bytes does not fit/);
  });

  it('refuses a key that appears twice, however it is written', () => {
    const file = join(directory, 'x.safetensors');
    const a = '{"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}';
    craftText(file, `{"a": ${a}, "\\u0061" : ${a}}`, Buffer.alloc(4));
    expect(() => openSafetensors(file)).toThrow(/the header holds a twice/);
    craftText(
      file,
      `{"a": {"dtype": "BF16", "dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}`,
      Buffer.alloc(4),
    );
    expect(() => openSafetensors(file)).toThrow(/the header holds dtype twice/);
    craftText(file, `{"a\\"{": ${a}, "__metadata__": {"a": "a", "b": "{\\"a\\": 1}"}}`, Buffer.alloc(4));
    expect([...openSafetensors(file).keys()]).toEqual(['a"{']);
  });

  it('refuses what cannot be opened as a file', () => {
    mkdirSync(join(directory, 'x.safetensors'));
    expect(() => openSafetensors(join(directory, 'x.safetensors'))).toThrow(CheckpointError);
  });

  const damage = fc.record({
    at: fc.nat({ max: 160 }),
    drop: fc.integer({ min: 0, max: 3 }),
    add: fc.oneof(
      fc.constantFrom(
        '"',
        '{',
        '}',
        '[',
        ']',
        ',',
        ':',
        '-',
        '0',
        '9',
        '1e400',
        '1e9',
        'null',
        '"a":',
        '__proto__',
      ),
      fc.string({ maxLength: 3 }),
    ),
  });
  const damaged = (bytes: Buffer, edits: readonly { at: number; drop: number; add: string }[]): Buffer =>
    edits.reduce(
      (before, { at, drop, add }) =>
        Buffer.concat([before.subarray(0, at), Buffer.from(add), before.subarray(at + drop)]),
      bytes,
    );
  const outcome = (open: () => Map<string, StoredTensor>): Map<string, StoredTensor> | null => {
    try {
      return open();
    } catch (error) {
      expect(error).toBeInstanceOf(CheckpointError);
      return null;
    }
  };

  it('gives tensors or a CheckpointError for any damage to a header', () => {
    const header = Buffer.from(
      '{"b":{"dtype":"BF16","shape":[2,1],"data_offsets":[8,12]},"__metadata__":{"format":"pt"},' +
        '"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}',
    );
    let sound = 0;
    fc.assert(
      fc.property(fc.array(damage, { maxLength: 3 }), (edits) => {
        const bytes = damaged(header, edits);
        const size = 8 + bytes.length + 12;
        for (const { shape, offset } of outcome(() => describedTensors('x', bytes, size))?.values() ?? []) {
          expect(offset).toBeGreaterThanOrEqual(8 + bytes.length);
          expect(offset + 2 * shape.reduce((a, b) => a * b, 1)).toBeLessThanOrEqual(size);
          sound += 1;
        }
      }),
      { numRuns: 5000 },
    );
    expect(sound).toBeGreaterThan(1000);
  });

  it('gives values or a CheckpointError for any damage to a file', () => {
    const file = join(directory, 'x.safetensors');
    craft(file, { 'layer.a': f32(1, 2), 'layer.b': { dtype: 'BF16', shape: [2, 1], bytes: brains([3, 4]) } });
    const whole = readFileSync(file);
    fc.assert(
      fc.property(fc.array(damage, { maxLength: 2 }), fc.nat({ max: 30 }), (edits, cut) => {
        const bytes = damaged(whole, edits);
        writeFileSync(file, bytes.subarray(0, Math.max(0, bytes.length - Math.max(0, cut - 20))));
        for (const tensor of outcome(() => openSafetensors(file))?.values() ?? []) {
          expect(readTensor(tensor).length).toBe(tensor.shape.reduce((a, b) => a * b, 1));
        }
      }),
      { numRuns: 200 },
    );
  });
});

describe('sharded checkpoints', () => {
  const index = () => join(directory, 'model.safetensors.index.json');
  const map = (weight_map: unknown, metadata: unknown = { total_size: 1 }) =>
    writeFileSync(index(), JSON.stringify({ metadata, weight_map }));

  it('are joined by their index, whose sizes are not asked', () => {
    craft(join(directory, 'a.safetensors'), { one: f32(1) });
    craft(join(directory, 'b.safetensors'), { two: f32(2, 3) });
    map({ one: 'a.safetensors', two: 'b.safetensors' });
    expect([...readTensor(openCheckpoint(directory).get('two')!)]).toEqual([2, 3]);
    expect(openCheckpoint(directory).size).toBe(2);
  });

  it('are refused when index and shards differ', () => {
    craft(join(directory, 'a.safetensors'), { one: f32(1), three: f32(4) });
    craft(join(directory, 'b.safetensors'), { two: f32(2, 3) });
    map({ one: 'b.safetensors', two: 'b.safetensors' });
    expect(() => openCheckpoint(directory)).toThrow(/b\.safetensors: tensor one is missing, but model/);
    map({ one: 'a.safetensors', two: 'b.safetensors' });
    expect(() => openCheckpoint(directory)).toThrow(
      /a\.safetensors: tensor three is there, but not according to/,
    );
    map({ one: 'a.safetensors', two: 'b.safetensors', five: 'c.safetensors', six: 'd.safetensors' });
    expect(() => openCheckpoint(directory)).toThrow(
      /2 of 4 shards are not .*: c\.safetensors, d\.safetensors;/,
    );
    map({ one: '../../etc/passwd' });
    expect(() => openCheckpoint(directory)).toThrow(/must name a file of the same directory/);
    for (const wrong of [null, [], 'x', 3]) {
      map(wrong);
      expect(() => openCheckpoint(directory)).toThrow(/'weight_map' is missing/);
    }
    writeFileSync(index(), '{"weight_map": {');
    expect(() => openCheckpoint(directory)).toThrow(/index\.json: not JSON/);
    writeFileSync(index(), 'null');
    expect(() => openCheckpoint(directory)).toThrow(CheckpointError);
  });

  it('are named when they have no index, and so are weights of another format', () => {
    expect(() => openCheckpoint(join(directory, 'nowhere'))).toThrow(
      /model\.safetensors: no such file, and no/,
    );
    writeFileSync(join(directory, 'pytorch_model.bin'), '');
    expect(() => openCheckpoint(directory)).toThrow(/only safetensors are read/);
    craft(join(directory, 'model-00001-of-00002.safetensors'), { one: f32(1) });
    expect(() => openCheckpoint(directory)).toThrow(/shards but no model\.safetensors\.index\.json/);
  });

  it('fill shards in order, a tensor that is too large alone in one, and leave nothing of an earlier save', () => {
    const tensor = (name: string, ...values: number[]) =>
      float32Tensor(name, [values.length], Float32Array.from(values));
    const brain = {
      name: 'a.brain',
      shape: [3],
      dtype: 'BF16' as const,
      bytes: () => [brains([1, 2]), brains([-3])],
    };
    const tensors = [tensor('b', 1, 2), brain, tensor('huge', 1, 2, 3, 4, 5), tensor('z', 9)];
    writeCheckpoint(directory, tensors, 16);
    const shard = (n: number) => `model-0000${n}-of-00003.safetensors`;
    expect(JSON.parse(readFileSync(index(), 'utf8'))).toEqual({
      metadata: { total_parameters: 11, total_size: 38 },
      weight_map: { 'a.brain': shard(1), b: shard(1), huge: shard(2), z: shard(3) },
    });
    const read = openCheckpoint(directory);
    expect([...readTensor(read.get('a.brain')!)]).toEqual([1, 2, -3]);
    expect([...readTensor(read.get('huge')!)]).toEqual([1, 2, 3, 4, 5]);
    writeCheckpoint(directory, tensors);
    expect(readdirSync(directory)).toEqual(['model.safetensors']);
    writeCheckpoint(directory, tensors, 20);
    expect([...readTensor(openCheckpoint(directory).get('z')!)]).toEqual([9]);
    expect(readdirSync(directory)).not.toContain('model.safetensors');
  });

  it('are not written from data that do not fill the shape', () => {
    const short = float32Tensor('short', [3], Float32Array.of(1, 2));
    expect(() => writeCheckpoint(directory, [short])).toThrow(
      /tensor short is not of the size of its shape \[3\]/,
    );
    expect(readdirSync(directory)).toEqual([]);
  });
});
