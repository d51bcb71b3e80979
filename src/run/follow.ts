/**
 * Findings of a recording that grows: rows come in, lines go out as soon as something is known. Only the latest samples are kept, as the
 * text of their rows, and are read and judged anew every so many rows, as a file of them would be.
 */
import { performance } from 'node:perf_hooks';
import { type Recording, readRecording, readTimes } from '../../datasets/readers/recording.ts';
import type { DetectOptions } from '../detect/detect.ts';
import type { ReportFinding, ReportState } from '../explain/schema.ts';
import { ConfigError, DataError } from '../ground/errors.ts';
import { type DetectRequest, detectRecording } from './detect.ts';

export interface FollowOptions extends Omit<DetectRequest, 'file'> {
  /** As messages name the input. */
  readonly name: string;
  /** Samples that are kept and judged, 50 to 100 000. */
  readonly window: number;
  /** New samples after which the window is judged; undefined: a 200th of the window, later where judging takes longer than they come. */
  readonly every: number | undefined;
  /** What was told before. */
  readonly state: ReportState | null;
}

/** What a finding says in a line; indices are left out, as they change with the window. */
export type FollowedFinding = Pick<
  ReportFinding,
  | 'id'
  | 'column'
  | 'kind'
  | 'direction'
  | 'level'
  | 'severity'
  | 'from'
  | 'to'
  | 'durationSeconds'
  | 'duration'
  | 'observed'
  | 'expected'
  | 'statement'
  | 'ongoing'
  | 'rows'
>;

export type FollowEvent =
  | {
      readonly event: 'start';
      readonly schema: 'timeseer.follow';
      readonly version: 1;
      readonly window: number;
      readonly every: number;
      /** Samples from the last one of a cause to its line, at most. */
      readonly delay: number;
      /** Samples before the window is judged for the first time. */
      readonly first: number;
    }
  | { readonly event: 'note'; readonly code: string; readonly text: string }
  | ({ readonly event: 'open' } & FollowedFinding)
  | ({
      readonly event: 'closed';
      /** `withdrawn`: in the light of later samples it is not unusual any more; `input ended`: it lasts until the last row. */
      readonly reason: 'over' | 'withdrawn' | 'input ended';
    } & FollowedFinding)
  | {
      readonly event: 'end';
      readonly rows: number;
      readonly bad: number;
      /** Rows that came behind later ones and were sorted in. */
      readonly late: number;
      /** Rows older than the window, dropped. */
      readonly tooLate: number;
    };

export const DEFAULT_WINDOW = 20_000;
const [FEWEST, MOST] = [50, 100_000];
/** Samples before the first judgement: with fewer the usual is not known. */
const WARM_UP = 200;
/** Without `every`: the parts of the window after which it is judged, and after which it is judged at the latest. */
const [PARTS, LEAST_PARTS] = [200, 4];
/** Lines of one row, with line breaks in quotes. */
const MOST_LINES = 20;
const LONGEST_ROW = 1 << 20;
/** Wrong rows that are looked for one by one by what the reader says, and good ones that a row is read beside. */
const SEARCHED = 8;
const BESIDE = 50;

interface Row {
  readonly text: string;
  /** Of its first line in the input, from 1. */
  readonly line: number;
  readonly time: number; // ms; NaN until it is read
}

/** How often the window is judged. @throws ConfigError for what is out of range */
export function pace({ window, every }: Pick<FollowOptions, 'window' | 'every'>): {
  every: number;
  delay: number;
  first: number;
} {
  if (!Number.isInteger(window) || window < FEWEST || window > MOST)
    throw new ConfigError(`--window: expected ${FEWEST} to ${MOST} samples, got ${window}`);
  if (every !== undefined && (!Number.isInteger(every) || every < 1 || every > window))
    throw new ConfigError(`--every: expected 1 to ${window} samples, as many as the window, got ${every}`);
  const chosen = every ?? Math.ceil(window / PARTS);
  const delay = every ?? Math.ceil(window / LEAST_PARTS);
  return { every: chosen, delay, first: Math.max(chosen, Math.min(window, WARM_UP)) };
}

/** Rows of a text that comes in parts: lines, or several where a quoted field has line breaks; blank ones are left out. */
async function* rowsOf(chunks: AsyncIterable<Uint8Array>, name: string): AsyncGenerator<Row> {
  let decoder: InstanceType<typeof TextDecoder> | null = null;
  let rest = '';
  let line = 0;
  let open: Row[] = [];
  const quoted = (rows: readonly Row[]): boolean =>
    rows.reduce((count, { text }) => count + text.split('"').length - 1, 0) % 2 === 1;
  function* take(text: string): Generator<Row> {
    line++;
    if (text.trim() === '' && open.length === 0) return;
    open.push({ text, line, time: Number.NaN });
    if (!quoted(open)) yield { ...open[0]!, text: open.map((row) => row.text).join('\n') };
    else if (open.length <= MOST_LINES) return;
    else yield* open;
    open = [];
  }
  for await (const chunk of chunks) {
    const utf16 = chunk[0] === 0xff && chunk[1] === 0xfe;
    decoder ??= new TextDecoder(
      utf16 ? 'utf-16le' : chunk[0] === 0xfe && chunk[1] === 0xff ? 'utf-16be' : 'utf-8',
    );
    const lines = (rest + decoder.decode(chunk, { stream: true })).split(/\r?\n/);
    rest = lines.pop()!;
    if (rest.length > LONGEST_ROW)
      throw new DataError(`more than ${LONGEST_ROW} characters without a line break; is it CSV?`, {
        file: name,
        line: line + 1,
      });
    for (const text of lines) yield* take(text);
  }
  if (rest !== '') yield* take(rest);
  yield* open;
}

/** The latest rows of a stream, by time. */
class Window {
  bad = 0;
  late = 0;
  tooLate = 0;
  #head: readonly Row[] = [];
  #rows: Row[] = [];
  /** Earlier rows come too late. */
  #floor = -Infinity;
  readonly #said = new Set<string>();
  readonly #options: FollowOptions;
  readonly #tell: (event: FollowEvent) => void;

  constructor(options: FollowOptions, tell: (event: FollowEvent) => void) {
    this.#options = options;
    this.#tell = tell;
  }

  /**
   * The recording of the window with new rows; null where it has fewer than two.
   * @throws DataError for a table that cannot be read at all, or has no header or no time; ConfigError
   */
  add(batch: readonly Row[]): Recording | null {
    let fresh = [...batch];
    const isFirst = this.#rows.length === 0;
    const most = isFirst ? Math.max(1, batch.length >> 1) : SEARCHED;
    for (let tries = 0; ; tries++) {
      if (this.#rows.length + fresh.length < 2) return null;
      try {
        return this.#read(fresh);
      } catch (error) {
        if (!(error instanceof DataError)) throw error;
        const rows = [...this.#head, ...this.#rows, ...fresh];
        const wrong = error.line === undefined ? undefined : rowAt(rows, error.line);
        const isHeader = isFirst && wrong === fresh[0];
        if (tries < most && wrong !== undefined && fresh.includes(wrong) && !isHeader) {
          fresh = fresh.filter((row) => row !== wrong);
          this.#reject(wrong, error);
          continue;
        }
        if (isFirst || tries > most) throw error;
        tries = most;
        this.#rows = this.#readable(this.#rows, error);
        fresh = this.#readable(fresh, error);
      }
    }
  }

  say(code: string, text: string): void {
    if (this.#said.has(code)) return;
    this.#said.add(code);
    this.#tell({ event: 'note', code, text });
  }

  #reject(row: Row, error: DataError): void {
    this.bad++;
    const place = [error.file, error.line, error.column].filter((part) => part !== undefined).join(':');
    const reason = error.message.startsWith(`${place}: `)
      ? error.message.slice(place.length + 2)
      : error.message;
    this.say(
      'bad-row',
      `Line ${row.line} was left out: ${reason}. Other rows that cannot be read are counted at the end.`,
    );
  }

  /** Those of the rows that can be read beside others that can. @throws `error` where no row can */
  #readable(rows: readonly Row[], error: DataError): Row[] {
    const isTable = (some: readonly Row[]): DataError | null => {
      try {
        readRecording(bytesOf([...this.#head, ...some]), this.#reader());
        return null;
      } catch (cause) {
        if (cause instanceof DataError) return cause;
        throw cause;
      }
    };
    let beside: readonly Row[] | null = null;
    for (let end = this.#rows.length; end > 0 && beside === null; end -= BESIDE) {
      const some = this.#rows.slice(Math.max(0, end - BESIDE), end);
      if (isTable(some) === null) beside = some;
    }
    if (beside === null) throw error;
    const good = beside;
    return rows.filter((row) => {
      const wrong = good.includes(row) ? null : isTable([...good, row, good.at(-1)!]);
      if (wrong !== null) this.#reject(row, wrong);
      return wrong === null;
    });
  }

  #reader(): Parameters<typeof readRecording>[1] {
    const { columns, time, key, select, tz, name } = this.#options;
    return { ...(columns.length === 0 ? {} : { columns }), time, key, select, tz, name };
  }

  #read(fresh: readonly Row[]): Recording {
    const { name: file, window } = this.#options;
    const all = [...this.#head, ...this.#rows, ...fresh];
    const table = readTimes(bytesOf(all), this.#reader());
    if (table.header === null)
      throw new DataError('no header; the first row names the columns where rows are followed', { file });
    if (table.time === null)
      throw new DataError('no column of time; rows that are followed need one (--time names it)', { file });
    if (table.origin === 'midnight')
      throw new DataError('clocks without dates; rows that are followed need their dates', { file });
    const lineOf = startsOf(all);
    const indexOf = new Map(lineOf.map((line, i) => [line, i]));
    const read = Array.from(table.lines, (line, r): Row => {
      return { ...all[indexOf.get(line)!]!, time: table.time![r]! };
    });
    const firstRow = indexOf.get(table.lines[0]!)!;
    const head = this.#head.length > 0 ? this.#head : all.slice(0, firstRow);
    const latest = this.#rows.at(-1)?.time ?? -Infinity;
    const kept = new Set(this.#rows.map(({ line }) => line));
    const added = read.filter(({ line }) => !kept.has(line));
    let largest = latest;
    const late = added.filter(({ time }) => {
      const before = time < largest;
      largest = Math.max(largest, time);
      return before;
    });
    const rows = read.filter(({ time }) => time >= this.#floor).sort((a, b) => a.time - b.time);
    const evicted = Math.max(0, rows.length - window);
    const next = rows.slice(evicted);
    const recording = readRecording(bytesOf([...head, ...next]), this.#reader());

    // All is well: from here on nothing fails.
    const dropped = late.filter(({ time }) => time < this.#floor);
    const isRow = new Set(read.map(({ line }) => line));
    const unread = fresh
      .slice(this.#head.length > 0 ? 0 : head.length)
      .filter(({ line }) => !isRow.has(line));
    this.tooLate += dropped.length;
    this.late += late.length - dropped.length;
    const sorted = late.find(({ time }) => time >= this.#floor);
    if (sorted !== undefined)
      this.say(
        'late',
        `Line ${sorted.line} is of an earlier time than rows before it; such rows are sorted in.`,
      );
    if (dropped.length > 0)
      this.say(
        'too-late',
        `Line ${dropped[0]!.line} is older than the window of ${window} samples; such rows are dropped and counted at the end.`,
      );
    // Comments and repeated headers are no rows; a last row that ends early is one that cannot be read.
    for (const row of unread) {
      if (/^\s*(#|\/\/|%)/.test(row.text) || head.some(({ text }) => text.trim() === row.text.trim()))
        continue;
      this.#reject(row, new DataError('it ends early'));
    }
    this.#head = head;
    this.#rows = next;
    if (evicted > 0) this.#floor = next[0]!.time;
    const input = new Map(startsOf([...head, ...next]).map((line, i) => [line, [...head, ...next][i]!.line]));
    return withLines(recording, input);
  }
}

/** The lines at which the rows begin in the text of all of them. */
function startsOf(rows: readonly Row[]): number[] {
  let next = 1;
  return rows.map(({ text }) => {
    const line = next;
    next += text.split('\n').length;
    return line;
  });
}

function rowAt(rows: readonly Row[], line: number): Row | undefined {
  const starts = startsOf(rows);
  return rows[starts.findLastIndex((start) => start <= line)];
}

const bytesOf = (rows: readonly Row[]): Uint8Array =>
  new TextEncoder().encode(`${rows.map(({ text }) => text).join('\n')}\n`);

/** The recording with the lines of the input instead of those of the text it was read from. */
function withLines(recording: Recording, input: ReadonlyMap<number, number>): Recording {
  return {
    ...recording,
    rows: recording.rows.map((line) => input.get(line) ?? -1),
    notes: recording.notes.map(({ code, text }) => ({
      code,
      text: text.replace(
        /\b(line) (\d+)\b/gi,
        (_, word, line) => `${word} ${input.get(Number(line)) ?? line}`,
      ),
    })),
  };
}

interface Known {
  readonly id: string;
  readonly column: string;
  readonly kind: string;
  readonly from: number;
  readonly to: number;
  /** As it was last seen while it is open; null where it is closed. */
  readonly open: ReportFinding | null;
}

function followed(one: ReportFinding, id: string): FollowedFinding {
  const { column, kind, direction, level, severity, from, to, durationSeconds, duration } = one;
  const { observed, expected, statement, ongoing, rows } = one;
  return {
    ...{ id, column, kind, direction, level, severity, from, to, durationSeconds, duration },
    ...{ observed, expected, statement, ongoing, rows },
  };
}

const overlaps = (one: ReportFinding, old: Known): boolean =>
  old.column === one.column && old.from <= one.to!.ms && one.from!.ms <= old.to;

/**
 * What is to be told of the findings of a window, and what is known from then on. A finding is the one of its column that lay where it
 * lies, so that one that grew is not new; those that were over before the window began are forgotten.
 *
 * @param begins first time of the window in ms
 */
function compare(
  findings: readonly ReportFinding[],
  known: readonly Known[],
  begins: number,
): { events: FollowEvent[]; known: Known[] } {
  const events: FollowEvent[] = [];
  const updated = known.map((old): Known => {
    if (old.open === null) {
      // It may have grown since.
      const to = Math.max(old.to, ...findings.filter((one) => overlaps(one, old)).map((one) => one.to!.ms));
      return { ...old, to };
    }
    const here = findings.filter((one) => overlaps(one, old));
    const now = here.find(({ ongoing }) => ongoing) ?? here.find(({ kind }) => kind === old.kind) ?? here[0];
    if (now === undefined) {
      events.push({
        event: 'closed',
        reason: 'withdrawn',
        ...followed({ ...old.open, ongoing: false }, old.id),
      });
      return { ...old, open: null };
    }
    const seen = { ...old, from: Math.min(old.from, now.from!.ms), to: Math.max(old.to, now.to!.ms) };
    if (now.ongoing) return { ...seen, open: now };
    events.push({ event: 'closed', reason: 'over', ...followed(now, old.id) });
    return { ...seen, open: null };
  });
  const fresh = findings.filter((one) => !known.some((old) => old.id === one.id || overlaps(one, old)));
  for (const one of [...fresh].sort((a, b) => a.from!.ms - b.from!.ms)) {
    events.push({ event: 'open', ...followed(one, one.id) });
    if (!one.ongoing) events.push({ event: 'closed', reason: 'over', ...followed(one, one.id) });
    const { id, column, kind } = one;
    updated.push({ id, column, kind, from: one.from!.ms, to: one.to!.ms, open: one.ongoing ? one : null });
  }
  return { events, known: updated.filter(({ to, open }) => open !== null || to >= begins) };
}

/**
 * Tells findings of rows as they come, each once when it appears and once when it is over. Memory does not grow with the stream.
 *
 * @param tell gets what is to be told, and what is known then: for a state file
 * @throws DataError for a stream that is no table with a header and a time; ConfigError for options out of range
 */
export async function follow(
  chunks: AsyncIterable<Uint8Array>,
  options: FollowOptions,
  tell: (event: FollowEvent) => void,
  remember: (state: ReportState) => void = () => {},
): Promise<void> {
  const { window, severity, direction, absoluteFloor, relativeFloor } = options;
  const judged = { severity, direction, absoluteFloor, relativeFloor } as Omit<
    DetectOptions,
    'calendar' | 'clock'
  >;
  const { every, delay, first } = pace(options);
  tell({ event: 'start', schema: 'timeseer.follow', version: 1, window, every, delay, first });
  const kept = new Window(options, tell);
  let known: readonly Known[] = Object.entries(
    options.state?.timed === false ? {} : (options.state?.seen ?? {}),
  ).map(([id, seen]) => ({ id, ...seen, open: null }));
  let batch: Row[] = [];
  let [rows, next, cost, last] = [0, first, 0, performance.now()];
  const judge = async (): Promise<void> => {
    const started = performance.now();
    const recording = kept.add(batch);
    batch = [];
    if (recording === null) return;
    for (const { code, text } of recording.notes) kept.say(code, text);
    const { report } = await detectRecording(options.name, recording, judged);
    const { events, known: now } = compare(report.findings, known, report.from!.ms);
    for (const event of events) tell(event);
    known = now;
    if (events.length > 0) {
      const seen = known.map(({ id, column, kind, from, to }) => [id, { column, kind, from, to }] as const);
      remember({
        schema: 'timeseer.anomalies.state',
        version: 1,
        timed: true,
        seen: Object.fromEntries(seen),
      });
    }
    last = performance.now();
    cost = last - started;
  };
  for await (const row of rowsOf(chunks, options.name)) {
    batch.push(row);
    rows++;
    if (batch.length < next) continue;
    // Rows that come faster than they are judged are judged in larger parts.
    if (batch.length < delay && performance.now() - last < cost) continue;
    await judge();
    next = every;
  }
  if (batch.length > 0) await judge();
  for (const { open, id } of known)
    if (open !== null) tell({ event: 'closed', reason: 'input ended', ...followed(open, id) });
  tell({ event: 'end', rows, bad: kept.bad, late: kept.late, tooLate: kept.tooLate });
}
