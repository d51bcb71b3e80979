/**
 * The keys of a recipe, with their defaults, ranges and meaning. Unknown keys are
 * refused at every level. `src/config.ts` reads recipes; `src/recipes/quickstart.yaml` lists every key.
 */
import { z } from 'zod';
import { ADAPTER_TARGETS, DECODER_TARGETS } from './lora-targets.ts';

/** Most samples, steps and the like of a run: more than a year of them. */
const MOST = 1e9;
const count = (smallest: number, most = MOST) => z.number().int().min(smallest).max(most);
const positive = z.number().positive();
const nonNegative = z.number().min(0);
/** A factor or divisor whose effect float32 still holds. */
const scale = z.number().min(1e-6).max(1e6);
const ratio = z.number().min(0).max(1);
const word = z.string().min(1);
/** Decay rates of Adam's moments, each in [0, 1). */
const betas = z.tuple([z.number().min(0).lt(1), z.number().min(0).lt(1)]).readonly();

/** Longest series that is generated: longer ones would fill the memory before training begins. */
const LONGEST_SERIES = 1_000_000;
/** Longest response, in tokens: no context of a Qwen2.5-VL is longer. */
const LONGEST_RESPONSE = 1 << 17;

const data = z
  .strictObject({
    /** Data set: a generator preset, or a directory that `data prepare` or `generate` wrote. */
    name: word.default('nano5'),
    /** Points per series of a generator. */
    length: count(2, LONGEST_SERIES).default(1000),
    /** Series kept for evaluation where the data set has no splits of its own; training never sees them. */
    heldOut: count(1, 1e7).default(400),
  })
  .readonly();

const adapter = z
  .strictObject({
    /** Rank r of the low-rank pairs A [r, in] and B [out, r]. */
    rank: count(1, 1024).default(16),
    /** The adapter's output is scaled by alpha / rank. */
    alpha: scale.default(32),
    /** Scaled by alpha / √rank instead (rsLoRA). */
    rslora: z.boolean().default(false),
    /** Projections that get an adapter, in every layer: of the decoder, unless some of `visual` are named. All: 'all-linear'. */
    targets: z
      .preprocess(
        (value) => (value === 'all-linear' ? [...ADAPTER_TARGETS] : value),
        z
          .array(z.enum(ADAPTER_TARGETS))
          .min(1)
          .refine((targets) => new Set(targets).size === targets.length, { error: 'different projections' })
          .readonly(),
      )
      .default([...DECODER_TARGETS]),
  })
  .readonly();

const policy = z
  .strictObject({
    /** 'nano' (a small Qwen2.5-VL, random weights) or a Hugging Face directory to start from. */
    init: word.default('nano'),
    /**
     * What the weights are held in. 'auto': float32 on a CPU; on a GPU what the checkpoint has, 16 bits as bfloat16.
     * Training bfloat16 weights keeps float32 master copies.
     */
    dtype: z.enum(['auto', 'float32', 'bfloat16']).default('auto'),
    /** What training changes: everything, everything but the vision tower, or a low-rank adapter (LoRA) alone. */
    tune: z.enum(['all', 'decoder', 'adapter']).default('all'),
    /** Of `tune: adapter`. */
    adapter: adapter.prefault({}),
  })
  .readonly();

const memory = z
  .strictObject({
    /** Tokens of a micro-batch in training, padding included: more need more memory, fewer more time. */
    tokens: count(1).default(32_768),
    /** Responses that a rollout decodes in one batch, whole groups, at least one: more need more memory, fewer more time. */
    rows: count(1, 65_536).default(256),
    /** Gradient checkpointing: keep each layer's input alone and recompute the layer in the backward pass. 'auto': where the memory plan asks for it. */
    recompute: z.enum(['auto', 'always', 'never']).default('auto'),
    /** Refuse to start a training stage whose memory plan does not fit the device. */
    check: z.boolean().default(true),
  })
  .readonly();

const sft = z
  .strictObject({
    /** Training examples, each seen once; 0 skips the stage. The stage ends after them, not after a time. */
    samples: count(0).default(30_000),
    /** Examples per update, over all workers. */
    batch: count(1, 65_536).default(16),
    /** Peak learning rate of AdamW. */
    learningRate: positive.max(1).default(1.4e-3),
    /** Steps of linear warm-up. */
    warmup: count(0).default(50),
    /** Where the cosine ends, as a share of the peak. */
    minLearningRate: ratio.default(0.05),
    betas: betas.default([0.9, 0.95]),
    /** Decoupled weight decay (AdamW), on matrices only. */
    weightDecay: nonNegative.max(1).default(0.05),
    /** Gradient clipping: largest global norm. */
    clip: scale.default(1),
    /** Data-parallel threads of this process. */
    workers: count(1, 256).default(2),
    /** Steps between checkpoints. */
    checkpointEvery: count(1).default(500),
  })
  .readonly();

const transport = z
  .strictObject({
    /** Entropic regularisation of Sinkhorn; smaller is sharper and converges more slowly. */
    epsilon: scale.default(0.08),
    /** Row and column scalings. */
    iterations: count(1, 100_000).default(50),
    /** Similarity = exp(−cost / tau). */
    tau: scale.default(0.5),
  })
  .readonly();

const rl = z
  .strictObject({
    /** Steps, each of fresh rollouts and updates from them; 0 skips the stage. */
    steps: count(0).default(100),
    /** Prompts per step. */
    prompts: count(1, 65_536).default(16),
    /** Responses per prompt, G; advantages compare them, so at least two. */
    group: count(2, 4096).default(8),
    /** Divides the logits of rollouts, and of every log-probability of the loss. */
    temperature: z.number().min(0.001).max(10).default(1),
    /** Nucleus sampling of rollouts; 1 keeps all tokens. Below 1 the gradient is biased: the loss is of the full distribution. */
    topP: positive.max(1).default(1),
    /** Longest response, in tokens. */
    maxTokens: count(1, LONGEST_RESPONSE).default(96),
    /** Advantage estimator. */
    advantage: z.enum(['timerpo', 'grpo', 'dr_grpo']).default('timerpo'),
    /** Weight of the orthogonal, transport-grounded part of the TimerPO advantage. */
    alpha: nonNegative.max(1e6).default(0.3),
    transport: transport.prefault({}),
    /** Peak learning rate of AdamW. */
    learningRate: positive.max(1).default(2e-4),
    /** Steps of linear warm-up. */
    warmup: count(0).default(3),
    /** Where the cosine ends, as a share of the peak. */
    minLearningRate: ratio.default(0.1),
    /** Mini-batches, one update each, that an epoch over a step's rollouts is divided into; divides `prompts`. */
    miniBatches: count(1, 65_536).default(1),
    /** Epochs over the rollouts of a step. */
    epochs: count(1, 1000).default(1),
    /** PPO: the probability ratio is clipped to 1 ± this. */
    clipRatio: positive.lt(1).default(0.2),
    /** Weight (β) of the k3 estimate of the KL divergence from the reference policy; 0: no reference. */
    kl: nonNegative.max(1e6).default(0.001),
    /** Weight of the entropy bonus. */
    entropy: nonNegative.max(1e6).default(0.001),
    /** Gradient clipping: largest global norm. */
    clip: scale.default(1),
    betas: betas.default([0.9, 0.95]),
    /** Decoupled weight decay (AdamW), on matrices only. */
    weightDecay: nonNegative.max(1).default(0),
    /** Steps between checkpoints. */
    checkpointEvery: count(1).default(10),
    /** Data-parallel threads of this process. */
    workers: count(1, 256).default(2),
  })
  .readonly();

/** Of `input: numbers`. */
const numbers = z
  .strictObject({
    /** Significant digits of each value. */
    digits: count(1, 17).default(3),
    /** Most values per channel; longer series are reduced to the means of as many blocks. */
    points: count(2, LONGEST_SERIES).default(250),
  })
  .readonly();

const evaluation = z
  .strictObject({
    /** Held-out examples evaluated: of a prepared data set with more, as many are drawn; otherwise at most `data.heldOut`. */
    series: count(1, 1e7).default(400),
    /** Temperature of the sampled evaluation, beside the greedy one; reinforcement learning raises the reward at `rl.temperature`. */
    temperature: z.number().min(0.001).max(10).default(1),
    /** Sampled responses per example. */
    samples: count(1, 1024).default(8),
    /** AnomLLM series, evenly of its eight tasks, that the last policy answers too; 0: none. */
    transfer: count(0, 1e7).default(160),
    /** Examples of the validation split on which the best of the classical detectors is chosen; 0: the blind expert is taken unseen. */
    validation: count(0, 1e7).default(400),
    /** Resamples behind every 95 % interval. */
    bootstrap: count(100, 1e6).default(2000),
    /** Longest response, in tokens. */
    maxTokens: count(1, LONGEST_RESPONSE).default(96),
  })
  .readonly();

/** Of runs on the data that the recipe names; none unless it lists some, and none of fewer than 100 held-out series. */
const requirements = z
  .strictObject({
    /** Least means over the held-out series after the supervised stage, greedy, by metric: {format: 0.98}. */
    sft: z.record(word, ratio).readonly().default({}),
    /** What the 95 % interval of the change of a mean reward by reinforcement lies above. */
    gain: z
      .strictObject({
        reward_sampled: z.exactOptional(z.number().min(-1).max(1)),
        reward_greedy: z.exactOptional(z.number().min(-1).max(1)),
      })
      .readonly()
      .default({}),
  })
  .readonly();

export const recipeSchema = z
  .strictObject({
    /** Of everything random in the run. */
    seed: count(0, Number.MAX_SAFE_INTEGER).default(42),
    data: data.prefault({}),
    /** Figure preset that shows a series to the policy; 'task': the one that the data set names. */
    figure: word.default('nano'),
    /** Whether the policy is shown a picture, or reads the series as numbers in the prompt. */
    input: z.enum(['picture', 'numbers']).default('picture'),
    numbers: numbers.prefault({}),
    policy: policy.prefault({}),
    memory: memory.prefault({}),
    /** Supervised fine-tuning on expert traces. */
    sft: sft.prefault({}),
    /** Reinforcement learning: TimerPO or GRPO. */
    rl: rl.prefault({}),
    eval: evaluation.prefault({}),
    /** What the report holds the run to. */
    requirements: requirements.prefault({}),
    /**
     * How answers are read, in training and evaluation. 'lenient': as the papers' releases do (`src/tasks/response.ts`); 'strict':
     * a part that is not exactly as asked for earns nothing. The format reward is strict either way; `explain` reads leniently.
     */
    answers: z.enum(['lenient', 'strict']).default('lenient'),
  })
  .readonly()
  .superRefine((recipe, context) => {
    if (recipe.rl.prompts % recipe.rl.miniBatches !== 0) {
      context.addIssue({
        code: 'custom',
        path: ['rl', 'miniBatches'],
        message: `a divisor of rl.prompts = ${recipe.rl.prompts}`,
      });
    }
  });

export type Recipe = z.infer<typeof recipeSchema>;
export type PolicyRecipe = Recipe['policy'];
export type MemoryRecipe = Recipe['memory'];
export type SftRecipe = Recipe['sft'];
export type RlRecipe = Recipe['rl'];
export type EvalRecipe = Recipe['eval'];

let defaults: Recipe | undefined;

/** The recipe that an empty file means. */
export function defaultRecipe(): Recipe {
  defaults ??= recipeSchema.parse({});
  return defaults;
}
