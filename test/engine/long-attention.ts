/** Attention to a shared prefix over so many scores that an engine may tile them. */
import { describe, expect, it } from 'vitest';
import type { AttentionInput, DType, Engine, Tensor } from '../../src/engine/engine.ts';
import { Random } from '../../src/ground/random.ts';
import type { Nd } from '../helpers/reference.ts';
import * as ref from '../helpers/reference.ts';
import type { Traits } from './contract.ts';

const [PROMPTS, GROUP, HEADS, REPEAT, LENGTH, PREFIX, WIDTH] = [2, 2, 1, 2, 128, 400, 3];
const BATCH = PROMPTS * GROUP;
const random = new Random(9, 'long prefix');
const x = (...shape: number[]): Nd => ref.normal(random, shape);
const [query, key, value] = [
  x(BATCH, HEADS * REPEAT, LENGTH, WIDTH),
  x(BATCH, HEADS, LENGTH, WIDTH),
  x(BATCH, HEADS, LENGTH, WIDTH),
];
const [before, beforeValue] = [x(PROMPTS, HEADS, PREFIX, WIDTH), x(PROMPTS, HEADS, PREFIX, WIDTH)];
const inputs = [query, key, value, before, beforeValue] as const;
/** Row b hides its own keys from 100 + b on; causal. */
const perRow = ref.nd([BATCH, 1, LENGTH, LENGTH], (_, [b, , t, s]) =>
  s! > t! || s! >= 100 + b! ? -Infinity : 0,
);
const causal = ref.nd([1, 1, LENGTH, LENGTH], (_, [, , t, s]) => (s! > t! ? -Infinity : 0));
/** Prompt p ends after 300 + 50·p keys. */
const perPrompt = ref.nd([PROMPTS, 1, 1, PREFIX], (_, [p, , , s]) => (s! >= 300 + 50 * p! ? -Infinity : 0));
const padded = ref.nd([1, 1, 1, PREFIX], (_, [, , , s]) => (s! < 7 ? -Infinity : 0.25));

const masks: readonly (readonly [name: string, own: Nd | undefined, prefix: Nd | undefined])[] = [
  ['no masks', undefined, undefined],
  ['a causal mask', causal, undefined],
  ['a mask for all prompts', undefined, padded],
  ['masks per row and per prompt', perRow, perPrompt],
  ['a causal mask and one per prompt', causal, perPrompt],
];

export function longAttentionContract(get: () => Engine, { exact, bfloat16 }: Traits): void {
  const up = (x: Nd, dtype: DType = exact): Tensor => get().cast(get().tensor(x.data, x.shape), dtype);
  const given = (
    [q, k, v, pk, pv]: readonly Tensor[],
    own: Tensor | undefined,
    prefix: Tensor | undefined,
  ): AttentionInput => ({
    query: q!,
    key: k!,
    value: v!,
    ...(own === undefined ? {} : { mask: own }),
    prefix: { key: pk!, value: pv!, ...(prefix === undefined ? {} : { mask: prefix }) },
  });
  const worst = (a: Float64Array, b: Float64Array): number =>
    a.reduce((most, v, i) => Math.max(most, Math.abs(v - b[i]!)), 0);

  describe('attention of long rows to a long prefix', () => {
    it.each(masks)('with %s: the gradients are those of a few queries at a time', (_, own, prefix) => {
      const engine = get();
      engine.scope(() => {
        const leaves = inputs.map((x) => engine.parameter(up(x)));
        const [ownMask, prefixMask] = [own, prefix].map((mask) =>
          mask === undefined ? undefined : up(mask),
        );
        const whole = engine.attention(given(leaves, ownMask, prefixMask));
        const few = LENGTH / 4;
        const parts = [0, 1, 2, 3].map((i) => {
          const queries = engine.narrow(leaves[0]!, 2, i * few, few);
          const rows = ownMask === undefined ? undefined : engine.narrow(ownMask, 2, i * few, few);
          return engine.attention(given([queries, ...leaves.slice(1)], rows, prefixMask));
        });
        const joined = engine.concat(parts, 2);
        expect(worst(engine.doubles(whole), engine.doubles(joined))).toBeLessThan(
          exact === 'float64' ? 1e-12 : 1e-5,
        );
        const seed = up(ref.nd(whole.shape, (i) => Math.sin(i)));
        const actual = engine.grad(whole, leaves, seed);
        const expected = engine.grad(joined, leaves, seed);
        actual.forEach((gradient, i) => {
          expect(worst(engine.doubles(gradient), engine.doubles(expected[i]!)), `input ${i}`).toBeLessThan(
            exact === 'float64' ? 1e-11 : 1e-4,
          );
        });
      });
    });
    const dtypes = [
      ...(exact === 'float64' ? ([['float64', 1e-12]] as const) : []),
      ['float32', 1e-5] as const,
      ...(bfloat16 ? ([['bfloat16', 0.02]] as const) : []),
    ];
    it.each(dtypes)('%s equals the reference', (dtype, tolerance) => {
      const engine = get();
      engine.scope(() => {
        const narrow = inputs.map((x) => up(x, dtype));
        const out = engine.attention(given(narrow, up(perRow, 'float32'), up(perPrompt, 'float32')));
        expect(out.dtype).toBe(dtype);
        const [q, k, v, pk, pv] = narrow.map((x) => ref.of(x.shape, engine.doubles(x))) as [
          Nd,
          Nd,
          Nd,
          Nd,
          Nd,
        ];
        const expected = ref.attention({
          query: q,
          key: k,
          value: v,
          mask: perRow,
          prefix: { key: pk, value: pv, mask: perPrompt },
        });
        expect(worst(engine.doubles(out), expected.data)).toBeLessThan(tolerance);
      });
    });
  });
}
