/** Examples as users write them, in a module or in JSON lines. */
import { DataError } from '../../src/ground/errors.ts';
import { checkFields, show } from '../../src/ground/json-record.ts';
import type { Example, Gold } from '../../src/ground/types.ts';
import { type GoldParts, goldFrom, taskKind } from '../../src/tasks/kinds.ts';
import { checkExample, VALUE_CHANNEL } from '../example.ts';
import { SPLITS, type Split } from '../split.ts';
import type { Loaded } from './benchmark.ts';

const LINE = /^[^\n\r]{1,200}$/u;
/** Maximum points of one channel. */
const MOST_POINTS = 100_000_000;
const SERIES_FIELDS = ['id', 'values', 'channels', 'names', 'times', 'split', 'recording', 'thought'];

/** @throws DataError for a value that is neither a list nor a typed array of numbers */
function numbersFrom(list: unknown, name: string): Float64Array {
  const { length } = (list ?? {}) as ArrayLike<unknown>;
  if (typeof list !== 'object' || !(Number.isSafeInteger(length) && length >= 0)) {
    throw new DataError(`${name}: got ${show(list)}, expected numbers`);
  }
  if (length > MOST_POINTS) throw new DataError(`${name}: ${length} points; at most ${MOST_POINTS}`);
  return Float64Array.from(list as ArrayLike<unknown>, (value, i) => {
    if (typeof value === 'number') return value;
    if (value === null) return Number.NaN;
    throw new DataError(`${name}[${i}]: got ${show(value)}, expected a number or null (missing)`);
  });
}

/** Reads an optional text of one line. @throws DataError */
function lineFrom(value: unknown, name: string): string | null {
  if (value === undefined || value === null) return null;
  if (typeof value === 'string' && LINE.test(value)) return value;
  throw new DataError(`${name}: got ${show(value)}, expected one line of 1 to 200 characters`);
}

/**
 * Checks an example of the user: `values` or `channels`, the parts of the gold answer of its kind, and optionally id, names, times, split,
 * recording and thought. @throws DataError naming the field
 */
export function statedExample(
  { name, kind }: { readonly name: string; readonly kind: Gold['kind'] },
  value: unknown,
  index: number,
): Loaded {
  const known = [...SERIES_FIELDS, ...taskKind(kind).fields.filter((field) => field !== 'kind')];
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new DataError(`got ${show(value)}, expected an object with values`);
  }
  const given = checkFields(value, [], {}, '', known);
  const { id, values, channels = [values], names, times = null, split = null, recording } = given;
  const named = given['class'];
  if (values === undefined && given['channels'] === undefined)
    throw new DataError('expected values, or channels');
  if (values !== undefined && given['channels'] !== undefined)
    throw new DataError('has values and channels; give one of them');
  if (!Array.isArray(channels)) {
    throw new DataError(`channels: got ${show(channels)}, expected a list of lists of numbers`);
  }
  const series = channels.map((list, c) =>
    numbersFrom(list, values === undefined ? `channels[${c}]` : 'values'),
  );
  const called = names ?? (series.length === 1 ? [VALUE_CHANNEL] : series.map((_, c) => `channel ${c}`));
  if (!Array.isArray(called) || !called.every((entry) => typeof entry === 'string')) {
    throw new DataError(`names: got ${show(names)}, expected a list of texts`);
  }
  if (split !== null && !SPLITS.includes(split as Split)) {
    throw new DataError(`split: got ${show(split)}, expected one of ${SPLITS.join(', ')}`);
  }
  const example: Example = {
    ...{ id: `${name}/${lineFrom(id, 'id') ?? index}`, task: name, channels: series, names: called },
    times: times === null ? null : numbersFrom(times, 'times'),
    gold: goldFrom(
      kind,
      (typeof named === 'number' ? { ...given, class: String(named) } : given) as GoldParts,
    ),
    recording: lineFrom(recording, 'recording'),
  };
  checkExample(example);
  return { split: split as Split | null, example };
}
