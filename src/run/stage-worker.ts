/** The program of one rank: opens the engine, joins the worker group, runs a stage, posts what happens. */
import { basename, dirname, resolve } from 'node:path';
import { parentPort, workerData } from 'node:worker_threads';
import { openExamples } from '../../datasets/source.ts';
import { evaluate } from '../../eval/harness.ts';
import { neverRemake } from '../files.ts';
import { writeManifestedDirectory } from '../manifest.ts';
import { mergeAdapter } from '../policy/lora.ts';
import { saveAdapter } from '../policy/peft.ts';
import type { Policy } from '../policy/policy.ts';
import type { Recipe } from '../recipe.ts';
import { type PolicyCard, writeCard } from '../tasks/card.ts';
import { readState, restoreOptimizer, saveCheckpoint } from '../train/checkpoint.ts';
import { BEGINNING, Learner, type StageStart } from '../train/learner.ts';
import type { Scorer } from '../train/micro-batch.ts';
import { rl } from '../train/rl.ts';
import { sft, sftSteps } from '../train/sft.ts';
import {
  failureOf,
  loadShared,
  type WorkerContext,
  WorkerGroup,
  type WorkerMessage,
} from '../train/worker-group.ts';
import { evaluationCard, trainingCard } from './card.ts';
import type { EvalJob, RlJob, SftJob, StageJob, StageNote, StageResult } from './stage.ts';
import { stageEngine, trainedPolicy } from './stage-policy.ts';
import { exampleTask, trainingTask } from './task.ts';

const { memory, rank, size, job } = workerData as WorkerContext<StageJob>;
const workers = new WorkerGroup(memory, rank, size);
const port = parentPort!;
const STOP_POLL_MS = 50;
const post = (message: WorkerMessage<StageNote, StageResult>): void => port.postMessage(message);
const note = (value: StageNote): void => {
  workers.countPosted();
  post({ kind: 'note', note: value });
};

function optimizerOptions(stage: {
  readonly betas: readonly [number, number];
  readonly weightDecay: number;
  readonly clip: number;
}) {
  return { betas: stage.betas, epsilon: 1e-8, weightDecay: stage.weightDecay, clip: stage.clip };
}

/** The learner of a stage, continued where its checkpoint stands. Collective. */
function learnerOf(
  { device, from, base, checkpoint, recipe, recompute, examples }: SftJob | RlJob,
  stage: 'sft' | 'rl',
  options: ReturnType<typeof optimizerOptions>,
): { learner: Learner; card: PolicyCard; start: StageStart } {
  const policy = trainedPolicy(stageEngine(device, base, size), workers, recipe, base, from);
  const learner = new Learner(policy, workers, options, recompute);
  const state = from === checkpoint ? readState(from) : null;
  const card = { ...trainingCard(from, recipe, openExamples(examples).facts), stage };
  if (state === null) return { learner, card, start: BEGINNING };
  restoreOptimizer(from, learner, state);
  return { learner, card, start: state };
}

/**
 * Writes the finished policy beside the checkpoint, a trained adapter also by itself: merged, the policy is a plain
 * checkpoint, which everything that reads one can use, and which the next stage begins with. Rank 0 only.
 */
function publish(
  learner: Learner,
  card: PolicyCard,
  { base, output, adapter, recipe }: SftJob | RlJob,
): void {
  if (rank !== 0) return;
  const { policy } = learner;
  if (policy.adapter !== null) {
    // Of a run's first stage the base is a copy: the adapter names what was copied.
    const { init } = recipe.policy;
    saveAdapter(policy, adapter, basename(base) === 'initial' && init !== 'nano' ? init : resolve(base));
    mergeAdapter(policy);
  }
  writeManifestedDirectory(output, (temporary) => {
    policy.write(temporary);
    writeCard(temporary, card);
  });
}

function save(
  { stage, checkpoint, origin }: SftJob | RlJob,
  learner: Learner,
  card: PolicyCard,
  { step, skippedInARow }: StageStart,
): void {
  // What the logs are told of the steps before: they would lack it if the process were killed now.
  workers.awaitDelivered();
  saveCheckpoint(checkpoint, learner, card, { stage, step, skippedInARow, origin });
  note({ kind: 'saved', step });
}

async function runSft(own: SftJob): Promise<StageResult> {
  const { recipe } = own;
  const { learner, card, start } = learnerOf(own, 'sft', optimizerOptions(recipe.sft));
  const task = trainingTask(card, own.examples, 'sft');
  const hooks = {
    onStep: (metrics: Parameters<Parameters<typeof sft>[3]['onStep']>[0]) => note({ kind: 'sft', metrics }),
    save: (at: StageStart) => save(own, learner, card, at),
  };
  const options = { ...recipe.sft, tokens: recipe.memory.tokens };
  const steps = await sft(learner, task, options, hooks, start);
  if (steps === sftSteps(recipe.sft)) publish(learner, card, own);
  return { steps, records: [] };
}

/** What the KL term refers to: the policy that the stage began with. Collective. */
function referenceOf({ base }: RlJob, policy: Policy, { kl }: Recipe['rl']): Scorer | null {
  if (kl === 0) return null;
  if (policy.adapter !== null) return { ...policy.withoutAdapter, forbidden: policy.forbidden };
  return loadShared(policy.engine, workers, base, { dtype: policy.dtype, tuning: 'none' });
}

async function runRl(own: RlJob): Promise<StageResult> {
  const { recipe } = own;
  const { learner, card, start } = learnerOf(own, 'rl', optimizerOptions(recipe.rl));
  const reference = referenceOf(own, learner.policy, recipe.rl);
  const hooks = {
    onStep: (metrics: Parameters<Parameters<typeof rl>[5]['onStep']>[0]) => note({ kind: 'rl', metrics }),
    onCompletions: (completions: Parameters<Parameters<typeof rl>[5]['onCompletions']>[0]) =>
      note({ kind: 'completions', completions }),
    save: (at: StageStart) => save(own, learner, card, at),
  };
  const task = trainingTask(card, own.examples, 'rl', recipe.answers);
  const options = { ...recipe.rl, tokens: recipe.memory.tokens, rows: recipe.memory.rows };
  const steps = await rl(learner, reference, task, options, recipe.seed, hooks, start);
  if (steps === recipe.rl.steps) publish(learner, card, own);
  return { steps, records: [] };
}

async function runEval(own: EvalJob): Promise<StageResult> {
  const engine = stageEngine(own.device, own.from, size);
  const policy = loadShared(engine, workers, own.from, { tuning: 'none' });
  const source = openExamples(own.examples);
  const { facts } = source;
  const card = evaluationCard(own.from, facts, own.numbers);
  const task = exampleTask(card, { facts, reading: own.answers });
  const numbers = Array.from({ length: source.count }, (_, i) => i).filter((i) => i % size === rank);
  const examples = numbers.map((i) => source.at(i));
  const stopped = new AbortController();
  // Looked at between decoding steps, whenever they let timers through.
  const poll = setInterval(() => workers.stopFlag() && stopped.abort(), STOP_POLL_MS).unref();
  const records = [];
  let before = 0;
  for (const mode of own.modes) {
    const options = { ...mode, maxTokens: own.maxTokens, seed: own.seed, signal: stopped.signal };
    records.push(
      await evaluate(policy, task, examples, numbers, options, (done) => {
        note({ kind: 'eval', done: before + done });
      }),
    );
    before += examples.length;
  }
  clearInterval(poll);
  return { steps: before, records };
}

try {
  // The log is there by now: a directory that is not, somebody removed.
  if (job.stage !== 'eval') neverRemake(dirname(job.checkpoint));
  const result =
    job.stage === 'sft' ? await runSft(job) : job.stage === 'rl' ? await runRl(job) : await runEval(job);
  post({ kind: 'result', result });
} catch (error) {
  post({ kind: 'error', error: failureOf(error) });
}
