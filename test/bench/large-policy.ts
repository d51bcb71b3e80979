/** Policies of full size with random weights, and prompts for them: what the benchmark of large policies works on. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DType, Engine, Tensor } from '../../src/engine/engine.ts';
import { hash32, Random } from '../../src/ground/random.ts';
import type { Picture } from '../../src/ground/types.ts';
import type { EncodedPrompt } from '../../src/policy/batch.ts';
import { Chat } from '../../src/policy/chat.ts';
import { ImageProcessor } from '../../src/policy/image-processor.ts';
import { type Layout, layoutOf } from '../../src/policy/layout.ts';
import { configJson, type Dims, type SpecialIds } from '../../src/policy/model-config.ts';
import { Policy, type PolicyParts } from '../../src/policy/policy.ts';
import { ropeIndex } from '../../src/policy/rope.ts';
import { BPE_CONFIG, Tokenizer, trainBpe } from '../../src/policy/tokenizer.ts';

export interface LargeSize {
  readonly about: string;
  readonly dims: (special: SpecialIds) => Dims;
  /** Pixels of a plot, multiples of 28. */
  readonly picture: readonly [width: number, height: number];
  /** Text tokens of a prompt, after the plot. */
  readonly text: number;
}

const SIGHT = { patch: 14, temporal: 2, merge: 2, window: 112, theta: 10000, tokensPerSecond: 2 } as const;
const TEXT = { theta: 1e6, epsilon: 1e-6, maxPositions: 128_000, tied: true } as const;

export const SIZES = {
  tiny: {
    about: '1 M parameters, to try the program',
    dims: (special) => ({
      ...TEXT,
      vocabulary: 1024,
      width: 128,
      layers: 3,
      heads: 4,
      kvHeads: 2,
      headDim: 32,
      inner: 320,
      sections: [4, 6, 6],
      vision: { ...SIGHT, depth: 2, width: 64, heads: 2, inner: 128, fullAttention: [1] },
      special,
    }),
    picture: [168, 84],
    text: 16,
  },
  '50m': {
    about: '48 M parameters',
    dims: (special) => ({
      ...TEXT,
      vocabulary: 8192,
      width: 512,
      layers: 11,
      heads: 8,
      kvHeads: 2,
      headDim: 64,
      inner: 1408,
      sections: [8, 12, 12],
      vision: { ...SIGHT, depth: 6, width: 384, heads: 6, inner: 768, fullAttention: [2, 5] },
      special,
    }),
    picture: [588, 224],
    text: 64,
  },
  '120m': {
    about: '120 M parameters',
    dims: (special) => ({
      ...TEXT,
      vocabulary: 32_768,
      width: 768,
      layers: 12,
      heads: 12,
      kvHeads: 2,
      headDim: 64,
      inner: 2048,
      sections: [8, 12, 12],
      vision: { ...SIGHT, depth: 8, width: 512, heads: 8, inner: 1024, fullAttention: [3, 7] },
      special,
    }),
    picture: [588, 224],
    text: 64,
  },
  '3b': {
    about: 'the sizes of Qwen2.5-VL-3B, 3.75 B parameters',
    dims: (special) => ({
      ...TEXT,
      vocabulary: 151_936,
      width: 2048,
      layers: 36,
      heads: 16,
      kvHeads: 2,
      headDim: 128,
      inner: 11_008,
      sections: [16, 24, 24],
      vision: { ...SIGHT, depth: 32, width: 1280, heads: 16, inner: 3420, fullAttention: [7, 15, 23, 31] },
      special,
    }),
    picture: [588, 224],
    text: 64,
  },
} as const satisfies Readonly<Record<string, LargeSize>>;

export type SizeName = keyof typeof SIZES;

/** Normal numbers that every parameter is filled from; drawing billions one by one would take minutes. */
const TILE = 1 << 20;

/** Random weights [P] with the standard deviations of a fresh policy, from one tile of normal numbers. */
function tiledWeights(engine: Engine, layout: Layout, seed: number, dtype: DType): Tensor {
  const random = new Random(seed, 'tile');
  const tile = Float32Array.from({ length: TILE }, () => random.normal(0, 1));
  return engine.scope(() => {
    const flat = engine.zeros([layout.size], dtype); // [P]
    const normal = engine.tensor(tile, [TILE]);
    for (const { name, offset, size, start } of layout.parameters) {
      engine.scope(() => {
        const constant = 'value' in start;
        // Norms and biases a little away from their start, so that nothing is the same at two places.
        const std = constant ? 0.02 : start.gain / Math.sqrt(start.fanIn);
        const values = engine.add(engine.mul(normal, std), constant ? start.value : 0);
        for (let done = 0; done < size; ) {
          const from = done === 0 ? hash32(name) % TILE : 0; // another part of the tile for each parameter
          const count = Math.min(TILE - from, size - done);
          engine.write(flat, 0, offset + done, engine.narrow(values, 0, from, count));
          done += count;
        }
      });
    }
    return flat;
  });
}

/** A policy of this size with random weights; equal seeds give equal policies. */
export function largePolicy(engine: Engine, size: LargeSize, seed: number, dtype: DType): Policy {
  const tokenizer = new Tokenizer(trainBpe(['the quick series']), BPE_CONFIG);
  const dims = size.dims({
    image: tokenizer.special('<|image_pad|>'),
    video: tokenizer.special('<|video_pad|>'),
    visionStart: tokenizer.special('<|vision_start|>'),
    visionEnd: tokenizer.special('<|vision_end|>'),
    end: tokenizer.special('<|im_end|>'),
    pad: tokenizer.special('<|endoftext|>'),
  });
  const parts: PolicyParts = {
    config: configJson(dims),
    tokenizer: tokenizer.json,
    tokenizerConfig: BPE_CONFIG,
    template: new Chat().source,
    preprocessor: new ImageProcessor(dims.vision, { min_pixels: 28 * 28 }).json(),
  };
  return new Policy(engine, parts, tiledWeights(engine, layoutOf(dims), seed, dtype));
}

/** The tokenizer, template and special tokens of a policy over random weights of another size. */
export function resized(policy: Policy, size: LargeSize, seed: number): Policy {
  const dims = size.dims(policy.dims.special);
  const { tokenizer, tokenizerConfig, template } = policy.parts;
  const preprocessor = new ImageProcessor(dims.vision, { min_pixels: 28 * 28 }).json();
  const parts: PolicyParts = { config: configJson(dims), tokenizer, tokenizerConfig, template, preprocessor };
  return new Policy(policy.engine, parts, tiledWeights(policy.engine, layoutOf(dims), seed, 'float32'));
}

function picture(index: number, [width, height]: readonly [number, number]): Picture {
  const data = new Uint8Array(width * height * 3);
  for (let i = 0; i < data.length; i++) data[i] = (i * 7 + Math.floor(i / 97) * 13 + index * 31) % 251;
  return { width, height, data };
}

/** Prompt `index`: a picture between its tokens, then text. All prompts are of one length. */
export function largePrompt(policy: Policy, size: LargeSize, index: number): EncodedPrompt {
  const { dims, processor } = policy;
  const image = processor.process(picture(index, size.picture));
  const visual = (image.rows * image.columns) / dims.vision.merge ** 2;
  const random = new Random(5, 'prompt', index);
  const text = Array.from({ length: size.text }, () => randomId(dims, random));
  const { visionStart, visionEnd } = dims.special;
  const ids = Int32Array.from([
    ...text.slice(0, 4),
    visionStart,
    ...new Array<number>(visual).fill(dims.special.image),
    visionEnd,
    ...text.slice(4),
  ]);
  return { ids, images: [image], ...ropeIndex(ids, [image], dims) };
}

function randomId({ vocabulary, special }: Dims, random: Random): number {
  const reserved = Object.values(special);
  for (;;) {
    const id = Math.floor(random.uniform() * vocabulary);
    if (!reserved.includes(id)) return id;
  }
}

/** What both contenders work on. */
export interface LargeWork {
  readonly prompts: readonly EncodedPrompt[]; // [P]
  readonly responses: readonly (readonly Int32Array[])[]; // [P][G], T tokens each
  readonly advantages: readonly (readonly number[])[]; // [P][G]
}

export function largeWork(
  policy: Policy,
  size: LargeSize,
  sizes: { readonly prompts: number; readonly group: number; readonly tokens: number },
): LargeWork {
  const random = new Random(9, 'work');
  const each = <T>(count: number, make: (i: number) => T): T[] =>
    Array.from({ length: count }, (_, i) => make(i));
  return {
    prompts: each(sizes.prompts, (p) => largePrompt(policy, size, p)),
    responses: each(sizes.prompts, () =>
      each(sizes.group, () => Int32Array.from(each(sizes.tokens, () => randomId(policy.dims, random)))),
    ),
    advantages: each(sizes.prompts, () => each(sizes.group, () => random.normal(0, 0.5))),
  };
}

/** Writes the work for a peer: `work.json` and `patches.f32`. */
export function writeWork(
  directory: string,
  policy: Policy,
  { prompts, responses, advantages }: LargeWork,
): void {
  const { dims } = policy;
  const image = prompts[0]!.images[0]!;
  const forbidden = [...policy.forbidden.keys()].filter((id) => policy.forbidden[id] !== 0);
  writeFileSync(
    join(directory, 'work.json'),
    JSON.stringify({
      prompts: prompts.map(({ ids }) => [...ids]),
      responses: responses.map((group) => group.map((ids) => [...ids])),
      advantages,
      grid: [1, image.rows, image.columns],
      patchPixels: dims.vision.patch ** 2,
      forbidden,
      end: dims.special.end,
      pad: dims.special.pad,
    }),
  );
  const all = new Float32Array(prompts.length * image.patches.length);
  prompts.forEach(({ images }, p) => {
    all.set(images[0]!.patches, p * image.patches.length);
  });
  writeFileSync(join(directory, 'patches.f32'), all);
}
