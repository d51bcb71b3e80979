/**
 * Backgrounds: models of the usual values of one source, learned from windows without anomalies, which generate further windows like them.
 * A background is a plain value; `METHODS` has what learns one and samples it.
 */
import { closeSync, existsSync, openSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import type { Engine } from '../engine/engine.ts';
import type { Choice } from '../ground/choice.ts';
import { CheckpointError, ConfigError, DataError } from '../ground/errors.ts';
import { makeDirectory, writeDirectoryAtomic, writeJson } from '../ground/files.ts';
import { extent } from '../ground/numbers.ts';
import { readObject } from '../policy/json-file.ts';
import { elements, openSafetensors, readAt, writeSafetensors } from '../policy/safetensors.ts';
import { quantum } from '../series/quantum.ts';
import { learnBootstrap, sampleBootstrap } from './bootstrap.ts';
import { type FlowOptions, learnFlow, sampleFlow } from './flow.ts';

/** Stretch of usual values. */
export interface Window {
  /** Index of its first sample in the recording, which places it in the seasons. */
  readonly start: number;
  readonly values: Float64Array; // [N], finite
}

/** Windows of one source, all of one length, and its seasons in samples. */
export interface Windows {
  readonly windows: readonly Window[];
  readonly periods: readonly number[];
}

export type Arrays = Readonly<
  Record<string, { readonly shape: readonly number[]; readonly values: Float64Array }>
>;

export interface Background {
  readonly method: Method;
  /** Name of the source. */
  readonly source: string;
  /** Samples of a window, N. */
  readonly length: number;
  readonly periods: readonly number[];
  /** Lowest and highest value of the windows, and the step between values; 0 where they are not rounded. */
  readonly range: readonly [low: number, high: number];
  readonly step: number;
  /** Sizes and factors of the model, and its weights or training windows. */
  readonly settings: Readonly<Record<string, number>>;
  readonly arrays: Arrays;
}

export type Model = Pick<Background, 'settings' | 'arrays'>;

export interface LearnOptions extends FlowOptions {
  readonly seed: number;
  /** Reports steps done, where a model is trained. Returning lets other work through. */
  readonly onStep?: (done: number, total: number) => Promise<void>;
}

/** Opens the engine, for methods that need one. */
export type OpenEngine = () => Engine;

interface MethodFacts extends Choice {
  readonly learn: (windows: Windows, options: LearnOptions, engine: OpenEngine) => Model | Promise<Model>;
  /** Samples windows before they are rounded: [n][N]. */
  readonly sample: (background: Background, n: number, seed: number, engine: OpenEngine) => Float64Array[];
}

export const METHODS = {
  bootstrap: {
    label: 'seasonal block bootstrap',
    summary: 'blocks of the recording, at their place in the season, joined where values match',
    paper: 'Politis 2001; Carlstein et al. 1998',
    learn: learnBootstrap,
    sample: sampleBootstrap,
  },
  flow: {
    label: 'flow matching',
    summary: 'a network that turns noise into pieces of a window, each following the one before',
    paper: 'Lipman et al. 2023, arXiv 2210.02747',
    learn: (windows, options, engine) => learnFlow(windows, options, engine(), 0),
    sample: (background, n, seed, engine) => sampleFlow(background, n, seed, engine()),
  },
  prism: {
    label: 'PrismFlow',
    summary: 'flow matching, corrected by the likeliest of several experts with stable linear dynamics',
    paper: 'arXiv 2605.28867',
    learn: (windows, options, engine) => learnFlow(windows, options, engine(), 4),
    sample: (background, n, seed, engine) => sampleFlow(background, n, seed, engine()),
  },
} as const satisfies Readonly<Record<string, MethodFacts>>;
export type Method = keyof typeof METHODS;

/** Minimum number of windows to learn from. */
export const FEWEST_WINDOWS = 4;

/**
 * Learns the background of one source.
 * @throws DataError for too few windows, or for windows of equal values only
 */
export async function learnBackground(
  method: Method,
  source: string,
  input: Windows,
  options: LearnOptions,
  engine: OpenEngine,
): Promise<Background> {
  const { windows, periods } = input;
  if (windows.length < FEWEST_WINDOWS) {
    throw new DataError(
      `${source}: ${windows.length} windows to learn from; at least ${FEWEST_WINDOWS} are needed`,
    );
  }
  const length = windows[0]!.values.length;
  const all = Float64Array.from(windows.flatMap(({ values }) => [...values]));
  const range = extent(all);
  if (!(range[1] > range[0]))
    throw new DataError(`${source}: all values are ${range[0]}; nothing can be learned`);
  const model = await METHODS[method].learn(input, options, engine);
  return { method, source, length, periods, range, step: quantum(all, range[1] - range[0]), ...model };
}

/**
 * Samples n windows [n][N], rounded as the recording is and within its range; the same seed gives the same windows.
 */
export function sampleBackground(
  background: Background,
  n: number,
  seed: number,
  engine: OpenEngine,
): Float64Array[] {
  const { range, step } = background;
  const [low, high] = range;
  const reading = (value: number): number => {
    const inside = Math.min(high, Math.max(low, value));
    return step === 0 ? inside : low + Math.round((inside - low) / step) * step;
  };
  const windows = METHODS[background.method].sample(background, n, seed, engine);
  return windows.map((values) => values.map(reading));
}

const FACTS = 'background.json';
const ARRAYS = 'background.safetensors';
const shape = z.strictObject({
  version: z.literal(1),
  method: z.enum(Object.keys(METHODS) as [Method, ...Method[]]),
  source: z.string().min(1),
  length: z.number().int().min(2),
  periods: z.array(z.number().positive()),
  range: z.tuple([z.number(), z.number()]),
  step: z.number().min(0),
  settings: z.record(z.string(), z.number()),
});

/** Writes backgrounds to a directory: one folder each, replacing what was there once all is written. */
export function writeBackgrounds(directory: string, backgrounds: readonly Background[]): void {
  writeDirectoryAtomic(directory, (temporary) => {
    for (const [i, { arrays, ...facts }] of backgrounds.entries()) {
      const folder = join(temporary, String(i).padStart(3, '0'));
      makeDirectory(folder);
      writeSafetensors(
        join(folder, ARRAYS),
        Object.entries(arrays).map(([name, { shape, values }]) => ({
          ...{ name, shape, dtype: 'F64' as const },
          bytes: () => [new Uint8Array(values.buffer, values.byteOffset, values.byteLength)],
        })),
      );
      writeJson(join(folder, FACTS), { version: 1, ...facts });
    }
  });
}

function readArrays(file: string): Arrays {
  const handle = openSync(file, 'r');
  try {
    return Object.fromEntries(
      [...openSafetensors(file)].map(([name, { shape, offset }]) => {
        const bytes = readAt(handle, file, offset, 8 * elements(shape));
        return [name, { shape, values: new Float64Array(bytes.buffer) }];
      }),
    );
  } finally {
    closeSync(handle);
  }
}

/**
 * Reads the backgrounds of a directory, in the order in which they were written.
 * @throws ConfigError for a directory without any; CheckpointError for a damaged one, naming the file
 */
export function readBackgrounds(directory: string): Background[] {
  const folders = existsSync(directory) ? readdirSync(directory).sort() : [];
  const files = folders.map((name) => join(directory, name, FACTS)).filter((file) => existsSync(file));
  if (files.length === 0) {
    throw new ConfigError(
      `${directory}: no learned backgrounds there; name the folder backgrounds that timeseer adapt wrote`,
    );
  }
  return files.map((file) => {
    const { success, data, error } = shape.safeParse(readObject(file));
    if (!success) {
      const [issue] = error.issues;
      throw new CheckpointError(
        `${file}: ${issue?.path.join('.')}: ${issue?.message}; learn the backgrounds again`,
      );
    }
    const { version: _, ...facts } = data;
    return { ...facts, arrays: readArrays(join(file, '..', ARRAYS)) };
  });
}
