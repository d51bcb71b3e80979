/** Checks of what comes from outside: values and options of the public analyses. */
import { ConfigError, DataError } from '../ground/errors.ts';

/**
 * Throws a DataError that names the first NaN or infinite value. The analyses neither skip nor fill: a gap moves
 * lags, periods and windows, so the caller decides.
 */
export function requireFinite(values: Float64Array, analysis: string): void {
  for (let i = 0; i < values.length; i++) {
    if (!Number.isFinite(values[i]!)) {
      throw new DataError(
        `${analysis}: value ${i} of ${values.length} is ${values[i]}; fill or cut missing values before`,
      );
    }
  }
}

/** Throws a ConfigError for an option out of range: `name: got value, expected …`. */
export function requireOption(valid: boolean, name: string, value: unknown, expected: string): void {
  if (!valid) throw new ConfigError(`${name}: got ${value}, expected ${expected}`);
}

/** Throws a ConfigError for an option that is not a whole number of at least `least`. */
export function requireWhole(name: string, value: number | undefined, least: number): void {
  requireOption(Number.isInteger(value) && value! >= least, name, value, `a whole number ≥ ${least}`);
}

/** Checks an odd whole number. */
export function requireOdd(name: string, value: number, least: number): void {
  requireOption(value % 2 === 1 && value >= least, name, value, `an odd whole number ≥ ${least}`);
}

/** Throws a ConfigError for an option that is not a whole number of `least` … `most`; `why` ends the message. */
export function requireWithin(name: string, value: number, least: number, most: number, why = ''): void {
  const valid = Number.isInteger(value) && value >= least && value <= most;
  requireOption(valid, name, value, `${least} … ${most}${why}`);
}
