/** Shape and arithmetic operations of the contract beside their references, on asymmetric shapes. */
import type { Engine, Tensor } from '../../src/engine/engine.ts';
import { Random } from '../../src/ground/random.ts';
import type { Nd } from '../helpers/reference.ts';
import * as ref from '../helpers/reference.ts';

export interface Case {
  readonly name: string;
  /** Differentiable inputs; each gets a gradient. */
  readonly inputs: readonly Nd[];
  /** Inputs that only shift the result (masks, angles): given in the same dtype, no gradient. */
  readonly constants?: readonly Nd[];
  /** Dtype of the result where the inputs are narrower; the inputs' own when absent. */
  readonly widened?: 'float32';
  readonly run: (engine: Engine, inputs: readonly Tensor[], constants: readonly Tensor[]) => Tensor;
  readonly reference: (inputs: readonly Nd[], constants: readonly Nd[]) => Nd;
}

const random = new Random(11, 'engine cases');
const x = (...shape: number[]): Nd => ref.normal(random, shape);
const away = (...shape: number[]): Nd => ref.map(x(...shape), (v) => (v < 0 ? v - 0.5 : v + 0.5));
/** A vector of int64 indices. */
export const indices = (engine: Engine, list: readonly number[]): Tensor =>
  engine.tensor(Int32Array.from(list), [list.length]);

const shapes: Case[] = [
  {
    name: 'reshape with an inferred axis',
    inputs: [x(2, 3, 4)],
    run: (e, [a]) => e.reshape(a!, [4, -1]),
    reference: ([a]) => ref.reshape(a!, [4, 6]),
  },
  {
    name: 'reshape of a permuted tensor',
    inputs: [x(2, 3, 4)],
    run: (e, [a]) => e.reshape(e.permute(a!, [2, 0, 1]), [8, 3]),
    reference: ([a]) => ref.reshape(ref.permute(a!, [2, 0, 1]), [8, 3]),
  },
  {
    name: 'permute',
    inputs: [x(2, 3, 4, 5)],
    run: (e, [a]) => e.permute(a!, [3, 0, 2, 1]),
    reference: ([a]) => ref.permute(a!, [3, 0, 2, 1]),
  },
  {
    name: 'concat along an inner axis',
    inputs: [x(2, 3, 4), x(2, 1, 4), x(2, 5, 4)],
    run: (e, parts) => e.concat(parts, 1),
    reference: (parts) => ref.concat(parts, 1),
  },
  {
    name: 'concat along a negative axis',
    inputs: [x(2, 3), x(2, 4)],
    run: (e, parts) => e.concat(parts, -1),
    reference: (parts) => ref.concat(parts, -1),
  },
  {
    name: 'narrow',
    inputs: [x(3, 7, 2)],
    run: (e, [a]) => e.narrow(a!, 1, 2, 4),
    reference: ([a]) => ref.narrow(a!, 1, 2, 4),
  },
  {
    name: 'split into unequal parts, one of them unused',
    inputs: [x(3, 9, 2)],
    run: (e, [a]) => {
      const [first, , last] = e.split(a!, [2, 3, 4], 1) as [Tensor, Tensor, Tensor];
      return e.concat([last, first], -2);
    },
    reference: ([a]) => ref.concat([ref.narrow(a!, 1, 5, 4), ref.narrow(a!, 1, 0, 2)], 1),
  },
  {
    name: 'rows with repeated and unused indices',
    inputs: [x(5, 2, 3)],
    run: (e, [a]) => e.indexSelect(a!, indices(e, [4, 1, 1, 0, 4, 1, 4])),
    reference: ([a]) => ref.indexSelect(a!, [4, 1, 1, 0, 4, 1, 4]),
  },
  {
    name: 'indexCopy in both inputs',
    inputs: [x(6, 3), x(2, 3)],
    run: (e, [a, b]) => e.indexCopy(a!, indices(e, [5, 2]), b!),
    reference: ([a, b]) => ref.indexCopy(a!, [5, 2], b!),
  },
];

const binaries: Case[] = (['add', 'sub', 'mul', 'div'] as const).flatMap((name) => {
  const f = {
    add: (p: number, q: number) => p + q,
    sub: (p: number, q: number) => p - q,
    mul: (p: number, q: number) => p * q,
    div: (p: number, q: number) => p / q,
  }[name];
  return [
    {
      name: `${name} broadcast over both inputs`,
      inputs: [x(2, 1, 4), away(3, 1)],
      run: (e: Engine, [a, b]: readonly Tensor[]) => e[name](a!, b!),
      reference: ([a, b]: readonly Nd[]) => ref.binary(a!, b!, f),
    },
    {
      name: `${name} with a number`,
      inputs: [x(3, 5)],
      run: (e: Engine, [a]: readonly Tensor[]) => e[name](a!, -1.75),
      reference: ([a]: readonly Nd[]) => ref.map(a!, (v) => f(v, -1.75)),
    },
  ];
});

const arithmetic: Case[] = [
  ...binaries,
  {
    name: 'minimum',
    inputs: [x(2, 1, 3), x(4, 3)],
    run: (e, [a, b]) => e.minimum(a!, b!),
    reference: ([a, b]) => ref.binary(a!, b!, Math.min),
  },
  {
    name: 'clamp',
    inputs: [x(4, 5)],
    run: (e, [a]) => e.clamp(a!, -0.5, 0.75),
    reference: ([a]) => ref.map(a!, (v) => Math.min(0.75, Math.max(-0.5, v))),
  },
  {
    name: 'exp',
    inputs: [x(2, 7)],
    run: (e, [a]) => e.exp(a!),
    reference: ([a]) => ref.map(a!, Math.exp),
  },
  { name: 'sum', inputs: [x(2, 3, 5)], run: (e, [a]) => e.sum(a!), reference: ([a]) => ref.sum(a!) },
  {
    name: 'sum over an inner axis',
    inputs: [x(2, 3, 5)],
    run: (e, [a]) => e.sum(a!, 1),
    reference: ([a]) => ref.sum(a!, 1),
  },
  {
    name: 'sum over a negative axis',
    inputs: [x(2, 3, 5)],
    run: (e, [a]) => e.sum(a!, -3),
    reference: ([a]) => ref.sum(a!, -3),
  },
  { name: 'norm', inputs: [x(2, 3, 5)], run: (e, [a]) => e.norm(a!), reference: ([a]) => ref.norm(a!) },
  {
    name: 'matmul of matrices',
    inputs: [x(3, 4), x(4, 2)],
    run: (e, [a, b]) => e.matmul(a!, b!),
    reference: ([a, b]) => ref.matmul(a!, b!),
  },
  {
    name: 'matmul of a batch with one matrix',
    inputs: [x(5, 3, 4), x(4, 2)],
    run: (e, [a, b]) => e.matmul(a!, b!),
    reference: ([a, b]) => ref.matmul(a!, b!),
  },
  {
    name: 'matmul with broadcast batches',
    inputs: [x(2, 1, 3, 4), x(5, 4, 2)],
    run: (e, [a, b]) => e.matmul(a!, b!),
    reference: ([a, b]) => ref.matmul(a!, b!),
  },
  {
    name: 'logSoftmax',
    inputs: [x(2, 3, 7)],
    run: (e, [a]) => e.logSoftmax(a!),
    reference: ([a]) => ref.logSoftmax(a!),
  },
  {
    name: 'logSumExp over the first axis',
    inputs: [x(4, 3)],
    run: (e, [a]) => e.logSumExp(a!, 0),
    reference: ([a]) => ref.logSumExp(a!, 0),
  },
  {
    name: 'logSumExp over the last axis',
    inputs: [x(2, 4, 3)],
    run: (e, [a]) => e.logSumExp(a!, -1),
    reference: ([a]) => ref.logSumExp(a!, -1),
  },
];

export const TENSOR_CASES: readonly Case[] = [...shapes, ...arithmetic];
