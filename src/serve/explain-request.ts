/** Request of POST /v1/explain: table or JSON body with options → recording, options of the detector, form of the answer. */
import { z } from 'zod';
import { type Recording, readRecording } from '../../datasets/readers/recording.ts';
import { DEFAULT_SEVERITY, type DetectOptions } from '../detect/detect.ts';
import { csvRecord, type FORMATS } from '../explain/formats.ts';
import { DataError, suggestion } from '../ground/errors.ts';
import { isObject } from '../ground/json-record.ts';
import {
  accepted,
  EVENTS,
  type Fields,
  invalid,
  parseBody,
  type Refused,
  shown,
  wantsEvents,
  wrong,
} from './request.ts';

export interface ExplainRequest {
  readonly body: Uint8Array;
  /** True for a JSON body, false for a table. */
  readonly json: boolean;
  /** Parameters of the address, in order. */
  readonly query: readonly (readonly [name: string, value: string])[];
  /** The header `Accept`. */
  readonly accept: string | undefined;
}

/** Forms of the answer, and their media types. */
export const FORMS = {
  json: 'application/json',
  html: 'text/html; charset=utf-8',
  csv: 'text/csv; charset=utf-8',
  markdown: 'text/markdown; charset=utf-8',
  'grafana-annotations': 'application/json',
} as const satisfies Record<keyof typeof FORMATS | 'html', string>;
export type Form = keyof typeof FORMS;

/** Maximum length of an option in characters. */
const LONGEST = 500;
const TEXT = z.string().min(1).max(LONGEST).describe(`a text of 1 to ${LONGEST} characters`);
const NUMBER = z.number().describe('a number');
const choice = <const Words extends readonly string[]>(words: Words) =>
  z.enum(words).describe(`one of ${words.join(', ')}`);

/** The options of `timeseer detect` that make sense for a request, under the same names; each is described by what is expected. */
export const OPTIONS = {
  ...{ column: TEXT, rate: TEXT, time: TEXT, key: TEXT, select: TEXT, tz: TEXT, since: TEXT, name: TEXT },
  ...{ severity: NUMBER, 'min-change': NUMBER, 'min-share': NUMBER },
  decimal: choice(['.', ',']),
  direction: choice(['above', 'below', 'both']),
  format: choice(Object.keys(FORMS) as Form[]),
};
/** Options that may be given several times. */
export const LISTS = ['column', 'rate'] as const;
/** Options of a JSON body, which says by its own shape how it is read. */
const JSON_OPTIONS = z
  .strictObject(OPTIONS)
  .partial()
  .omit({ column: true, time: true, key: true, select: true, decimal: true });
type List = (typeof LISTS)[number];
type Options = Partial<Omit<{ [Name in keyof typeof OPTIONS]: z.infer<(typeof OPTIONS)[Name]> }, List>> &
  Record<List, readonly string[]>;

const SERIES = z.array(z.number().nullable()).describe('null: a value is missing');
/** Body in JSON: either values or columns. */
export const BODY = z.strictObject({
  values: SERIES.optional(),
  columns: z.record(z.string(), SERIES).optional().describe('lists of one length by their names'),
  time: z.array(z.union([z.string().max(LONGEST), z.number()])).nullish(),
  options: JSON_OPTIONS.optional(),
});

/** Values that are read at most, all columns together: detection takes some twenty seconds and a gigabyte for so many. */
const MOST_VALUES = 2_000_000;

interface ExplainJob {
  /** Name of the recording in the report. */
  readonly name: string;
  readonly recording: Recording;
  readonly options: Omit<DetectOptions, 'calendar'>;
  readonly since: string | undefined;
  /** `events`: those of the findings and the report. */
  readonly form: Form | 'events';
}

/** @throws Refused naming the option that is unknown, given twice, or has a wrong value */
function optionsOf(pairs: readonly (readonly [string, unknown])[], json: boolean): Options {
  const known = Object.keys(json ? JSON_OPTIONS.shape : OPTIONS);
  const options = new Map<string, unknown>();
  const lists: Record<List, string[]> = { column: [], rate: [] };
  for (const [name, value] of pairs) {
    const param = json ? `options.${name.slice(0, LONGEST)}` : name.slice(0, LONGEST);
    const fail = (expected: string): Refused => wrong(param, `expected ${expected}, got ${shown(value)}`);
    if (!known.includes(name)) {
      throw invalid(
        `no option is called '${name.slice(0, LONGEST)}'.${suggestion(name.slice(0, LONGEST), known)} Options: ${known.join(', ')}`,
        param,
        'unknown_parameter',
      );
    }
    if (options.has(name)) throw wrong(param, 'given twice; give it once');
    const option = OPTIONS[name as keyof typeof OPTIONS];
    const numeric = option === NUMBER && !json && value !== '';
    const checked = option.safeParse(numeric ? Number(value) : value);
    if (!checked.success) throw fail(option.description!);
    if (name === 'column' || name === 'rate') lists[name].push(String(checked.data));
    else options.set(name, checked.data);
  }
  return { ...Object.fromEntries(options), ...lists };
}

/** The form that the option names, else the first that `Accept` takes; JSON where it takes any. @throws Refused (406) */
export function formOf(accept: string | undefined, format: Form | undefined): Form {
  if (format !== undefined) return format;
  if (accept === undefined || accept.trim() === '') return 'json';
  for (const { type } of accepted(accept)) {
    const form = Object.entries(FORMS).find(([, media]) => {
      const offered = media.split(';')[0]!;
      return type === offered || type === '*/*' || type === `${offered.split('/')[0]}/*`;
    });
    if (form !== undefined) return form[0] as Form;
  }
  const media = [...new Set(Object.values(FORMS))].map((type) => type.split(';')[0]);
  throw invalid(`Accept: none of these types can be had; there are ${media.join(', ')}`, 'Accept', null, 406);
}

/** A list of numbers and nulls. @throws Refused naming the first that is neither */
function series(value: unknown, param: string): readonly (number | null)[] {
  if (!Array.isArray(value)) throw wrong(param, `expected a list of numbers, got ${shown(value)}`);
  const index = value.findIndex(
    (item) => item !== null && !(typeof item === 'number' && Number.isFinite(item)),
  );
  if (index < 0) return value;
  const place = `${param.slice(0, LONGEST)}[${index}]`;
  throw wrong(place, `expected a finite number, or null where one is missing, got ${shown(value[index])}`);
}

/** Columns of a JSON body by their names. */
function columnsOf({ values, columns }: Fields): [name: string, values: readonly (number | null)[]][] {
  if ((values === undefined) === (columns === undefined)) {
    throw invalid(
      "give either 'values', a list of numbers, or 'columns', an object of lists by their names",
      'values',
    );
  }
  if (values !== undefined) return [['value', series(values, 'values')]];
  if (!isObject(columns)) throw wrong('columns', `expected an object, got ${shown(columns)}`);
  const named = Object.entries(columns).map(([name, list]): [string, readonly (number | null)[]] => {
    const param = `columns.${name.slice(0, LONGEST)}`;
    const usable =
      /\p{L}/u.test(name) && !/\p{Cc}/u.test(name) && name.trim() === name && name.length <= LONGEST;
    if (!usable || name.toLowerCase() === 'time') {
      throw wrong(param, "a column's name needs a letter, and none is called time; rename it");
    }
    return [name, series(list, param)];
  });
  const [first] = named;
  if (first === undefined) throw wrong('columns', 'at least one is needed');
  const uneven = named.find(([, list]) => list.length !== first[1].length);
  if (uneven !== undefined) {
    throw wrong(
      `columns.${uneven[0]}`,
      `${uneven[1].length} values where '${first[0]}' has ${first[1].length}`,
    );
  }
  return named;
}

/** Times of a JSON body. @throws Refused for another number of them, or for what is neither text nor number */
function timesOf({ time }: Fields, length: number): readonly (string | number)[] | null {
  if (time === undefined || time === null) return null;
  if (!Array.isArray(time)) throw wrong('time', `expected a list, got ${shown(time)}`);
  if (time.length !== length) throw wrong('time', `${time.length} times for ${length} values`);
  const index = time.findIndex((item) =>
    typeof item === 'string' ? item.length > LONGEST : !(typeof item === 'number' && Number.isFinite(item)),
  );
  if (index < 0) return time;
  throw wrong(`time[${index}]`, `expected a text or a number, got ${shown(time[index])}`);
}

/** Reads lists of numbers as a table is read, so that times mean the same in both. Numbers are written as no other format writes them. */
function readLists(fields: Fields, name: string, { tz, rate }: Pick<Options, 'tz' | 'rate'>): Recording {
  const columns = columnsOf(fields);
  const names = columns.map(([name]) => name);
  const length = columns[0]![1].length;
  const times = timesOf(fields, length);
  const lines = [csvRecord([...(times === null ? [] : ['time']), ...names])];
  for (let i = 0; i < length; i++) {
    const cells = columns.map(([, values]) => values[i]?.toExponential() ?? 'NaN');
    lines.push(times === null ? cells.join(',') : `${csvRecord([times[i]])},${cells.join(',')}`);
  }
  let recording: Recording;
  try {
    recording = readRecording(Buffer.from(`${lines.join('\n')}\n`), {
      ...{ name, columns: names, tz, rate, strict: true },
      ...(times === null ? {} : { time: 'time' }),
    });
  } catch (error) {
    if (!(error instanceof DataError) || error.line === undefined) throw error;
    // The place is that in the table which was made here.
    throw wrong(`time[${error.line - 2}]`, error.problem);
  }
  const read = recording.columns.map((column) => column.name);
  const lost = names.find((name, i) => name !== read[i]);
  if (lost !== undefined) throw wrong(`columns.${lost}`, 'cannot be told from a number; rename it');
  // Behind the header: the place in the lists, from 1.
  return { ...recording, rows: recording.rows.map((line) => (line > 0 ? line - 1 : line)) };
}

/**
 * Reads a request. No option names a file: what is read is the body alone.
 *
 * @throws Refused (400, 406) naming the parameter, or (413) for more than MOST_VALUES; DataError and ConfigError as `readRecording`
 */
export function readExplainRequest(request: ExplainRequest): ExplainJob {
  const { body, json, query, accept } = request;
  const fields = json ? parseBody(body) : {};
  if (json) {
    const stray = Object.keys(fields).find((key) => !Object.hasOwn(BODY.shape, key));
    if (stray !== undefined)
      throw invalid(
        `no field is called '${stray.slice(0, LONGEST)}'; a body has values or columns, time, and options`,
        stray.slice(0, LONGEST),
        'unknown_parameter',
      );
    if (query.length > 0)
      throw invalid(`${query[0]![0]}: give options inside the JSON body, under 'options'`, query[0]![0]);
    if (fields['options'] !== undefined && !isObject(fields['options']))
      throw wrong('options', `expected an object, got ${shown(fields['options'])}`);
  }
  const pairs = json ? Object.entries((fields['options'] as Fields | undefined) ?? {}) : query;
  const options = optionsOf(pairs, json);
  const events = wantsEvents(accept);
  if (events && options.format !== undefined)
    throw wrong('format', `is for another answer than ${EVENTS}; leave one of them out`);
  const form = events ? 'events' : formOf(accept, options.format);
  const name = options.name ?? (json ? 'recording.json' : 'recording.csv');
  if (body.length === 0) throw invalid('the body is empty; send a table of numbers or JSON');
  const { column, time, key, select, tz, rate, decimal } = options;
  const recording = json
    ? readLists(fields, name, options)
    : readRecording(body, {
        ...{ name, time, key, select, tz, rate, decimal },
        ...(column.length === 0 ? {} : { columns: column }),
      });
  const values = recording.columns.reduce((sum, { values: { length } }) => sum + length, 0);
  if (values > MOST_VALUES) {
    throw invalid(
      `${values} values (gaps count) are more than the ${MOST_VALUES} that are explained at once; send a part of them`,
      null,
      'too_many_values',
      413,
    );
  }
  return {
    ...{ name, recording, form, since: options.since },
    options: {
      severity: options.severity ?? DEFAULT_SEVERITY,
      direction: options.direction ?? 'both',
      absoluteFloor: options['min-change'] ?? 0,
      relativeFloor: options['min-share'] ?? 0,
    },
  };
}
