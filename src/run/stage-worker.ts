/** Program of one rank: opens the engine, joins the worker group, runs a stage, posts notes. */
import { hash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { hostname } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { parentPort, workerData } from 'node:worker_threads';
import { classesOf } from '../../datasets/materials.ts';
import { openExamples, validationExamples } from '../../datasets/source.ts';
import { type EvalData, evaluate, type WantedExample } from '../../eval/harness.ts';
import type { LocalPolicy } from '../answer/answerer.ts';
import { answerLocally, computingEngine, openEngine, prepareEngine } from '../answer/local.ts';
import { openLocal } from '../answer/open.ts';
import { TimeseerError } from '../ground/errors.ts';
import { neverRemake, syncPath } from '../ground/files.ts';
import { cores } from '../ground/machine.ts';
import { hashesIn, writeManifestedDirectory } from '../ground/manifest.ts';
import { closeAll } from '../ground/module-host.ts';
import { mean, sum } from '../ground/numbers.ts';
import type { Example } from '../ground/types.ts';
import { isModuleSpecifier, moduleAddress, moduleHash } from '../ground/user-module.ts';
import { openTools, type Toolbox } from '../inspect/tools.ts';
import type { EncodedPrompt } from '../policy/batch.ts';
import { generate, type Sampled } from '../policy/generate.ts';
import { readJson } from '../policy/json-file.ts';
import { layoutOf } from '../policy/layout.ts';
import { type Adapter, createAdapter, loadAdapter, mergeAdapter } from '../policy/lora.ts';
import { type Dims, isBuiltIn, parseDims } from '../policy/model-config.ts';
import { Policy } from '../policy/policy.ts';
import { pictureFeatures } from '../policy/vision.ts';
import type { RlRecipe } from '../recipe/recipe.ts';
import { cardDirectory, type PolicyCard, writeCard } from '../tasks/card.ts';
import { taskKind } from '../tasks/kinds.ts';
import { MOST_DIMENSIONS, makeReference, type PolicyReference, writeReference } from '../tasks/reference.ts';
import { type AdvantageName, openAdvantage } from '../train/advantage.ts';
import { readState, restoreOptimizer, saveCheckpoint, writeTrained } from '../train/checkpoint.ts';
import { BEGINNING, Learner, type StageStart } from '../train/learner.ts';
import { type RlMetrics, readLog } from '../train/metrics.ts';
import { groupLogProbs, type Scorer } from '../train/micro-batch.ts';
import { deviceOfRank, ProcessRanks } from '../train/process-group.ts';
import { needsReference, rl } from '../train/rl.ts';
import { sft, stageSteps } from '../train/sft.ts';
import { PromptEncoder } from '../train/task.ts';
import { bestOf, EvaluatorState, Validation } from '../train/validation.ts';
import {
  failureOf,
  loadShared,
  type WorkerContext,
  WorkerGroup,
  type WorkerMessage,
} from '../train/worker-group.ts';
import { fewShot } from './few-shot.ts';
import { type JudgeCounts, judgedScore, recipeJudge } from './judging.ts';
import { evaluationCard, exampleTask, trainingCard, trainingTask, withExtension } from './policy-task.ts';
import { rewardedTask } from './rewards.ts';
import { openRolloutServer } from './rollout-server.ts';
import { dataRecord } from './run-data.ts';
import type { EvalJob, Likelihood, StageJob, StageNote, StageResult, TrainingJob } from './stage.ts';
import { readValidation, snapshotOf } from './validation.ts';

const { memory, rank, size, job: given, meeting } = workerData as WorkerContext<StageJob>;
const job: StageJob =
  meeting === undefined ? given : { ...given, device: deviceOfRank(given.device, meeting) };
const localSize = meeting?.localSize ?? size;
let workers: WorkerGroup;
const port = parentPort!;
const STOP_POLL_MS = 50;
/** Number of parameters from which one operation keeps several cores busy. */
const LARGE = 20e6;

const post = (message: WorkerMessage<StageNote, StageResult>): void => port.postMessage(message);
const note = (value: StageNote): void => {
  workers.countPosted();
  post({ kind: 'note', note: value });
};

function dimsOf(directory: string): Dims {
  const file = join(directory, 'config.json');
  return parseDims(readJson(file), file);
}

/** Number of threads of this rank: one, or its share of the cores for a large policy. */
function threadsFor(directory: string): number {
  const large = layoutOf(dimsOf(directory)).size >= LARGE;
  return large ? Math.max(1, Math.floor(cores() / localSize)) : 1;
}

/**
 * Loads the policy of a training stage: its base, or its checkpoint, which may hold an adapter only. Collective.
 */
function trainedPolicy({ device, base, from, recipe }: TrainingJob): Policy {
  const engine = openEngine(device, threadsFor(base));
  const { dtype, tune } = recipe.policy;
  // Checkpoints were verified before the stage began.
  const checked = from !== base;
  if (tune !== 'adapter') return loadShared(engine, workers, from, { dtype, tuning: tune, checked });
  const dims = dimsOf(base);
  const make = (): Adapter =>
    from === base
      ? createAdapter(engine, dims, recipe.policy.adapter, recipe.seed)
      : loadAdapter(engine, dims, from);
  const adapter = workers.share(engine, make, (ticket) => ({
    options: recipe.policy.adapter,
    flat: engine.attach(ticket),
  }));
  return loadShared(engine, workers, base, { dtype, tuning: tune, adapter });
}

/** Opens the learner of a stage, resumed from its checkpoint. Collective. */
function learnerOf(job: TrainingJob): { learner: Learner; card: PolicyCard; start: StageStart } {
  const { stage, from, checkpoint, recipe, examples } = job;
  const { zero } = recipe.memory;
  const learner = new Learner(trainedPolicy(job), workers, recipe[stage], job.recompute, { zero });
  const state = from === checkpoint ? readState(from) : null;
  const card = { ...trainingCard(from, recipe, openExamples(examples).facts), stage };
  if (state === null) return { learner, card, start: BEGINNING };
  restoreOptimizer(from, learner, state);
  return { learner, card, start: state };
}

/** Returns the reference policy (KL term, initial teacher), which is the initial policy of the stage; null where unused. Collective. */
function referenceOf({ base, from, recipe }: TrainingJob, policy: Policy): Scorer | null {
  if (!needsReference(recipe.rl)) return null;
  if (policy.adapter !== null) return { ...policy.withoutAdapter, forbidden: policy.forbidden };
  // A new stage has just verified the files of its base.
  const options = { dtype: policy.dtype, tuning: 'none', checked: from === base } as const;
  return loadShared(policy.engine, workers, base, options);
}

/** Evaluation during training; undefined without one. */
function validationOf(job: TrainingJob, learner: Learner, card: PolicyCard): Validation | undefined {
  const { stage, recipe, checkpoint, validated, evaluator } = job;
  if (!validated) return undefined;
  const { evalEvery, patience, keep } = recipe[stage];
  const directory = dirname(checkpoint);
  return new Validation(workers, new EvaluatorState(evaluator ?? undefined), {
    ...{ evalEvery, patience, best: keep.best, total: stageSteps(recipe, stage) },
    lines: () => readValidation(directory),
    take: (step) => {
      const snapshot = snapshotOf(directory, step);
      if (!existsSync(snapshot))
        writeManifestedDirectory(snapshot, (temporary) => writeTrained(temporary, learner.policy, card));
      note({ kind: 'evaluate', step });
    },
  });
}

/** Returns the final policy: the last, or the best on the validation examples. */
function outputOf({ policy }: Learner, job: TrainingJob): Policy {
  const { stage, recipe, checkpoint, base } = job;
  const { output, keep } = recipe[stage];
  const directory = dirname(checkpoint);
  const best = output === 'best' ? bestOf(readValidation(directory), keep.best) : null;
  if (best === null) return policy;
  const { engine, dtype, adapter } = policy;
  const from = snapshotOf(directory, best.step);
  return adapter === null
    ? Policy.load(engine, from, { dtype, tuning: 'none' })
    : Policy.load(engine, base, { dtype, adapter: (dims) => loadAdapter(engine, dims, from) });
}

/** Maximum number of training and of validation examples for the reference; fewer for a run that trains on fewer. */
const TRAINING = 256;
const VALIDATION = 200;
/** Examples encoded together. */
const BATCH = 64;

/** Yields examples 0 to `count` − 1 in batches. */
function* batches(count: number, at: (index: number) => Example): Generator<readonly Example[]> {
  for (let first = 0; first < count; first += BATCH)
    yield Array.from({ length: Math.min(BATCH, count - first) }, (_, i) => at(first + i));
}

/**
 * Measures what the finished policy makes of its data, by which later users tell how far other data are from them: features of up to 256
 * training pictures, distances and log-probabilities of up to 200 validation examples. A function of policy and recipe alone, so that a
 * resumed stage writes the same bytes.
 *
 * Null for policies that predict no intervals or read numbers, for large ones (full style), which would take too long, and for data without
 * a validation split.
 */
async function makePolicyReference(
  policy: Policy,
  card: PolicyCard,
  { recipe, examples, stage }: Pick<TrainingJob, 'recipe' | 'examples' | 'stage'>,
): Promise<PolicyReference | null> {
  const { sft, rl } = recipe;
  const trained = Math.max(2, sft.samples, rl.steps * rl.prompts);
  const address = validationExamples(recipe.data, recipe.seed, Math.min(VALIDATION, trained));
  const wanted =
    card.inspect === undefined &&
    taskKind(card.kind).localises &&
    card.numbers === null &&
    card.style === 'nano' &&
    policy.dims.width <= MOST_DIMENSIONS;
  if (address === null || !wanted) return null;
  const encoder = new PromptEncoder(policy);
  const trainingExamples = trainingTask(card, examples, stage);
  const training: Float32Array[] = [];
  const pictures = Math.min(TRAINING, trained);
  for (const batch of batches(pictures, (i) => trainingExamples.example(i)))
    training.push(...pictureFeatures(policy, await encoder.encodeExamples(trainingExamples, batch)));
  const source = openExamples(address);
  const task = exampleTask(card, { facts: source.facts });
  const validation: Float32Array[] = [];
  const logProbabilities: number[] = [];
  for (const batch of batches(source.count, (i) => source.at(i))) {
    const prompts = await encoder.encodeExamples(task, batch);
    validation.push(...pictureFeatures(policy, prompts));
    const answers = await generate(policy, prompts, {
      ...{ temperature: 0, maxTokens: recipe.eval.maxTokens, seed: recipe.seed },
    });
    logProbabilities.push(...answers.map(({ logProbs }) => mean(logProbs)));
  }
  return makeReference(training, validation, logProbabilities);
}

/**
 * Writes the finished policy beside the checkpoint. A trained adapter is written by itself and merged into the policy, which so is a plain
 * checkpoint for any reader and the next stage. Rank 0 only.
 */
async function publish(learner: Learner, card: PolicyCard, job: TrainingJob): Promise<void> {
  if (rank !== 0) return;
  const { base, output, adapter, recipe } = job;
  const policy = outputOf(learner, job);
  if (policy.adapter !== null) {
    // The base of a first stage is a copy: the adapter names the original.
    const { init } = recipe.policy;
    const named = basename(base) === 'initial' && !isBuiltIn(init) ? init : resolve(base);
    writeManifestedDirectory(adapter, (temporary) => writeTrained(temporary, policy, card, named));
    mergeAdapter(policy);
  }
  const reference = await makePolicyReference(policy, card, job);
  writeManifestedDirectory(output, (temporary) => {
    policy.write(temporary);
    writeCard(temporary, card);
    if (reference !== null) writeReference(temporary, reference);
  });
}

function save(job: TrainingJob, learner: Learner, card: PolicyCard, at: StageStart): void {
  const { stage, checkpoint, origin, engines, recipe } = job;
  const { step, skippedInARow } = at;
  // The logs must hold the steps before, should the process be killed now.
  workers.awaitDelivered();
  for (const name of ['metrics.jsonl', 'completions.jsonl']) {
    const log = join(dirname(checkpoint), name);
    if (existsSync(log)) syncPath(log);
  }
  const state = { stage, step, skippedInARow, ...(engines === undefined ? {} : { engines }), origin };
  saveCheckpoint(checkpoint, learner, card, state, recipe[stage].keep.last);
  note({ kind: 'saved', step });
}

/** Opens the advantage estimator of a user's module; null where the recipe names one. @throws ConfigError */
const estimatorOf = async ({ advantage }: RlRecipe) =>
  typeof advantage === 'string' ? null : openAdvantage(moduleAddress(advantage.use, '.'));

/** Opens the tools that a policy looks closer with; none for one that does not. */
const toolboxOf = ({ inspect }: PolicyCard): Promise<Toolbox> => openTools(inspect?.tools ?? []);

async function train(job: TrainingJob): Promise<StageResult> {
  const { stage, recipe } = job;
  const { learner, card, start } = learnerOf(job);
  const reference = stage === 'rl' ? referenceOf(job, learner.policy) : null;
  const toolbox = await toolboxOf(card);
  const asked = trainingTask(card, job.examples, stage, {
    reading: recipe.answers,
    reward: recipe.rl.reward,
    levels: recipe.sft.levels,
    augment: recipe.sft.augment,
    tools: toolbox.tools,
  });
  const judge = stage === 'rl' ? recipeJudge(recipe) : null;
  const counts: JudgeCounts = { judged: 0, missing: 0, reason: null };
  /** True once the judge's failure has been reported: at once, since a wrong address or key lasts. */
  let failing = false;
  const judged = judge === null ? asked : { ...asked, score: judgedScore(asked, judge.judge, counts) };
  const rewarded =
    stage === 'rl' ? await rewardedTask(judged, card.kind, recipe) : { task: judged, close: async () => {} };
  const { task } = rewarded;
  const { tokens, rows } = recipe.memory;
  const remote =
    stage === 'rl'
      ? openRolloutServer({
          ...{ policy: learner.policy, workers, task, server: recipe.rl.server, seed: recipe.seed },
          directory: dirname(job.checkpoint),
          say: (text) => note({ kind: 'said', text }),
        })
      : null;
  const validation = validationOf(job, learner, card);
  const estimator = stage === 'rl' ? await estimatorOf(recipe.rl) : null;
  const hooks = { save: (at: StageStart): void => save(job, learner, card, at), validation };
  const steps =
    stage === 'sft'
      ? await sft(
          learner,
          task,
          { ...recipe.sft, tokens },
          { ...hooks, onStep: (metrics) => note({ kind: 'sft', metrics }) },
          start,
        )
      : await rl(
          learner,
          reference,
          task,
          { ...recipe.rl, advantage: estimator ?? (recipe.rl.advantage as AdvantageName), tokens, rows },
          recipe.seed,
          {
            ...hooks,
            remote: remote ?? undefined,
            onStep: (metrics) => {
              note({ kind: 'rl', metrics });
              if (counts.missing > 0 && !failing) note({ kind: 'judged', ...counts, totals: null });
              failing = counts.missing > 0;
            },
            onCompletions: (completions) => note({ kind: 'completions', completions }),
          },
          start,
          // The log was cut to the steps before.
          start.step > 0 ? (readLog(join(dirname(job.checkpoint), 'metrics.jsonl')) as RlMetrics[]) : [],
        );
  if (judge !== null) note({ kind: 'judged', ...counts, totals: judge.totals() });
  const ended = steps === stageSteps(recipe, stage) || validation?.exhausted === true;
  const complete = ended && (validation?.finish(steps) ?? true);
  await remote?.close();
  if (complete) await publish(learner, card, job);
  // Users' code that failed after its last call is told of behind the result.
  await closeAll([rewarded, estimator, toolbox]);
  return { steps, complete, likelihoods: [] };
}

async function answer(job: EvalJob): Promise<StageResult> {
  const {
    adapter,
    from,
    device,
    engine = computingEngine(device),
    threads = threadsFor(from),
    reasoning,
  } = job;
  let weights: Policy | null = null;
  const opened = await openLocal(resolve(from), {
    ...{ engine, device, threads, adapter, merge: true },
    loadWeights(on, directory, options) {
      weights = loadShared(on, workers, directory, options);
      return weights;
    },
  });
  const policy = await opened.load();
  const source = openExamples(job.examples);
  const { facts } = source;
  const trained = evaluationCard(cardDirectory(from, adapter), facts, job.numbers);
  const advising = job.extension === true ? withExtension(trained, facts) : trained;
  const card = job.inspect === undefined ? advising : { ...advising, inspect: job.inspect };
  const toolbox = await toolboxOf(card);
  const { tools } = toolbox;
  const profile = classesOf(source.set);
  const parts = {
    facts,
    profile,
    reading: job.reading,
    tools,
    ...(reasoning === undefined ? {} : { reasoning }),
  };
  const data: EvalData = {
    ...{ address: job.examples, source, task: exampleTask(card, parts) },
    shotsOf: job.shots == null ? undefined : fewShot(job.examples, card, parts, job.shots),
  };
  const stopped = new AbortController();
  // Polled between decoding steps, when timers run.
  const poll = setInterval(() => workers.stopFlag() && stopped.abort(), STOP_POLL_MS).unref();
  const likelihoods: Likelihood[][] = [];
  for (const [m, mode] of job.modes.entries()) {
    const { temperature } = mode;
    const samples = Array.from({ length: temperature === 0 ? 1 : mode.samples }, (_, sample) => sample);
    const wanted = mode.wanted ?? Array.from({ length: source.count }, (_, i): WantedExample => [i, samples]);
    const share = wanted.filter((_, i) => i % size === rank);
    const reference =
      mode.reference === undefined || weights === null
        ? null
        : loadShared((weights as Policy).engine, workers, mode.reference, { tuning: 'none' });
    const scored: Likelihood[] = [];
    const generate: LocalPolicy['generate'] = async (prompts, options) => {
      const responses = await policy.generate(prompts, options);
      if (reference !== null) scored.push(...likelihoodsOf(reference, prompts, responses, temperature));
      return responses;
    };
    await evaluate(
      { answer: (...asked) => answerLocally({ prompting: policy.prompting, generate }, ...asked) },
      data,
      share,
      { temperature, maxTokens: job.maxTokens, seed: job.seed, signal: stopped.signal },
      (record, { number }) => note({ kind: 'record', mode: m, number, record }),
    );
    likelihoods.push(scored);
    reference?.dispose();
  }
  clearInterval(poll);
  await toolbox.close();
  return { steps: 0, complete: true, likelihoods };
}

/** Computes the likelihoods of responses under a reference policy, in their order. */
function likelihoodsOf(
  reference: Policy,
  prompts: readonly EncodedPrompt[],
  responses: readonly Sampled[],
  temperature: number,
): Likelihood[] {
  const groups = prompts.map((prompt, p) => ({
    prompt,
    responses: responses.filter((response) => response.prompt === p),
  }));
  const scored = groupLogProbs(reference, groups, { temperature }); // of each group [Σ T]
  const taken = prompts.map(() => 0);
  return responses.map(({ prompt, ids, logProbs }) => {
    const from = taken[prompt]!;
    taken[prompt] = from + ids.length;
    const of = scored[prompt]!.subarray(from, from + ids.length);
    return { tokens: ids.length, logProb: sum(logProbs), reference: sum(of) };
  });
}

/** Returns what is read at paths that machines may each have for themselves, by name. */
function filesOf(job: StageJob): Readonly<Record<string, unknown>> {
  const { count, facts } = openExamples(job.examples);
  const { reward, rl, inspect } =
    job.stage === 'eval' ? { reward: null, rl: null, inspect: job.inspect } : job.recipe;
  const advantage = rl?.advantage ?? '';
  const uses = [
    ...(reward ?? []).map(({ use }) => use),
    typeof advantage === 'string' ? advantage : advantage.use,
    ...(inspect?.tools ?? []),
  ];
  const policies =
    job.stage === 'eval'
      ? [job.from, job.adapter, ...job.modes.map(({ reference }) => reference)]
      : [job.base, job.from];
  return {
    examples: [count, facts, dataRecord(job.examples.name)],
    'policy files': policies.map((directory) => directory && hashesIn(directory)),
    modules: uses.filter(isModuleSpecifier).map((use) => moduleHash(moduleAddress(use, '.').file)),
  };
}

/** Joins the other ranks. Collective. @throws TimeseerError where a rank has other files */
async function meet(): Promise<WorkerGroup> {
  if (meeting === undefined) return new WorkerGroup(memory, rank, size);
  const joined = new ProcessRanks(memory, meeting, rank, size, job.device);
  const files = Object.entries(filesOf(job));
  const own = files.map(([, content]) => hash('sha256', JSON.stringify(content), 'buffer').readUInt32BE());
  const all = joined.allGather(own); // [R][names]
  for (const [at, [name]] of files.entries()) {
    const other = all.findIndex((digests) => digests[at] !== all[0]![at]);
    if (other < 0) continue;
    throw new TimeseerError(
      `rank ${other} reads other ${name} than rank 0: they must be the same, at the same path, on every machine`,
    );
  }
  return joined;
}

try {
  // The log exists by now: a missing directory was removed by somebody, or is on another machine.
  if (job.stage !== 'eval' && !existsSync(dirname(job.checkpoint)) && rank > 0) {
    throw new TimeseerError(
      `${dirname(job.checkpoint)}: rank ${rank} on ${hostname()} does not see this directory, which rank 0 made: --out must be on a disk that all machines share`,
    );
  }
  if (job.stage !== 'eval') neverRemake(dirname(job.checkpoint));
  if (job.stage !== 'eval') await prepareEngine(job.device);
  workers = await meet();
  const result = job.stage === 'eval' ? await answer(job) : await train(job);
  workers.close();
  post({ kind: 'result', result });
} catch (error) {
  post({ kind: 'error', error: failureOf(error) });
}
