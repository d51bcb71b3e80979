/** Answers of a policy to held-out examples, on a group of Workers. */

import { type ExampleAddress, openExamples } from '../../datasets/source.ts';
import { Progress } from '../progress.ts';
import type { NumbersFormat } from '../tasks/card.ts';
import type { Reading } from '../tasks/response.ts';
import type { EvalRecord } from '../types.ts';
import { type EvalMode, runStage } from './stage.ts';

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
  readonly device: string;
  readonly workers: number;
  readonly silent: boolean;
}

/** Per mode, the records in the order of the examples, the samples of an example together. */
export async function runEvalStage(options: EvalStageOptions): Promise<EvalRecord[][]> {
  const { from, label, examples, modes, numbers, maxTokens, seed, answers, device, silent } = options;
  const count = openExamples(examples).count;
  const workers = Math.max(1, Math.min(options.workers, count));
  const progress = new Progress({ label, total: count * modes.length, unit: 'examples', silent });
  const done = new Array<number>(workers).fill(0);
  const { results, stopped } = await runStage(
    {
      ...{ stage: 'eval', from, examples, device, modes, maxTokens, seed, answers },
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
    return Array.from({ length: count }, (_, i) => {
      const of = results[i % workers]!.records[m]!;
      const place = Math.floor(i / workers) * samples;
      return of.slice(place, place + samples);
    }).flat();
  });
}
