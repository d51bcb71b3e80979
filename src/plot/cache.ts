/** Picture cache by content: the same figure and values are drawn once. */
import { createHash } from 'node:crypto';
import type { Picture } from '../ground/types.ts';
import type { FigureValues } from './data.ts';
import type { Figure } from './figure.ts';
import { render } from './raster.ts';

/** SHA-256 of the figure's properties, and of the values and times bit by bit: 64 hexadecimal digits. */
export function pictureKey(figure: Figure, values: FigureValues, times?: Float64Array): string {
  const channels = values instanceof Float64Array ? [values] : values;
  const properties = Object.entries(figure).sort(([a], [b]) => (a < b ? -1 : 1));
  const lengths = channels.map((channel) => channel.length);
  const hash = createHash('sha256');
  hash.update(JSON.stringify([properties, lengths, times?.length ?? null]));
  for (const array of times === undefined ? channels : [...channels, times]) {
    hash.update(new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
  }
  return hash.digest('hex');
}

export class PictureCache {
  readonly #maxBytes: number;
  readonly #draw: typeof render;
  /** Pictures drawn or being drawn, the least recently used first. */
  readonly #pictures = new Map<string, { readonly picture: Promise<Picture>; readonly bytes: number }>();
  #bytes = 0;

  /** @param maxBytes bound on the pixels held */
  constructor(maxBytes = 256 * 2 ** 20, draw = render) {
    this.#maxBytes = maxBytes;
    this.#draw = draw;
  }

  /** Returns the cached `render` of raster.ts, drawn once even under concurrent requests. Treat it as read-only. */
  async render(figure: Figure, values: FigureValues, times?: Float64Array): Promise<Picture> {
    const key = pictureKey(figure, values, times);
    const known = this.#pictures.get(key);
    this.#remove(key);
    const picture = known?.picture ?? this.#draw(figure, values, times);
    const bytes = figure.width * figure.height * 3;
    this.#pictures.set(key, { picture, bytes });
    this.#bytes += bytes;
    for (const oldest of this.#pictures.keys()) {
      if (this.#bytes <= this.#maxBytes) break;
      this.#remove(oldest);
    }
    try {
      return await picture;
    } catch (error) {
      this.#remove(key);
      throw error;
    }
  }

  #remove(key: string): void {
    this.#bytes -= this.#pictures.get(key)?.bytes ?? 0;
    this.#pictures.delete(key);
  }
}
