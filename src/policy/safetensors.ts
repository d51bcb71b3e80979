/**
 * Safetensors files: 8 bytes little-endian header length, a JSON header {name: {dtype, shape, data_offsets}},
 * then the tensors' bytes. Source: the format description of huggingface/safetensors, whose rules are all checked: the
 * tensors cover the data without gaps or overlaps, and no name appears twice.
 */
import { closeSync, existsSync, fstatSync, readdirSync, readSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { CheckpointError, DataError, reasonOf } from '../ground/errors.ts';
import { openRegular, writeFileAtomic, writeJson } from '../ground/files.ts';
import { isObject } from '../ground/json-record.ts';
import { firstNames } from '../ground/terminal.ts';
import { isCount, readJson } from './json-file.ts';

const MAX_HEADER = 100_000_000;

/** Bytes of one element of the dtypes that are read and written. */
export const STORED_BYTES = { F64: 8, F32: 4, F16: 2, BF16: 2 } as const;

export type StoredDType = keyof typeof STORED_BYTES;

/** Tensor of a file: position of its bytes, which are read on demand. */
export interface StoredTensor {
  readonly name: string;
  readonly file: string;
  /** Offset of its first byte in the file. */
  readonly offset: number;
  readonly shape: readonly number[];
  readonly dtype: StoredDType;
}

/** A tensor to be written: its bytes in pieces, taken when its turn comes. */
export interface WrittenTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly dtype: StoredDType;
  readonly bytes: () => Iterable<Uint8Array>;
}

export const elements = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);

/** Reads `length` bytes of an open file from `offset` on. @throws CheckpointError when it ends before */
export function readAt(handle: number, file: string, offset: number, length: number): Uint8Array {
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

/** Opens a file for the time of `body`; what the system says against it becomes a CheckpointError. */
export function withFile<T>(file: string, body: (handle: number) => T): T {
  try {
    const { handle } = openRegular(file);
    try {
      return body(handle);
    } finally {
      closeSync(handle);
    }
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code;
    if (code === undefined && !(cause instanceof DataError)) throw cause;
    const why = code === 'ENOENT' ? 'no such file' : `cannot be read (${reasonOf(cause)})`;
    throw new CheckpointError(`${file}: ${why}; a checkpoint directory holds model.safetensors or shards`, {
      cause,
    });
  }
}

/** The first key that one object of a valid JSON text holds twice: `JSON.parse` would keep the last silently. */
function repeatedKey(json: string): string | undefined {
  const open: Set<string>[] = [];
  for (const [text, string, colon] of json.matchAll(/("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?|[{}]/g)) {
    if (text === '{') open.push(new Set());
    else if (text === '}') open.pop();
    else if (colon !== undefined) {
      const key = JSON.parse(string!) as string;
      const seen = open.at(-1)!;
      if (seen.has(key)) return key;
      seen.add(key);
    }
  }
  return undefined;
}

const isCounts = (value: unknown): value is readonly number[] => Array.isArray(value) && value.every(isCount);

interface Entry {
  readonly name: string;
  readonly dtype: StoredDType;
  readonly shape: readonly number[];
  readonly start: number;
  readonly end: number;
}

function parseEntry(file: string, name: string, value: unknown): Entry {
  const fail = (problem: string): never => {
    throw new CheckpointError(`${file}: tensor ${name} ${problem}`);
  };
  if (!isObject(value)) return fail('is not described by an object; the file is damaged');
  const { dtype, shape, data_offsets: offsets } = value;
  if (typeof dtype !== 'string' || !Object.hasOwn(STORED_BYTES, dtype)) {
    const shown = typeof dtype === 'string' ? dtype : 'of no dtype';
    return fail(
      `is ${shown}; only F64, F32, F16 and BF16 weights are read: of a quantised checkpoint, take the original`,
    );
  }
  if (!isCounts(shape) || !isCounts(offsets) || offsets.length !== 2) {
    return fail('has a shape or offsets that are not counts; the file is damaged');
  }
  const [start, end] = offsets as unknown as readonly [number, number];
  const known = dtype as StoredDType;
  if (end - start !== STORED_BYTES[known] * elements(shape)) {
    return fail(`has offsets that do not match its shape [${shape.join(', ')}]; the file is damaged`);
  }
  return { name, dtype: known, shape, start, end };
}

function parseHeader(file: string, bytes: Uint8Array): Entry[] {
  let header: unknown;
  let repeated: string | undefined;
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    header = JSON.parse(text);
    repeated = repeatedKey(text);
  } catch (cause) {
    throw new CheckpointError(`${file}: the header is not JSON; the file is damaged, copy it again`, {
      cause,
    });
  }
  if (!isObject(header)) throw new CheckpointError(`${file}: the header is no object; the file is damaged`);
  if (repeated !== undefined) {
    throw new CheckpointError(`${file}: the header holds ${repeated} twice; the file is damaged`);
  }
  const entries: Entry[] = [];
  for (const [name, value] of Object.entries(header)) {
    if (name !== '__metadata__') entries.push(parseEntry(file, name, value));
  }
  return entries.sort((a, b) => a.start - b.start || a.end - b.end);
}

/**
 * The tensors that a header describes, in the order of their bytes.
 * @param file its name; @param header its bytes after the first eight; @param size of the file, bytes.
 * @throws CheckpointError when the header is not one, or of another file.
 */
export function describedTensors(file: string, header: Uint8Array, size: number): Map<string, StoredTensor> {
  const data = 8 + header.length;
  const tensors = new Map<string, StoredTensor>();
  let covered = 0;
  let before = 'the header';
  for (const { name, dtype, shape, start, end } of parseHeader(file, header)) {
    if (start !== covered) {
      throw new CheckpointError(
        `${file}: tensor ${name} ${start < covered ? 'overlaps' : 'leaves a gap after'} ${before}; the file is damaged`,
      );
    }
    if (data + end > size) {
      throw new CheckpointError(
        `${file}: tensor ${name} ends at byte ${data + end} of ${size}; the file is truncated, copy it again`,
      );
    }
    tensors.set(name, { name, file, offset: data + start, shape, dtype });
    covered = end;
    before = name;
  }
  if (data + covered !== size) {
    throw new CheckpointError(
      `${file}: ${size - data - covered} bytes follow the last tensor; the file is damaged, copy it again`,
    );
  }
  return tensors;
}

/**
 * Lists the tensors of one file; their bytes stay on the disk.
 * @throws CheckpointError when the file is missing, truncated or not safetensors; names the tensor concerned.
 */
export function openSafetensors(file: string): Map<string, StoredTensor> {
  return withFile(file, (handle) => {
    const size = fstatSync(handle).size;
    if (size < 8) {
      throw new CheckpointError(
        `${file}: ${size} bytes is too short for safetensors; it is truncated, copy it again`,
      );
    }
    const length = Number(new DataView(readAt(handle, file, 0, 8).buffer).getBigUint64(0, true));
    if (length > MAX_HEADER || 8 + length > size) {
      throw new CheckpointError(
        `${file}: header of ${length} bytes does not fit in ${size}; it is truncated or not safetensors`,
      );
    }
    return describedTensors(file, readAt(handle, file, 8, length), size);
  });
}

/** Writes tensors, in the given order, as one file. At most one piece of one tensor is held at a time. */
export function writeSafetensors(file: string, tensors: readonly WrittenTensor[]): void {
  const header: Record<string, unknown> = { __metadata__: { format: 'pt' } };
  const ends: number[] = [];
  let offset = 0;
  for (const tensor of tensors) {
    const { dtype } = tensor;
    const end = offset + STORED_BYTES[dtype] * elements(tensor.shape);
    header[tensor.name] = { dtype, shape: tensor.shape, data_offsets: [offset, end] };
    ends.push(end);
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
    let written = 0;
    for (const [i, tensor] of tensors.entries()) {
      for (const piece of tensor.bytes()) {
        written += piece.byteLength;
        yield piece;
      }
      if (written !== ends[i]) {
        throw new CheckpointError(
          `${file}: tensor ${tensor.name} is not of the size of its shape [${tensor.shape.join(', ')}]`,
        );
      }
    }
  }
  writeFileAtomic(file, chunks());
}

/** Weights of a checkpoint directory: one file, or shards with an index that gives the shard of each tensor. */
export const WEIGHTS = 'model.safetensors';
export const INDEX = 'model.safetensors.index.json';
const SHARD = /^model-\d{5}-of-\d{5}\.safetensors$/;

/** Largest shard, bytes, unless told otherwise: the 5 GB of huggingface_hub. */
const SHARD_BYTES = 5e9;

/** Lists the names of at most eight tensors or files, and the number of the others. */
export const listed = (names: readonly string[]): string => firstNames(names, 8);

/** Reads the shard of each tensor from an index. @throws CheckpointError when it is damaged, or names no tensor */
export function readIndex(file: string): Map<string, string> {
  const map: unknown = Object(readJson(file)).weight_map;
  if (!isObject(map) || Object.keys(map).length === 0) {
    throw new CheckpointError(`${file}: 'weight_map' is missing; the file is damaged, copy it again`);
  }
  const entries = new Map<string, string>();
  for (const [name, shard] of Object.entries(map)) {
    if (typeof shard !== 'string' || /^\.{0,2}$|[/\\]/.test(shard)) {
      throw new CheckpointError(`${file}: tensor ${name} must name a file of the same directory`);
    }
    entries.set(name, shard);
  }
  return entries;
}

/** Describes what a directory without weights contains instead, for the error message. */
function without(directory: string): CheckpointError {
  const names = existsSync(directory) ? readdirSync(directory) : [];
  const hint = names.some((name) => SHARD.test(name))
    ? `it has shards but no ${INDEX}, copy that too`
    : names.some((name) => /\.(bin|pt|pth|gguf)$/.test(name))
      ? 'only safetensors are read: save it as such with transformers'
      : names.includes('onnx')
        ? 'its ONNX graphs answer and cannot be trained or exported again; take the directory that they were made from'
        : 'copy the weights there';
  return new CheckpointError(`${join(directory, WEIGHTS)}: no such file, and no ${INDEX} beside it; ${hint}`);
}

/**
 * The tensors of a checkpoint directory: `model.safetensors`, or else the shards of `model.safetensors.index.json` (the
 * order in which transformers looks). The sizes that the index states are not compared with anything.
 * @throws CheckpointError as `openSafetensors`, and when index and shards do not name the same tensors.
 */
export function openCheckpoint(directory: string): Map<string, StoredTensor> {
  if (existsSync(join(directory, WEIGHTS))) return openSafetensors(join(directory, WEIGHTS));
  const index = join(directory, INDEX);
  if (!existsSync(index)) throw without(directory);
  const map = readIndex(index);
  const shards = [...new Set(map.values())];
  const absent = shards.filter((shard) => !existsSync(join(directory, shard)));
  if (absent.length > 0) {
    throw new CheckpointError(
      `${index}: ${absent.length} of ${shards.length} shards are not in the directory: ${listed(absent)}; copy them too`,
    );
  }
  const tensors = new Map<string, StoredTensor>();
  for (const shard of shards) {
    const file = join(directory, shard);
    const stored = openSafetensors(file);
    const lost = [...map].filter(([name, of]) => of === shard && !stored.has(name)).map(([name]) => name);
    if (lost.length > 0) {
      throw new CheckpointError(
        `${file}: tensor ${listed(lost)} is missing, but ${INDEX} names it there; take both from one checkpoint`,
      );
    }
    const extra = [...stored.keys()].filter((name) => map.get(name) !== shard);
    if (extra.length > 0) {
      throw new CheckpointError(
        `${file}: tensor ${listed(extra)} is there, but not according to ${INDEX}; take both from one checkpoint`,
      );
    }
    for (const [name, tensor] of stored) tensors.set(name, tensor);
  }
  return tensors;
}

/**
 * Writes tensors in their order: `model.safetensors` where they fit, otherwise shards of at most `shardBytes` (a larger
 * tensor gets one of its own) and their index, as `save_pretrained` does. Weights of an earlier save go.
 */
export function writeCheckpoint(
  directory: string,
  tensors: readonly WrittenTensor[],
  shardBytes = SHARD_BYTES,
): void {
  const shards: WrittenTensor[][] = [];
  let room = 0;
  let total = 0;
  for (const tensor of tensors) {
    const bytes = elements(tensor.shape) * STORED_BYTES[tensor.dtype];
    if (shards.length === 0 || bytes > room) {
      shards.push([]);
      room = shardBytes;
    }
    shards.at(-1)!.push(tensor);
    room -= bytes;
    total += bytes;
  }
  const five = (n: number): string => String(n).padStart(5, '0');
  const names = shards.map((_, i) =>
    shards.length === 1 ? WEIGHTS : `model-${five(i + 1)}-of-${five(shards.length)}.safetensors`,
  );
  for (const [i, shard] of shards.entries()) writeSafetensors(join(directory, names[i]!), shard);
  if (shards.length > 1) {
    const map = shards.flatMap((shard, i) => shard.map(({ name }) => [name, names[i]!] as const));
    const index = {
      metadata: {
        total_parameters: tensors.reduce((sum, { shape }) => sum + elements(shape), 0),
        total_size: total,
      },
      weight_map: Object.fromEntries(map.sort(([a], [b]) => (a < b ? -1 : 1))),
    };
    writeJson(join(directory, INDEX), index);
  }
  for (const name of readdirSync(directory)) {
    const weights = name === WEIGHTS || SHARD.test(name) || (name === INDEX && shards.length === 1);
    if (weights && !names.includes(name)) rmSync(join(directory, name));
  }
}
