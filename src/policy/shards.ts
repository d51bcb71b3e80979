/** The tensors of a checkpoint directory: one file, or several with an index that says where each tensor is. */
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { CheckpointError } from '../errors.ts';
import { writeFileAtomic } from '../files.ts';
import { readJson } from './json-file.ts';
import {
  elements,
  openSafetensors,
  STORED_BYTES,
  type StoredTensor,
  type WrittenTensor,
  writeSafetensors,
} from './safetensors.ts';

const WEIGHTS = 'model.safetensors';
const INDEX = 'model.safetensors.index.json';
const SHARD = /^model-\d{5}-of-\d{5}\.safetensors$/;

/** Largest shard, bytes, unless told otherwise: the 5 GB of huggingface_hub. */
export const SHARD_BYTES = 5e9;

/** Names of `names`, at most eight, then how many more. */
export function listed(names: readonly string[]): string {
  const more = names.length - 8;
  return `${names.slice(0, 8).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

function readIndex(file: string): Map<string, string> {
  const json = readJson(file);
  const map: unknown = Object(json).weight_map;
  if (typeof map !== 'object' || map === null || Array.isArray(map)) {
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

/** What a directory without weights holds instead. */
function without(directory: string): CheckpointError {
  const names = existsSync(directory) ? readdirSync(directory) : [];
  const hint = names.some((name) => SHARD.test(name))
    ? `it has shards but no ${INDEX}, copy that too`
    : names.some((name) => /\.(bin|pt|pth|gguf)$/.test(name))
      ? 'only safetensors are read: save it as such with transformers'
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
    const bytes = elements(tensor.shape) * STORED_BYTES['values' in tensor ? 'F32' : tensor.dtype];
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
    writeFileAtomic(join(directory, INDEX), `${JSON.stringify(index, null, 2)}\n`);
  }
  for (const name of readdirSync(directory)) {
    const weights = name === WEIGHTS || SHARD.test(name) || (name === INDEX && shards.length === 1);
    if (weights && !names.includes(name)) rmSync(join(directory, name));
  }
}
