/** Neural-network operations of the contract beside their references, and a small decoder made of them. */
import type { Tensor } from '../../src/engine/engine.ts';
import { Random } from '../../src/ground/random.ts';
import type { Nd } from '../helpers/reference.ts';
import * as ref from '../helpers/reference.ts';
import { type Case, indices } from './cases.ts';

const random = new Random(12, 'network cases');
const x = (...shape: number[]): Nd => ref.normal(random, shape);
const hidden = -Infinity;

/** [T, S] where query t of T sees keys up to the one at its own place, as the last T of S. */
const causal = (length: number, keys: number): Nd =>
  ref.nd([1, 1, length, keys], (_, [, , t, s]) => (s! <= t! + keys - length ? 0 : hidden));

const angles = x(3, 4);
const both = (f: (v: number) => number, batch: number): Nd =>
  ref.nd([batch, 3, 8], (_, [b, t, d]) => f(ref.at(angles, [t!, d! % 4]) + b! * 0.3));
const vocabulary = ref.of([7], [0, 0.5, -1e9, 0, -1.25, -1e9, 0]);
const targets = [6, 0, 3, 1];

const plus = (a: Nd, b: Nd): Nd => ref.binary(a, b, (p, q) => p + q);

const network: Case[] = [
  {
    name: 'linear with a bias',
    inputs: [x(2, 3, 5), x(4, 5), x(4)],
    run: (e, [a, w, b]) => e.linear(a!, w!, b!),
    reference: ([a, w, b]) => ref.linear(a!, w!, b!),
  },
  {
    name: 'linear without a bias',
    inputs: [x(3, 5), x(4, 5)],
    run: (e, [a, w]) => e.linear(a!, w!),
    reference: ([a, w]) => ref.linear(a!, w!),
  },
  {
    name: 'rmsNorm',
    inputs: [x(2, 3, 5), x(5)],
    run: (e, [a, w]) => e.rmsNorm(a!, w!, 0.01),
    reference: ([a, w]) => ref.rmsNorm(a!, w!, 0.01),
  },
  {
    name: 'rmsNorm of rows that hold zeros only',
    inputs: [ref.nd([3, 4], (_, [row, i]) => (row === 1 ? 0 : 0.5 * i! - row!)), x(4)],
    run: (e, [a, w]) => e.rmsNorm(a!, w!, 0.04),
    reference: ([a, w]) => ref.rmsNorm(a!, w!, 0.04),
  },
  {
    name: 'rotary with angles of its own per row',
    inputs: [x(2, 3, 5, 8)],
    constants: [both(Math.cos, 2), both(Math.sin, 2)],
    run: (e, [a], [c, s]) => e.rotary(a!, c!, s!),
    reference: ([a], [c, s]) => ref.rotary(a!, c!, s!),
  },
  {
    name: 'rotary with shared angles',
    inputs: [x(2, 3, 5, 8)],
    constants: [both(Math.cos, 1), both(Math.sin, 1)],
    run: (e, [a], [c, s]) => e.rotary(a!, c!, s!),
    reference: ([a], [c, s]) => ref.rotary(a!, c!, s!),
  },
  {
    name: 'attention',
    inputs: [x(2, 3, 4, 6), x(2, 3, 5, 6), x(2, 3, 5, 6)],
    run: (e, [query, key, value]) => e.attention({ query: query!, key: key!, value: value! }),
    reference: ([query, key, value]) => ref.attention({ query: query!, key: key!, value: value! }),
  },
  {
    name: 'attention with grouped queries and a causal mask',
    inputs: [x(3, 6, 4, 2), x(3, 2, 5, 2), x(3, 2, 5, 2)],
    constants: [causal(4, 5)],
    run: (e, [query, key, value], [mask]) =>
      e.attention({ query: query!, key: key!, value: value!, mask: mask! }),
    reference: ([query, key, value], [mask]) =>
      ref.attention({ query: query!, key: key!, value: value!, mask: mask! }),
  },
  {
    name: 'attention with a mask of its own per row',
    inputs: [x(3, 2, 4, 2), x(3, 1, 5, 2), x(3, 1, 5, 2)],
    constants: [ref.nd([3, 1, 1, 5], (_, [b, , , s]) => (s! >= 2 + b! ? hidden : 0.25 * s!))],
    run: (e, [query, key, value], [mask]) =>
      e.attention({ query: query!, key: key!, value: value!, mask: mask! }),
    reference: ([query, key, value], [mask]) =>
      ref.attention({ query: query!, key: key!, value: value!, mask: mask! }),
  },
  {
    name: 'attention of groups of three rows to two shared prefixes',
    inputs: [x(6, 4, 2, 3), x(6, 2, 5, 3), x(6, 2, 5, 3), x(2, 2, 4, 3), x(2, 2, 4, 3)],
    constants: [causal(2, 5), ref.nd([2, 1, 1, 4], (_, [p, , , s]) => (p === 0 && s === 0 ? hidden : 0))],
    run: (e, [query, key, value, before, beforeValue], [mask, beforeMask]) =>
      e.attention({
        query: query!,
        key: key!,
        value: value!,
        mask: mask!,
        prefix: { key: before!, value: beforeValue!, mask: beforeMask! },
      }),
    reference: ([query, key, value, before, beforeValue], [mask, beforeMask]) =>
      ref.attention({
        query: query!,
        key: key!,
        value: value!,
        mask: mask!,
        prefix: { key: before!, value: beforeValue!, mask: beforeMask! },
      }),
  },
  {
    name: 'attention to a prefix alone, where a row hides all its own keys',
    inputs: [x(4, 2, 3, 2), x(4, 1, 2, 2), x(4, 1, 2, 2), x(2, 1, 5, 2), x(2, 1, 5, 2)],
    constants: [ref.nd([4, 1, 1, 2], (_, [b, , , s]) => (b === 2 || s! > b! ? hidden : 0))],
    run: (e, [query, key, value, before, beforeValue], [mask]) =>
      e.attention({
        query: query!,
        key: key!,
        value: value!,
        mask: mask!,
        prefix: { key: before!, value: beforeValue! },
      }),
    reference: ([query, key, value, before, beforeValue], [mask]) =>
      ref.attention({
        query: query!,
        key: key!,
        value: value!,
        mask: mask!,
        prefix: { key: before!, value: beforeValue! },
      }),
  },
  {
    name: 'attention of one row per prefix, without masks',
    inputs: [x(2, 2, 1, 4), x(2, 2, 3, 4), x(2, 2, 3, 4), x(2, 2, 5, 4), x(2, 2, 5, 4)],
    run: (e, [query, key, value, before, beforeValue]) =>
      e.attention({
        query: query!,
        key: key!,
        value: value!,
        prefix: { key: before!, value: beforeValue! },
      }),
    reference: ([query, key, value, before, beforeValue]) =>
      ref.attention({
        query: query!,
        key: key!,
        value: value!,
        prefix: { key: before!, value: beforeValue! },
      }),
  },
  {
    name: 'swiglu',
    inputs: [x(2, 3, 10)],
    run: (e, [a]) => e.swiglu(a!),
    reference: ([a]) => ref.swiglu(a!),
  },
  { name: 'gelu', inputs: [x(3, 7)], run: (e, [a]) => e.gelu(a!), reference: ([a]) => ref.gelu(a!) },
  {
    name: 'logProbs',
    widened: 'float32',
    inputs: [x(4, 5), x(7, 5)],
    run: (e, [h, w]) => e.logProbs(h!, w!, indices(e, targets)).logProb,
    reference: ([h, w]) => ref.logProb(h!, w!, targets, {}),
  },
  {
    name: 'logProbs with temperature and a mask that biases',
    widened: 'float32',
    inputs: [x(4, 5), x(7, 5)],
    constants: [vocabulary],
    run: (e, [h, w], [mask]) =>
      e.logProbs(h!, w!, indices(e, targets), { temperature: 0.6, mask: mask! }).logProb,
    reference: ([h, w], [mask]) => ref.logProb(h!, w!, targets, { temperature: 0.6, mask: mask! }),
  },
  {
    name: 'entropy with temperature and a mask',
    widened: 'float32',
    inputs: [x(4, 5), x(7, 5)],
    constants: [vocabulary],
    run: (e, [h, w], [mask]) =>
      e.logProbs(h!, w!, indices(e, targets), { temperature: 1.7, mask: mask!, entropy: true }).entropy!,
    reference: ([h, w], [mask]) => ref.entropy(h!, w!, { temperature: 1.7, mask: mask! }),
  },
];

/** A decoder layer in small: every parameter is reached through several operations. */
const chained: Case = {
  name: 'a small decoder, from embedding to log-probability plus entropy',
  widened: 'float32',
  inputs: [x(7, 6), x(6), x(12, 6), x(6, 6), x(8, 6), x(6, 4)],
  constants: [causal(3, 3), ref.normal(random, [1, 3, 2]), ref.normal(random, [1, 3, 2])],
  run: (e, [table, weight, qkv, out, gateUp, down], [mask, cos, sin]) => {
    const tokens = e.indexSelect(table!, indices(e, [1, 4, 4, 0, 6, 1])); // [B·T, 6], B = 2, T = 3
    const projected = e.linear(e.rmsNorm(tokens, weight!, 1e-6), qkv!); // [6, 12]
    const heads = (start: number, count: number, turn: boolean): Tensor => {
      const part = e.reshape(e.narrow(projected, 1, start, 2 * count), [2, 3, count, 2]);
      return e.permute(turn ? e.rotary(part, cos!, sin!) : part, [0, 2, 1, 3]);
    };
    const seen = e.attention({
      query: heads(0, 2, true), // [2, 2, 3, 2]
      key: heads(4, 2, true),
      value: heads(8, 2, false),
      mask: mask!,
    });
    const flat = e.reshape(e.permute(seen, [0, 2, 1, 3]), [6, 4]);
    const mixed = e.add(tokens, e.linear(flat, e.narrow(out!, 1, 1, 4)));
    const last = e.add(mixed, e.linear(e.swiglu(e.linear(mixed, gateUp!)), down!));
    const { logProb, entropy } = e.logProbs(last, table!, indices(e, [3, 5, 2, 2, 0, 6]), {
      temperature: 0.9,
      entropy: true,
    });
    return e.add(logProb, e.mul(entropy!, 0.3)); // [6]
  },
  reference: ([table, weight, qkv, out, gateUp, down], [mask, cos, sin]) => {
    const tokens = ref.indexSelect(table!, [1, 4, 4, 0, 6, 1]);
    const projected = ref.linear(ref.rmsNorm(tokens, weight!, 1e-6), qkv!);
    const heads = (start: number, count: number, turn: boolean): Nd => {
      const part = ref.reshape(ref.narrow(projected, 1, start, 2 * count), [2, 3, count, 2]);
      return ref.permute(turn ? ref.rotary(part, cos!, sin!) : part, [0, 2, 1, 3]);
    };
    const seen = ref.attention({
      query: heads(0, 2, true),
      key: heads(4, 2, true),
      value: heads(8, 2, false),
      mask: mask!,
    });
    const flat = ref.reshape(ref.permute(seen, [0, 2, 1, 3]), [6, 4]);
    const mixed = plus(tokens, ref.linear(flat, ref.narrow(out!, 1, 1, 4)));
    const last = plus(mixed, ref.linear(ref.swiglu(ref.linear(mixed, gateUp!)), down!));
    const options = { temperature: 0.9 };
    return plus(
      ref.logProb(last, table!, [3, 5, 2, 2, 0, 6], options),
      ref.map(ref.entropy(last, table!, options), (v) => 0.3 * v),
    );
  },
};

const residual: Case = {
  name: 'addNorm',
  inputs: [x(3, 2, 24), x(3, 2, 24), x(24)],
  run: (e, [a, b, w]) => {
    const { sum, normed } = e.addNorm(a!, b!, w!, 0.02);
    return e.concat([sum, normed], 2);
  },
  reference: ([a, b, w]) => {
    const sum = plus(a!, b!);
    return ref.concat([sum, ref.rmsNorm(sum, w!, 0.02)], 2);
  },
};

export const NETWORK_CASES: readonly Case[] = [...network, chained, residual];
