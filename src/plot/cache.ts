/** Pictures by content: the same figure and values are drawn once. */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { ConfigError } from '../errors.ts';
import { readBytes, writeFileAtomic } from '../files.ts';
import type { Picture } from '../types.ts';
import type { FigureValues } from './data.ts';
import type { Figure } from './figure.ts';
import { decodePng, encodePng, MOST_BYTES } from './png.ts';
import { render } from './raster.ts';

/** Part of every key; raised when the same figure and values give other pixels than before. */
const RENDERING = 'timeseer picture 1';

/** SHA-256 of the figure's properties, and of the values and times bit by bit: 64 hexadecimal digits. */
export function pictureKey(figure: Figure, values: FigureValues, times?: Float64Array): string {
  const channels = values instanceof Float64Array ? [values] : values;
  const properties = Object.entries(figure).sort(([a], [b]) => (a < b ? -1 : 1));
  const lengths = channels.map((channel) => channel.length);
  const hash = createHash('sha256');
  hash.update(JSON.stringify([RENDERING, properties, lengths, times?.length ?? null]));
  for (const array of times === undefined ? channels : [...channels, times]) {
    hash.update(new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
  }
  return hash.digest('hex');
}

export interface CacheOptions {
  /** Bound on the pixels held in memory; default 256 MiB. 0 keeps none. */
  readonly maxBytes?: number;
  /** Where pictures are also kept as PNG files, unbounded, between runs. */
  readonly directory?: string;
  /** Draws what is missing; default `render`. A pool's `render` fits. */
  readonly draw?: (figure: Figure, values: FigureValues, times?: Float64Array) => Promise<Picture>;
}

/** Pictures by key: in memory the most recently used ones, and all of them in a directory when there is one. */
export class PictureCache {
  readonly #maxBytes: number;
  readonly #directory: string | undefined;
  readonly #draw: NonNullable<CacheOptions['draw']>;
  /** Least recently used first. */
  readonly #pictures = new Map<string, Picture>();
  readonly #drawing = new Map<string, Promise<Picture>>();
  #bytes = 0;
  #hits = 0;
  #misses = 0;

  constructor(options: CacheOptions = {}) {
    const maxBytes = options.maxBytes ?? 256 * 2 ** 20;
    if (!(maxBytes >= 0)) throw new ConfigError(`picture cache: maxBytes must be ≥ 0, got ${maxBytes}`);
    this.#maxBytes = maxBytes;
    this.#directory = options.directory;
    this.#draw = options.draw ?? render;
  }

  /** Bytes of pixels in memory, pictures in memory, and how often `render` found or had to draw one. */
  get statistics(): { bytes: number; pictures: number; hits: number; misses: number } {
    return { bytes: this.#bytes, pictures: this.#pictures.size, hits: this.#hits, misses: this.#misses };
  }

  /** The picture under `key`, from memory or the directory. A damaged file counts as absent. */
  get(key: string): Picture | undefined {
    const held = this.#pictures.get(key);
    if (held !== undefined) {
      this.#pictures.delete(key);
      this.#pictures.set(key, held);
      return held;
    }
    if (this.#directory === undefined) return undefined;
    const file = this.#file(this.#directory, key);
    try {
      const picture = decodePng(readBytes(file, MOST_BYTES), file);
      this.#keep(key, picture);
      return picture;
    } catch {
      return undefined;
    }
  }

  /** Keeps `picture`, in the directory as well. The cache shares its pixels: do not write to them afterwards. */
  set(key: string, picture: Picture): void {
    this.#keep(key, picture);
    if (this.#directory !== undefined) writeFileAtomic(this.#file(this.#directory, key), encodePng(picture));
  }

  /** As `render` of raster.ts, drawn at most once also when asked for twice at the same time. Do not write to it. */
  async render(figure: Figure, values: FigureValues, times?: Float64Array): Promise<Picture> {
    const key = pictureKey(figure, values, times);
    const known = this.get(key) ?? this.#drawing.get(key);
    if (known !== undefined) {
      this.#hits++;
      return known;
    }
    this.#misses++;
    const drawing = this.#draw(figure, values, times);
    this.#drawing.set(key, drawing);
    try {
      const picture = await drawing;
      this.set(key, picture);
      return picture;
    } finally {
      this.#drawing.delete(key);
    }
  }

  #file(directory: string, key: string): string {
    return join(directory, key.slice(0, 2), `${key}.png`);
  }

  #keep(key: string, picture: Picture): void {
    const size = picture.data.byteLength;
    this.#bytes -= this.#pictures.get(key)?.data.byteLength ?? 0;
    this.#pictures.delete(key);
    if (size <= this.#maxBytes) {
      this.#pictures.set(key, picture);
      this.#bytes += size;
    }
    for (const [oldest, dropped] of this.#pictures) {
      if (this.#bytes <= this.#maxBytes) break;
      this.#pictures.delete(oldest);
      this.#bytes -= dropped.data.byteLength;
    }
  }
}
