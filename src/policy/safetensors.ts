/**
 * Safetensors files: 8 bytes little-endian header length, a JSON header {name: {dtype, shape, data_offsets}},
 * then the tensors' bytes. Source: the format description of huggingface/safetensors. Floats enter and leave as
 * float32; F16 and BF16 are widened on reading.
 */
import { closeSync, existsSync, fstatSync, openSync, readFileSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { CheckpointError } from '../errors.ts';
import { writeFileAtomic } from '../files.ts';

const MAX_HEADER = 100_000_000;
const BYTES: Readonly<Record<string, number>> = { F32: 4, F16: 2, BF16: 2 };

/** One tensor of an open checkpoint. */
export interface StoredTensor {
  readonly name: string;
  readonly file: string;
  readonly shape: readonly number[];
  readonly dtype: string;
  /** Reads the values as float32, row-major. */
  readonly read: () => Float32Array;
}

const halves = new Float32Array(65536);
let halvesReady = false;

/** All 65 536 half-precision values, by bit pattern. */
function halfTable(): Float32Array {
  if (!halvesReady) {
    for (let bits = 0; bits < 65536; bits++) {
      const sign = bits & 0x8000 ? -1 : 1;
      const exponent = (bits >> 10) & 31;
      const fraction = bits & 1023;
      halves[bits] =
        exponent === 31
          ? fraction === 0
            ? sign * Number.POSITIVE_INFINITY
            : Number.NaN
          : exponent === 0
            ? sign * fraction * 2 ** -24
            : sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
    }
    halvesReady = true;
  }
  return halves;
}

function widen(bytes: Uint8Array, dtype: string): Float32Array {
  if (dtype === 'F32') return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
  const words = new Uint16Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 2);
  const out = new Float32Array(words.length);
  if (dtype === 'BF16') {
    const bits = new Uint32Array(out.buffer);
    for (let i = 0; i < words.length; i++) bits[i] = words[i]! << 16;
  } else {
    const table = halfTable();
    for (let i = 0; i < words.length; i++) out[i] = table[words[i]!]!;
  }
  return out;
}

function readAt(handle: number, file: string, offset: number, length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  for (let done = 0; done < length; ) {
    const got = readSync(handle, bytes, done, length - done, offset + done);
    if (got === 0)
      throw new CheckpointError(
        `${file}: ends before byte ${offset + length}; it is truncated, copy it again`,
      );
    done += got;
  }
  return bytes;
}

/**
 * Lists the tensors of one file; their bytes are read only when asked for.
 * @throws CheckpointError when the file is missing, truncated or not safetensors; names the tensor concerned.
 */
export function openSafetensors(file: string): Map<string, StoredTensor> {
  if (!existsSync(file))
    throw new CheckpointError(`${file}: no such file; a checkpoint directory holds model.safetensors`);
  const handle = openSync(file, 'r');
  try {
    const size = fstatSync(handle).size;
    if (size < 8)
      throw new CheckpointError(
        `${file}: ${size} bytes is too short for safetensors; it is truncated, copy it again`,
      );
    const length = Number(new DataView(readAt(handle, file, 0, 8).buffer).getBigUint64(0, true));
    if (length > MAX_HEADER || 8 + length > size) {
      throw new CheckpointError(
        `${file}: header of ${length} bytes does not fit in ${size}; it is truncated or not safetensors`,
      );
    }
    let header: Record<string, { dtype: string; shape: number[]; data_offsets: [number, number] }>;
    try {
      header = JSON.parse(new TextDecoder().decode(readAt(handle, file, 8, length)));
    } catch (cause) {
      throw new CheckpointError(`${file}: the header is not JSON; the file is damaged, copy it again`, {
        cause,
      });
    }
    const tensors = new Map<string, StoredTensor>();
    for (const [name, entry] of Object.entries(header)) {
      if (name === '__metadata__') continue;
      const { dtype, shape } = entry;
      const [start, end] = entry.data_offsets ?? [];
      const width = BYTES[dtype];
      if (width === undefined) {
        throw new CheckpointError(
          `${file}: tensor ${name} is ${dtype}; only F32, F16 and BF16 weights are read (no quantised ones)`,
        );
      }
      if (
        !Array.isArray(shape) ||
        start === undefined ||
        end === undefined ||
        end - start !== width * shape.reduce((a, b) => a * b, 1)
      ) {
        throw new CheckpointError(
          `${file}: tensor ${name} has offsets that do not match its shape; the file is damaged`,
        );
      }
      if (8 + length + end > size) {
        throw new CheckpointError(
          `${file}: tensor ${name} ends at byte ${8 + length + end} of ${size}; the file is truncated, copy it again`,
        );
      }
      const read = (): Float32Array => {
        const again = openSync(file, 'r');
        try {
          return widen(readAt(again, file, 8 + length + start, end - start), dtype);
        } finally {
          closeSync(again);
        }
      };
      tensors.set(name, { name, file, shape, dtype, read });
    }
    return tensors;
  } finally {
    closeSync(handle);
  }
}

/**
 * The tensors of a checkpoint directory: `model.safetensors`, or the shards of `model.safetensors.index.json`.
 * @throws CheckpointError as `openSafetensors`, and when a shard lacks a tensor that the index promises.
 */
export function openCheckpoint(directory: string): Map<string, StoredTensor> {
  const index = join(directory, 'model.safetensors.index.json');
  if (!existsSync(index)) return openSafetensors(join(directory, 'model.safetensors'));
  let map: unknown;
  try {
    map = (JSON.parse(readFileSync(index, 'utf8')) as { weight_map?: unknown }).weight_map;
  } catch (cause) {
    throw new CheckpointError(`${index}: not JSON; the file is damaged, copy it again`, { cause });
  }
  if (typeof map !== 'object' || map === null) throw new CheckpointError(`${index}: 'weight_map' is missing`);
  const shards = new Map<string, Map<string, StoredTensor>>();
  const tensors = new Map<string, StoredTensor>();
  for (const [name, shard] of Object.entries(map)) {
    if (typeof shard !== 'string' || shard.includes('/') || shard.includes('\\')) {
      throw new CheckpointError(`${index}: tensor ${name} must name a file of the same directory`);
    }
    const file = join(directory, shard);
    const opened = shards.get(shard) ?? openSafetensors(file);
    shards.set(shard, opened);
    const tensor = opened.get(name);
    if (tensor === undefined)
      throw new CheckpointError(`${file}: tensor ${name} is missing, but the index names it there`);
    tensors.set(name, tensor);
  }
  return tensors;
}

/** Writes float32 tensors, in the given order, as one file. Values are taken one tensor at a time. */
export function writeSafetensors(
  file: string,
  tensors: readonly {
    readonly name: string;
    readonly shape: readonly number[];
    readonly values: () => Float32Array;
  }[],
): void {
  const header: Record<string, unknown> = { __metadata__: { format: 'pt' } };
  let offset = 0;
  for (const { name, shape } of tensors) {
    const end = offset + 4 * shape.reduce((a, b) => a * b, 1);
    header[name] = { dtype: 'F32', shape, data_offsets: [offset, end] };
    offset = end;
  }
  let json = JSON.stringify(header);
  json += ' '.repeat((8 - (Buffer.byteLength(json) % 8)) % 8); // data starts aligned, as the reference writes it
  const text = Buffer.from(json, 'utf8');
  const prefix = Buffer.alloc(8);
  prefix.writeBigUInt64LE(BigInt(text.length));
  function* chunks(): Generator<Uint8Array> {
    yield prefix;
    yield text;
    for (const { name, shape, values } of tensors) {
      const data = values();
      if (data.length !== shape.reduce((a, b) => a * b, 1)) {
        throw new CheckpointError(
          `${file}: tensor ${name} has ${data.length} values for shape [${shape.join(', ')}]`,
        );
      }
      yield new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    }
  }
  writeFileAtomic(file, chunks());
}
