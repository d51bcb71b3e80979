/** `timeseer data validate DIR`: reads, draws and grades every example, and checks what stands beside it. */
import { availableParallelism } from 'node:os';
import { performance } from 'node:perf_hooks';
import { setImmediate } from 'node:timers/promises';
import type { CommandModule } from 'yargs';
import { splitFile } from '../../../datasets/example-manifest.ts';
import { ExampleSet } from '../../../datasets/example-set.ts';
import { materialFile } from '../../../datasets/material-facts.ts';
import type { Split } from '../../../datasets/split.ts';
import { DataError, TimeseerError } from '../../errors.ts';
import { RenderPool } from '../../plot/pool.ts';
import { render } from '../../plot/raster.ts';
import { Progress } from '../../progress.ts';
import { drawingOf } from '../../tasks/drawing.ts';
import { print, printJson } from '../../terminal.ts';
import type { Example } from '../../types.ts';
import { MaterialCheck } from './check.ts';
import { checkSetFigure } from './describe.ts';
import { gradeProblem } from './grade.ts';

export interface ValidateArguments {
  readonly directory: string;
  readonly render: boolean;
  readonly all: boolean;
  readonly json: boolean;
}

/** A row that cannot be used. */
export interface BrokenRow {
  readonly split: Split;
  /** File of the split that is meant, relative to the data set. */
  readonly file: string;
  /** Its line, from 1; null where the file itself is wrong. */
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
  /** Figures whose pixels were compared with what their examples are drawn as now. */
  readonly compared: number;
  readonly broken: readonly BrokenRow[];
  /** What was not checked, and why. */
  readonly remarks: readonly string[];
}

/** Broken rows that are printed; JSON has all. */
const SHOWN = 50;
/** Figures that are compared pixel by pixel unless all are. */
const COMPARED = 50;
/** A Worker compiles the figure anew: it pays from about this many pictures on. */
const PICTURES_PER_WORKER = 50;
/** Rows between two chances for the progress to be shown where nothing is drawn. */
const BREATH = 64;

export interface ValidateOptions {
  /** Whether examples are drawn. */
  readonly render: boolean;
  /** Whether every figure is compared pixel by pixel; otherwise about 50 of the data set are, evenly spread. */
  readonly all?: boolean;
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
 * reward; ids, classes and recordings are compared. Where figures, prompts and traces stand beside the examples, these are
 * checked as well.
 *
 * @throws DataError when the manifest or a file as a whole is wrong
 */
export async function validateSet(directory: string, options: ValidateOptions): Promise<Verdict> {
  const set = new ExampleSet(directory);
  checkSetFigure(directory, set.manifest);
  const { figure, task } = set.manifest;
  const broken: BrokenRow[] = [];
  const neighbours = new Neighbours(set);
  const beside = MaterialCheck.of(set, (problem) => {
    broken.push({ file: materialFile(problem.split), ...problem });
  });
  const total = set.splits.reduce((sum, split) => sum + set.count(split), 0);
  const stride = options.all === true ? 1 : Math.max(1, Math.floor(total / COMPARED));
  const workers = Math.min(availableParallelism(), Math.floor(total / PICTURES_PER_WORKER));
  const pool = options.render && workers > 0 ? new RenderPool(workers) : null;
  const most = pool?.capacity ?? 1;
  const waiting = new Set<Promise<void>>();
  let rows = 0;
  let drawn = 0;
  let graded = 0;
  let compared = 0;
  const draw = async (split: Split, line: number, example: Example, png: Buffer | null): Promise<void> => {
    const { id } = example;
    try {
      const { figure: chosen, values, times } = drawingOf(example, figure);
      const picture = await (pool === null
        ? render(chosen, values, times)
        : pool.render(chosen, values, times));
      drawn++;
      if (png === null) return;
      beside?.compare(split, line, id, png, picture);
      compared++;
    } catch (error) {
      if (!(error instanceof TimeseerError)) throw error;
      broken.push({ split, file: splitFile(split), line, id, problem: `cannot be drawn: ${error.message}` });
    }
  };
  try {
    beside?.checkClasses();
    for (const split of set.splits) {
      const file = splitFile(split);
      beside?.open(split);
      try {
        for (const { line, example, problem } of set.check(split)) {
          rows++;
          const wrong =
            example === null ? null : (neighbours.problem(split, example) ?? gradeProblem(example));
          // What stands beside a wrong example has nothing to be compared with.
          const png = beside?.row(split, wrong === null ? example : null) ?? null;
          if (example === null) broken.push({ split, file, line, id: null, problem: problem!.message });
          else {
            if (wrong !== null) broken.push({ split, file, line, id: example.id, problem: wrong });
            graded++;
            if (options.render) {
              const chosen = (rows - 1) % stride === 0 ? png : null;
              const done = draw(split, line, example, chosen).finally(() => waiting.delete(done));
              waiting.add(done);
              if (waiting.size >= most) await Promise.race(waiting);
            }
          }
          options.onProgress?.(rows, broken.length);
          if (rows % BREATH === 0) await setImmediate();
        }
        beside?.close(split);
      } catch (error) {
        if (!(error instanceof DataError)) throw error;
        broken.push({ split, file, line: null, id: null, problem: error.message });
      }
    }
    await Promise.all(waiting);
  } finally {
    await Promise.allSettled(waiting);
    await pool?.close();
  }
  const place = ({ split, file, line }: BrokenRow): [number, string, number] => {
    return [set.splits.indexOf(split), file, line ?? 0];
  };
  broken.sort((a, b) => {
    const [[split, file, line], [otherSplit, otherFile, otherLine]] = [place(a), place(b)];
    return split - otherSplit || (file < otherFile ? -1 : file > otherFile ? 1 : line - otherLine);
  });
  const nothing = 'no prompts, figures and traces stand beside the examples: prepare again to have them';
  const remarks = [
    ...(beside === null ? [nothing] : beside.remarks),
    ...(options.render ? [] : ['nothing was drawn (--no-render)']),
  ];
  return { directory, task, rows, drawn, graded, compared, broken, remarks };
}

function text(verdict: Verdict, seconds: number): string {
  const { directory, rows, drawn, graded, compared, broken, remarks } = verdict;
  const head = `${directory}: ${rows} ${rows === 1 ? 'row' : 'rows'} read, ${drawn} drawn, ${graded} graded, ${compared} ${compared === 1 ? 'figure' : 'figures'} compared in ${seconds.toFixed(1)} s`;
  const lines = broken.slice(0, SHOWN).map(({ file, line, id, problem }) => {
    const place = line === null ? file : `${file}:${line}`;
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
    const verdict = await validateSet(args.directory, {
      render: args.render,
      all: args.all,
      onProgress: (rows, broken) => bar.update(rows, broken === 0 ? {} : { broken }),
    });
    bar.stop();
    const seconds = (performance.now() - started) / 1000;
    if (args.json) printJson({ ...verdict, seconds });
    else print(text(verdict, seconds));
    if (verdict.broken.length > 0) process.exitCode = 1;
  } finally {
    bar.stop();
  }
}

export const validateCommand: CommandModule<object, ValidateArguments> = {
  command: 'validate <directory>',
  describe:
    'Read, draw and grade every example of a data set, check figures, prompts and traces, list broken rows',
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
      .option('all', {
        type: 'boolean',
        default: false,
        describe: `Compare the pixels of every figure, not of about ${COMPARED}`,
      })
      .option('json', { type: 'boolean', default: false, describe: 'Print the verdict as JSON, no progress' })
      .example('$0 data validate data/ctu', 'Exit code 1 where a row is broken'),
  handler: runValidate,
};
