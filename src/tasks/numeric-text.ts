/**
 * Series as numbers in text, read by a policy instead of a picture. One line per channel:
 *
 *     x: 0.99, 1.01, 0.987
 *     y: -0.291, nan, -0.274
 */
import { ConfigError, DataError } from '../ground/errors.ts';

interface NumericTextOptions {
  /** Significant digits of each value, 1 … 17; default 3. Trailing zeros are not written. */
  readonly digits?: number;
  /** Channel names, written before each line. Default: none for one channel, 0, 1 … for several. */
  readonly names?: readonly string[];
  /** Maximum values per channel; longer series are reduced to the means of equally long blocks. Default: all. */
  readonly points?: number;
}

interface NumericText {
  readonly text: string;
  /** Values per channel in the text. */
  readonly points: number;
}

/** Means of the finite values of `points` blocks, which differ by at most one sample in length; NaN where there is none. */
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

/** Writes a value with its significant digits; `nan` for a missing one (NaN, ±Infinity). */
function write(value: number, digits: number): string {
  if (!Number.isFinite(value)) return 'nan';
  const rounded = Number(value.toPrecision(digits));
  // Rounding up the largest doubles gives Infinity.
  return String(Number.isFinite(rounded) ? rounded + 0 : value);
}

/**
 * Writes the channels [C][N] of a series as text. @throws DataError for unequal or empty channels;
 * ConfigError for a wrong option
 */
export function numericText(
  channels: readonly Float64Array[],
  options: NumericTextOptions = {},
): NumericText {
  const length = channels[0]?.length ?? 0;
  if (length === 0) throw new DataError('a series without samples has no text; give at least one');
  for (const channel of channels) {
    if (channel.length === length) continue;
    throw new DataError(`channels of one series must be equally long, got ${length} and ${channel.length}`);
  }
  const { digits = 3, points: most = length } = options;
  const names = options.names ?? (channels.length === 1 ? null : channels.map((_, c) => String(c)));
  const fail = (key: string, expected: string, got: number): never => {
    throw new ConfigError(`numeric text: ${key}: expected ${expected}, got ${got}`);
  };
  if (!Number.isInteger(digits) || digits < 1 || digits > 17)
    fail('digits', 'an integer from 1 to 17', digits);
  if (!Number.isInteger(most) || most < 1) fail('points', 'an integer of at least 1', most);
  if (names !== null && names.length !== channels.length) {
    fail('names', `one for each of ${channels.length} channels`, names.length);
  }
  const points = Math.min(most, length);
  const lines = channels.map((channel, c) => {
    const written = Array.from(blockMeans(channel, points), (value) => write(value, digits));
    return `${names === null ? '' : `${names[c]}: `}${written.join(', ')}`;
  });
  return { text: lines.join('\n'), points };
}
