/** `timeseer data validate DIR`: reads, draws and grades every example. */
import { availableParallelism } from 'node:os';
import { performance } from 'node:perf_hooks';
import { setImmediate } from 'node:timers/promises';
import type { CommandModule } from 'yargs';
import { ExampleSet } from '../../datasets/example-set.ts';
import type { Split } from '../../datasets/split.ts';
import { DataError, TimeseerError } from '../errors.ts';
import { withInterrupt } from '../interrupt.ts';
import { RenderPool } from '../plot/pool.ts';
import { render } from '../plot/raster.ts';
import { Progress } from '../progress.ts';
import type { Example } from '../types.ts';
import { drawingOf } from './data-figure.ts';
import { gradeProblem } from './data-grade.ts';

export interface ValidateArguments {
  readonly directory: string;
  readonly render: boolean;
  readonly json: boolean;
}

/** A row that cannot be used. */
export interface BrokenRow {
  readonly split: Split;
  /** Line of the split's file, from 1; null where the file itself is wrong. */
  readonly line: number | null;
  readonly id: string | null;
  readonly problem: string;
}

export interface Verdict {
  readonly directory: string;
  readonly task: string;
  readonly rows: number;
  readonly drawn: number;
  readonly graded: number;
  readonly broken: readonly BrokenRow[];
  /** What was not checked, and why. */
  readonly remarks: readonly string[];
}

/** Broken rows that are printed; JSON has all. */
const SHOWN = 50;
/** A Worker compiles the figure anew: it pays from about this many pictures on. */
const PICTURES_PER_WORKER = 50;
/** Rows between two chances for signals where nothing is drawn. */
const BREATH = 64;

export interface ValidateOptions {
  readonly render: boolean;
  readonly signal: AbortSignal;
  readonly onProgress?: (rows: number, broken: number) => void;
}

/** What is wrong with examples only beside one another: ids, recordings, classes. */
class Neighbours {
  readonly #ids = new Set<string>();
  readonly #homes = new Map<string, Split>();
  readonly #set: ExampleSet;

  constructor(set: ExampleSet) {
    this.#set = set;
  }

  problem(split: Split, { id, gold, recording }: Example): string | null {
    const { classes, split: promise } = this.#set.manifest;
    if (this.#ids.has(id)) return `id '${id}' occurs twice`;
    this.#ids.add(id);
    if (gold.kind === 'classification' && !classes.includes(gold.class)) {
      return `class '${gold.class}' is none of ${classes.join(', ')}`;
    }
    if (recording === null || promise.recordingsApart !== true) return null;
    const home = this.#homes.get(recording) ?? split;
    this.#homes.set(recording, home);
    return home === split ? null : `recording '${recording}' is in ${home} too, which the manifest rules out`;
  }
}

/**
 * Checks a prepared data set: every line is read, its example drawn by its figure and its right answer run through the
 * reward; ids, classes and recordings are compared.
 *
 * @throws DataError when the manifest or a file as a whole is wrong; the signal's reason
 */
export async function validateSet(directory: string, options: ValidateOptions): Promise<Verdict> {
  const set = new ExampleSet(directory);
  const { figure, task } = set.manifest;
  const broken: BrokenRow[] = [];
  const neighbours = new Neighbours(set);
  const total = set.splits.reduce((sum, split) => sum + set.count(split), 0);
  const workers = Math.min(availableParallelism(), Math.floor(total / PICTURES_PER_WORKER));
  const pool = options.render && workers > 0 ? new RenderPool(workers) : null;
  const most = pool?.capacity ?? 1;
  const waiting = new Set<Promise<void>>();
  let rows = 0;
  let drawn = 0;
  let graded = 0;
  const draw = async (split: Split, line: number, example: Example): Promise<void> => {
    try {
      const { figure: chosen, values, times } = drawingOf(example, figure);
      await (pool === null ? render(chosen, values, times) : pool.render(chosen, values, times));
      drawn++;
    } catch (error) {
      if (!(error instanceof TimeseerError)) throw error;
      broken.push({ split, line, id: example.id, problem: `cannot be drawn: ${error.message}` });
    }
  };
  try {
    for (const split of set.splits) {
      try {
        for (const { line, example, problem } of set.check(split)) {
          rows++;
          if (example === null) broken.push({ split, line, id: null, problem: problem!.message });
          else {
            const wrong = neighbours.problem(split, example) ?? gradeProblem(example);
            if (wrong !== null) broken.push({ split, line, id: example.id, problem: wrong });
            graded++;
            if (options.render) {
              const done = draw(split, line, example).finally(() => waiting.delete(done));
              waiting.add(done);
              if (waiting.size >= most) await Promise.race(waiting);
            }
          }
          options.onProgress?.(rows, broken.length);
          if (rows % BREATH === 0) await setImmediate();
          options.signal.throwIfAborted();
        }
      } catch (error) {
        if (!(error instanceof DataError)) throw error;
        broken.push({ split, line: null, id: null, problem: error.message });
      }
    }
    await Promise.all(waiting);
  } finally {
    await Promise.allSettled(waiting);
    await pool?.close();
  }
  broken.sort(
    (a, b) => set.splits.indexOf(a.split) - set.splits.indexOf(b.split) || (a.line ?? 0) - (b.line ?? 0),
  );
  const remarks = options.render ? [] : ['nothing was drawn (--no-render)'];
  return { directory, task, rows, drawn, graded, broken, remarks };
}

function text(verdict: Verdict, seconds: number): string {
  const { directory, rows, drawn, graded, broken, remarks } = verdict;
  const head = `${directory}: ${rows} rows read, ${drawn} drawn, ${graded} graded in ${seconds.toFixed(1)} s`;
  const lines = broken.slice(0, SHOWN).map(({ split, line, id, problem }) => {
    const place = line === null ? split : `${split}.jsonl:${line}`;
    return problem.includes('.jsonl:')
      ? `  ${problem}`
      : `  ${place}: ${id === null ? '' : `${id}: `}${problem}`;
  });
  const more = broken.length > SHOWN ? [`  and ${broken.length - SHOWN} more (--json lists all)`] : [];
  const found = broken.length === 0 ? `${head}; no broken row` : `${head}; ${broken.length} broken:`;
  return [found, ...lines, ...more, ...remarks.map((remark) => `note: ${remark}`)].join('\n');
}

/** Runs the command; exit code 1 where a row is broken. @throws as `validateSet` */
export async function runValidate(args: ValidateArguments): Promise<void> {
  const started = performance.now();
  const set = new ExampleSet(args.directory);
  const total = set.splits.reduce((sum, split) => sum + set.count(split), 0);
  const bar = new Progress({ label: 'validate', total, unit: 'rows', silent: args.json });
  try {
    const verdict = await withInterrupt(
      (signal) =>
        validateSet(args.directory, {
          render: args.render,
          signal,
          onProgress: (rows, broken) => bar.update(rows, broken === 0 ? {} : { broken }),
        }),
      'stopping',
    );
    bar.stop();
    const seconds = (performance.now() - started) / 1000;
    process.stdout.write(`${args.json ? JSON.stringify({ ...verdict, seconds }) : text(verdict, seconds)}\n`);
    if (verdict.broken.length > 0) process.exitCode = 1;
  } finally {
    bar.stop();
  }
}

export const validateCommand: CommandModule<object, ValidateArguments> = {
  command: 'validate <directory>',
  describe: 'Read, draw and grade every example of a data set, and list broken rows',
  builder: (yargs) =>
    yargs
      .positional('directory', {
        type: 'string',
        demandOption: true,
        describe: 'What timeseer data prepare wrote',
      })
      .option('render', {
        type: 'boolean',
        default: true,
        describe: 'Draw every example; --no-render: only read and grade',
      })
      .option('json', { type: 'boolean', default: false, describe: 'Print the verdict as JSON, no progress' })
      .example('$0 data validate data/ctu', 'Exit code 1 where a row is broken'),
  handler: runValidate,
};
