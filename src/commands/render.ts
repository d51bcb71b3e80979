/** `timeseer render`: draws series as PNG pictures, exactly as a policy sees them. */
import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { GENERATED } from '../../datasets/benchmarks/registry.ts';
import { openRenderSource, type RenderSource } from '../../datasets/open-series.ts';
import { DEFAULT_SEED, SPLITS } from '../../datasets/split.ts';
import { ConfigError } from '../ground/errors.ts';
import { writeFileAtomic } from '../ground/files.ts';
import { checkWhole } from '../ground/json-record.ts';
import { plural } from '../ground/numbers.ts';
import { isDirectory } from '../ground/paths.ts';
import { withProgress } from '../ground/progress.ts';
import { print, printJson } from '../ground/terminal.ts';
import type { Picture } from '../ground/types.ts';
import { figure, isBare } from '../plot/figure.ts';
import { encodePng } from '../plot/png.ts';
import { type RenderJob, RenderPool } from '../plot/pool.ts';
import { FIGURE_HELP, FIGURE_NAMES } from '../plot/presets.ts';
import { render as draw } from '../plot/raster.ts';
import { checkFigure, type Drawable, type Drawing, drawingOf, markTruth } from '../tasks/drawing.ts';
import { taskKind } from '../tasks/kinds.ts';
import { choice, command, flag, type Given, number, required, several } from './options.ts';

/** Default maximum number of pictures. */
const DEFAULT_LIMIT = 100;

export type RenderArguments = Given<typeof OPTIONS> & { readonly source: string };

/** True if `--out` names one picture, not a directory. */
const isPicture = (out: string): boolean => /\.png$/i.test(out);

/** Returns the requested range of series. @throws ConfigError */
function rangeOf({ index, limit, offset, out }: RenderArguments): { offset: number; limit: number } {
  checkWhole('index', index, 0);
  checkWhole('limit', limit, 1);
  checkWhole('offset', offset, 0);
  if (index !== undefined && (limit !== undefined || offset !== undefined)) {
    throw new ConfigError('--index is one series; leave --limit and --offset out');
  }
  if (isPicture(out)) {
    if ((limit ?? 1) > 1) {
      throw new ConfigError(
        `--out ${out}: one file for ${limit} pictures; name a directory, or leave --limit out`,
      );
    }
    if (isDirectory(out)) {
      throw new ConfigError(`--out ${out}: is a directory; name a file`);
    }
    return { offset: index ?? offset ?? 0, limit: 1 };
  }
  if (existsSync(out) && !isDirectory(out)) {
    throw new ConfigError(`--out ${out}: is a file; choose a directory, or a name that ends in .png`);
  }
  return index === undefined
    ? { offset: offset ?? 0, limit: limit ?? DEFAULT_LIMIT }
    : { offset: index, limit: 1 };
}

/** @throws ConfigError if the source has no intervals to shade */
function checkTruth({ kind }: RenderSource, source: string): void {
  if (kind === null || taskKind(kind).countsPoints) return;
  throw new ConfigError(`--truth: examples of ${source} have classes, not intervals; leave it out`);
}

/** Makes portable file names from ids, all different. */
function fileNamer(): (id: string) => string {
  const used = new Set<string>();
  return (id) => {
    const stem =
      id
        .replace(/[^\p{L}\p{N}._-]+/gu, '-')
        .replace(/^[.-]+/, '')
        .slice(0, 120) || 'series';
    let name = stem;
    for (let n = 2; used.has(name.toLowerCase()); n++) name = `${stem}-${n}`;
    used.add(name.toLowerCase());
    return `${name}.png`;
  };
}

interface Job {
  readonly series: Drawable;
  readonly drawing: Drawing;
}

/** Yields each series with its picture, in order; draws in a pool if `workers` > 1. */
async function* pictures(
  jobs: Iterable<Job>,
  workers: number,
): AsyncGenerator<Job & { readonly picture: Picture }> {
  if (workers === 1) {
    for (const job of jobs) {
      const { figure: shape, values, times } = job.drawing;
      yield { ...job, picture: await draw(shape, values, times) };
    }
    return;
  }
  const pool = new RenderPool(workers);
  const waiting: Job[] = [];
  function* requests(): Generator<RenderJob> {
    for (const job of jobs) {
      waiting.push(job);
      yield job.drawing;
    }
  }
  try {
    for await (const picture of pool.renderAll(requests())) yield { ...waiting.shift()!, picture };
  } finally {
    await pool.close();
  }
}

/** Number of pictures from which another Worker pays: each compiles the figure again. */
const PICTURES_PER_WORKER = 50;

interface Drawn {
  readonly files: readonly string[];
  /** Distinct picture sizes in pixels. */
  readonly sizes: readonly (readonly [width: number, height: number])[];
}

function printSummary(
  { files, sizes }: Drawn,
  { out, json }: RenderArguments,
  preset: string,
  seconds: number,
): void {
  const [width, height] = sizes.length === 1 ? sizes[0]! : [null, null];
  if (json) {
    printJson({ out, figure: preset, width, height, pictures: files.length, seconds, files });
    return;
  }
  const size = width === null ? `${sizes.length} sizes` : `${width} × ${height} px`;
  print(`${out}: ${plural(files.length, 'picture')} of ${size} (${preset}) in ${seconds.toFixed(1)} s`);
}

/**
 * Runs the command: progress on standard error, a summary on standard output. Each picture appears whole; Ctrl-C
 * keeps those that are there.
 *
 * @throws ConfigError for a wrong name or option; DataError for a wrong file or series; WriteError when the disk refuses
 */
export async function runRender(args: RenderArguments): Promise<void> {
  const { out, truth, split, seed, length, column } = args;
  checkWhole('workers', args.workers, 1);
  const source = openRenderSource({ source: args.source, ...rangeOf(args), split, seed, length, column });
  const choice = { ...source.figure, preset: args.figure ?? source.figure.preset };
  checkFigure(choice.preset);
  if (truth) checkTruth(source, args.source);
  const started = performance.now();
  const enough = Math.ceil(source.count / PICTURES_PER_WORKER);
  // A bare figure is drawn faster than it travels between threads.
  const bare = isBare(figure(choice.preset));
  const workers = args.workers ?? (bare ? 1 : Math.min(availableParallelism(), enough));
  const nameOf = fileNamer();
  const files: string[] = [];
  const sizes = new Map<string, readonly [number, number]>();
  function* jobs(): Generator<Job> {
    for (const series of source.series) yield { series, drawing: drawingOf(series, choice) };
  }
  await withProgress({ label: 'render', total: source.count, unit: 'pictures' }, async (update) => {
    for await (const { series, drawing, picture } of pictures(jobs(), workers)) {
      const shown = (truth ? markTruth(drawing, picture, series) : null) ?? picture;
      const file = isPicture(out) ? out : join(out, nameOf(series.id));
      writeFileAtomic(file, encodePng(shown));
      files.push(file);
      sizes.set(`${shown.width} ${shown.height}`, [shown.width, shown.height]);
      update(files.length);
    }
  });
  const seconds = Number(((performance.now() - started) / 1000).toFixed(3));
  const drawn = { files, sizes: [...sizes.values()] };
  printSummary(drawn, args, choice.preset, seconds);
}

const OPTIONS = {
  out: required('Directory for the pictures (existing files are replaced), or NAME.png for one picture'),
  figure: choice(
    FIGURE_NAMES,
    `Style of the plot (default: that of the task; line for files): ${FIGURE_HELP}`,
  ),
  limit: number(`Maximum number of pictures (default: ${DEFAULT_LIMIT})`),
  offset: number('Index of the first series (default: 0)'),
  index: number('Draw only the series with this index, from 0'),
  truth: flag('Shade the gold intervals or mark the gold variates'),
  split: choice(
    SPLITS,
    'Split of a generator or a prepared data set (default: train, else the first available)',
  ),
  seed: number(
    `Seed for generated series (default: ${SPLITS.map((split) => `${DEFAULT_SEED[split]} for ${split}`).join(', ')})`,
  ),
  length: number('Points per generated series'),
  column: several('Channels to draw together, by name (for CSV also by number). Default: all'),
  workers: number('Number of drawing threads (default: up to one per core)'),
  json: flag('Print the summary as JSON'),
};

export const render = command({
  command: 'render <source>',
  positionals: {
    source: 'A generator, a data set directory, or a file of series (.csv, .ts, .npy, .parquet …)',
  },
  options: OPTIONS,
  examples: [
    [
      '$0 render nano5 --out pictures --figure nano --limit 20',
      'Pictures as the quickstart policy sees them',
    ],
    ['$0 render anomllm/trend --out pictures --split test --truth', 'With the gold intervals shaded'],
    ['$0 render data/ctu --split test --index 3 --out ctu.png', 'One example of a prepared data set'],
    ['$0 render data/rcw --figure line --out pictures', 'In another style'],
    ['$0 render my.csv --out my.png --column pressure flow', 'Columns of a CSV file'],
  ],
  epilogue: `Generators: ${GENERATED.map(({ name }) => name).join(', ')}`,
  handler: runRender,
});
