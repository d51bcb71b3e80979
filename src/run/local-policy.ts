/** Policies whose weights are on this machine: a group of Workers answers, each its share of the examples. */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type ExampleAddress, openExamples } from '../../datasets/source.ts';
import type { EvalData, EvalPolicy, ResponseRequest } from '../../eval/policy.ts';
import { CheckpointError } from '../ground/errors.ts';
import { MANIFEST_FILE } from '../ground/manifest.ts';
import { Progress } from '../ground/progress.ts';
import type { EvalRecord } from '../ground/types.ts';
import type { NumbersFormat } from '../tasks/card.ts';
import type { Reading } from '../tasks/response.ts';
import type { EngineName } from './engine-name.ts';
import { type EvalMode, type Likelihood, runStage, type StageResult } from './stage.ts';
import { evaluationCard } from './task.ts';

export interface EvalStageOptions {
  /** Policy directory. */
  readonly from: string;
  readonly label: string;
  readonly examples: ExampleAddress;
  /** Numbers instead of pictures, or pictures (null); as the policy was taught where absent. */
  readonly numbers?: NumbersFormat | null;
  readonly modes: readonly EvalMode[];
  readonly maxTokens: number;
  readonly seed: number;
  /** How answers are read. */
  readonly answers: Reading;
  /** Whether advice is asked for of a policy whose card does not say so. */
  readonly extension?: boolean;
  readonly device: string;
  readonly workers: number;
  readonly silent: boolean;
}

/** Answers in one mode, in the order of the examples, the samples of an example together. */
export interface ModeAnswers {
  readonly records: EvalRecord[];
  /** Of each record; empty without a reference. */
  readonly likelihoods: Likelihood[];
}

/** Per mode, the records in the order of the examples, the samples of an example together. */
export async function runEvalStage(options: EvalStageOptions): Promise<EvalRecord[][]> {
  return (await answerExamples(options)).map(({ records }) => records);
}

/** As `runEvalStage`, with what references say of the answers. @throws Interrupted when stopped */
export async function answerExamples(options: EvalStageOptions): Promise<ModeAnswers[]> {
  const { from, label, examples, modes, numbers, maxTokens, seed, answers, device, silent } = options;
  const { extension = false } = options;
  const count = openExamples(examples).count;
  const workers = Math.max(1, Math.min(options.workers, count));
  const progress = new Progress({ label, total: count * modes.length, unit: 'examples', silent });
  const done = new Array<number>(workers).fill(0);
  const { results, stopped } = await runStage(
    {
      ...{ stage: 'eval', from, examples, device, modes, maxTokens, seed, answers, extension },
      ...(numbers === undefined ? {} : { numbers }),
    },
    workers,
    (note, rank) => {
      if (note.kind !== 'eval') return;
      done[rank] = note.done;
      progress.update(done.reduce((sum, value) => sum + value, 0));
    },
  ).finally(() => progress.stop());
  // Asked for after the last token, it holds for what would come after the answers.
  if (stopped !== null) throw stopped;
  return modes.map((mode, m) => {
    const samples = mode.temperature === 0 ? 1 : mode.samples;
    const ordered = <T>(of: (result: StageResult) => readonly T[]): T[] =>
      Array.from({ length: count }, (_, i) => {
        const place = Math.floor(i / workers) * samples;
        return of(results[i % workers]!).slice(place, place + samples);
      }).flat();
    return {
      records: ordered(({ records }) => records[m]!),
      likelihoods: ordered(({ likelihoods }) => likelihoods[m]!),
    };
  });
}

/** What of a directory of weights says which they are: its manifest, or of a foreign one its configuration and the sizes of its files. */
function weightsOf(directory: string): string {
  const hash = createHash('sha256');
  const manifest = join(directory, MANIFEST_FILE);
  if (existsSync(manifest)) return hash.update(readFileSync(manifest)).digest('hex');
  const graphs = join(directory, 'onnx');
  const inside = existsSync(graphs) ? readdirSync(graphs).map((name) => join('onnx', name)) : [];
  for (const name of [...readdirSync(directory), ...inside].sort()) {
    const file = join(directory, name);
    if (name.startsWith('.') || !statSync(file).isFile()) continue;
    hash.update(`${name} ${statSync(file).size}\n`);
    if (/\.(?:json|jinja|txt)$/.test(name)) hash.update(readFileSync(file));
  }
  return hash.digest('hex');
}

/** Requests by temperature, and there by example. */
function modesOf(requests: readonly ResponseRequest[]): EvalMode[] {
  const modes = new Map<number, Map<number, number[]>>();
  for (const { number, sample, temperature } of requests) {
    const mode = modes.get(temperature) ?? new Map<number, number[]>();
    modes.set(temperature, mode);
    const samples = mode.get(number);
    if (samples === undefined) mode.set(number, [sample]);
    else samples.push(sample);
  }
  return [...modes].map(([temperature, mode]) => ({
    temperature,
    samples: 1 + Math.max(...requests.map(({ sample }) => sample)),
    wanted: [...mode],
  }));
}

export interface LocalPolicyOptions {
  readonly name: string;
  /** Directory of the checkpoint. */
  readonly from: string;
  /** Directory of a low-rank adapter of it. */
  readonly adapter?: string | undefined;
  /** What computes it; torch when absent. */
  readonly engine?: EngineName;
  readonly device: string;
  readonly workers: number;
}

/** @throws CheckpointError for an adapter that is not there */
export function localPolicy({
  name,
  from,
  adapter,
  engine = 'torch',
  device,
  workers,
}: LocalPolicyOptions): EvalPolicy {
  if (adapter !== undefined && !existsSync(join(adapter, 'adapter_config.json'))) {
    throw new CheckpointError(
      `--adapter ${adapter}: no adapter there (looked for adapter_config.json); give the directory that a training with LoRA has left`,
    );
  }
  return {
    name,
    identity: {
      weights: weightsOf(from),
      ...(adapter === undefined ? {} : { adapter: weightsOf(adapter) }),
    },
    asked: true,
    card: (facts) => evaluationCard(adapter ?? from, facts),
    async answer({ address, form }: EvalData, requests, report, signal) {
      const { numbers, shots, reasoning, extension = false, reading, maxTokens, seed } = form;
      const modes = modesOf(requests);
      const most = Math.max(...modes.map(({ wanted }) => wanted!.length));
      const { stopped } = await runStage(
        {
          ...{
            stage: 'eval',
            streamed: true,
            from,
            examples: address,
            engine,
            device,
            modes,
            maxTokens,
            seed,
          },
          ...{ answers: reading, numbers, reasoning, extension },
          ...(adapter === undefined ? {} : { adapter }),
          ...(shots === null ? {} : { shots }),
        },
        Math.max(1, Math.min(workers, most)),
        (note) => {
          if (note.kind !== 'record') return;
          const { number, mode, record } = note;
          report(record, { number, sample: record.sample!, temperature: modes[mode]!.temperature });
        },
      );
      if (stopped !== null) throw stopped;
      signal.throwIfAborted();
    },
  };
}
