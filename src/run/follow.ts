/**
 * Findings of a recording that grows: rows come in, an event goes out as soon as something is known. The first rows decide how all are
 * read; later rows are read once and kept as numbers, the latest of them, which are judged anew every so many rows.
 */
import { performance } from 'node:perf_hooks';
import { openRows, type Recording, type RowReader } from '../../datasets/readers/recording.ts';
import type { ReportFinding, ReportState, SeenFinding } from '../explain/schema.ts';
import { isSame, seenIn, spanOf, stateOf } from '../explain/state.ts';
import { ConfigError, DataError } from '../ground/errors.ts';
import { type DetectRequest, detectRecording, type PipelineOptions } from './detect.ts';

export interface FollowOptions extends Omit<DetectRequest, 'file'> {
  /** Name of the input in messages. */
  readonly name: string;
  /** Samples that are kept and judged, 50 to 100 000. */
  readonly window: number;
  /**
   * New samples after which the window is judged; default: a 200th of the window, more where rows come faster than they are judged.
   */
  readonly every: number | undefined;
  /** Findings that were reported before. */
  readonly state: ReportState | null;
}

/** Fields of a finding that an event leaves out, as they depend on the window or explain the finding. */
type OfWindow = 'rank' | 'start' | 'end' | 'peak' | 'before' | 'stepped' | 'stated' | 'similar' | 'event';
/** Finding as an event has it. */
export type FollowedFinding = Omit<ReportFinding, OfWindow | 'evidence' | 'lasting' | 'markedByPolicy'>;

export type FollowEvent =
  | {
      readonly event: 'start';
      readonly schema: 'timeseer.follow';
      readonly version: 1;
      readonly window: number;
      readonly every: number;
      /** Largest number of samples from the last one of a cause to its event. */
      readonly delay: number;
      /** Samples before the window is judged for the first time. */
      readonly first: number;
    }
  | { readonly event: 'note'; readonly code: string; readonly text: string }
  | ({ readonly event: 'open' } & FollowedFinding)
  | ({
      readonly event: 'closed';
      /** `withdrawn`: later samples show that it is not unusual; `input ended`: it lasts until the last row. */
      readonly reason: 'over' | 'withdrawn' | 'input ended';
    } & FollowedFinding)
  | {
      readonly event: 'end';
      readonly rows: number;
      readonly bad: number;
      /** Rows that came after later ones and were sorted in. */
      readonly late: number;
      /** Rows older than the window, dropped. */
      readonly tooLate: number;
    };

export const DEFAULT_WINDOW = 20_000;
const [FEWEST, MOST] = [50, 100_000];
/** Samples before the first judgement: fewer do not show what is usual. */
const WARM_UP = 200;
/** Default parts of the window after which it is judged, and after which it is judged at the latest. */
const [PARTS, LEAST_PARTS] = [200, 4];
/** Lines of one row, with line breaks in quotes. */
const MOST_LINES = 20;
const LONGEST_ROW = 1 << 20;
/** Wrong rows of a batch that are found by the reader's message; of more, each row is read alone. */
const SEARCHED = 8;

/** A row as it comes. */
interface TextRow {
  readonly text: string;
  /** Its first line in the input, from 1. */
  readonly line: number;
}

/** A row as it is kept. */
interface Row {
  readonly line: number;
  readonly time: number; // ms
  /** One value for each column; NaN where missing. */
  readonly values: readonly number[];
}

/** Computes how often the window is judged. @throws ConfigError for what is out of range */
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

/** Splits a text that comes in parts into rows: lines, or several where a quoted field has line breaks; blank ones are left out. */
async function* rowsOf(chunks: AsyncIterable<Uint8Array>, name: string): AsyncGenerator<TextRow> {
  let decoder: InstanceType<typeof TextDecoder> | null = null;
  let rest = '';
  let line = 0;
  let open: TextRow[] = [];
  const quoted = (rows: readonly TextRow[]): boolean =>
    rows.reduce((count, { text }) => count + text.split('"').length - 1, 0) % 2 === 1;
  function* take(text: string): Generator<TextRow> {
    line++;
    if (text.trim() === '' && open.length === 0) return;
    open.push({ text, line });
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
  #reader: RowReader | null = null;
  /** Texts above the first row: the header, and what stands before it. */
  #head: readonly string[] = [];
  #rows: Row[] = [];
  /** Rows before this time come too late. */
  #floor = -Infinity;
  readonly #noted = new Set<string>();
  readonly #options: FollowOptions;
  readonly #tell: (event: FollowEvent) => void;

  constructor(options: FollowOptions, tell: (event: FollowEvent) => void) {
    this.#options = options;
    this.#tell = tell;
  }

  /**
   * Adds new rows, and returns the recording of the window; null where it has fewer than two rows.
   * @throws DataError for first rows that are no table with a header and a time; ConfigError
   */
  add(batch: readonly TextRow[]): Recording | null {
    if (this.#reader === null && batch.length < 2) return null;
    const fresh = this.#read(batch);
    const { window } = this.#options;
    let latest = this.#rows.at(-1)?.time ?? -Infinity;
    const late = fresh.filter(({ time }) => {
      const before = latest;
      latest = Math.max(latest, time);
      return time < before;
    });
    const dropped = late.filter(({ time }) => time < this.#floor);
    this.tooLate += dropped.length;
    this.late += late.length - dropped.length;
    const sorted = late.find(({ time }) => time >= this.#floor);
    if (sorted !== undefined)
      this.note(
        'late',
        `Line ${sorted.line} is of an earlier time than rows before it; such rows are sorted in.`,
      );
    if (dropped.length > 0)
      this.note(
        'too-late',
        `Line ${dropped[0]!.line} is older than the window of ${window} samples; such rows are dropped and counted at the end.`,
      );
    const rows = [...this.#rows, ...fresh.filter(({ time }) => time >= this.#floor)];
    if (late.length > dropped.length) rows.sort((a, b) => a.time - b.time);
    this.#rows = rows.slice(Math.max(0, rows.length - window));
    if (rows.length > window) this.#floor = this.#rows[0]!.time;
    if (this.#rows.length < 2) return null;
    return this.#reader!.recording({
      time: Float64Array.from(this.#rows, ({ time }) => time),
      values: this.#rows[0]!.values.map((_, c) => Float64Array.from(this.#rows, ({ values }) => values[c]!)),
      lines: Int32Array.from(this.#rows, ({ line }) => line),
    });
  }

  note(code: string, text: string): void {
    if (this.#noted.has(code)) return;
    this.#noted.add(code);
    this.#tell({ event: 'note', code, text });
  }

  #reject(row: TextRow, error: DataError): void {
    this.bad++;
    const place = [error.file, error.line, error.column].filter((part) => part !== undefined).join(':');
    const reason = error.message.startsWith(`${place}: `)
      ? error.message.slice(place.length + 2)
      : error.message;
    this.note(
      'bad-row',
      `Line ${row.line} was left out: ${reason}. Other rows that cannot be read are counted at the end.`,
    );
  }

  /** Reads the rows that can be read, and counts the others. */
  #read(batch: readonly TextRow[]): Row[] {
    const isFirst = this.#reader === null;
    let rows = [...batch];
    const most = isFirst ? Math.max(1, batch.length >> 1) : SEARCHED;
    for (let tries = 0; rows.length > 0; tries++) {
      try {
        return this.#parse(rows);
      } catch (error) {
        if (!(error instanceof DataError)) throw error;
        const wrong =
          error.line === undefined
            ? undefined
            : rows[startsOf(rows).findLastIndex((line) => line <= error.line!)];
        if (tries < most && wrong !== undefined && !(isFirst && wrong === rows[0])) {
          rows = rows.filter((row) => row !== wrong);
          this.#reject(wrong, error);
        } else if (isFirst) throw error;
        else return rows.flatMap((row) => this.#alone(row));
      }
    }
    return [];
  }

  #alone(row: TextRow): Row[] {
    try {
      return this.#parse([row]);
    } catch (error) {
      if (!(error instanceof DataError)) throw error;
      this.#reject(row, error);
      return [];
    }
  }

  #parse(batch: readonly TextRow[]): Row[] {
    const text = `${batch.map((row) => row.text).join('\n')}\n`;
    const { columns, time, key, select, tz, name } = this.#options;
    const options = { ...(columns.length === 0 ? {} : { columns }), time, key, select, tz, name };
    const reader = this.#reader ?? openRows(new TextEncoder().encode(text), options);
    const rows = this.#reader === null ? reader.first : reader.read(text);
    const lineOf = new Map(startsOf(batch).map((line, i) => [line, batch[i]!]));
    if (this.#reader === null) {
      const first = lineOf.get(rows.read[0]!)!;
      this.#head = batch.slice(0, batch.indexOf(first)).map((row) => row.text.trim());
    }
    // Comments and repeated headers are no rows; a last row that ends early is one that cannot be read.
    const read = new Set(Array.from(rows.read, (line) => lineOf.get(line)));
    const unread = batch.slice(this.#reader === null ? this.#head.length : 0).filter((row) => !read.has(row));
    this.#reader = reader;
    for (const row of unread)
      if (!/^\s*(#|\/\/|%)/.test(row.text) && !this.#head.includes(row.text.trim()))
        this.#reject(row, new DataError('it ends early'));
    return Array.from(rows.time, (ms, i) => ({
      line: lineOf.get(rows.lines[i]!)!.line,
      time: ms,
      values: rows.values.map((values) => values[i]!),
    }));
  }
}

/** Lines at which the rows begin in the text of all of them. */
function startsOf(rows: readonly TextRow[]): number[] {
  let next = 1;
  return rows.map(({ text }) => {
    const line = next;
    next += text.split('\n').length;
    return line;
  });
}

/** A finding that was reported; open: as it was last seen, null once it is closed. */
interface Known extends SeenFinding {
  readonly id: string;
  readonly open: ReportFinding | null;
}

function followed(finding: ReportFinding, id: string): FollowedFinding {
  const { column, kind, direction, level, severity, from, to, durationSeconds, duration } = finding;
  const { observed, expected, statement, ongoing, rows } = finding;
  return {
    ...{ id, column, kind, direction, level, severity, from, to, durationSeconds, duration },
    ...{ observed, expected, statement, ongoing, rows },
  };
}

/**
 * Compares the findings of a window with those that were reported: the events, and the findings known from then on. Those that were over
 * before the window began are forgotten.
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
      const to = Math.max(
        old.to,
        ...findings.filter((finding) => isSame(finding, old)).map((finding) => spanOf(finding).to),
      );
      return { ...old, to };
    }
    const here = findings.filter((finding) => isSame(finding, old));
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
  const fresh = findings.filter((finding) => !known.some((old) => isSame(finding, old)));
  for (const finding of [...fresh].sort((a, b) => a.from!.ms - b.from!.ms)) {
    events.push({ event: 'open', ...followed(finding, finding.id) });
    if (!finding.ongoing) events.push({ event: 'closed', reason: 'over', ...followed(finding, finding.id) });
    const { id, column, kind } = finding;
    updated.push({ id, column, kind, ...spanOf(finding), open: finding.ongoing ? finding : null });
  }
  return { events, known: updated.filter(({ to, open }) => open !== null || to >= begins) };
}

/**
 * Reports findings of rows as they come, each once when it appears and once when it is over. Memory does not grow with the stream.
 *
 * @param remember gets the findings known after each report, for a state file
 * @throws DataError for a stream that is no table with a header and a time; ConfigError for options out of range
 */
export async function follow(
  chunks: AsyncIterable<Uint8Array>,
  options: FollowOptions,
  tell: (event: FollowEvent) => void,
  remember: (state: ReportState) => void = () => {},
): Promise<void> {
  const { window, severity, direction, absoluteFloor, relativeFloor } = options;
  const judged = { severity, direction, absoluteFloor, relativeFloor } as PipelineOptions;
  const { every, delay, first } = pace(options);
  tell({ event: 'start', schema: 'timeseer.follow', version: 1, window, every, delay, first });
  const kept = new Window(options, tell);
  let known: readonly Known[] = seenIn(options.state, true).map((seen) => ({ ...seen, open: null }));
  let batch: TextRow[] = [];
  let [rows, next, cost, last] = [0, first, 0, performance.now()];
  const judge = async (): Promise<void> => {
    const started = performance.now();
    const recording = kept.add(batch);
    batch = [];
    if (recording === null) return;
    for (const { code, text } of recording.notes) kept.note(code, text);
    const { report } = await detectRecording(options.name, recording, judged);
    const { events, known: now } = compare(report.findings, known, report.from!.ms);
    for (const event of events) tell(event);
    known = now;
    if (events.length > 0) remember(stateOf(true, known));
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
