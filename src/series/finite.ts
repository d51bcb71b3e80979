/** The one check that every analysis of outside data makes: values must be finite. */
import { DataError } from '../errors.ts';

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
