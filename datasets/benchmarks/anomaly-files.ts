/** Anomaly tasks that are folders of labelled series: one file a series, labels per point or windows of time. */
import { basename, relative } from 'node:path';
import { DataError } from '../../src/errors.ts';
import { ANOMALY_CLASSES, type AnomalyClass, type Example, type Interval } from '../../src/types.ts';
import { VALUE_CHANNEL } from '../example.ts';
import type { RawRecord } from '../readers/record.ts';
import type { Benchmark, BenchmarkOptions, Loaded, OpenBenchmark } from './benchmark.ts';
import { filesBelow, folderOf } from './find-files.ts';
import { checkWindow, evenWindows, inside, runsOf } from './window.ts';

/** Points of an example unless asked otherwise: those of AnomSeer's series. */
export const ANOMALY_WINDOW = 1000;

/** The series of a task in a folder. */
export interface SeriesFiles {
  readonly series: readonly string[];
  /** Files beside them that are read. */
  readonly others?: readonly string[];
  /** What was left out. */
  readonly notes?: readonly string[];
  readonly read: (file: string) => Iterable<RawRecord>;
}

export interface AnomalyFilesBenchmark
  extends Pick<Benchmark, 'name' | 'title' | 'source' | 'shape' | 'prompt' | 'layout' | 'needs'> {
  /** Finds its series among the files of a folder. @throws DataError where something else is missing */
  readonly find: (files: readonly string[], folder: string) => SeriesFiles;
  /** What is to be said of its splits. */
  readonly statement: string;
}

/** The anomalous stretches of a record. @throws DataError where it has no labels */
export function intervalsOf(record: RawRecord): Interval[] {
  const { anomalies, file } = record;
  if (anomalies === null) {
    throw new DataError('no labels; expected a label for every point', { file: file.path });
  }
  return anomalies instanceof Uint8Array ? runsOf(anomalies) : [...anomalies];
}

const ascending = (times: Float64Array): boolean => times.every((t, i) => i === 0 || t >= times[i - 1]!);

export interface AnomalyExampleOptions {
  readonly task: string;
  /** Of the record; windows of it get `/0`, `/1` … */
  readonly id: string;
  /** Most points of an example; null: never cut. */
  readonly window: number | null;
  /** Kind of its anomalies; null where it is not named. */
  readonly class?: AnomalyClass | null;
  /** Default: the id. */
  readonly recording?: string | undefined;
  /** Takes what was tolerated or left out. */
  readonly note: (text: string) => void;
}

/**
 * Cuts a labelled record into examples. The class of one without an anomaly is 'normal'.
 *
 * @throws DataError for a record without labels, or with channels of different lengths
 */
export function* anomalyExamples(record: RawRecord, options: AnomalyExampleOptions): Generator<Example> {
  const { task, id, window, note, recording = id } = options;
  const { channels, channelNames, file } = record;
  const length = channels[0]!.length;
  if (channels.some((channel) => channel.length !== length)) {
    throw new DataError(`${record.id}: channels of different lengths`, { file: file.path });
  }
  const intervals = intervalsOf(record);
  const name = basename(file.path);
  let { times } = record;
  if (times !== null && !ascending(times)) {
    note(`${name}: times that fall are left out; points are in the order of the file`);
    times = null;
  }
  const windows = evenWindows(length, window);
  let blank = 0;
  for (const [index, span] of windows.entries()) {
    const [start, end] = span;
    const parts = channels.map((channel) => channel.slice(start, end));
    if (end - start < 2 || parts.every((part) => part.every((value) => Number.isNaN(value)))) {
      blank++;
      continue;
    }
    const found = inside(intervals, span);
    yield {
      id: window === null ? id : `${id}/${index}`,
      task,
      channels: parts,
      names: channels.length === 1 ? [VALUE_CHANNEL] : channelNames,
      times: times === null ? null : times.slice(start, end),
      gold: {
        kind: 'anomaly',
        class: found.length === 0 ? 'normal' : (options.class ?? null),
        intervals: found,
      },
      recording,
    };
  }
  if (blank > 0) note(`${name}: ${blank} of ${windows.length} windows without a value are left out`);
}

/** The plan of data sets that are made for evaluation: everything is test, unless a split by series is asked for. */
export function evaluationPlan(statement: string): OpenBenchmark['plan'] {
  return {
    by: 'recording',
    sizes: { train: 0, validation: 0, test: 1 },
    statement,
    recordingsApart: true,
  };
}

/** A task of labelled series, from its facts. */
export function anomalyFilesBenchmark(facts: AnomalyFilesBenchmark): Benchmark {
  const { find, statement, ...rest } = facts;
  const spec: Benchmark = {
    ...rest,
    kind: 'anomaly',
    generator: null,
    // Kinds are not named: an answer may be any of them, and only 'normal' can be graded.
    classes: ANOMALY_CLASSES,
    rate: null,
    figure: { preset: 'line', missing: 'break' },
    open({ directory, window = ANOMALY_WINDOW }: BenchmarkOptions): OpenBenchmark {
      checkWindow(window);
      const folder = folderOf(spec, directory);
      const { series, others = [], notes: left = [], read } = find(filesBelow(folder), folder);
      if (series.length === 0) {
        throw new DataError(`holds none of its files; ${spec.name} needs ${spec.layout}`, { file: folder });
      }
      let notes = [...left];
      return {
        files: [...others, ...series],
        classes: () => ANOMALY_CLASSES,
        parameters: { window },
        total: null,
        notes: () => notes,
        plan: evaluationPlan(statement),
        *load(): Generator<Loaded> {
          notes = [...left];
          for (const file of series) {
            const id = `${spec.name}/${relative(folder, file).replaceAll('\\', '/')}`;
            for (const record of read(file)) {
              const note = (text: string): void => void notes.push(text);
              for (const example of anomalyExamples(record, { task: spec.name, id, window, note })) {
                yield { split: null, example };
              }
            }
          }
        },
      };
    },
  };
  return spec;
}
