/** `timeseer render`: PNG pictures of a data set or a CSV file, as a policy sees them. */
import { existsSync, statSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import type { CommandModule } from 'yargs';
import { readSeriesCsv } from '../../datasets/csv.ts';
import { generators, open } from '../../datasets/registry.ts';
import { DEFAULT_SEED, SPLITS, type Split } from '../../datasets/split.ts';
import { ConfigError } from '../errors.ts';
import { writeFileAtomic } from '../files.ts';
import { withInterrupt } from '../interrupt.ts';
import { FIGURE_NAMES, type Figure, type FigureName, figure, isBare } from '../plot/figure.ts';
import { encodePng } from '../plot/png.ts';
import { RenderPool } from '../plot/pool.ts';
import { render as draw } from '../plot/raster.ts';
import { shade } from '../plot/shade.ts';
import { Progress } from '../progress.ts';
import type { Interval, Picture } from '../types.ts';

export interface RenderArguments {
  source: string;
  out: string;
  figure: FigureName;
  limit: number;
  offset: number;
  truth: boolean;
  split: Split | undefined;
  seed: number | undefined;
  length: number | undefined;
  column: string | undefined;
  workers: number | undefined;
  json: boolean;
}

/** A series to draw; a CSV file knows no intervals. */
interface Drawable {
  readonly id: string;
  readonly values: Float64Array; // [N]
  readonly intervals: readonly Interval[];
}

interface Source {
  readonly count: number;
  readonly series: Iterable<Drawable>;
}

function checkNumber(key: string, value: number | undefined, least: number): void {
  if (value !== undefined && !(Number.isInteger(value) && value >= least)) {
    throw new ConfigError(`--${key}: expected a whole number of at least ${least}, got ${value}`);
  }
}

function openCsv(args: RenderArguments): Source {
  for (const key of ['split', 'seed', 'length'] as const) {
    if (args[key] !== undefined)
      throw new ConfigError(`--${key} belongs to data sets; ${args.source} is a file`);
  }
  if (args.truth) throw new ConfigError(`--truth: a CSV file has no true intervals; leave it out`);
  const { name, values } = readSeriesCsv(args.source, { column: args.column });
  return { count: 1, series: [{ id: name, values, intervals: [] }] };
}

function openSource(args: RenderArguments): Source {
  const { source, limit, offset } = args;
  if (existsSync(source) && statSync(source).isFile()) return openCsv(args);
  if (args.column !== undefined) throw new ConfigError('--column belongs to CSV files; leave it out');
  const given = <K extends 'split' | 'seed' | 'length'>(key: K) =>
    args[key] === undefined ? {} : { [key]: args[key] };
  const series = open(source, { offset, ...given('split'), ...given('seed'), ...given('length') });
  return { count: Math.min(limit, series.count), series };
}

function* first<T>(items: Iterable<T>, count: number): Generator<T> {
  let left = count;
  if (left <= 0) return;
  for (const item of items) {
    yield item;
    if (--left === 0) return;
  }
}

/** File names that every system takes; ids differ, so names made from them are kept different too. */
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

/** Pictures beside their series, in order; through a pool where there is enough to draw. */
async function* pictures(
  series: Iterable<Drawable>,
  figure: Figure,
  workers: number,
): AsyncGenerator<readonly [Drawable, Picture]> {
  if (workers === 1) {
    for (const one of series) yield [one, await draw(figure, one.values)];
    return;
  }
  const pool = new RenderPool(workers);
  const waiting: Drawable[] = [];
  function* jobs() {
    for (const one of series) {
      waiting.push(one);
      yield { figure, values: one.values };
    }
  }
  try {
    for await (const picture of pool.renderAll(jobs())) yield [waiting.shift()!, picture];
  } finally {
    await pool.close();
  }
}

/** A Worker compiles the figure anew: it pays from about this many pictures on. */
const PICTURES_PER_WORKER = 50;

/**
 * Runs the command: progress on standard error, a summary on standard output. Each picture appears whole; an
 * interruption keeps those that are there.
 *
 * @throws ConfigError for a wrong name or option; DataError for a wrong file or series; WriteError when the disk refuses
 */
export async function runRender(args: RenderArguments): Promise<void> {
  checkNumber('limit', args.limit, 1);
  checkNumber('offset', args.offset, 0);
  checkNumber('workers', args.workers, 1);
  if (existsSync(args.out) && !statSync(args.out).isDirectory()) {
    throw new ConfigError(`--out ${args.out}: is a file; choose a directory`);
  }
  const chosen = figure(args.figure);
  const source = openSource(args);
  const started = performance.now();
  const enough = Math.ceil(source.count / PICTURES_PER_WORKER);
  // A bare figure is drawn faster than it travels between threads.
  const workers = args.workers ?? (isBare(chosen) ? 1 : Math.min(availableParallelism(), enough));
  const nameOf = fileNamer();
  const files: string[] = [];
  const progress = new Progress({ label: 'render', total: source.count, unit: 'pictures' });
  try {
    await withInterrupt(async (signal) => {
      for await (const [one, picture] of pictures(first(source.series, source.count), chosen, workers)) {
        const shown = args.truth ? shade(chosen, picture, one.intervals, one.values.length) : picture;
        const file = join(args.out, nameOf(one.id));
        writeFileAtomic(file, encodePng(shown));
        files.push(file);
        progress.update(files.length);
        signal.throwIfAborted();
      }
    });
  } finally {
    progress.stop();
  }
  const seconds = Number(((performance.now() - started) / 1000).toFixed(3));
  const { width, height } = chosen;
  const text = args.json
    ? JSON.stringify({
        out: args.out,
        figure: args.figure,
        width,
        height,
        pictures: files.length,
        seconds,
        files,
      })
    : `${args.out}: ${files.length} ${files.length === 1 ? 'picture' : 'pictures'} of ${width} × ${height} px (${args.figure}) in ${seconds.toFixed(1)} s`;
  process.stdout.write(`${text}\n`);
}

export const render: CommandModule<object, RenderArguments> = {
  command: 'render <source>',
  describe: 'Draw the series of a data set or a CSV file as PNG pictures',
  builder: (yargs) =>
    yargs
      .positional('source', {
        type: 'string',
        demandOption: true,
        describe: 'A generator, a data set directory, or a CSV file',
      })
      .option('out', {
        type: 'string',
        demandOption: true,
        describe: 'Directory for the pictures; those with the same names are replaced',
        requiresArg: true,
      })
      .option('figure', {
        choices: FIGURE_NAMES,
        default: 'anomllm' as FigureName,
        describe: 'What the plot looks like; nano is what the quickstart policy sees',
        requiresArg: true,
      })
      .option('limit', { type: 'number', default: 100, describe: 'Most pictures to draw', requiresArg: true })
      .option('offset', {
        type: 'number',
        default: 0,
        describe: 'Index of the first series',
        requiresArg: true,
      })
      .option('truth', { type: 'boolean', default: false, describe: 'Shade the true intervals' })
      .option('split', {
        choices: SPLITS,
        describe: "Split of a generator's series (default: train)",
        requiresArg: true,
      })
      .option('seed', {
        type: 'number',
        describe: `Seed of a generator (default: ${SPLITS.map((split) => `${DEFAULT_SEED[split]} for ${split}`).join(', ')})`,
        requiresArg: true,
      })
      .option('length', { type: 'number', describe: "Points of a generator's series", requiresArg: true })
      .option('column', { type: 'string', describe: 'Value column of a CSV file', requiresArg: true })
      .option('workers', {
        type: 'number',
        describe: 'Threads that draw (default: one per core where it pays)',
        requiresArg: true,
      })
      .option('json', { type: 'boolean', default: false, describe: 'Print the summary as JSON' })
      .example('$0 render nano5 --out pictures --figure nano --limit 20', 'What the quickstart policy sees')
      .example(
        '$0 render anomllm/trend --out pictures --split test --truth',
        'With the true intervals shaded',
      )
      .example('$0 render data/nano5 --out pictures --limit 400', 'A data set that generate wrote')
      .example('$0 render my.csv --out pictures --figure line', 'One CSV file')
      .epilogue(
        `Generators: ${generators()
          .map(({ name }) => name)
          .join(', ')}`,
      ),
  handler: runRender,
};
