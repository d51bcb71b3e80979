/** Sampling: what is drawn, how often, and the log-probabilities that come with it. */
import { describe, expect, it } from 'vitest';
import type { Engine } from '../../src/engine/engine.ts';
import { Random } from '../../src/ground/random.ts';
import * as ref from '../helpers/reference.ts';

const BELOW_ONE = 1 - 2 ** -24; // the largest float32 below 1
const logits = ref.of([7], [0.3, -1.2, 2, 0.1, 1.4, -0.7, 0.9]);
const mask = ref.of([7], [0, 0, -1e9, 0.5, 0, 0, -1e9]);

interface Draw {
  readonly temperature: number;
  readonly topP: number;
  readonly topK?: number;
  readonly masked?: boolean;
}

/** Ids and log-probabilities on the host. */
interface Drawn {
  readonly ids: Int32Array;
  readonly logProbs: Float32Array;
}

/** One draw per uniform from the same logits. */
function draw(engine: Engine, { temperature, topP, topK, masked }: Draw, uniforms: Float32Array): Drawn {
  return engine.scope(() => {
    const row = engine.tensor(Float32Array.from(logits.data), [1, 7]);
    const many = engine.indexSelect(row, engine.tensor(new Int32Array(uniforms.length), [uniforms.length])); // [B, 7]
    const { ids, logProbs } = engine.sample(many, {
      temperature,
      topP,
      uniforms: engine.tensor(uniforms, [uniforms.length]),
      ...(topK === undefined ? {} : { topK }),
      ...(masked === true ? { mask: engine.tensor(Float32Array.from(mask.data), [7]) } : {}),
    });
    expect([ids.dtype, logProbs.dtype]).toEqual(['int64', 'float32']);
    return { ids: engine.ints(ids), logProbs: engine.floats(logProbs) };
  });
}

const logOf = ({ temperature, masked }: Draw): Float64Array =>
  ref.distribution(ref.reshape(logits, [1, 7]), {
    temperature: temperature === 0 ? 1 : temperature,
    ...(masked === true ? { mask } : {}),
  }).data;

/** Probabilities that remain under top-k, then top-p of what that leaves, renormalised. */
function nucleus(options: Draw): Float64Array {
  const p = logOf(options).map(Math.exp);
  const order = [...p.keys()].sort((a, b) => p[b]! - p[a]!).slice(0, options.topK ?? p.length);
  const mass = order.reduce((sum, token) => sum + p[token]!, 0);
  const kept = new Float64Array(p.length);
  let before = 0;
  for (const token of order) {
    if (before < options.topP * mass) kept[token] = p[token]!;
    before += p[token]!;
  }
  const total = kept.reduce((sum, v) => sum + v, 0);
  return kept.map((v) => v / total);
}

export function samplingContract(get: () => Engine): void {
  describe('sample', () => {
    it.each<Draw>([
      { temperature: 1, topP: 1 },
      { temperature: 0.5, topP: 1, masked: true },
      { temperature: 1.6, topP: 0.8 },
      { temperature: 0.9, topP: 0.55, masked: true },
      { temperature: 1.3, topP: 1, topK: 3 },
      { temperature: 1.2, topP: 0.75, topK: 4 },
      { temperature: 0.8, topP: 0.9, topK: 2, masked: true },
      { temperature: 1, topP: 1, topK: 100 },
    ])('draws each token as often as its probability: %o', (options) => {
      const count = 20_000;
      // Stratified uniforms: the counts are then within rounding of the expectation, not only within chance.
      const random = new Random(3, 'uniforms');
      const uniforms = Float32Array.from({ length: count }, (_, i) =>
        Math.min((i + random.uniform()) / count, BELOW_ONE),
      );
      const { ids, logProbs } = draw(get(), options, uniforms);
      const expected = nucleus(options);
      const all = logOf(options);
      const seen = new Float64Array(7);
      let worst = 0;
      for (let i = 0; i < count; i++) {
        seen[ids[i]!]!++;
        worst = Math.max(worst, Math.abs(logProbs[i]! - all[ids[i]!]!));
      }
      expect(worst).toBeLessThan(1e-5);
      for (let token = 0; token < 7; token++) {
        if (expected[token] === 0) expect(seen[token]).toBe(0);
        else expect(Math.abs(seen[token]! - count * expected[token]!)).toBeLessThan(3);
      }
    });
    it('independent uniforms pass a chi-square test', () => {
      const options = { temperature: 1.1, topP: 1 };
      const random = new Random(8, 'independent');
      const uniforms = Float32Array.from({ length: 8000 }, () => Math.min(random.uniform(), BELOW_ONE));
      const { ids } = draw(get(), options, uniforms);
      const seen = new Float64Array(7);
      for (const id of ids) seen[id]!++;
      const chi = nucleus(options).reduce(
        (sum, p, token) => sum + (seen[token]! - 8000 * p) ** 2 / (8000 * p),
        0,
      );
      expect(chi).toBeLessThan(22.46); // 99.9 % quantile of 6 degrees of freedom
      expect(chi).toBeGreaterThan(0.38); // 0.1 % quantile: the draws do vary
    });
    it('temperature 0 takes the likeliest token and reports its log-probability at temperature 1', () => {
      const plain = draw(get(), { temperature: 0, topP: 1 }, new Float32Array([0, BELOW_ONE]));
      expect([...plain.ids]).toEqual([2, 2]);
      expect(plain.logProbs[1]).toBeCloseTo(logOf({ temperature: 0, topP: 1 })[2]!, 5);
      const masked = draw(get(), { temperature: 0, topP: 0.1, masked: true }, new Float32Array([0.5]));
      expect([...masked.ids]).toEqual([4]);
    });
    it.each([0, 2 ** -24, 0.5, BELOW_ONE, 1])('uniform %f never draws a forbidden or cut token', (u) => {
      for (const topP of [1e-6, 0.3, 0.999, 1]) {
        const { ids } = draw(get(), { temperature: 1, topP, masked: true }, new Float32Array([u]));
        expect(nucleus({ temperature: 1, topP, masked: true })[ids[0]!]).toBeGreaterThan(0);
      }
    });
    it('a tiny top-p is greedy', () => {
      const { ids } = draw(get(), { temperature: 2, topP: 1e-9 }, new Float32Array([0, 0.4, BELOW_ONE]));
      expect([...ids]).toEqual([2, 2, 2]);
    });
    it('rows are independent', () => {
      const engine = get();
      const { ids, logProbs } = engine.scope(() =>
        engine.sample(engine.tensor(new Float32Array([0, 50, 0, 50, 0, 0, 0, 0, 50]), [3, 3]), {
          temperature: 1,
          topP: 0.9,
          uniforms: engine.tensor(new Float32Array([0.9, 0.1, 0.5]), [3]),
        }),
      );
      expect([...engine.ints(ids)]).toEqual([1, 0, 2]);
      engine.dispose(ids, logProbs);
    });
    it('a large vocabulary keeps its last token reachable', () => {
      const engine = get();
      const vocabulary = 50_000;
      const ids = engine.scope(() =>
        engine.ints(
          engine.sample(engine.zeros([2, vocabulary]), {
            temperature: 1,
            topP: 1,
            uniforms: engine.tensor(new Float32Array([BELOW_ONE, 0.5]), [2]),
          }).ids,
        ),
      );
      expect(ids[0]).toBe(vocabulary - 1);
      expect(Math.abs(ids[1]! - vocabulary / 2)).toBeLessThan(3);
    });
  });
}
