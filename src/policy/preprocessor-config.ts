/**
 * What is done to a picture before the vision tower sees it: a checkpoint's `preprocessor_config.json`, or the
 * `image_processor` of the `processor_config.json` that transformers 5 writes instead.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { CheckpointError } from '../errors.ts';
import type { VisionDims } from './dims.ts';
import { readJson } from './json-file.ts';
import type { Resampler } from './resize.ts';

export interface PreprocessorConfig {
  /** Name of the processor in transformers. */
  readonly type: string;
  readonly resampler: Resampler;
  readonly resize: boolean;
  readonly rescale: boolean;
  readonly normalize: boolean;
  /** Edge of a patch in pixels, patches per side of a visual token, frames of a patch. */
  readonly patch: number;
  readonly merge: number;
  readonly temporal: number;
  /** Bounds of width · height after the resize. */
  readonly minPixels: number;
  readonly maxPixels: number;
  /** Factor from bytes to [0, 1]. */
  readonly factor: number;
  readonly mean: readonly number[]; // per channel
  readonly std: readonly number[];
}

type Json = Readonly<Record<string, unknown>>;

const FILE = 'preprocessor_config.json';
const PROCESSOR_FILE = 'processor_config.json';
const CLIP_MEAN = [0.48145466, 0.4578275, 0.40821073];
const CLIP_STD = [0.26862954, 0.26130258, 0.27577711];
const BICUBIC = 3;
/** Every picture is enlarged to `min_pixels`: beyond this, 65 536 visual tokens, no context has room for one. */
const MOST_MIN_PIXELS = 65_536 * 28 * 28;

/** Names of Qwen2.5-VL's image processor; the last resizes with Pillow, the others with torchvision. */
const TYPES = ['Qwen2VLImageProcessor', 'Qwen2VLImageProcessorFast', 'Qwen2VLImageProcessorPil'];
/** Of its first release. */
const OLD_TYPE = 'Qwen2_5_VLImageProcessor';

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Reads keys of a file; null counts as absent, and every complaint names the file and the key. */
class Keys {
  readonly #json: Json;
  readonly #file: string;

  constructor(json: unknown, file: string) {
    if (!isObject(json)) throw new CheckpointError(`${file}: must hold a JSON object`);
    this.#json = json;
    this.#file = file;
  }

  get(key: string): unknown {
    return this.#json[key] ?? undefined;
  }

  fail(key: string, expected: string, got: unknown): never {
    throw new CheckpointError(
      `${this.#file}: '${key}' must be ${expected}, got ${JSON.stringify(got)}; use the file of a Qwen2.5-VL checkpoint`,
    );
  }

  /** The first of several values that is given: a positive number. */
  number(key: string, ...values: readonly unknown[]): number {
    const value = values.find((v) => v !== undefined && v !== null);
    if (typeof value === 'number' && value > 0 && Number.isFinite(value)) return value;
    return this.fail(key, 'a positive number', value);
  }

  flag(key: string): boolean {
    const value = this.get(key) ?? true;
    return typeof value === 'boolean' ? value : this.fail(key, 'true or false', value);
  }

  triple(key: string, fallback: readonly number[], ok: (v: number) => boolean, expected: string): number[] {
    const value = this.get(key) ?? fallback;
    const is = (v: unknown): v is number => typeof v === 'number' && Number.isFinite(v) && ok(v);
    if (Array.isArray(value) && value.length === 3 && value.every(is)) return value.slice();
    return this.fail(key, expected, value);
  }
}

function resamplerOf(keys: Keys, type: string): Resampler {
  if (!TYPES.includes(type) && type !== OLD_TYPE) {
    keys.fail('image_processor_type', `one of ${TYPES.join(', ')}`, type);
  }
  return type.endsWith('Pil') ? 'pillow' : 'torchvision';
}

/** Bounds of the number of pixels, under each of the names they have had. */
function bounds(keys: Keys): { minPixels: number; maxPixels: number } {
  const size = keys.get('size');
  const held: Json = isObject(size) ? size : {};
  const lower = [keys.get('min_pixels'), held['shortest_edge'], held['min_pixels']];
  const upper = [keys.get('max_pixels'), held['longest_edge'], held['max_pixels']];
  const given = (values: readonly unknown[]): boolean => values.some((v) => v !== undefined && v !== null);
  if (size !== undefined && !(given(lower) && given(upper))) {
    keys.fail('size', 'an object with shortest_edge and longest_edge, in pixels of the whole picture', size);
  }
  const minPixels = keys.number('min_pixels', ...lower, 56 * 56);
  const maxPixels = keys.number('max_pixels', ...upper, 28 * 28 * 1280);
  if (minPixels > MOST_MIN_PIXELS)
    keys.fail('min_pixels', `at most ${MOST_MIN_PIXELS}, to which every picture is enlarged`, minPixels);
  if (minPixels > maxPixels) keys.fail('min_pixels', `at most max_pixels, ${maxPixels}`, minPixels);
  return { minPixels, maxPixels };
}

/**
 * Reads a parsed `preprocessor_config.json`; an absent key takes Qwen2.5-VL's value.
 * @throws CheckpointError naming the key that is wrong or contradicts the checkpoint's vision tower
 */
export function parsePreprocessor(json: unknown, vision: VisionDims, file = FILE): PreprocessorConfig {
  const keys = new Keys(json, file);
  const type = keys.get('image_processor_type') ?? TYPES[0];
  if (typeof type !== 'string') return keys.fail('image_processor_type', 'a name', type);
  const patch = keys.number('patch_size', keys.get('patch_size'), vision.patch);
  const merge = keys.number('merge_size', keys.get('merge_size'), vision.merge);
  const temporal = keys.number('temporal_patch_size', keys.get('temporal_patch_size'), vision.temporal);
  if (patch !== vision.patch || merge !== vision.merge || temporal !== vision.temporal) {
    throw new CheckpointError(
      `${file}: patch_size, merge_size, temporal_patch_size ${patch}, ${merge}, ${temporal} differ from ` +
        `config.json's ${vision.patch}, ${vision.merge}, ${vision.temporal}; take both files from one checkpoint`,
    );
  }
  const resample = keys.get('resample') ?? BICUBIC;
  if (resample !== BICUBIC) keys.fail('resample', `${BICUBIC} (bicubic)`, resample);
  return {
    type,
    resampler: resamplerOf(keys, type),
    resize: keys.flag('do_resize'),
    rescale: keys.flag('do_rescale'),
    normalize: keys.flag('do_normalize'),
    patch,
    merge,
    temporal,
    ...bounds(keys),
    factor: keys.number('rescale_factor', keys.get('rescale_factor'), 1 / 255),
    mean: keys.triple('image_mean', CLIP_MEAN, () => true, 'three numbers'),
    std: keys.triple('image_std', CLIP_STD, (v) => v > 0, 'three positive numbers'),
  };
}

/** The `preprocessor_config.json` of it; `parsePreprocessor` reads it back unchanged. */
export function preprocessorJson(config: PreprocessorConfig): Json {
  return {
    processor_class: 'Qwen2_5_VLProcessor',
    image_processor_type: config.type,
    do_convert_rgb: true,
    do_resize: config.resize,
    do_rescale: config.rescale,
    do_normalize: config.normalize,
    resample: BICUBIC,
    rescale_factor: config.factor,
    image_mean: config.mean,
    image_std: config.std,
    patch_size: config.patch,
    merge_size: config.merge,
    temporal_patch_size: config.temporal,
    min_pixels: config.minPixels,
    max_pixels: config.maxPixels,
    size: { shortest_edge: config.minPixels, longest_edge: config.maxPixels },
  };
}

/**
 * The parsed settings of a checkpoint directory and the file they are from: the `image_processor` of
 * `processor_config.json` where it has one, as transformers does, else `preprocessor_config.json`, else none.
 */
export function readPreprocessor(directory: string): { json: unknown; file: string } {
  const nested = join(directory, PROCESSOR_FILE);
  if (existsSync(nested)) {
    const json = readJson(nested);
    if (isObject(json) && isObject(json['image_processor'])) {
      return { json: json['image_processor'], file: `${nested}: image_processor` };
    }
  }
  const file = join(directory, FILE);
  return { json: existsSync(file) ? readJson(file) : {}, file };
}
