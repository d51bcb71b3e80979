/** The tiny checkpoint of test/golden/make_qwen.py and the pictures it was run on. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Engine } from '../../src/engine/engine.ts';
import { openTfjs } from '../../src/engine/tfjs/tfjs.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import type { Picture } from '../../src/ground/types.ts';
import type { Message } from '../../src/policy/chat.ts';
import { readTokenizer, Tokenizer } from '../../src/policy/tokenizer.ts';
import { DEVICE } from '../helpers/device.ts';

export const GOLDEN = fileURLToPath(new URL('../golden/qwen', import.meta.url));

export interface GoldenCase {
  name: string;
  messages: Message[];
  sizes: [width: number, height: number][];
  text: string;
  ids: number[];
  positions: number[][];
  features: number[];
  hidden: number[];
  lastLogits: number[];
  greedy: number[];
  loss: number;
  gradients: Record<string, number[]>;
}

export interface Golden {
  special: Record<string, number>;
  vocabulary: number;
  cases: GoldenCase[];
  encodings: { text: string; ids: number[] }[];
  pixels: { size: [number, number]; shape: number[]; every37: number[]; mean: number; row5: number[] };
  resized: { from: [number, number]; to: [number, number]; every7: number[] }[];
  smartResize: { width: number; height: number; min: number; max: number; to: [number, number] }[];
}

export const golden = JSON.parse(readFileSync(`${GOLDEN}/expected.json`, 'utf8')) as Golden;

/** The picture formula of make_qwen.py. */
export function picture(width: number, height: number): Picture {
  const data = new Uint8Array(width * height * 3);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      for (let c = 0; c < 3; c++) {
        data[(y * width + x) * 3 + c] = (x * 7 + y * 13 + c * 29 + Math.floor((x * y) / 3)) % 256;
      }
    }
  }
  return { width, height, data };
}

/** On the processor, or on the GPU that is asked for. */
export const engine = openTorch({ device: DEVICE, threads: 1 });

/** The engines that compute what transformers computes. */
export const ENGINES: readonly Engine[] = [engine, await openTfjs()];

/** Largest |a − b| / (1 + |b|). */
export function distance(a: ArrayLike<number>, b: ArrayLike<number>): number {
  if (a.length !== b.length) return Number.POSITIVE_INFINITY;
  let worst = 0;
  for (let i = 0; i < a.length; i++) {
    const d = Math.abs(a[i]! - b[i]!) / (1 + Math.abs(b[i]!));
    if (!(d <= worst)) worst = d;
  }
  return worst;
}

/** The tokenizer of a checkpoint directory. */
export function tokenizerOf(directory: string): Tokenizer {
  const { json, config, file } = readTokenizer(directory);
  return new Tokenizer(json, config, file);
}
