/** What generators know of their series, as it stands in files: read and checked. */
import { DataError } from '../src/ground/errors.ts';
import { checkFields, listField, type Place, show } from '../src/ground/json-record.ts';
import {
  DEPARTURE_KINDS,
  type DepartureFacts,
  type DepartureKind,
  type SeriesFacts,
} from '../src/ground/types.ts';

const FIELDS = ['components', 'periods', 'step', 'range', 'departures'] as const;
const DEPARTURE_FIELDS = ['kind', 'severity', 'visibility', 'observed', 'unmodified'] as const;

function numberOf(value: unknown, name: string, at: Place): number {
  if (typeof value === 'number') return value;
  throw new DataError(`${name}: got ${show(value)}, expected a number`, at);
}

/** A list of exactly `count` numbers, or of any. */
function numbersOf(record: Record<string, unknown>, name: string, count: number | null, at: Place): number[] {
  const list = listField(record, name, at).map((value, k) => numberOf(value, `facts.${name}[${k}]`, at));
  if (count === null || list.length === count) return list;
  throw new DataError(`facts.${name}: ${list.length} numbers, expected ${count}`, at);
}

function readDeparture(value: unknown, k: number, at: Place): DepartureFacts {
  const what = `facts.departures[${k}]`;
  const record = checkFields(value, DEPARTURE_FIELDS, at, what);
  const kind = record['kind'] as DepartureKind;
  if (!DEPARTURE_KINDS.includes(kind)) {
    throw new DataError(`${what}.kind: unknown ${show(kind)}; known: ${DEPARTURE_KINDS.join(', ')}`, at);
  }
  const triple = (name: string) => numbersOf(record, name, 3, at) as [number, number, number];
  return {
    kind,
    severity: numberOf(record['severity'], `${what}.severity`, at),
    visibility: numberOf(record['visibility'], `${what}.visibility`, at),
    observed: triple('observed'),
    unmodified: triple('unmodified'),
  };
}

/** @throws DataError naming the field */
export function readFacts(value: unknown, at: Place = {}): SeriesFacts {
  const record = checkFields(value, FIELDS, at, 'facts');
  return {
    components: listField(record, 'components', at).map((name, k) => {
      if (typeof name === 'string') return name;
      throw new DataError(`facts.components[${k}]: got ${show(name)}, expected text`, at);
    }),
    periods: numbersOf(record, 'periods', null, at),
    step: numberOf(record['step'], 'facts.step', at),
    range: numbersOf(record, 'range', 2, at) as [number, number],
    departures: listField(record, 'departures', at).map((one, k) => readDeparture(one, k, at)),
  };
}

/** @throws DataError unless there are facts of each of so many intervals of an answer */
export function checkFacts({ departures }: SeriesFacts, intervals: number, at: Place = {}): void {
  if (departures.length === intervals) return;
  throw new DataError(
    `facts.departures: ${departures.length} for ${intervals} intervals; expected one for each`,
    at,
  );
}
