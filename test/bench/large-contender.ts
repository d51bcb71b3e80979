/** The passes of a large policy as timeseer runs them: the questions of peer/large.py, answered in this process. */
import type { Engine, Tensor } from '../../src/engine/engine.ts';
import { collate } from '../../src/policy/batch.ts';
import { forward } from '../../src/policy/forward.ts';
import { generate } from '../../src/policy/generate.ts';
import { publishedName } from '../../src/policy/layout.ts';
import { Policy } from '../../src/policy/policy.ts';
import { defaultRecipe } from '../../src/recipe/recipe.ts';
import { Learner } from '../../src/train/learner.ts';
import { headGradients, policyLoss, supervisedLoss } from '../../src/train/loss.ts';
import { groupMicroBatches, responseStates } from '../../src/train/micro-batch.ts';
import { WorkerGroup } from '../../src/train/worker-group.ts';
import type { LargeWork } from './large-policy.ts';
import type { Contender } from './team.ts';

/** What a question gives, beside the time that it takes. */
export interface LargeAnswer {
  readonly logits?: readonly number[];
  readonly loss?: number;
  readonly logProb?: number;
  /** Global gradient norm of the loss's mean over tokens. */
  readonly norm?: number;
  /** Gradient norm of each tensor, by its published name. */
  readonly gradients?: Readonly<Record<string, number>>;
  readonly ids?: readonly (readonly number[])[];
  /** Peak bytes of device memory. */
  readonly peak?: number;
  /** Why there is no answer. */
  readonly failed?: string;
}

/** Learning rate 0: the update is computed and made, and the weights stay those of the peer. */
const STILL = 0;

export class LargeContender implements Contender<LargeAnswer> {
  readonly name = 'timeseer';
  readonly processes = 1;
  readonly #engine: Engine;
  readonly #work: LargeWork;
  /** Tokens of one micro-batch of an update. */
  readonly #tokens: number;
  readonly #recompute: boolean;
  readonly #policy: Policy;
  #learner: Learner | undefined;

  constructor(
    engine: Engine,
    directory: string,
    work: LargeWork,
    options: { readonly dtype: 'float32' | 'bfloat16'; readonly tokens: number; readonly recompute: boolean },
  ) {
    this.#engine = engine;
    this.#work = work;
    this.#tokens = options.tokens;
    this.#recompute = options.recompute;
    this.#policy = Policy.load(engine, directory, { dtype: options.dtype });
  }

  async ask(question: string): Promise<LargeAnswer[]> {
    const [name, ...numbers] = question.split(' ') as [string, ...string[]];
    const [a, b] = numbers.map(Number) as [number, number];
    this.#engine.trackMemory();
    const answer =
      name === 'forward'
        ? this.#forward()
        : name === 'backward'
          ? this.#backward()
          : name === 'greedy'
            ? await this.#greedy(a, b)
            : this.#grpo();
    const memory = this.#engine.memory();
    return [{ ...answer, ...(memory === null ? {} : { peak: memory.peak }) }];
  }

  async close(): Promise<void> {
    this.#policy.dispose();
  }

  #forward(): LargeAnswer {
    const engine = this.#engine;
    const { prompts } = this.#work;
    return engine.noGrad(() =>
      engine.scope(() => {
        const batch = collate(prompts, this.#policy.dims.special.pad);
        const rows = batch.lengths.map((length, p) => p * batch.length + length - 1);
        const { hidden } = forward(this.#policy, { ...batch, rows }); // [P, D]
        const logits = engine.floats(engine.narrow(this.#policy.logits(hidden), 1, 0, 8)); // [P, 8]
        return { logits: [...logits] };
      }),
    );
  }

  #backward(): LargeAnswer {
    const engine = this.#engine;
    const policy = this.#policy;
    const { prompts, responses } = this.#work;
    return engine.scope(() => {
      const { states, targets } = responseStates(
        policy,
        prompts,
        responses.map((group) => group[0]!),
      );
      let loss = 0;
      const ofHead = engine.zeros(policy.weights.head.shape); // [V, D]
      const forStates = headGradients(
        engine,
        states,
        policy.weights.head,
        targets,
        {},
        (logProb) => {
          const mean = engine.div(supervisedLoss(engine, logProb), targets.length); // []
          loss += engine.item(mean);
          return mean;
        },
        (part) => engine.addInto(ofHead, 0, 0, part),
      );
      const gradients = engine.grad(states, policy.trainable.leaves, forStates);
      const tied = policy.trainable.parameters.findIndex(
        ({ name }) => name === (policy.dims.tied ? 'embed' : 'head'),
      );
      gradients[tied] = engine.add(gradients[tied]!, ofHead);
      return { loss, gradients: this.#norms(gradients) };
    });
  }

  /** Norm of the gradient of each tensor of the checkpoint. */
  #norms(gradients: readonly Tensor[]): Record<string, number> {
    const engine = this.#engine;
    const norms: Record<string, number> = {};
    for (const [i, { parts, offset }] of this.#policy.trainable.parameters.entries()) {
      const flat = engine.reshape(gradients[i]!, [-1]);
      for (const part of parts) {
        const size = part.shape.reduce((product, n) => product * n, 1);
        const own = engine.cast(engine.narrow(flat, 0, part.offset - offset, size), 'float32');
        norms[publishedName(part.name)] = engine.item(engine.norm(own));
      }
    }
    return norms;
  }

  async #greedy(batch: number, limit: number): Promise<LargeAnswer> {
    const { prompts } = this.#work;
    const rows = Array.from({ length: batch }, (_, n) => prompts[n % prompts.length]!);
    const made = await generate(this.#policy, rows, { temperature: 0, maxTokens: limit, seed: 1 });
    return { ids: made.map(({ ids }) => [...ids]) };
  }

  #grpo(): LargeAnswer {
    const engine = this.#engine;
    const policy = this.#policy;
    this.#learner ??= new Learner(
      policy,
      WorkerGroup.single(),
      {
        betas: [0.9, 0.999],
        weightDecay: 0,
        clip: 1,
      },
      this.#recompute,
    );
    const learner = this.#learner;
    const { prompts, responses, advantages } = this.#work;
    const groups = prompts.map((prompt, p) => ({
      prompt,
      responses: responses[p]!.map((ids) => ({ ids })),
      advantage: advantages[p]!,
    }));
    let total = 0;
    let logProbs = 0;
    for (const microBatch of groupMicroBatches(groups, this.#tokens)) {
      engine.scope(() => {
        const tape = learner.tape();
        const { states, targets } = responseStates(
          policy,
          microBatch.map(({ prompt }) => prompt),
          microBatch.flatMap((group) => group.responses.map(({ ids }) => ids)),
          tape,
        ); // [K, D]
        const advantage = Float32Array.from(
          microBatch.flatMap((group) =>
            group.responses.flatMap(({ ids }, g) => Array.from(ids, () => group.advantage[g]!)),
          ),
        ); // [K]
        learner.backward(
          states,
          targets,
          { entropy: true },
          (logProb, entropy, first, last) => {
            const old = engine.detach(logProb);
            logProbs += engine.item(engine.sum(old));
            const input = { logProb, entropy: entropy!, oldLogProb: old, referenceLogProb: old };
            const part = engine.tensor(advantage.subarray(first, last), [last - first]);
            const options = { ...defaultRecipe().rl, kl: 0, entropy: 0 };
            return policyLoss(engine, { ...input, advantage: part }, options).loss;
          },
          tape,
        );
        total += targets.length;
      });
    }
    const { gradNorm } = learner.update(total, STILL);
    return { logProb: logProbs / total, norm: gradNorm };
  }
}
