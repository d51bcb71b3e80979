/** Pictures to patches: the image processor of Qwen2.5-VL, driven by `preprocessor_config.json`. */
import { CheckpointError, DataError } from '../errors.ts';
import type { Picture } from '../types.ts';
import { CHANNELS, type VisionDims } from './dims.ts';
import { resizeBicubic, smartResize } from './resize.ts';

/** Patches of one picture, as the vision tower takes them. */
export interface ProcessedImage {
  /** Grid of patches, both sides multiples of the merge size. */
  readonly rows: number;
  readonly columns: number;
  /**
   * [rows · columns, 3 · patch²] in Hugging Face order: 2 × 2 blocks in reading order, four patches each, a
   * patch as channel, row, column. The temporal axis is left out: both frames of a still image are equal.
   */
  readonly patches: Float32Array;
}

const CLIP_MEAN = [0.48145466, 0.4578275, 0.40821073];
const CLIP_STD = [0.26862954, 0.26130258, 0.27577711];

type Json = Readonly<Record<string, unknown>>;

function triple(value: unknown, key: string, file: string, fallback: number[]): number[] {
  if (value === undefined) return fallback;
  if (Array.isArray(value) && value.length === 3 && value.every((v) => typeof v === 'number')) return value;
  throw new CheckpointError(`${file}: '${key}' must be three numbers, got ${JSON.stringify(value)}`);
}

export class ImageProcessor {
  readonly patch: number;
  readonly merge: number;
  readonly temporal: number;
  readonly minPixels: number;
  readonly maxPixels: number;
  /** Factor from bytes to [0, 1]. */
  readonly rescale: number;
  readonly mean: readonly number[];
  readonly std: readonly number[];
  readonly #normalised: readonly Float32Array[]; // per channel: byte → normalised value

  /**
   * @param config parsed `preprocessor_config.json`; an absent key takes Qwen2.5-VL's value.
   * @throws CheckpointError naming the key that is wrong or contradicts the checkpoint's vision tower.
   */
  constructor(vision: VisionDims, config: unknown = {}, file = 'preprocessor_config.json') {
    if (typeof config !== 'object' || config === null)
      throw new CheckpointError(`${file}: must hold a JSON object`);
    const json = config as Json;
    const size = typeof json['size'] === 'object' && json['size'] !== null ? (json['size'] as Json) : {};
    const number = (key: string, ...values: unknown[]): number => {
      const value = values.find((v) => v !== undefined && v !== null);
      if (typeof value === 'number' && value > 0) return value;
      throw new CheckpointError(`${file}: '${key}' must be a positive number, got ${JSON.stringify(value)}`);
    };
    this.patch = number('patch_size', json['patch_size'], vision.patch);
    this.merge = number('merge_size', json['merge_size'], vision.merge);
    this.temporal = number('temporal_patch_size', json['temporal_patch_size'], vision.temporal);
    if (this.patch !== vision.patch || this.merge !== vision.merge || this.temporal !== vision.temporal) {
      throw new CheckpointError(
        `${file}: patch_size, merge_size, temporal_patch_size ${this.patch}, ${this.merge}, ${this.temporal} differ from ` +
          `config.json's ${vision.patch}, ${vision.merge}, ${vision.temporal}; take both files from one checkpoint`,
      );
    }
    this.minPixels = number(
      'min_pixels',
      json['min_pixels'],
      size['shortest_edge'],
      size['min_pixels'],
      56 * 56,
    );
    this.maxPixels = number(
      'max_pixels',
      json['max_pixels'],
      size['longest_edge'],
      size['max_pixels'],
      28 * 28 * 1280,
    );
    this.rescale = number('rescale_factor', json['rescale_factor'], 1 / 255);
    this.mean = triple(json['image_mean'], 'image_mean', file, CLIP_MEAN);
    this.std = triple(json['image_std'], 'image_std', file, CLIP_STD);
    this.#normalised = Array.from({ length: CHANNELS }, (_, c) =>
      Float32Array.from({ length: 256 }, (__, v) => (v * this.rescale - this.mean[c]!) / this.std[c]!),
    );
  }

  /** The `preprocessor_config.json` of this processor. */
  json(): Json {
    return {
      image_processor_type: 'Qwen2VLImageProcessor',
      do_convert_rgb: true,
      do_resize: true,
      do_rescale: true,
      do_normalize: true,
      resample: 3,
      rescale_factor: this.rescale,
      image_mean: this.mean,
      image_std: this.std,
      patch_size: this.patch,
      merge_size: this.merge,
      temporal_patch_size: this.temporal,
      min_pixels: this.minPixels,
      max_pixels: this.maxPixels,
      size: { shortest_edge: this.minPixels, longest_edge: this.maxPixels },
    };
  }

  /** Number of visual tokens of a picture of this size. */
  tokens(width: number, height: number): number {
    const factor = this.patch * this.merge;
    const to = smartResize(width, height, factor, this.minPixels, this.maxPixels);
    return (to.width / factor) * (to.height / factor);
  }

  /**
   * Resizes if the size asks for it, normalises and cuts into patches.
   * @throws DataError when the picture's data do not fit its size.
   */
  process(picture: Picture): ProcessedImage {
    if (picture.data.length !== picture.width * picture.height * CHANNELS) {
      throw new DataError(
        `a picture of ${picture.width} × ${picture.height} needs ${picture.width * picture.height * CHANNELS} bytes of RGB, got ${picture.data.length}`,
      );
    }
    const factor = this.patch * this.merge;
    const to = smartResize(picture.width, picture.height, factor, this.minPixels, this.maxPixels);
    const same = to.width === picture.width && to.height === picture.height;
    return this.#patchify(same ? picture : resizeBicubic(picture, to.width, to.height));
  }

  #patchify({ width, height, data }: Picture): ProcessedImage {
    const { patch, merge } = this;
    const rows = height / patch;
    const columns = width / patch;
    const patches = new Float32Array(rows * columns * CHANNELS * patch * patch);
    let out = 0;
    for (let blockRow = 0; blockRow < rows; blockRow += merge) {
      for (let blockColumn = 0; blockColumn < columns; blockColumn += merge) {
        for (let row = blockRow; row < blockRow + merge; row++) {
          for (let column = blockColumn; column < blockColumn + merge; column++) {
            for (let channel = 0; channel < CHANNELS; channel++) {
              const table = this.#normalised[channel]!;
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
