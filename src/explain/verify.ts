/**
 * Checks a report against the recording before it is printed. Everything is computed again from the values and times, by code of its own:
 * it shares no function with the code that builds reports, so that a fault there is found here.
 */
import { type Finding, KIND_WORDS, LEVELS } from '../detect/finding.ts';
import type { Place, Stated } from '../detect/sentence.ts';
import type { ReportColumn, ReportSource } from './report.ts';
import type { AnomalyReport, Instant, ReportFinding } from './schema.ts';

/** A report states something that the values do not hold: a fault of the program, never of the file. */
export class ReportMismatch extends Error {
  constructor(place: string, stated: unknown, actual: unknown) {
    super(
      `report: ${place}: stated ${JSON.stringify(stated)}, the values give ${JSON.stringify(actual)}; please report this fault of timeseer`,
    );
    this.name = 'ReportMismatch';
  }
}

/** Part of the largest value by which sums in another order may differ. */
const TOLERANCE = 1e-9;
const DAY = 86_400;

function require(place: string, stated: unknown, actual: unknown, tolerance = 0): void {
  if (typeof stated === 'number' && typeof actual === 'number') {
    if (stated === actual || (tolerance < Infinity && Math.abs(stated - actual) <= tolerance)) return;
  } else if (JSON.stringify(stated) === JSON.stringify(actual)) return;
  throw new ReportMismatch(place, stated, actual);
}

/** Least, mean and largest value of a stretch, the number of missing ones, and the largest size, to which rounding is relative. */
function describe(values: Float64Array, start: number, end: number) {
  let n = 0;
  let [least, largest] = [Number.NaN, Number.NaN];
  for (let i = start; i < end; i++) {
    const value = values[i]!;
    if (Number.isNaN(value)) continue;
    n++;
    if (!(value >= least)) least = value;
    if (!(value <= largest)) largest = value;
  }
  if (n === 0) return { least: null, mean: null, largest: null, missing: end - start, size: 0 };
  let mean = 0;
  for (let i = start; i < end; i++) if (!Number.isNaN(values[i]!)) mean += values[i]! / n;
  return {
    least,
    mean,
    largest,
    missing: end - start - n,
    size: Math.max(Math.abs(least), Math.abs(largest)),
  };
}

const two = (n: number): string => `${n < 10 ? '0' : ''}${n}`;
const zones = new Map<string, Intl.DateTimeFormat>();

/** Date and time of day ("HH:MM:SS.mmm") that a clock of the zone shows, and what it is ahead of UTC in minutes. */
function clockAt(ms: number, zone: string | null): { day: string; clock: string; ahead: number } | null {
  let wall = ms;
  if (zone !== null && (zone[0] === '+' || zone[0] === '-'))
    wall += Number(`${zone[0]}60000`) * (60 * Number(zone.slice(1, 3)) + Number(zone.slice(-2)));
  else if (zone !== null && zone !== 'UTC') {
    const format =
      zones.get(zone) ??
      new Intl.DateTimeFormat('sv-SE', { timeZone: zone, dateStyle: 'short', timeStyle: 'medium' });
    zones.set(zone, format);
    const whole = Math.floor(ms / 1000) * 1000;
    wall = Date.parse(`${format.format(whole).replace(' ', 'T')}Z`) + (ms - whole);
  }
  if (!(wall > -6e13 && wall < 8e15)) return null; // before our era, or after all calendars
  const text = new Date(wall).toISOString();
  const t = text.indexOf('T');
  return { day: text.slice(0, t), clock: text.slice(t + 1, -1), ahead: Math.round((wall - ms) / 60_000) };
}

/** Forms in which a time of day may be written: as short as it is exact. */
function clocks(clock: string): string[] {
  const [seconds, thousandths] = [clock.slice(6, 8), clock.slice(9)];
  return [
    ...(seconds === '00' && thousandths === '000' ? [clock.slice(0, 5)] : []),
    ...(thousandths === '000' ? [clock.slice(0, 8)] : []),
    clock,
  ];
}

class Verification {
  readonly #report: AnomalyReport;
  readonly #source: ReportSource;
  readonly #samples: number;
  readonly #byId: ReadonlyMap<string, ReportFinding>;
  readonly #sizes = new Map<Float64Array, number>();

  constructor(report: AnomalyReport, source: ReportSource) {
    this.#report = report;
    this.#source = source;
    this.#samples = source.columns[0]?.values.length ?? 0;
    this.#byId = new Map(report.findings.map((finding) => [finding.id, finding]));
  }

  /** Largest size of a column's values. */
  #sizeOf(values: Float64Array): number {
    const size = this.#sizes.get(values) ?? describe(values, 0, this.#samples).size;
    this.#sizes.set(values, size);
    return size;
  }

  /** Stamps of an instant as they may be shown: date, time of day and zone, each apart. */
  #shown(ms: number): { day: string; clock: string[]; zone: string }[] {
    const { origin, step, zone } = this.#source;
    const unit = step !== null && step < 1000 ? 1 : 1000;
    const rounded = Math.round(ms / unit) * unit;
    const seconds = Math.abs(rounded) / 1000;
    if (origin === 'start') {
      const rest = new Date((Math.round(seconds * 1000) % 3_600_000) + 0).toISOString().slice(14, -1);
      const hours = `${rounded < 0 ? '-' : ''}${Math.floor(seconds / 3600)}`;
      return [{ day: '', clock: [`${hours}:${rest}`, `${hours}:${rest.slice(0, 5)}`], zone: '' }];
    }
    if (origin === 'midnight') {
      const day = Math.floor(rounded / 1000 / DAY);
      const clock = new Date(rounded - day * DAY * 1000).toISOString().slice(11, -1);
      return [{ day: day === 0 ? '' : `day ${day + 1},`, clock: clocks(clock), zone: '' }];
    }
    const at = clockAt(rounded, zone);
    if (at === null) return [];
    const { day, clock, ahead } = at;
    const offset = `${ahead < 0 ? '-' : '+'}${two(Math.floor(Math.abs(ahead) / 60))}:${two(Math.abs(ahead) % 60)}`;
    const suffix = zone === null ? '' : ahead === 0 ? 'UTC' : offset;
    const midnight = clock === '00:00:00.000';
    return [
      { day, clock: clocks(clock), zone: suffix },
      ...(midnight ? [{ day, clock: [''], zone: '' }] : []),
      ...(midnight && day.endsWith('-01-01') ? [{ day: day.slice(0, -6), clock: [''], zone: '' }] : []),
    ];
  }

  /** All ways to write an instant. Empty where the calendar ends: then nothing is checked. */
  #stamps(ms: number): string[] {
    return this.#shown(ms).flatMap(({ day, clock, zone }) =>
      clock.map((time) => [day, time, zone].filter((part) => part !== '').join(' ')),
    );
  }

  #instant(place: string, stated: Instant | null, sample: number): void {
    const { time, origin, zone } = this.#source;
    if (time === null || sample < 0 || sample >= this.#samples) {
      require(place, stated, null);
      return;
    }
    const ms = time[sample]!;
    require(place, stated?.ms, ms);
    const stamps = this.#stamps(ms);
    if (stamps.length > 0 && !stamps.includes(stated!.shown))
      throw new ReportMismatch(place, stated!.shown, stamps);
    if (origin !== 'calendar') {
      require(place, stated!.iso, null);
      return;
    }
    const at = clockAt(Math.round(ms), zone);
    if (at === null) return;
    // The date and clock of the zone, and with its offset the instant itself.
    require(place, stated!.iso!.slice(0, at.day.length + 9), `${at.day}T${at.clock.slice(0, 8)}`);
    require(place, Date.parse(zone === null ? `${stated!.iso}Z` : stated!.iso!), Math.round(ms));
  }

  #extent(place: string, stated: Pick<ReportFinding, 'start' | 'end' | 'from' | 'to'>): void {
    const { start, end } = stated;
    if (!(start < end && end <= this.#samples))
      throw new ReportMismatch(`${place}: extent`, [start, end], [0, this.#samples]);
    this.#instant(`${place}: from`, stated.from, start);
    this.#instant(`${place}: to`, stated.to, end - 1);
  }

  /** Seconds from the first sample of a stretch to the end of its last; null without time. */
  #seconds(start: number, end: number): number | null {
    const { time, step } = this.#source;
    return time === null ? null : (time[end - 1]! + (step ?? 0) - time[start]!) / 1000;
  }

  /** Checks a length in words: its units must add up to it within half of the unit that follows the largest. */
  #length(place: string, text: string, seconds: number | null, samples: number): void {
    const words = text.split(' ');
    if (seconds === null || seconds === 0) {
      const number = Number(words[0]!.split('\u202f').join(''));
      require(place, [number, words[1]], [samples, samples === 1 ? 'sample' : 'samples']);
      return;
    }
    const units: Readonly<Record<string, number>> = { d: DAY, h: 3600, min: 60, s: 1, ms: 0.001 };
    const names = Object.keys(units);
    let sum = 0;
    for (let i = 0; i < words.length; i += 2) sum += Number(words[i]) * (units[words[i + 1]!] ?? Number.NaN);
    const next = units[names[names.indexOf(words[1]!) + 1] ?? ''] ?? 0;
    if (!(Math.abs(sum - seconds) <= 0.501 * next + 0.006 * Math.min(seconds, 0.1)))
      throw new ReportMismatch(place, text, seconds);
  }

  /** Value of a quantity at its place; null where there is none. */
  #measure({ quantity, start, end }: Place, { values, detection }: ReportColumn): number | null {
    const { expected, low, high, seasons } = detection;
    const steps = (from: number, to: number): { sum: number; count: number } => {
      let [sum, count] = [0, 0];
      for (let i = from + 1; i < to; i++) {
        const step = Math.abs(values[i]! - values[i - 1]!);
        if (step >= 0) [sum, count] = [sum + step, count + 1];
      }
      return { sum, count };
    };
    switch (quantity) {
      case 'value':
        return values[start]!;
      case 'least':
      case 'mean':
      case 'largest':
        return describe(values, start, end)[quantity];
      case 'mean step': {
        const { sum, count } = steps(start, end);
        return sum / Math.max(1, count);
      }
      case 'mean step elsewhere': {
        const [all, inside] = [steps(0, values.length), steps(start, end)];
        return (all.sum - inside.sum) / Math.max(1, all.count - inside.count);
      }
      case 'expected':
        return expected[start]!;
      case 'low':
        return low[start]!;
      case 'high':
        return high[start]!;
      case 'mean expected':
        return describe(
          expected.slice(start, end).map((value, i) => value + 0 * values[start + i]!),
          0,
          end - start,
        ).mean;
      case 'band': {
        const widths = high.map((value, i) => value - low[i]!).sort();
        const middle = (widths.length - 1) / 2;
        return (widths[Math.floor(middle)]! + widths[Math.ceil(middle)]!) / 2;
      }
      case 'period':
        return seasons[0] ?? null;
      case 'samples':
        return end - start;
      default:
        return null;
    }
  }

  /** Tells whether a stretch is like itself so many samples later: their correlation. */
  #repeats(values: Float64Array, from: number, to: number, lag: number): number {
    const pairs: [number, number][] = [];
    for (let i = from; i + lag < to; i++) pairs.push([values[i]!, values[i + lag]!]);
    const mean = (k: 0 | 1): number => pairs.reduce((sum, pair) => sum + pair[k], 0) / pairs.length;
    const [a, b] = [mean(0), mean(1)];
    let [products, left, right] = [0, 0, 0];
    for (const [x, y] of pairs) {
      products += (x - a) * (y - b);
      left += (x - a) ** 2;
      right += (y - b) ** 2;
    }
    return products / Math.sqrt(left * right || 1);
  }

  /** Checks that nothing but what is stated has a number, or a word that compares, and that each is where it says. */
  #covers(place: string, sentence: string, stated: readonly Stated[]): void {
    let [rest, end] = ['', 0];
    for (const { at, text } of [...stated].sort((a, b) => a.at - b.at)) {
      if (at < end || text === '' || sentence.slice(at, at + text.length) !== text)
        throw new ReportMismatch(`${place}: "${text}"`, text, sentence.slice(at, at + text.length));
      rest += sentence.slice(end, at);
      end = at + text.length;
    }
    rest += sentence.slice(end);
    const letters = [...rest].map((c) => (c.toLowerCase() === c.toUpperCase() ? ' ' : c)).join('');
    const loose =
      [...rest].find((c) => c >= '0' && c <= '9') ?? letters.split(' ').find((word) => WEIGHTY.has(word));
    if (loose !== undefined) throw new ReportMismatch(`${place}: unfounded`, loose, sentence);
  }

  /** Checks what sentences of all kinds state. @returns whether it was known */
  #common(place: string, { quantity, text, start, end }: Stated): boolean {
    if (quantity !== 'time') return false;
    const { time } = this.#source;
    if (time === null) {
      require(place, text, end - start === 1 ? `sample ${start}` : `samples ${start} to ${end - 1}`);
      return true;
    }
    const [from, to] = [this.#shown(time[start]!), this.#shown(time[end - 1]!)];
    const [first, last] = [this.#stamps(time[start]!), this.#stamps(time[end - 1]!)];
    const allowed = first.flatMap((a) => [
      ...(last.includes(a) ? [a] : []),
      ...last.map((b) => `${a} to ${b}`),
    ]);
    for (const a of from)
      for (const b of to)
        if (a.day === b.day && a.day !== '')
          for (const x of a.clock)
            for (const y of b.clock) {
              const zone = b.zone === '' ? '' : ` ${b.zone}`;
              const own = a.zone === b.zone || a.zone === '' ? '' : ` ${a.zone}`;
              allowed.push(`${a.day} ${x}${own} to ${y}${zone}`);
            }
    if (allowed.length > 0 && !allowed.includes(text))
      throw new ReportMismatch(place, text, allowed.slice(0, 9));
    return true;
  }

  /** Checks that a number is of the finding: of its extent, its peak, its last samples, or those before a step. */
  #place(place: string, { start, end }: Place, finding: ReportFinding | null): void {
    const last = finding?.stated.find((one) => one.quantity === 'samples' && one.end === finding.end);
    const places =
      finding === null
        ? [[0, this.#samples]]
        : [
            [finding.start, finding.end],
            [finding.peak.index, finding.peak.index + 1],
            ...(finding.ongoing ? [[finding.start, finding.start + 1]] : []),
            ...(finding.stepped === null ? [] : [[finding.stepped.since, finding.start]]),
            ...(last === undefined ? [] : [[last.start, last.end]]),
          ];
    if (!places.some(([from, to]) => from === start && to === end))
      throw new ReportMismatch(`${place}: place`, [start, end], places);
  }

  /** Checks one number or comparison of the sentence of a finding, or of the structure of a column. */
  #statement(place: string, stated: Stated, column: ReportColumn, finding: ReportFinding | null): void {
    const { quantity, text, start, end, number } = stated;
    for (const one of [stated, stated.more, stated.less])
      if (one !== undefined) this.#place(place, one, finding);
    if (this.#common(place, stated)) return;
    if (finding !== null && WHOLE.has(quantity)) require(place, [start, end], [finding.start, finding.end]);
    if (quantity === 'column') {
      require(place, text, column.name);
      return;
    }
    if (quantity === 'state') {
      require(place, [text, finding?.ongoing], ['since', true]);
      return;
    }
    const { values } = column;
    if (stated.more !== undefined || stated.less !== undefined) {
      const of = this.#measure(stated, column);
      const than = this.#measure((stated.more ?? stated.less)!, column);
      if (of === null || than === null) throw new ReportMismatch(place, stated, null);
      const more = stated.more !== undefined;
      require(`${place}: ${quantity} ${of} is ${more ? 'more' : 'less'} than ${than}`, more
        ? of > than
        : of < than, true);
      const words = more ? UPWARD : DOWNWARD;
      require(place, words.has(text), true);
      return;
    }
    if (number === undefined) throw new ReportMismatch(place, text, null);
    const scale = finding === null ? 0 : largestStated(finding.stated);
    if (quantity === 'cycles before') {
      this.#cycles(place, stated, finding!);
      return;
    }
    require(place, Number(text), number);
    // A number is as exact as it is written, and has three digits at least.
    const dot = text.indexOf('.');
    const written = dot < 0 || text.includes('e') ? 0 : 0.51 * 10 ** (dot + 1 - text.length);
    if (stated.tolerance! > Math.max(written, 0.0051 * Math.max(Math.abs(number), scale)))
      throw new ReportMismatch(`${place}: tolerance`, stated.tolerance, written);
    const within = (actual: number | null): void =>
      require(place, number, actual ?? 'nothing', stated.tolerance! + TOLERANCE * this.#sizeOf(values));
    if (quantity === 'pace') {
      const spare = Math.max(0, end - start - 4096) >> 1;
      const like = this.#repeats(values, start + spare, end - spare, number);
      require(`${place}: repeats`, Number.isInteger(number) && like > 0.5, true);
      return;
    }
    if (quantity === 'samples at') {
      const limit = finding!.direction === 'above' ? 'largest' : 'least';
      const at = describe(values, start, end)[limit];
      within(values.subarray(start, end).filter((value) => value === at).length);
      return;
    }
    if (quantity === 'least before') {
      within(finding!.before!.least);
      return;
    }
    if (quantity === 'largest before') {
      within(finding!.before!.largest);
      return;
    }
    within(this.#measure(stated, column));
  }

  /** "previous 5 Tuesdays": the cycles with which a finding is compared, by number, length and distance. */
  #cycles(place: string, { text, number }: Stated, { before, start, end }: ReportFinding): void {
    const { starts, period } = before!;
    require(place, number, starts.length);
    const { step, time, zone, origin } = this.#source;
    const hours = step === null || origin === 'start' ? 0 : (period * step) / 3_600_000;
    const is = (length: number): boolean => Math.abs(hours - length) < 0.01 * length;
    let unit = is(168) ? 'weeks' : is(24) ? 'days' : is(1) ? 'hours' : 'cycles';
    if (is(168) && origin === 'calendar' && (this.#seconds(start, end) ?? 0) <= DAY) {
      const day = clockAt(time![starts[0]!]!, zone)?.day;
      const name = new Date(`${day}T12:00Z`).toLocaleDateString('en-US', {
        weekday: 'long',
        timeZone: 'UTC',
      });
      unit = `${name}s`;
    }
    const next = starts.every((at, k) => (starts[k - 1] ?? start) - at < 1.5 * period);
    require(place, text, next ? `previous ${number} ${unit}` : `${number} earlier ${unit}`);
  }

  #sentence(
    place: string,
    sentence: string,
    stated: readonly Stated[],
    check: (place: string, one: Stated) => void,
  ): void {
    this.#covers(place, sentence, stated);
    for (const { finding, text } of stated)
      if (finding !== undefined && !this.#byId.has(finding))
        throw new ReportMismatch(`${place}: "${text}": finding`, finding, [...this.#byId.keys()]);
    for (const one of stated) check(`${place}: "${one.text}" (${one.quantity})`, one);
  }

  finding(one: ReportFinding, column: ReportColumn): void {
    const at = `finding ${one.rank}`;
    const { start, end, peak, observed, expected } = one;
    const { values, detection } = column;
    if (!(start < end && end <= this.#samples))
      throw new ReportMismatch(`${at}: extent`, [start, end], [0, this.#samples]);
    if (!(start <= peak.index && peak.index < end))
      throw new ReportMismatch(`${at}: peak inside [start, end)`, peak.index, [start, end]);
    const { least, mean, largest, size } = describe(values, start, end);
    require(`${at}: least`, observed.least, least);
    require(`${at}: mean`, observed.mean, mean, TOLERANCE * size);
    require(`${at}: largest`, observed.largest, largest);
    const orNull = (value: number): number | null => (Number.isFinite(value) ? value : null);
    require(`${at}: value at the peak`, observed.peak, orNull(values[peak.index]!));
    if (expected.low !== null && expected.high !== null && expected.low > expected.high)
      throw new ReportMismatch(`${at}: band`, expected.low, expected.high);
    require(`${at}: expected`, expected.value, orNull(detection.expected[peak.index]!));
    require(`${at}: low end of the band`, expected.low, orNull(detection.low[peak.index]!));
    require(`${at}: high end of the band`, expected.high, orNull(detection.high[peak.index]!));
    this.#extent(at, one);
    this.#instant(`${at}: time of the peak`, peak.at, peak.index);
    const seconds = this.#seconds(start, end);
    require(`${at}: seconds`, one.durationSeconds, seconds, 1e-6);
    this.#length(`${at}: duration`, one.duration, seconds, end - start);
    this.#rows(at, one);
    const levels = Object.entries(LEVELS).filter(([, from]) => one.severity >= from);
    require(`${at}: level`, one.level, levels.at(-1)?.[0] ?? 'low');
    const found = detection.findings.find(
      (other) => other.start === start && other.end === end && other.kind === one.kind,
    );
    if (found === undefined) throw new ReportMismatch(`${at}: a finding of the detector`, [start, end], null);
    require(`${at}: severity`, one.severity, Math.min(found.severity, 999));
    require(`${at}: peak of the detector`, peak.index, found.peak.index);
    require(`${at}: direction`, one.direction, found.direction);
    require(`${at}: lasting`, one.lasting, found.lasting);
    require(`${at}: ongoing`, one.ongoing, end === this.#samples || found.lasting);
    this.#before(at, one, column, found);
    for (const other of one.similar) this.#extent(`${at}: a similar stretch`, other);
    require(`${at}: similar stretches`, one.similar.map((other) => [
      other.start,
      other.end,
    ]), found.similar.map((other) => [other.start, other.end]));
    require(`${at}: evidence`, one.evidence, found.evidence);
    this.#sentence(`${at}: statement`, one.statement, one.stated, (place, stated) =>
      this.#statement(place, stated, column, one),
    );
    // The sentence names its column and its time, and nothing stands for another stretch.
    for (const quantity of ['column', 'time'] as const)
      require(`${at}: statement: ${quantity}`, one.stated.filter((stated) => stated.quantity === quantity)
        .length, 1);
    const when = one.stated.find(({ quantity }) => quantity === 'time')!;
    require(`${at}: statement: time`, [when.start, when.end], [start, one.ongoing ? start + 1 : end]);
  }

  /** Checks what came before a step, and what there was in earlier cycles. */
  #before(at: string, one: ReportFinding, { values }: ReportColumn, found: Finding): void {
    const { start, end } = one;
    const size = this.#sizeOf(values);
    require(`${at}: step`, one.stepped, found.stepped);
    if (one.stepped !== null) {
      const { since, mean: before } = one.stepped;
      const { mean } = describe(values, since, start);
      require(`${at}: mean before the step`, before, mean, TOLERANCE * size);
      require(`${at}: direction of the step`, one.direction, one.observed.mean! > before ? 'above' : 'below');
    }
    require(`${at}: cycles before`, one.before, found.before);
    if (one.before === null) return;
    const { starts, least, largest } = one.before;
    const single = one.kind === 'spike' || one.kind === 'dip';
    const earlier = starts.map((first) =>
      single ? values[first]! : (describe(values, first, first + end - start).mean ?? Number.NaN),
    );
    require(`${at}: least of the cycles before`, least, Math.min(...earlier), TOLERANCE * size);
    require(`${at}: largest of the cycles before`, largest, Math.max(...earlier), TOLERANCE * size);
    require(`${at}: cycles before`, starts.every((first) => first >= 0 && first < start), true);
  }

  /** Checks the lines of the file: the lowest and the highest of those that samples come from. */
  #rows(at: string, { rows, start, end }: ReportFinding): void {
    const { lines } = this.#source;
    let [first, last] = [0, 0];
    for (let i = start; lines !== null && i < end; i++) {
      const line = lines[i]!;
      if (line <= 0) continue;
      if (first === 0 || line < first) first = line;
      if (line > last) last = line;
    }
    require(`${at}: rows`, rows, last === 0 ? null : { first, last });
  }

  events(): void {
    const { findings, events } = this.#report;
    for (const [i, a] of findings.entries())
      for (const b of findings.slice(i + 1)) {
        const common = Math.min(a.end, b.end) - Math.max(a.start, b.start);
        if (a.column === b.column || common <= 0) continue;
        const [m, n] = [a.end - a.start, b.end - b.start];
        const near = Math.abs(a.start - b.start) <= 3 * Math.min(m, n) || common >= 0.2 * (m + n - common);
        if (near)
          require(`findings ${a.rank} and ${b.rank}: event`, a.event !== null && a.event === b.event, true);
      }
    for (const event of events) {
      const at = `event ${event.id}`;
      const members = findings.filter((one) => one.event === event.id);
      const ids = (list: readonly string[]): string[] => [...list].sort();
      require(`${at}: findings`, ids(event.columns.flatMap((one) => one.findings)), ids(
        members.map(({ id }) => id),
      ));
      require(`${at}: columns`, new Set(members.map(({ column }) => column)).size > 1, true);
      const start = Math.min(...members.map((one) => one.start));
      require(`${at}: start`, event.start, start);
      require(`${at}: end`, event.end, Math.max(...members.map((one) => one.end)));
      this.#extent(at, event);
      const worst = members.reduce((a, b) => (b.severity > a.severity ? b : a));
      require(`${at}: severity`, [event.severity, event.level], [worst.severity, worst.level]);
      require(`${at}: ongoing`, event.ongoing, members.some(({ ongoing }) => ongoing));
      const severest = (column: string): number =>
        Math.max(...members.filter((one) => one.column === column).map(({ severity }) => severity));
      const sum = event.columns.reduce((total, { column }) => total + severest(column), 0);
      const names = members.map((one) => one.column);
      let lag = 0;
      for (const { column, samplesLater, secondsLater, share, findings: listed } of event.columns) {
        const first = members.filter((one) => one.column === column).sort((a, b) => a.start - b.start)[0];
        if (first === undefined) throw new ReportMismatch(`${at}: column`, column, names);
        require(`${at}: samples until ${column}`, samplesLater, first.start - start);
        require(`${at}: order of the columns`, samplesLater >= lag, true);
        lag = samplesLater;
        const { time } = this.#source;
        const seconds = time === null ? null : (time[first.start]! - time[start]!) / 1000;
        require(`${at}: seconds until ${column}`, secondsLater, seconds, 1e-6);
        require(`${at}: shares`, share, sum > 0
          ? severest(column) / sum
          : 1 / event.columns.length, TOLERANCE);
        for (const id of listed) require(`${at}: column of ${id}`, this.#byId.get(id)?.column, column);
      }
      this.#sentence(`${at}: statement`, event.statement, event.stated, (place, stated) => {
        if (this.#common(place, stated)) return;
        const end = stated.quantity === 'lag' && stated.finding === undefined ? start + 1 : event.end;
        require(place, [stated.start, stated.end], [start, end]);
        const { quantity, text, number, finding } = stated;
        const column = event.columns.find(
          ({ column: name }) => name === this.#byId.get(finding ?? '')?.column,
        );
        if (quantity === 'column') {
          require(place, text, column?.column);
          return;
        }
        if (quantity === 'share') {
          const percent = text.startsWith('<') ? 0 : Number(text.slice(0, -2)) / 100;
          require(place, percent, column?.share, 0.00501);
          require(place, number, column?.share, TOLERANCE);
          return;
        }
        require(place, quantity, 'lag');
        if (column !== undefined) {
          require(place, number, column.secondsLater ?? column.samplesLater, 1e-6);
          this.#length(place, text, column.secondsLater, column.samplesLater);
          return;
        }
        const together = event.columns.filter(({ samplesLater }) => samplesLater === 0).length;
        require(place, [number, text], [together, together === 1 ? 'first' : 'together']);
      });
    }
  }

  headline(): void {
    const { findings, headline, stated, counts, to } = this.#report;
    const going = findings.filter(({ end, lasting }) => end === this.#samples || lasting);
    for (const level of Object.keys(LEVELS) as (keyof typeof LEVELS)[])
      require(`counts: ${level}`, counts[level], findings.filter((one) => one.level === level).length);
    require('counts: ongoing', counts.ongoing, going.length);
    const worst = findings[0];
    this.#sentence('headline', headline, stated, (place, one) => {
      if (this.#common(place, one)) return;
      const { quantity, text, number } = one;
      const finding = this.#byId.get(one.finding ?? '');
      const { start, end } = finding ?? { start: 0, end: this.#samples };
      require(place, [one.start, one.end], [start, end]);
      const plain = Number(text.split(' ')[0]!.split('\u202f').join(''));
      switch (quantity) {
        case 'findings': {
          require(place, [number, plain], [findings.length, findings.length]);
          return;
        }
        case 'samples': {
          require(place, [number, plain], [this.#samples, this.#samples]);
          return;
        }
        case 'ongoing findings': {
          require(place, number, going.length);
          const all = going.length === 0 ? 'over' : 'ongoing';
          const some = going.length > 0 && going.length < findings.length;
          require(place, some ? [plain, text.endsWith(' ongoing')] : text.split(' ').at(-1), some
            ? [going.length, true]
            : all);
          return;
        }
        case 'level': {
          require(place, text, finding?.level);
          return;
        }
        case 'kind': {
          require(place, text, finding === undefined ? null : KIND_WORDS[finding.kind]);
          return;
        }
        case 'column': {
          require(place, text, finding?.column);
          return;
        }
        case 'duration': {
          require(place, number, this.#seconds(one.start, one.end) ?? one.end - one.start, 1e-6);
          this.#length(place, text, this.#seconds(one.start, one.end), one.end - one.start);
          return;
        }
        case 'state': {
          const word = text === 'since' ? 'ongoing' : text.split(' ')[0]!.toLowerCase();
          require(place, word, finding !== undefined && going.includes(finding) ? 'ongoing' : 'over');
          if (text.startsWith('over for ')) {
            const seconds = (to!.ms - finding!.to!.ms) / 1000;
            this.#length(place, text.slice('over for '.length), seconds, 0);
          } else if (text.startsWith('ongoing since ')) {
            const since = { ...one, text: text.slice('ongoing since '.length), end: one.start + 1 };
            this.#common(place, { ...since, quantity: 'time' });
          }
          return;
        }
        default:
          throw new ReportMismatch(place, quantity, null);
      }
    });
    const levels = stated.filter(({ quantity }) => quantity === 'level');
    require('headline: the worst', levels[0]?.finding, worst?.id);
    require('headline: findings', stated[0]?.quantity, worst === undefined ? 'samples' : 'findings');
  }

  /** Checks what a policy says against the findings, its own answers and the stamps. */
  policy(): void {
    const { policy, findings } = this.#report;
    const meet = (a: { start: number; end: number }, b: { start: number; end: number }): boolean =>
      a.start < b.end && b.start < a.end;
    for (const one of findings) {
      const said = policy?.columns.find(({ column }) => column === one.column);
      const marks =
        said?.status === 'answers' ? said.intervals.some((interval) => meet(interval, one)) : null;
      require(`finding ${one.rank}: marked by the policy`, one.markedByPolicy, marks);
    }
    let alone = 0;
    for (const said of policy?.columns ?? []) {
      const at = `policy: ${said.column}`;
      const { intervals, answers, status } = said;
      require(`${at}: doubtful`, said.doubtful, answers.filter(({ doubts }) => doubts.length > 0).length);
      const opening = {
        answers: `Marks ${['nothing', 'one interval'][intervals.length] ?? `${intervals.length} intervals`}`,
        abstains: 'Abstains: ',
        'not asked': 'Not asked: ',
        'too short': 'Not asked: ',
      }[status];
      const statement = said.statement.split('\u202f').join('');
      require(`${at}: statement`, statement.slice(0, opening.length), opening);
      if (status !== 'answers') require(`${at}: intervals`, intervals.length, 0);
      else if (said.doubtful > 0)
        require(`${at}: statement: doubtful`, statement.includes(
          ` ${said.doubtful} of ${answers.length} window`,
        ), true);
      for (const interval of intervals) {
        this.#extent(`${at}: an interval`, interval);
        const { kind, size, direction } = interval;
        const source = answers.find(
          (answer) =>
            answer.class === interval.class &&
            answer.doubts.length === 0 &&
            (answer.intervals ?? []).some(([start, end]) => meet({ start, end }, interval)) &&
            (kind === null ||
              answer.response.includes(`${kind}${direction === null ? '' : ` ${direction}`} ${size} sd`)),
        );
        const claims = interval.class !== null || kind !== null || size !== null || direction !== null;
        if (claims) require(`${at}: what is claimed of an interval`, source !== undefined, true);
        // A report of some of the findings knows of the others only here.
        if (findings.some((one) => one.column === said.column && meet(one, interval)))
          require(`${at}: a finding overlaps`, interval.finding, true);
        if (!interval.finding) alone++;
      }
    }
    if (policy === undefined) return;
    const marked = (by: boolean | null): number => findings.filter((one) => one.markedByPolicy === by).length;
    require('policy: agreement', policy.agreement, {
      ...{ both: marked(true), detectorAlone: marked(false), unanswered: marked(null) },
      policyAlone: alone,
    });
  }

  whole(): void {
    const { columns, findings, samples, from, to } = this.#report;
    const source = this.#source;
    require('samples', samples, this.#samples);
    require('columns', columns.map(({ name }) => name), source.columns.map(({ name }) => name));
    this.#instant('first stamp', from, 0);
    this.#instant('last stamp', to, this.#samples - 1);
    require('origin', this.#report.origin, source.origin);
    require('zone', this.#report.zone, source.zone);
    require('step', this.#report.stepSeconds, source.step === null ? null : source.step / 1000);
    require('ids', new Set(findings.map(({ id }) => id)).size, findings.length);
    for (const [c, stated] of columns.entries()) {
      const column = source.columns[c]!;
      const { name } = stated;
      const { least, mean, largest, missing, size } = describe(column.values, 0, this.#samples);
      require(`${name}: least`, stated.least, least);
      require(`${name}: mean`, stated.mean, mean, TOLERANCE * size);
      require(`${name}: largest`, stated.largest, largest);
      require(`${name}: missing`, stated.missing, missing);
      require(`${name}: seasons`, stated.seasons, column.detection.seasons);
      require(`${name}: findings`, stated.findings, findings.filter((one) => one.column === name).length);
      this.#sentence(`${name}: structure`, stated.structure, stated.stated, (place, one) =>
        this.#statement(place, one, column, null),
      );
    }
    for (const [i, one] of findings.entries()) {
      require('rank', one.rank, i + 1);
      const next = findings[i + 1];
      if (next !== undefined)
        require(`severity of rank ${i + 1} against the next`, one.severity >= next.severity, true);
      const column = source.columns.find(({ name }) => name === one.column);
      if (column === undefined)
        throw new ReportMismatch(
          `finding ${i + 1}: column`,
          one.column,
          columns.map(({ name }) => name),
        );
      this.finding(one, column);
    }
    this.events();
    this.policy();
    this.headline();
  }
}

/** Largest number of a sentence, to whose digits the others are rounded. */
const largestStated = (stated: readonly Stated[]): number =>
  Math.max(0, ...stated.map(({ number }) => Math.abs(number ?? 0)));

/** Words of a comparison, and words that may stand in a sentence only where they are stated. */
const UPWARD: ReadonlySet<string> = new Set(['rose', 'drifted up', 'more', 'up']);
const DOWNWARD: ReadonlySet<string> = new Set(['fell', 'drifted down', 'less', 'down']);
/** Quantities of the whole extent of a finding. */
const WHOLE: ReadonlySet<string> = new Set([
  'column',
  'state',
  'cycles before',
  'least before',
  'largest before',
]);
const WEIGHTY: ReadonlySet<string> = new Set([
  ...['rose', 'fell', 'drifted', 'up', 'down', 'more', 'less', 'above', 'below', 'since'],
  ...['first', 'together', 'ongoing', 'over', 'previous', 'earlier', ...Object.keys(LEVELS)],
]);

/**
 * Recomputes from the recording what a report states of it: extremes, means, stamps, durations, lines, counts, ranks, lags, shares, and
 * every number and comparison of its sentences.
 *
 * @throws ReportMismatch naming what does not hold
 */
export function verify(report: AnomalyReport, source: ReportSource): void {
  new Verification(report, source).whole();
}
