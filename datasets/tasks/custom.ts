/** custom: the user's own files. */
import { statSync } from 'node:fs';
import { basename, dirname, join, parse, relative } from 'node:path';
import { ConfigError, DataError } from '../../src/errors.ts';
import { ANOMALY_CLASSES, type AnomalyClass, type Example, type Gold } from '../../src/types.ts';
import { readText, TIME_NAME } from '../csv.ts';
import { CsvRecords, detectDelimiter } from '../csv-records.ts';
import { readCsv } from '../readers/csv.ts';
import { formatOf, readRecords } from '../readers/formats.ts';
import type { RawRecord } from '../readers/record.ts';
import type { Split } from '../split.ts';
import { ANOMALY_WINDOW, anomalyExamples } from './anomaly-files.ts';
import { isTable, type LabelRow, readLabels, readTable, splitNamed } from './custom-table.ts';
import { filesBelow, pick } from './find-files.ts';
import type { Loaded, OpenTask, SplitPlan, TaskOptions, TaskSpec } from './task.ts';
import { checkWindow, wholeWindows } from './window.ts';

const LABELS = 'labels.csv';

/** What is read for help and messages. */
export const CUSTOM_LAYOUT =
  `a folder with one file per series and ${LABELS} (file,class[,intervals][,recording][,split]), or files that carry their ` +
  'labels (.ts, .arff, .tsv, .npz, .parquet, csv with a column Label), or a csv table with a column class and one series a row';

interface Source {
  readonly files: readonly string[];
  readonly kind: Gold['kind'];
  /** Whether every example comes with a split. */
  readonly split: boolean;
  /** Whether examples name recordings, of which several examples are cut. */
  readonly recordings: boolean;
  readonly load: (note: (text: string) => void) => Generator<Loaded>;
}

/** Numbers, also with a decimal comma, and missing values. */
const NUMBERS = /^(?:[+-]?[\d.,]+(?:e[+-]?\d+)?|nan)?$/i;

/**
 * Columns of a csv file of points that begin with a number and are no time; undefined without a header, or with a single one
 * left.
 *
 * @throws DataError for a file that cannot be read
 */
export function numericColumns(path: string): string[] | undefined {
  const text = readText(path);
  const records = new CsvRecords(text, detectDelimiter(text, path), path);
  const rows: string[][] = [];
  while (rows.length < 2 && records.next()) {
    if (!records.blank) rows.push(Array.from({ length: records.width }, (_, i) => records.field(i)));
  }
  const [names = [], first = []] = rows;
  if (names.some((name) => name === '' || Number.isFinite(Number(name)))) return undefined;
  const columns = names.filter((name, i) => !TIME_NAME.test(name) && NUMBERS.test(first[i] ?? ''));
  return columns.length > 1 ? columns : undefined;
}

/** The one series of a file; all columns of a csv file are channels. */
function oneRecord(path: string): RawRecord {
  const csv = formatOf(path) === 'csv';
  const records = [...(csv ? readCsv(path, { columns: numericColumns(path) }) : readRecords(path))];
  if (records.length === 1) return records[0]!;
  throw new DataError(`${records.length} series; ${LABELS} names files of one series`, { file: path });
}

interface ClassificationOptions {
  readonly id: string;
  readonly class: string;
  readonly recording: string | null;
  readonly window: number | null;
}

/** A record as one example, or as windows of exactly `window` points. */
function* classified(record: RawRecord, options: ClassificationOptions): Generator<Example> {
  const { id, window } = options;
  const { channels, channelNames, times } = record;
  const length = channels[0]!.length;
  const whole = window === null;
  const spans = whole ? [[0, length] as const] : wholeWindows(length, window);
  for (const [index, [start, end]] of spans.entries()) {
    yield {
      id: whole ? id : `${id}/${index}`,
      task: 'custom',
      channels: whole ? channels : channels.map((channel) => channel.slice(start, end)),
      names: channels.length === 1 ? ['value'] : channelNames,
      times: times === null || whole ? times : times.slice(start, end),
      gold: { kind: 'classification', class: options.class },
      recording: options.recording ?? (whole ? null : id),
    };
  }
}

function fromLabels(folder: string, file: string, window: number | null | undefined): Source {
  const rows = readLabels(file, folder);
  const anomaly = rows[0]!.intervals !== null;
  const size = window === undefined ? (anomaly ? ANOMALY_WINDOW : null) : window;
  const examples = (row: LabelRow, note: (text: string) => void): Generator<Example> => {
    const record = oneRecord(row.path);
    const id = `custom/${relative(folder, row.path).replaceAll('\\', '/')}`;
    if (row.intervals === null) {
      const { class: label, recording } = row;
      return classified(record, { id, class: label!, recording, window: size });
    }
    const length = record.channels[0]!.length;
    const outside = row.intervals.find(([, end]) => end > length);
    if (outside !== undefined) {
      throw new DataError(`${basename(row.path)} has ${length} points, its interval ends at ${outside[1]}`, {
        file,
      });
    }
    const named = row.class as AnomalyClass | null;
    const recording = row.recording ?? undefined;
    const own = { ...record, anomalies: row.intervals };
    return anomalyExamples(own, { task: 'custom', id, window: size, class: named, recording, note });
  };
  return {
    files: [file, ...rows.map(({ path }) => path)],
    kind: anomaly ? 'anomaly' : 'classification',
    split: checkSplits(
      rows.map(({ split }) => split),
      file,
    ),
    recordings: anomaly || size !== null || rows.some(({ recording }) => recording !== null),
    *load(note) {
      for (const row of rows) for (const example of examples(row, note)) yield { split: row.split, example };
    },
  };
}

/** Whether all have a split. @throws DataError where only some have */
function checkSplits(splits: readonly (Split | null)[], file: string): boolean {
  const without = splits.filter((split) => split === null).length;
  if (without === 0 || without === splits.length) return without === 0;
  throw new DataError(`${without} of ${splits.length} rows have no split; give all of them one, or none`, {
    file,
  });
}

function fromTable(file: string): Source {
  const rows = [...readTable(file)].map(({ split, recording }) => ({ split, recording }));
  return {
    files: [file],
    kind: 'classification',
    split: checkSplits(
      rows.map(({ split }) => split),
      file,
    ),
    recordings: rows.some(({ recording }) => recording !== null),
    *load() {
      let index = 0;
      for (const { id, class: label, values, recording, split } of readTable(file)) {
        const example: Example = {
          id: `custom/${id ?? `${parse(file).name}/${index}`}`,
          task: 'custom',
          channels: [values],
          names: ['value'],
          times: null,
          gold: { kind: 'classification', class: label },
          recording,
        };
        index++;
        yield { split, example };
      }
    },
  };
}

/** A split by the end of a file's name: `X_TRAIN.ts`, `x-test.npz`. */
function splitByName(file: string): Split | null {
  const word = /[_-]([a-z]+)$/i.exec(parse(file).name)?.[1];
  return word === undefined ? null : (splitNamed(word) ?? null);
}

/** Files that carry their labels: a label per series, or one per point. */
function fromFiles(files: readonly string[], folder: string, window: number | null | undefined): Source {
  const first = readRecords(files[0]!).next().value as RawRecord | undefined;
  if (first === undefined) throw new DataError('no series', { file: files[0]! });
  if (first.label === null && first.anomalies === null) {
    throw new DataError(`carries no labels; custom needs ${CUSTOM_LAYOUT}`, { file: files[0]! });
  }
  const anomaly = first.label === null;
  const size = window === undefined ? (anomaly ? ANOMALY_WINDOW : null) : window;
  const splits = new Map(files.map((file) => [file, splitByName(file)]));
  const given = files.length > 1 && [...splits.values()].every((split) => split !== null);
  return {
    files,
    kind: anomaly ? 'anomaly' : 'classification',
    split: given,
    recordings: anomaly || size !== null || first.group !== null,
    *load(note) {
      for (const file of files) {
        const stem = relative(folder, file).replaceAll('\\', '/');
        let index = 0;
        for (const record of readRecords(file)) {
          const id = `custom/${stem}/${index++}`;
          const split = given ? splits.get(file)! : null;
          if (!anomaly && record.label === null) throw new DataError(`${record.id}: no label`, { file });
          const examples = anomaly
            ? anomalyExamples(record, { task: 'custom', id, window: size, note })
            : classified(record, { id, class: record.label!, recording: record.group, window: size });
          for (const example of examples) yield { split, example };
        }
      }
    },
  };
}

function openSource(path: string, window: number | null | undefined): Source {
  let isFile: boolean;
  try {
    isFile = statSync(path).isFile();
  } catch (cause) {
    throw new DataError(`cannot be read; custom needs ${CUSTOM_LAYOUT}`, { file: path, cause });
  }
  if (isFile) return isTable(path) ? fromTable(path) : fromFiles([path], dirname(path), window);
  const all = filesBelow(path);
  const labels = pick(all, [LABELS]);
  if (labels !== undefined) {
    if (labels !== join(path, basename(labels))) {
      throw new DataError(`lies below ${path}; name the folder that holds it with --from`, { file: labels });
    }
    return fromLabels(path, labels, window);
  }
  const known = all.filter((file) => {
    try {
      return formatOf(file) !== 'csv';
    } catch (error) {
      if (error instanceof ConfigError) return false; // a file of another kind, such as a README
      throw error;
    }
  });
  if (known.length === 0) {
    throw new DataError(`holds no ${LABELS}, and no files that carry labels; custom needs ${CUSTOM_LAYOUT}`, {
      file: path,
    });
  }
  return fromFiles(known, path, window);
}

function planOf({ split, recordings }: Source): SplitPlan {
  if (split) {
    return {
      by: 'given',
      statement: 'Split of the user.',
      recordingsApart: null,
      validation: recordings ? 'recording' : 'example',
    };
  }
  return {
    by: recordings ? 'recording' : 'example',
    sizes: { train: 8, validation: 1, test: 1 },
    statement: recordings
      ? 'Examples of one recording are in one split.'
      : 'No recordings are named: every series counts as one of its own.',
    recordingsApart: recordings ? true : null,
  };
}

export const custom: TaskSpec = {
  name: 'custom',
  title: 'Your own files',
  kind: 'classification',
  source: {
    description: 'Files of the user.',
    licence: "the user's own",
    citation: null,
    addresses: [],
  },
  classes: null,
  rate: null,
  shape: 'any',
  figure: { preset: 'line', missing: 'break' },
  needs: 'files',
  layout: CUSTOM_LAYOUT,
  open({ directory, window }: TaskOptions): OpenTask {
    if (directory === null)
      throw new ConfigError(`custom: name the files with --from; it needs ${CUSTOM_LAYOUT}`);
    if (window !== undefined) checkWindow(window);
    const source = openSource(directory, window);
    const seen = new Set<string>();
    let notes: string[] = [];
    return {
      files: source.files,
      kind: source.kind,
      classes: () =>
        source.kind === 'anomaly' ? ANOMALY_CLASSES.filter((name) => seen.has(name)) : [...seen].sort(),
      parameters: window === undefined ? {} : { window },
      total: null,
      notes: () => notes,
      plan: planOf(source),
      *load() {
        notes = [];
        for (const loaded of source.load((text) => void notes.push(text))) {
          const { gold } = loaded.example;
          if (gold.kind !== 'variates') {
            // An anomaly of unnamed kind may be any of them.
            for (const name of gold.class === null ? ANOMALY_CLASSES : [gold.class]) seen.add(name);
          }
          yield loaded;
        }
      },
    };
  },
};
