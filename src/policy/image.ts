/** Pictures to patches: the image processor of Qwen2.5-VL, as `preprocessor_config.json` sets it. */
import { DataError } from '../errors.ts';
import type { Picture } from '../types.ts';
import { CHANNELS, type VisionDims } from './dims.ts';
import {
  type PreprocessorConfig,
  parsePreprocessor,
  preprocessorJson,
  readPreprocessor,
} from './preprocessor-config.ts';
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

  /** The processor of a checkpoint directory. @throws CheckpointError as the constructor does */
  static load(vision: VisionDims, directory: string): ImageProcessor {
    const { json, file } = readPreprocessor(directory);
    return new ImageProcessor(vision, json, file);
  }

  /** The `preprocessor_config.json` of this processor. */
  json(): Readonly<Record<string, unknown>> {
    return preprocessorJson(this.config);
  }

  /**
   * Size at which a picture is seen.
   * @throws DataError when its aspect ratio is above 200, or when it does not fit and must not be resized.
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
   * Resizes if the size asks for it, normalises and cuts into patches.
   * @throws DataError when the picture's data do not fit its size, or as `size` does.
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
