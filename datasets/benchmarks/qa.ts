/**
 * qa: questions about series, from a file of the user or of a published set. Its layout is inferred from its columns, in any case:
 *
 *  any                question, answer, series; options, names, category, thought, id, split where there are some
 *  TimeSeriesExam     question, options, answer, ts or ts1 and ts2, category (Cai et al. 2024; `AutonLab/TimeSeriesExam1`)
 *  VeriTime           question, label, timeseries2: a list of series, or text of numbers (Zhou et al. 2026, its TSRBench)
 *  RATs40K            thought, action, and a series; no question: which kind of anomaly it is, of the actions that occur (Yang et al. 2025,
 *                     `Time-RA/RATs40K`)
 *
 * The columns of TimeSeriesExam are those of its published table. Of RATs40K the parts of an answer (observation, thought, action) and its
 * kinds are published; how its files name the series was not known here, and any of the names below is taken.
 */
import { existsSync, statSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { ConfigError, DataError, reasonOf } from '../../src/ground/errors.ts';
import { readBytes } from '../../src/ground/files.ts';
import { isObject, jsonProblem, type Place, show, syntaxColumn } from '../../src/ground/json-record.ts';
import type { Example, QuestionGold } from '../../src/ground/types.ts';
import { checkThought } from '../../src/tasks/kinds.ts';
import { question as kind, letterOf, MOST_OPTIONS, optionNamed } from '../../src/tasks/question.ts';
import { CsvRecords, detectDelimiter } from '../readers/csv-records.ts';
import { readParquetRows } from '../readers/parquet.ts';
import { decodeText } from '../readers/text-encoding.ts';
import { SPLITS, type Split } from '../split.ts';
import type { Benchmark, BenchmarkOptions, Loaded, OpenBenchmark, SplitPlan } from './benchmark.ts';
import { filesBelow } from './source-files.ts';

/** A row by its column names. */
interface QuestionRow {
  readonly fields: Readonly<Record<string, unknown>>;
  readonly place: Place;
  /** 0-based. */
  readonly number: number;
}

const TEXT_ENDINGS = ['.json', '.jsonl', '.ndjson', '.csv'] as const;
const QUESTION_ENDINGS = [...TEXT_ENDINGS, ...TEXT_ENDINGS.map((ending) => `${ending}.gz`), '.parquet'];

/** Maximum bytes of text in a gzip file; V8 holds no longer string. */
const MOST_TEXT = 2 ** 29 - 25;

type Row = Pick<QuestionRow, 'fields' | 'place'>;

function object(value: unknown, what: string, place: Place): Readonly<Record<string, unknown>> {
  if (isObject(value)) return value;
  throw new DataError(
    `${what}got ${show(value)}, expected an object with question, answer and series`,
    place,
  );
}

/** Text of a file, unpacked where it is gzip by its first bytes. @throws DataError for one that is damaged or too long */
function textOf(file: string): string {
  let bytes: Buffer;
  try {
    bytes = readBytes(file);
    if (bytes[0] === 0x1f && bytes[1] === 0x8b) bytes = gunzipSync(bytes, { maxOutputLength: MOST_TEXT });
  } catch (cause) {
    if (cause instanceof DataError) throw cause;
    const { code } = cause as NodeJS.ErrnoException;
    const reason =
      code === 'ERR_BUFFER_TOO_LARGE'
        ? `unpacks to more than ${MOST_TEXT} bytes; split it into several files`
        : code?.startsWith('Z_')
          ? `a damaged gzip file (${(cause as Error).message}); download it again`
          : `cannot be read (${reasonOf(cause)})`;
    throw new DataError(reason, { file, cause });
  }
  const { text, assumed } = decodeText(bytes, file);
  if (assumed.length > 0) throw new DataError('not UTF-8 text; save it as UTF-8', { file });
  return text;
}

function parsed(text: string, place: Place): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw new DataError('nested too deep', { ...place, cause });
    const line = place.line === undefined ? {} : { column: syntaxColumn(text) };
    throw new DataError(jsonProblem(text, cause), { ...place, ...line, cause });
  }
}

/** A list of objects, alone or as the only list of an object. */
function* jsonRows(file: string): Generator<Row> {
  const whole = parsed(textOf(file), { file });
  const lists = Array.isArray(whole)
    ? [whole]
    : Object.values(object(whole, '', { file })).filter((value) => Array.isArray(value));
  const list = lists.find((candidate) => candidate.every((item) => typeof item === 'object')) ?? lists[0];
  if (list === undefined) throw new DataError('holds no list of questions', { file });
  for (const [i, item] of list.entries()) {
    const place = { file };
    yield { fields: object(item, `item ${i}: `, place), place };
  }
}

function* jsonLines(file: string): Generator<Row> {
  for (const [i, line] of textOf(file).split('\n').entries()) {
    if (line.trim() === '') continue;
    const place = { file, line: i + 1 };
    yield { fields: object(parsed(line, place), '', place), place };
  }
}

function* csvRows(file: string): Generator<Row> {
  const text = textOf(file);
  const records = new CsvRecords(text, detectDelimiter(text, file), file);
  if (!records.next()) throw new DataError('holds no rows', { file });
  const names = records.fields();
  while (records.next()) {
    if (records.blank) continue;
    const { file: own, line } = records.place(0);
    const place = { file: own, line };
    if (records.width !== names.length) {
      throw new DataError(`${records.width} cells in a row, the header has ${names.length}`, place);
    }
    // Cells hold lists and objects as JSON.
    const fields = Object.fromEntries(
      records.fields().map((cell, c): [string, unknown] => {
        const value = /^\s*[[{]/.test(cell) ? parsed(cell, place) : cell === '' ? null : cell;
        return [names[c]!, value];
      }),
    );
    yield { fields, place };
  }
}

function* parquetRows(file: string): Generator<Row> {
  for (const fields of readParquetRows(file)) yield { fields, place: { file } };
}

/** Rows of a file, by its extension. @throws DataError for a damaged file, with file, line and column where they are known */
function* readQuestionRows(file: string): Generator<QuestionRow> {
  const name = file.toLowerCase().replace(/\.gz$/, '');
  const rows = name.endsWith('.parquet')
    ? parquetRows
    : name.endsWith('.csv')
      ? csvRows
      : name.endsWith('.json')
        ? jsonRows
        : jsonLines;
  let number = 0;
  for (const row of rows(file)) yield { ...row, number: number++ };
}

type Layout = 'any' | 'TimeSeriesExam' | 'RATs40K';

const NAMES = {
  question: ['question', 'prompt', 'query'],
  options: ['options', 'choices', 'candidates'],
  answer: ['answer', 'correct_answer', 'correct', 'label'],
  action: ['action'],
  series: ['series', 'ts', 'time_series', 'timeseries', 'values', 'data', 'observation'],
  names: ['names', 'channels', 'columns'],
  category: ['category', 'question_type', 'type', 'task'],
  thought: ['thought', 'thoughts', 'rationale', 'reasoning', 'explanation'],
  id: ['id', 'question_id', 'index'],
  split: ['split'],
} as const;
type Part = keyof typeof NAMES;

/** Column names of pictures, which are not read. */
const PICTURES = ['image', 'picture', 'figure', 'plot', 'image_path', 'figure_path'];
/** One series of several: ts1, series_2. */
const NUMBERED = /^(?:ts|series|timeseries|time_series)_?(\d+)$/;
/** Place of the series within a question of ChatTS and VeriTime; the plot takes its place. */
const SERIES_MARK = /:?\s*<ts>\s*<\/?ts\/?>/gi;
/** Question of a set that has kinds of anomalies and no questions. */
const WHICH_KIND = 'Which kind of anomaly does the series show?';

const LAYOUT = `a file of ${QUESTION_ENDINGS.join(', ')}, or a folder of them, with question, answer, series and, where there are some, options, names, category, thought, id and split; or the files of TimeSeriesExam or RATs40K`;

const lowered = (fields: QuestionRow['fields']): Map<string, unknown> =>
  new Map(Object.entries(fields).map(([name, value]) => [name.trim().toLowerCase(), value]));

function layoutOf(fields: ReadonlyMap<string, unknown>): Layout {
  if (!NAMES.question.some((name) => fields.has(name))) {
    return fields.has('action') || fields.has('thought') ? 'RATs40K' : 'any';
  }
  return fields.has('ts1') && fields.has('tid') ? 'TimeSeriesExam' : 'any';
}

interface Asked {
  readonly id: string;
  readonly gold: QuestionGold;
  readonly channels: readonly Float64Array[];
  readonly names: readonly string[];
  readonly split: Split | null;
  readonly place: Place;
}

class RowReader {
  readonly #fields: ReadonlyMap<string, unknown>;
  readonly #row: QuestionRow;

  constructor(row: QuestionRow) {
    this.#row = row;
    this.#fields = lowered(row.fields);
  }

  get layout(): Layout {
    return layoutOf(this.#fields);
  }

  fail(message: string): DataError {
    const { place, number } = this.#row;
    return new DataError(`${place.line === undefined ? `item ${number}: ` : ''}${message}`, place);
  }

  /** First column of a part that has a value, with the value. */
  value(part: Part): { readonly name: string; readonly value: unknown } | null {
    for (const name of NAMES[part]) {
      const value = this.#fields.get(name) ?? null;
      if (value !== null && value !== '') return { name, value };
    }
    return null;
  }

  text(part: Part): string | null {
    const column = this.value(part);
    if (column === null) return null;
    const { name, value } = column;
    if (typeof value === 'string') return value.trim() === '' ? null : value.trim();
    if (typeof value === 'number' || typeof value === 'boolean') return String(value);
    throw this.fail(`${name}: got ${show(value)}, expected text`);
  }

  /** Option texts, from a list or from an object with letters. */
  options(): string[] {
    const column = this.value('options');
    if (column === null) return [];
    const { name, value } = column;
    const list = Array.isArray(value)
      ? value
      : typeof value === 'object'
        ? Object.values(value as object)
        : String(value).split(/\s*(?:\||\n)\s*/);
    if (list.length > MOST_OPTIONS) {
      throw this.fail(`${name}: ${list.length} options; expected at most ${MOST_OPTIONS}`);
    }
    return list.map((option, i) => {
      if (typeof option !== 'string' && typeof option !== 'number' && typeof option !== 'boolean') {
        throw this.fail(`${name}[${i}]: got ${show(option)}, expected text`);
      }
      // Letters are given here: "A) rises" is "rises" where all are written so.
      const text = String(option).trim();
      const mark = new RegExp(`^\\(?${letterOf(i)}[).:]\\s+`, 'i');
      const marked = list.every((other, j) =>
        new RegExp(`^\\s*\\(?${letterOf(j)}[).:]\\s+`, 'i').test(String(other)),
      );
      return marked ? text.replace(mark, '') : text;
    });
  }

  /** Letter of the right option, from its text or letter. @throws DataError for neither */
  letter(answer: string, options: readonly string[]): string {
    const letter = optionNamed(answer, options);
    if (letter !== null) return letter;
    throw this.fail(
      `answer: ${show(answer)} is none of the options ${show(options)}; give the text or the letter (A to ${letterOf(options.length - 1)}) of one`,
    );
  }

  #numbers(values: unknown, name: string): Float64Array {
    const list = typeof values === 'string' ? values.split(/[\s,;]+/).filter((word) => word !== '') : values;
    if (!Array.isArray(list) || (list.length < 2 && typeof values === 'string')) {
      throw this.fail(`${name}: got ${show(values)}, expected a list of numbers`);
    }
    if (list.length < 2) throw this.fail(`${name}: ${list.length} points; a series needs at least 2`);
    return Float64Array.from(list, (point, i) => {
      if (point === null) return Number.NaN;
      const number = typeof point === 'string' && point.trim() !== '' ? Number(point) : point;
      if (typeof number === 'number' && Number.isFinite(number)) return number;
      if (typeof point === 'string' && /^nan$/i.test(point.trim())) return Number.NaN;
      throw this.fail(`${name}[${i}]: got ${show(point)}, expected a number, or null where missing`);
    });
  }

  /** Series of one column by name: from a list of numbers, a list of such lists (nested in lists of one item), or an object of lists. */
  #lists(value: unknown, name: string): [name: string, values: unknown][] {
    if (Array.isArray(value) && Array.isArray(value[0])) {
      if (value.length === 1) return this.#lists(value[0], name);
      return value.map((list, c) => [`${name} ${c + 1}`, list]);
    }
    if (isObject(value)) return Object.entries(value);
    return [[name, value]];
  }

  /** Series by name, in order, from one column or from numbered columns. */
  series(): [name: string, values: Float64Array][] {
    const numbered = [...this.#fields]
      .flatMap(([name, value]) => {
        const [, order] = NUMBERED.exec(name) ?? [];
        return order === undefined || value === null || value === ''
          ? []
          : [{ order: Number(order), name, value }];
      })
      .sort((a, b) => a.order - b.order);
    if (numbered.length > 0) {
      return numbered
        .flatMap(({ name, value }) => this.#lists(value, name))
        .map(([name, list]) => [name, this.#numbers(list, name)]);
    }
    const column = this.value('series');
    if (column === null) {
      const picture = PICTURES.find((name) => this.#fields.has(name));
      throw this.fail(
        picture === undefined
          ? `no series: expected a column ${NAMES.series.join(', ')}, or ts1, ts2, …`
          : `no series beside the ${picture}: pictures are drawn here, from the values; give them too`,
      );
    }
    const { name, value } = column;
    const all = this.#lists(value, 'series');
    const lists = Array.isArray(value) && all.length === 1 ? [['value', all[0]![1]] as const] : all;
    const given = this.value('names')?.value;
    if (
      given !== undefined &&
      (!Array.isArray(given) ||
        given.length !== lists.length ||
        !given.every((item) => typeof item === 'string'))
    ) {
      throw this.fail(`names: got ${show(given)}, expected the names of ${lists.length} series`);
    }
    return lists.map(([title, list], c) => [
      (given as string[] | undefined)?.[c] ?? title,
      this.#numbers(list, lists.length > 1 ? `${name}[${c}]` : name),
    ]);
  }

  split(): Split | null {
    const name = this.text('split')?.toLowerCase() ?? null;
    const wanted = name === 'val' || name === 'valid' || name === 'dev' ? 'validation' : name;
    const split = SPLITS.find((known) => known === wanted);
    if (wanted === null || split !== undefined) return split ?? null;
    throw this.fail(`split: got ${show(name)}, expected train, validation or test`);
  }
}

/** Anomaly kinds that occur (RATs40K), sorted. */
function actionsOf(files: readonly string[]): string[] {
  const actions = new Set<string>();
  for (const file of files) {
    for (const row of readQuestionRows(file)) {
      const action = new RowReader(row).text('action');
      if (action !== null) actions.add(action);
    }
  }
  return [...actions].sort();
}

class QuestionFiles {
  readonly files: readonly string[];
  readonly layout: Layout;
  readonly hasSplits: boolean;
  readonly #kinds: readonly string[];
  /** Number of series padded with missing points. */
  padded = 0;

  constructor(files: readonly string[]) {
    this.files = files;
    const first = readQuestionRows(files[0]!).next().value as QuestionRow | undefined;
    if (first === undefined) throw new DataError('holds no questions', { file: files[0]! });
    const reader = new RowReader(first);
    this.layout = reader.layout;
    this.hasSplits = reader.text('split') !== null;
    this.#kinds = this.layout === 'RATs40K' ? actionsOf(files) : [];
    if (this.layout === 'RATs40K' && (this.#kinds.length < 2 || this.#kinds.length > MOST_OPTIONS)) {
      throw new DataError(
        `${this.#kinds.length} different actions; expected 2 to ${MOST_OPTIONS}, which are the options of its question`,
        { file: files[0]! },
      );
    }
  }

  #read(row: QuestionRow): Asked {
    const reader = new RowReader(row);
    const series = reader.series();
    const length = Math.max(...series.map(([, values]) => values.length));
    const channels = series.map(([, values]) => {
      if (values.length === length) return values;
      this.padded++;
      const whole = new Float64Array(length).fill(Number.NaN);
      whole.set(values);
      return whole;
    });
    const options = this.layout === 'RATs40K' ? this.#kinds : reader.options();
    const text = this.layout === 'RATs40K' ? WHICH_KIND : reader.text('question')?.replace(SERIES_MARK, '');
    if (text == null) throw reader.fail('question: missing');
    const part = this.layout === 'RATs40K' ? 'action' : 'answer';
    const answer = reader.text(part);
    if (answer === null) throw reader.fail(`${part}: missing`);
    const gold: QuestionGold = {
      kind: 'question',
      question: text,
      options,
      answer: options.length === 0 ? answer : reader.letter(answer, options),
      category: reader.text('category'),
      thought: reader.text('thought'),
    };
    try {
      kind.check(gold, { length, channels: channels.length }, {});
      if (gold.thought != null) checkThought(gold.thought);
    } catch (error) {
      throw error instanceof DataError ? reader.fail(error.message) : error;
    }
    return {
      ...{ gold, channels, names: series.map(([name]) => name), place: row.place },
      id: reader.text('id') ?? String(row.number),
      split: this.layout === 'TimeSeriesExam' ? 'test' : reader.split(),
    };
  }

  *load(): Generator<Loaded> {
    this.padded = 0;
    for (const [f, file] of this.files.entries()) {
      for (const row of readQuestionRows(file)) {
        const { id, gold, channels, names, split, place } = this.#read(row);
        const part = this.files.length > 1 ? `${f}/` : '';
        const example: Example = {
          ...{ id: `qa/${part}${id}`, task: 'qa', channels, names, gold },
          ...{ times: null, recording: null },
        };
        yield { split, example, place: place as { file: string } };
      }
    }
  }
}

const PLANS: Readonly<Record<'given' | 'exam' | 'drawn', SplitPlan>> = {
  given: { by: 'given', statement: 'Split of the file.', recordingsApart: null, validation: 'example' },
  exam: {
    by: 'given',
    statement: 'TimeSeriesExam is made for evaluation and publishes no training split.',
    recordingsApart: null,
    validation: { refused: 'there is no training split' },
  },
  drawn: {
    by: 'example',
    sizes: { train: 8, validation: 1, test: 1 },
    statement: 'The file names no splits.',
    recordingsApart: null,
  },
};

function filesOf(directory: string | null): string[] {
  if (directory === null) throw new ConfigError(`qa: name the files with --from; it needs ${LAYOUT}`);
  if (!existsSync(directory))
    throw new DataError(`no such file or folder; qa needs ${LAYOUT}`, { file: directory });
  const ends = (file: string): boolean =>
    QUESTION_ENDINGS.some((ending) => file.toLowerCase().endsWith(ending));
  const files = statSync(directory).isDirectory() ? filesBelow(directory).filter(ends) : [directory];
  if (files.length === 0 || !files.every(ends)) {
    throw new DataError(`no file of questions; qa needs ${LAYOUT}`, { file: directory });
  }
  return files;
}

export const qa: Benchmark = {
  name: 'qa',
  title: 'Questions about series',
  kind: 'question',
  source: {
    description: 'Files of the user, or of a published set of questions.',
    licence: "the user's own, or that of the set (TimeSeriesExam: MIT; RATs40K: Apache 2.0)",
    citation: null,
    addresses: [],
  },
  classes: [],
  rate: null,
  shape: 'any',
  figure: { preset: 'line', missing: 'break' },
  prompt: { version: 1, context: '', question: kind.question, hints: {}, advice: null },
  needs: 'files',
  layout: LAYOUT,
  open({ directory, window }: BenchmarkOptions): OpenBenchmark {
    if (window !== undefined)
      throw new ConfigError('--window: questions are about whole series, which are not cut');
    const questions = new QuestionFiles(filesOf(directory));
    const { files, layout, hasSplits } = questions;
    return {
      files,
      classes: () => [],
      parameters: { layout },
      plan: layout === 'TimeSeriesExam' ? PLANS.exam : hasSplits ? PLANS.given : PLANS.drawn,
      notes: () => [
        ...(layout === 'any' ? [] : [`read as ${layout}`]),
        ...(questions.padded === 0
          ? []
          : [`${questions.padded} series are shorter than those beside them, and end in missing points`]),
      ],
      load: () => questions.load(),
    };
  },
};
