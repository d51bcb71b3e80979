/**
 * On-policy self-distillation on expert traces: OPSD (Zhao et al. 2026, arXiv 2601.18734) and SDFT (Shenfeld et al. 2026, arXiv 2601.19897).
 * The student answers the usual prompt; the teacher is the same policy with the expert trace in its prompt, and says at every token of the
 * student's own responses what it would have said. Per-token divergence of the two distributions, no gradient through the teacher.
 *
 * The published choices, as TRL's SDFTTrainer has them too:
 * - teacher: the policy that the stage began with (OPSD's fixed teacher, TRL's `base`), or the policy as it is now (TRL's `live`). The papers'
 *   moving averages of the weights are not offered: they would be a second policy in every checkpoint.
 * - divergence: reverse KL(student ‖ teacher) (both papers' objective on the student's tokens), forward KL(teacher ‖ student), or the
 *   Jensen–Shannon divergence, the mean of both to their even mixture.
 * - estimator: over the full vocabulary, exact and differentiated as such; or at the sampled token alone, a policy gradient with the
 *   detached log-ratio as its cost, for reverse KL. Their gradients agree in expectation over the student's tokens. What the choice of a token
 *   changes about later ones counts in neither (nor in the papers).
 *
 * The teacher is as good as its reading of traces in prompts, which large instruction-tuned models do unasked and small ones do not. Measured:
 * a nano policy after 4000 supervised samples, which had never been shown a trace, loses everything to its initial self as the teacher, alone,
 * reverse KL, weight 1, learning rate 2e-4: sampled reward .51 → .03 and format .79 → 0 in 15 steps, while the divergence falls from 2.0 to 1.3.
 *
 * Both distributions are after temperature and vocabulary mask, as everywhere in the loss. In later epochs over the same rollouts tokens are
 * not reweighted. Divergences of single tokens are not cut off (OPSD's releases clip them at a value that they give as an option).
 */
import type { Engine, LogProbOptions, Tensor } from '../engine/engine.ts';
import type { Choice } from '../ground/choice.ts';
import { vocabularyLogProbs } from './loss.ts';

export interface DistillationOptions {
  /** Weight of the divergence in the loss, per token; 0: no teacher. */
  readonly weight: number;
  readonly teacher: 'initial' | 'current';
  readonly divergence: Divergence;
  readonly estimator: 'full' | 'sampled';
}

/** Σ_v exp(p)·(p − q) of log-probabilities [N, V]: [N]. A token that p rules out adds nothing. */
function klDivergence(engine: Engine, p: Tensor, q: Tensor): Tensor {
  return engine.sum(engine.mul(engine.exp(p), engine.sub(p, q)), 1);
}

/** log of the even mixture of two distributions, of log-probabilities [N, V]: [N, V]. */
function evenMixture(engine: Engine, p: Tensor, q: Tensor): Tensor {
  const [tokens, vocabulary] = p.shape as [number, number];
  const flat = (values: Tensor): Tensor => engine.reshape(values, [tokens * vocabulary, 1]);
  const sum = engine.logSumExp(engine.concat([flat(p), flat(q)], 1), 1); // [N·V]
  return engine.reshape(engine.sub(sum, Math.LN2), [tokens, vocabulary]);
}

/** Jensen–Shannon divergence: the mean divergence of both to their even mixture. */
function jensenShannon(engine: Engine, p: Tensor, q: Tensor): Tensor {
  const mixture = evenMixture(engine, p, q);
  const both = engine.add(klDivergence(engine, p, mixture), klDivergence(engine, q, mixture));
  return engine.mul(both, 0.5);
}

/** Divergence of student and teacher. */
export type DivergenceRecord = Choice & {
  /** True where sampled tokens estimate it (`rl.distillation.estimator: sampled`). */
  readonly sampled: boolean;
  /** Divergence of each token [N], in nats, ≥ 0 up to rounding, from log-probabilities [N, V] with gradient where they have one. */
  readonly tokens: (engine: Engine, student: Tensor, teacher: Tensor) => Tensor;
};

export const DIVERGENCES = {
  reverse_kl: {
    label: 'reverse KL',
    summary: 'KL(student ‖ teacher)',
    paper: 'OPSD, arXiv 2601.18734; SDFT, arXiv 2601.19897',
    sampled: true,
    tokens: (engine, student, teacher) => klDivergence(engine, student, teacher),
  },
  forward_kl: {
    label: 'forward KL',
    summary: 'KL(teacher ‖ student)',
    paper: 'OPSD, arXiv 2601.18734',
    sampled: false,
    tokens: (engine, student, teacher) => klDivergence(engine, teacher, student),
  },
  jsd: {
    label: 'Jensen–Shannon',
    summary: 'Jensen–Shannon divergence',
    paper: 'OPSD, arXiv 2601.18734',
    sampled: false,
    tokens: jensenShannon,
  },
} as const satisfies Readonly<Record<string, DivergenceRecord>>;
export type Divergence = keyof typeof DIVERGENCES;

/**
 * Reverse KL at the sampled tokens alone, from their log-probabilities [N]: `value` log π − log π_T, unbiased though of either sign, and `cost`,
 * whose gradient (log π − log π_T)·∇log π is in expectation over the student's tokens that of the divergence.
 */
export function sampledDivergence(
  engine: Engine,
  student: Tensor,
  teacher: Tensor,
): { value: Tensor; cost: Tensor } {
  const value = engine.sub(engine.detach(student), teacher);
  return { value, cost: engine.mul(value, student) };
}

/** What the teacher says of K tokens, from its states that predict them [K, D] (without gradient) and its head [V, D]. */
export interface Teacher {
  readonly states: Tensor;
  readonly head: Tensor;
  readonly targets: Int32Array; // [K]
}

/** What a chunk of tokens has of the student. */
export interface StudentTokens {
  readonly logProb: Tensor; // [k], with gradient
  /** log π over the vocabulary [k, V], with gradient; computed when it is called. */
  vocabulary(): Tensor;
}

/**
 * Divergence of tokens `first` up to `last` to the teacher: `cost` [k], what to differentiate, and `value` [k] for the log, the divergence itself
 * or its estimate. Run inside a scope.
 */
export function divergenceTo(
  engine: Engine,
  { states, head, targets }: Teacher,
  student: StudentTokens,
  [first, last]: readonly [number, number],
  options: LogProbOptions,
  { divergence, estimator }: Pick<DistillationOptions, 'divergence' | 'estimator'>,
): { cost: Tensor; value: Tensor } {
  const part = engine.narrow(states, 0, first, last - first); // [k, D]
  if (estimator === 'sampled') {
    const ids = engine.tensor(targets.subarray(first, last), [last - first]);
    const { logProb } = engine.noGrad(() => engine.logProbs(part, head, ids, { ...options, entropy: false }));
    return sampledDivergence(engine, student.logProb, logProb);
  }
  const teacher = engine.noGrad(() => vocabularyLogProbs(engine, part, head, options)); // [k, V]
  const value = DIVERGENCES[divergence].tokens(engine, student.vocabulary(), teacher);
  return { cost: value, value };
}
