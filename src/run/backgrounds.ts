/** Learned backgrounds as a source of wild: windows are sampled, and what is usual in them is measured, as they are asked for. */
import { createHash } from 'node:crypto';
import type { Backgrounds } from '../../datasets/benchmarks/generated.ts';
import type { Recorded } from '../../datasets/generators/wild/recorded.ts';
import { openEngine } from '../answer/local.ts';
import {
  type Background,
  type OpenEngine,
  readBackgrounds,
  sampleBackground,
} from '../background/background.ts';
import { detect } from '../detect/detect.ts';
import type { Engine } from '../engine/engine.ts';
import { ConfigError } from '../ground/errors.ts';
import { Random } from '../ground/random.ts';

/** Windows of a source that are sampled together. */
const TOGETHER = 64;
/** Examples over each window, which differ in their anomalies: measuring what is usual takes longest. */
const EXAMPLES = 4;

/** Opens an engine on first use. */
export function lazyEngine(device = 'cpu'): OpenEngine {
  let engine: Engine | undefined;
  return () => {
    engine ??= openEngine(device);
    return engine;
  };
}

/** SHA-256 of all that backgrounds are made of. */
function digestOf(backgrounds: readonly Background[]): string {
  const hash = createHash('sha256');
  for (const { arrays, ...facts } of backgrounds) {
    hash.update(JSON.stringify(facts));
    for (const { values } of Object.values(arrays)) hash.update(values);
  }
  return hash.digest('hex');
}

/** Keeps the value of the last key alone. */
function latest<T>(): (key: string, make: () => T) => T {
  let last: { readonly key: string; readonly value: T } | undefined;
  return (key, make) => {
    if (last?.key !== key) last = { key, value: make() };
    return last.value;
  };
}

/**
 * Opens a directory of learned backgrounds. Its sources take turns.
 * @throws ConfigError for backgrounds of different lengths, and as `readBackgrounds`
 */
export function openBackgrounds(directory: string, engine: OpenEngine = lazyEngine()): Backgrounds {
  const backgrounds = readBackgrounds(directory);
  const { length } = backgrounds[0]!;
  const other = backgrounds.find((background) => background.length !== length);
  if (other !== undefined) {
    throw new ConfigError(
      `${directory}: windows of ${length} and of ${other.length} samples; learn all sources with one length`,
    );
  }
  const sampled = backgrounds.map(() => latest<Float64Array[]>());
  const measured = backgrounds.map(() => latest<Recorded>());
  return {
    length,
    parameters: {
      sources: backgrounds.map(({ source, method }) => `${source}: ${method}`),
      sha256: digestOf(backgrounds),
    },
    at(seed, split, index) {
      const turn = index % backgrounds.length;
      const background = backgrounds[turn]!;
      const window = Math.floor(index / backgrounds.length / EXAMPLES);
      const part = Math.floor(window / TOGETHER);
      const windows = sampled[turn]!(`${seed}/${split}/${part}`, () => {
        const drawn = new Random(seed, `backgrounds/${split}`, turn, part).uint32();
        return sampleBackground(background, TOGETHER, drawn, engine);
      });
      const recorded = measured[turn]!(`${seed}/${split}/${window}`, () => {
        const values = windows[window % TOGETHER]!;
        return { ...detect(values, { calendar: background.periods }), values };
      });
      return { source: background.source, recorded };
    },
  };
}
