/** Main job, stage after stage; a resumed run skips finished ones. */
import { existsSync } from 'node:fs';
import { type ExampleAddress, openExamples } from '../../datasets/source.ts';
import { SPLITS } from '../../datasets/split.ts';
import { hasTransfer, transferExamples } from '../../eval/harness.ts';
import { writeRecords } from '../../eval/records.ts';
import { ensureBaselines, type ReportFiles, reportFiles } from '../../eval/report.ts';
import type { PolicyName } from '../../eval/run-directory.ts';
import { recorded } from '../../eval/run-facts.ts';
import { type RunSummary, readSummary } from '../../eval/summary.ts';
import { ConfigError } from '../ground/errors.ts';
import { say } from '../ground/terminal.ts';
import type { EvalRecord } from '../ground/types.ts';
import { readCard } from '../tasks/card.ts';
import { taskKind } from '../tasks/kinds.ts';
import { trainingStages } from '../train/memory-plan.ts';
import { answerExamples } from './eval-stage.ts';
import { judgedExtensions, judgedText, judgeRecords, recipeJudge } from './judging.ts';
import { answersKind, evaluationCard, exampleTask, withExtension } from './policy-task.ts';
import { buildReport } from './report.ts';
import { Run, type RunRequest, runSession, setupEngine, writeEnvironment } from './run.ts';
import { prepareInitial } from './run-policy.ts';
import { type EvalMode, runTrainingStage } from './stage.ts';
import { ranksOf, resumedByRestart } from './world.ts';

export interface QuickstartResult {
  /** Directory of the run. */
  readonly out: string;
  readonly files: ReportFiles;
  readonly summary: RunSummary;
  /** True where its policy predicts intervals, which `timeseer explain` needs. */
  readonly explains: boolean;
}

/**
 * @param command that resumes it, as `runSession` has it
 * @throws ConfigError where a run is there that is neither resumed nor replaced; as `runSession` and `runTrainingStage`
 */
export async function runQuickstart(
  request: RunRequest,
  command: string | null = 'quickstart',
): Promise<QuickstartResult> {
  const given = resumedByRestart(request, Run.begun(request.out));
  const log = given.quiet ? () => {} : say;
  const began = performance.now();
  await setupEngine(given.device, log);
  const installed = (performance.now() - began) / 1000;

  const allow = given.allowChange ?? [];
  const open = async (): Promise<Run> => {
    const begun = Run.begun(given.out);
    if (begun && !given.resume && !given.force) {
      throw new ConfigError(
        `${given.out} holds a run: add --resume to resume it, --force to start over, or choose another --out`,
      );
    }
    const options = {
      recipe:
        given.recipe ?? (given.resume && (given.set.length === 0 || allow.length > 0) ? null : 'quickstart'),
      ...{ set: given.set, allow },
      resume: given.resume,
      replace: begun && given.force,
      splits: SPLITS,
      shared: command === null, // an adaptation has its own files there
    };
    await Run.checkModules(given.out, options);
    return Run.open(given.out, options);
  };
  let worked = false;
  const run = await runSession(command, given, open, async (opened) => {
    worked = await runStages(opened, given, installed);
  });
  const there = reportFiles(run.path);
  const whole = existsSync(there.report) && existsSync(there.summary);
  const files = worked || !whole ? (await buildReport(run.path)).files : there;
  const explains = taskKind(openExamples(run.heldOutExamples).facts.kind).localises === true;
  return { out: run.path, files, summary: readSummary(files.summary), explains };
}

/** Part of the main job. */
interface Part {
  /** Returns true where its output exists. */
  readonly done: () => boolean;
  readonly work: () => Promise<void>;
  /** True for training, which records its own time. */
  readonly trains?: boolean;
}

/** Runs the unfinished parts; returns false where there are none. */
async function runStages(run: Run, given: RunRequest, installed: number): Promise<boolean> {
  const { recipe } = run;
  const stage = { device: given.device, resume: true, force: false, silent: given.quiet };
  const workers = await ranksOf(Math.max(recipe.sft.workers, recipe.rl.workers));

  const evaluate = async (
    label: string,
    from: string,
    examples: ExampleAddress,
    modes: readonly EvalMode[],
  ): Promise<(readonly EvalRecord[])[]> => {
    const answers = await answerExamples({
      ...{ from, label: `eval ${label}`, examples, modes, workers },
      ...{ device: given.device, silent: given.quiet },
      ...{ maxTokens: recipe.eval.maxTokens, seed: recipe.seed },
      ...{ reading: recipe.answers, extension: recipe.extension.ask },
    });
    return answers.map(({ records }) => records);
  };

  /** Adds the scores of the recipe's judge, if any, to records. */
  const judged = async (from: string, records: readonly EvalRecord[]): Promise<readonly EvalRecord[]> => {
    const opened = recipeJudge(recipe);
    if (opened === null) return records;
    const source = openExamples(run.heldOutExamples);
    const { facts } = source;
    const task = exampleTask(withExtension(evaluationCard(from, facts), facts), {
      facts,
      reading: recipe.answers,
    });
    const scored = await judgeRecords(task, opened.judge, source, records);
    if (!given.quiet) say(judgedText(judgedExtensions(scored, opened)));
    return scored;
  };

  /** Greedy and sampled answers to the held-out examples. */
  const answers = (policy: PolicyName, from: string): Part => {
    const [greedyFile, sampledFile] = [run.answersFile(policy, 'greedy'), run.answersFile(policy, 'sampled')];
    return {
      done: () => existsSync(greedyFile) && existsSync(sampledFile),
      work: async () => {
        const [greedy, sampled] = await evaluate(policy, from, run.heldOutExamples, [
          { temperature: 0, samples: 1 },
          { temperature: recipe.eval.temperature, samples: policy === 'initial' ? 1 : recipe.eval.samples },
        ]);
        writeRecords(sampledFile, await judged(from, sampled!));
        writeRecords(greedyFile, await judged(from, greedy!));
      },
    };
  };

  const transfer = (policy: PolicyName): Part => {
    const file = run.file('eval', `${policy}.anomllm.greedy.jsonl`);
    const examples = transferExamples(recipe.seed, recipe.eval.transfer);
    return {
      done: () => existsSync(file),
      work: async () => {
        const modes = [{ temperature: 0, samples: 1 }];
        const [greedy] = await evaluate('anomllm', run.policy(policy), examples, modes);
        writeRecords(file, greedy!);
      },
    };
  };

  const classical: Part = {
    done: () => run.baselines() !== null,
    work: async () => {
      if (!given.quiet) say('classical detectors');
      await ensureBaselines(run.path);
    },
  };

  // A start that answers other questions is evaluated once it was taught these.
  const initial = answers('initial', run.initial);
  const isAsked = (): boolean =>
    !existsSync(run.initial) || answersKind(readCard(run.initial), openExamples(run.heldOutExamples).facts);
  const parts: Part[] = [{ ...initial, done: () => !isAsked() || initial.done() }];
  const trained = trainingStages(recipe);
  for (const name of trained) {
    parts.push({
      done: () => run.stageFinished(name),
      work: () => runTrainingStage(run, name, stage),
      trains: true,
    });
    parts.push(answers(name, run.policy(name)));
  }
  const last = trained.at(-1);
  if (last !== undefined && hasTransfer(recipe)) parts.push(transfer(last));
  parts.push(classical);

  if (parts.every(({ done }) => done())) return false;
  writeEnvironment(run, given.device, {
    workers,
    ...(given.resume ? {} : { install_s: Number(installed.toFixed(2)) }),
  });
  prepareInitial(run);
  for (const { done, work, trains = false } of parts) {
    if (done()) continue;
    const began = performance.now();
    await work();
    if (trains) continue;
    // After each part, so that time before an interruption counts.
    const seconds = (recorded(run.environment, 'evaluation_s') ?? 0) + (performance.now() - began) / 1000;
    writeEnvironment(run, given.device, {
      evaluation_s: Number(seconds.toFixed(2)),
      evaluation_finished: new Date().toISOString(),
    });
  }
  const peak = Math.round(process.resourceUsage().maxRSS / 1024);
  // The peak over all sessions.
  writeEnvironment(run, given.device, {
    peak_memory_mib: Math.max(peak, recorded(run.environment, 'peak_memory_mib') ?? 0),
  });
  return true;
}
