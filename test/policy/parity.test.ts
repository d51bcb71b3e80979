import { afterAll, describe, expect, it } from 'vitest';
import type { Tensor } from '../../src/engine/engine.ts';
import { collate, type EncodedPrompt, joined, responseSequence } from '../../src/policy/batch.ts';
import { forward } from '../../src/policy/forward.ts';
import { generate } from '../../src/policy/generate.ts';
import type { Policy } from '../../src/policy/policy.ts';
import { encodeImages } from '../../src/policy/vision.ts';
import { engine, picture } from './golden.ts';
import {
  gradientNames,
  gradientsOf,
  type ParityPolicy,
  parity,
  parityPolicy,
  relative,
  weighted,
  worst,
} from './parity.ts';

/**
 * Largest |a − b| / max |b| over a stored tensor, float32 against float32. Measured with libtorch 1.13 and 2.15: pixels 2e-7,
 * visual tokens, states and logits 4e-6, log-probabilities 2e-6, gradients 2.4e-5. Our rotary angles are float64 before the
 * cosine, the reference's float32: cosines differ by 7e-5 at position 1000 and, beyond what is tested here, by 3e-4 at
 * 4000 and 2e-3 at 32 000, where the reference is the one that is rounded.
 */
const TOLERANCE = 1e-4;

/**
 * Largest error of ours in bfloat16 against float32, in units of the reference's own. Both round after every operation, but
 * not the same sums, so that single numbers differ; the errors are alike in size. Measured: at most 1.18 for a tensor of
 * states and 1.02 for the gradients of a policy together; 1.7 for the gradient of one parameter, which is not judged alone.
 */
const ROUNDING = 1.5;

/** Worst error per quantity; printed when TIMESEER_PARITY is set. */
const seen = new Map<string, { error: number; where: string }>();

function note(quantity: string, where: string, error: number): void {
  const known = seen.get(quantity);
  if (known === undefined || !(error <= known.error)) seen.set(quantity, { error, where });
}

function encode(policy: Policy, row: ParityPolicy): EncodedPrompt[] {
  return row.rows.map(({ text, sizes }) =>
    policy.encodePrompt(
      text,
      sizes.map(([w, h]) => picture(w, h)),
    ),
  );
}

/** Rows of a padded [B · T, …] that hold tokens; without the last token of each with `predicting`. */
function places(lengths: ArrayLike<number>, length: number, predicting = false): Int32Array {
  return Int32Array.from(
    Array.from(lengths).flatMap((n, b) =>
      Array.from({ length: predicting ? n - 1 : n }, (_, t) => b * length + t),
    ),
  );
}

/** Log-probability of every token but the first of each row: [N − B]. */
function logProbs(policy: Policy, prompts: readonly EncodedPrompt[]): Tensor {
  const batch = collate(prompts, policy.dims.special.pad);
  const rows = places(batch.lengths, batch.length, true);
  const targets = Int32Array.from(prompts.flatMap(({ ids }) => [...ids.slice(1)]));
  const { hidden } = forward(policy, { ...batch, rows });
  return engine.logProbs(hidden, policy.weights.head, engine.tensor(targets, [targets.length])).logProb;
}

/** The first `count` layers of a policy. */
const truncated = ({ weights, dims }: Policy, count: number) => ({
  engine,
  dims: { ...dims, layers: count },
  weights: { ...weights, layers: weights.layers.slice(0, count) },
});

/** States after the final norm of each token when only the first `count` layers are there, rows one after another. */
function layerStates(policy: Policy, prompts: readonly EncodedPrompt[], count: number): Float32Array {
  const batch = collate(prompts, policy.dims.special.pad);
  const { hidden } = forward(truncated(policy, count), batch);
  const rows = places(batch.lengths, batch.length);
  return engine.floats(engine.rows(hidden, engine.tensor(rows, [rows.length]))); // [N · D]
}

/** Visual tokens when only the first `count` blocks are there. */
function visualTokens(policy: Policy, prompts: readonly EncodedPrompt[], count: number): Float32Array {
  const { weights, dims } = policy;
  const shorter = { ...weights, blocks: weights.blocks.slice(0, count) };
  return engine.floats(
    encodeImages(
      engine,
      shorter,
      dims.vision,
      prompts.flatMap(({ images }) => images),
    ),
  );
}

/** Logits of every token, padding left out. */
function allLogits(policy: Policy, prompts: readonly EncodedPrompt[]): Float32Array {
  const batch = collate(prompts, policy.dims.special.pad);
  const rows = places(batch.lengths, batch.length);
  return engine.floats(policy.logits(forward(policy, { ...batch, rows }).hidden)); // [N · V]
}

const rowsOf = (values: Float32Array, width: number): number => values.length / width;

const policies = parity.policies.map((row, index) => ({ ...row, index, policy: parityPolicy(engine, row) }));
const born = engine.live();
afterAll(() => expect(engine.live()).toBe(born));

describe.each(policies)('$name', (row) => {
  const { policy } = row;
  const prompts = encode(policy, row);
  const tokens = prompts.reduce((sum, { ids }) => sum + ids.length, 0);
  const { width, layers, vision } = policy.dims;

  const check = (quantity: string, name: string, values: Float32Array, rows: number): void => {
    const error = worst(`${row.index}/${name}`, values, rows);
    note(quantity, `${row.name}: ${name}`, error);
    expect(error, name).toBeLessThan(TOLERANCE);
  };

  it('gives the same text, ids, positions, grids and pixels', () => {
    for (const [i, want] of row.rows.entries()) {
      const prompt = prompts[i]!;
      expect(policy.chat.render(want.messages)).toBe(want.text);
      expect([...prompt.ids]).toEqual(want.ids);
      expect([...prompt.positions]).toEqual(want.positions.flat());
      expect(prompt.images.map(({ rows, columns }) => [1, rows, columns])).toEqual(want.grids);
      if (prompt.images.length === 0) continue;
      // Back to [L, 3, frames, patch²] with every frame.
      const area = vision.patch ** 2;
      const own = prompt.images.flatMap(({ patches }) => [...patches]);
      const full = Float32Array.from({ length: own.length * vision.temporal }, (_, at) => {
        const channel = Math.floor(at / (area * vision.temporal));
        return own[channel * area + (at % area)]!;
      });
      check('pixels', `pixels.${i}`, full, rowsOf(full, 3 * vision.temporal * area));
    }
  });

  it('gives the same visual tokens after every vision block', () => {
    engine.scope(() => {
      for (let i = 0; i < vision.depth; i++) {
        const values = visualTokens(policy, prompts, i + 1);
        check('vision', `vision.${i}`, values, rowsOf(values, width));
      }
    });
  });

  it('gives the same state after every decoder layer, in a padded batch and alone', () => {
    engine.scope(() => {
      for (let i = 0; i < layers; i++) {
        check('layers', `layer.${i}`, layerStates(policy, prompts, i + 1), tokens);
      }
      const alone = prompts.flatMap((prompt) => [...layerStates(policy, [prompt], layers)]);
      check('alone', `layer.${layers - 1}`, Float32Array.from(alone), tokens);
    });
  });

  it('gives the same logits and log-probabilities of tokens', () => {
    engine.scope(() => {
      check('logits', 'logits', allLogits(policy, prompts), tokens);
      check('logProbs', 'logProbs', engine.floats(logProbs(policy, prompts)), tokens - prompts.length);
    });
  });

  it('gives the same loss and the same gradient of every parameter', () => {
    engine.scope(() => {
      const loss = weighted(engine, logProbs(policy, prompts));
      expect(Math.abs(engine.item(loss) / row.loss - 1)).toBeLessThan(1e-5);
      const gradients = gradientsOf(policy, loss);
      expect([...gradients.keys()].sort()).toEqual(gradientNames(`${row.index}/gradient.`));
      for (const [name, { values, rows }] of gradients) check('gradients', `gradient.${name}`, values, rows);
    });
  });

  it('continues greedily with the same 64 tokens and log-probabilities', async () => {
    const all = await generate(policy, prompts, { temperature: 0, maxTokens: 64, seed: 0 });
    for (const [i, { ids, logProbs: got }] of all.entries()) {
      expect([...ids]).toEqual(row.rows[i]!.greedy);
      check('greedy', `greedy.${i}`, got, 64);
    }
  });

  const { group } = row;
  it.runIf(group !== undefined)('gives responses behind a shared prompt what each full sequence gets', () => {
    const responses = group!.responses.map((ids) => Int32Array.from(ids));
    const promptOf = (r: number): EncodedPrompt => prompts[Math.floor(r / group!.samples)]!;
    const masked = { temperature: group!.temperature };
    engine.scope(() => {
      const { pad } = policy.dims.special;
      const before = collate(prompts, pad);
      const encoded = forward(policy, before);
      const own = collate(
        responses.map((ids, r) => responseSequence(promptOf(r), ids)),
        pad,
      );
      const behind = forward(policy, { ...own, prefix: encoded.cache });
      const states = engine.concat([encoded.hidden, behind.hidden], 0);
      const offset = before.batch * before.length;
      // The prompt's last state predicts the first token, each token's state the next.
      const index = responses.flatMap((ids, r) => {
        const prompt = Math.floor(r / group!.samples);
        const last = prompt * before.length + before.lengths[prompt]! - 1;
        return Array.from(ids, (_, t) => (t === 0 ? last : offset + r * own.length + t - 1));
      });
      const targets = responses.flatMap((ids) => [...ids]);
      const { logProb } = engine.logProbs(
        engine.rows(states, engine.tensor(Int32Array.from(index), [index.length])),
        policy.weights.head,
        engine.tensor(Int32Array.from(targets), [targets.length]),
        { ...masked, mask: engine.tensor(policy.forbidden, [policy.dims.vocabulary]) },
      );
      check('group log-probabilities', 'group.logProbs', engine.floats(logProb), targets.length);
      const gradients = gradientsOf(policy, weighted(engine, logProb));
      for (const [name, { values, rows }] of gradients) {
        check('group gradients', `group.gradient.${name}`, values, rows);
      }
      // The same from the whole sequences.
      const whole = collate(
        responses.map((ids, r) => joined(promptOf(r), ids)),
        pad,
      );
      const rows = responses.flatMap((ids, r) => {
        const first = r * whole.length + promptOf(r).ids.length - 1;
        return Array.from(ids, (_, t) => first + t);
      });
      const full = engine.logProbs(
        forward(policy, { ...whole, rows: Int32Array.from(rows) }).hidden,
        policy.weights.head,
        engine.tensor(Int32Array.from(targets), [targets.length]),
        { ...masked, mask: engine.tensor(policy.forbidden, [policy.dims.vocabulary]) },
      );
      check('group log-probabilities', 'group.logProbs', engine.floats(full.logProb), targets.length);
    });
  });
});

const rounded = policies.filter(({ bfloat16 }) => bfloat16 !== undefined);

describe.each(rounded)('in bfloat16: $name', (row) => {
  const { states, gradients } = row.bfloat16!;

  it('is no farther from float32 than the reference in bfloat16 is', () => {
    const policy = parityPolicy(engine, row, 'bfloat16');
    const prompts = encode(policy, row);
    const tokens = prompts.reduce((sum, { ids }) => sum + ids.length, 0);
    engine.scope(() => {
      const check = (name: string, values: Float32Array, rows: number): void => {
        const ratio = relative(`${row.index}/${name}`, values, rows) / states[name]!;
        note(`bfloat16 ${name.split('.')[0]}`, `${row.name}: ${name}`, ratio);
        expect(ratio, name).toBeLessThan(ROUNDING);
      };
      for (let i = 0; i < policy.dims.vision.depth; i++) {
        const values = visualTokens(policy, prompts, i + 1);
        check(`vision.${i}`, values, rowsOf(values, policy.dims.width));
      }
      for (let i = 0; i < policy.dims.layers; i++)
        check(`layer.${i}`, layerStates(policy, prompts, i + 1), tokens);
      check('logits', allLogits(policy, prompts), tokens);
      const scores = logProbs(policy, prompts);
      check('logProbs', engine.floats(scores), tokens - prompts.length);
      // Single tensors are small samples of the error; all of them together are not.
      let ours = 0;
      let theirs = 0;
      for (const [name, { values, rows }] of gradientsOf(policy, weighted(engine, scores))) {
        const error = relative(`${row.index}/gradient.${name}`, values, rows);
        const known = gradients[name]!;
        note('bfloat16 one gradient', `${row.name}: ${name}`, error / known);
        ours += error ** 2;
        theirs += known ** 2;
      }
      note('bfloat16 gradients', row.name, Math.sqrt(ours / theirs));
      expect(Math.sqrt(ours / theirs)).toBeLessThan(ROUNDING);
    });
    policy.dispose();
  });
});

afterAll(() => {
  if (process.env['TIMESEER_PARITY'] === undefined) return;
  for (const [quantity, { error, where }] of seen) console.log(quantity, error.toExponential(2), where);
});
