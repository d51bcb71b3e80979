/**
 * Keys of a recipe, with their defaults, ranges and meaning; `timeseer train --help` and `README.md` beside this file print the `describe` of
 * each. A key that chooses by name takes its values and their meaning from the table of the choice (`src/train/advantage.ts` and so on).
 * Unknown keys are refused at every level. `config.ts` reads recipes; `src/recipes/quickstart.yaml` lists every key.
 */
import { z } from 'zod';
import { LOCALISATIONS, NORMALS } from '../../rewards/anomseer.ts';
import { REWARDS } from '../../rewards/registry.ts';
import { type Choice, choiceHelp, choiceNames } from '../ground/choice.ts';
import { isModuleSpecifier } from '../ground/user-module.ts';
import { ADAPTER_TARGETS, DECODER_TARGETS } from '../policy/lora-targets.ts';
import { ADVANTAGES, REWARD_ADVANTAGES, readsTraces } from '../train/advantage.ts';
import { DIVERGENCES } from '../train/distillation.ts';
import { AGGREGATIONS, KL_ESTIMATORS, LOSSES, RATIOS } from '../train/loss.ts';
import { OPTIMIZERS } from '../train/muon.ts';

/** Upper limit of counts of samples, steps and the like: more than a year of training. */
const MOST = 1e9;
const count = (smallest: number, most = MOST) => z.number().int().min(smallest).max(most);
const positive = z.number().positive();
const nonNegative = z.number().min(0);
/** Factor or divisor within the precision of float32. */
const scale = z.number().min(1e-6).max(1e6);
const ratio = z.number().min(0).max(1);
const word = z.string().min(1);
/** Schema of a key that names a choice of a table; the description lists the choices after `meaning`. */
const choice = <Table extends Readonly<Record<string, Choice>>>(
  table: Table,
  standard: NoInfer<keyof Table & string>,
  meaning: string,
) =>
  z
    .enum(choiceNames(table))
    .default(standard as never)
    .describe(`${meaning}: ${choiceHelp(table)}.`);
const betas = z
  .tuple([z.number().min(0).lt(1), z.number().min(0).lt(1)])
  .readonly()
  .describe("Decay rates of AdamW's first and second moment, each in [0, 1).");

const optimizer = choice(OPTIMIZERS, 'adamw', 'Optimiser');

/** Maximum length of a generated series: longer ones would fill the memory before training begins. */
const LONGEST_SERIES = 1_000_000;
/** Maximum response length in tokens: the longest context of Qwen2.5-VL. */
const LONGEST_RESPONSE = 1 << 17;

const data = z
  .strictObject({
    name: word
      .default('nano5')
      .describe('Data set: a generator preset, or a directory that data prepare or data generate wrote.'),
    length: count(2, LONGEST_SERIES).default(1000).describe('Points per series of a generator.'),
    heldOut: count(1, 1e7)
      .default(400)
      .describe('Held-out series for evaluation, where the data set has no splits; never trained on.'),
    traces: count(1, 1e7)
      .nullable()
      .default(null)
      .describe(
        'Number of training series with an expert trace, stratified by class: the supervised stage trains on these, reinforcement on the others, with their gold answers alone. Null: all.',
      ),
  })
  .readonly();

const adapter = z
  .strictObject({
    rank: count(1, 1024).default(16).describe('Rank r of the low-rank pairs A [r, in] and B [out, r].'),
    alpha: scale.default(32).describe('Scale of the adapter: its output is multiplied by alpha / rank.'),
    rslora: z.boolean().default(false).describe('Scale by alpha / √rank instead (rsLoRA).'),
    targets: z
      .preprocess(
        (value) => (value === 'all-linear' ? [...ADAPTER_TARGETS] : value),
        z
          .array(z.enum(ADAPTER_TARGETS))
          .min(1)
          .refine((targets) => new Set(targets).size === targets.length, { error: 'different projections' })
          .readonly(),
      )
      .default([...DECODER_TARGETS])
      .describe(
        'Projections with an adapter, in every layer. Default: those of the decoder; all-linear: those of the vision tower as well.',
      ),
  })
  .readonly();

const policy = z
  .strictObject({
    init: word
      .default('nano')
      .describe(
        'Initial policy: nano or small-random (a new Qwen2.5-VL with 0.75 M or 2.4 M randomly initialised weights), small or inspect (trained policies that ship with timeseer), or a Hugging Face directory.',
      ),
    dtype: z
      .enum(['auto', 'float32', 'bfloat16'])
      .default('auto')
      .describe(
        'Data type of the weights. auto: float32 on a CPU; on a GPU that of the checkpoint (float16 becomes bfloat16). Training bfloat16 weights keeps float32 master copies.',
      ),
    tune: z
      .enum(['all', 'decoder', 'adapter'])
      .default('all')
      .describe('Trained weights: all, decoder (all but the vision tower), or adapter (LoRA only).'),
    adapter: adapter.prefault({}).describe('Adapter for policy.tune: adapter.'),
  })
  .readonly();

const memory = z
  .strictObject({
    tokens: count(1)
      .default(32_768)
      .describe(
        'Tokens per micro-batch in training, padding included: more tokens need more memory and less time.',
      ),
    rows: count(1, 65_536)
      .default(256)
      .describe(
        'Responses decoded in one batch of a rollout, in whole groups: more responses need more memory and less time.',
      ),
    recompute: z
      .enum(['auto', 'always', 'never'])
      .default('auto')
      .describe(
        "Gradient checkpointing: keep only each layer's input and recompute the layer in the backward pass. auto: where the memory plan requires it.",
      ),
    zero: z
      .union([z.literal(1), z.literal(2), z.literal(3)])
      .default(1)
      .describe(
        "Stage of ZeRO with several processes: each holds a share of the optimizer state (1), also of the gradients (2), which are then exchanged in every micro-batch, and also of the layers' weights while an update is computed (3): a layer is gathered when it runs. 2 and 3 are for gradient checkpointing: without it, or with an adapter, 3 is 2. A reference policy stays whole.",
      ),
    check: z
      .boolean()
      .default(true)
      .describe('Refuse to start a training stage whose memory plan does not fit the device.'),
  })
  .readonly();

/** Evaluation during training, and kept checkpoints; shared by both stages. */
const validation = {
  evalEvery: count(0)
    .default(0)
    .describe('Steps between evaluations on the validation split, concurrent with training; 0: none.'),
  evalSeries: count(1, 1e7).default(100).describe('Validation examples per evaluation, decoded greedily.'),
  keep: z
    .strictObject({
      last: count(1, 10_000)
        .default(1)
        .describe(
          'Number of checkpoints to keep; if the last one is damaged, training resumes from the one before.',
        ),
      best: word.default('reward').describe('Validation metric that selects the best policy.'),
    })
    .readonly()
    .prefault({}),
  patience: count(0)
    .default(0)
    .describe('Early stopping: number of evaluations in a row without improvement; 0: off.'),
  output: z
    .enum(['last', 'best'])
    .default('last')
    .describe('Policy that the stage writes: that of the last step, or the best on the validation split.'),
};

const augment = z
  .strictObject({
    jitter: nonNegative
      .max(2)
      .default(0)
      .describe('White noise: largest standard deviation, in those of the channel.'),
    scale: nonNegative
      .max(2)
      .default(0)
      .describe(
        'Magnitude warping by a factor that varies smoothly along the series: largest standard deviation of its logarithm.',
      ),
    warp: nonNegative
      .max(2)
      .default(0)
      .describe(
        'Time warping by a speed that varies smoothly along the series: largest standard deviation of its logarithm.',
      ),
    crop: nonNegative
      .max(0.9)
      .default(0)
      .describe('Largest share of the series cut off at its ends; the rest is stretched to the same length.'),
    flip: ratio.default(0).describe('Probability of values mirrored at their mean.'),
  })
  .readonly();

const sft = z
  .strictObject({
    samples: count(0)
      .default(10000)
      .describe('Number of training examples; 0 skips the stage. Smaller data sets are repeated in epochs.'),
    levels: count(0)
      .default(0)
      .describe(
        'Number of first samples whose traces name the level of every cell of the plot, as a warm-up for reading it; generator wild only.',
      ),
    traces: z
      .enum(['expert', 'none'])
      .default('expert')
      .describe(
        'Targets: the expert trace with the answer, or the thought of the data where they give one (expert); or the answer alone (none), and the policy answers without reasoning.',
      ),
    augment: augment
      .prefault({})
      .describe(
        'Random changes of three series in four before they are drawn, anew in each epoch, of data sets whose answers stay true. Traces describe the changed series; thoughts of the data stay as they are.',
      ),
    batch: count(1, 65_536).default(16).describe('Examples per update, over all workers.'),
    optimizer,
    learningRate: positive.max(1).default(1.4e-3).describe('Peak learning rate.'),
    warmup: count(0).default(50).describe('Steps of linear warm-up.'),
    minLearningRate: ratio
      .default(0.05)
      .describe('Final learning rate of the cosine, as a share of the peak.'),
    betas: betas.default([0.9, 0.95]),
    weightDecay: nonNegative.max(1).default(0.05).describe('Decoupled weight decay, on matrices only.'),
    clip: scale.default(1).describe('Gradient clipping: maximum global norm.'),
    workers: count(1, 256).default(2).describe('Data-parallel threads of this process.'),
    checkpointEvery: count(1).default(500).describe('Steps between checkpoints.'),
    ...validation,
  })
  .readonly();

/** Credits that each similarity can give. */
const CREDITS = {
  ot: ['response', 'token'],
  contrastive: ['response', 'token'],
  clip: ['response'],
  truth: ['response', 'claim', 'both'],
} as const;

/** Options of `advantage: timerpo`: similarity of a response to the expert trace, and its use in the advantage. */
const timerpo = z
  .strictObject({
    alpha: nonNegative
      .max(1e6)
      .default(0.3)
      .describe('Weight α of the orthogonal (trace-grounded) part of the advantage; 0: traces are not used.'),
    epsilon: scale
      .default(0.08)
      .describe(
        'Entropic regularisation of Sinkhorn: smaller values give sharper plans and slower convergence.',
      ),
    iterations: count(1, 100_000).default(50).describe('Number of Sinkhorn iterations.'),
    tau: scale.default(0.5).describe('Temperature of the similarity exp(−cost / tau).'),
    similarity: z
      .enum(['ot', 'clip', 'truth', 'contrastive'])
      .default('ot')
      .describe(
        'Similarity of response and trace: optimal transport between their tokens (ot), that between their reasonings less the mean over traces of other series (contrastive), cosine of their mean hidden states (clip), or F1 of the facts of the trace that the response states truly (truth).',
      ),
    credit: z
      .enum(['response', 'token', 'claim', 'both'])
      .default('response')
      .describe(
        'Tokens that the similarity goes to: all of a response; all, and each by its own transported cost (token, with similarity ot or contrastive); with similarity truth each claim by its own verdict (claim), or claim and response (both).',
      ),
    corrections: nonNegative
      .max(1e6)
      .default(0)
      .describe(
        'With similarity truth: weight of corrections, which raise the probability of the true text of each false claim, and of each statement of the expert trace that a response in the short style leaves out, behind the words of the policy; falls linearly to 0 over the stage. 0: none.',
      ),
    counterfactuals: nonNegative
      .max(1e6)
      .default(0)
      .describe(
        'With similarity truth, for answers that are intervals: weight of counterfactuals. For each prompt 8 responses of the worker are drawn, to any prompt; of those whose answers agree with their reasoning, the one with most intervals is taken. The places that it marks are moved in both, and the moved answer is learned behind the moved reasoning, of places in a scan the cell alone; falls linearly to 0 over the stage. 0: none.',
      ),
    marginals: z
      .enum(['norm', 'uniform'])
      .default('norm')
      .describe('Mass of a token in the transport: softmax of the norms of hidden states, or uniform.'),
    anchor: z
      .enum(['trace', 'reasoning'])
      .default('trace')
      .describe('Compared text, of both response and trace: whole, or reasoning only.'),
    context: z
      .enum(['none', 'prompt'])
      .default('none')
      .describe('Context of the trace when it is encoded: none, as in the release, or the prompt.'),
    trace: z
      .enum(['expert', 'generic'])
      .default('expert')
      .describe(
        'Compared trace: the expert trace of the series, or one generic text for all series (ablation).',
      ),
    gatesEvery: count(0)
      .default(10)
      .describe('Steps between measurements of the similarity of gold response and trace; 0: never.'),
    base: z
      .enum(REWARD_ADVANTAGES)
      .default('dr_grpo')
      .describe('Estimator (see rl.advantage) of the main part; dr_grpo in the paper.'),
    projection: z
      .boolean()
      .default(true)
      .describe(
        'Project the trace-grounded part to be orthogonal to the main part; false: the ablation of the paper.',
      ),
    equalGroups: z
      .enum(['plain', 'standardised'])
      .default('plain')
      .describe(
        'Trace-grounded part in groups of equal rewards: unchanged, as in the paper (plain), or over its standard deviation (standardised).',
      ),
    scale: z
      .enum(['plain', 'spread'])
      .default('plain')
      .describe(
        'Scale of the orthogonal part: unchanged, as in the paper (plain), or scaled to the root mean square of the main part over the step (spread).',
      ),
  })
  .readonly();

const guard = <Limit extends z.ZodType>(limit: Limit, usual: 'warn' | 'stop' = 'warn') =>
  z
    .strictObject({
      limit,
      reaction: z
        .enum(['ignore', 'warn', 'stop'])
        .default(usual)
        .describe(
          'Reaction: ignore; warn: log the guard in the metrics and, the first time, on the terminal; stop: warn and end the run.',
        ),
    })
    .readonly()
    .prefault({} as never);

/** Module of a user's advantage estimator. */
const advantageModule = z
  .strictObject({
    use: word.refine(isModuleSpecifier, { error: 'FILE or FILE#NAME, a module made with defineAdvantage' }),
    /** Hash of the module and its relative imports when the recipe was read; never given by hand. */
    sha256: word.nullable().default(null),
  })
  .readonly();

const advantage = z
  .preprocess(
    (value) => (typeof value === 'string' && isModuleSpecifier(value) ? { use: value } : value),
    z.union([z.enum(choiceNames(ADVANTAGES)), advantageModule], {
      error: `one of ${choiceNames(ADVANTAGES).join(', ')}, or a module, as in ./mine.ts#name`,
    }),
  )
  .default('timerpo')
  .describe(
    `Advantage estimator: ${choiceHelp(ADVANTAGES)}. Or a module made with defineAdvantage, ./mine.ts#name.`,
  );

/** On-policy self-distillation: the policy with the expert trace in its prompt teaches the policy without it. */
const distillation = z
  .strictObject({
    weight: nonNegative
      .max(1e6)
      .default(0)
      .describe(
        'Weight of the per-token divergence from the teacher, whose prompt holds the expert trace; 0: no teacher.',
      ),
    teacher: z
      .enum(['initial', 'current'])
      .default('initial')
      .describe('Weights of the teacher: initial (beginning of the stage) or current.'),
    divergence: choice(DIVERGENCES, 'reverse_kl', 'Divergence of the policy from the teacher'),
    estimator: z
      .enum(['full', 'sampled'])
      .default('full')
      .describe(
        'Estimator of the divergence: over the full vocabulary, or a policy gradient at the sampled token (reverse_kl only).',
      ),
  })
  .readonly();

/** Limits and reactions of the guards; `src/train/guards.ts` defines each. */
const guards = z
  .strictObject({
    window: count(1, 100_000).default(10).describe('Number of steps over which guards average metrics.'),
    nonFinite: guard(
      count(1)
        .default(10)
        .describe('Maximum updates in a row with a non-finite loss or gradient; each is skipped.'),
      'stop',
    ),
    kl: guard(
      scale.default(1).describe('Exploding KL: maximum mean KL per token of a step. Needs rl.kl > 0.'),
    ),
    entropy: guard(
      ratio
        .default(0.2)
        .describe('Collapsed entropy: minimum mean, as a share of the mean over the first window.'),
    ),
    hacking: guard(
      ratio
        .default(0.1)
        .describe(
          'Reward hacking: maximum fall of the accuracy from its highest mean, while the format rises.',
        ),
    ),
    width: guard(
      scale
        .default(2)
        .describe(
          'Widening answers: maximum ratio of predicted to gold anomalous points, each as a share of the series.',
        ),
    ),
    reasoning: guard(
      ratio
        .default(0.1)
        .describe(
          'Worse reasoning: maximum fall of claim F1 or of the agreement of reasoning and answer, from the first window to the last, while the reward rises.',
        ),
    ),
    equalRewards: guard(
      count(1).default(1).describe('Number of steps in a row in which all groups have equal rewards.'),
    ),
    unrewarded: guard(
      count(1)
        .default(3)
        .describe(
          'No reward: steps in a row in which none applies to any response, at which the run stops; the first is warned of.',
        ),
      'stop',
    ),
  })
  .readonly();

/** Variants of AnomSeer's reward in reinforcement. */
const reward = z
  .strictObject({
    localisation: choice(
      LOCALISATIONS,
      'f05_affiliation',
      'Localisation reward in reinforcement (evaluation uses that of AnomSeer)',
    ),
    normal: choice(NORMALS, 'exact', 'Reward of predicted intervals on a normal series'),
  })
  .readonly();

/** Options of the step-level estimators; null: the estimator's own. */
const stepwise = z
  .strictObject({
    gamma: positive
      .max(1)
      .nullable()
      .default(null)
      .describe(
        'Discount per step: of the returns (gigpo, hgpo), or of the distance to success (graphgpo). Null: 0.95, graphgpo 0.1.',
      ),
    stepWeight: nonNegative
      .max(1e6)
      .default(1)
      .describe('Weight ω of the step part beside the episode part (gigpo, graphgpo).'),
    normaliser: z
      .enum(['mean', 'mean_std'])
      .nullable()
      .default(null)
      .describe(
        'Subtract the mean, or also divide by the standard deviation. Null: mean for gigpo, else mean_std.',
      ),
    history: count(0, 32).default(2).describe('Number of earlier states that hgpo compares at most.'),
    alpha: nonNegative.max(1e6).default(1).describe("Exponent of hgpo's weights of longer histories."),
    normalizeDistance: z
      .boolean()
      .default(false)
      .describe('Value of graphgpo by the change of distance, not by the distance after the step.'),
    reward: z
      .enum(['answer', 'change'])
      .default('answer')
      .describe(
        'Reward of a step (gigpo, hgpo): that of the answer at the last step, or at each the change of the answer as it stands.',
      ),
    roles: z
      .literal([1, 2])
      .default(1)
      .describe(
        'Agents whose advantages are normalised apart (Dr. MAS). 2: one sees the whole and says where to look, the other answers about windows.',
      ),
  })
  .readonly();

const server = z
  .strictObject({
    address: word
      .nullable()
      .default(null)
      .describe(
        'Inference server that samples the rollouts (vLLM), as http://localhost:8000/v1; for policy.tune: adapter. Null: this process samples.',
      ),
    key: word
      .nullable()
      .default(null)
      .describe('Environment variable that holds the key. Null: OPENAI_API_KEY, which may be unset.'),
    directory: word
      .nullable()
      .default(null)
      .describe(
        'Directory for the adapters of the steps, which the server must see under the same path. Null: in the run directory.',
      ),
    concurrency: count(1, 4096).default(64).describe('Prompts in flight at once, of each rank.'),
    timeout: positive.max(3600).default(600).describe('Seconds until an answer counts as failed.'),
    attempts: count(1, 100)
      .default(8)
      .describe('Tries per prompt; the pauses between them double from one second.'),
    cap: z
      .number()
      .min(1)
      .max(1e6)
      .default(2)
      .describe(
        'Largest importance weight of a token, π of the trainer over π of the server (truncated importance sampling).',
      ),
  })
  .readonly();

const rl = z
  .strictObject({
    steps: count(0).default(360).describe('Number of steps, each with fresh rollouts; 0 skips the stage.'),
    prompts: count(1, 65_536).default(16).describe('Prompts per step.'),
    group: count(2, 4096).default(8).describe('Group size G: responses per prompt, at least two.'),
    temperature: z
      .number()
      .min(0.001)
      .max(10)
      .default(1)
      .describe('Sampling temperature, also applied to every log-probability of the loss.'),
    topP: positive
      .max(1)
      .default(1)
      .describe(
        'Nucleus sampling of rollouts; 1: off. Below 1 the gradient is biased, because the loss uses the full distribution.',
      ),
    maxTokens: count(1, LONGEST_RESPONSE).default(112).describe('Maximum response length in tokens.'),
    server: server.prefault({}),
    reward: reward.prefault({}),
    advantage,
    timerpo: timerpo.prefault({}),
    distillation: distillation.prefault({}),
    stepwise: stepwise
      .prefault({})
      .describe('Options of gigpo, hgpo and graphgpo, for policies that inspect.'),
    normalise: z
      .enum(['batch', 'task'])
      .default('batch')
      .describe(
        'Normalisation batch of reinforce_pp and gdpo: all prompts of the step, or the prompts of each task (Dr. MAS).',
      ),
    resample: count(0, 100)
      .default(0)
      .describe(
        'Maximum rounds of replacing groups of equal rewards by further prompts (dynamic sampling, DAPO).',
      ),
    optimizer,
    learningRate: positive.max(1).default(2e-4).describe('Peak learning rate.'),
    warmup: count(0).default(3).describe('Steps of linear warm-up.'),
    minLearningRate: ratio
      .default(0.1)
      .describe('Final learning rate of the cosine, as a share of the peak.'),
    miniBatches: count(1, 65_536)
      .default(1)
      .describe('Mini-batches per epoch, one update each; must divide rl.prompts.'),
    epochs: count(1, 1000).default(1).describe('Epochs over the rollouts of a step.'),
    loss: choice(LOSSES, 'ppo', 'Policy loss'),
    ratio: choice(RATIOS, 'token', 'Level of the probability ratio'),
    kalmanNoise: nonNegative
      .max(1e6)
      .default(1e-6)
      .describe('Process noise over measurement noise, Q / V, of ratio kalman; smaller values smooth more.'),
    clipRatio: positive
      .lt(1)
      .default(0.2)
      .describe(
        'Clip range of the probability ratio: 1 ± this, or from 1 - this where rl.clipRatioHigh is set.',
      ),
    clipRatioHigh: positive
      .max(1e6)
      .nullable()
      .default(null)
      .describe(
        'Upper clip range of the probability ratio: 1 + this (clip-higher, DAPO). Null: rl.clipRatio.',
      ),
    clipRatioDual: z
      .number()
      .gt(1)
      .max(1e6)
      .nullable()
      .default(null)
      .describe('Dual clip: maximum ratio at a negative advantage (verl: 3). Null: none.'),
    aggregation: choice(AGGREGATIONS, 'token_mean', 'Loss aggregation'),
    kl: nonNegative
      .max(1e6)
      .default(0)
      .describe('Weight (β) of the KL divergence from the reference policy; 0: no reference.'),
    klEstimator: choice(KL_ESTIMATORS, 'k3', 'Estimator of the KL divergence'),
    klIn: z
      .enum(['loss', 'reward'])
      .default('loss')
      .describe(
        'Place of the KL penalty: a term of the loss, or subtracted from the reward before advantages.',
      ),
    entropy: nonNegative.max(1e6).default(0).describe('Weight of the entropy bonus.'),
    topEntropy: positive
      .max(1)
      .default(1)
      .describe('Share of tokens, by highest entropy, with policy gradient and entropy bonus.'),
    clip: scale.default(1).describe('Gradient clipping: maximum global norm.'),
    betas: betas.default([0.9, 0.95]),
    weightDecay: nonNegative.max(1).default(0).describe('Decoupled weight decay, on matrices only.'),
    checkpointEvery: count(1).default(10).describe('Steps between checkpoints.'),
    ...validation,
    guards: guards.prefault({}),
    workers: count(1, 256).default(2).describe('Data-parallel threads of this process.'),
  })
  .readonly();

/** Options of `input: numbers`. */
const numbers = z
  .strictObject({
    digits: count(1, 17).default(3).describe('Significant digits of each value.'),
    points: count(2, LONGEST_SERIES)
      .default(250)
      .describe('Maximum values per channel; longer series are reduced to block means.'),
  })
  .readonly();

/** Inspection over several turns: `src/inspect`. */
const inspect = z
  .strictObject({
    turns: count(0, 32)
      .default(0)
      .describe(
        'Maximum responses of an episode, the answer included; 1: one answer to one picture of the whole series; 0: no inspection. For anomalies in one channel.',
      ),
    tools: z
      .array(word)
      .readonly()
      .default(['zoom', 'next', 'compare', 'spectrum', 'stats'])
      .describe(
        'Tools: zoom, next, compare, spectrum, stats, or modules made with defineTool. Scripted paths call built-in tools only; the policy may call tools of modules in reinforcement and evaluation.',
      ),
    lengths: z
      .array(count(100, LONGEST_SERIES))
      .min(1)
      .readonly()
      .nullable()
      .default(null)
      .describe('Lengths of the generated training series, each equally likely. Null: data.length.'),
    detours: ratio
      .default(0.5)
      .describe(
        'Probability that a scripted path looks at windows that stand out although the series has nothing that needs a closer look.',
      ),
    calls: ratio
      .default(0.1)
      .describe(
        'Probability that a scripted path calls one more tool in a window: compare, spectrum or stats, as far as inspect.tools lists them.',
      ),
    penalty: nonNegative
      .max(1e6)
      .default(0.1)
      .describe('Cost of a failed step, such as an unknown tool or a window outside the series.'),
    success: ratio
      .default(0.8)
      .describe('Minimum reward of a successful episode (for graphgpo and the reward of compression).'),
    runtime: z
      .enum(['tools', 'code'])
      .default('tools')
      .describe(
        'Actions of the policy. tools: it calls tools; code (large policies): it writes JavaScript, which runs in a sandbox without network and files (CaveAgent).',
      ),
    history: z
      .enum(['turns', 'optical'])
      .default('turns')
      .describe(
        'Form of the earlier turns in the prompt. turns: as they were; optical (large policies): one picture of their text, which the policy is rewarded for compressing (AgentOCR).',
      ),
    tour: count(0, 6)
      .default(0)
      .describe(
        'Levels of windows that evaluation shows a small policy, one window after the other, without a call: 2 shows 3 halves and 7 quarters; neighbours overlap by half.',
      ),
  })
  .readonly();

/** Rewards that reinforcement maximises: names in `REWARDS`, and modules made with `defineReward`. */
const rewards = z
  .preprocess(
    (value) =>
      typeof value === 'string'
        ? [{ use: value }]
        : Array.isArray(value)
          ? value.map((entry: unknown) => (typeof entry === 'string' ? { use: entry } : entry))
          : value,
    z
      .array(
        z
          .strictObject({
            use: word,
            weight: nonNegative.max(1e6).default(1),
            /** Hash of the module and its relative imports when the recipe was read; never given by hand. */
            sha256: word.nullable().default(null),
          })
          .readonly(),
      )
      .min(1)
      .refine((all) => all.some(({ weight }) => weight > 0), { error: 'at least one weight above 0' })
      .refine((all) => new Set(all.map(({ use }) => use)).size === all.length, { error: 'different rewards' })
      .readonly()
      .nullable(),
  )
  .default(null)
  .describe(
    `Rewards that reinforcement maximises, by name or file: [{use: task}, {use: ./mine.ts, weight: 0.2}]; their weighted mean, over those that apply. Null: task. Paths are relative to the recipe's file, or with --set to the working directory. ${choiceHelp(REWARDS)}.`,
  );

/** Advice after the answer, and its judge; `rewards/judge.ts` has the criteria. */
const extension = z
  .strictObject({
    ask: z
      .boolean()
      .default(false)
      .describe('Ask for advice after the class; for classification data with gold advice.'),
    judge: word
      .default('rules')
      .describe(
        'Judge of the advice in reinforcement, with weight 0.5 where the answer is correct and well formed: rules (words and numbers, no model), openai:MODEL@URL (a chat model), or none.',
      ),
    keyVariable: word
      .nullable()
      .default(null)
      .describe(
        "Environment variable with the API key of the judge's endpoint. Null: OPENAI_API_KEY, if set.",
      ),
    seconds: positive
      .max(3600)
      .default(60)
      .describe(
        'Timeout of a step for the judge, in seconds; responses without a score by then have no reward.',
      ),
    concurrency: count(1, 1024).default(8).describe('Maximum concurrent requests to the judge, per worker.'),
    requestsPerMinute: count(1)
      .nullable()
      .default(null)
      .describe('Maximum requests to the judge per minute and worker.'),
    tokensPerMinute: count(1)
      .nullable()
      .default(null)
      .describe('Maximum tokens of the judge per minute and worker.'),
    prices: z
      .tuple([nonNegative.max(1e6), nonNegative.max(1e6)])
      .readonly()
      .nullable()
      .default(null)
      .describe(
        'Price of the judge per million prompt and completion tokens, e.g. [0.15, 0.6]. Null: costs are not reported.',
      ),
    cache: word
      .nullable()
      .default(null)
      .describe(
        "Cache directory of the judge's answers: no request is paid for twice, and a resumed run gets the same scores.",
      ),
  })
  .readonly();

const evaluation = z
  .strictObject({
    series: count(1, 1e7)
      .default(400)
      .describe(
        'Number of held-out examples: a random sample of a larger data set; at most data.heldOut for a generator.',
      ),
    temperature: z
      .number()
      .min(0.001)
      .max(10)
      .default(1)
      .describe('Temperature of the sampled evaluation, which is reported beside the greedy one.'),
    samples: count(1, 1024).default(4).describe('Sampled responses per example.'),
    transfer: count(0, 1e7)
      .default(160)
      .describe(
        'Number of AnomLLM series, evenly from its eight tasks, for a transfer evaluation of the final policy; 0: none.',
      ),
    validation: count(0, 1e7)
      .default(400)
      .describe(
        'Validation examples that select the best classical detector; 0: the blind expert, without selection.',
      ),
    bootstrap: count(100, 1e6).default(2000).describe('Bootstrap resamples per 95 % interval.'),
    maxTokens: count(1, LONGEST_RESPONSE).default(112).describe('Maximum response length in tokens.'),
  })
  .readonly();

/** Requirements of a run on the data that the recipe names. Default: none. */
const requirements = z
  .strictObject({
    sft: z
      .record(word, ratio)
      .readonly()
      .default({})
      .describe(
        'Minimum means over the held-out series after the supervised stage, greedy, by metric: {format: 0.98}. All requirements are checked on at least 100 series (eval.series); with fewer they are listed as not checked.',
      ),
    final: z
      .record(word, ratio)
      .readonly()
      .default({})
      .describe('Minimum means over the held-out series at the end of training, greedy, by metric.'),
    gain: z
      .record(word, z.number().min(-1).max(1))
      .readonly()
      .default({})
      .describe(
        'Lower bound on the 95 % interval of the change by reinforcement: reward_sampled, or, of greedy answers, reward_greedy and other metrics by name. A significant loss never meets it.',
      ),
    notLower: z
      .array(word)
      .readonly()
      .default([])
      .describe('Metrics whose greedy mean must not fall by reinforcement: [point_precision].'),
  })
  .readonly();

/** Divergences with an estimator at sampled tokens. */
const SAMPLED_DIVERGENCES = choiceNames(DIVERGENCES).filter((name) => DIVERGENCES[name].sampled);

export const recipeSchema = z
  .strictObject({
    seed: count(0, Number.MAX_SAFE_INTEGER)
      .default(42)
      .describe('Seed of everything random in the run: data, initial weights, order, sampling.'),
    data: data.prefault({}),
    figure: word.default('nano').describe('Figure preset of the plots; task: that of the data set.'),
    input: z
      .enum(['picture', 'numbers'])
      .default('picture')
      .describe('Input of the policy: a plot (picture), or the series as numbers in the prompt.'),
    numbers: numbers.prefault({}),
    policy: policy.prefault({}),
    memory: memory.prefault({}),
    sft: sft.prefault({}).describe('Supervised fine-tuning on expert traces.'),
    inspect: inspect
      .prefault({})
      .describe('Inspection: the policy looks closer at a series over several turns before it answers.'),
    reward: rewards,
    extension: extension.prefault({}),
    rl: rl.prefault({}).describe('Reinforcement learning with the estimator of rl.advantage.'),
    eval: evaluation.prefault({}),
    requirements: requirements.prefault({}).describe('Requirements that the report checks.'),
    answers: z
      .enum(['lenient', 'strict'])
      .default('lenient')
      .describe(
        "Parsing of answers in training and evaluation. lenient: as in the papers' releases; strict: a part that deviates from the requested format earns nothing. The format reward is always strict; explain always parses leniently.",
      ),
  })
  .readonly()
  .superRefine((recipe, context) => {
    const { advantage, distillation, timerpo, kl, klIn } = recipe.rl;
    if (advantage === 'none' && distillation.weight === 0) {
      context.addIssue({
        code: 'custom',
        path: ['rl', 'advantage'],
        message: 'an estimator, or rl.distillation.weight above 0: otherwise the loss has no gradient',
      });
    }
    if (distillation.estimator === 'sampled' && !DIVERGENCES[distillation.divergence].sampled) {
      context.addIssue({
        code: 'custom',
        path: ['rl', 'distillation', 'estimator'],
        message: `full: sampled tokens estimate ${SAMPLED_DIVERGENCES.join(', ')} alone, not ${distillation.divergence}`,
      });
    }
    const credits: readonly string[] = CREDITS[timerpo.similarity];
    if (!credits.includes(timerpo.credit)) {
      context.addIssue({
        code: 'custom',
        path: ['rl', 'timerpo', 'credit'],
        message: `${credits.join(' or ')} with similarity ${timerpo.similarity}: verdicts on claims come from truth, costs of tokens from a transport`,
      });
    }
    for (const key of ['corrections', 'counterfactuals'] as const) {
      if (timerpo[key] === 0 || timerpo.similarity === 'truth') continue;
      context.addIssue({
        code: 'custom',
        path: ['rl', 'timerpo', key],
        message: `0 with similarity ${timerpo.similarity}: claims are read with similarity truth alone`,
      });
    }
    const reads = typeof advantage === 'string' ? ADVANTAGES[advantage].reads : 'rewards';
    const problem = (path: string[], message: string): void =>
      context.addIssue({ code: 'custom', path, message });
    if (recipe.inspect.turns === 0 && reads === 'steps') {
      problem(
        ['rl', 'advantage'],
        `another estimator without inspect: ${String(advantage)} gives credit to the steps of episodes`,
      );
    }
    if (recipe.inspect.turns > 0 && recipe.rl.steps > 0) {
      if (reads === 'traces') {
        problem(
          ['rl', 'advantage'],
          'gigpo, hgpo, graphgpo or an estimator of rewards with inspect: episodes have no trace to compare with',
        );
      }
      if (distillation.weight > 0)
        problem(['rl', 'distillation', 'weight'], '0 with inspect: episodes have no trace for a teacher');
      if (klIn === 'reward' && kl > 0) problem(['rl', 'klIn'], 'loss with inspect');
    }
    if (recipe.sft.traces === 'none' && recipe.sft.samples > 0) {
      if (recipe.inspect.turns > 0) problem(['sft', 'traces'], 'expert with inspect, whose paths are traces');
      if (recipe.rl.steps > 0 && reads === 'traces') {
        problem(
          ['rl', 'advantage'],
          'grpo or another estimator of rewards with sft.traces none: answers have no reasoning to compare with a trace',
        );
      }
    }
    if (recipe.inspect.turns > 0 && recipe.input === 'numbers') problem(['input'], 'picture with inspect');
    const { runtime, history, tour } = recipe.inspect;
    if (tour > 0 && (recipe.sft.samples > 0 || recipe.rl.steps > 0))
      problem(['inspect', 'tour'], '0: a policy is not trained on tours, only evaluated');
    const isForLarge = runtime === 'code' || history === 'optical';
    if (recipe.inspect.turns > 0 && isForLarge && recipe.sft.samples > 0) {
      problem(
        ['sft', 'samples'],
        '0 with inspect.runtime code or inspect.history optical: scripted paths call tools turn by turn',
      );
    }
    if (recipe.rl.server.address !== null) {
      const { tune, adapter: lora } = recipe.policy;
      const path = ['rl', 'server', 'address'];
      if (tune !== 'adapter')
        problem(path, `null with policy.tune: ${tune}: a server takes new weights as adapters alone`);
      if (tune === 'adapter' && lora.targets.some((target) => target.startsWith('visual.')))
        problem(path, 'null with adapters of the vision tower, which servers do not take');
      if (recipe.inspect.turns > 0) problem(path, 'null with inspect');
    }
    if (recipe.memory.zero === 3 && distillation.weight > 0 && distillation.teacher === 'current')
      problem(
        ['memory', 'zero'],
        '2 with rl.distillation.teacher: current, which reads all weights in an update',
      );
    if (recipe.rl.prompts % recipe.rl.miniBatches !== 0) {
      context.addIssue({
        code: 'custom',
        path: ['rl', 'miniBatches'],
        message: `a divisor of rl.prompts = ${recipe.rl.prompts}`,
      });
    }
    for (const stage of ['sft', 'rl'] as const) {
      const { evalEvery, patience, output } = recipe[stage];
      if (evalEvery > 0 || (patience === 0 && output === 'last')) continue;
      context.addIssue({
        code: 'custom',
        path: [stage, patience > 0 ? 'patience' : 'output'],
        message: `${patience > 0 ? 0 : 'last'} while ${stage}.evalEvery is 0: it needs evaluations`,
      });
    }
    const estimator = advantage === 'timerpo' ? timerpo.base : advantage;
    if (
      kl > 0 &&
      klIn === 'reward' &&
      typeof estimator === 'string' &&
      ADVANTAGES[estimator].reads === 'parts'
    ) {
      context.addIssue({
        code: 'custom',
        path: ['rl', 'klIn'],
        message: `loss with ${estimator}, which takes the parts of the reward and not their sum`,
      });
    }
    if (!LOSSES[recipe.rl.loss].dualClip && recipe.rl.clipRatioDual !== null) {
      context.addIssue({
        code: 'custom',
        path: ['rl', 'clipRatioDual'],
        message: `null with rl.loss = ${recipe.rl.loss}`,
      });
    }
  });

export type Recipe = z.infer<typeof recipeSchema>;
export type PolicyRecipe = Recipe['policy'];
export type MemoryRecipe = Recipe['memory'];
export type SftRecipe = Recipe['sft'];
export type RlRecipe = Recipe['rl'];
/** One of the rewards of a recipe. */
export type RewardRecipe = NonNullable<Recipe['reward']>[number];
export type EvalRecipe = Recipe['eval'];

/** Name of the advantage estimator of a recipe: in `ADVANTAGES`, or that of its module. */
export const advantageName = ({ advantage }: Pick<RlRecipe, 'advantage'>): string =>
  typeof advantage === 'string' ? advantage : moduleLabel(advantage.use);

/** Label of the advantage estimator of a recipe, for reports. */
export const advantageLabel = ({ advantage }: Pick<RlRecipe, 'advantage'>): string =>
  typeof advantage === 'string' ? ADVANTAGES[advantage].label : moduleLabel(advantage.use);

/** True where reinforcement compares responses with the expert traces of their series. */
export const comparesWithTraces = ({ steps, advantage, timerpo }: RlRecipe): boolean =>
  steps > 0 &&
  typeof advantage === 'string' &&
  readsTraces({ advantage, timerpo }) &&
  timerpo.trace === 'expert';

/** `mine` of `/home/me/mine.ts`, `best` of `/home/me/mine.ts#best`. */
const moduleLabel = (use: string): string => /([^/\\#]+?)(?:\.[cm]?[jt]sx?)?$/u.exec(use)![1]!;

let defaults: Recipe | undefined;

/** Returns the recipe of an empty file. */
export function defaultRecipe(): Recipe {
  defaults ??= recipeSchema.parse({});
  return defaults;
}

/** A key of the recipe as help explains it. */
export interface RecipeKey {
  /** Dotted path: `rl.kl`. */
  readonly key: string;
  /** Default value in the form of --set; empty without one. */
  readonly standard: string;
  /** Allowed values: `≥ 2`, `0 … 1`, `auto | always | never`; empty for any text. */
  readonly range: string;
  /** Empty where its `describe` is missing, which a test refuses. */
  readonly meaning: string;
}

/** Fields of a JSON schema that are used here. */
interface JsonSchema {
  readonly type?: string;
  readonly default?: unknown;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly JsonSchema[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
}

/** Bounds beyond these only keep numbers representable, and are not shown. */
const SMALLEST_SHOWN = 1e-6;
const LARGEST_SHOWN = 1e6;

function rangeOf(schema: JsonSchema): string {
  if (schema.anyOf !== undefined) return schema.anyOf.map(rangeOf).filter(Boolean).join(' | ');
  if (schema.enum !== undefined) return schema.enum.map(String).join(' | ');
  if (schema.const !== undefined) return String(schema.const);
  if (schema.type === 'boolean') return 'true | false';
  if (schema.type === 'null') return 'null';
  const { minimum, maximum, exclusiveMinimum: above, exclusiveMaximum: below } = schema;
  const tiny = minimum !== undefined && minimum > 0 && minimum <= SMALLEST_SHOWN;
  const low =
    above !== undefined ? `> ${above}` : tiny ? '> 0' : minimum === undefined ? '' : String(minimum);
  const most = maximum !== undefined && maximum < LARGEST_SHOWN ? String(maximum) : '';
  const high = below !== undefined ? `< ${below}` : most;
  if (high === '') return low === '' || low.startsWith('>') ? low : `≥ ${low}`;
  return low === '' ? `≤ ${high}` : `${low} … ${high}`;
}

/** Formats a value in the form of --set; empty without one. */
export const settingText = (value: unknown): string =>
  value === undefined ? '' : typeof value === 'string' ? value : JSON.stringify(value);

function keysOf(schema: JsonSchema, prefix: string): RecipeKey[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, inner]) => {
    const key = `${prefix}${name}`;
    if (inner.properties !== undefined) return keysOf(inner, `${key}.`);
    const { default: standard, description = '' } = inner;
    return [{ key, standard: settingText(standard), range: rangeOf(inner), meaning: description }];
  });
}

/** Every key of a recipe, in the order of the schema. */
export function recipeKeys(): RecipeKey[] {
  return keysOf(z.toJSONSchema(recipeSchema) as JsonSchema, '');
}
