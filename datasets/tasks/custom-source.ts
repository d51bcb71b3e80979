/** The user's own files, in the layouts that are understood: what they hold, and their examples. */
import { statSync } from 'node:fs';
import { basename, dirname, join, parse, relative } from 'node:path';
import { ConfigError, DataError } from '../../src/errors.ts';
import type { AnomalyClass, Example, Gold } from '../../src/types.ts';
import { numericColumns } from '../csv-columns.ts';
import { readCsv } from '../readers/csv.ts';
import { formatOf, readRecords } from '../readers/formats.ts';
import type { RawRecord } from '../readers/record.ts';
import type { Split } from '../split.ts';
import { ANOMALY_WINDOW, anomalyExamples } from './anomaly-files.ts';
import { isTable, type LabelRow, readLabels, readTable, splitNamed } from './custom-table.ts';
import { filesBelow, pick } from './find-files.ts';
import type { Loaded } from './task.ts';
import { wholeWindows } from './window.ts';

const LABELS = 'labels.csv';

/** What is read for help and messages. */
export const CUSTOM_LAYOUT =
  `a folder with one file per series and ${LABELS} (file,class[,intervals][,recording][,split]), or files that carry their ` +
  'labels (.ts, .arff, .tsv, .npz, .parquet, csv with a column Label), or a csv table with a column class and one series a row';

/** Files of one layout, and the examples that they hold. */
export interface Source {
  readonly files: readonly string[];
  readonly kind: Gold['kind'];
  /** Whether every example comes with a split. */
  readonly split: boolean;
  /** Whether examples name recordings, of which several examples are cut. */
  readonly recordings: boolean;
  readonly load: (note: (text: string) => void) => Generator<Loaded>;
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

/**
 * The files of a folder, or one file.
 * @throws DataError for files that are missing, or carry no labels
 */
export function openSource(path: string, window: number | null | undefined): Source {
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
