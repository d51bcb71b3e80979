/** All tasks by name, in the order of lists. */
import { ConfigError, suggestion } from '../../src/ground/errors.ts';
import type { Gold } from '../../src/ground/types.ts';
import type { TaskPrompt } from '../../src/tasks/kind.ts';
import { taskKind } from '../../src/tasks/kinds.ts';
import { customPrompt, type OwnWords } from '../../src/tasks/prompt.ts';
import { ctu, nab, rcw, tab, tee, tsbAd, tsbUad } from './archives.ts';
import type { Benchmark, Generator } from './benchmark.ts';
import { custom } from './custom.ts';
import { ecg } from './ecg.ts';
import { emg } from './emg.ts';
import {
  anomllmAll,
  anomllmKinds,
  lawsBenchmark,
  nano5Benchmark,
  vtaKinds,
  vtaMissing,
  vtaUnivariate,
  vtaVariates,
  wildBenchmark,
  wildLongBenchmark,
} from './generated.ts';
import { har } from './har.ts';
import { qa } from './qa.ts';

export const BENCHMARKS: readonly Benchmark[] = [
  ...[rcw, tee, ecg, emg, ctu, har],
  ...[nano5Benchmark, lawsBenchmark, wildBenchmark, wildLongBenchmark, anomllmAll, ...anomllmKinds],
  ...[vtaUnivariate, vtaMissing, vtaVariates, ...vtaKinds],
  ...[tsbUad, tsbAd, tab, nab],
  qa,
  custom,
];

/** Finds the generator of a benchmark of one channel, from which training may draw without a data set on disk; null for other names. */
export const generatorOf = (name: string): GeneratedTask | null =>
  GENERATORS.find((candidate) => candidate.name === name) ?? null;

/** Returns the limitations of policies trained on a task from random weights, one sentence each; none for unknown tasks. */
export function limitationsOf(task: string): readonly string[] {
  return BENCHMARKS.find(({ name }) => name === task)?.limitations ?? [];
}

type GeneratedTask = Benchmark & { readonly generator: Generator };

export const GENERATED: readonly GeneratedTask[] = BENCHMARKS.filter(
  (benchmark): benchmark is GeneratedTask => benchmark.generator !== undefined,
);
/** Those whose series have one channel. */
const GENERATORS = GENERATED.filter(({ kind }) => !taskKind(kind).countsChannels);

/** Finds a benchmark by name, in any case. @throws ConfigError with the known names and the closest */
export function benchmarkNamed(name: string): Benchmark {
  const wanted = name.toLowerCase();
  const task = BENCHMARKS.find((benchmark) => benchmark.name === wanted);
  if (task !== undefined) return task;
  const names = BENCHMARKS.map((one) => one.name);
  throw new ConfigError(
    `no task named '${name}'.${suggestion(name, names)} Known: ${names.join(', ')}; your own files: custom`,
  );
}

/** Default figure of nano policies: a bare line for one channel, a row each for several. */
export function nanoFigure(data: {
  readonly task: string;
  readonly kind: Gold['kind'];
  readonly channels: readonly string[];
}): string {
  if (data.channels.length === 1) return 'nano';
  return BENCHMARKS.find(({ name }) => name === data.task)?.nanoFigure ?? taskKind(data.kind).nanoFigure;
}

/** Prompts of the benchmarks that have their own, in list order. */
export const BENCHMARK_PROMPTS: readonly TaskPrompt[] = BENCHMARKS.flatMap(({ name, kind, prompt }) =>
  prompt === null ? [] : [{ name, kind, ...prompt }],
);

/**
 * The prompt of a benchmark, or that of the family to which a preset belongs: `anomllm/point` has that of `anomllm`, `vta/square/9`
 * with the kind `variates` that of `vta/multivariate`. The rest of a preset's name, which tells the label, has no effect. Null for
 * data of another name.
 * @param kind of the answer; needed for presets of families with several kinds
 */
export function benchmarkPrompt(task: string, kind?: Gold['kind']): TaskPrompt | null {
  const family = task.split('/')[0]!;
  return (
    BENCHMARK_PROMPTS.find(({ name }) => name === task) ??
    BENCHMARK_PROMPTS.find(
      (prompt) => prompt.name.split('/')[0] === family && (kind ?? prompt.kind) === prompt.kind,
    ) ??
    null
  );
}

/**
 * Prompt for data: that of their benchmark; without one (null, or an unknown name) the user's words, or else the title, with the question
 * of the answer kind. The title of `custom` data says nothing and is left out.
 */
export function promptFor(task: string | null, kind: Gold['kind'], title = '', own?: OwnWords): TaskPrompt {
  const known = task === null ? null : benchmarkPrompt(task, kind);
  return known ?? customPrompt(kind, own ?? { description: task === 'custom' ? '' : title });
}
