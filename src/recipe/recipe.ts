/**
 * The keys of a recipe, with their defaults, ranges and meaning; `timeseer train --help` and `README.md` beside this file print the `describe` of
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

/** Largest count of samples, steps and the like: more than a year of them. */
const MOST = 1e9;
const count = (smallest: number, most = MOST) => z.number().int().min(smallest).max(most);
const positive = z.number().positive();
const nonNegative = z.number().min(0);
/** A factor or divisor whose effect float32 still holds. */
const scale = z.number().min(1e-6).max(1e6);
const ratio = z.number().min(0).max(1);
const word = z.string().min(1);
/** A key that chooses by name from a table; `meaning` ends before the choices. */
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
  .describe("Decay rates of Adam's first and second moment, each in [0, 1).");

/** Longest series that is generated: longer ones would fill the memory before training begins. */
const LONGEST_SERIES = 1_000_000;
/** Longest response, in tokens: no context of a Qwen2.5-VL is longer. */
const LONGEST_RESPONSE = 1 << 17;

const data = z
  .strictObject({
    name: word
      .default('nano5')
      .describe('Data set: a generator preset, or a directory that data prepare or data generate wrote.'),
    length: count(2, LONGEST_SERIES).default(1000).describe('Points per series of a generator.'),
    heldOut: count(1, 1e7)
      .default(400)
      .describe(
        'Series kept for evaluation where the data set has no splits of its own; training never sees them.',
      ),
    traces: count(1, 1e7)
      .nullable()
      .default(null)
      .describe(
        'Training series that have an expert trace, their classes in proportion: the supervised stage goes through those, reinforcement sees the others with their answers alone. Null: all have one.',
      ),
  })
  .readonly();

const adapter = z
  .strictObject({
    rank: count(1, 1024).default(16).describe('Rank r of the low-rank pairs A [r, in] and B [out, r].'),
    alpha: scale.default(32).describe("The adapter's output is scaled by alpha / rank."),
    rslora: z.boolean().default(false).describe('Scaled by alpha / √rank instead (rsLoRA).'),
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
        'Projections that get an adapter, in every layer: of the decoder, unless some of the vision tower are named. all-linear: everywhere.',
      ),
  })
  .readonly();

const policy = z
  .strictObject({
    init: word
      .default('nano')
      .describe(
        'Start: nano or small (Qwen2.5-VL of 0.75 and 2.4 million random weights) or a Hugging Face directory.',
      ),
    dtype: z
      .enum(['auto', 'float32', 'bfloat16'])
      .default('auto')
      .describe(
        'What the weights are held in. auto: float32 on a CPU; on a GPU what the checkpoint has, 16 bits as bfloat16. Training bfloat16 weights keeps float32 master copies.',
      ),
    tune: z
      .enum(['all', 'decoder', 'adapter'])
      .default('all')
      .describe(
        'What training changes: everything, everything but the vision tower, or a low-rank adapter (LoRA) alone.',
      ),
    adapter: adapter.prefault({}).describe('Of policy.tune: adapter.'),
  })
  .readonly();

const memory = z
  .strictObject({
    tokens: count(1)
      .default(32_768)
      .describe(
        'Tokens of a micro-batch in training, padding included: more need more memory, fewer more time.',
      ),
    rows: count(1, 65_536)
      .default(256)
      .describe(
        'Responses that a rollout decodes in one batch, whole groups, at least one: more need more memory, fewer more time.',
      ),
    recompute: z
      .enum(['auto', 'always', 'never'])
      .default('auto')
      .describe(
        "Gradient checkpointing: keep each layer's input alone and recompute the layer in the backward pass. auto: where the memory plan asks for it.",
      ),
    check: z
      .boolean()
      .default(true)
      .describe('Refuse to start a training stage whose memory plan does not fit the device.'),
  })
  .readonly();

/** Of both training stages: evaluation while they train, and what is kept of them. */
const validation = {
  evalEvery: count(0)
    .default(0)
    .describe('Steps between evaluations on validation examples, beside the training that goes on; 0: none.'),
  evalSeries: count(1, 1e7).default(100).describe('Validation examples of each, answered greedily.'),
  keep: z
    .strictObject({
      last: count(1, 10_000)
        .default(1)
        .describe('Checkpoints to keep; when the last one is damaged the one before is resumed from.'),
      best: word.default('reward').describe('Validation metric that the best policy is chosen by.'),
    })
    .readonly()
    .prefault({}),
  patience: count(0)
    .default(0)
    .describe('Evaluations in a row without a better one after which the stage ends early; 0: never.'),
  output: z
    .enum(['last', 'best'])
    .default('last')
    .describe(
      'The policy that the stage leaves: after its last step, or the best on the validation examples.',
    ),
};

const sft = z
  .strictObject({
    samples: count(0)
      .default(8000)
      .describe(
        'Training examples, each seen once; 0 skips the stage. The stage ends after them, not after a time.',
      ),
    levels: count(0)
      .default(0)
      .describe(
        'Of the samples of the generator wild so many first ones have traces whose scan tells the level of every cell, which teaches to read along the picture.',
      ),
    batch: count(1, 65_536).default(16).describe('Examples per update, over all workers.'),
    learningRate: positive.max(1).default(1.4e-3).describe('Peak learning rate of AdamW.'),
    warmup: count(0).default(50).describe('Steps of linear warm-up.'),
    minLearningRate: ratio.default(0.05).describe('Where the cosine ends, as a share of the peak.'),
    betas: betas.default([0.9, 0.95]),
    weightDecay: nonNegative
      .max(1)
      .default(0.05)
      .describe('Decoupled weight decay (AdamW), on matrices only.'),
    clip: scale.default(1).describe('Gradient clipping: largest global norm.'),
    workers: count(1, 256).default(2).describe('Data-parallel threads of this process.'),
    checkpointEvery: count(1).default(500).describe('Steps between checkpoints.'),
    ...validation,
  })
  .readonly();

/** Of `advantage: timerpo`: the similarity of a response to the expert trace, and what of it goes into the advantage. */
const timerpo = z
  .strictObject({
    alpha: nonNegative
      .max(1e6)
      .default(0.3)
      .describe('Weight of the orthogonal, trace-grounded part of the advantage; 0: no trace is read.'),
    epsilon: scale
      .default(0.08)
      .describe('Entropic regularisation of Sinkhorn; smaller is sharper and converges more slowly.'),
    iterations: count(1, 100_000).default(50).describe('Sinkhorn iterations: row and column scalings.'),
    tau: scale.default(0.5).describe('Similarity = exp(−cost / tau).'),
    similarity: z
      .enum(['ot', 'clip'])
      .default('ot')
      .describe(
        'Similarity of response and trace: by optimal transport between their tokens, or the cosine of their mean states (clip).',
      ),
    marginals: z
      .enum(['norm', 'uniform'])
      .default('norm')
      .describe(
        "Mass of a token in the transport: by the norm of its state, or the same for all of a text's.",
      ),
    anchor: z
      .enum(['trace', 'reasoning'])
      .default('trace')
      .describe('What is compared: whole texts, or on both sides the reasoning alone.'),
    context: z
      .enum(['none', 'prompt'])
      .default('none')
      .describe(
        'What stands before the trace when it is encoded: nothing, as in the release, or the prompt.',
      ),
    trace: z
      .enum(['expert', 'generic'])
      .default('expert')
      .describe('Compare with the expert trace of the series, or with one text that is the same for all.'),
    gatesEvery: count(0)
      .default(10)
      .describe(
        'Steps between measurements of how near the gold response is to the trace, beside the sampled ones; 0: never.',
      ),
    base: z
      .enum(REWARD_ADVANTAGES)
      .default('dr_grpo')
      .describe(
        'Estimator (see rl.advantage) that the trace-grounded part is added to; dr_grpo in the paper.',
      ),
    projection: z
      .boolean()
      .default(true)
      .describe('Take out of the trace-grounded part what lies along the rewards of its group.'),
    scale: z
      .enum(['plain', 'spread'])
      .default('plain')
      .describe(
        'Size of the orthogonal part: as it comes, as in the paper (plain), or scaled to the spread of the main part over the step (spread).',
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
          'Reaction: ignore; warn: named in the metrics, and on the screen when it begins; stop: ends the run too.',
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
        'Weight of the per-token divergence from the teacher that sees the expert trace; 0: no teacher.',
      ),
    teacher: z
      .enum(['initial', 'current'])
      .default('initial')
      .describe('Weights of the teacher: of the policy that the stage began with, or as they are now.'),
    divergence: choice(DIVERGENCES, 'reverse_kl', 'Divergence of the policy from the teacher'),
    estimator: z
      .enum(['full', 'sampled'])
      .default('full')
      .describe('Over the full vocabulary, or a policy gradient at the sampled token alone (reverse_kl).'),
  })
  .readonly();

/** What is watched in the metrics, and what is done about it; `src/train/guards.ts` defines each. */
const guards = z
  .strictObject({
    window: count(1, 100_000).default(10).describe('Steps that means of the guards are taken over.'),
    nonFinite: guard(
      count(1).default(10).describe('Updates in a row without a finite loss and gradient; each is left out.'),
      'stop',
    ),
    kl: guard(scale.default(1).describe('Exploding KL: most mean KL per token of a step. Needs rl.kl > 0.')),
    entropy: guard(
      ratio.default(0.2).describe('Collapsed entropy: least mean, as a share of that of the first steps.'),
    ),
    hacking: guard(
      ratio.default(0.1).describe('Reward hacking, the format up while the accuracy falls: most fall.'),
    ),
    width: guard(
      scale
        .default(2)
        .describe('Answers that widen: most they mark of the series, over what gold answers mark.'),
    ),
    equalRewards: guard(
      count(1).default(1).describe('Steps in a row in which all groups have equal rewards.'),
    ),
  })
  .readonly();

/** Grades of AnomSeer's reward in reinforcement. */
const reward = z
  .strictObject({
    localisation: choice(
      LOCALISATIONS,
      'f05_affiliation',
      'Grade of intervals in reinforcement (evaluation grades as AnomSeer does)',
    ),
    normal: choice(NORMALS, 'exact', 'Grade of intervals on a normal series'),
  })
  .readonly();

const rl = z
  .strictObject({
    steps: count(0)
      .default(200)
      .describe('Steps, each of fresh rollouts and updates from them; 0 skips the stage.'),
    prompts: count(1, 65_536).default(16).describe('Prompts per step.'),
    group: count(2, 4096)
      .default(16)
      .describe('Responses per prompt, G; advantages compare them, so at least two.'),
    temperature: z
      .number()
      .min(0.001)
      .max(10)
      .default(1)
      .describe('Divides the logits of rollouts, and of every log-probability of the loss.'),
    topP: positive
      .max(1)
      .default(1)
      .describe(
        'Nucleus sampling of rollouts; 1 keeps all tokens. Below 1 the gradient is biased: the loss is of the full distribution.',
      ),
    maxTokens: count(1, LONGEST_RESPONSE).default(96).describe('Longest response, in tokens.'),
    reward: reward.prefault({}),
    advantage,
    timerpo: timerpo.prefault({}),
    distillation: distillation.prefault({}),
    normalise: z
      .enum(['batch', 'task'])
      .default('batch')
      .describe(
        'What reinforce_pp and gdpo normalise advantages over: the whole batch, or the prompts of each task (Dr. MAS).',
      ),
    resample: count(0, 100)
      .default(0)
      .describe(
        'Most rounds in which groups of equal rewards are replaced by those of further prompts (dynamic sampling, DAPO).',
      ),
    learningRate: positive.max(1).default(2e-4).describe('Peak learning rate of AdamW.'),
    warmup: count(0).default(3).describe('Steps of linear warm-up.'),
    minLearningRate: ratio.default(0.1).describe('Where the cosine ends, as a share of the peak.'),
    miniBatches: count(1, 65_536)
      .default(1)
      .describe(
        "Mini-batches, one update each, that an epoch over a step's rollouts is divided into; divides rl.prompts.",
      ),
    epochs: count(1, 1000).default(1).describe('Epochs over the rollouts of a step.'),
    loss: choice(LOSSES, 'ppo', 'Policy loss'),
    ratio: choice(RATIOS, 'token', 'Level of the probability ratio'),
    kalmanNoise: nonNegative
      .max(1e6)
      .default(1e-6)
      .describe('Ratio kalman: process noise over measurement noise, Q / V; smaller is smoother.'),
    clipRatio: positive
      .lt(1)
      .default(0.2)
      .describe('The probability ratio is clipped to 1 ± this, or from 1 - this.'),
    clipRatioHigh: positive
      .max(1e6)
      .nullable()
      .default(null)
      .describe('The probability ratio is clipped to 1 + this (clip-higher, DAPO); null: rl.clipRatio.'),
    clipRatioDual: z
      .number()
      .gt(1)
      .max(1e6)
      .nullable()
      .default(null)
      .describe('Dual clip: largest ratio of a negative advantage, where verl has 3; null: none.'),
    aggregation: choice(AGGREGATIONS, 'token_mean', 'Mean of the loss'),
    kl: nonNegative
      .max(1e6)
      .default(0)
      .describe('Weight (β) of the KL divergence from the reference policy; 0: no reference.'),
    klEstimator: choice(KL_ESTIMATORS, 'k3', 'Estimator of the KL divergence'),
    klIn: z
      .enum(['loss', 'reward'])
      .default('loss')
      .describe('Where the KL divergence counts: in the loss, or taken from the reward before advantages.'),
    entropy: nonNegative.max(1e6).default(0).describe('Weight of the entropy bonus.'),
    topEntropy: positive
      .max(1)
      .default(1)
      .describe(
        'Share of the tokens, those of highest entropy, that have a policy gradient and an entropy bonus.',
      ),
    clip: scale.default(1).describe('Gradient clipping: largest global norm.'),
    betas: betas.default([0.9, 0.95]),
    weightDecay: nonNegative.max(1).default(0).describe('Decoupled weight decay (AdamW), on matrices only.'),
    checkpointEvery: count(1).default(10).describe('Steps between checkpoints.'),
    ...validation,
    guards: guards.prefault({}),
    workers: count(1, 256).default(2).describe('Data-parallel threads of this process.'),
  })
  .readonly();

/** Of `input: numbers`. */
const numbers = z
  .strictObject({
    digits: count(1, 17).default(3).describe('Significant digits of each value.'),
    points: count(2, LONGEST_SERIES)
      .default(250)
      .describe('Most values per channel; longer series are reduced to the means of as many blocks.'),
  })
  .readonly();

/** Rewards that reinforcement maximises: names of the table, and modules made with `defineReward`. */
const rewards = z
  .preprocess(
    (value) =>
      typeof value === 'string'
        ? [{ use: value }]
        : Array.isArray(value)
          ? value.map((one: unknown) => (typeof one === 'string' ? { use: one } : one))
          : value,
    z
      .array(
        z
          .strictObject({
            use: word,
            weight: nonNegative.max(1e6).default(1),
            /** Of a module and what it imports, as it was when the recipe was read; never given by hand. */
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
    `Rewards that reinforcement maximises, by name or file: [{use: task}, {use: ./mine.ts, weight: 0.2}]; the weighted mean of those that apply. Null: task. Paths are relative to the recipe's file, with --set to the working directory. ${choiceHelp(REWARDS)}.`,
  );

/** Advice after the answer, and who judges it; `rewards/judge.ts` says by what. */
const extension = z
  .strictObject({
    ask: z
      .boolean()
      .default(false)
      .describe('Whether advice is asked for after the class, of classification data that say which advice.'),
    judge: word
      .default('rules')
      .describe(
        'Who scores it in reinforcement, with weight 0.5 where the answer is right and well formed: rules (of words and numbers, without a model), openai:MODEL@URL (a chat model behind an endpoint), or none.',
      ),
    keyVariable: word
      .nullable()
      .default(null)
      .describe(
        "Environment variable with the key of the judge's endpoint. Null: OPENAI_API_KEY, where it is set.",
      ),
    seconds: positive
      .max(3600)
      .default(60)
      .describe(
        'Longest wait of a step for the judge; responses whose score is missing then have no reward.',
      ),
    concurrency: count(1, 1024).default(8).describe('Requests to the judge at once, of each worker.'),
    requestsPerMinute: count(1)
      .nullable()
      .default(null)
      .describe('Most requests to the judge a minute, of each worker.'),
    tokensPerMinute: count(1)
      .nullable()
      .default(null)
      .describe('Most tokens of the judge a minute, of each worker.'),
    prices: z
      .tuple([nonNegative.max(1e6), nonNegative.max(1e6)])
      .readonly()
      .nullable()
      .default(null)
      .describe(
        'Price of a million tokens of prompts, and of responses, of the judge: [0.15, 0.6]. Null: no cost is told.',
      ),
    cache: word
      .nullable()
      .default(null)
      .describe(
        "Directory that keeps the judge's answers: none is paid for twice, and what a resumed run asks again has the same score.",
      ),
  })
  .readonly();

const evaluation = z
  .strictObject({
    series: count(1, 1e7)
      .default(400)
      .describe(
        'Held-out examples evaluated: of a prepared data set with more, as many are drawn; otherwise at most data.heldOut.',
      ),
    temperature: z
      .number()
      .min(0.001)
      .max(10)
      .default(1)
      .describe(
        'Temperature of the sampled evaluation, beside the greedy one; reinforcement learning raises the reward at rl.temperature.',
      ),
    samples: count(1, 1024).default(8).describe('Sampled responses per example.'),
    transfer: count(0, 1e7)
      .default(160)
      .describe('AnomLLM series, evenly of its eight tasks, that the last policy answers too; 0: none.'),
    validation: count(0, 1e7)
      .default(400)
      .describe(
        'Examples of the validation split on which the best of the classical detectors is chosen; 0: the blind expert is taken unseen.',
      ),
    bootstrap: count(100, 1e6).default(2000).describe('Resamples behind every 95 % interval.'),
    maxTokens: count(1, LONGEST_RESPONSE).default(96).describe('Longest response, in tokens.'),
  })
  .readonly();

/** Of runs on the data that the recipe names; none unless it lists some, and none of fewer than 100 held-out series. */
const requirements = z
  .strictObject({
    sft: z
      .record(word, ratio)
      .readonly()
      .default({})
      .describe(
        'Least means over the held-out series after the supervised stage, greedy, by metric: {format: 0.98}.',
      ),
    final: z
      .record(word, ratio)
      .readonly()
      .default({})
      .describe('Least means over the held-out series at the end of training, greedy, by metric.'),
    gain: z
      .record(word, z.number().min(-1).max(1))
      .readonly()
      .default({})
      .describe(
        'What the 95 % interval of a change by reinforcement lies above: reward_sampled, or of greedy answers reward_greedy and other metrics by name. A change that is surely a loss never meets it.',
      ),
    notLower: z
      .array(word)
      .readonly()
      .default([])
      .describe('Metrics of greedy answers whose mean reinforcement must not lower: [point_precision].'),
  })
  .readonly();

/** Divergences that sampled tokens estimate. */
const SAMPLED_DIVERGENCES = choiceNames(DIVERGENCES).filter((name) => DIVERGENCES[name].sampled);

export const recipeSchema = z
  .strictObject({
    seed: count(0, Number.MAX_SAFE_INTEGER)
      .default(42)
      .describe('Seed of everything random in the run: data, initial weights, order, sampling.'),
    data: data.prefault({}),
    figure: word
      .default('nano')
      .describe('Figure preset that shows a series to the policy; task: the one that the data set names.'),
    input: z
      .enum(['picture', 'numbers'])
      .default('picture')
      .describe('Whether the policy is shown a picture, or reads the series as numbers in the prompt.'),
    numbers: numbers.prefault({}),
    policy: policy.prefault({}),
    memory: memory.prefault({}),
    sft: sft.prefault({}).describe('Supervised fine-tuning on expert traces.'),
    reward: rewards,
    extension: extension.prefault({}),
    rl: rl.prefault({}).describe('Reinforcement learning: TimerPO or GRPO.'),
    eval: evaluation.prefault({}),
    requirements: requirements.prefault({}).describe('What the report holds the run to.'),
    answers: z
      .enum(['lenient', 'strict'])
      .default('lenient')
      .describe(
        "How answers are read, in training and evaluation. lenient: as the papers' releases do; strict: a part that is not exactly as asked for earns nothing. The format reward is strict either way; explain reads leniently.",
      ),
  })
  .readonly()
  .superRefine((recipe, context) => {
    const { advantage, distillation, timerpo, kl, klIn } = recipe.rl;
    if (advantage === 'none' && distillation.weight === 0) {
      context.addIssue({
        code: 'custom',
        path: ['rl', 'advantage'],
        message: 'an estimator: without one, and without rl.distillation.weight, nothing is learnt',
      });
    }
    if (distillation.estimator === 'sampled' && !DIVERGENCES[distillation.divergence].sampled) {
      context.addIssue({
        code: 'custom',
        path: ['rl', 'distillation', 'estimator'],
        message: `full: sampled tokens estimate ${SAMPLED_DIVERGENCES.join(', ')} alone, not ${distillation.divergence}`,
      });
    }
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
        message: `${patience > 0 ? 0 : 'last'} while ${stage}.evalEvery is 0: there is nothing to go by without evaluations`,
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
  /** With dots between levels: `rl.kl`. */
  readonly key: string;
  /** Its default as --set takes it; empty where there is none. */
  readonly standard: string;
  /** What it may be: `≥ 2`, `0 … 1`, `auto | always | never`; empty for any text. */
  readonly range: string;
  /** Empty where its `describe` is missing, which a test refuses. */
  readonly meaning: string;
}

/** What is used here of a JSON schema. */
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

/** Bounds that only keep numbers representable say nothing to a reader. */
const SMALLEST_TOLD = 1e-6;
const LARGEST_TOLD = 1e6;

function rangeOf(schema: JsonSchema): string {
  if (schema.anyOf !== undefined) return schema.anyOf.map(rangeOf).filter(Boolean).join(' | ');
  if (schema.enum !== undefined) return schema.enum.map(String).join(' | ');
  if (schema.const !== undefined) return String(schema.const);
  if (schema.type === 'boolean') return 'true | false';
  if (schema.type === 'null') return 'null';
  const { minimum, maximum, exclusiveMinimum: above, exclusiveMaximum: below } = schema;
  const tiny = minimum !== undefined && minimum > 0 && minimum <= SMALLEST_TOLD;
  const low =
    above !== undefined ? `> ${above}` : tiny ? '> 0' : minimum === undefined ? '' : String(minimum);
  const most = maximum !== undefined && maximum < LARGEST_TOLD ? String(maximum) : '';
  const high = below !== undefined ? `< ${below}` : most;
  if (high === '') return low === '' || low.startsWith('>') ? low : `≥ ${low}`;
  return low === '' ? `≤ ${high}` : `${low} … ${high}`;
}

const shownDefault = (value: unknown): string =>
  value === undefined ? '' : typeof value === 'string' ? value : JSON.stringify(value);

function keysOf(schema: JsonSchema, prefix: string): RecipeKey[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, inner]) => {
    const key = `${prefix}${name}`;
    if (inner.properties !== undefined) return keysOf(inner, `${key}.`);
    const { default: standard, description = '' } = inner;
    return [{ key, standard: shownDefault(standard), range: rangeOf(inner), meaning: description }];
  });
}

/** Every key of a recipe, in the order of the schema. */
export function recipeKeys(): RecipeKey[] {
  return keysOf(z.toJSONSchema(recipeSchema) as JsonSchema, '');
}
