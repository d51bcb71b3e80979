/** The main job, stage after stage; what is finished is skipped when it is resumed. */
import { existsSync } from 'node:fs';
import { runBaselines, writeBaselines } from '../../eval/baselines.ts';
import { heldOutSeries, validationSeries } from '../../eval/held-out.ts';
import { writeRecords } from '../../eval/records.ts';
import { type PolicyName, RunDirectory } from '../../eval/run-directory.ts';
import { setup } from '../engine/torch/setup.ts';
import { ConfigError } from '../errors.ts';
import { withInterrupt } from '../interrupt.ts';
import type { SeriesAddress } from './anomaly-task.ts';
import { runEvalStage } from './eval-stage.ts';
import { buildReport } from './report.ts';
import { RunFiles } from './run-files.ts';
import { commandLine, type RunArguments } from './run-options.ts';
import { runRlStage, runSftStage } from './train-stage.ts';

const say = (line: string): void => void process.stderr.write(`${line}\n`);

export async function runQuickstart(given: RunArguments): Promise<void> {
  const log = given.quiet ? () => {} : say;
  const began = performance.now();
  await setup({ install: true, log });
  const installed = (performance.now() - began) / 1000;

  if (!given.resume && !given.force && existsSync(`${given.out}/recipe.json`)) {
    throw new ConfigError(
      `${given.out} holds a run: add --resume to go on with it, --force to start over, or choose another --out`,
    );
  }
  if (given.force) (await import('node:fs')).rmSync(given.out, { recursive: true, force: true });
  const run = RunFiles.open(given.out, {
    recipe:
      given.recipe ??
      (existsSync(`${given.out}/recipe.json`) && given.set.length === 0 ? null : 'quickstart'),
    set: given.set,
    command: commandLine(),
  });
  await withInterrupt((signal) => runStages(run, given, installed, signal));
  const files = await buildReport(run.path);
  if (given.json) process.stdout.write(`${JSON.stringify({ out: run.path, ...files })}\n`);
  else {
    process.stdout.write(`report: ${files.report}\nsummary: ${files.summary}\n`);
    process.stdout.write(`ask it about a file: npx timeseer explain my.csv --policy ${run.path}\n`);
  }
}

async function runStages(
  run: RunFiles,
  given: RunArguments,
  installed: number,
  signal: AbortSignal,
): Promise<void> {
  const { recipe } = run;
  const stage = { device: given.device, resume: true, force: false, silent: given.quiet, signal };
  const workers = Math.max(recipe.sft.workers, recipe.rl.workers);
  run.writeEnvironment(given.device, {
    workers,
    ...(given.resume ? {} : { install_s: Number(installed.toFixed(2)) }),
  });
  run.prepareInitial();

  /** Greedy and sampled answers to the held-out series, unless they are there. */
  const answer = async (policy: PolicyName, from: string): Promise<void> => {
    const directory = new RunDirectory(run.path);
    const [greedyFile, sampledFile] = [
      directory.answersFile(policy, 'greedy'),
      directory.answersFile(policy, 'sampled'),
    ];
    if (existsSync(greedyFile) && existsSync(sampledFile)) return;
    const [greedy, sampled] = await evaluateHere(policy, from, run.heldOutSeries, [
      { temperature: 0, samples: 1 },
      { temperature: recipe.eval.temperature, samples: policy === 'initial' ? 1 : recipe.eval.samples },
    ]);
    writeRecords(sampledFile, sampled!);
    writeRecords(greedyFile, greedy!);
  };
  const evaluateHere = (
    label: string,
    from: string,
    series: SeriesAddress,
    modes: Parameters<typeof runEvalStage>[0]['modes'],
  ) =>
    runEvalStage({
      from,
      label: `eval ${label}`,
      series,
      modes,
      maxTokens: recipe.eval.maxTokens,
      seed: recipe.seed,
      device: given.device,
      workers,
      silent: given.quiet,
      signal,
    });

  await answer('initial', run.initial);
  if (recipe.sft.samples > 0) {
    if (!run.finished('sft')) await runSftStage(run, stage);
    await answer('sft', run.policy('sft'));
  }
  if (recipe.rl.steps > 0) {
    if (!run.finished('rl')) await runRlStage(run, stage);
    await answer('rl', run.policy('rl'));
  }
  const last = recipe.rl.steps > 0 ? 'rl' : recipe.sft.samples > 0 ? 'sft' : null;
  if (last !== null && recipe.eval.transfer > 0) {
    const file = run.file('eval', `${last}.anomllm.greedy.jsonl`);
    if (!existsSync(file)) {
      const series = {
        name: 'anomllm',
        split: 'test' as const,
        seed: recipe.seed,
        length: 1000,
        count: recipe.eval.transfer,
      };
      const [greedy] = await evaluateHere('anomllm', run.policy(last), series, [
        { temperature: 0, samples: 1 },
      ]);
      writeRecords(file, greedy!);
    }
  }
  const { baselineFiles } = new RunDirectory(run.path);
  if (!existsSync(baselineFiles.choice)) {
    if (!given.quiet) process.stderr.write('classical detectors\n');
    writeBaselines(baselineFiles, await runBaselines(heldOutSeries(recipe), validationSeries(recipe)));
  }
  run.writeEnvironment(given.device, {
    peak_memory_mib: Math.round(process.resourceUsage().maxRSS / 1024),
  });
}
