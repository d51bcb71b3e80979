/** Labels of points in files of their own, beside the series: SMD, SMAP and MSL, PSM, and arrays of NumPy. */
import { basename, dirname, parse } from 'node:path';
import { DataError } from '../../src/ground/errors.ts';
import { show } from '../../src/ground/json-record.ts';
import { getOrMake } from '../../src/ground/maps.ts';
import { labelColumn, readCsv } from '../readers/csv.ts';
import { readNpy } from '../readers/numpy.ts';
import { pointLabels, type RawRecord } from '../readers/record.ts';
import { isTable, openSheet } from './custom-table.ts';

const isNpy = (file: string): boolean => /\.npy$/i.test(file);
/** Returns true for the list of all anomalies of SMAP and MSL. */
const isList = (file: string): boolean => /^labeled_anomalies\.csv$/i.test(basename(file));
/** Returns true for a file that may have a row for each point. */
export const hasRows = (file: string): boolean => isNpy(file) || /\.(?:csv|txt)$/i.test(file);

/**
 * Finds the files that label the points of others, each with its series: `test/a.txt` for `test_label/a.txt` (SMD), `X_test.npy` for
 * `X_test_label.npy`, `a_test.npy` for `a_labels.npy` (TranAD), `test/P-1.npy` for `labeled_anomalies.csv` (SMAP, MSL). The series is
 * undefined where it is elsewhere, or of another form.
 */
export function labelFiles(
  all: readonly string[],
): (readonly [labels: string, series: string | undefined])[] {
  const inFolder = (file: string): boolean => /labels?$/i.test(dirname(file));
  const series = all.filter((file) => !inFolder(file) && !isTable(file));
  const names = new Set(series.map((file) => basename(file)));
  return all.flatMap((file) => {
    if (isList(file)) {
      const marks = listedMarks(file);
      const tests = series.filter((path) => isNpy(path) && basename(dirname(path)) === 'test');
      const listed = tests.filter((path) => marks.has(parse(path).name));
      return (listed.length > 0 ? listed : [undefined]).map((path) => [file, path] as const);
    }
    // `labels/` and `_label/` before the name; `_label` and, in an array's, `labels` before its extension.
    const mark =
      /(?<=^|[\\/])labels?[\\/](?=[^\\/]*$)|[_-]?labels?(?=[\\/][^\\/]*$)|_labels?(?=\.[^.\\/]*$)|(?<=^|[\\/])labels?(?=\.npy$)/i;
    if (!mark.test(file)) return [];
    const possible = [file.replace(mark, ''), file.replace(/labels?(?=\.[^.\\/]*$)/i, 'test')];
    if (!possible.some((path) => names.has(basename(path)))) return [];
    return [[file, hasRows(file) ? possible.find((path) => series.includes(path)) : undefined] as const];
  });
}

/** Reads `labeled_anomalies.csv`: labels of points by channel. Sequences include both ends; P-2 has two lines. @throws DataError */
function listedMarks(file: string): Map<string, Uint8Array> {
  const { header, rows } = openSheet(file);
  const expected = 'chan_id,spacecraft,anomaly_sequences,class,num_values';
  if (header.join() !== expected) throw new DataError(`expected the header ${expected}`, { file, line: 1 });
  const marks = new Map<string, Uint8Array>();
  for (const { cell, place } of rows()) {
    const [channel, sequences, count] = [0, 2, 4].map(cell) as [string, string, string];
    const ends = Array.from(sequences.matchAll(/(\d+)\s*,\s*(\d+)/g), ([, ...pair]) => pair.map(Number));
    const right = /^\[(?:\s*\[\s*\d+\s*,\s*\d+\s*\],?)*\s*\]$/.test(sequences) && /^\d{1,9}$/.test(count);
    if (!right || ends.some(([first, last]) => first! > last! || last! >= Number(count))) {
      const message = `sequences ${show(sequences)} of ${show(count)} points; expected [[first, last], …] from 0`;
      throw new DataError(message, place(2));
    }
    const channelMarks = getOrMake(marks, channel, () => new Uint8Array(Number(count)));
    for (const [first, last] of ends) channelMarks.fill(1, first, last! + 1);
  }
  return marks;
}

/** Reads the one series of a file with a row for each point. @throws DataError for more */
function readRows(path: string, options: Parameters<typeof readCsv>[1]): RawRecord {
  const [record, ...more] = isNpy(path) ? readNpy(path, true) : readCsv(path, options);
  if (more.length === 0) return record!;
  throw new DataError(`${more.length + 1} series; expected one, with a row for each point`, { file: path });
}

/** Reads the labels of a file: one column, or in an array one for each channel. @throws DataError for what is no label */
function readMarks(path: string, note: (text: string) => void): Uint8Array {
  const header = isNpy(path) ? [] : openSheet(path).header;
  const column = header[labelColumn(header)];
  const advice = 'call the column of labels "label"';
  const { channels, channelNames } = readRows(
    path,
    column === undefined ? { advice } : { columns: [column] },
  );
  const marks = channels.map((values, c) => pointLabels(values, channelNames[c]!, path));
  if (marks.length > 1) {
    note(`${basename(path)}: labels of ${marks.length} channels; a point is anomalous where any of them is`);
  }
  return marks[0]!.map((_, t) => Number(marks.some((channel) => channel[t] === 1)));
}

/** Reads a series and its labels. @throws DataError for files that cannot be read, and for lengths that differ */
export function readLabelled(path: string, labels: string, note: (text: string) => void): RawRecord {
  const record = readRows(path, { labelled: 'elsewhere' });
  const anomalies = isList(labels) ? listedMarks(labels).get(parse(path).name)! : readMarks(labels, note);
  const { length } = record.channels[0]!;
  if (anomalies.length === length) return { ...record, anomalies };
  const message = `${anomalies.length} labels, but ${path} has ${length} points; each point needs a label`;
  throw new DataError(message, { file: labels });
}
