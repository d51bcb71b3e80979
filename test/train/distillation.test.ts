import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Tensor } from '../../src/engine/engine.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { choiceNames } from '../../src/ground/choice.ts';
import { Random } from '../../src/ground/random.ts';
import { DIVERGENCES, type DistillationOptions, divergenceTo } from '../../src/train/distillation.ts';
import { headGradients } from '../../src/train/loss.ts';
import { responseStates } from '../../src/train/micro-batch.ts';
import { PromptEncoder } from '../../src/train/task.ts';
import { DEVICE } from '../helpers/device.ts';
import { distill, RL } from '../helpers/distillation.ts';
import { tinyPolicy, tinyTask } from '../helpers/tiny-policy.ts';

const engine = openTorch({ device: DEVICE, threads: 1 });

interface Case {
  readonly value: number[];
  readonly gradient: number[][];
}
interface Golden {
  readonly temperature: number;
  readonly mask: number[];
  readonly student: number[][];
  readonly teacher: number[][];
  readonly ids: number[];
  readonly reverse_kl: Case;
  readonly forward_kl: Case;
  readonly jsd: Case;
  readonly sampled: Case;
}
const golden: Golden = JSON.parse(
  readFileSync(new URL('../golden/distillation.json', import.meta.url), 'utf8'),
);

type Way = Pick<DistillationOptions, 'divergence' | 'estimator'>;
const REVERSE: Way = { divergence: 'reverse_kl', estimator: 'full' };
const SAMPLED: Way = { divergence: 'reverse_kl', estimator: 'sampled' };
const NAMES = choiceNames(DIVERGENCES);
const WAYS: readonly Way[] = [
  ...NAMES.map((divergence): Way => ({ divergence, estimator: 'full' })),
  SAMPLED,
];

const matrix = (
  rows: readonly (readonly number[])[],
  of: typeof Float32Array | typeof Float64Array,
): Tensor => engine.tensor(of.from(rows.flat()), [rows.length, rows[0]!.length]);

interface Given {
  readonly states: Tensor; // [K, D]
  readonly head: Tensor; // [V, D]
  readonly teacher: Tensor; // [K, D]
  readonly teacherHead: Tensor;
  readonly ids: Int32Array;
  readonly temperature: number;
  readonly mask?: Tensor;
}

/** Values by token, and the gradients of their costs' sum, through chunks of two tokens. */
function distilled({ states, head, teacher, teacherHead, ids, temperature, mask }: Given, way: Way) {
  const options = { temperature, ...(mask === undefined ? {} : { mask }) };
  const values: number[] = [];
  let cost = 0;
  let forHead = new Float64Array(head.shape[0]! * head.shape[1]!);
  const told = { states: teacher, head: teacherHead, targets: ids };
  const gradient = headGradients(
    engine,
    states,
    head,
    ids,
    options,
    (logProb, _, first, last, vocabulary) => {
      const own = divergenceTo(engine, told, { logProb, vocabulary }, [first, last], options, way);
      values.push(...engine.doubles(own.value));
      cost += engine.item(engine.sum(own.cost));
      return engine.sum(own.cost);
    },
    (part) => {
      const more = engine.doubles(part);
      forHead = forHead.map((value, i) => value + more[i]!);
    },
    2,
  );
  return { values, cost, gradient: engine.doubles(gradient), forHead };
}

describe('the divergence from the teacher', () => {
  test.each(WAYS)('$divergence, $estimator, and its gradient are those of TRL', (way) => {
    const width = golden.mask.length;
    const identity = Array.from({ length: width }, (_, i) =>
      Array.from({ length: width }, (_, j) => Number(i === j)),
    );
    engine.scope(() => {
      const { values, gradient } = distilled(
        {
          ...{ states: matrix(golden.student, Float32Array), teacher: matrix(golden.teacher, Float32Array) },
          ...{ head: matrix(identity, Float32Array), teacherHead: matrix(identity, Float32Array) },
          ...{ ids: Int32Array.from(golden.ids), temperature: golden.temperature },
          mask: engine.tensor(Float32Array.from(golden.mask), [width]),
        },
        way,
      );
      const want = way.estimator === 'sampled' ? golden.sampled : golden[way.divergence];
      // TRL's sampled loss is the log-ratio times the log-probability; the value is the log-ratio itself.
      if (way.estimator === 'full') {
        values.forEach((value, k) => {
          expect(value).toBeCloseTo(want.value[k]!, 4);
        });
        expect(values[4]).toBeCloseTo(0, 6);
      }
      want.gradient.flat().forEach((value, i) => {
        expect(gradient[i]).toBeCloseTo(value, 4);
      });
    });
  });

  const random = new Random(3, 'distillation');
  const normal = (count: number): Float64Array => Float64Array.from({ length: count }, () => random.normal());
  const [tokens, width, vocabulary] = [5, 4, 7];
  const given = (states: Float64Array, head: Float64Array): Given => ({
    states: engine.tensor(states, [tokens, width]),
    head: engine.tensor(head, [vocabulary, width]),
    teacher,
    teacherHead,
    ids: Int32Array.of(6, 0, 2, 2, 5),
    temperature: 1.3,
  });
  const teacher = engine.tensor(normal(tokens * width), [tokens, width]);
  const teacherHead = engine.tensor(normal(vocabulary * width), [vocabulary, width]);

  test.each(NAMES)('%s: its gradients by states and head are its finite differences', (divergence) => {
    const [states, head] = [normal(tokens * width), normal(vocabulary * width)];
    const way: Way = { divergence, estimator: 'full' };
    engine.scope(() => {
      const at = (own: Float64Array, weights: Float64Array): number =>
        distilled(given(own, weights), way).cost;
      const { gradient, forHead } = distilled(given(states, head), way);
      const moved = (values: Float64Array, i: number, by: number): Float64Array =>
        values.map((value, j) => (i === j ? value + by : value));
      const step = 1e-5;
      states.forEach((_, i) => {
        const slope = (at(moved(states, i, step), head) - at(moved(states, i, -step), head)) / (2 * step);
        expect(gradient[i]).toBeCloseTo(slope, 6);
      });
      head.forEach((_, i) => {
        const slope = (at(states, moved(head, i, step)) - at(states, moved(head, i, -step))) / (2 * step);
        expect(forHead[i]).toBeCloseTo(slope, 6);
      });
    });
  });

  test('at sampled tokens has the gradient of the full one in expectation', () => {
    const [states, head] = [normal(tokens * width), normal(vocabulary * width)];
    engine.scope(() => {
      const full = distilled(given(states, head), REVERSE).gradient;
      const own = given(states, head);
      const logits = engine.div(engine.linear(own.states, own.head), own.temperature);
      const chances = engine.doubles(engine.exp(engine.logSoftmax(logits))); // [K, V]
      const mean = new Float64Array(full.length);
      for (let word = 0; word < vocabulary; word++) {
        const { gradient } = distilled({ ...own, ids: new Int32Array(tokens).fill(word) }, SAMPLED);
        gradient.forEach((value, i) => {
          mean[i]! += chances[Math.floor(i / width) * vocabulary + word]! * value;
        });
      }
      full.forEach((value, i) => {
        expect(mean[i]).toBeCloseTo(value, 9);
      });
    });
  });

  test('is never negative, zero for the same distribution, and at most log 2 for Jensen–Shannon', () => {
    const row = fc.array(fc.double({ min: -40, max: 40, noNaN: true }), { minLength: 4, maxLength: 4 });
    fc.assert(
      fc.property(row, row, (a, b) => {
        engine.scope(() => {
          const [p, q] = [a, b].map((values) => engine.logSoftmax(matrix([values], Float64Array)));
          for (const divergence of NAMES) {
            expect(engine.item(DIVERGENCES[divergence].tokens(engine, p!, q!))).toBeGreaterThan(-1e-12);
            expect(engine.item(DIVERGENCES[divergence].tokens(engine, p!, p!))).toBeCloseTo(0, 12);
          }
          expect(engine.item(DIVERGENCES.jsd.tokens(engine, p!, q!))).toBeLessThanOrEqual(Math.LN2 + 1e-12);
        });
      }),
      { numRuns: 40 },
    );
  });
});

describe('a stage that distils', () => {
  const beginner = tinyPolicy(engine);
  // What the teacher is asked is the student's own question, so that the two policies can be compared by their answers.
  const plain = tinyTask({ teacherInstruction: (example) => tinyTask().instruction(example) });

  test('from itself, asked the same, has nothing to learn', async () => {
    for (const divergence of NAMES) {
      const distillation = { ...RL.distillation, teacher: 'current', divergence } as const;
      const { lines } = await distill(beginner, null, plain, { distillation });
      expect(lines[0]!.distillation).toBeCloseTo(0, 6);
      expect(lines[0]!.gradNorm).toBeLessThan(1e-4);
      expect(lines[0]!.zeroVariance).toBe(1);
    }
  });

  test('from itself with the trace in the prompt does, and what it learns depends on the trace', async () => {
    const distillation = { ...RL.distillation, teacher: 'current' } as const;
    const [told, other] = [
      await distill(beginner, null, tinyTask(), { distillation }),
      await distill(beginner, null, tinyTask({ trace: () => 'another trace altogether' }), { distillation }),
    ];
    expect(told.lines[0]!.distillation).toBeGreaterThan(1e-3);
    expect(told.lines[0]!.reward).toBe(other.lines[0]!.reward); // the student answered the same
    expect(told.lines[0]!.distillation).not.toBeCloseTo(other.lines[0]!.distillation!, 4);
    expect(told.lines[0]!.kl).toBeNull();
  });

  test('beside an advantage adds its gradient to it', async () => {
    const options = { advantage: 'dr_grpo', learningRate: 1e-9 } as const;
    const [both, alone, distilled] = [
      await distill(beginner, beginner, tinyTask(), options),
      await distill(beginner, null, tinyTask(), {
        ...options,
        distillation: { ...RL.distillation, weight: 0 },
      }),
      await distill(beginner, beginner, tinyTask(), { learningRate: 1e-9 }),
    ];
    expect(alone.lines[0]!.distillation).toBeNull();
    expect(both.lines[0]!.distillation).toBeCloseTo(distilled.lines[0]!.distillation!, 6);
    expect(both.lines[0]!.gradNorm).not.toBeCloseTo(alone.lines[0]!.gradNorm!, 3);
    expect(both.lines[0]!.gradNorm).not.toBeCloseTo(distilled.lines[0]!.gradNorm!, 3);
    expect(both.lines[0]!.loss).toBeCloseTo(alone.lines[0]!.loss + distilled.lines[0]!.loss, 4);
  });

  test('needs the initial policy where that teaches', async () => {
    await expect(distill(beginner, null, tinyTask(), {})).rejects.toThrow(
      /teacher=initial needs a reference/,
    );
  });

  test('reads the trace in the states that predict every token of a response', async () => {
    const encoder = new PromptEncoder(beginner);
    const task = tinyTask();
    const example = task.example(1);
    const picture = await task.picture(example);
    const ids = [beginner.encodeResponse('dark in the middle')];
    const statesOf = (text: string): Float32Array =>
      engine.scope(() =>
        engine.floats(responseStates(beginner, [encoder.encode(picture, text)], ids).states),
      );
    const usual = statesOf(task.instruction(example));
    const told = statesOf(task.teacherInstruction(example, task.trace(example)));
    const width = beginner.dims.width;
    expect(told.length).toBe(usual.length);
    for (let k = 0; k < told.length / width; k++) {
      const apart = told
        .subarray(k * width, (k + 1) * width)
        .map((value, d) => value - usual[k * width + d]!);
      expect(Math.hypot(...apart)).toBeGreaterThan(1e-2);
    }
  });
});
