/**
 * Progress on stderr: a live bar on a terminal, a line every few seconds elsewhere (logs, CI). Shows share
 * done, recent rate, time left, and values such as the loss.
 */
import { SingleBar } from 'cli-progress';
import { forPeople, tell } from './terminal.ts';

/** Output stream of progress, such as process.stderr. */
interface ProgressStream extends NodeJS.WritableStream {
  readonly isTTY?: boolean;
  readonly columns?: number;
}

export interface ProgressOptions {
  /** Label at the start of the line: 'sft'. */
  readonly label: string;
  /** Units until the end; > 0. Null where it is not known beforehand: then what is done and the rate are shown. */
  readonly total: number | null;
  /** Units that a resumed run has already done. */
  readonly done?: number;
  /** Name of a unit for the rate: 'samples' → 250 samples/s. */
  readonly unit?: string;
  /** Writes nothing at all. */
  readonly silent?: boolean;
  readonly stream?: ProgressStream;
  /** Least time between two plain lines, in ms. */
  readonly every?: number;
  /** Clock in ms. */
  readonly now?: () => number;
}

type ProgressValues = Readonly<Record<string, number | string>>;

const BAR_WIDTH = 20;
/** Span that the rate is taken over: long enough to be calm, short enough to be current. */
const WINDOW_MS = 10_000;

/** Formats seconds as a timer: 7 s, 1:05, 2:03:09. */
export function timerText(seconds: number): string {
  if (!Number.isFinite(seconds)) return '?';
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  const two = (n: number): string => String(n).padStart(2, '0');
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60) % 60;
  return hours > 0 ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

/** Three significant digits, integers as they are. */
export function formatValue(value: number | string): string {
  if (typeof value === 'string') return value;
  if (Number.isInteger(value)) return String(value);
  const size = Math.abs(value);
  return size >= 100
    ? value.toFixed(0)
    : size >= 1e-3
      ? String(Number(value.toPrecision(3)))
      : value.toExponential(1);
}

export class Progress {
  readonly #label: string;
  readonly #total: number | null;
  readonly #unit: string;
  readonly #stream: ProgressStream;
  readonly #every: number;
  readonly #now: () => number;
  readonly #bar: SingleBar | undefined;
  readonly #silent: boolean;
  readonly #start: number;
  readonly #first: number;
  /** Recent (time, done) pairs, oldest first; always at least one. */
  #recent: [time: number, done: number][];
  #done: number;
  #values: ProgressValues = {};
  #lastLine: number;
  #stopped = false;

  constructor(options: ProgressOptions) {
    this.#label = options.label;
    this.#total = options.total === null ? null : Math.max(1, options.total);
    this.#unit = options.unit ?? '';
    this.#stream = options.stream ?? process.stderr;
    this.#every = options.every ?? 5_000;
    this.#now = options.now ?? (() => performance.now());
    this.#silent = options.silent ?? false;
    this.#done = options.done ?? 0;
    this.#first = this.#done;
    this.#start = this.#now();
    this.#lastLine = this.#start;
    this.#recent = [[this.#start, this.#done]];
    if (!this.#silent && this.#stream.isTTY === true) {
      this.#bar = new SingleBar({
        stream: this.#stream,
        format: (_options, parameters) => this.#line(parameters.progress),
        fps: 10,
        linewrap: null,
        hideCursor: false,
        gracefulExit: false, // its signal handlers would keep Ctrl-C from stopping the work
      });
      this.#bar.start(this.#total ?? 1, this.#done);
    }
  }

  /** Sets how much is done; values given stay on the line until they are given again. */
  update(done: number, values: ProgressValues = {}): void {
    if (this.#stopped) return;
    const now = this.#now();
    this.#done = done;
    this.#values = { ...this.#values, ...values };
    this.#recent.push([now, done]);
    while (this.#recent.length > 2 && this.#recent[1]![0] <= now - WINDOW_MS) this.#recent.shift();
    this.#bar?.update(this.#total === null ? 0 : Math.min(done, this.#total));
    if (!this.#silent && this.#bar === undefined && now - this.#lastLine >= this.#every) {
      this.#lastLine = now;
      this.#write();
    }
  }

  advance(by = 1, values: ProgressValues = {}): void {
    this.update(this.#done + by, values);
  }

  /** A line of text that does not disturb the bar. */
  note(text: string): void {
    if (this.#silent) return;
    const line = forPeople(text);
    tell(this.#stream, this.#bar === undefined ? `${line}\n` : `\r\u001b[K${line}\n`);
  }

  /** Shows the final state and ends the line; later calls do nothing. */
  stop(): void {
    if (this.#stopped) return;
    this.#stopped = true;
    if (this.#bar !== undefined) this.#bar.stop();
    else if (!this.#silent) this.#write();
  }

  #write(): void {
    tell(this.#stream, `${this.#line()}\n`);
  }

  #rate(): number {
    const [time, done] = this.#recent[0]!;
    // Of results that arrive in bursts a burst may only have begun: it has no recent rate.
    const inBursts = this.#recent.length === 2 && this.#recent[1]![0] - time > WINDOW_MS;
    return this.#stopped || inBursts
      ? ((this.#done - this.#first) * 1000) / (this.#now() - this.#start)
      : ((this.#done - done) * 1000) / (this.#now() - time);
  }

  #line(share?: number): string {
    const rate = this.#rate();
    const total = this.#total;
    const left = total === null ? Number.NaN : (total - this.#done) / rate;
    const filled = share === undefined ? 0 : Math.round(Math.max(0, Math.min(1, share)) * BAR_WIDTH);
    const time = this.#stopped
      ? `in ${timerText((this.#now() - this.#start) / 1000)}`
      : `${timerText(left)} left`;
    const parts = [
      this.#label,
      ...(share === undefined || total === null ? [] : ['█'.repeat(filled) + '░'.repeat(BAR_WIDTH - filled)]),
      ...(total === null
        ? [`${this.#done} ${this.#unit}`.trimEnd()]
        : [`${Math.floor((100 * this.#done) / total)} %`, `${this.#done}/${total}`]),
      ...(Number.isFinite(rate) && rate > 0
        ? [`${formatValue(rate)} ${this.#unit}/s`.replace(' /', '/')]
        : []),
      ...(this.#stopped || (Number.isFinite(left) && rate > 0) ? [time] : []),
      ...Object.entries(this.#values).map(([name, value]) => `${name} ${formatValue(value)}`),
    ];
    const line = forPeople(parts.join('  '));
    const columns = this.#stream.columns ?? 0;
    return share !== undefined && columns > 1 ? line.slice(0, columns - 1) : line;
  }
}

/** Does work with its progress, which ends with it. */
export async function withProgress<T>(
  options: ProgressOptions,
  work: (update: Progress['update']) => Promise<T>,
): Promise<T> {
  const progress = new Progress(options);
  try {
    return await work((done, values) => progress.update(done, values));
  } finally {
    progress.stop();
  }
}

/** Progress of work in phases, one line each; the next label begins the next phase. */
export class Phases {
  readonly #options: Pick<ProgressOptions, 'unit' | 'silent'>;
  #label: string | undefined;
  #progress: Progress | undefined;

  constructor(options: Pick<ProgressOptions, 'unit' | 'silent'>) {
    this.#options = options;
  }

  update(label: string, done: number, total: number | null): void {
    if (this.#label !== label) {
      this.stop();
      this.#label = label;
      this.#progress = new Progress({ ...this.#options, label, total });
    }
    this.#progress?.update(done);
  }

  stop(): void {
    this.#progress?.stop();
  }
}

interface ReadingNoteOptions {
  /** Name of the data that are read: 'har'. */
  readonly label: string;
  /** Verb of the note. Default: reading. */
  readonly verb?: string;
  /** Writes nothing at all. */
  readonly silent?: boolean;
  readonly stream?: ProgressStream;
  /** Clock in ms. */
  readonly now?: () => number;
}

/** Time to the first note, and from one to the next, in ms. */
const FIRST_NOTE = 1_000;
const NEXT_NOTE = 5_000;

/** Says on standard error that files are being read, or other work without ticks, once it takes longer than a second. */
export class ReadingNote {
  readonly #label: string;
  readonly #verb: string;
  /** Progress within the work: '1200 examples'. */
  detail = '';
  readonly #silent: boolean;
  readonly #stream: ProgressStream;
  readonly #now: () => number;
  #start = Number.POSITIVE_INFINITY;
  /** Waiting for the disk there are no examples to tick. */
  #timer: NodeJS.Timeout | undefined;
  #due = Number.POSITIVE_INFINITY;

  constructor(options: ReadingNoteOptions) {
    this.#label = options.label;
    this.#verb = options.verb ?? 'reading';
    this.#silent = options.silent ?? false;
    this.#stream = options.stream ?? process.stderr;
    this.#now = options.now ?? (() => performance.now());
  }

  /** Starts the clock. */
  start(): void {
    this.stop();
    this.#start = this.#now();
    this.#due = this.#start + FIRST_NOTE;
    this.#timer = setInterval(() => this.tick(), FIRST_NOTE);
    this.#timer.unref();
  }

  /** Writes a note if one is due. Call it for every example: a busy reader lets no timer run. */
  tick(): void {
    const now = this.#now();
    if (now < this.#due) return;
    this.#due = now + NEXT_NOTE;
    if (!this.#silent) {
      const took = timerText((now - this.#start) / 1000);
      const detail = this.detail === '' ? '' : `, ${this.detail}`;
      tell(this.#stream, `${forPeople(`${this.#verb} ${this.#label}: ${took} so far${detail}`)}\n`);
    }
  }

  /** No notes from now on. */
  stop(): void {
    clearInterval(this.#timer);
    this.#due = Number.POSITIVE_INFINITY;
  }

  /** Yields the same items, ticking for each. */
  *over<T>(items: Iterable<T>): Generator<T> {
    for (const item of items) {
      this.tick();
      yield item;
    }
  }
}
