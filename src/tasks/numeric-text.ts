/**
 * A series as numbers in text: what a policy reads instead of a picture, to compare the two. One line per channel:
 *
 *     x: 0.99, 1.01, 0.987
 *     y: -0.291, nan, -0.274
 */
import { ConfigError, DataError } from '../ground/errors.ts';

interface NumericTextOptions {
  /** Significant digits of each value, 1 … 17; default 3. Trailing zeros are not written. */
  readonly digits?: number;
  /** Between two values; default `, `. */
  readonly separator?: string;
  /** Names of the channels, each written before its line; default: none for one channel, 0, 1 … for several. */
  readonly names?: readonly string[];
  /** Written for a missing value (NaN, ±Infinity); default `nan`. */
  readonly missing?: string;
  /** Most values per channel; more samples are reduced to the means of equally long blocks. Default: all. */
  readonly points?: number;
  /** Most units that the text may measure: the longest text is taken that fits, by reducing points. Default: no limit. */
  readonly limit?: number;
  /** Length of a text in units of `limit`; default: characters. Pass a tokenizer's count for a budget of tokens. */
  readonly measure?: (text: string) => number;
}

interface NumericText {
  readonly text: string;
  /** Values per channel that the text holds. */
  readonly points: number;
  /** Quantity that the text measures. */
  readonly size: number;
}

/** Unicode characters of a text; a pair of surrogates counts once. */
export function countCharacters(text: string): number {
  let count = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    // A low surrogate belongs to the high one before it.
    const follows = i > 0 && unit >= 0xdc00 && unit <= 0xdfff && (text.charCodeAt(i - 1) & 0xfc00) === 0xd800;
    if (!follows) count++;
  }
  return count;
}

/** Means of `points` blocks that differ by at most one sample in length; of the finite values, NaN where there is none. */
function blockMeans(values: Float64Array, points: number): Float64Array {
  if (points >= values.length) return values;
  return Float64Array.from({ length: points }, (_, block) => {
    const start = Math.floor((block * values.length) / points);
    const end = Math.floor(((block + 1) * values.length) / points);
    let mean = 0;
    let count = 0;
    for (let i = start; i < end; i++) {
      const value = values[i]!;
      if (!Number.isFinite(value)) continue;
      count++;
      // Not the sum over the count: large values must not overflow.
      mean += value / count - mean / count;
    }
    return count === 0 ? Number.NaN : mean;
  });
}

function write(value: number, digits: number, missing: string): string {
  if (!Number.isFinite(value)) return missing;
  const rounded = Number(value.toPrecision(digits));
  // Rounding up the largest doubles gives Infinity.
  return String(Number.isFinite(rounded) ? rounded + 0 : value);
}

function check(channels: readonly Float64Array[], options: NumericTextOptions): void {
  const length = channels[0]?.length ?? 0;
  if (length === 0) throw new DataError('a series without samples has no text; give at least one');
  for (const channel of channels) {
    if (channel.length !== length) {
      throw new DataError(`channels of one series must be equally long, got ${length} and ${channel.length}`);
    }
  }
  const { digits = 3, points = length, limit = 1, names = channels, separator = ',' } = options;
  const fail = (key: string, expected: string, got: unknown): never => {
    throw new ConfigError(`numeric text: ${key}: expected ${expected}, got ${String(got)}`);
  };
  if (!Number.isInteger(digits) || digits < 1 || digits > 17)
    fail('digits', 'an integer from 1 to 17', digits);
  if (!Number.isInteger(points) || points < 1) fail('points', 'an integer of at least 1', points);
  if (!(limit > 0)) fail('limit', 'a length above 0', limit);
  if (names.length !== channels.length)
    fail('names', `one for each of ${channels.length} channels`, names.length);
  if (/^[\w.+-]*$/.test(separator))
    fail('separator', 'something that no number holds', JSON.stringify(separator));
}

/**
 * The channels [C][N] of a series as text.
 *
 * With a limit, the number of points is found by bisection: the text measures at most the limit, and about the most that
 * fits (measures need not grow with every point).
 *
 * @throws DataError for no samples or channels of different lengths; ConfigError for an option out of range, or a limit
 * that not even one point per channel keeps
 */
export function numericText(
  channels: readonly Float64Array[],
  options: NumericTextOptions = {},
): NumericText {
  check(channels, options);
  const { digits = 3, separator = ', ', missing = 'nan', limit = Number.POSITIVE_INFINITY } = options;
  const { measure = countCharacters } = options;
  const names = options.names ?? (channels.length === 1 ? undefined : channels.map((_, c) => String(c)));
  const most = Math.min(options.points ?? channels[0]!.length, channels[0]!.length);
  const textOf = (points: number): NumericText => {
    const lines = channels.map((channel, c) => {
      const written = Array.from(blockMeans(channel, points), (value) => write(value, digits, missing));
      return `${names === undefined ? '' : `${names[c]}: `}${written.join(separator)}`;
    });
    const text = lines.join('\n');
    return { text, points, size: measure(text) };
  };
  const full = textOf(most);
  if (full.size <= limit) return full;
  let best = textOf(1);
  if (best.size > limit) {
    throw new ConfigError(
      `numeric text: limit: one value per channel measures ${best.size}, more than ${limit}; raise the limit, or write fewer digits`,
    );
  }
  let over = most;
  while (over - best.points > 1) {
    const tried = textOf(Math.floor((best.points + over) / 2));
    if (tried.size <= limit) best = tried;
    else over = tried.points;
  }
  return best;
}
