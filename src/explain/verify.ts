/**
 * Checks a report against the recording before it is printed. Recomputes everything from values and times, and shares no function with
 * the code that builds reports, so that bugs of that code show up here.
 */
import { type Finding, KIND_WORDS, LEVELS } from '../detect/finding.ts';
import { findRhythm } from '../detect/rhythm.ts';
import type { Place, Quantity, Stated } from '../detect/sentence.ts';
import { getOrMake } from '../ground/maps.ts';
import type { ReportColumn, ReportSource } from './report.ts';
import type { AnomalyReport, Instant, ReportFinding, ReportIncident } from './schema.ts';

/** Error: the report states something that the values contradict. Always a bug of timeseer, never a fault of the file. */
export class ReportMismatch extends Error {
  constructor(place: string, stated: unknown, actual: unknown) {
    super(
      `report: ${place}: stated ${JSON.stringify(stated)}, the values give ${JSON.stringify(actual)}; this is a bug of timeseer, please report it`,
    );
    this.name = 'ReportMismatch';
  }
}

/** Rounding tolerance of sums, relative to the largest value: the order of summation may differ. */
const TOLERANCE = 1e-9;
const DAY = 86_400;

/** @throws ReportMismatch unless a statement holds */
function confirm(holds: boolean, place: string, stated: unknown, actual: unknown): asserts holds {
  if (!holds) throw new ReportMismatch(place, stated, actual);
}

type Row = readonly [name: string, stated: unknown, actual: unknown, tolerance?: number];

/** Compares what is stated with what the values give, row by row. @throws ReportMismatch naming the first row that differs */
function compare(place: string, ...rows: readonly Row[]): void {
  for (const [name, stated, actual, tolerance = 0] of rows) {
    const equal =
      typeof stated === 'number' && typeof actual === 'number'
        ? stated === actual || (tolerance < Infinity && Math.abs(stated - actual) <= tolerance)
        : JSON.stringify(stated) === JSON.stringify(actual);
    confirm(equal, [place, name].filter((part) => part !== '').join(': '), stated, actual);
  }
}

/** Returns minimum, mean, maximum and number of missing values in [start, end); `size`: largest magnitude, for tolerances. */
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
  const size = Math.max(Math.abs(least), Math.abs(largest));
  return { least, mean, largest, missing: end - start - n, size };
}

/** Returns the sum and number of the absolute sample-to-sample steps in [start, end) between known values. */
function movesIn(values: Float64Array, start: number, end: number): { sum: number; count: number } {
  let [sum, count] = [0, 0];
  for (let i = start + 1; i < end; i++) {
    const move = Math.abs(values[i]! - values[i - 1]!);
    if (move >= 0) [sum, count] = [sum + move, count + 1];
  }
  return { sum, count };
}

/** Returns the autocorrelation of [start, end) at `lag`. */
function autocorrelation(values: Float64Array, start: number, end: number, lag: number): number {
  const [left, right] = [values.slice(start, end - lag), values.slice(start + lag, end)];
  const mean = (list: Float64Array): number => list.reduce((sum, value) => sum + value, 0) / list.length;
  const [a, b] = [mean(left), mean(right)];
  let [products, lefts, rights] = [0, 0, 0];
  for (const [i, x] of left.entries()) {
    products += (x - a) * (right[i]! - b);
    lefts += (x - a) ** 2;
    rights += (right[i]! - b) ** 2;
  }
  return products / Math.sqrt(lefts * rights || 1);
}

type Measure = (values: Float64Array, detection: ReportColumn['detection'], place: Place) => number | null;

/** Computes quantities of a column at a place; `Verification` checks the other quantities. */
const MEASURES: Partial<Record<Quantity, Measure>> = {
  value: (values, _, { start }) => values[start]!,
  least: (values, _, { start, end }) => describe(values, start, end).least,
  mean: (values, _, { start, end }) => describe(values, start, end).mean,
  largest: (values, _, { start, end }) => describe(values, start, end).largest,
  'mean step': (values, _, { start, end }) => {
    const { sum, count } = movesIn(values, start, end);
    return sum / Math.max(1, count);
  },
  'mean step elsewhere': (values, _, { start, end }) => {
    const [all, inside] = [movesIn(values, 0, values.length), movesIn(values, start, end)];
    return (all.sum - inside.sum) / Math.max(1, all.count - inside.count);
  },
  expected: (_, { expected }, { start }) => expected[start]!,
  low: (_, { low }, { start }) => low[start]!,
  high: (_, { high }, { start }) => high[start]!,
  'mean expected': (values, { expected }, { start, end }) =>
    describe(
      expected.slice(start, end).map((value, i) => value + 0 * values[start + i]!),
      0,
      end - start,
    ).mean,
  band: (_, { low, high }) => {
    const widths = high.map((value, i) => value - low[i]!).sort();
    const middle = (widths.length - 1) / 2;
    return (widths[Math.floor(middle)]! + widths[Math.ceil(middle)]!) / 2;
  },
  period: (_, { seasons }) => seasons[0] ?? null,
  rhythm: (values) => findRhythm(values)?.every ?? null,
  samples: (_, __, { start, end }) => end - start,
};

/** Words of upward and downward comparisons, and all words that may occur only inside a claim. */
const UPWARD: ReadonlySet<string> = new Set(['rose', 'drifted up', 'more', 'up']);
const DOWNWARD: ReadonlySet<string> = new Set(['fell', 'drifted down', 'less', 'down']);
const CLAIM_WORDS: ReadonlySet<string> = new Set([
  ...['rose', 'fell', 'drifted', 'up', 'down', 'more', 'less', 'above', 'below', 'since'],
  ...['first', 'together', 'ongoing', 'ended', 'previous', 'earlier', ...Object.keys(LEVELS)],
]);
/** Quantities that always refer to the whole extent of a finding. */
const WHOLE: ReadonlySet<Quantity> = new Set<Quantity>([
  ...(['column', 'state', 'rhythm', 'cycles before', 'least before', 'largest before'] as const),
]);
/** Further quantities that a sentence may state (besides those of `MEASURES`), by its subject. */
const OF_FINDINGS: ReadonlySet<string> = new Set([...WHOLE, 'time', 'pace', 'samples at']);
const OF_INCIDENTS: ReadonlySet<string> = new Set([
  ...['time', 'state', 'column', 'columns', 'kind', 'change', 'lag'],
]);
const OF_HEADLINES: ReadonlySet<string> = new Set([
  ...['time', 'column', 'state', 'level', 'kind', 'duration', 'findings', 'ongoing findings', 'samples'],
  ...['incidents', 'columns', 'other findings', 'change'],
]);

const twoDigits = (n: number): string => `${n < 10 ? '0' : ''}${n}`;
/** Parses the number at the start of a text, with or without digit grouping. */
const leadingNumber = (text: string): number => Number(text.split(' ')[0]!.split('\u202f').join(''));
const finiteOrNull = (value: number): number | null => (Number.isFinite(value) ? value : null);
const zones = new Map<string, Intl.DateTimeFormat>();

/** Date and time of day ("HH:MM:SS.mmm") on the clock of a zone, and its offset from UTC in minutes. */
function clockAt(ms: number, zone: string | null): { day: string; clock: string; utcOffset: number } | null {
  let wall = ms;
  if (zone !== null && (zone[0] === '+' || zone[0] === '-'))
    wall += Number(`${zone[0]}60000`) * (60 * Number(zone.slice(1, 3)) + Number(zone.slice(-2)));
  else if (zone !== null && zone !== 'UTC') {
    const style = { timeZone: zone, dateStyle: 'short', timeStyle: 'medium' } as const;
    const format = getOrMake(zones, zone, () => new Intl.DateTimeFormat('sv-SE', style));
    const whole = Math.floor(ms / 1000) * 1000;
    const offset = Date.parse(`${format.format(whole).replace(' ', 'T')}Z`) - whole;
    wall = ms + Math.round(offset / 60_000) * 60_000; // ISO 8601 has no offsets with seconds
  }
  if (!(wall > -6e13 && wall < 8e15)) return null; // before about the year 70, or beyond the range of Date
  const text = new Date(wall).toISOString();
  const t = text.indexOf('T');
  return { day: text.slice(0, t), clock: text.slice(t + 1, -1), utcOffset: Math.round((wall - ms) / 60_000) };
}

/** Returns the accepted forms of a time of day: zero seconds and zero milliseconds may be left out. */
function clocks(clock: string): string[] {
  const [seconds, thousandths] = [clock.slice(6, 8), clock.slice(9)];
  return [
    ...(seconds === '00' && thousandths === '000' ? [clock.slice(0, 5)] : []),
    ...(thousandths === '000' ? [clock.slice(0, 8)] : []),
    clock,
  ];
}

type Extent = Pick<ReportFinding, 'start' | 'end' | 'from' | 'to'>;

/** Subject of a sentence: a finding, the structure of a column, an incident, or the whole report. */
interface Subject {
  readonly column?: ReportColumn;
  readonly finding?: ReportFinding;
  readonly incident?: ReportIncident;
}

class Verification {
  readonly #report: AnomalyReport;
  readonly #source: ReportSource;
  readonly #samples: number;
  readonly #byId: ReadonlyMap<string, ReportFinding>;
  /** Findings and incidents, to which a headline refers. */
  readonly #units: ReadonlyMap<string, ReportFinding | ReportIncident>;
  readonly #ongoing: readonly ReportFinding[];
  readonly #sizes = new Map<Float64Array, number>(); // largest magnitude by column

  constructor(report: AnomalyReport, source: ReportSource) {
    this.#report = report;
    this.#source = source;
    this.#samples = source.columns[0]?.values.length ?? 0;
    this.#byId = new Map(report.findings.map((finding) => [finding.id, finding]));
    this.#units = new Map([...report.findings, ...report.incidents].map((one) => [one.id, one]));
    this.#ongoing = report.findings.filter(({ end, lasting }) => end === this.#samples || lasting);
  }

  /** Returns the tolerance for means of a column. */
  #rounding(values: Float64Array): number {
    return TOLERANCE * getOrMake(this.#sizes, values, () => describe(values, 0, this.#samples).size);
  }

  /** Returns date, time of day and zone of an instant in every accepted form. */
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
    const { day, clock, utcOffset } = at;
    const offset = `${utcOffset < 0 ? '-' : '+'}${twoDigits(Math.floor(Math.abs(utcOffset) / 60))}:${twoDigits(Math.abs(utcOffset) % 60)}`;
    const suffix = zone === null ? '' : utcOffset === 0 ? 'UTC' : offset;
    const midnight = clock === '00:00:00.000';
    return [
      { day, clock: clocks(clock), zone: suffix },
      ...(midnight ? [{ day, clock: [''], zone: '' }] : []),
      ...(midnight && day.endsWith('-01-01') ? [{ day: day.slice(0, -6), clock: [''], zone: '' }] : []),
    ];
  }

  /** Returns every accepted form of an instant; empty outside the range of dates, where nothing is checked. */
  #stamps(ms: number): string[] {
    return this.#shown(ms).flatMap(({ day, clock, zone }) =>
      clock.map((time) => [day, time, zone].filter((part) => part !== '').join(' ')),
    );
  }

  #instant(place: string, stated: Instant | null, sample: number): void {
    const { time, origin, zone } = this.#source;
    if (time === null || sample < 0 || sample >= this.#samples) {
      compare(place, ['', stated, null]);
      return;
    }
    const ms = time[sample]!;
    compare(place, ['', stated?.ms, ms]);
    const stamps = this.#stamps(ms);
    confirm(stamps.length === 0 || stamps.includes(stated!.shown), place, stated!.shown, stamps);
    if (origin !== 'calendar') compare(place, ['', stated!.iso, null]);
    const at = origin === 'calendar' ? clockAt(Math.round(ms), zone) : null;
    if (at === null) return;
    const iso = stated!.iso!;
    // The local date and time; and with the UTC offset, the instant.
    compare(
      place,
      ['date and clock', iso.slice(0, at.day.length + 9), `${at.day}T${at.clock.slice(0, 8)}`],
      ['instant', Date.parse(zone === null ? `${iso}Z` : iso), Math.round(ms)],
    );
  }

  #extent(place: string, { start, end, from, to }: Extent): void {
    confirm(start < end && end <= this.#samples, `${place}: extent`, [start, end], [0, this.#samples]);
    this.#instant(`${place}: from`, from, start);
    this.#instant(`${place}: to`, to, end - 1);
  }

  /** Returns the seconds from the first sample of a stretch to the end of its last sample; null without times. */
  #seconds(start: number, end: number): number | null {
    const { time, step } = this.#source;
    return time === null ? null : (time[end - 1]! + (step ?? 0) - time[start]!) / 1000;
  }

  /** Checks a duration in words (`2 h 5 min`): must equal `seconds` within half of the unit after the largest one written. */
  #length(place: string, text: string, seconds: number | null, samples: number): void {
    const words = text.split(' ');
    if (seconds === null || seconds === 0) {
      compare(place, ['', [leadingNumber(text), words[1]], [samples, samples === 1 ? 'sample' : 'samples']]);
      return;
    }
    const units: Readonly<Record<string, number>> = { d: DAY, h: 3600, min: 60, s: 1, ms: 0.001 };
    const names = Object.keys(units);
    let sum = 0;
    for (let i = 0; i < words.length; i += 2) sum += Number(words[i]) * (units[words[i + 1]!] ?? Number.NaN);
    const next = units[names[names.indexOf(words[1]!) + 1] ?? ''] ?? 0;
    const exact = Math.abs(sum - seconds) <= 0.501 * next + 0.006 * Math.min(seconds, 0.1);
    confirm(exact, place, text, seconds);
  }

  /** Checks that each claim is at its position in the sentence, and that no digit or claim word is outside all claims. */
  #covers(place: string, sentence: string, stated: readonly Stated[]): void {
    let [rest, end] = ['', 0];
    for (const { at, text } of [...stated].sort((a, b) => a.at - b.at)) {
      const written = sentence.slice(at, at + text.length);
      confirm(at >= end && text !== '' && written === text, `${place}: "${text}"`, text, written);
      rest += sentence.slice(end, at);
      end = at + text.length;
    }
    rest += sentence.slice(end);
    const letters = [...rest].map((c) => (c.toLowerCase() === c.toUpperCase() ? ' ' : c)).join('');
    const unclaimed =
      [...rest].find((c) => c >= '0' && c <= '9') ?? letters.split(' ').find((word) => CLAIM_WORDS.has(word));
    confirm(unclaimed === undefined, `${place}: not part of a claim`, unclaimed, sentence);
  }

  /** Returns the sample ranges that a claim about a subject may refer to. */
  #places({ quantity, finding: id }: Stated, { finding, incident, column }: Subject): (readonly number[])[] {
    if (finding !== undefined) {
      const { start, end, peak, ongoing, stepped, stated } = finding;
      if (WHOLE.has(quantity)) return [[start, end]];
      const last = stated.find((other) => other.quantity === 'samples' && other.end === end);
      return [
        [start, end],
        [peak.index, peak.index + 1],
        ...(ongoing ? [[start, start + 1]] : []),
        ...(stepped === null ? [] : [[stepped.since, start]]),
        ...(last === undefined ? [] : [[last.start, last.end]]),
      ];
    }
    if (incident !== undefined && id === undefined)
      return [
        [incident.start, incident.end],
        ...(quantity === 'lag' ? [[incident.start, incident.start + 1]] : []),
      ];
    const referenced = column === undefined ? this.#units.get(id ?? '') : undefined;
    return [referenced === undefined ? [0, this.#samples] : [referenced.start, referenced.end]];
  }

  /** Checks a sentence and each of its claims. */
  #sentence(
    place: string,
    { statement, stated }: Pick<ReportFinding, 'statement' | 'stated'>,
    subject: Subject,
  ): void {
    this.#covers(place, statement, stated);
    for (const claim of stated) {
      const at = `${place}: "${claim.text}" (${claim.quantity})`;
      const exists = claim.finding === undefined || this.#units.has(claim.finding);
      confirm(exists, `${at}: finding`, claim.finding, [...this.#units.keys()]);
      const { column, finding, incident } = subject;
      const known =
        column === undefined
          ? (incident === undefined ? OF_HEADLINES : OF_INCIDENTS).has(claim.quantity)
          : claim.quantity in MEASURES || (finding !== undefined && OF_FINDINGS.has(claim.quantity));
      confirm(known, at, claim.quantity, null);
      const anyPlace = claim.quantity === 'time' && subject.column === undefined;
      for (const { start, end } of anyPlace ? [] : [claim, claim.more ?? claim, claim.less ?? claim]) {
        const places = this.#places(claim, subject);
        const allowed = places.some(([from, to]) => from === start && to === end);
        confirm(allowed, `${at}: place`, [start, end], places);
      }
      const check = this.#checks[claim.quantity];
      if (claim.more !== undefined || claim.less !== undefined) this.#comparison(at, claim, subject.column!);
      else if (check !== undefined) check(at, claim, subject);
      else {
        const { values, detection } = subject.column!;
        this.#number(at, claim, subject, MEASURES[claim.quantity]?.(values, detection, claim) ?? null);
      }
    }
  }

  /** Checks a word that compares two quantities. */
  #comparison(place: string, claim: Stated, { values, detection }: ReportColumn): void {
    const measured = (at: Place): number => MEASURES[at.quantity]?.(values, detection, at) ?? Number.NaN;
    const more = claim.more !== undefined;
    const [value, other] = [measured(claim), measured((claim.more ?? claim.less)!)];
    compare(
      place,
      [`${value} is ${more ? 'more' : 'less'} than ${other}`, more ? value > other : value < other, true],
      ['word', (more ? UPWARD : DOWNWARD).has(claim.text), true],
    );
  }

  /**
   * Checks a number against the values. Its tolerance may be half a unit of the last digit written, or 0.5 % of the
   * largest number in the finding's statement, whichever is larger.
   */
  #number(place: string, claim: Stated, { column, finding }: Subject, actual: number | null): void {
    const { text, number, tolerance } = claim;
    confirm(number !== undefined, place, text, null);
    compare(place, ['', Number(text), number]);
    const largest = Math.max(0, ...(finding?.stated ?? []).map((other) => Math.abs(other.number ?? 0)));
    const dot = text.indexOf('.');
    const written = dot < 0 || text.includes('e') ? 0 : 0.51 * 10 ** (dot + 1 - text.length);
    const most = Math.max(written, 0.0051 * Math.max(Math.abs(number), largest));
    confirm(tolerance! <= most, `${place}: tolerance`, tolerance, written);
    compare(place, ['', number, actual ?? 'nothing', tolerance! + this.#rounding(column!.values)]);
  }

  /** Checks of the quantities that are not in `MEASURES`, or whose words depend on the subject. */
  readonly #checks: Partial<Record<Quantity, (place: string, claim: Stated, subject: Subject) => void>> = {
    time: (place, { text, start, end }) => {
      const { time } = this.#source;
      if (time === null) {
        const words = end - start === 1 ? `sample ${start}` : `samples ${start} to ${end - 1}`;
        return compare(place, ['', text, words]);
      }
      const last = this.#stamps(time[end - 1]!);
      const allowed = this.#stamps(time[start]!).flatMap((stamp) => [
        ...(last.includes(stamp) ? [stamp] : []),
        ...last.map((other) => `${stamp} to ${other}`),
      ]);
      for (const a of this.#shown(time[start]!))
        for (const b of this.#shown(time[end - 1]!))
          if (a.day === b.day && a.day !== '')
            for (const x of a.clock)
              for (const y of b.clock) {
                const zone = a.zone === b.zone || a.zone === '' ? '' : ` ${a.zone}`;
                allowed.push(`${a.day} ${x}${zone} to ${y}${b.zone === '' ? '' : ` ${b.zone}`}`);
              }
      confirm(allowed.length === 0 || allowed.includes(text), place, text, allowed.slice(0, 9));
    },
    column: (place, { text, finding }, { column }) =>
      compare(place, ['', text, column?.name ?? this.#byId.get(finding ?? '')?.column]),
    columns: (place, { text, number, finding }, { incident }) => {
      const of = incident ?? this.#report.incidents.find(({ id }) => id === finding);
      compare(place, ['', leadingNumber(text), number]);
      if (!text.endsWith(' more')) compare(place, ['', number, of?.columns.length]);
    },
    change: (place, { text, number, tolerance, finding }) => {
      const change = this.#byId.get(finding ?? '')!.change!;
      compare(
        place,
        ['', Number(text.replace('\u2212', '-')), number],
        ['sign', text.startsWith('+'), change > 0],
        ['tolerance', tolerance! <= 0.0051 * Math.abs(change), true],
        ['', number, change, tolerance!],
      );
    },
    incidents: (place, { text, number }) => {
      const { length } = this.#report.incidents;
      compare(place, ['', [number, leadingNumber(text)], [length, length]]);
    },
    'other findings': (place, { text, number }) => {
      const { length } = this.#report.findings.filter(({ incident }) => incident === null);
      compare(place, ['', [number, leadingNumber(text)], [length, length]]);
    },
    state: (place, claim, { finding }) => {
      const { text } = claim;
      if (finding !== undefined) return compare(place, ['', [text, finding.ongoing], ['since', true]]);
      const referenced = this.#units.get(claim.finding ?? '')!;
      const ongoing = this.#ongoing.some(({ id, incident }) => [id, incident].includes(referenced.id));
      const word = text === 'since' ? 'ongoing' : text.split(' ')[0]!.toLowerCase();
      compare(place, ['', word, ongoing ? 'ongoing' : 'ended']);
      if (text.endsWith(' before the end')) {
        const seconds = (this.#report.to!.ms - referenced.to!.ms) / 1000;
        this.#length(place, text.slice('ended '.length, -' before the end'.length), seconds, 0);
      } else if (text.startsWith('ongoing since ')) {
        const stamp = text.slice('ongoing since '.length);
        this.#checks.time!(place, { ...claim, text: stamp, end: claim.start + 1 }, {});
      }
    },
    level: (place, { text, finding }) => compare(place, ['', text, this.#units.get(finding ?? '')?.level]),
    kind: (place, { text, finding }) =>
      compare(place, ['', text, KIND_WORDS[this.#byId.get(finding ?? '')!.kind]]),
    findings: (place, { text, number }) => {
      const { length } = this.#report.findings;
      compare(place, ['', [number, leadingNumber(text)], [length, length]]);
    },
    samples: (place, claim, subject) => {
      const { text, number, start, end } = claim;
      if (subject.column !== undefined) this.#number(place, claim, subject, end - start);
      else compare(place, ['', [number, leadingNumber(text)], [this.#samples, this.#samples]]);
    },
    'ongoing findings': (place, { text, number }) => {
      const [ongoing, total] = [this.#ongoing.length, this.#report.findings.length];
      compare(place, ['', number, ongoing]);
      if (ongoing > 0 && ongoing < total)
        compare(place, ['', [leadingNumber(text), text.endsWith(' ongoing')], [ongoing, true]]);
      else compare(place, ['', text.split(' ').at(-1), ongoing === 0 ? 'ended' : 'ongoing']);
    },
    duration: (place, { text, number, start, end }) => {
      const seconds = this.#seconds(start, end);
      compare(place, ['', number, seconds ?? end - start, 1e-6]);
      this.#length(place, text, seconds, end - start);
    },
    lag: (place, { text, number }, { incident }) => {
      if (number === undefined) return compare(place, ['', text, 'first']);
      const { samplesEarlier, secondsEarlier } = incident!.first!;
      compare(place, ['', number, secondsEarlier ?? samplesEarlier, 1e-6]);
      this.#length(place, text, secondsEarlier, samplesEarlier);
    },
    pace: (place, claim, subject) => {
      const { start, end, number } = claim;
      this.#number(place, claim, subject, number!);
      const spare = Math.max(0, end - start - 4096) >> 1;
      const correlation = autocorrelation(subject.column!.values, start + spare, end - spare, number!);
      compare(place, ['repeats', Number.isInteger(number) && correlation > 0.5, true]);
    },
    'samples at': (place, claim, subject) => {
      const part = subject.column!.values.subarray(claim.start, claim.end);
      const limit = describe(part, 0, part.length)[
        subject.finding!.direction === 'above' ? 'largest' : 'least'
      ];
      this.#number(place, claim, subject, part.filter((value) => value === limit).length);
    },
    'least before': (place, claim, subject) =>
      this.#number(place, claim, subject, subject.finding!.before!.least),
    'largest before': (place, claim, subject) =>
      this.#number(place, claim, subject, subject.finding!.before!.largest),
    /** "previous 5 Tuesdays": the cycles with which a finding is compared, by number, length and distance. */
    'cycles before': (place, { text, number }, { finding }) => {
      const { start, end } = finding!;
      const { starts, period } = finding!.before!;
      const { step, time, zone, origin } = this.#source;
      const hours = step === null || origin === 'start' ? 0 : (period * step) / 3_600_000;
      const lastsAbout = (length: number): boolean => Math.abs(hours - length) < 0.01 * length;
      let unit = lastsAbout(168) ? 'weeks' : lastsAbout(24) ? 'days' : lastsAbout(1) ? 'hours' : 'cycles';
      if (lastsAbout(168) && origin === 'calendar' && (this.#seconds(start, end) ?? 0) <= DAY) {
        const noon = new Date(`${clockAt(time![starts[0]!]!, zone)?.day}T12:00Z`);
        unit = `${noon.toLocaleDateString('en-US', { weekday: 'long', timeZone: 'UTC' })}s`;
      }
      const consecutive = starts.every((at, k) => (starts[k - 1] ?? start) - at < 1.5 * period);
      const words = consecutive ? `previous ${number} ${unit}` : `${number} earlier ${unit}`;
      compare(place, ['', number, starts.length], ['', text, words]);
    },
  };

  finding(stated: ReportFinding, column: ReportColumn): void {
    const at = `finding ${stated.rank}`;
    const { start, end, peak, observed, expected, kind } = stated;
    const { values, detection } = column;
    this.#extent(at, stated);
    const inside = start <= peak.index && peak.index < end;
    confirm(inside, `${at}: peak inside [start, end)`, peak.index, [start, end]);
    const { low, high } = expected;
    confirm(low === null || high === null || low <= high, `${at}: band`, low, high);
    const source = detection.findings.find(
      (other) => other.start === start && other.end === end && other.kind === kind,
    );
    confirm(source !== undefined, `${at}: a finding of the detector`, [start, end], null);
    const { least, mean, largest, size } = describe(values, start, end);
    const seconds = this.#seconds(start, end);
    const levels = Object.entries(LEVELS).filter(([, from]) => stated.severity >= from);
    const extents = (list: readonly { start: number; end: number }[]): number[][] =>
      list.map((other) => [other.start, other.end]);
    compare(
      at,
      ['least', observed.least, least],
      ['mean', observed.mean, mean, TOLERANCE * size],
      ['largest', observed.largest, largest],
      ['value at the peak', observed.peak, finiteOrNull(values[peak.index]!)],
      ['expected', expected.value, finiteOrNull(detection.expected[peak.index]!)],
      ['low end of the band', expected.low, finiteOrNull(detection.low[peak.index]!)],
      ['high end of the band', expected.high, finiteOrNull(detection.high[peak.index]!)],
      ['seconds', stated.durationSeconds, seconds, 1e-6],
      ['rows', stated.rows, this.#rows(start, end)],
      ['level', stated.level, levels.at(-1)?.[0] ?? 'low'],
      ['severity', stated.severity, Math.min(source.severity, 999)],
      ['peak of the detector', peak.index, source.peak.index],
      ['direction', stated.direction, source.direction],
      ['lasting', stated.lasting, source.lasting],
      ['ongoing', stated.ongoing, end === this.#samples || source.lasting],
      ['similar stretches', extents(stated.similar), extents(source.similar)],
      ['evidence', stated.evidence, source.evidence],
    );
    this.#change(at, stated, column);
    this.#instant(`${at}: time of the peak`, peak.at, peak.index);
    this.#length(`${at}: duration`, stated.duration, seconds, end - start);
    for (const other of stated.similar) this.#extent(`${at}: a similar stretch`, other);
    this.#before(at, stated, column, source);
    this.#sentence(`${at}: statement`, stated, { column, finding: stated });
    // The sentence names its column and its time once each.
    const times = stated.stated.filter(({ quantity }) => quantity === 'time');
    compare(
      `${at}: statement`,
      ['column', stated.stated.filter(({ quantity }) => quantity === 'column').length, 1],
      ['time', times.map((time) => [time.start, time.end]), [[start, stated.ongoing ? start + 1 : end]]],
    );
  }

  /** Checks the distance from the expected values, or from those before a step. */
  #change(at: string, stated: ReportFinding, { values, detection }: ReportColumn): void {
    const { start, end, kind, observed, expected, stepped, change } = stated;
    const usual =
      kind === 'level'
        ? MEASURES['mean expected']!(values, detection, { quantity: 'mean', start, end })
        : expected.value;
    const from = stepped?.mean ?? usual;
    const to = kind === 'level' ? observed.mean : observed.peak;
    const moves = ['level', 'trend', 'spike', 'dip'].includes(kind) && from !== null && to !== null;
    const distance = moves ? finiteOrNull(to - from) : null;
    compare(at, ['change', change, distance, 2 * this.#rounding(values)]);
  }

  /** Checks the values before a step, and those of earlier cycles. */
  #before(at: string, stated: ReportFinding, { values }: ReportColumn, source: Finding): void {
    const { start, end, stepped, before, kind } = stated;
    const rounding = this.#rounding(values);
    compare(at, ['step', stepped, source.stepped], ['cycles before', before, source.before]);
    if (stepped !== null)
      compare(
        at,
        ['mean before the step', stepped.mean, describe(values, stepped.since, start).mean, rounding],
        ['direction of the step', stated.direction, stated.observed.mean! > stepped.mean ? 'above' : 'below'],
      );
    if (before === null) return;
    const earlier = before.starts.map((first) =>
      kind === 'spike' || kind === 'dip'
        ? values[first]!
        : (describe(values, first, first + end - start).mean ?? Number.NaN),
    );
    compare(
      at,
      ['least of the cycles before', before.least, Math.min(...earlier), rounding],
      ['largest of the cycles before', before.largest, Math.max(...earlier), rounding],
      ['cycles before', before.starts.every((first) => first >= 0 && first < start), true],
    );
  }

  /** Returns the first and last line of the file that hold the samples; null if unknown. */
  #rows(start: number, end: number): ReportFinding['rows'] {
    const lines = Array.from(this.#source.lines ?? [])
      .slice(start, end)
      .filter((line) => line > 0)
      .sort((a, b) => a - b);
    return lines.length === 0 ? null : { first: lines[0]!, last: lines.at(-1)! };
  }

  /** Checks that overlapping findings in different columns belong to one incident. */
  #joined(): void {
    const { findings } = this.#report;
    for (const [i, a] of findings.entries())
      for (const b of findings.slice(i + 1)) {
        const common = Math.min(a.end, b.end) - Math.max(a.start, b.start);
        if (a.column === b.column || common <= 0) continue;
        const [m, n] = [a.end - a.start, b.end - b.start];
        if (Math.abs(a.start - b.start) <= 3 * Math.min(m, n) || common >= 0.2 * (m + n - common))
          compare(`findings ${a.rank} and ${b.rank}`, [
            'incident',
            a.incident !== null && a.incident === b.incident,
            true,
          ]);
      }
  }

  incident(incident: ReportIncident): void {
    const at = `incident ${incident.id}`;
    const members = this.#report.findings.filter((finding) => finding.incident === incident.id);
    const findingsIn = (column: string): ReportFinding[] =>
      members.filter((finding) => finding.column === column);
    const [start, shared] = this.#shared(members, incident.first !== null);
    const end = Math.max(shared, ...members.filter(({ ongoing }) => ongoing).map((one) => one.end));
    const worst = members.reduce((a, b) => (b.severity > a.severity ? b : a));
    const seconds = this.#seconds(start, end);
    compare(
      at,
      [
        'findings',
        incident.columns.flatMap(({ findings }) => findings).sort(),
        members.map(({ id }) => id).sort(),
      ],
      ['columns', new Set(members.map(({ column }) => column)).size > 1, true],
      ['start', incident.start, start],
      ['end', incident.end, end],
      ['severity', [incident.severity, incident.level], [worst.severity, worst.level]],
      ['ongoing', incident.ongoing, members.some(({ ongoing }) => ongoing)],
      ['seconds', incident.durationSeconds, seconds, 1e-6],
    );
    this.#extent(at, incident);
    this.#length(`${at}: duration`, incident.duration, seconds, end - start);
    for (const [k, { column, severity, findings }] of incident.columns.entries()) {
      const own = findingsIn(column);
      confirm(own.length > 0, `${at}: column`, column, findings);
      compare(
        `${at}: ${column}`,
        ['severity', severity, Math.max(...own.map((finding) => finding.severity))],
        ['order', severity <= (incident.columns[k - 1]?.severity ?? severity), true],
        ['findings', findings.every((id) => this.#byId.get(id)?.column === column), true],
        ['its worst', this.#byId.get(findings[0]!)!.severity, severity],
      );
    }
    this.#first(at, incident, members);
    this.#sentence(`${at}: statement`, incident, { incident });
    const named = incident.stated.filter(({ quantity }) => quantity === 'column');
    const more = incident.stated.find(({ text }) => text.endsWith(' more'))?.number ?? 0;
    const twice = incident.first === null ? 0 : 1;
    compare(`${at}: statement`, ['columns', named.length - twice + more, incident.columns.length]);
  }

  /**
   * Returns the stretch in which columns with half of the severity depart, from the first departure if that is told; all of the time where
   * there is none, it has a break, or a member lies outside.
   */
  #shared(members: readonly ReportFinding[], fromFirst: boolean): [start: number, end: number] {
    const columns = [...new Set(members.map(({ column }) => column))];
    const sum = (some: readonly ReportFinding[]): number =>
      columns
        .map((name) =>
          Math.max(0, ...some.filter(({ column }) => column === name).map((one) => one.severity)),
        )
        .reduce((a, b) => a + b, 0);
    const edges = [...new Set(members.flatMap(({ start, end }) => [start, end]))].sort((a, b) => a - b);
    // Between two edges the departing members are the same.
    const half = edges
      .slice(0, -1)
      .map(
        (at) =>
          2 * sum(members.filter(({ start, end }) => at >= start && at < end)) >=
          sum(members) * (1 - TOLERANCE),
      );
    const all: [number, number] = [edges[0]!, edges.at(-1)!];
    const [from, to] = [half.indexOf(true), half.lastIndexOf(true)];
    if (from < 0 || half.slice(from, to + 1).includes(false)) return all;
    const [start, end] = [edges[from]!, edges[to + 1]!];
    if (members.some((one) => one.start >= end || one.end <= start)) return all;
    return [fromFirst ? all[0] : start, end];
  }

  /** Checks the stretch that was judged. */
  #window(): void {
    const { window, findings } = this.#report;
    const given = this.#source.window;
    compare('window', ['', window === null ? null : [window.start, window.end], given ?? null]);
    if (window === null) return;
    this.#extent('window', window);
    const outside = findings.find(({ start, end }) => start < window.start || end > window.end);
    compare('window', ['a finding outside', outside?.id, undefined]);
  }

  /** Checks that the column that departs first does so by more than half of the others' lengths. */
  #first(at: string, { first }: ReportIncident, members: readonly ReportFinding[]): void {
    if (first === null) return;
    const own = Math.min(
      ...members.filter(({ column }) => column === first.column).map(({ start }) => start),
    );
    const others = members.filter(({ column }) => column !== first.column);
    const next = Math.min(...others.map(({ start }) => start));
    const { time } = this.#source;
    compare(
      `${at}: first`,
      ['samples', first.samplesEarlier, next - own],
      ['seconds', first.secondsEarlier, time === null ? null : (time[next]! - time[own]!) / 1000, 1e-6],
      ['certain', others.every(({ start, end }) => start - own > Math.max(3, (end - start) / 2)), true],
    );
  }

  /** Returns what the headline counts first. */
  #counted(): Quantity {
    const { findings, incidents, window } = this.#report;
    if (findings.length === 0 && window !== null) return 'time';
    return findings.length === 0 ? 'samples' : incidents.length > 0 ? 'incidents' : 'findings';
  }

  headline(): void {
    const { findings, headline, stated, counts } = this.#report;
    const levels = Object.fromEntries(
      Object.keys(LEVELS).map((level) => [
        level,
        findings.filter((finding) => finding.level === level).length,
      ]),
    );
    const first = stated.find(({ quantity }) => quantity === 'level');
    compare(
      'headline',
      ['counts', counts, { ...levels, ongoing: this.#ongoing.length }],
      ['the worst', [findings[0]?.id, findings[0]?.incident].includes(first?.finding), true],
      ['counted', stated[0]?.quantity, this.#counted()],
    );
    this.#sentence('headline', { statement: headline, stated }, {});
  }

  /** Checks the policy part against the findings, its answers and the stamps. */
  policy(): void {
    const { policy, findings } = this.#report;
    const overlap = (a: { start: number; end: number }, b: { start: number; end: number }): boolean =>
      a.start < b.end && b.start < a.end;
    for (const finding of findings) {
      const answered = policy?.columns.find(({ column }) => column === finding.column);
      const marks =
        answered?.status === 'answers'
          ? answered.intervals.some((interval) => overlap(interval, finding))
          : null;
      compare(`finding ${finding.rank}`, ['marked by the policy', finding.markedByPolicy, marks]);
    }
    const { ranking = [] } = policy ?? {};
    compare('policy: ranking', [
      'order',
      ranking.map(({ confidence }) => confidence),
      ranking.map(({ confidence }) => confidence).sort((a, b) => b - a),
    ]);
    for (const one of ranking) {
      this.#extent(`policy: ranking of ${one.column}`, one);
      const found = this.#byId.get(one.finding ?? '');
      compare(
        `policy: ranking of ${one.column}`,
        ['who tells of it', one.by === 'policy', one.finding === null],
        ['its finding', found === undefined || (found.column === one.column && overlap(found, one)), true],
      );
    }
    let policyAlone = 0;
    for (const { column, intervals, answers, status, doubtful, statement, window } of policy?.columns ?? []) {
      const at = `policy: ${column}`;
      const opening = {
        answers: `Marks ${['nothing', 'one interval'][intervals.length] ?? `${intervals.length} intervals`}`,
        abstains: 'Abstains: ',
        'not asked': 'Not asked: ',
        'too short': 'Not asked: ',
      }[status];
      const words = statement.split('\u202f').join('');
      const noneLeftOut = status !== 'answers' || doubtful === 0;
      compare(
        at,
        ['doubtful', doubtful, answers.filter(({ doubts }) => doubts.length > 0).length],
        ['statement', words.slice(0, opening.length), opening],
        ['intervals', status === 'answers' || intervals.length === 0, true],
        ['left out', noneLeftOut || words.includes(` ${doubtful} of ${answers.length} window`), true],
      );
      for (const interval of intervals) {
        this.#extent(`${at}: an interval`, interval);
        const { kind, size, direction } = interval;
        const claims = interval.class !== null || kind !== null || size !== null || direction !== null;
        // No size is taken from a window without its season.
        const clause = new RegExp(
          `${kind}${direction === null ? '' : ` ${direction}`} ${size ?? '[1-9]\\d*'} sd`,
        );
        const supported = answers.some(
          (answer) =>
            answer.class === interval.class &&
            answer.doubts.length === 0 &&
            (answer.intervals ?? []).some(([start, end]) => overlap({ start, end }, interval)) &&
            (kind === null || (size === null) === (answer.deseasonalised === true)) &&
            (kind === null ||
              // Turns of an inspection: the last has all intervals, and each names the departures of its own window.
              (window === null ? answers : [answer]).some(({ response }) => clause.test(response))),
        );
        // `interval.finding` may stand for a finding that this report, of selected findings, does not list.
        const overlapped = findings.some(
          (finding) => finding.column === column && overlap(finding, interval),
        );
        compare(
          `${at}: an interval`,
          ['claim supported by an answer', !claims || supported, true],
          ['a finding overlaps', interval.finding || !overlapped, true],
        );
        if (!interval.finding) policyAlone++;
      }
    }
    const marked = (by: boolean | null): number =>
      findings.filter(({ markedByPolicy }) => markedByPolicy === by).length;
    const counts = { both: marked(true), detectorAlone: marked(false), unanswered: marked(null) };
    if (policy !== undefined) compare('policy', ['agreement', policy.agreement, { ...counts, policyAlone }]);
  }

  whole(): void {
    const { columns, findings, incidents, samples, from, to, origin, zone, stepSeconds } = this.#report;
    const source = this.#source;
    compare(
      '',
      ['samples', samples, this.#samples],
      ['columns', columns.map(({ name }) => name), source.columns.map(({ name }) => name)],
      ['origin', origin, source.origin],
      ['zone', zone, source.zone],
      ['step', stepSeconds, source.step === null ? null : source.step / 1000],
      ['ids', new Set(findings.map(({ id }) => id)).size, findings.length],
      ['ranks', findings.map(({ rank }) => rank), findings.map((_, i) => i + 1)],
      [
        'severities by rank',
        findings.map(({ severity }) => severity),
        findings.map(({ severity }) => severity).sort((a, b) => b - a),
      ],
    );
    this.#instant('first stamp', from, 0);
    this.#instant('last stamp', to, this.#samples - 1);
    for (const [c, stated] of columns.entries()) {
      const column = source.columns[c]!;
      const { least, mean, largest, missing, size } = describe(column.values, 0, this.#samples);
      compare(
        stated.name,
        ['least', stated.least, least],
        ['mean', stated.mean, mean, TOLERANCE * size],
        ['largest', stated.largest, largest],
        ['missing', stated.missing, missing],
        ['seasons', stated.seasons, column.detection.seasons],
        ['findings', stated.findings, findings.filter(({ column }) => column === stated.name).length],
      );
      this.#sentence(
        `${stated.name}: structure`,
        { statement: stated.structure, stated: stated.stated },
        { column },
      );
    }
    for (const finding of findings) {
      const column = source.columns.find(({ name }) => name === finding.column);
      confirm(column !== undefined, `finding ${finding.rank}: column`, finding.column, null);
      this.finding(finding, column);
    }
    this.#window();
    this.#joined();
    for (const incident of incidents) this.incident(incident);
    this.policy();
    this.headline();
  }
}

/**
 * Recomputes the report from the recording: extremes, means, stamps, durations, lines, counts, ranks, lags, changes, and every number and
 * comparison of its sentences.
 *
 * @throws ReportMismatch naming the statement that does not hold
 */
export function verify(report: AnomalyReport, source: ReportSource): void {
  new Verification(report, source).whole();
}
