/** `timeseer generate NAME`: writes a data set directory from a generator. */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { writeDataset } from '../../../datasets/dataset.ts';
import { MANIFEST_FILE, type Manifest } from '../../../datasets/manifest.ts';
import { generators, open, type SeriesSource } from '../../../datasets/registry.ts';
import type { Split } from '../../../datasets/split.ts';
import { ConfigError } from '../../errors.ts';
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
  if (existsSync(join(out, MANIFEST_FILE))) {
    if (force) return;
    throw new ConfigError(`--out ${out}: holds a data set already; choose another directory, or add --force`);
  }
  if (readdirSync(out).length === 0) return;
  throw new ConfigError(`--out ${out}: holds other files, which are never replaced; choose a new directory`);
}

function openSource(args: SeriesArguments): SeriesSource {
  const given = (key: 'seed' | 'length') => (args[key] === undefined ? {} : { [key]: args[key] });
  const { name, split, count, offset } = args;
  const known = generators().map((generator) => generator.name);
  if (existsSync(name) && !known.includes(name)) {
    throw new ConfigError(`${name}: is a path; generate takes one of ${known.join(', ')}`);
  }
  return open(name, { split, count, offset, ...given('seed'), ...given('length') });
}

function summary(out: string, manifest: Manifest, seconds: number): string {
  const { name, split, seed, count, length, classes, data } = manifest;
  const points = length === null ? 'of several lengths' : `of ${length} points`;
  const lines = [
    `${out}: ${count} series ${points}, ${name} ${split}, seed ${seed}; ` +
      `${(data.bytes / 1e6).toFixed(1)} MB in ${seconds.toFixed(1)} s`,
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
  checkTarget(args.out, args.force);
  const source = openSource(args);
  const { name, split, seed, offset, parameters } = source;
  const started = performance.now();
  const progress = new Progress({ label: name, total: source.count, unit: 'series', silent: args.json });
  try {
    const origin = { name, generator: name, parameters: { ...parameters }, split, seed, offset };
    const manifest = await withInterrupt(
      (signal) =>
        writeDataset(args.out, origin, source, {
          onProgress: (written) => progress.update(written),
          signal,
        }),
      'stopping: nothing half-written is left; press Ctrl-C again to quit at once',
    );
    progress.stop();
    const seconds = (performance.now() - started) / 1000;
    if (args.json) printJson({ out: args.out, seconds: Number(seconds.toFixed(3)), ...manifest });
    else print(summary(args.out, manifest, seconds));
  } finally {
    progress.stop();
  }
}
