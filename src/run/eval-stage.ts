/** Evaluation by a group of Workers: each opens the policy and answers its share of the examples. */
import { openExamples } from '../../datasets/source.ts';
import { byExample, type ResponseRequest } from '../../eval/harness.ts';
import { withProgress } from '../ground/progress.ts';
import type { EvalRecord } from '../ground/types.ts';
import { type EvalJob, type EvalMode, type Likelihood, runStage } from './stage.ts';
import { ranksOf } from './world.ts';

interface EvalStageOptions extends Omit<EvalJob, 'stage'> {
  /** Label of the progress. */
  readonly label: string;
  readonly workers: number;
  readonly silent: boolean;
}

/** Answers in one mode, in the order of the examples, the samples of an example together. */
interface ModeAnswers {
  readonly records: readonly EvalRecord[];
  /** Likelihood of each record; empty without a reference. */
  readonly likelihoods: readonly Likelihood[];
}

/** Answers all examples in every mode. @throws Interrupted when stopped */
export async function answerExamples({
  label,
  workers: most,
  silent,
  ...job
}: EvalStageOptions): Promise<ModeAnswers[]> {
  const { count } = openExamples(job.examples);
  const workers = await ranksOf(Math.max(1, Math.min(most, count)));
  const modes = job.modes.map(({ temperature, samples }) => {
    const each = temperature === 0 ? 1 : samples;
    return { samples: each, records: new Array<EvalRecord>(each * count), done: 0 };
  });
  const options = { label, total: count * modes.length, unit: 'examples', silent };
  const { results, stopped } = await withProgress(options, (update) =>
    runStage({ ...job, stage: 'eval' }, workers, (note) => {
      if (note.kind !== 'record') return;
      const mode = modes[note.mode]!;
      mode.records[note.number * mode.samples + (note.record.sample ?? 0)] = note.record;
      mode.done++;
      update(modes.reduce((sum, { done, samples }) => sum + Math.floor(done / samples), 0));
    }),
  );
  // A request to stop that came after the last token holds for the work after the answers.
  if (stopped !== null) throw stopped;
  return modes.map(({ samples, records }, m) => ({
    records,
    likelihoods: Array.from({ length: count }, (_, i) => {
      const place = Math.floor(i / workers) * samples;
      return results[i % workers]!.likelihoods[m]!.slice(place, place + samples);
    }).flat(),
  }));
}

/** Requests by temperature, and there by example. */
function modesOf(requests: readonly ResponseRequest[]): EvalMode[] {
  const temperatures = [...new Set(requests.map(({ temperature }) => temperature))];
  return temperatures.map((temperature) => ({
    temperature,
    samples: 1 + Math.max(...requests.map(({ sample }) => sample)),
    wanted: byExample(requests.filter((request) => request.temperature === temperature)),
  }));
}

/**
 * Has Workers answer requests, each its share of the examples, and reports each record as it comes, in any order.
 * @throws Interrupted when stopped; the reason of the signal
 */
export async function answerInWorkers(
  job: Omit<EvalJob, 'stage' | 'modes'>,
  workers: number,
  requests: readonly ResponseRequest[],
  report: (record: EvalRecord, request: ResponseRequest) => void,
  signal: AbortSignal,
): Promise<void> {
  const modes = modesOf(requests);
  const most = Math.max(...modes.map(({ wanted }) => wanted!.length));
  const { stopped } = await runStage(
    { ...job, stage: 'eval', modes },
    await ranksOf(Math.max(1, Math.min(workers, most))),
    (note) => {
      if (note.kind !== 'record') return;
      const { number, mode, record } = note;
      report(record, { number, sample: record.sample!, temperature: modes[mode]!.temperature });
    },
  );
  if (stopped !== null) throw stopped;
  signal.throwIfAborted();
}
