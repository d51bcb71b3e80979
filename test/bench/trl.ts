/**
 * GRPO by the stage's own loop against TRL's GRPOTrainer: the same policy after a short supervised stage, prompts with pictures, reward,
 * group, learning rate and steps; the time until the running mean of the sampled reward reaches a value:
 * npx tsx test/bench/trl.ts [--policy DIR] [--rounds STEPS] [--reward .55] [--rows 32] [--json]
 *
 * Both begin the clock with their first step, and both draw their own responses. Ours makes series and pictures meanwhile; TRL
 * finds them as PNG files, and asks this process for its rewards, which are those of the stage. TRL runs on the Python that
 * TIMESEER_TRL names, or TIMESEER_PYTHON: with torchvision, without which transformers has no processor.
 */
import { writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { encodePng } from '../../src/plot/png.ts';
import { Policy } from '../../src/policy/policy.ts';
import type { Recipe } from '../../src/recipe/recipe.ts';
import { trainingTask } from '../../src/run/policy-task.ts';
import { runStage } from '../../src/run/stage.ts';
import { readCard } from '../../src/tasks/card.ts';
import { PromptEncoder } from '../../src/train/task.ts';
import { gflops, type Machine, machineOf, table } from './measure.ts';
import { openPeer } from './peer.ts';
import { quickstart, withPolicy, withScratch } from './workload.ts';

/** Steps that the running mean is taken over. */
const WINDOW = 8;
const OFFSET = 3_000_000;

interface StepEnd {
  /** Since the first step began. */
  readonly seconds: number;
  /** Mean of the sampled responses. */
  readonly reward: number;
}

export interface TrlSide {
  readonly name: string;
  readonly steps: readonly StepEnd[];
  /** Seconds and steps until the running mean reached the value; null: it did not. */
  readonly reached: { readonly seconds: number; readonly steps: number } | null;
  /** GFLOP/s of this machine on one thread, before its turn. */
  readonly gflops: number;
}

export interface TrlReport {
  readonly machine: Machine;
  readonly reward: number;
  readonly sides: readonly TrlSide[];
  readonly peer: string;
}

/** When the mean of `WINDOW` steps first is at least `reward`. */
function reached(steps: readonly StepEnd[], reward: number): TrlSide['reached'] {
  for (let end = WINDOW; end <= steps.length; end++) {
    const last = steps.slice(end - WINDOW, end);
    const mean = last.reduce((sum, step) => sum + step.reward, 0) / WINDOW;
    if (mean >= reward) return { seconds: last.at(-1)!.seconds, steps: end };
  }
  return null;
}

const addressOf = ({ data, seed }: Recipe) =>
  ({ name: data.name, split: 'train', seed, length: data.length, offset: OFFSET }) as const;

async function ours(policy: string, recipe: Recipe, scratch: string): Promise<StepEnd[]> {
  const steps: StepEnd[] = [];
  let seconds = 0;
  await runStage(
    {
      ...{ stage: 'rl', recompute: false, origin: { recipe: {}, data: null, policy: {} }, recipe },
      ...{ device: 'cpu', base: policy, from: policy, examples: addressOf(recipe), evaluator: null },
      checkpoint: join(scratch, 'checkpoint'),
      output: join(scratch, 'policy'),
      adapter: join(scratch, 'adapter'),
    },
    recipe.rl.workers,
    (note) => {
      if (note.kind !== 'rl') return;
      const { ms, reward } = note.metrics;
      seconds += Object.values(ms).reduce((sum, part) => sum + part, 0) / 1000;
      steps.push({ seconds, reward });
    },
  );
  return steps;
}

/** TRL's steps and what it runs on, or why it cannot run. */
async function theirs(
  directory: string,
  recipe: Recipe,
  scratch: string,
  rows: number,
): Promise<{ readonly steps: StepEnd[]; readonly versions: string; readonly gflops: number } | string> {
  const engine = openTorch({ device: 'cpu', threads: 1 });
  const policy = Policy.load(engine, directory, { tuning: 'none' });
  const task = trainingTask(readCard(directory), addressOf(recipe), 'rl', {
    reading: recipe.answers,
    reward: recipe.rl.reward,
  });
  const { steps, prompts, group } = recipe.rl;
  const examples = Array.from({ length: steps * prompts }, (_, index) => task.example(index));
  for (const [n, one] of examples.entries())
    writeFileSync(join(scratch, `${n}.png`), encodePng((await task.picture(one))!));
  const [first] = examples;
  const { ids, images } = new PromptEncoder(policy).encode(
    await task.picture(first!),
    task.instruction(first!),
  );
  const { maxTokens, temperature, clipRatio, kl, learningRate, minLearningRate, warmup, betas, clip } =
    recipe.rl;
  writeFileSync(
    join(scratch, 'grpo.json'),
    JSON.stringify({
      prompts: examples.map((one) => task.instruction(one)),
      ids: [...ids],
      patches: [...images[0]!.patches],
      forbidden: [...policy.forbidden.keys()].filter((id) => policy.forbidden[id] !== 0),
      ...{ steps, promptsPerStep: prompts, group, maxTokens, temperature, clipRatio, kl },
      ...{ learningRate, minLearningRate, warmup, betas, clip, seed: recipe.seed },
    }),
  );
  const { end } = policy.dims.special;
  const score = (asked: unknown): number[] => {
    const { numbers, ids: given } = asked as { readonly numbers: number[]; readonly ids: number[][] };
    return given.map((response, i) => {
      const text = policy.tokenizer.decode(response.at(-1) === end ? response.slice(0, -1) : response);
      return task.score(text, examples[numbers[i]!]!).total;
    });
  };
  const threads = availableParallelism();
  const args = Object.entries({ policy: directory, work: scratch, threads, rows });
  const peer = await openPeer<StepEnd>(
    ...(['TRL', 'trl_grpo', 1] as const),
    args.flatMap(([key, value]) => [`--${key}`, String(value)]),
    threads,
    { python: process.env['TIMESEER_TRL'], reply: score },
  );
  if (typeof peer === 'string') return peer;
  try {
    const now = gflops();
    return { steps: await peer.ask('train'), versions: peer.versions, gflops: now };
  } finally {
    await peer.close();
    policy.dispose();
  }
}

export async function measureTrl(
  given: string | undefined,
  steps: number,
  reward: number,
  rows: number,
): Promise<TrlReport> {
  const recipe = quickstart(['rl.advantage=grpo', `rl.steps=${steps}`, 'rl.checkpointEvery=1000000']);
  const machine = machineOf(openTorch({ device: 'cpu', threads: 1 }));
  return withPolicy(given, 'cpu', (policy) =>
    withScratch(async (scratch) => {
      const now = gflops();
      const own = await ours(policy, recipe, scratch);
      const peer = await theirs(policy, recipe, scratch, rows);
      const side = (name: string, made: readonly StepEnd[], speed: number): TrlSide => ({
        ...{ name, steps: made, reached: reached(made, reward), gflops: speed },
      });
      return {
        ...{ machine, reward },
        sides: [
          side('timeseer', own, now),
          ...(typeof peer === 'string' ? [] : [side('TRL, GRPOTrainer', peer.steps, peer.gflops)]),
        ],
        peer: typeof peer === 'string' ? `SKIPPED ${peer}` : peer.versions,
      };
    }),
  );
}

function text({ machine, reward, sides, peer }: TrlReport): string {
  const mean = (steps: readonly StepEnd[]): string =>
    (steps.reduce((sum, step) => sum + step.reward, 0) / steps.length).toFixed(3);
  const [own, other] = sides;
  const ratio =
    own?.reached && other?.reached
      ? [`${(other.reached.seconds / own.reached.seconds).toFixed(1)}× the time`]
      : [];
  return [
    `GRPO from a short supervised stage; libtorch ${machine.libtorch}, ${machine.blas}, ${machine.device}; ${peer}`,
    table(
      [
        '',
        `to a mean of ${reward} over ${WINDOW} steps`,
        'steps',
        's/step',
        'first steps',
        'last steps',
        'GFLOP/s',
      ],
      sides.map(({ name, steps, reached: at, gflops: speed }) => [
        name,
        at === null ? '–' : `${at.seconds.toFixed(1)} s`,
        at === null ? `of ${steps.length}` : String(at.steps),
        (steps.at(-1)!.seconds / steps.length).toFixed(2),
        mean(steps.slice(0, WINDOW)),
        mean(steps.slice(-WINDOW)),
        speed.toFixed(0),
      ]),
    ),
    ...ratio,
  ].join('\n');
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const { values } = parseArgs({
    options: {
      policy: { type: 'string' },
      rounds: { type: 'string', default: '60' },
      reward: { type: 'string', default: '0.55' },
      rows: { type: 'string', default: '32' },
      json: { type: 'boolean', default: false },
    },
  });
  const report = await measureTrl(
    values.policy,
    Number(values.rounds),
    Number(values.reward),
    Number(values.rows),
  );
  console.log(values.json ? JSON.stringify(report, null, 2) : text(report));
}
