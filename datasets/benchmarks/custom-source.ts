/** The user's own files in any accepted layout, and their examples. */
import { statSync } from 'node:fs';
import { basename, dirname, extname, join, parse, relative, resolve } from 'node:path';
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import { jsonProblem, show } from '../../src/ground/json-record.ts';
import { firstNames } from '../../src/ground/terminal.ts';
import type { AnomalyClass, Example, Gold } from '../../src/ground/types.ts';
import { taskKind } from '../../src/tasks/kinds.ts';
import { checkChannelNames } from '../example.ts';
import {
  labelColumn,
  namesLabels,
  numericColumns,
  pointMark,
  readCsv,
  readPoints,
  readText,
} from '../readers/csv.ts';
import { formatOf, isSeriesFile, readRecords } from '../readers/formats.ts';
import { readParquet } from '../readers/parquet.ts';
import { knownLength, type RawRecord } from '../readers/record.ts';
import { targetLineOf } from '../readers/ts.ts';
import type { Split } from '../split.ts';
import type { Loaded } from './benchmark.ts';
import {
  checkRecordings,
  isTable,
  LABELS,
  type LabelRow,
  openSheet,
  readLabels,
  readTable,
  splitNamed,
  type TableRow,
} from './custom-table.ts';
import { ANOMALY_WINDOW, anomalyExamples, EXTENSIONS } from './families.ts';
import { hasRows, labelFiles, readLabelled } from './label-files.ts';
import { filesBelow, pick, wholeWindows } from './source-files.ts';
import { statedExample } from './stated-example.ts';

/** Series of a file that is labelled elsewhere: all numeric columns but the time are channels; gaps of a csv file are missing values. */
function oneRecord(path: string): RawRecord {
  const format = formatOf(path);
  const csv = format === 'csv';
  const columns = csv ? numericColumns(path) : undefined;
  const twice = columns?.find((name, i) => columns.indexOf(name) !== i);
  if (twice !== undefined) {
    throw new DataError(`two columns are called ${show(twice)}; channels need names that differ`, {
      file: path,
      line: 1,
    });
  }
  if (columns !== undefined) checkChannelNames(columns, { file: path, line: 1 });
  const advice = 'channels need names: write them into the first line';
  const read = (): Iterable<RawRecord> => {
    if (csv) return readCsv(path, { columns, advice });
    return format === 'parquet' ? readParquet(path, false) : readRecords(path);
  };
  const records = [...read()];
  if (records.length !== 1) {
    throw new DataError(`${records.length} series; ${LABELS} names files of one series`, { file: path });
  }
  const [record] = records as [RawRecord];
  if (record.channels.length > 1) checkChannelNames(record.channelNames, { file: path });
  return record;
}

/** Returns a record without its padding. A series without any value stays as it is, and is refused later. */
function withoutPadding(record: RawRecord): RawRecord {
  const { channels, times } = record;
  const { length } = channels[0]!;
  if (channels.some((channel) => channel.length !== length)) return record;
  const end = knownLength(channels);
  if (end === 0 || end === length) return record;
  const cut = (values: Float64Array): Float64Array => values.slice(0, end);
  return { ...record, channels: channels.map(cut), times: times === null ? null : cut(times) };
}

interface WholeOptions {
  readonly id: string;
  readonly gold: Gold;
  readonly recording: string | null;
  readonly window: number | null;
  readonly short: ShortSeries;
}

/** Series shorter than a window, which give no example. */
class ShortSeries {
  readonly #ids: string[] = [];
  #records = 0;

  add(id: string, windows: number): void {
    this.#records++;
    if (windows === 0) this.#ids.push(id);
  }

  note(window: number | null): string[] {
    const count = this.#ids.length;
    if (count === 0) return [];
    return [
      `${count} of ${this.#records} series ${count === 1 ? 'is' : 'are'} shorter than --window ${window} and left out: ${firstNames(this.#ids, LISTED)}`,
    ];
  }
}

/** Adds the thought of a series to its example. @throws DataError where the series was cut into several */
function withThought(
  examples: Iterable<Example>,
  { thought, place }: Pick<LabelRow, 'thought' | 'place'>,
): Iterable<Example> {
  if (thought === null) return examples;
  const [example, ...more] = examples;
  if (more.length > 0) {
    throw new DataError(
      `the thought is about the whole series, which is cut into ${more.length + 1} windows; leave the thought out, or give --window 0`,
      place,
    );
  }
  return example === undefined ? [] : [{ ...example, gold: { ...example.gold, thought } }];
}

/** A record as one example, or as windows of exactly `window` points, with one answer. */
function* whole(
  record: Pick<RawRecord, 'channels' | 'channelNames' | 'times'>,
  options: WholeOptions,
): Generator<Example> {
  const { id, window, short } = options;
  const { channels, channelNames, times } = record;
  const length = channels[0]!.length;
  const uncut = window === null;
  const spans = uncut ? [[0, length] as const] : wholeWindows(length, window);
  short.add(id.slice('custom/'.length), spans.length);
  for (const [index, [start, end]] of spans.entries()) {
    yield {
      id: uncut ? id : `${id}/${index}`,
      task: 'custom',
      channels: uncut ? channels : channels.map((channel) => channel.slice(start, end)),
      names: channels.length === 1 ? ['value'] : channelNames,
      times: times === null || uncut ? times : times.slice(start, end),
      gold: options.gold,
      recording: options.recording ?? (uncut ? null : id),
    };
  }
}

export const CUSTOM_LAYOUT =
  `(1) a folder with one file per series and ${LABELS} (file,class[,intervals][,recording][,split][,thought], or file,variates), (2) files that ` +
  'contain their labels (.ts, .arff, .tsv, .txt of the UCR archive, .npz, .parquet, or csv with one point per row and a column such as "Label" or "is_anomaly" of 0 and 1) or whose labels lie beside them (test/a.txt and test_label/a.txt, a_test.npy and a_test_label.npy, test.csv and test_label.csv), (3) a csv ' +
  'table with one series per row and a column "class" (optional: id, recording, split, thought; all other columns are the points), or (4) ' +
  'JSON lines (.jsonl) with values or channels, and class, intervals or variates (optional: id, names, times, recording, split, thought)';

/** Files of one layout. */
export interface Source {
  readonly files: readonly string[];
  readonly kind: Gold['kind'];
  /** True if every example comes with a split. */
  readonly split: boolean;
  /** True if examples name the recordings that they are cut from. */
  readonly recordings: boolean;
  /** Folder that may hold `task.yaml`. */
  readonly folder: string;
  readonly notes: readonly string[];
  readonly load: (note: (text: string) => void) => Generator<Loaded>;
}

interface SourceOptions {
  readonly window?: number | null | undefined;
  readonly allowSharedRecordings?: boolean | undefined;
}

/** Notes the files of series that are not read. */
function leftOut(all: readonly string[], used: readonly string[], folder: string, why: string): string[] {
  const read = new Set(used.map((path) => resolve(path)));
  const data = all.filter((file) => !read.has(resolve(file)) && isSeriesFile(file));
  if (data.length === 0) return [];
  const names = data.map((file) => relative(folder, file).replaceAll('\\', '/'));
  return [`left out (${why}): ${firstNames(names, LISTED)}`];
}

/** Maximum number of names in a message. */
const [LISTED, NAMED] = [5, 8];

/** Minimum number of channels: with two that differ, neither is the odd one. */
const FEWEST_CHANNELS = 3;

function fromLabels(folder: string, file: string, all: readonly string[], options: SourceOptions): Source {
  const rows = readLabels(file, folder);
  if (options.allowSharedRecordings !== true) checkRecordings(rows);
  const { intervals, variates } = rows[0]!;
  const kind = variates !== null ? 'variates' : intervals !== null ? 'anomaly' : 'classification';
  const size =
    options.window === undefined ? (taskKind(kind).localises ? ANOMALY_WINDOW : null) : options.window;
  const examples = (row: LabelRow, note: (text: string) => void, short: ShortSeries): Iterable<Example> => {
    const record = oneRecord(row.path);
    const id = `custom/${relative(folder, row.path).replaceAll('\\', '/')}`;
    const { recording } = row;
    if (row.variates !== null) {
      const gold = { kind: 'variates', variates: row.variates } as const;
      if (record.channels.length < FEWEST_CHANNELS) {
        const channels = record.channels.length === 1 ? 'a single channel' : '2 channels';
        throw new DataError(
          `${basename(row.path)} has ${channels}; at least ${FEWEST_CHANNELS} are needed to tell which are unlike the others`,
          row.answer,
        );
      }
      return whole(record, { id, gold, recording, window: size, short });
    }
    if (row.intervals === null) {
      const gold = { kind: 'classification', class: row.class! } as const;
      return whole(record, { id, gold, recording, window: size, short });
    }
    const length = record.channels[0]!.length;
    const outside = row.intervals.find(([, end]) => end > length);
    if (outside !== undefined) {
      throw new DataError(
        `${basename(row.path)} has ${length} points, but its interval ends at ${outside[1]}; indices count from 0, and the end is exclusive`,
        row.answer,
      );
    }
    const named = row.class as AnomalyClass | null;
    const labelled = { ...record, anomalies: row.intervals };
    return anomalyExamples(labelled, {
      ...{ task: 'custom', id, window: size, class: named, note },
      recording: recording ?? undefined,
    });
  };
  const files = [file, ...rows.map(({ path }) => path)];
  return {
    files,
    kind,
    split: checkSplits(rows, file),
    recordings: taskKind(kind).localises || size !== null || rows.some(({ recording }) => recording !== null),
    folder,
    notes: leftOut(all, files, folder, `not in ${LABELS}`),
    *load(note) {
      const short = new ShortSeries();
      for (const row of rows) {
        for (const example of withThought(examples(row, note, short), row))
          yield { split: row.split, example, place: row.answer };
      }
      for (const text of short.note(size)) note(text);
    },
  };
}

/** Returns true if all have a split. @throws DataError where only some have */
function checkSplits(rows: readonly { readonly split: Split | null }[], file: string): boolean {
  const without = rows.filter(({ split }) => split === null).length;
  if (without === 0 || without === rows.length) return without === 0;
  throw new DataError(`${without} of ${rows.length} rows have no split; give all of them one, or none`, {
    file,
  });
}

/** Reads csv tables of one series a row; the names of several files may give their splits: train.csv, test.csv. */
function fromTables(
  files: readonly string[],
  folder: string,
  all: readonly string[],
  { window, allowSharedRecordings }: SourceOptions,
): Source {
  const size = window ?? null;
  const notes = checkOneSet(files, folder);
  const splitOf = splitsByName(files);
  const read = function* (): Generator<TableRow & { readonly file: string; readonly index: number }> {
    for (const file of files) {
      let index = 0;
      for (const row of readTable(file))
        yield { ...row, split: row.split ?? splitOf(file), file, index: index++ };
    }
  };
  const rows = [...read()].map(({ split, recording, place }) => ({ split, recording, place }));
  if (allowSharedRecordings !== true) checkRecordings(rows);
  return {
    files,
    kind: 'classification',
    split: checkSplits(rows, files.length === 1 ? files[0]! : folder),
    recordings: size !== null || rows.some(({ recording }) => recording !== null),
    folder,
    notes: [...notes, ...leftOut(all, files, folder, 'no column "class"')],
    *load(note) {
      const short = new ShortSeries();
      let [count, cut, longest] = [0, 0, 0];
      for (const row of read()) {
        const { id, class: label, values, empty, recording, split, place, file, index } = row;
        const name = `custom/${id ?? `${parse(file).name}/${index}`}`;
        const record = { channels: [values], channelNames: ['value'], times: null };
        const gold = { kind: 'classification', class: label } as const;
        const examples = whole(record, { id: name, gold, recording, window: size, short });
        for (const example of withThought(examples, row)) {
          yield { split, example, place };
        }
        count++;
        if (empty > 0) cut++;
        longest = Math.max(longest, values.length);
      }
      if (cut > 0) {
        note(
          `${cut} of ${count} rows end in empty cells and are read as shorter series (write NaN where values are missing); the longest has ${longest} points`,
        );
      }
      for (const text of short.note(size)) note(text);
    },
  };
}

/** A split by the end of a file's name, and what stands before it: `X_TRAIN.ts`, `x-test.npz`, `x.test.csv`. */
function nameParts(file: string): { readonly set: string; readonly split: Split | null } {
  const { name } = parse(file);
  const [, set = '', word = ''] = /^(?:(.*)[_.-])?([a-z]+)$/i.exec(name) ?? [];
  const split = splitNamed(word) ?? null;
  return { set: split === null ? name : set, split };
}

/** Splits of several files by their names, where all have one; null otherwise. */
function splitsByName(files: readonly string[]): (file: string) => Split | null {
  const splits = new Set(files.map((file) => nameParts(file).split));
  const named = splits.size > 1 && !splits.has(null);
  return (file) => (named ? nameParts(file).split : null);
}

/**
 * Checks by their names that files form one data set, each split in one file.
 * @param recordings true for files of labelled points, of which a data set has any number
 * @returns notes where several files are read as one
 * @throws DataError naming the data sets, or the files that hold the same
 */
function checkOneSet(files: readonly string[], folder: string, recordings = false): string[] {
  if (files.length < 2) return [];
  const parts = files.map((file) => ({
    file: relative(folder, file).replaceAll('\\', '/'),
    ...nameParts(file),
  }));
  const sets = [...new Set(parts.map(({ set }) => set))];
  if (recordings || parts.every(({ split }) => split === null)) {
    return [
      `${files.length} files are read as one data set: ${firstNames(
        parts.map(({ file }) => file),
        LISTED,
      )}`,
    ];
  }
  if (sets.length > 1) {
    throw new DataError(
      `holds ${sets.length} data sets by the names of their files (${firstNames(sets, LISTED)}); give each a folder of its own, and name one with --from`,
      { file: folder },
    );
  }
  for (const { file, split } of parts) {
    const same = parts.filter((other) => other.split === split).map((other) => other.file);
    if (same.length === 1) continue;
    throw new DataError(`${same.join(' and ')} hold the same split; keep one of them, next to ${file}`, {
      file: folder,
    });
  }
  return [];
}

/**
 * Checks a csv file without a column `class`, which must mark its points in a column `Label`.
 * @returns the column; null for a form whose labels have a place of their own
 * @throws DataError that says which column is missing, or what the column of labels means
 */
function checkPoints(file: string): string | null {
  const format = formatOf(file);
  if (format !== 'csv' && format !== 'points') return null;
  const { header, rows } = openSheet(file);
  const at = labelColumn(header);
  if (at < 0) {
    throw new DataError(
      `columns ${firstNames(header.map(show), NAMED)}: none is called "class" (one series a row) or "Label" (a row for each point, 0 or 1); custom needs ${CUSTOM_LAYOUT}`,
      { file, line: 1 },
    );
  }
  let points = 0;
  for (const { cell, place } of rows()) {
    points++;
    if (pointMark(cell(at)) !== undefined) continue;
    throw new DataError(
      `${show(cell(at))} in the column ${show(header[at])}, which marks every point with 0 or 1 (anomalous); where each row is a series, call that column "class"`,
      place(at),
    );
  }
  if (header.length - 1 > points) {
    throw new DataError(
      `${header.length - 1} columns of values and ${points} rows: the column ${show(header[at])} marks points, of which each has a row; where each row is a series, call that column "class"`,
      { file, line: 1 },
    );
  }
  if (format === 'csv') readPoints(file).next(); // says what is missing beside the labels
  return header[at]!;
}

/**
 * Leaves out the copies in a folder of the archives: a split in further formats (`X_TRAIN.ts`, `X_TRAIN.arff`, `X_TRAIN.txt`), single
 * channels of its series (`XDimension1_TRAIN.arff`), and its series made equally long or filled (`X_eq_TRAIN.ts`, `X_nmv_TRAIN.ts`). All
 * files of any other folder are kept.
 */
function eachSplitOnce(files: readonly string[]): readonly string[] {
  const parts = files.map((file) => ({
    file,
    form: extname(file).slice(1).toLowerCase(),
    ...nameParts(file),
  }));
  const sets = new Set(parts.map(({ set }) => set));
  const whole = parts.filter(({ set }) => {
    const of = /^(.+?)(?:Dimension\d+|_eq|_nmv)$/.exec(set)?.[1];
    return of === undefined || !sets.has(of);
  });
  const splits = new Set(whole.map(({ split }) => split));
  if (splits.has(null) || new Set(whole.map(({ set }) => set)).size > 1) return files;
  for (const form of EXTENSIONS) {
    const inForm = whole.filter((part) => part.form === form);
    if (inForm.length === splits.size) return inForm.map(({ file }) => file);
  }
  return files;
}

/** Formats that label each point. */
const POINTWISE: ReadonlySet<string> = new Set(['points', 'tsb-ad', 'tsb-uad', 'tab', 'ucr-anomaly']);

/** Reads files that carry their labels: one per series, or one per point. */
function fromFiles(
  found: readonly string[],
  folder: string,
  all: readonly string[],
  { window }: SourceOptions,
): Source {
  const files = eachSplitOnce(found);
  const points = files.every((file) => POINTWISE.has(formatOf(file)));
  const notes = [
    ...checkOneSet(files, folder, points),
    ...leftOut(found, files, folder, `other forms of ${files.map((file) => basename(file)).join(' and ')}`),
  ];
  const marked = new Map<string, string[]>();
  for (const file of files) {
    const column = /\.csv$/i.test(file) ? checkPoints(file) : null;
    if (column !== null) marked.set(column, [...(marked.get(column) ?? []), basename(file)]);
    const line = /\.ts$/i.test(file) ? targetLineOf(file) : null;
    if (line !== null) {
      throw new DataError(
        '@targetLabel: the labels are values of a regression, which is no task here; for classes write @classLabel true and their names',
        { file, line },
      );
    }
  }
  for (const [column, names] of marked) {
    notes.push(
      `${firstNames(names, LISTED)}: each row is a point, and the column ${show(column)} says which are anomalous; where each row is a series, call that column "class"`,
    );
  }
  const first = readRecords(files[0]!).next().value as RawRecord | undefined;
  if (first === undefined) throw new DataError('no series', { file: files[0]! });
  if (first.label === null && first.anomalies === null) {
    const nab = formatOf(files[0]!) === 'nab' ? ' (the task nab reads those of combined_windows.json)' : '';
    throw new DataError(`carries no labels${nab}; custom needs ${CUSTOM_LAYOUT}`, { file: files[0]! });
  }
  const anomaly = first.label === null;
  const size = window === undefined ? (anomaly ? ANOMALY_WINDOW : null) : window;
  const splitOf = splitsByName(files);
  const given = splitOf(files[0]!) !== null || first.split !== null;
  return {
    files,
    kind: anomaly ? 'anomaly' : 'classification',
    split: given,
    recordings: anomaly || size !== null || first.group !== null,
    folder,
    notes: [...notes, ...leftOut(all, found, folder, 'no labels')],
    *load(note) {
      const short = new ShortSeries();
      let [count, cut, longest] = [0, 0, 0];
      for (const file of files) {
        const stem = relative(folder, file).replaceAll('\\', '/');
        let index = 0;
        for (const record of readRecords(file)) {
          const id = `custom/${stem}/${index++}`;
          const split = splitNamed(record.split ?? '') ?? splitOf(file);
          if (given !== (split !== null)) {
            const [own, others] = given ? ['no split', 'one'] : [`the split ${split}`, 'none'];
            throw new DataError(`${record.id}: ${own}, and series of ${files[0]} have ${others}`, { file });
          }
          if (!anomaly && record.label === null) {
            const fix = /\.npz$/i.test(file)
              ? '; each part of an .npz needs one per series: X_test, y_test'
              : '';
            throw new DataError(`${record.id}: no label${fix}`, { file });
          }
          const series = anomaly ? record : withoutPadding(record);
          count++;
          const { length } = record.channels;
          const points = record.channels[0]!.length;
          if (count === 1 && /\.np[yz]$/i.test(file) && length > points) {
            note(
              `${basename(file)}: ${length} channels of ${points} points, as the axes are read: series, channels, points. If they are series, points, channels, save X.transpose(0, 2, 1)`,
            );
          }
          if (series !== record) cut++;
          longest = Math.max(longest, series.channels[0]!.length);
          const examples = anomaly
            ? anomalyExamples(record, { task: 'custom', id, window: size, note })
            : whole(series, {
                ...{ id, recording: record.group, window: size, short },
                gold: { kind: 'classification', class: record.label! },
              });
          for (const example of examples) yield { split, example, place: { file } };
        }
      }
      if (cut > 0) {
        note(
          `${cut} of ${count} series end in missing values in all channels and are read as shorter series; the longest has ${longest} points`,
        );
      }
      for (const text of short.note(size)) note(text);
    },
  };
}

const LINES = /\.(?:jsonl|ndjson)$/i;

/** Kind of the answers of JSON lines, by the fields of the first. */
function kindOfLine(line: unknown, at: { readonly file: string; readonly line: number }): Gold['kind'] {
  const has = (field: string): boolean => typeof line === 'object' && line !== null && field in line;
  if (has('variates')) return 'variates';
  if (has('intervals')) return 'anomaly';
  if (has('class')) return 'classification';
  if (has('question')) throw new DataError('holds questions; prepare them as the task qa', at);
  throw new DataError('no class, intervals or variates; every line needs the right answer', at);
}

/** Reads JSON lines, an example each; the names of several files may give their splits: train.jsonl, test.jsonl. */
function fromLines(
  files: readonly string[],
  folder: string,
  all: readonly string[],
  { window }: SourceOptions,
): Source {
  if (window != null) throw new ConfigError('--window: JSON lines are not cut; leave it out');
  const notes = checkOneSet(files, folder);
  const rows: { readonly file: string; readonly line: number; readonly value: unknown }[] = [];
  for (const file of files) {
    for (const [i, text] of readText(file).split(/\r?\n/).entries()) {
      if (text.trim() === '') continue;
      try {
        rows.push({ file, line: i + 1, value: JSON.parse(text) });
      } catch (cause) {
        throw new DataError(jsonProblem(text, cause as Error), { file, line: i + 1, cause });
      }
    }
  }
  if (rows.length === 0) throw new DataError('empty; expected an example a line', { file: files[0]! });
  const kind = kindOfLine(rows[0]!.value, rows[0]!);
  const splitOf = splitsByName(files);
  const loaded = rows.map(({ file, line, value }, index) => {
    const place = { file, line };
    try {
      const { split, example } = statedExample({ name: 'custom', kind }, value, index);
      return { example, split: split ?? splitOf(file), place };
    } catch (error) {
      if (!(error instanceof DataError) || error.file !== undefined) throw error;
      throw new DataError(error.message, { ...place, cause: error });
    }
  });
  return {
    files,
    kind,
    split: checkSplits(loaded, files.length === 1 ? files[0]! : folder),
    recordings: loaded.some(({ example }) => example.recording !== null),
    folder,
    notes: [...notes, ...leftOut(all, files, folder, 'not JSON lines')],
    load: function* () {
      yield* loaded;
    },
  };
}

/** Split by the name of a file, else by that of its folder; null where neither names one. */
const splitOfFile = (file: string): Split | null =>
  nameParts(file).split ?? splitNamed(basename(dirname(file))) ?? null;

/** Reads series whose points are labelled in files of their own. */
function fromPairs(
  found: ReturnType<typeof labelFiles>,
  folder: string,
  all: readonly string[],
  { window = ANOMALY_WINDOW }: SourceOptions,
): Source {
  const pairs = found.flatMap(([labels, series]) => (series === undefined ? [] : [{ labels, series }]));
  const nameOf = (file: string): string => relative(folder, file).replaceAll('\\', '/');
  const read = new Set(pairs.flatMap(({ labels, series }) => [series, labels]));
  const others = all.filter((file) => hasRows(file) && !read.has(file));
  const training = others.filter((file) => splitOfFile(file) === 'train');
  const rest = others.filter((file) => !training.includes(file));
  const notes = Object.entries({
    'series labelled by files of their own': pairs.map(({ series }) => series),
    'left out (training series, assumed normal but not labelled)': training,
    'left out (no labels of points, or labels without their series)': rest,
  }).flatMap(([what, files]) =>
    files.length > 0 ? `${what}: ${firstNames(files.map(nameOf), LISTED)}` : [],
  );
  const twice = pairs.find(({ series }, i) => pairs.findIndex((pair) => pair.series === series) < i)?.series;
  if (twice !== undefined) {
    const labels = pairs.flatMap((pair) => (pair.series === twice ? nameOf(pair.labels) : []));
    throw new DataError(`labelled by ${labels.join(' and ')}; keep one`, { file: twice });
  }
  const split = pairs.some(({ series }) => splitOfFile(series) !== null);
  return {
    ...{ files: [...read], kind: 'anomaly', split, recordings: true, folder, notes },
    *load(note) {
      for (const { labels, series } of pairs) {
        const record = readLabelled(series, labels, note);
        const options = { task: 'custom', id: `custom/${nameOf(series)}`, window, note };
        for (const example of anomalyExamples(record, options)) {
          yield { split: split ? (splitOfFile(series) ?? 'test') : null, example, place: { file: series } };
        }
      }
    },
  };
}

/** The files of a folder, or one file. @throws DataError for files that are missing, or carry no labels */
export function openSource(path: string, options: SourceOptions): Source {
  let isFile: boolean;
  try {
    isFile = statSync(path).isFile();
  } catch (cause) {
    throw new DataError(`cannot be read; custom needs ${CUSTOM_LAYOUT}`, { file: path, cause });
  }
  if (isFile) {
    if (LINES.test(path)) return fromLines([path], dirname(path), [], options);
    const read = isTable(path) ? fromTables : fromFiles;
    return read([path], dirname(path), [], options);
  }
  const all = filesBelow(path);
  const labels = pick(all, [LABELS]);
  if (labels !== undefined) {
    if (labels !== join(path, basename(labels))) {
      throw new DataError(`lies below ${path}; name the folder that holds it with --from`, { file: labels });
    }
    return fromLabels(path, labels, all, options);
  }
  const lines = all.filter((file) => LINES.test(file));
  if (lines.length > 0) return fromLines(lines, path, all, options);
  const apart = all.filter((file) => /(?:^|[\\/])[xy]_[^\\/]+\.(?:txt|npy)$/i.test(file));
  if (apart.some((file) => /^x/i.test(basename(file))) && apart.some((file) => /^y/i.test(basename(file)))) {
    throw new DataError(
      `holds series and labels in files of their own (${firstNames(
        apart.map((file) => basename(file)),
        LISTED,
      )}), which are not read; save them in one, numpy.savez('set.npz', X_train=…, y_train=…, X_test=…, y_test=…), or prepare har where they are those of the UCI`,
      { file: path },
    );
  }
  const labelled = labelFiles(all);
  if (labelled.some(([, series]) => series !== undefined)) return fromPairs(labelled, path, all, options);
  if (labelled.length > 0) {
    const marks = labelled.map(([file]) => relative(path, file).replaceAll('\\', '/'));
    throw new DataError(
      `holds labels of points (${firstNames(marks, LISTED)}) without their series; call them test/a.txt and test_label/a.txt, a_test.npy and a_test_label.npy, or test.csv and test_label.csv, or list the intervals in ${LABELS}`,
      { file: path },
    );
  }
  const tables = all.filter((file) => isTable(file) && formatOf(file) === 'csv');
  const known = all.filter((file) => {
    try {
      return formatOf(file) !== 'csv' || (tables.length === 0 && namesLabels(file));
    } catch (error) {
      if (error instanceof ConfigError) return false; // a file of another kind, such as a README
      throw error;
    }
  });
  if (known.length > 0 && tables.length > 0) {
    const [table, other] = [tables[0]!, known[0]!].map((file) => relative(path, file));
    throw new DataError(
      `holds a table of one series a row (${table}) and files of another kind that carry labels (${other}); name one of them with --from`,
      { file: path },
    );
  }
  if (tables.length > 0) return fromTables(tables, path, all, options);
  if (known.length === 0) {
    const csv = all.find((file) => /\.csv$/i.test(file));
    if (csv !== undefined) checkPoints(csv);
    throw new DataError(
      `holds no ${LABELS}, no csv table with a column "class", and no files that carry labels; custom needs ${CUSTOM_LAYOUT}`,
      { file: path },
    );
  }
  return fromFiles(known, path, all, options);
}
