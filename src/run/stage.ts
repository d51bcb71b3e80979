/**
 * Stage of a run on a group of Workers: their jobs and notes, and for training its progress, metrics, record and resumption.
 * `stage-worker.ts` is the program of one Worker.
 */

import { type ExampleAddress, openExamples, validationExamples } from '../../datasets/source.ts';
import type { EvalForm, WantedExample } from '../../eval/harness.ts';
import { RunDirectory, runOf } from '../../eval/run-directory.ts';
import type { EngineName } from '../answer/answerer.ts';
import { computingEngine, prepareEngine } from '../answer/local.ts';
import type { ChatTotals } from '../endpoint/chat.ts';
import { CheckpointError, ConfigError, TimeseerError } from '../ground/errors.ts';
import { Interrupted, withInterrupt } from '../ground/interrupt.ts';
import { cores } from '../ground/machine.ts';
import { damageOf } from '../ground/manifest.ts';
import { workerUrl } from '../ground/paths.ts';
import { Progress } from '../ground/progress.ts';
import { say, shellWord } from '../ground/terminal.ts';
import type { EvalRecord } from '../ground/types.ts';
import { advantageName, type Recipe } from '../recipe/recipe.ts';
import type { StageOrigin } from '../train/checkpoint.ts';
import type { TrainingStage } from '../train/dry-run.ts';
import { type GuardName, guardText } from '../train/guards.ts';
import { type Completion, type RlMetrics, RunLog, type SftMetrics } from '../train/metrics.ts';
import { cautions } from '../train/rl.ts';
import { stageSteps } from '../train/sft.ts';
import { MetricsLog } from '../train/tensorboard.ts';
import { isExhausted } from '../train/validation.ts';
import { runWorkers } from '../train/worker-group.ts';
import { CompletionsPage } from './completions.ts';
import { type JudgeCounts, recipeJudge } from './judging.ts';
import { stageExamples } from './policy-task.ts';
import { Run, type RunRequest, runSession, type StageRecord, writeEnvironment } from './run.ts';
import { prepareInitial } from './run-policy.ts';
import { stageMemory } from './stage-memory.ts';
import { Evaluator, readValidation } from './validation.ts';
import { localRanksOf, ranksOf, resumedByRestart, worldForJob } from './world.ts';

interface Job {
  readonly device: string;
  /** Policy that the stage starts from, or the checkpoint that it continues. */
  readonly from: string;
  readonly examples: ExampleAddress;
}

/** Supervised fine-tuning, or reinforcement. */
export interface TrainingJob extends Job {
  readonly stage: TrainingStage;
  readonly recipe: Recipe;
  /** Recipe, data and policy that the stage began with, for its checkpoints. */
  readonly origin: StageOrigin;
  /** Engines of its steps, for its checkpoints; undefined where an older checkpoint lacks them. */
  readonly engines?: string[] | undefined;
  /** True: gradient checkpointing. */
  readonly recompute: boolean;
  /** Initial policy of the stage: base of its adapter and reference of the KL term. */
  readonly base: string;
  /** Directories of the checkpoint, the finished policy and the trained adapter (PEFT). */
  readonly checkpoint: string;
  readonly output: string;
  readonly adapter: string;
  /** True where the policy is evaluated meanwhile. */
  readonly validated?: boolean;
  /** Memory shared with the evaluator, in the process that has one. */
  readonly evaluator: SharedArrayBuffer | null;
}

/** Temperature and samples of an evaluation. */
export interface EvalMode {
  /** 0: greedy. */
  readonly temperature: number;
  readonly samples: number;
  /** Policy with the same tokenizer whose log-probabilities of the answers are measured as well. */
  readonly reference?: string;
  /** Examples by place, each with its samples and their openings. Default: all, from nothing. */
  readonly wanted?: readonly WantedExample[];
}

/** Number of tokens of a response and the sums of their log-probabilities at its sampling temperature. */
export interface Likelihood {
  readonly tokens: number;
  readonly logProb: number;
  /** Under the reference. */
  readonly reference: number;
}

type Stated = 'maxTokens' | 'seed' | 'reading';

/** Evaluation; what the form leaves open is as the policy was taught. */
export interface EvalJob extends Job, Partial<Omit<EvalForm, Stated>>, Pick<EvalForm, Stated> {
  readonly stage: 'eval';
  /** Engine of the policy. Default: that which trains. */
  readonly engine?: EngineName;
  /** Directory of an adapter that is merged into the policy. */
  readonly adapter?: string;
  /** Threads of the engine. Default: chosen by the size of the policy. */
  readonly threads?: number;
  readonly modes: readonly EvalMode[];
}

export type StageJob = TrainingJob | EvalJob;

export type StageNote =
  | { readonly kind: 'sft'; readonly metrics: SftMetrics }
  | { readonly kind: 'rl'; readonly metrics: RlMetrics }
  | { readonly kind: 'completions'; readonly completions: readonly Completion[] }
  /** Extensions that a rank had judged in this session; sent when the first score is missing, and at its end. */
  | ({ readonly kind: 'judged'; readonly totals: ChatTotals | null } & Readonly<JudgeCounts>)
  /** Sentence for the user, such as a server that is waited for. */
  | { readonly kind: 'said'; readonly text: string }
  /** A checkpoint of this step is on disk. */
  | { readonly kind: 'saved'; readonly step: number }
  /** The policy of this step can be evaluated. */
  | { readonly kind: 'evaluate'; readonly step: number }
  /** Record of an evaluation, with its mode and the place of its example. */
  | { readonly kind: 'record'; readonly mode: number; readonly number: number; readonly record: EvalRecord };

export interface StageResult {
  /** Number of steps done: fewer than asked for when the stage was stopped or ended early. */
  readonly steps: number;
  /** True once the stage has ended. */
  readonly complete: boolean;
  /** Likelihoods by mode, of this rank's examples in order; empty for a mode without a reference. */
  readonly likelihoods: readonly (readonly Likelihood[])[];
}

/** Returns the job as other processes get it. */
const withoutMemory = (job: StageJob): StageJob => (job.stage === 'eval' ? job : { ...job, evaluator: null });

/**
 * Runs a stage on `workers` Workers, or on the processes of the job; returns their results by rank, and the interrupt that stopped it. Ctrl-C lets them finish and save
 * their step; before and after, it ends the process.
 * @throws Interrupted
 */
export function runStage(
  job: StageJob,
  workers: number,
  onNote: (note: StageNote, rank: number) => void,
): Promise<{ readonly results: readonly StageResult[]; readonly stopped: Interrupted | null }> {
  return withInterrupt(async (signal) => {
    const engine = (job.stage === 'eval' ? job.engine : undefined) ?? computingEngine(job.device);
    if ((await ranksOf(1)) > 1 && (job.device.includes(':') || engine === 'tfjs')) {
      throw new ConfigError(
        engine === 'tfjs'
          ? 'several processes share work on the torch engine only: start one, or leave out --engine'
          : `--device ${job.device}: of several processes each takes the GPU of its LOCAL_RANK: write --device cuda`,
      );
    }
    // Workers share tensors through what this thread has opened.
    if (engine !== 'onnx') await prepareEngine(job.device, engine);
    const options = {
      size: workers,
      program: workerUrl('./stage-worker', import.meta.url),
      job,
      onNote,
      signal,
    };
    const world = await worldForJob();
    const results =
      world === null
        ? await runWorkers<StageJob, StageNote, StageResult>(options)
        : await world.run<StageJob, StageNote, StageResult>({ ...options, remote: withoutMemory(job) });
    return { results, stopped: signal.aborted ? (signal.reason as Interrupted) : null };
  });
}

export interface StageOptions {
  readonly device: string;
  readonly resume: boolean;
  readonly force: boolean;
  readonly silent: boolean;
}

type Listener = (note: StageNote, rank: number) => void;

/** Answers the validation examples greedily with the policy of a step; null when stopped before. */
async function validate(
  { base, recipe, device }: Pick<TrainingJob, 'base' | 'recipe' | 'device'>,
  examples: ExampleAddress,
  directory: string,
  signal: AbortSignal,
): Promise<readonly EvalRecord[] | null> {
  const job: EvalJob = {
    stage: 'eval',
    ...(recipe.policy.tune === 'adapter' ? { from: base, adapter: directory } : { from: directory }),
    ...{ device, examples, threads: 1, modes: [{ temperature: 0, samples: 1 }] },
    ...{ maxTokens: recipe.eval.maxTokens, seed: recipe.seed, reading: recipe.answers },
  };
  const records: EvalRecord[] = [];
  try {
    await runWorkers<StageJob, StageNote, StageResult>({
      ...{ size: 1, program: workerUrl('./stage-worker', import.meta.url), job, signal },
      onNote: (note) => {
        if (note.kind === 'record') records[note.number] = note.record;
      },
    });
    return signal.aborted ? null : records;
  } catch (error) {
    if (signal.aborted) return null;
    throw error;
  }
}

interface StageListener {
  readonly listen: Listener;
  /** Updates the pages about the stage. */
  readonly publish: () => Promise<void>;
  readonly log: MetricsLog;
}

/** Examples of a step, and of the whole stage. */
function samplesOf({ sft, rl }: Recipe, stage: TrainingStage): { perStep: number; total: number } {
  return stage === 'sft'
    ? { perStep: sft.batch, total: sft.samples }
    : { perStep: rl.prompts, total: rl.steps * rl.prompts };
}

/** Logs and shows the metrics of the supervised stage. */
function sftListener(run: Run, start: number, progress: Progress): StageListener {
  const log = new MetricsLog('sft', run.file('sft'), start);
  const listen: Listener = (note) => {
    if (note.kind !== 'sft') return;
    log.append(note.metrics);
    const { samples, loss, learningRate, skipped } = note.metrics;
    progress.update(samples, { loss, lr: learningRate, ...(skipped > 0 ? { skipped } : {}) });
  };
  return { listen, publish: async () => {}, log };
}

function judgedLine(
  { judged, missing, reason, totals }: Extract<StageNote, { kind: 'judged' }>,
  rank: number,
): string {
  const gaps = missing === 0 ? '' : `, ${missing} of them without a score (the last: ${reason})`;
  const tokens = totals === null ? '' : `; ${totals.usage.prompt + totals.usage.completion} tokens`;
  const cost = totals?.cost == null ? '' : `, cost ${totals.cost.toFixed(4)}`;
  return `rl: worker ${rank} had ${judged} extensions judged${gaps}${tokens}${cost}`;
}

/** Logs the metrics and completions of the reinforcement stage, shows the metrics, and writes the page of completions at checkpoints. */
function rlListener(run: Run, start: number, progress: Progress, workers: number): StageListener {
  const log = new MetricsLog('rl', run.file('rl'), start);
  const completions = new RunLog(run.file('rl', 'completions.jsonl'), start);
  const page = new CompletionsPage(run);
  page.reward(log.kept as readonly RlMetrics[]);
  page.add(completions.kept as readonly Completion[]);
  /** Completions by rank, of steps that not all ranks have sent yet: the log is ordered by step, then rank. */
  const pending = Array.from({ length: workers }, (): (readonly Completion[])[] => []);
  /** Guards tripped in the step before: a guard is reported when it begins to trip. */
  let tripped: readonly GuardName[] = (log.kept.at(-1) as Partial<RlMetrics> | undefined)?.guards ?? [];
  const listen: Listener = (note, rank) => {
    if (note.kind === 'completions') {
      pending[rank]!.push(note.completions);
      while (pending.every((steps) => steps.length > 0)) {
        const done = pending.flatMap((steps) => steps.shift()!);
        for (const completion of done) completions.append(completion);
        page.add(done);
      }
    }
    if (note.kind === 'judged') progress.note(judgedLine(note, rank));
    if (note.kind === 'said') progress.note(`rl: ${note.text}`);
    if (note.kind !== 'rl') return;
    log.append(note.metrics);
    page.reward([note.metrics]);
    const { step, reward, parts, similarity, kl, zeroVariance, guards } = note.metrics;
    for (const name of guards) {
      if (!tripped.includes(name))
        progress.note(
          `warning: step ${step}: guard ${name}: ${guardText(name, reward, run.recipe.rl.guards)}`,
        );
    }
    tripped = guards;
    progress.update(step, {
      reward,
      ...parts,
      ...(similarity === null ? {} : { similarity }),
      ...(kl === null ? {} : { kl }),
      ...(zeroVariance > 0 ? { zeroVariance } : {}),
    });
  };
  let complained = false;
  // A page that cannot be written is no reason to stop: `timeseer report` writes it from the logs.
  const publish = async (): Promise<void> => {
    try {
      await page.write();
    } catch (error) {
      if (!(error instanceof TimeseerError)) throw error;
      if (!complained) progress.note(`${page.file}: left out (${error.message})`);
      complained = true;
    }
  };
  return { listen, publish, log };
}

/** @throws ConfigError for a stage that the recipe leaves out */
function requiredSteps({ path, recipe }: Pick<Run, 'path' | 'recipe'>, stage: TrainingStage): number {
  const total = stageSteps(recipe, stage);
  if (total > 0) return total;
  const [key, name, other] =
    stage === 'sft' ? ['sft.samples', 'supervised', 'train'] : ['rl.steps', 'reinforcement', 'sft'];
  throw new ConfigError(
    `${path}: ${key} is 0: this run has no ${name} stage; set ${key}, or train the other with \`timeseer ${other}\``,
  );
}

/**
 * Trains a stage of a run: supervised fine-tuning of its initial policy, or reinforcement from the supervised policy (the initial
 * one where the supervised stage has no samples). A finished stage that is to be resumed is left as it is, unless its policy is damaged.
 * @throws Interrupted when stopped; it can be resumed.
 */
export async function runTrainingStage(
  run: Run,
  stage: TrainingStage,
  { device, resume, force, silent }: StageOptions,
): Promise<void> {
  const { recipe } = run;
  const { sft, rl } = recipe;
  const total = requiredSteps(run, stage);
  const state = run.stateOf(stage, total, { resume, force });
  const start = state?.step ?? 0;
  const { evalEvery, evalSeries, patience, keep } = recipe[stage];
  const ended = isExhausted(readValidation(run.file(stage)), { evalEvery, patience, best: keep.best });
  // A run of a study keeps its policy only.
  const pruned = resume && !force && state === null;
  const done = (start === total || ended || pruned) && run.stageFinished(stage);
  const damage = done ? damageOf(run.policy(stage)) : null;
  if (done && damage === null) return;
  if (damage !== null && state === null) {
    throw new CheckpointError(
      `${damage}; there is no checkpoint to write the policy from: start the stage over with --force`,
    );
  }
  if (damage !== null) say(`${damage}; writing the policy again from the checkpoint of step ${start}`);
  const engine = computingEngine(device);
  const past = state === null ? [] : state.engines;
  const engines = past?.at(-1) === engine ? past : past && [...past, engine];
  if (past?.length && engines !== past) {
    const advice = past.length === 1 ? `; for equal bits choose --engine ${past[0]}` : '';
    say(
      `${stage}: resumes on the ${engine} engine after ${start} steps on ${past.join(', then ')}: numbers agree with those of one engine to rounding, not bit for bit${advice}`,
    );
  }
  // A changed recipe may have more steps than the finished run.
  if (start > 0 && !done && run.stageFinished(stage)) run.dropOutput(stage);
  const first = stage === 'sft' || sft.samples === 0;
  if (first) prepareInitial(run);
  const base = first ? run.initial : run.policy('sft');
  const plain = {
    stage,
    origin: run.originOf(stage, base, state),
    engines,
    recipe,
    recompute: await stageMemory(stage, base, recipe, { device, silent }),
    device,
    base,
    from: start > 0 ? run.checkpoint(stage) : base,
    examples: stageExamples(stage, recipe),
    checkpoint: run.checkpoint(stage),
    output: run.policy(stage),
    adapter: run.adapter(stage),
  } as const;
  const samples = samplesOf(recipe, stage);
  // Workers beyond the examples of a step have nothing to do.
  const workers = await ranksOf(Math.max(1, Math.min(recipe[stage].workers, samples.perStep)));
  if (workers > samples.perStep) {
    throw new ConfigError(
      `${stage}: ${workers} processes share ${samples.perStep} examples per step: start at most ${samples.perStep}, or raise ${stage === 'sft' ? 'sft.batch' : 'rl.prompts'}`,
    );
  }
  const progress = new Progress({
    ...(stage === 'sft'
      ? {
          label: 'sft',
          total: sft.samples,
          done: Math.min(sft.samples, start * sft.batch),
          unit: 'samples',
        }
      : { label: advantageName(rl), total, done: start, unit: 'steps' }),
    silent,
  });
  // Fails before anything begins where the judge cannot be opened.
  if (stage === 'rl') recipeJudge(recipe);
  if (stage === 'rl') for (const caution of cautions(rl)) progress.note(`warning: ${caution}`);
  const local = await localRanksOf(workers);
  if (local > cores()) {
    progress.note(`${stage}: ${local} workers on ${cores()} cores slow each other down`);
  }
  const { listen, publish, log } =
    stage === 'sft' ? sftListener(run, start, progress) : rlListener(run, start, progress, workers);
  const before = resume ? (run.stageRecord(stage)?.seconds ?? 0) : 0;
  const began = performance.now();
  const record = (steps: number, finished: string | false): void =>
    run.writeStageRecord(stage, {
      seconds: before + (performance.now() - began) / 1000,
      samples: Math.min(samples.total, steps * samples.perStep),
      steps,
      finished,
    });
  const validation = evalEvery === 0 ? null : validationExamples(recipe.data, recipe.seed, evalSeries);
  const evaluator =
    validation === null
      ? null
      : new Evaluator(run, stage, start, {
          best: keep.best,
          classes: openExamples(validation).facts.classes,
          answer: (directory, signal) => validate(plain, validation, directory, signal),
          onLine: (line) => log.validated(line),
          say: (text) => progress.note(text),
        });
  const job: TrainingJob = {
    ...plain,
    validated: evaluator !== null,
    evaluator: evaluator?.state.memory ?? null,
  };
  const { results, stopped } = await withInterrupt(async (signal) => {
    const stop = (): void => evaluator?.stop();
    signal.addEventListener('abort', stop);
    try {
      const ranks = await runStage(job, workers, (note, rank) => {
        if (note.kind === 'saved') {
          evaluator?.saved(note.step);
          record(note.step, false);
          void publish();
        } else if (note.kind === 'evaluate') evaluator?.add(note.step);
        else listen(note, rank);
      });
      await evaluator?.idle();
      return ranks;
    } catch (error) {
      stop();
      // Throws the evaluator's error, where the ranks ended because of it.
      await evaluator?.idle();
      throw error;
    } finally {
      signal.removeEventListener('abort', stop);
    }
  }).finally(() => progress.stop());
  await publish();
  const { steps, complete } = results[0]!;
  record(steps, complete ? new Date().toISOString() : false);
  if (complete && steps < total) {
    say(
      `${stage}: ended early after step ${steps} of ${total}: no better ${keep.best} in ${patience} evaluations`,
    );
  }
  if (complete && stopped === null) return;
  if (!complete) say(`${stage}: stopped after step ${steps} of ${total}`);
  // A request to stop that came in the last step holds for the work after the stage.
  throw stopped ?? new Interrupted();
}

export interface TrainRequest extends RunRequest {
  /** Initial policy, or its run, of a new run without a supervised stage; without a recipe, that of the policy's run applies. */
  readonly policy?: string | undefined;
}

/** Result of a training stage. */
export interface Trained extends StageRecord {
  /** Directory of the run. */
  readonly out: string;
  /** Directory of the policy. */
  readonly policy: string;
}

/** True for a run whose supervised stage is still to be done. */
const isUntaught = (run: Run): boolean => run.recipe.sft.samples > 0 && !run.stageFinished('sft');

/** Opens the run of a stage, or begins one. @throws CheckpointError where the stage before is not finished */
async function openForStage(stage: TrainingStage, given: TrainRequest): Promise<Run> {
  const { out, recipe, set, resume, policy, quiet, allowChange: allow } = given;
  const from =
    stage === 'sft' || policy === undefined ? [] : ['sft.samples=0', `policy.init=${JSON.stringify(policy)}`];
  const begins =
    stage === 'sft'
      ? !resume && !Run.begun(out) && (allow === undefined || allow.length === 0)
      : policy !== undefined;
  const origin = policy === undefined ? undefined : runOf(policy);
  const usual = () => (origin === undefined ? 'quickstart' : new RunDirectory(origin));
  const options = {
    recipe: recipe ?? (begins ? usual() : null),
    ...{ set: [...set, ...from], resume, allow },
    check: (checked: Recipe) => void requiredSteps({ path: out, recipe: checked }, stage),
  };
  await Run.checkModules(out, options);
  const run = Run.open(out, options);
  if (policy !== undefined && recipe === undefined && !quiet) {
    const source = origin === undefined ? `quickstart, since ${policy} is not of a run` : `of ${origin}`;
    say(`train: recipe ${source}; data ${run.recipe.data.name} (--recipe and --set choose others)`);
  }
  // With a recipe, or to resume a run that was begun so, the supervised stage is run first.
  if (stage === 'rl' && isUntaught(run) && recipe == null && !resume) {
    const first = `npx timeseer sft --out ${shellWord(run.path)} --resume`;
    throw new CheckpointError(
      `${run.path}: its supervised stage is not finished; run ${first} first, ` +
        'or name a policy to start from with --policy and a new --out',
    );
  }
  return run;
}

/**
 * One stage as a command of its own: opens the run, or begins one, and trains.
 * @throws ConfigError, CheckpointError, DataError as `Run.open` and `runTrainingStage`; Interrupted
 */
export async function trainStage(stage: TrainingStage, request: TrainRequest): Promise<Trained> {
  const given = resumedByRestart(request, Run.begun(request.out));
  if (given.policy !== undefined && given.resume) {
    throw new ConfigError(
      '--policy begins a run and --resume resumes one, whose policy is known: leave --policy out',
    );
  }
  const run = await runSession(
    stage === 'sft' ? 'sft' : 'train',
    given,
    () => openForStage(stage, given),
    async (opened) => {
      const options = { ...given, silent: given.quiet };
      if (stage === 'rl' && isUntaught(opened)) await runTrainingStage(opened, 'sft', options);
      writeEnvironment(opened, given.device, {
        [`${stage}_workers`]: await ranksOf(opened.recipe[stage].workers),
      });
      await runTrainingStage(opened, stage, options);
    },
  );
  return { out: run.path, policy: run.policy(stage), ...run.stageRecord(stage)! };
}
