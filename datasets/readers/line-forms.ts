/**
 * Lines that are no rows of a table: JSON objects, InfluxDB's line protocol, and its annotated CSV, in which columns change from table to
 * table. They are rewritten as a table, line for line, so that messages name the lines of the file.
 */
import { DataError } from '../../src/ground/errors.ts';
import { CsvRecords } from './csv-records.ts';
import type { Note } from './quality.ts';
import { MOST_CHANNELS, NUMBER } from './record.ts';

interface Cell {
  readonly name: string;
  readonly text: string;
  /** True for a label, which names the series of its line. */
  readonly label?: boolean;
}

/** Cells of a line, the time first; null for a line that is none; none for one to pass over. */
type ReadLine = (line: string) => readonly Cell[] | null;

/** Lines by which a form is told, and cells of the table at most. */
const [PROBE, MOST_CELLS] = [20, 100_000_000];
const SAMPLE = 100;
/** Levels of nested objects; what is nested deeper is left out. */
const DEEPEST = 8;

function objectOf(line: string): object | null {
  if (!line.trimStart().startsWith('{')) return null;
  try {
    return JSON.parse(line) as object;
  } catch {
    return null;
  }
}

/** Cells of an object by their dotted names; lists are left out. */
function cellsOf(value: object, prefix = '', depth = 1): Cell[] {
  return Object.entries(value).flatMap(([key, item]): Cell[] => {
    const name = `${prefix}${key}`;
    if (typeof item !== 'object') return [{ name, text: String(item) }];
    return item === null || Array.isArray(item) || depth === DEEPEST
      ? []
      : cellsOf(item, `${name}.`, depth + 1);
  });
}

const NAME = String.raw`(?:\\.|[^\\,=\s])+`;
const FIELD = String.raw`${NAME}=(?:"(?:\\.|[^\\"])*"|[^\s,"]+)`;
const POINT = new RegExp(
  `^\\s*(${NAME})((?:,${NAME}=${NAME})*) +(${FIELD}(?:,${FIELD})*)(?: +(-?\\d+))?\\s*$`,
);
const PAIR = new RegExp(`(${NAME})=("(?:\\\\.|[^\\\\"])*"|(?:\\\\.|[^\\\\,\\s])+)`, 'g');
const TRUTH = /^(?:t|true|f|false)$/i;

/** Cells of a point in line protocol: time, measurement, tags, and fields but for texts. */
function pointOf(line: string): Cell[] | null {
  if (line.trimStart().startsWith('#')) return [];
  const [, measurement, tags = '', fields = '', time = ''] = POINT.exec(line) ?? [];
  if (measurement === undefined) return null;
  const plain = (text = ''): string => text.replaceAll(/\\([,= \\])/g, '$1');
  const pairs = (text: string) =>
    Array.from(text.matchAll(PAIR), ([, name, value]) => [plain(name), value!] as const);
  const values = pairs(fields).flatMap(([name, value]): Cell[] => {
    if (TRUTH.test(value)) return [{ name, text: String(/^t/i.test(value)) }];
    const text = value.replace(/[iu]$/, '');
    return NUMBER.test(text) ? [{ name, text }] : [];
  });
  if (values.length === 0) return [];
  const labels = [
    ['measurement', plain(measurement)] as const,
    ...pairs(tags).map(([name, text]) => [name, plain(text)] as const),
  ];
  return [
    { name: 'time', text: time },
    ...labels.map(([name, text]) => ({ name, text, label: true })),
    ...values,
  ];
}

const ANNOTATION = /^\ufeff?#(datatype|group|default),/;
const VALUES = /^(?:double|long|unsignedLong|boolean)$/;
/** Columns of annotated CSV that are the same for a whole table. */
const OF_TABLE = new Set(['', 'result', 'table', '_start', '_stop', '_time']);

/** Reads the lines of annotated CSV; annotations and the header below them hold until the next ones. */
function annotatedReader(file: string): ReadLine {
  const annotations = new Map<string, string[]>();
  let header: string[] | null = null;
  return (line) => {
    const [, annotation] = ANNOTATION.exec(line) ?? [];
    if (annotation !== undefined || line.trim() === '') header = null;
    const records = new CsvRecords(line, ',', file);
    if (!records.next() || records.blank) return [];
    const fields = records.fields();
    if (annotation !== undefined) annotations.set(annotation, fields);
    else if (header !== null) return cellsOfRow(header, fields, annotations);
    else header = fields;
    if (header?.includes('error') && header.includes('reference'))
      throw new DataError('holds the error of a query that failed, and no table', { file });
    return [];
  };
}

/** Cells of a row of annotated CSV; none for one without numbers. */
function cellsOfRow(
  names: readonly string[],
  fields: readonly string[],
  annotations: Map<string, string[]>,
): Cell[] {
  const [types, defaults] = [annotations.get('datatype'), annotations.get('default')];
  const at = (i: number): string => fields[i] || defaults?.[i] || '';
  const isLabel = (i: number): boolean =>
    types === undefined ? names[i] !== '_value' : !VALUES.test(types[i] ?? '');
  const cells = names.flatMap((name, i): Cell[] =>
    OF_TABLE.has(name) || (name === '_value' && isLabel(i)) ? [] : [{ name, text: at(i), label: isLabel(i) }],
  );
  const time = names.indexOf(names.includes('_time') ? '_time' : '_stop');
  return cells.every(({ label }) => label) ? [] : [{ name: '_time', text: at(time) }, ...cells];
}

/** Forms by name, with the readers of their lines. */
const FORMS: Readonly<Record<string, (file: string) => ReadLine>> = {
  'JSON lines': () => (line) => {
    const value = objectOf(line);
    return value === null ? null : cellsOf(value);
  },
  'line protocol of InfluxDB': () => pointOf,
  'annotated CSV of InfluxDB': annotatedReader,
};
export type LineForm = keyof typeof FORMS;

/** Tells the form of a text by its first lines; null for a table. */
function formOf(text: string): LineForm | null {
  const head = text.slice(0, 1_000_000).split(/\r?\n/);
  const lines = (text.length > 1_000_000 ? head.slice(0, -1) : head)
    .filter((line) => line.trim() !== '')
    .slice(0, PROBE);
  if (ANNOTATION.test(lines[0] ?? '')) return 'annotated CSV of InfluxDB';
  const most = (fits: (line: string) => boolean, least: number): boolean => {
    const count = lines.filter(fits).length;
    return count >= least && 2 * count > lines.filter((line) => !line.startsWith('#')).length;
  };
  // A single object is a document of another kind.
  if (most((line) => objectOf(line) !== null, 2)) return 'JSON lines';
  return most((line) => POINT.test(line) && !line.startsWith('#'), 1) ? 'line protocol of InfluxDB' : null;
}

/** Table that lines were rewritten as. */
export interface LineTable {
  readonly form: LineForm;
  readonly header: readonly string[];
  /** Columns of labels, and those of them that differ between series. */
  readonly labels: readonly number[];
  readonly keys: readonly number[];
  /** CSV without header, line for line. */
  readonly text: string;
  readonly sample: readonly (readonly string[])[];
  readonly notes: readonly Note[];
}

/** Cell of a CSV on one line, which looks neither like a comment nor like a ruler. */
const quoted = (text: string): string =>
  /^(?:[-+]?[\w.][\w.:+-]*)?$/.test(text)
    ? text
    : `"${text.replaceAll('"', '""').replaceAll(/[\r\n]+/g, ' ')}"`;

/**
 * Rewrites lines as a table; null for a text that is a table already.
 * @param known table of earlier lines, whose columns later ones have
 * @throws DataError for too many columns
 */
export function lineTable(text: string, file: string, known?: LineTable): LineTable | null {
  const form = known?.form ?? formOf(text);
  if (form === null) return null;
  const read = FORMS[form]!(file);
  const header = [...(known?.header ?? [])];
  const labelled = new Set(known?.labels);
  const places = new Map(header.map((name, i) => [`${labelled.has(i)} ${name}`, i]));
  const others: number[] = [];
  const rows = text.split(/\r\n|\n|\r/).map((line, index) => {
    const cells = read(line) ?? (line.trim() === '' ? [] : null);
    if (cells === null) others.push(index + 1);
    const row: string[] = [];
    for (const { name, text: content, label = false } of cells ?? []) {
      const key = `${label} ${name}`;
      const place = places.get(key) ?? header.length;
      if (place === header.length) {
        if (known !== undefined) continue;
        header.push(name);
        places.set(key, place);
        if (label) labelled.add(place);
      }
      row[place] = content;
    }
    return row;
  });
  const width = header.length;
  const filled = rows.filter(({ length }) => length > 0);
  if (width > MOST_CHANNELS || width * filled.length > MOST_CELLS)
    throw new DataError(
      `${width} different keys in ${filled.length} lines, too many for a table; keep those that are needed`,
      { file },
    );
  const padded = (row: readonly string[]): string[] => Array.from(header, (_, i) => row[i] ?? '');
  const labels = [...labelled];
  const [first] = others;
  const left = {
    ...{ kind: 'left-out', count: others.length, lines: [first ?? 0, first ?? 0] as const },
    text: `Lines of another form left out: ${others.length}, the first is line ${first}.`,
  };
  return {
    ...{ form, header, labels, sample: filled.slice(0, SAMPLE).map(padded) },
    keys: labels.filter((i) => filled.some((row) => (row[i] ?? '') !== (filled[0]![i] ?? ''))),
    text: rows.map((row) => (row.length === 0 ? '' : padded(row).map(quoted).join(','))).join('\n'),
    notes: [{ kind: 'form', text: `The file is read as ${form}.` }, ...(first === undefined ? [] : [left])],
  };
}
