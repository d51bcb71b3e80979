/**
 * Findings of a recording that grows: rows come in, an event goes out as soon as something is known. The first rows decide how all are
 * read; later rows are read once and kept as numbers, the latest of them, which are judged anew every so many rows.
 */
import { performance } from 'node:perf_hooks';
import { isHeader } from '../../datasets/readers/csv.ts';
import { openRows, type Recording, type RowReader } from '../../datasets/readers/recording.ts';
import { DEFAULT_SEVERITY } from '../detect/detect.ts';
import { LEVELS } from '../detect/finding.ts';
import type { FollowedFinding, FollowedRows, ReportState, WatchedFinding } from '../explain/schema.ts';
import { seenIn, stateOf } from '../explain/state.ts';
import { ConfigError, DataError } from '../ground/errors.ts';
import { plural } from '../ground/numbers.ts';
import { median } from '../series/stats.ts';
import { type DetectRequest, detectRecording, type PipelineOptions, readingOf } from './detect.ts';
import { compare, evidenceWanted, type IncidentEvent, type Judged, type Known, weigh } from './incidents.ts';
import { Weeks } from './weeks.ts';

export interface FollowOptions extends Omit<DetectRequest, 'file' | 'window'> {
  /** Name of the input in messages. */
  readonly name: string;
  /** Samples that are kept and judged, 50 to 100 000. */
  readonly window: number;
  /**
   * New samples after which the window is judged; default: a 200th of the window, more where rows come faster than they are judged.
   */
  readonly every: number | undefined;
  /** Findings that an earlier run reported, and the rows that it kept. */
  readonly state: ReportState | null;
}

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
      /** Findings that an earlier run left open. */
      readonly open: readonly FollowedFinding[];
    }
  | IncidentEvent
  | {
      readonly event: 'end';
      readonly rows: number;
      readonly bad: number;
      /** Rows that came after later ones and were sorted in. */
      readonly late: number;
      /** Rows older than the window, dropped. */
      readonly tooLate: number;
      /** Rows that an earlier run has read already. */
      readonly known: number;
      /** Findings that are still open: the next run with the same state goes on with them. */
      readonly open: readonly FollowedFinding[];
    };

export const DEFAULT_WINDOW = 20_000;
const [FEWEST, MOST] = [50, 100_000];
/** Samples before the first judgement: fewer do not show what is usual. */
const WARM_UP = 200;
/** Severity and level of a finding, at most, in a window that holds less than three days, and less than two weeks. */
const CAPPED = { severity: 3.9, level: 'medium' } as const;
const CAPPED_SHORT = { severity: 7.9, level: 'high' } as const;
/** Two weeks in ms. */
const LONG = 14 * 86_400_000;
/** Default parts of the window after which it is judged, and after which it is judged at the latest. */
const [PARTS, LEAST_PARTS] = [200, 4];
/** Parts in which the rest of an input that ends is judged, at most. */
const LAST_PARTS = 8;
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
  /** Samples after which the window is judged at the latest. */
  most: number;
  delay: number;
  first: number;
} {
  if (!Number.isInteger(window) || window < FEWEST || window > MOST)
    throw new ConfigError(`--window: expected ${FEWEST} to ${MOST} samples, got ${window}`);
  if (every !== undefined && (!Number.isInteger(every) || every < 1 || every > window))
    throw new ConfigError(`--every: expected 1 to ${window} samples, as many as the window, got ${every}`);
  const chosen = every ?? Math.ceil(window / PARTS);
  const most = every ?? Math.ceil(window / LEAST_PARTS);
  const delay = most + evidenceWanted(window, chosen);
  return { every: chosen, most, delay, first: Math.max(chosen, Math.min(window, WARM_UP)) };
}

/**
 * Samples after which a window is judged for the first time: three cycles, which show a season, of a day where the window holds three days,
 * else of an hour. `days`: samples of three days; `capped`: the window does not hold them.
 */
function samplesWanted(
  recording: Recording,
  window: number,
): { readonly first: number; readonly days: number; readonly capped: boolean } {
  const [hour = 0, day = 0] = [1, 24].map((hours) =>
    recording.step === null ? 0 : (hours * 3_600_000) / recording.step,
  );
  const days = Math.ceil(3 * day);
  const capped = day >= 3 && days > window;
  return { first: Math.min(window, capped ? Math.ceil(3 * hour) : days), days, capped };
}

/** Splits a text that comes in parts into rows: lines, or several where a quoted field has line breaks; blank ones are left out. */
async function* rowsOf(chunks: AsyncIterable<Uint8Array>, name: string): AsyncGenerator<TextRow> {
  let decoder: InstanceType<typeof TextDecoder> | null = null;
  let rest = '';
  let line = 0;
  let open: TextRow[] = [];
  // A quote that JSON or line protocol escapes is none.
  const plain = (text: string): string =>
    /^\s*\{|=.* -?\d+\s*$/.test(text) ? text.replaceAll(/\\./g, '') : text;
  const quoted = (rows: readonly TextRow[]): boolean =>
    rows.reduce((count, { text }) => count + plain(text).split('"').length - 1, 0) % 2 === 1;
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

/** Steps between two rows from which the later one has to be confirmed by the next row. */
const LEAP = 200;

type KeptRow = FollowedRows['rows'][number];
const keptRow = ({ line, time, values }: Row): KeptRow => [
  ...([line, time] as const),
  ...values.map((value) => (Number.isNaN(value) ? null : value)),
];
const rowOf = ([line, time, ...values]: KeptRow): Row => ({
  ...{ line, time },
  values: values.map((value) => value ?? Number.NaN),
});

const hasValue = ({ values }: Row): boolean => values.some((value) => !Number.isNaN(value));

/** Row with a usual name of a column of time. */
const TIME = /(?:^|[,;\t|])"?[@_]?(?:time|timestamp|date|datetime|ts)"?(?:[,;\t|]|$)/i;
/** Fewest rows by which a state is told to belong to another stream. */
const FEWEST_CHANGED = 3;

/** The latest rows of a stream, by time. */
class Window {
  bad = 0;
  late = 0;
  tooLate = 0;
  known = 0;
  #reader: RowReader | null = null;
  /** Texts above the first row: the header, and what stands before it. */
  #head: readonly string[] = [];
  #first = '';
  #rows: Row[] = [];
  /** Row far ahead of all others, until the next one confirms it. */
  #ahead: Row | null = null;
  /** Rows before this time come too late. */
  #floor = -Infinity;
  /** Values of the rows that an earlier run kept, by time. */
  readonly #earlier = new Map<number, readonly number[]>();
  readonly #noted = new Set<string>();
  /** True once a row of this run was read. */
  #met = false;
  /** Rows that an earlier run kept, if it read them with the same options. */
  readonly restored: FollowedRows | null = null;
  readonly #options: FollowOptions;
  readonly #tell: (event: FollowEvent) => void;

  constructor(options: FollowOptions, tell: (event: FollowEvent) => void) {
    this.#options = options;
    this.#tell = tell;
    const kept = options.state?.followed;
    if (kept === undefined) return;
    if (kept.read !== this.#asked) {
      this.note(
        'other-options',
        'The state was written with other options of reading; its rows are left out.',
      );
      return;
    }
    this.restored = kept;
    this.#parse(kept.first.split('\n').map((text, i) => ({ text, line: i + 1 })));
    this.#rows = kept.rows.map(rowOf).slice(-options.window);
    this.#ahead = kept.ahead === undefined ? null : rowOf(kept.ahead);
    for (const { time, values } of [...this.#rows, ...(this.#ahead === null ? [] : [this.#ahead])])
      this.#earlier.set(time, values);
    this.#floor = this.#rows[0]?.time ?? -Infinity;
  }

  /** Options by which rows are read, as JSON. */
  get #asked(): string {
    const { columns, time, key, select, tz, decimal } = this.#options;
    const more = decimal === undefined ? [] : [decimal];
    return JSON.stringify([columns, time ?? null, key ?? null, select ?? null, tz ?? null, ...more]);
  }

  /** True once the header and the first rows were read. */
  get isOpen(): boolean {
    return this.#reader !== null;
  }

  /** Number of rows kept. */
  get size(): number {
    return this.#rows.length;
  }

  /** Rows of the window, with which a later run goes on. */
  get kept(): FollowedRows {
    const ahead = this.#ahead === null ? {} : { ahead: keptRow(this.#ahead) };
    return { read: this.#asked, first: this.#first, rows: this.#rows.map(keptRow), ...ahead };
  }

  /**
   * Adds new rows, and returns the recording of the window; null where it has fewer than two rows.
   * @throws DataError for first rows that are no table with a header and a time; ConfigError
   */
  add(batch: readonly TextRow[]): Recording | null {
    // A header and one row are no recording yet.
    if (this.#reader === null && batch.length < 3) return null;
    const { bad, isOpen } = this;
    const read = this.#read(batch);
    const isEmpty = this.#noted.has('new-key') && !read.some(hasValue);
    if (isOpen && batch.length >= FEWEST_CHANGED && (isEmpty || this.bad - bad === batch.length)) {
      const what = `none of ${batch.length} rows from line ${batch[0]!.line} on is like those before`;
      if (this.restored !== null && !this.#met)
        throw new ConfigError(`--state: belongs to another stream: ${what}; give each stream its own`);
      this.note(
        'other-form',
        `The form of the input has changed: ${what}; start again, with another --state, to follow the new one.`,
      );
    } else this.#met = true;
    const fresh = this.#plausible(read);
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
        `Line ${dropped[0]!.line} is older than the rows that are kept (${window} at most); such rows are dropped and counted at the end.`,
      );
    const rows = [...this.#rows, ...fresh.filter(({ time }) => time >= this.#floor)];
    if (late.length > dropped.length) rows.sort((a, b) => a.time - b.time);
    this.#rows = rows.slice(Math.max(0, rows.length - window));
    this.#floor = this.#rows[0]?.time ?? -Infinity;
    if (this.#rows.length < 2) return null;
    return this.#reader!.recording({
      time: Float64Array.from(this.#rows, ({ time }) => time),
      values: this.#rows[0]!.values.map((_, c) => Float64Array.from(this.#rows, ({ values }) => values[c]!)),
      lines: Int32Array.from(this.#rows, ({ line }) => line),
    });
  }

  /** Leaves out rows that an earlier run has read, and rows whose time would open a gap although nothing was measured then. */
  #plausible(fresh: readonly Row[]): Row[] {
    let changed = 0;
    const rows = fresh.filter(({ time, values }) => {
      const earlier = this.#earlier.get(time);
      const again = earlier !== undefined && values.every((value, c) => Object.is(value, earlier[c]));
      if (again) this.known++;
      else if (earlier !== undefined) changed++;
      return !again;
    });
    if (changed >= FEWEST_CHANGED && this.known === 0)
      throw new ConfigError(
        `--state: belongs to another stream: ${changed} rows have times of rows that it keeps, and other values; give each stream its own --state`,
      );
    const last = this.#rows.at(-1);
    const [earliest = rows[0]] = this.#rows;
    if (earliest === undefined || (last === undefined && rows.length < 3)) return rows;
    const leap =
      last === undefined
        ? LEAP * median(Float64Array.from(rows.slice(1), ({ time }, i) => Math.abs(time - rows[i]!.time)))
        : (LEAP * (last.time - earliest.time)) / Math.max(1, this.#rows.length - 1);
    let latest = last?.time ?? rows[0]!.time;
    // A stray first row is far ahead of the second.
    if (last === undefined && latest > rows[1]!.time + leap) latest = rows[1]!.time;
    const kept: Row[] = [];
    for (const row of rows) {
      const leaps = leap > 0 && row.time > latest + leap;
      if (!hasValue(row) && (leaps || row.time < latest)) {
        this.bad++;
        continue;
      }
      const held = this.#ahead;
      this.#ahead = null;
      if (held !== null && row.time >= held.time) {
        kept.push(held);
        latest = held.time;
      } else if (held !== null) {
        this.bad++;
        this.note(
          'stray-row',
          `Line ${held.line} was left out: its time is far ahead of the rows before and after it.`,
        );
      }
      if (leap > 0 && row.time > latest + leap) {
        this.#ahead = row;
        continue;
      }
      latest = Math.max(latest, row.time);
      kept.push(row);
    }
    return kept;
  }

  note(code: string, text: string): void {
    if (this.#noted.has(code)) return;
    this.#noted.add(code);
    this.#tell({ event: 'note', code, text });
  }

  #reject(row: TextRow, error: DataError): void {
    this.bad++;
    const head = this.#head.at(-1);
    if (head !== undefined && TIME.test(row.text) && isHeader(row.text.split(/[,;\t|]/)))
      throw new ConfigError(
        `line ${row.line}: another header (${row.text.trim()}) than before (${head}); start again, with another --state`,
      );
    this.note(
      'bad-row',
      `Line ${row.line} was left out: ${error.problem}. Other rows that cannot be read are counted at the end.`,
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
    const options = { ...readingOf(this.#options), name: this.#options.name };
    const reader = this.#reader ?? openRows(new TextEncoder().encode(text), options);
    const rows = this.#reader === null ? reader.first : reader.read(text);
    const lineOf = new Map(startsOf(batch).map((line, i) => [line, batch[i]!]));
    if (this.#reader === null) {
      const first = lineOf.get(rows.read[0]!)!;
      this.#head = batch.slice(0, batch.indexOf(first)).map((row) => row.text.trim());
      this.#first = batch.map((row) => row.text).join('\n');
    }
    // Comments and repeated headers are no rows; a last row that ends early is one that cannot be read.
    const read = new Set(Array.from(rows.read, (line) => lineOf.get(line)));
    const unread = batch.slice(this.#reader === null ? this.#head.length : 0).filter((row) => !read.has(row));
    this.#reader = reader;
    for (const row of unread)
      if (!/^\s*(#|\/\/|%)/.test(row.text) && !this.#head.includes(row.text.trim()))
        this.#reject(row, new DataError('it ends early, or is of another form'));
    for (const { kind, text: words } of rows.notes) this.note(kind, words);
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

/**
 * Reports findings of rows as they come, each once when it appears and once when it is over. The end of the input closes nothing. Memory
 * does not grow with the stream.
 *
 * @param remember gets findings and rows after each judgement, for a state file
 * @throws DataError for a stream that is no table with a header and a time; ConfigError for options out of range
 */
export async function follow(
  chunks: AsyncIterable<Uint8Array>,
  options: FollowOptions,
  tell: (event: FollowEvent) => void,
  remember?: (state: ReportState) => void,
): Promise<void> {
  const { window, severity, direction, absoluteFloor, relativeFloor } = options;
  // What is open stays open while any trace of it is left: severities of a stretch vary as the window moves.
  const judged = { severity: LEVELS.low, direction, absoluteFloor, relativeFloor } as PipelineOptions;
  const { every, most, delay, first } = pace(options);
  let known: readonly Known[] = seenIn(options.state, true);
  const stillOpen = (): FollowedFinding[] => known.flatMap(({ open }) => open ?? []);
  tell({
    event: 'start',
    schema: 'timeseer.follow',
    version: 1,
    window,
    every,
    delay,
    first,
    open: stillOpen(),
  });
  const kept = new Window(options, tell);
  let batch: TextRow[] = [];
  let [rows, judgements, cost, last] = [0, 0, 0, performance.now()];
  let next = Math.max(every, first - kept.size);
  let watched: readonly WatchedFinding[] = kept.restored?.watched ?? [];
  const weeks = new Weeks(kept.restored?.hours);
  const now = (): ReportState => ({
    ...stateOf(true, known),
    followed: { ...kept.kept, watched: [...watched], hours: weeks.kept },
  });
  /** @param isPart true: more rows are there, which may show that a finding is none; it is watched, and nothing is told */
  const judge = async (isLast = false, isPart = false): Promise<void> => {
    const started = performance.now();
    const recording = kept.add(batch);
    const added = judgements === 0 ? every : Math.max(every, batch.length);
    batch = [];
    if (recording === null) return;
    for (const { kind, text } of recording.notes) kept.note(kind, text);
    const wanted = samplesWanted(recording, window);
    if (kept.size < wanted.first) {
      kept.note(
        'first-cycles',
        `The first ${wanted.first} samples show what is usual; findings are reported from then on.`,
      );
      remember?.(now());
      return;
    }
    if (wanted.capped)
      kept.note(
        'short-window',
        `The window of ${window} samples holds less than three days, so that a usual day may look like a change: no level is higher than medium. --window ${wanted.days} holds three days.`,
      );
    const { report } = await detectRecording(options.name, recording, judged);
    const [from, to] = [report.from!.ms, report.to!.ms];
    const step = recording.step ?? (to - from) / Math.max(1, kept.size - 1);
    const long = to - from >= LONG;
    if (!wanted.capped && !long)
      kept.note(
        'no-week',
        `The rows that are kept cover less than two weeks, so that a usual week may look like a change: no level is higher than high, and usual values at an unusual time are reported once they were found for ${evidenceWanted(window, every)} samples, on the first weekend and the day after it not at all.`,
      );
    const cap = wanted.capped ? CAPPED : long ? null : CAPPED_SHORT;
    const findings = report.findings.map((finding) =>
      cap !== null && finding.severity > cap.severity ? { ...finding, ...cap } : finding,
    );
    const { time, columns } = recording;
    weeks.add(recording);
    const shown: Judged = { from, to, step, every: added, long, time: time!, columns, weeks };
    const finished = isLast && remember === undefined;
    const weighed = weigh(findings, known, watched, shown, severity ?? DEFAULT_SEVERITY, finished);
    watched = weighed.watched;
    judgements++;
    if (isPart) return;
    const compared = compare(findings, known, weighed.ready, shown);
    for (const event of compared.events) tell(event);
    known = compared.known;
    remember?.(now());
    last = performance.now();
    cost = last - started;
  };
  for await (const row of rowsOf(chunks, options.name)) {
    batch.push(row);
    rows++;
    if (batch.length < next) continue;
    // Rows that come faster than they are judged are judged in larger parts.
    if (batch.length < most && performance.now() - last < cost) continue;
    await judge();
    next = every;
  }
  // What came faster than it was judged, such as a file, is judged in parts: later ones confirm what earlier ones find.
  const rest = batch;
  const part = kept.isOpen ? Math.max(every, Math.ceil(rest.length / LAST_PARTS)) : rest.length;
  for (let at = 0; at < rest.length; at += part) {
    batch = rest.slice(at, at + part);
    const isPart = at + part < rest.length;
    await judge(!isPart, isPart);
  }
  if (rest.length === 0 && judgements > 0) await judge(true);
  if (!kept.isOpen)
    kept.note(
      'no-rows',
      `Nothing was analysed: the input had ${plural(rows, 'line')}, of at least three (a header and two rows).`,
    );
  const { bad, late, tooLate, known: read } = kept;
  tell({ event: 'end', rows, bad, late, tooLate, known: read, open: stillOpen() });
}
