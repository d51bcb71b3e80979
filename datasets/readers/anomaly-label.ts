/** Point labels of anomaly files. */
import { DataError } from '../../src/errors.ts';
import type { Scanner } from './scanner.ts';

/** The current field as a point label. @throws DataError unless it is 0 or 1, in any spelling of these numbers */
export function pointLabel(scanner: Scanner): number {
  const value = scanner.number();
  if (value === 0 || value === 1) return value;
  throw scanner.fail('a label that is neither 0 nor 1');
}

/** A column of numbers as point labels [N]. @throws DataError unless all are 0 or 1 */
export function pointLabels(values: Float64Array, column: string, path: string): Uint8Array {
  const wrong = values.findIndex((value) => value !== 0 && value !== 1);
  if (wrong < 0) return Uint8Array.from(values);
  throw new DataError(
    `${JSON.stringify(column)}, point ${wrong + 1} of ${values.length}: ${values[wrong]}; a label is 0 or 1`,
    { file: path },
  );
}
