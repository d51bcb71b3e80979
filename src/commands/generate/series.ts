/** `timeseer generate NAME`: writes a data set directory from a generator. */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import type { Benchmark } from '../../../datasets/benchmarks/benchmark.ts';
import { GENERATED } from '../../../datasets/benchmarks/registry.ts';
import {
  EXAMPLES_MANIFEST,
  type ExampleManifest,
  type SplitFacts,
} from '../../../datasets/example-manifest.ts';
import { selectExamples, writeSelection } from '../../../datasets/prepare.ts';
import { DEFAULT_SEED, type Split } from '../../../datasets/split.ts';
import { ConfigError, suggestion } from '../../errors.ts';
import { withInterrupt } from '../../interrupt.ts';
import { Progress } from '../../progress.ts';
import { print, printJson } from '../../terminal.ts';

export interface SeriesArguments {
  readonly name: string;
  readonly out: string;
  readonly count: number;
  readonly split: Split;
  readonly seed: number | undefined;
  readonly length: number | undefined;
  readonly offset: number;
  readonly force: boolean;
  readonly json: boolean;
}

export const SERIES_DEFAULTS = { count: 400, split: 'test', offset: 0 } as const;

/** Replaces only what this command made: never a directory that holds something else. */
function checkTarget(out: string, force: boolean): void {
  if (!existsSync(out)) return;
  if (!statSync(out).isDirectory()) throw new ConfigError(`--out ${out}: is a file; choose a directory`);
  if (existsSync(join(out, EXAMPLES_MANIFEST))) {
    if (force) return;
    throw new ConfigError(`--out ${out}: holds a data set already; choose another directory, or add --force`);
  }
  if (readdirSync(out).length === 0) return;
  throw new ConfigError(`--out ${out}: holds other files, which are never replaced; choose a new directory`);
}

/** @throws ConfigError for a name that is no generator's */
function generated(name: string): Benchmark {
  const found = GENERATED.find((one) => one.name === name);
  if (found !== undefined) return found;
  const known = GENERATED.map((one) => one.name);
  throw new ConfigError(
    existsSync(name)
      ? `${name}: is a path; generate takes one of ${known.join(', ')}`
      : `no generator named '${name}'.${suggestion(name, known)} Known: ${known.join(', ')}`,
  );
}

function summary(out: string, { task, splits }: ExampleManifest, seed: number, seconds: number): string {
  const [[split, { count, length, classes, bytes }]] = Object.entries(splits) as [[Split, SplitFacts]];
  const points = length === null ? 'of several lengths' : `of ${length} points`;
  const lines = [
    `${out}: ${count} series ${points}, ${task} ${split}, seed ${seed}; ` +
      `${(bytes / 1e6).toFixed(1)} MB in ${seconds.toFixed(1)} s`,
  ];
  for (const [label, n] of Object.entries(classes)) {
    lines.push(`  ${label.padEnd(16)} ${String(n).padStart(8)}  ${((100 * n) / count).toFixed(1)} %`);
  }
  return lines.join('\n');
}

/**
 * Runs the command: progress on standard error, a summary on standard output. Ctrl-C leaves nothing behind.
 *
 * @throws ConfigError for a wrong name, option or target; WriteError when the disk refuses; Interrupted
 */
export async function runSeries(args: SeriesArguments): Promise<void> {
  const { name, out, count, split, seed, length, offset, force, json } = args;
  checkTarget(out, force);
  const spec = generated(name);
  const selection = await selectExamples(spec, {
    ...{ directory: null, counts: { [split]: count }, splits: [split], seed, length, offset },
  });
  const started = performance.now();
  const progress = new Progress({ label: name, total: count, unit: 'series', silent: json });
  try {
    const manifest = await withInterrupt(
      (signal) =>
        writeSelection(selection, out, { signal, onProgress: (written) => progress.update(written) }),
      'stopping: nothing half-written is left; press Ctrl-C again to quit at once',
    );
    progress.stop();
    const seconds = (performance.now() - started) / 1000;
    if (json) printJson({ out, seconds: Number(seconds.toFixed(3)), ...manifest });
    else print(summary(out, manifest, seed ?? DEFAULT_SEED[split], seconds));
  } finally {
    progress.stop();
  }
}
