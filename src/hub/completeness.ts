/** Whether a directory is a whole policy, judged by its files alone. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { CheckpointError, reasonOf } from '../errors.ts';
import { readUtf8 } from '../files.ts';
import { parseDims } from '../policy/model-config.ts';

export const CONFIG_FILE = 'config.json';
export const INDEX_FILE = 'model.safetensors.index.json';

function readJson(file: string): unknown {
  try {
    return JSON.parse(readUtf8(file));
  } catch (error) {
    const why = error instanceof SyntaxError ? 'is not JSON' : `cannot be read (${reasonOf(error)})`;
    throw new CheckpointError(`${file}: ${why}`, { cause: error });
  }
}

/** The shards that an index names. @throws CheckpointError when it names none, or what is no plain file name */
function shardsOf(file: string): string[] {
  const raw = readJson(file);
  const map = typeof raw === 'object' && raw !== null && 'weight_map' in raw ? raw.weight_map : null;
  const names = [...new Set(typeof map === 'object' && map !== null ? Object.values(map) : [])];
  if (names.length === 0 || !names.every((name) => typeof name === 'string' && /^[^/\\]+$/.test(name))) {
    throw new CheckpointError(`${file}: 'weight_map' must give a file name for each tensor`);
  }
  return names as string[];
}

/**
 * What keeps `directory` from being a policy that can be loaded, or null: config.json, weights, tokenizer. `has` says
 * whether a file is there, or will be. @throws CheckpointError when config.json is of another architecture
 */
export function lacking(directory: string, has: (name: string) => boolean): string | null {
  if (!existsSync(join(directory, CONFIG_FILE))) return `no ${CONFIG_FILE}`;
  parseDims(readJson(join(directory, CONFIG_FILE)), join(directory, CONFIG_FILE));
  const index = join(directory, INDEX_FILE);
  const shards = existsSync(index) ? shardsOf(index) : ['model.safetensors'];
  const absent = shards.filter((name) => !has(name));
  if (absent.length > 0) {
    return `no ${absent.slice(0, 3).join(', ')}${absent.length > 3 ? ` and ${absent.length - 3} more` : ''}`;
  }
  return has('tokenizer.json') ? null : 'no tokenizer.json';
}
