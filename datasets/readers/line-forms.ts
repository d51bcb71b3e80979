/**
 * Lines that are no rows of a table: JSON objects, InfluxDB's line protocol, and its annotated CSV, in which columns change from table to
 * table. They are rewritten as a table, line for line, so that messages name the lines of the file.
 */
import { DataError } from '../../src/ground/errors.ts';
import { show } from '../../src/ground/json-record.ts';
import { CsvRecords } from './csv-records.ts';
import type { Note } from './quality.ts';
import { MOST_CHANNELS, NUMBER } from './record.ts';

/** Cell of a column; a label names the series of its line. */
type Cell = readonly [name: string, text: string, isLabel?: boolean];

/** Cells of a line, the time first; null for a line of another form; none for one to pass over. */
type ReadLine = (line: string) => readonly Cell[] | null;

/** Lines by which a form is told, rows for detecting the columns, and cells of the table at most. */
const [PROBE, SAMPLE, MOST_CELLS] = [20, 100, 50_000_000];
/** Levels of nested objects; what is nested deeper is left out. */
const DEEPEST = 8;

/** Cells of an object by their dotted names; lists are left out. */
function cellsOf(value: object, prefix = '', depth = 1): Cell[] {
  return Object.entries(value).flatMap(([key, item]): Cell[] => {
    if (typeof item !== 'object') return [[`${prefix}${key}`, String(item)]];
    if (item === null || Array.isArray(item) || depth === DEEPEST) return [];
    return cellsOf(item, `${prefix}${key}.`, depth + 1);
  });
}

/** Numbers that JSON lacks, as Python and others write them. */
const NO_JSON = /(?<=[:[,]\s*)(?:NaN|-?Infinity)(?=\s*[,\]}])/g;

const readJson: ReadLine = (line) => {
  if (!line.trimStart().startsWith('{')) return null;
  for (const text of [line, line.replace(NO_JSON, 'null')]) {
    try {
      return cellsOf(JSON.parse(text));
    } catch {
      // Perhaps the other one can be read.
    }
  }
  return null;
};

const NAME = String.raw`(?:\\.|[^\\,=\s])+`;
const FIELD = String.raw`${NAME}=(?:"(?:\\.|[^\\"])*"|[^\s,"]+)`;
const POINT = new RegExp(
  `^\\s*(${NAME})((?:,${NAME}=${NAME})*) +(${FIELD}(?:,${FIELD})*)(?: +(-?\\d+))?\\s*$`,
);
const PAIR = new RegExp(`(${NAME})=("(?:\\\\.|[^\\\\"])*"|(?:\\\\.|[^\\\\,\\s])+)`, 'g');

/** Number or truth of a field in line protocol; empty for a text. */
function fieldText(value: string): string {
  if (/^(?:t|true|f|false)$/i.test(value)) return String(/^t/i.test(value));
  const number = value.replace(/[iu]$/, '');
  return NUMBER.test(number) ? number : '';
}

/** Cells of a point in line protocol: time, measurement, tags, and fields but for texts. */
const readPoint: ReadLine = (line) => {
  const [, measurement, tags = '', fields = '', time = ''] = POINT.exec(line) ?? [];
  if (measurement === undefined) return line.trimStart().startsWith('#') ? [] : null;
  const plain = (text = ''): string => text.replaceAll(/\\([,= \\])/g, '$1');
  const pairs = (text: string, isLabel: boolean): Cell[] =>
    Array.from(text.matchAll(PAIR), ([, name, value = '']) => [
      ...([plain(name), isLabel ? plain(value) : fieldText(value), isLabel] as const),
    ]);
  const values = pairs(fields, false).filter(([, text]) => text !== '');
  if (values.length === 0) return [];
  return [['time', time], ['measurement', plain(measurement), true], ...pairs(tags, true), ...values];
};

const ANNOTATION = /^\ufeff?#(datatype|group|default),/;
const VALUES = /^(?:double|long|unsignedLong|boolean)$/;
/** Columns of annotated CSV that are the same for a whole table. */
const OF_TABLE = new Set(['', 'result', 'table', '_start', '_stop', '_time']);

/** Reads the lines of annotated CSV; annotations and the header below them hold until the next ones. */
function annotatedReader(file: string): ReadLine {
  const annotations = new Map<string, readonly string[]>();
  let header: readonly string[] | null = null;
  return (line) => {
    const [, annotation] = ANNOTATION.exec(line) ?? [];
    if (annotation !== undefined || line.trim() === '') header = null;
    const records = new CsvRecords(line, ',', file);
    if (!records.next() || records.blank) return [];
    const fields = records.fields();
    if (annotation !== undefined) annotations.set(annotation, fields);
    if (annotation !== undefined) return [];
    if (header === null) {
      header = fields;
      if (fields.includes('error') && fields.includes('reference'))
        throw new DataError('holds the error of a query that failed, and no table', { file });
      return [];
    }
    const [types, defaults] = [annotations.get('datatype'), annotations.get('default')];
    const isValue = (name: string, i: number): boolean =>
      types === undefined ? name === '_value' : VALUES.test(types[i] ?? '');
    const at = (i: number): string => fields[i] || defaults?.[i] || '';
    const cells = header.flatMap((name, i): Cell[] =>
      OF_TABLE.has(name) || (name === '_value' && !isValue(name, i))
        ? []
        : [[name, at(i), !isValue(name, i)]],
    );
    const time = header.indexOf(header.includes('_time') ? '_time' : '_stop');
    return cells.every(([, , isLabel]) => isLabel) ? [] : [['_time', at(time)], ...cells];
  };
}

/** Name of the form whose lines depend on those before them. */
export const ANNOTATED = 'annotated CSV of InfluxDB';

/** Forms by name, with the readers of their lines. */
const FORMS: Readonly<Record<string, (file: string) => ReadLine>> = {
  'JSON lines': () => readJson,
  'line protocol of InfluxDB': () => readPoint,
  [ANNOTATED]: annotatedReader,
};

/** Lines of access logs, of syslog in its two forms, and of programs, with their minute in awk. */
const LOGS: readonly (readonly [line: RegExp, minute: string])[] = [
  [/^\S+ \S+ [^[]*\[\d\d\/[A-Z][a-z]{2}\/\d{4}:[\d:]{8}[^\]]*\] /, 'substr($0, index($0, "[") + 1, 17)'],
  [/^(?:<\d+>)?[A-Z][a-z]{2} [ \d]\d [\d:]{8} /, '$1 " " $2 " " substr($3, 1, 5)'],
  [/^<\d+>1 \d{4}-\d\d-\d\dT/, 'substr($2, 1, 16)'],
  [/^\d{4}-\d\d-\d\d[T ][\d:]{8}\S* +(?:\S+ \S+: |\W?(?:DEBUG|INFO|WARN|ERROR))/, 'substr($0, 1, 16)'],
];

/** First lines of a text that are not blank. */
function headOf(text: string): string[] {
  const head: string[] = [];
  for (let at = 0, end = 0; at < text.length && head.length < PROBE; at = end + 1) {
    end = text.indexOf('\n', at) < 0 ? text.length : text.indexOf('\n', at);
    if (text.slice(at, end).trim() !== '') head.push(text.slice(at, end));
  }
  return head;
}

/** Refuses the lines of a log, whose stamps are no cells. @throws DataError */
export function checkLog(text: string, file: string): void {
  const head = headOf(text);
  const log = LOGS.find(([line]) => 2 * head.filter((each) => line.test(each)).length > head.length);
  if (log === undefined) return;
  throw new DataError(
    `lines of a log, which are events and no samples; count them first, for example per minute: awk '{t = ${log[1]} ":00"; if (!n[t]++) o[++k] = t} END {print "time,lines"; for (i = 1; i <= k; i++) print o[i] "," n[o[i]]}' FILE | timeseer detect -. Of a table, write each stamp in one cell`,
    { file },
  );
}

/** Tells the form of a text by its first lines; null for a table. */
function formOf(text: string): string | null {
  const head = headOf(text);
  if (ANNOTATION.test(head[0] ?? '')) return ANNOTATED;
  const lines = head.filter((line) => !line.startsWith('#'));
  // A single object is a document of another kind.
  const isMost = (read: ReadLine): boolean => {
    const count = lines.filter((line) => read(line) !== null).length;
    return count > 1 && 2 * count > lines.length;
  };
  if (isMost(readJson)) return 'JSON lines';
  return isMost(readPoint) ? 'line protocol of InfluxDB' : null;
}

/** Table that lines were rewritten as. */
export interface LineTable {
  readonly form: string;
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
  const fresh = new Set<string>();
  const rows = text.split(/\r\n|\n|\r/).map((line, index) => {
    const cells = read(line) ?? (line.trim() === '' ? [] : null);
    if (cells === null) others.push(index + 1);
    const row: string[] = [];
    for (const [name, content, isLabel = false] of cells ?? []) {
      const key = `${isLabel} ${name}`;
      const place = places.get(key) ?? header.length;
      if (place === header.length) {
        if (known !== undefined && NUMBER.test(content)) fresh.add(name);
        if (known !== undefined) continue;
        header.push(name);
        places.set(key, place);
        if (isLabel) labelled.add(place);
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
  const more = { kind: 'new-key', text: `New keys, not followed: ${[...fresh].map(show).join(', ')}.` };
  return {
    ...{ form, header, labels, sample: filled.slice(0, SAMPLE).map(padded) },
    keys: labels.filter((i) => filled.some((row) => (row[i] ?? '') !== (filled[0]![i] ?? ''))),
    text: rows.map((row) => (row.length === 0 ? '' : padded(row).map(quoted).join(','))).join('\n'),
    notes: [
      { kind: 'form', text: `The file is read as ${form}.` },
      ...(first === undefined ? [] : [left]),
      ...(fresh.size === 0 ? [] : [more]),
    ],
  };
}
