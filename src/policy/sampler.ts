/** Logits to tokens: what may be sampled, how it is drawn, and the penalty on repeating. */
import type { Tensor } from '../engine/engine.ts';
import { ConfigError } from '../ground/errors.ts';
import type { EncodedPrompt } from './batch.ts';
import { FORBID, type Policy, type Prompting } from './policy.ts';

export interface SamplingOptions {
  /** 0 is greedy; 1 when absent. */
  readonly temperature?: number;
  /** Nucleus mass in (0, 1]. Default: 1. */
  readonly topP?: number;
  /** Only the k most probable tokens; all when absent. */
  readonly topK?: number;
  /**
   * > 0. Logits of tokens of the prompt or the response so far are divided by it where positive and multiplied by it where
   * negative, before the temperature (Keskar et al. 2019, "CTRL", section 4.1, as transformers does it); 1 when absent.
   * Log-probabilities are those of the changed logits, so they are not the policy's own.
   */
  readonly repetitionPenalty?: number;
  /**
   * Every token may be sampled but images, videos and what is in no tokenizer, as transformers does it. Otherwise special
   * tokens are forbidden too, as they are in training, all but the end token. Stop tokens are allowed either way.
   */
  readonly free?: boolean;
  /** Further tokens that must not be sampled, stop tokens too, as transformers' `suppress_tokens`. */
  readonly suppress?: readonly number[];
}

/** Tokens [B] and their log-probabilities [B], on the device. */
export interface Drawn {
  readonly ids: Tensor;
  readonly logProbs: Tensor;
}

/**
 * Tokens that may be sampled: an additive vocabulary mask [V], 0 or `FORBID`.
 * @throws ConfigError when an option is out of its range
 */
export function samplingMask(
  policy: Prompting,
  options: SamplingOptions,
  stops: ReadonlySet<number>,
): Float32Array {
  const { temperature = 1, topP = 1, topK, repetitionPenalty = 1, free = false, suppress = [] } = options;
  if (!(temperature >= 0 && Number.isFinite(temperature))) {
    throw new ConfigError(`generate: temperature must be a number ≥ 0, got ${temperature}`);
  }
  if (!(topP > 0 && topP <= 1)) throw new ConfigError(`generate: topP must be in (0, 1], got ${topP}`);
  if (topK !== undefined && !(Number.isInteger(topK) && topK > 0)) {
    throw new ConfigError(`generate: topK must be a positive integer, got ${topK}`);
  }
  if (!(repetitionPenalty > 0 && Number.isFinite(repetitionPenalty))) {
    throw new ConfigError(`generate: repetitionPenalty must be a number > 0, got ${repetitionPenalty}`);
  }
  const mask = (free ? policy.nonText : policy.forbidden).slice();
  for (const id of stops) mask[id] = 0;
  for (const id of suppress) {
    if (!(Number.isInteger(id) && id >= 0 && id < mask.length)) {
      throw new ConfigError(
        `generate: suppressed token ${id} is not one of the ${mask.length} of the vocabulary`,
      );
    }
    mask[id] = FORBID;
  }
  if (mask.every((value) => value !== 0)) throw new ConfigError('generate: every token is suppressed');
  return mask;
}

export class Sampler {
  readonly temperature: number;
  readonly penalty: number;
  readonly #policy: Policy;
  readonly #topP: number;
  readonly #topK: number | undefined;
  readonly #mask: Tensor; // [V]

  /** @throws ConfigError when an option is out of its range. */
  constructor(policy: Policy, options: SamplingOptions, stops: ReadonlySet<number>) {
    const mask = samplingMask(policy, options, stops);
    this.#policy = policy;
    this.temperature = options.temperature ?? 1;
    this.penalty = options.repetitionPenalty ?? 1;
    this.#topP = options.topP ?? 1;
    this.#topK = options.topK;
    this.#mask = policy.engine.tensor(mask, [mask.length]);
  }

  /** Draws from logits [B, V] with uniforms [B]; marks the tokens as seen. Copies nothing to or from the host. */
  draw(logits: Tensor, uniforms: Tensor, seen: Seen | null): Drawn {
    const { engine } = this.#policy;
    return engine.scope(() => {
      const scores = seen === null ? logits : this.#penalised(logits, seen);
      const drawn = engine.sample(scores, {
        temperature: this.temperature,
        topP: this.#topP,
        topK: this.#topK,
        mask: this.#mask,
        uniforms,
      });
      if (seen !== null) engine.indexCopyInto(seen.flags, 0, engine.add(drawn.ids, seen.offsets), seen.ones);
      return drawn;
    });
  }

  #penalised(logits: Tensor, { flags }: Seen): Tensor {
    const { engine } = this.#policy;
    const wide = logits.dtype === 'float32' ? logits : engine.cast(logits, 'float32'); // [B, V]
    const times = engine.mul(wide, this.penalty);
    const by = engine.div(wide, this.penalty);
    // Of the two, the smaller when the penalty is above 1: l·p for negative l, l / p for positive.
    const changed =
      this.penalty >= 1
        ? engine.minimum(times, by)
        : engine.mul(engine.minimum(engine.mul(times, -1), engine.mul(by, -1)), -1);
    const chosen = engine.reshape(flags, wide.shape); // [B, V]
    return engine.add(engine.mul(chosen, changed), engine.sub(wide, engine.mul(chosen, wide)));
  }

  dispose(): void {
    this.#policy.engine.dispose(this.#mask);
  }
}

/** Tokens that each row of a batch has seen; recorded only under a repetition penalty. */
export interface Seen {
  /** 1 where a row has seen a token, else 0. */
  readonly flags: Tensor; // [B · V]
  readonly offsets: Tensor; // [B] int64: b · V
  readonly ones: Tensor; // [B]
}

/** Seen tokens of the rows: none yet, or `flags`. */
export function seenOf({ engine, dims }: Policy, rows: number, flags?: Tensor): Seen {
  const offsets = Int32Array.from({ length: rows }, (_, b) => b * dims.vocabulary);
  return {
    flags: flags ?? engine.zeros([rows * dims.vocabulary]),
    offsets: engine.tensor(offsets, [rows]),
    ones: engine.tensor(new Float32Array(rows).fill(1), [rows]),
  };
}

/** The tokens of prompts [n], for rows that `each` [m] assigns to them. */
export function seenInPrompts(policy: Policy, prompts: readonly EncodedPrompt[], each: Tensor): Seen {
  const { engine, dims } = policy;
  const flags = new Float32Array(prompts.length * dims.vocabulary);
  for (const [i, { ids }] of prompts.entries()) for (const id of ids) flags[i * dims.vocabulary + id] = 1;
  return seenBy(policy, { flags: engine.tensor(flags, [flags.length]) }, each);
}

/** Returns the seen tokens of the rows `slots` [m]. */
export function seenBy(policy: Policy, { flags }: Pick<Seen, 'flags'>, slots: Tensor): Seen {
  const { engine, dims } = policy;
  const rows = engine.indexSelect(engine.reshape(flags, [-1, dims.vocabulary]), slots); // [m, V]
  return seenOf(policy, slots.shape[0]!, engine.reshape(rows, [-1]));
}

/** Marks tokens seen by the rows of `part` as seen by the rows `slots` [m] of `all`, in place. */
export function writeSeen({ engine, dims }: Policy, all: Seen, slots: Tensor, part: Seen): void {
  const shape = [-1, dims.vocabulary];
  engine.indexCopyInto(engine.reshape(all.flags, shape), 0, slots, engine.reshape(part.flags, shape));
}
