/**
 * Prose as sentences of tokens in which every number is one: what claims are looked for in. One pass over the text, no backtracking beyond
 * a token, so any text costs time in proportion to its length.
 */

/** A number as printed. */
export interface PrintedNumber {
  readonly value: number;
  /** Half a unit of its last printed digit: what rounding may have taken. */
  readonly rounding: number;
  /** Place in the text. */
  readonly span: readonly [start: number, end: number];
}

export interface Sentence {
  /** Lower-case tokens, one space before each and after the last; numbers are `N`, which no word is. */
  readonly text: string;
  /** Tokens with their place in `text`, ascending. */
  readonly tokens: readonly SentenceToken[];
  readonly span: readonly [start: number, end: number];
  /** True where it ends with a question mark. */
  readonly asks: boolean;
}

interface SentenceToken {
  readonly at: number;
  readonly number: PrintedNumber | null;
  readonly span: readonly [start: number, end: number];
}

/** Longer sentences are cut: no pattern reaches further than a clause. */
const MOST_TOKENS = 160;
/** Longer runs of digits are no measurement. */
const LONGEST_NUMBER = 40;

const SUPERSCRIPTS = '⁰¹²³⁴⁵⁶⁷⁸⁹';
// Digits with thousands between commas or narrow spaces, or plain; then fraction, exponent, or a power of ten.
const NUMBER = String.raw`(?:\d{1,3}(?:,\d{3}){1,6}(?![\d,])|\d{1,3}(?:[\u00a0\u2009\u202f]\d{3}){1,6}(?!\d)|\d+)(?:\.\d+)?|\.\d+`;
const EXPONENT = String.raw`[eE][+\-−]?\d{1,4}(?![\p{L}\d])|\s?(?:[×x*·]|\\times|\\cdot)\s?10(?:\^\{?[+\-−]?\d{1,4}\}?|[⁺⁻]?[${SUPERSCRIPTS}]{1,4})`;
const WORD = String.raw`[\p{L}_][\p{L}\p{M}\p{N}_]*(?:[-'’]\p{L}[\p{L}\p{M}\p{N}_]*)*`;
const TOKEN = new RegExp(`(${NUMBER})(${EXPONENT})?|(${WORD})|(\\n)|(\\S)`, 'gu');

const SAME: Readonly<Record<string, string>> = {
  σ: 'sigma',
  '−': '-',
  '–': '–',
  '—': '–',
  '×': 'times',
  '∼': '~',
  '≃': '≈',
  '≅': '≈',
  stdev: 'std',
  stddev: 'std',
  sd: 'std',
  avg: 'average',
  max: 'maximum',
  min: 'minimum',
  μ: 'mean',
  mu: 'mean',
  approx: 'about',
  approximately: 'about',
  roughly: 'about',
  circa: 'about',
  ca: 'about',
  nearly: 'about',
  almost: 'about',
  '~': 'about',
  '≈': 'about',
  cannot: 'can not',
  timesteps: 'steps',
  timestep: 'step',
  timestamps: 'indices',
  timestamp: 'index',
  datapoints: 'points',
  datapoint: 'point',
  indexes: 'indices',
};

/** A full stop behind these ends no sentence. */
const ABBREVIATED = new Set([
  'about',
  'std',
  'e',
  'g',
  'i',
  'vs',
  'dev',
  'fig',
  'maximum',
  'minimum',
  'average',
  'resp',
]);

export const NUMBER_WORDS: Readonly<Record<string, number>> = {
  one: 1,
  two: 2,
  three: 3,
  four: 4,
  five: 5,
  six: 6,
  seven: 7,
  eight: 8,
  nine: 9,
  ten: 10,
  eleven: 11,
  twelve: 12,
};

function decimalsOf(digits: string): number {
  const dot = digits.indexOf('.');
  return dot < 0 ? 0 : digits.length - dot - 1;
}

function exponentOf(text: string): number {
  const raised = text.replace(/[⁰¹²³⁴-⁹]/g, (digit) => String(SUPERSCRIPTS.indexOf(digit)));
  const exponent = /([+\-−⁺⁻]?)(\d+)\}?$/.exec(raised.replace(/^\s?(?:[×x*·]|\\times|\\cdot)\s?10/, ''));
  if (exponent === null) return 0;
  return (/[-−⁻]/.test(exponent[1]!) ? -1 : 1) * Number(exponent[2]);
}

interface Piece {
  readonly text: string;
  readonly number: PrintedNumber | null;
  readonly span: readonly [number, number];
}

/** Returns the word of a token in the spelling that the patterns know. */
function spelled(word: string): string {
  const lower = word.toLowerCase().replaceAll('’', "'");
  if (lower === "can't") return 'can not';
  if (lower.endsWith("n't")) return `${lower.slice(0, -3)} not`;
  return Object.hasOwn(SAME, lower) ? SAME[lower]! : lower;
}

const MULTIPLIERS: Readonly<Record<string, number>> = { thousand: 1e3, million: 1e6, billion: 1e9 };
const GLUED: Readonly<Record<string, number>> = { k: 1e3, M: 1e6 };

/** Returns the factor of a word behind a number, as in "1.35 million" and "1514k". */
function multiplierOf(word: string, glued: boolean): number | undefined {
  if (glued && Object.hasOwn(GLUED, word)) return GLUED[word];
  const lower = word.toLowerCase();
  return Object.hasOwn(MULTIPLIERS, lower) ? MULTIPLIERS[lower] : undefined;
}

function multiplied({ text, number, span }: Piece, factor: number, end: number): Piece {
  const { value, rounding } = number!;
  const whole = [span[0], end] as const;
  return { text, number: { value: value * factor, rounding: rounding * factor, span: whole }, span: whole };
}

/** Returns true for a sign of Markdown or LaTeX that says nothing: emphasis, the borders of a table, the frame of a formula. */
const isMarkup = (text: string, at: number, sign: string): boolean =>
  '*$`\\'.includes(sign) || (sign === '|' && /^\s*\|\s*$/.test(text.slice(Math.max(0, at - 1), at + 2)));

const isSign = (character: string | undefined): boolean =>
  character === '-' || character === '−' || character === '–' || character === '+';

/** Splits a text into sentences, empty ones left out. */
export function* sentences(text: string): Generator<Sentence> {
  let pieces: Piece[] = [];
  const finish = function* (asks = false): Generator<Sentence> {
    if (pieces.length > 0) yield sentenceOf(pieces, asks);
    pieces = [];
  };
  TOKEN.lastIndex = 0;
  for (const match of text.matchAll(TOKEN)) {
    const [whole, digits, power, word, line, sign] = match;
    const start = match.index;
    const end = start + whole.length;
    if (line !== undefined) {
      yield* finish();
    } else if (digits !== undefined) {
      if (whole.length > LONGEST_NUMBER) {
        pieces.push({ text: '…', number: null, span: [start, end] });
      } else {
        for (const number of numbersOf(text, start, digits, power ?? '')) pushNumber(pieces, text, number);
      }
    } else if (word !== undefined) {
      const last = pieces.at(-1);
      const glued = last?.number != null && last.span[1] === start;
      const factor = last?.number == null ? undefined : multiplierOf(word, glued);
      if (factor !== undefined) {
        pieces[pieces.length - 1] = multiplied(last!, factor, end);
        continue;
      }
      pieces.push({
        text: glued && word === 'x' ? 'times' : spelled(word),
        number: null,
        span: [start, end],
      });
    } else {
      const next = text[end];
      const stop =
        (sign === '.' && (next === undefined || /\s|<|\*|\)/.test(next))) || sign === '!' || sign === '?';
      if (isMarkup(text, start, sign!)) continue;
      if (!stop) pieces.push({ text: SAME[sign!] ?? sign!, number: null, span: [start, end] });
      else if (sign !== '.' || !ABBREVIATED.has(pieces.at(-1)?.text ?? '')) yield* finish(sign === '?');
    }
    if (pieces.length >= MOST_TOKENS) yield* finish();
  }
  yield* finish();
}

/** Share of a number with a power of ten that its rounding may be: 1e2 does not stand for 50 to 150, nor 0e9 for any number. */
const MOST_ROUNDING = 0.05;

/** The number, or the members of a list such as `[120,180]` that look like one with thousands. */
function numbersOf(text: string, start: number, digits: string, power: string): PrintedNumber[] {
  const listed = digits.includes(',') && (text[start - 1] === '[' || text[start - 1] === '(');
  if (!listed) {
    const plain = digits.replace(/[,\s]/g, '');
    const exponent = exponentOf(power);
    const half = 0.5 * 10 ** -decimalsOf(plain);
    return [
      {
        value: Number(`${plain}e${exponent}`),
        rounding: (power === '' ? half : Math.min(half, MOST_ROUNDING * Number(plain))) * 10 ** exponent,
        span: [start, start + digits.length + power.length],
      },
    ];
  }
  let at = start;
  return digits.split(',').map((part) => {
    const span = [at, at + part.length] as const;
    at += part.length + 1;
    return { value: Number(part), rounding: 0.5 * 10 ** -decimalsOf(part), span };
  });
}

/** Takes a sign in front of a number for its own, unless it stands between two numbers or words: 30-35, −0.4, "of -3". */
function pushNumber(pieces: Piece[], text: string, number: PrintedNumber): void {
  const last = pieces.at(-1);
  const [start, end] = number.span;
  const isSigned =
    last !== undefined &&
    last.number === null &&
    isSign(last.text) &&
    last.span[1] === start &&
    !/[\p{L}\p{N})\]%]/u.test(text[last.span[0] - 1] ?? ' ');
  if (isSigned) pieces.pop();
  else if (last?.text === '-' && last.number === null && pieces.at(-2)?.number != null) {
    // A hyphen between two numbers is a range.
    pieces[pieces.length - 1] = { ...last, text: '–' };
  } else if (last?.number != null && text.slice(last.span[1], start) === ',') {
    pieces.push({ text: ',', number: null, span: [last.span[1], start] });
  }
  const value = isSigned && last.text !== '+' ? -number.value : number.value;
  const span = [isSigned ? last.span[0] : start, end] as const;
  pieces.push({ text: 'N', number: { ...number, value, span }, span });
}

function sentenceOf(pieces: readonly Piece[], asks: boolean): Sentence {
  let text = '';
  const tokens = pieces.map((piece): SentenceToken => {
    text += ' ';
    const at = text.length;
    text += piece.text;
    return { at, number: piece.number, span: piece.span };
  });
  return { text: `${text} `, tokens, span: [pieces[0]!.span[0], pieces.at(-1)!.span[1]], asks };
}

/** Index of the token that covers a place in the sentence's text, or the one before it. */
export function tokenAt({ tokens }: Sentence, place: number): number {
  let low = 0;
  let high = tokens.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (tokens[middle]!.at <= place) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Returns the numbers in a stretch of a sentence's text. */
export function numbersIn(sentence: Sentence, [start, end]: readonly [number, number]): PrintedNumber[] {
  const numbers: PrintedNumber[] = [];
  for (let t = tokenAt(sentence, start); t < sentence.tokens.length && sentence.tokens[t]!.at < end; t++) {
    const { at, number } = sentence.tokens[t]!;
    if (number !== null && at >= start) numbers.push(number);
  }
  return numbers;
}
