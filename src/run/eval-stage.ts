/** Evaluation by a group of Workers: each opens the policy and answers its share of the examples. */
import { type ExampleAddress, openExamples } from '../../datasets/source.ts';
import type { EvalForm, ResponseRequest } from '../../eval/harness.ts';
import type { LocalSource } from '../answer/answerer.ts';
import { Progress } from '../ground/progress.ts';
import type { EvalRecord } from '../ground/types.ts';
import type { NumbersFormat } from '../tasks/card.ts';
import type { Reading } from '../tasks/response.ts';
import { type EvalMode, type Likelihood, runStage, type StageResult } from './stage.ts';

export interface EvalStageOptions {
  /** Policy directory. */
  readonly from: string;
  readonly label: string;
  readonly examples: ExampleAddress;
  /** Numbers instead of pictures, or pictures (null); default: as in training. */
  readonly numbers?: NumbersFormat | null;
  readonly modes: readonly EvalMode[];
  readonly maxTokens: number;
  readonly seed: number;
  readonly answers: Reading;
  /** True: asks for advice though the policy's card does not. */
  readonly extension?: boolean;
  readonly device: string;
  readonly workers: number;
  readonly silent: boolean;
}

/** Answers in one mode, in the order of the examples, the samples of an example together. */
export interface ModeAnswers {
  readonly records: EvalRecord[];
  /** Likelihood of each record; empty without a reference. */
  readonly likelihoods: Likelihood[];
}

/** Returns per mode the records in the order of the examples, the samples of an example together. */
export async function runEvalStage(options: EvalStageOptions): Promise<EvalRecord[][]> {
  return (await answerExamples(options)).map(({ records }) => records);
}

/** Answers as `runEvalStage` does, with the likelihoods of the answers under references. @throws Interrupted when stopped */
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

/** Evaluation of a policy on this machine that Workers share. */
export interface WorkerEvaluation {
  readonly source: LocalSource;
  readonly address: ExampleAddress;
  readonly form: EvalForm;
  readonly device: string;
  readonly workers: number;
}

/**
 * Has a group of Workers answer requests, each its share of the examples, and reports each record as it comes, in any order.
 * @throws Interrupted when stopped; the reason of the signal
 */
export async function answerInWorkers(
  { source, address, form, device, workers }: WorkerEvaluation,
  requests: readonly ResponseRequest[],
  report: (record: EvalRecord, request: ResponseRequest) => void,
  signal: AbortSignal,
): Promise<void> {
  const { directory: from, adapter, engine } = source;
  const { numbers, shots, reasoning, extension = false, reading, maxTokens, seed } = form;
  const modes = modesOf(requests);
  const most = Math.max(...modes.map(({ wanted }) => wanted!.length));
  const { stopped } = await runStage(
    {
      ...{ stage: 'eval', streamed: true, from, examples: address, engine, device, modes, maxTokens, seed },
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
}
