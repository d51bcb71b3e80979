/** Shared by the misuse tests: engines that must end every test empty, and the message of an expected error. */
import { afterEach, expect } from 'vitest';
import type { Engine, Tensor } from '../../src/engine/engine.ts';
import { openTfjs } from '../../src/engine/tfjs/tfjs.ts';
import { loadNative } from '../../src/engine/torch/native.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { EngineError } from '../../src/ground/errors.ts';

export interface Misuse {
  readonly engine: Engine;
  /** Runs `body` in a scope and returns the message of the EngineError that it must throw. */
  readonly complaint: (body: () => unknown) => string;
  readonly floats: (shape: readonly number[]) => Tensor;
  readonly whole: (...values: number[]) => Tensor;
}

const torch = openTorch({ threads: 1 });
const born = loadNative().live();

/** The engines to misuse, by name, and another of each. */
export const ENGINES: readonly (readonly [name: string, engine: Engine, other: Engine])[] = [
  ['torch', torch, openTorch({ threads: 1 })],
  ['tfjs', await openTfjs(), await openTfjs()],
];

/** Prepares an engine for a suite; after each of its tests no tensor and no native handle may be left. */
export function misuse(engine: Engine): Misuse {
  afterEach(() => {
    expect(engine.live()).toBe(0);
    expect(loadNative().live()).toBe(born);
  });
  return {
    engine,
    complaint(body) {
      try {
        engine.scope(body);
      } catch (error) {
        expect(error).toBeInstanceOf(EngineError);
        return (error as Error).message;
      }
      throw new Error('no error was thrown');
    },
    floats: (shape) => engine.zeros(shape),
    whole: (...values) => engine.tensor(Int32Array.from(values), [values.length]),
  };
}
