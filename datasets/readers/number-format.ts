/** Numbers as people and spreadsheets write them: decimal commas, thousands separators, units; inferred from a whole column. */
import { NUMBER } from './record.ts';

export interface NumberFormat {
  readonly decimal: '.' | ',';
  /** True if `1.234` in a column with decimal commas (`1,234` with decimal points) is a thousand. */
  readonly grouped: boolean;
  /** Unit before or behind the numbers: `%`, `ms`, `€`; empty for none. */
  readonly unit: string;
}

type CellKind = 'number' | 'missing' | 'infinite' | 'truth' | 'word';

const MISSING =
  /^(?:[+-]?nan|-nan\(ind\)|n\/?a|n\.a\.?|null|nil|none|undefined|n\/d|no ?data|missing|\?|-+|–|—|\.|\*|\\n|#(?:n\/a|div\/0!|ref!|value!|num!|name\?|null!))$/i;
const INFINITE = /^[+-]?(?:inf|infinity|∞)$/i;
const BINARY = /^[01](?:\.0*)?$/;
const TRUTH = /^(?:true|false)$/i;
/** Maximum length of a number with its unit. */
const LONGEST = 64;
/** Sign, currency, sign, digits with separators, exponent and unit. Cells are short, so backtracking costs no time. */
const PARTS =
  /^([+-]?)\s?([$€£¥]|[A-Z]{3}(?= ))?\s?([+-]?)((?:\d|[.,]\d)(?:[\d.,'’]|[ \u00a0\u2009\u202f](?=\d))*(?:e[+-]?\d+)?)\s*(.*)$/iu;
/**
 * A unit begins with a letter or a sign of its own, and has no blanks. Hexadecimal digits with letters between digits (`bd4f6c`) are the
 * rest of an identifier; `m2s2` is a unit.
 */
const UNIT = /^(?![\da-fA-F-]*\d[a-fA-F]+\d[\da-fA-F-]*$)(?:[\p{L}%‰°$€£¥µΩ][^\s,;:"]{0,11})?$/u;
const GROUPED = /^\d{1,3}(?:[ '’\u00a0\u2009\u202f]\d{3})+(?=$|[.,e])/i;
const SEPARATOR = /[ '’\u00a0\u2009\u202f]/g;
const POINT_GROUPS = /^\d{1,3}(?:\.\d{3})+$/;
const COMMA_GROUPS = /^\d{1,3}(?:,\d{3})+$/;

/** Two separators of one kind, which can only group thousands. */
const TWO_GROUPS = /,[^,]*,|\.[^.]*\./;
const GROUPS = /^[+-]?\d{1,3}(?:(?:,\d{3}){2,}(?:\.\d*)?|(?:\.\d{3}){2,}(?:,\d*)?)(?:e[+-]?\d+)?$/i;

interface Parts {
  /** Digits with sign, without blanks and apostrophes between thousands. */
  readonly body: string;
  readonly unit: string;
  readonly spaced: boolean;
}

function partsOf(cell: string): Parts | null {
  if (cell.length > LONGEST) return null;
  const match = PARTS.exec(cell.replaceAll('\u2212', '-').trim());
  if (match === null) return null;
  const [, before = '', currency = '', after = '', digits = '', suffix = ''] = match;
  const spaced = GROUPED.test(digits);
  const body = spaced ? digits.replaceAll(SEPARATOR, '') : digits;
  if ((before !== '' && after !== '') || (currency !== '' && suffix !== '') || !UNIT.test(suffix))
    return null;
  if (!/^[\d.,]+(?:e[+-]?\d+)?$/i.test(body)) return null;
  return { body: before + after + body, unit: currency + suffix, spaced };
}

/** Unit beside a number, empty for none; null where the cell is no number. */
export const unitOf = (cell: string): string | null => partsOf(cell)?.unit ?? null;

/** Maximum number of different units that are counted. */
const UNITS = 20;

/**
 * Counts the kinds of cells of a column, to infer its number format. The decision takes all of them: `1.234` alone may be either.
 */
export class ColumnSurvey {
  empty = 0;
  /** Marks of missing values, such as `NaN`, `-` and `#N/A`. */
  missing = 0;
  infinite = 0;
  truths = 0;
  /** Cells of words alone, such as `error`. */
  words = 0;
  /** Cells with digits that are no numbers. */
  odd = 0;
  /** Numbers as programs write them. */
  plain = 0;
  /** Numbers with a unit or with separators. */
  written = 0;
  /** Numbers by the role of their comma: certainly decimal, certainly grouping thousands, or either. */
  readonly commas = { decimal: 0, thousands: 0, either: 0 };
  readonly points = { decimal: 0, thousands: 0, either: 0 };
  spaced = 0;
  /** Whole numbers of more than three digits. */
  long = 0;
  /** Cells that are 0 or 1. */
  binary = 0;
  readonly #units = new Map<string, number>();

  add(cell: string): void {
    if (cell === '') this.empty++;
    else if (NUMBER.test(cell)) {
      this.plain++;
      if (BINARY.test(cell)) this.binary++;
      const point = cell.indexOf('.');
      if (point >= 0) this.#judge(cell, point, this.points);
      else if (cell.length > 3 && Math.abs(Number(cell)) >= 1000) this.long++;
    } else this.#addOther(cell);
  }

  #addOther(cell: string): void {
    const kind = kindOf(cell);
    if (kind === 'missing') this.missing++;
    else if (kind === 'infinite') this.infinite++;
    else if (kind === 'truth') this.truths++;
    else {
      const parts = kind === 'word' ? null : partsOf(cell);
      // `10.0.0.1` is an address, no thousands.
      if (parts === null || TWO_GROUPS.test(parts.body) !== GROUPS.test(parts.body)) {
        this[kind === 'word' ? 'words' : 'odd']++;
        return;
      }
      this.written++;
      if (parts.spaced) this.spaced++;
      if (this.#units.size < UNITS || this.#units.has(parts.unit))
        this.#units.set(parts.unit, (this.#units.get(parts.unit) ?? 0) + 1);
      const { body } = parts;
      const [comma, point] = [body.lastIndexOf(','), body.lastIndexOf('.')];
      if (comma >= 0 && point >= 0) {
        this[comma > point ? 'commas' : 'points'].decimal++;
        this[comma > point ? 'points' : 'commas'].thousands++;
      } else if (comma >= 0) this.#judge(body, comma, this.commas);
      else if (point >= 0) this.#judge(body, point, this.points);
    }
  }

  /** Counts a number by the possible roles of its only kind of separator. */
  #judge(text: string, last: number, counts: { decimal: number; thousands: number; either: number }): void {
    const signed = text.charCodeAt(0) === 43 || text.charCodeAt(0) === 45 ? 1 : 0;
    const first = text.indexOf(text[last]!);
    if (first !== last) counts.thousands++;
    else if (
      text.length - last === 4 &&
      last - signed >= 1 &&
      last - signed <= 3 &&
      text.charCodeAt(signed) !== 48
    )
      counts.either++;
    else counts.decimal++;
  }

  /** Numbers with the usual unit, or none. */
  get numbers(): number {
    const unit = this.#unit();
    if (unit === '') return this.plain + (this.#units.get('') ?? 0);
    return this.plain + (this.#units.get('') ?? 0) + (this.#units.get(unit) ?? 0);
  }

  /** Non-empty cells. */
  get filled(): number {
    return this.plain + this.written + this.words + this.odd + this.truths + this.infinite + this.missing;
  }

  /** Cells that are neither a number nor a mark. */
  get unread(): number {
    return this.plain + this.written + this.words + this.odd + this.truths - this.numbers;
  }

  /** Unit of most numbers; empty where most have none. */
  #unit(): string {
    let best = '';
    let most = this.plain;
    for (const [unit, count] of this.#units) if (unit !== '' && count > most) [best, most] = [unit, count];
    return best;
  }

  /**
   * True if points that are read as decimal may group thousands: all of them stand before three digits, and either whole numbers beside them
   * are all below 1000, or `points` group thousands in the rest of the file, as its separators and dates suggest.
   */
  mayGroup(points: boolean): boolean {
    const { decimal, thousands, either } = this.points;
    const commas = this.commas.decimal + this.commas.thousands + this.commas.either;
    if (either === 0 || decimal + thousands + commas + this.spaced + this.long > 0) return false;
    return points || this.plain + this.written > either;
  }

  /** True if decimal commas are certain; they then hold for the other columns of the file. */
  get hasDecimalComma(): boolean {
    return this.commas.decimal > 0 && this.commas.decimal > this.points.decimal;
  }

  /**
   * Number format of the column. Where the column leaves it open, the arguments decide.
   * @param commaFile true if another column of the file certainly has decimal commas
   * @param commaFields true if commas separate fields
   */
  format(commaFile: boolean, commaFields: boolean): NumberFormat {
    const { commas, points } = this;
    const sure = commas.decimal + points.thousands - (points.decimal + commas.thousands);
    // `987` beside `1,234` has no decimals, so that those of the other are none either.
    const whole = this.plain > points.decimal + points.either;
    const either = commas.either > 0 ? commaFile || !(commaFields || whole) : commaFile && points.either > 0;
    const comma = sure > 0 || (sure === 0 && either);
    const grouped = comma ? points.decimal === 0 : commas.decimal === 0;
    return { decimal: comma ? ',' : '.', grouped, unit: this.#unit() };
  }
}

/** Kind of a non-empty cell, independent of the number format of its column. */
export function kindOf(cell: string): CellKind {
  if (cell.length > LONGEST) return NUMBER.test(cell) ? 'number' : 'word';
  if (MISSING.test(cell)) return 'missing';
  if (INFINITE.test(cell)) return 'infinite';
  if (TRUTH.test(cell)) return 'truth';
  return /\d/.test(cell) ? 'number' : 'word';
}

/** Number of a cell in a column of this format, possibly infinite; NaN for a cell that is none. */
export function readNumber(cell: string, format: NumberFormat): number {
  const comma = format.decimal === ',';
  if (NUMBER.test(cell) && !(comma && cell.includes('.'))) return Number(cell);
  const parts = partsOf(cell);
  if (parts === null || (parts.unit !== '' && parts.unit !== format.unit)) return Number.NaN;
  const [decimal, group, groups] = comma ? [',', '.', POINT_GROUPS] : ['.', ',', COMMA_GROUPS];
  let { body } = parts;
  if (body.includes(group)) {
    const end = body.search(comma ? /[,e]/i : /[.e]/i);
    const whole = (end < 0 ? body : body.slice(0, end)).replace(/^[+-]/, '');
    if (!format.grouped || !groups.test(whole)) return Number.NaN;
    body = body.replaceAll(group, '');
  }
  if (decimal === ',') body = body.replace(',', '.');
  return NUMBER.test(body) ? Number(body) : Number.NaN;
}
