/** The optimiser update against an independent implementation and against torch.optim.AdamW's own numbers. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { AdamWState, DType, Engine } from '../../src/engine/engine.ts';
import { Random } from '../../src/ground/random.ts';
import * as ref from '../helpers/reference.ts';
import type { Traits } from './contract.ts';

interface Golden {
  readonly options: { learningRate: number; beta1: number; beta2: number; epsilon: number };
  readonly decay: number[];
  readonly start: number[];
  readonly gradients: number[][];
  readonly parameters: number[][];
}

const golden = JSON.parse(
  readFileSync(new URL('../golden/engine/adamw.json', import.meta.url), 'utf8'),
) as Golden;

function stateOf(
  engine: Engine,
  start: ArrayLike<number>,
  decay: ArrayLike<number>,
  dtype: DType,
): AdamWState {
  const up = (values: ArrayLike<number>) =>
    engine.cast(engine.tensor(Float64Array.from(values), [values.length]), dtype);
  const zeros = (): ReturnType<typeof up> => engine.zeros([start.length], dtype);
  return {
    parameters: up(start),
    gradients: zeros(),
    firstMoment: zeros(),
    secondMoment: zeros(),
    decay: up(decay),
  };
}

export function updateContract(get: () => Engine, { exact }: Traits): void {
  const both = exact === 'float64' ? (['float64', 'float32'] as const) : (['float32'] as const);
  describe('adamW', () => {
    it('follows torch.optim.AdamW over ten steps', () => {
      const engine = get();
      engine.scope(() => {
        const state = stateOf(engine, golden.start, golden.decay, exact);
        golden.gradients.forEach((gradient, i) => {
          engine.write(state.gradients, 0, 0, engine.tensor(Float64Array.from(gradient), [gradient.length]));
          engine.adamW(state, { ...golden.options, step: i + 1 });
          const actual = engine.doubles(state.parameters);
          for (const [p, expected] of golden.parameters[i]!.entries())
            expect(Math.abs(actual[p]! - expected)).toBeLessThan(exact === 'float64' ? 1e-12 : 3e-6);
        });
      });
    });
    it.each(both)('equals the algorithm as published, %s', (dtype) => {
      const engine = get();
      const random = new Random(2, 'adamw');
      const count = 9;
      const draw = (): Float64Array => Float64Array.from({ length: count }, () => random.normal());
      const parameters = draw().map((v) => (dtype === 'float32' ? Math.fround(v) : v));
      const decay = Float64Array.from({ length: count }, (_, i) => (i % 3 === 0 ? 0 : 0.0625 * i));
      const expected = {
        parameters: Float64Array.from(parameters),
        first: new Float64Array(count),
        second: new Float64Array(count),
      };
      engine.scope(() => {
        const state = stateOf(engine, parameters, decay, dtype);
        for (let step = 1; step <= 25; step++) {
          const gradient = draw();
          const options = { learningRate: 0.02 / step, beta1: 0.8, beta2: 0.95, epsilon: 1e-6, step };
          engine.write(state.gradients, 0, 0, engine.cast(engine.tensor(gradient, [count]), dtype));
          engine.adamW(state, options);
          ref.adamW(expected, gradient, decay, options);
        }
        const tolerance = dtype === 'float64' ? 1e-12 : 3e-6;
        const near = (actual: Float64Array, wanted: Float64Array): void => {
          for (const [i, value] of wanted.entries())
            expect(Math.abs(actual[i]! - value)).toBeLessThan(tolerance);
        };
        near(engine.doubles(state.parameters), expected.parameters);
        near(engine.doubles(state.firstMoment), expected.first);
        near(engine.doubles(state.secondMoment), expected.second);
      });
    });
    it.each([0, 0.3])('one decay of %f for all equals a decay per element', (decay) => {
      const engine = get();
      engine.scope(() => {
        const start = [1, -2, 0.5, 3];
        const each = stateOf(engine, start, [decay, decay, decay, decay], exact);
        const one = { ...stateOf(engine, start, [0, 0, 0, 0], exact), decay };
        for (let step = 1; step <= 3; step++) {
          const gradient = engine.tensor(new Float64Array([0.1 * step, -1, 2, 0]), [4]);
          for (const state of [each, one]) {
            engine.write(state.gradients, 0, 0, gradient);
            engine.adamW(state, { learningRate: 0.05, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, step });
          }
        }
        const [wanted, actual] = [each, one].map(({ parameters }) => engine.doubles(parameters)) as [
          Float64Array,
          Float64Array,
        ];
        for (const [i, value] of actual.entries())
          expect(Math.abs(value - wanted[i]!)).toBeLessThan(exact === 'float64' ? 1e-14 : 1e-6);
        // The last gradient was 0 throughout: only decay moves it.
        expect(actual[3]).toBeCloseTo(3 * (1 - 0.05 * decay) ** 3, exact === 'float64' ? 12 : 5);
      });
    });
    it('moves a parameter that a view reads', () => {
      const engine = get();
      engine.scope(() => {
        const state = stateOf(engine, [1, 2, 3], [0, 0, 0], 'float32');
        const view = engine.parameter(engine.narrow(state.parameters, 0, 1, 2));
        engine.write(state.gradients, 0, 0, engine.tensor(new Float32Array([1, 1, -1]), [3]));
        engine.adamW(state, { learningRate: 0.5, beta1: 0.9, beta2: 0.999, epsilon: 0, step: 1 });
        expect([...engine.floats(view)].map((v) => Math.round(v * 1e4) / 1e4)).toEqual([1.5, 3.5]);
      });
    });
  });
}
