/** Pictures to patches: the image processor of Qwen2.5-VL, as `preprocessor_config.json` sets it. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { CheckpointError, DataError } from '../ground/errors.ts';
import { isObject } from '../ground/json-record.ts';
import { roundHalfEven } from '../ground/numbers.ts';
import { type Resampler, resizeBicubic } from '../ground/resize.ts';
import type { Picture } from '../ground/types.ts';
import { asObject, type Json, Keys, readJson } from './json-file.ts';
import { CHANNELS, type VisionDims } from './model-config.ts';

export interface Grid {
  /** Patches per column and per row, multiples of the merge size. */
  readonly rows: number;
  readonly columns: number;
}

/** Patches of one picture, as the vision tower takes them. */
export interface ProcessedImage extends Grid {
  /**
   * [rows · columns, 3 · patch²] in Hugging Face order: 2 × 2 blocks in reading order, each patch as channel,
   * row, column. The temporal axis is left out: both frames of a still image are equal.
   */
  readonly patches: Float32Array;
}

export class ImageProcessor {
  readonly config: PreprocessorConfig;
  /** Edge of a visual token in pixels. */
  readonly #unit: number;
  readonly #values: readonly Float32Array[]; // per channel: byte → value that the tower sees

  /**
   * @param json parsed `preprocessor_config.json`; an absent key takes Qwen2.5-VL's value.
   * @throws CheckpointError naming the key that is wrong or contradicts the checkpoint's vision tower.
   */
  constructor(vision: VisionDims, json: unknown = {}, file?: string) {
    this.config = parsePreprocessor(json, vision, file);
    const { rescale, normalize, factor, mean, std, patch, merge } = this.config;
    this.#unit = patch * merge;
    this.#values = Array.from({ length: CHANNELS }, (_, c) =>
      Float32Array.from({ length: 256 }, (__, byte) => {
        const value = rescale ? byte * factor : byte;
        return normalize ? (value - mean[c]!) / std[c]! : value;
      }),
    );
  }

  /** The `preprocessor_config.json` of this processor; `parsePreprocessor` reads it back unchanged. */
  json(): Json {
    const { config } = this;
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
   * Size after resizing. @throws DataError for an aspect ratio above 200, or a size that does not fit and
   * must not change
   */
  size(width: number, height: number): { width: number; height: number } {
    const { resize, minPixels, maxPixels } = this.config;
    if (resize) return smartResize(width, height, this.#unit, minPixels, maxPixels);
    if (width % this.#unit === 0 && height % this.#unit === 0 && width > 0 && height > 0)
      return { width, height };
    throw new DataError(
      `a picture of ${width} × ${height} pixels cannot be used: this checkpoint does not resize (do_resize is false), ` +
        `so both sides must be multiples of ${this.#unit}`,
    );
  }

  /** Number of visual tokens of a picture of this size. @throws DataError as `size` does */
  tokens(width: number, height: number): number {
    const to = this.size(width, height);
    return (to.width / this.#unit) * (to.height / this.#unit);
  }

  /**
   * Resizes, normalises and cuts into patches. @throws DataError when the data do not fit the size, or as
   * `size` does
   */
  process(picture: Picture): ProcessedImage {
    if (picture.data.length !== picture.width * picture.height * CHANNELS) {
      throw new DataError(
        `a picture of ${picture.width} × ${picture.height} needs ${picture.width * picture.height * CHANNELS} bytes of RGB, got ${picture.data.length}`,
      );
    }
    const { width, height } = this.size(picture.width, picture.height);
    const same = width === picture.width && height === picture.height;
    return this.#patchify(same ? picture : resizeBicubic(picture, width, height, this.config.resampler));
  }

  #patchify({ width, height, data }: Picture): ProcessedImage {
    const { patch, merge } = this.config;
    const rows = height / patch;
    const columns = width / patch;
    const patches = new Float32Array(rows * columns * CHANNELS * patch * patch);
    let out = 0;
    for (let blockRow = 0; blockRow < rows; blockRow += merge) {
      for (let blockColumn = 0; blockColumn < columns; blockColumn += merge) {
        for (let row = blockRow; row < blockRow + merge; row++) {
          for (let column = blockColumn; column < blockColumn + merge; column++) {
            for (let channel = 0; channel < CHANNELS; channel++) {
              const table = this.#values[channel]!;
              for (let y = row * patch; y < (row + 1) * patch; y++) {
                let at = (y * width + column * patch) * CHANNELS + channel;
                for (let x = 0; x < patch; x++) {
                  patches[out++] = table[data[at]!]!;
                  at += CHANNELS;
                }
              }
            }
          }
        }
      }
    }
    return { rows, columns, patches };
  }
}

/**
 * Preprocessing of a picture before the vision tower sees it: a checkpoint's `preprocessor_config.json`, or the
 * `image_processor` of the `processor_config.json` that transformers 5 writes instead.
 */
interface PreprocessorConfig {
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

const FILE = 'preprocessor_config.json';
const PROCESSOR_FILE = 'processor_config.json';
const CLIP_MEAN = [0.48145466, 0.4578275, 0.40821073];
const CLIP_STD = [0.26862954, 0.26130258, 0.27577711];
const BICUBIC = 3;
/** Every picture is enlarged to `min_pixels`: beyond this, 65 536 visual tokens, no context has room for one. */
const MOST_MIN_PIXELS = 65_536 * 28 * 28;

/** Qwen2.5-VL's image processor under the name that every library knows. */
export const IMAGE_PROCESSOR = 'Qwen2VLImageProcessor';
/** All of its names; the last resizes with Pillow, the others with torchvision. */
const TYPES = [IMAGE_PROCESSOR, 'Qwen2VLImageProcessorFast', 'Qwen2VLImageProcessorPil'];
/** Name in its first release. */
const OLD_TYPE = 'Qwen2_5_VLImageProcessor';

/** Bounds of the number of pixels, under each of the names they have had. */
function bounds(file: string, json: Json, keys: Keys): { minPixels: number; maxPixels: number } {
  const size = keys.get('size');
  const sizes = isObject(size) ? size : {};
  const renamed = {
    min_pixels: sizes['shortest_edge'] ?? sizes['min_pixels'],
    max_pixels: sizes['longest_edge'] ?? sizes['max_pixels'],
  };
  const pixels = new Keys(file, [json, renamed]);
  const given = pixels.get('min_pixels') !== undefined && pixels.get('max_pixels') !== undefined;
  keys.demand(
    size === undefined || given,
    'size',
    'an object with shortest_edge and longest_edge, in pixels of the whole picture',
  );
  const minPixels = pixels.number('min_pixels', 56 * 56);
  const maxPixels = pixels.number('max_pixels', 28 * 28 * 1280);
  pixels.demand(
    minPixels <= MOST_MIN_PIXELS,
    'min_pixels',
    `at most ${MOST_MIN_PIXELS}, to which every picture is enlarged`,
  );
  pixels.demand(minPixels <= maxPixels, 'min_pixels', `at most max_pixels, ${maxPixels}`);
  return { minPixels, maxPixels };
}

/**
 * Reads a parsed `preprocessor_config.json`; absent keys take Qwen2.5-VL's values. @throws CheckpointError
 * naming the wrong key
 */
export function parsePreprocessor(value: unknown, vision: VisionDims, file = FILE): PreprocessorConfig {
  const json = asObject(value, file);
  const keys = new Keys(file, [json]);
  const isType = (name: unknown): name is string => name === OLD_TYPE || TYPES.some((type) => type === name);
  const type = keys.read('image_processor_type', `one of ${TYPES.join(', ')}`, isType, TYPES[0]!);
  const patch = keys.number('patch_size', vision.patch);
  const merge = keys.number('merge_size', vision.merge);
  const temporal = keys.number('temporal_patch_size', vision.temporal);
  if (patch !== vision.patch || merge !== vision.merge || temporal !== vision.temporal) {
    throw new CheckpointError(
      `${file}: patch_size, merge_size, temporal_patch_size ${patch}, ${merge}, ${temporal} differ from ` +
        `config.json's ${vision.patch}, ${vision.merge}, ${vision.temporal}; take both files from one checkpoint`,
    );
  }
  keys.demand((keys.get('resample') ?? BICUBIC) === BICUBIC, 'resample', `${BICUBIC} (bicubic)`);
  const triple = (
    key: string,
    fallback: readonly number[],
    expected: string,
    ok: (v: number) => boolean,
  ): number[] => {
    const values = keys.list(key, fallback, expected, ok);
    return values.length === 3 ? values : keys.fail(key, expected);
  };
  return {
    type,
    resampler: type.endsWith('Pil') ? 'pillow' : 'torchvision',
    resize: keys.flag('do_resize', true),
    rescale: keys.flag('do_rescale', true),
    normalize: keys.flag('do_normalize', true),
    patch,
    merge,
    temporal,
    ...bounds(file, json, keys),
    factor: keys.number('rescale_factor', 1 / 255),
    mean: triple('image_mean', CLIP_MEAN, 'three numbers', () => true),
    std: triple('image_std', CLIP_STD, 'three positive numbers', (v) => v > 0),
  };
}

/**
 * Reads the settings of a checkpoint directory and names their file: `image_processor` of
 * `processor_config.json`, else `preprocessor_config.json`, else none, as transformers does.
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

/**
 * Size after resizing: multiples of `factor`, `minPixels` to `maxPixels` in all, nearly the same aspect
 * ratio. Source: `smart_resize` of transformers. @throws DataError for an empty picture or an aspect ratio
 * above 200
 */
export function smartResize(
  width: number,
  height: number,
  factor: number,
  minPixels: number,
  maxPixels: number,
): { width: number; height: number } {
  if (!(width > 0 && height > 0) || Math.max(width, height) / Math.min(width, height) > 200) {
    throw new DataError(
      `a picture of ${width} × ${height} pixels cannot be used: the aspect ratio must be at most 200`,
    );
  }
  let toWidth = roundHalfEven(width / factor) * factor;
  let toHeight = roundHalfEven(height / factor) * factor;
  if (toWidth * toHeight > maxPixels) {
    const shrink = Math.sqrt((width * height) / maxPixels);
    toWidth = Math.max(factor, Math.floor(width / shrink / factor) * factor);
    toHeight = Math.max(factor, Math.floor(height / shrink / factor) * factor);
  } else if (toWidth * toHeight < minPixels) {
    const grow = Math.sqrt(minPixels / (width * height));
    toWidth = Math.ceil((width * grow) / factor) * factor;
    toHeight = Math.ceil((height * grow) / factor) * factor;
  }
  return { width: toWidth, height: toHeight };
}
