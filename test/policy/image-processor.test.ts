/** Pictures and prompts against transformers' own processors (test/golden/make_processor.py). */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { crc32 } from 'node:zlib';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { CheckpointError, DataError } from '../../src/ground/errors.ts';
import { type Resampler, resizeBicubic } from '../../src/ground/resize.ts';
import type { Picture } from '../../src/ground/types.ts';
import { Chat, expandImages, type Message } from '../../src/policy/chat.ts';
import {
  ImageProcessor,
  parsePreprocessor,
  readPreprocessor,
  smartResize,
} from '../../src/policy/image-processor.ts';
import { nanoDims, parseDims } from '../../src/policy/model-config.ts';
import { distance, GOLDEN, golden, picture, tokenizerOf } from './golden.ts';

type Size = [width: number, height: number];
interface Expected {
  resized: { pattern: 'picture' | 'edges'; from: Size; to: Size; pillow: number; torchvision: number }[];
  sizes: Size[];
  processed: {
    settings: Record<string, unknown>;
    grids: [number, number, number][];
    every499: number[];
    mean: number;
  }[];
  prompts: { messages: Message[]; sizes: Size[]; text: string; ids: number[] }[];
}

const file = fileURLToPath(new URL('../golden/processor/expected.json', import.meta.url));
const expected = JSON.parse(readFileSync(file, 'utf8')) as Expected;
const { vision } = parseDims(JSON.parse(readFileSync(join(GOLDEN, 'config.json'), 'utf8')));
const base = JSON.parse(readFileSync(join(GOLDEN, 'preprocessor_config.json'), 'utf8')) as object;

/** The image processor of a checkpoint directory. */
function processorOf(directory: string): ImageProcessor {
  const { json, file } = readPreprocessor(directory);
  return new ImageProcessor(vision, json, file);
}

/** Nothing but black and white: overshoots are clamped between the passes. */
function edges(width: number, height: number): Picture {
  const data = new Uint8Array(width * height * 3);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const cell = Math.floor(x / 5) + Math.floor(y / 3) + Math.floor((x * y) / 17);
      for (let c = 0; c < 3; c++) data[(y * width + x) * 3 + c] = ((cell + c) % 2) * 255;
    }
  }
  return { width, height, data };
}
const PATTERNS = { picture, edges };

/** [patches, 3 · patch²] with each channel's frame twice, as transformers gives them. */
function bothFrames(patches: Float32Array): Float32Array {
  const area = vision.patch ** 2;
  const out = new Float32Array(patches.length * 2);
  for (let at = 0; at < patches.length; at += area) {
    out.set(patches.subarray(at, at + area), 2 * at);
    out.set(patches.subarray(at, at + area), 2 * at + area);
  }
  return out;
}

describe('resize', () => {
  it.each(
    expected.resized.flatMap((row) => [
      { ...row, resampler: 'pillow' as Resampler },
      { ...row, resampler: 'torchvision' as Resampler },
    ]),
  )(
    'takes $pattern of $from to $to byte for byte as $resampler',
    ({ pattern, from, to, resampler, ...crc }) => {
      const resized = resizeBicubic(PATTERNS[pattern](...from), ...to, resampler);
      expect([resized.width, resized.height]).toEqual(to);
      expect(crc32(resized.data)).toBe(crc[resampler as 'pillow' | 'torchvision']);
    },
  );
});

describe('image processor', () => {
  it.each(expected.processed)('gives the pixel values of the reference with $settings', (want) => {
    const { settings, grids, every499, mean } = want;
    const processor = new ImageProcessor(vision, { ...base, ...settings });
    const images = expected.sizes.map((size) => processor.process(edges(...size)));
    expect(images.map(({ rows, columns }) => [1, rows, columns])).toEqual(grids);
    const all = images.map(({ patches }) => bothFrames(patches));
    const flat = new Float32Array(all.reduce((sum, { length }) => sum + length, 0));
    let at = 0;
    for (const part of all) {
      flat.set(part, at);
      at += part.length;
    }
    expect(
      distance(
        flat.filter((_, i) => i % 499 === 0),
        every499,
      ),
    ).toBeLessThan(1e-6);
    expect(flat.reduce((sum, v) => sum + v, 0) / flat.length / mean).toBeCloseTo(1, 5);
  });

  it('leaves pictures alone where the checkpoint says so, and refuses those that do not fit', () => {
    const processor = new ImageProcessor(vision, { ...base, do_resize: false });
    const { rows, columns } = processor.process(picture(336, 560)); // above max_pixels
    expect([rows, columns]).toEqual([40, 24]);
    expect(() => processor.process(picture(84, 57))).toThrow(DataError);
    expect(() => processor.process(picture(84, 57))).toThrow(/do_resize is false.*multiples of 28/);
  });
});

describe('prompts with several images', () => {
  const tokenizer = tokenizerOf(GOLDEN);
  const processor = processorOf(GOLDEN);

  it.each(expected.prompts)('are the ids of the reference: $text', ({ messages, sizes, text, ids }) => {
    expect(Chat.load(GOLDEN).render(messages)).toBe(text);
    const visual = sizes.map((size) => processor.tokens(...size));
    expect([...tokenizer.encode(expandImages(text, visual))]).toEqual(ids);
  });
});

describe('preprocessor_config.json', () => {
  const parse = (json: unknown) => parsePreprocessor(json, vision, 'p.json');
  const directory = mkdtempSync(join(tmpdir(), 'preprocessor-'));
  const write = (name: string, json: unknown): void =>
    writeFileSync(join(directory, name), JSON.stringify(json));
  afterAll(() => rmSync(directory, { recursive: true }));

  it('reads the bounds under every name they have had', () => {
    const bounds = (json: unknown): number[] => {
      const { minPixels, maxPixels } = parse(json);
      return [minPixels, maxPixels];
    };
    expect(bounds({})).toEqual([3136, 1003520]);
    expect(bounds({ min_pixels: 784, max_pixels: 50176 })).toEqual([784, 50176]);
    expect(bounds({ size: { shortest_edge: 784, longest_edge: 50176 } })).toEqual([784, 50176]);
    expect(bounds({ size: { min_pixels: 784, max_pixels: 50176 } })).toEqual([784, 50176]);
    expect(
      bounds({ min_pixels: null, max_pixels: null, size: { shortest_edge: 784, longest_edge: 900 } }),
    ).toEqual([784, 900]);
    // The older key has the last word, as in the reference.
    expect(bounds({ max_pixels: 7840, size: { shortest_edge: 784, longest_edge: 900 } })).toEqual([
      784, 7840,
    ]);
  });

  it('resizes as the processor that the file names', () => {
    expect(parse({}).resampler).toBe('torchvision');
    for (const name of ['Qwen2VLImageProcessor', 'Qwen2VLImageProcessorFast', 'Qwen2_5_VLImageProcessor'])
      expect(parse({ image_processor_type: name }).resampler).toBe('torchvision');
    expect(parse({ image_processor_type: 'Qwen2VLImageProcessorPil' }).resampler).toBe('pillow');
    expect(() => parse({ image_processor_type: 'CLIPImageProcessor' })).toThrow(/'image_processor_type'/);
  });

  it('is written back as it was read', () => {
    const json = {
      do_resize: false,
      do_normalize: false,
      image_std: [1, 2, 3],
      size: { shortest_edge: 784, longest_edge: 900 },
    };
    const processor = new ImageProcessor(vision, json);
    expect(processor.json()).toMatchObject(json);
    expect(new ImageProcessor(vision, processor.json()).config).toEqual(processor.config);
  });

  it('takes the image processor of processor_config.json before preprocessor_config.json, where there is one', () => {
    expect(readPreprocessor(directory).json).toEqual({});
    write('preprocessor_config.json', { max_pixels: 7840 });
    write('processor_config.json', { processor_class: 'Qwen2_5_VLProcessor' });
    expect(processorOf(directory).config.maxPixels).toBe(7840);
    write('processor_config.json', { image_processor: { size: { shortest_edge: 784, longest_edge: 8624 } } });
    expect(processorOf(directory).config.maxPixels).toBe(8624);
    write('processor_config.json', { image_processor: { do_resize: 'yes' } });
    expect(() => processorOf(directory)).toThrow(
      /processor_config.json: image_processor: 'do_resize' must be true or false/,
    );
  });

  it.each([
    [{ patch_size: 16 }, /patch_size.* differ from config.json's/],
    [{ image_mean: [1, 2] }, /'image_mean' must be three numbers/],
    [{ image_std: [1, 0, 1] }, /'image_std' must be three positive numbers/],
    [{ resample: 2 }, /'resample' must be 3 \(bicubic\)/],
    [{ size: { height: 224, width: 224 } }, /'size' must be an object with shortest_edge and longest_edge/],
    [{ size: 224 }, /'size'/],
    [{ min_pixels: 5000, max_pixels: 4000 }, /'min_pixels' must be at most max_pixels, 4000/],
    [{ min_pixels: 1e12, max_pixels: 1e13 }, /'min_pixels' must be at most 51380224, to which every picture/],
    [{ max_pixels: -1 }, /'max_pixels' must be a positive number, got -1/],
    [[], /must hold a JSON object/],
  ])('refuses %j by name', (json, message) => {
    expect(() => parse(json)).toThrow(CheckpointError);
    expect(() => parse(json)).toThrow(message);
  });
});

describe('image processor of the nano policy', () => {
  const dims = nanoDims(400, { image: 1, video: 2, visionStart: 3, visionEnd: 4, end: 5, pad: 6 });
  const processor = new ImageProcessor(dims.vision, { min_pixels: 784 });

  it('cuts and normalises patches as the reference does, the repeated frame left out', () => {
    const { patches, rows, columns } = processor.process(picture(...golden.pixels.size));
    const [count, width] = golden.pixels.shape as [number, number];
    expect([rows, columns]).toEqual([4, 6]);
    // Back to [L, 3, 2, 14·14] with both frames.
    const full = new Float32Array(count * width);
    for (let patch = 0; patch < count; patch++) {
      for (let channel = 0; channel < 3; channel++) {
        const from = patches.subarray((patch * 3 + channel) * 196, (patch * 3 + channel + 1) * 196);
        for (let frame = 0; frame < 2; frame++) full.set(from, patch * width + (channel * 2 + frame) * 196);
      }
    }
    expect(
      distance(
        full.filter((_, i) => i % 37 === 0),
        golden.pixels.every37,
      ),
    ).toBeLessThan(1e-6);
    expect(distance(full.subarray(5 * width + 190, 5 * width + 400), golden.pixels.row5)).toBeLessThan(1e-6);
    expect(full.reduce((sum, v) => sum + v, 0) / full.length).toBeCloseTo(golden.pixels.mean, 5);
  });

  it.each(golden.smartResize)(
    'resizes $width × $height between $min and $max pixels to the size of the reference',
    (row) => {
      const to = smartResize(row.width, row.height, 28, row.min, row.max);
      expect([to.width, to.height]).toEqual(row.to);
    },
  );

  it.each(golden.resized)('resamples $from to $to as Pillow, byte for byte', ({ from, to, every7 }) => {
    const { data, width, height } = resizeBicubic(picture(...from), ...to, 'pillow');
    expect([width, height]).toEqual(to);
    expect([...data.filter((_, i) => i % 7 === 0)]).toEqual(every7);
  });

  it('keeps a constant picture constant whatever the size', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 40 }),
        fc.integer({ min: 1, max: 40 }),
        fc.nat(255),
        (w, h, grey) => {
          const flat = { width: w, height: h, data: new Uint8Array(w * h * 3).fill(grey) };
          expect(resizeBicubic(flat, 28, 56).data.every((v) => v === grey)).toBe(true);
        },
      ),
    );
  });

  it('predicts the number of visual tokens', () => {
    fc.assert(
      fc.property(fc.integer({ min: 5, max: 300 }), fc.integer({ min: 5, max: 300 }), (w, h) => {
        const { rows, columns } = processor.process(picture(w, h));
        expect(processor.tokens(w, h)).toBe((rows * columns) / 4);
      }),
      { numRuns: 15 },
    );
  });

  it('refuses data that do not fit the size, and absurd shapes', () => {
    expect(() => processor.process({ width: 10, height: 10, data: new Uint8Array(299) })).toThrow(DataError);
    expect(() => processor.process(picture(1000, 4))).toThrow(/aspect ratio/);
  });
});
