/**
 * Examples of any task: their checks, and their format, one line each:
 *
 *     {"id":"ctu/train/0","task":"ctu","recording":null,"gold":{"kind":"classification","class":"Laptop"},
 *      "names":["value"],"times":null,"channels":[[0.1,null,-0.25,…]]}
 *
 * Numbers have the fewest digits that give the same float64 back; a missing point (NaN) is null. Generated series may have `facts` behind.
 */
import { z } from 'zod';
import { DataError } from '../src/ground/errors.ts';
import {
  issueText,
  listField,
  type Place,
  parseRecord,
  show,
  stringField,
} from '../src/ground/json-record.ts';
import {
  type AnomalyClass,
  DEPARTURE_KINDS,
  type Example,
  type Interval,
  type SeriesFacts,
} from '../src/ground/types.ts';
import { readGold, taskKind } from '../src/tasks/kinds.ts';
import { RESERVED } from '../src/tasks/response.ts';

const FIELDS = ['id', 'task', 'recording', 'gold', 'names', 'times', 'channels'] as const;

export const VALUE_CHANNEL = 'value';

export function lengthOf(example: Example): number {
  return example.channels[0]?.length ?? 0;
}

/** A univariate example with anomalies. */
export function anomalyExample(
  id: string,
  task: string,
  values: Float64Array,
  label: AnomalyClass,
  intervals: readonly Interval[],
): Example {
  return {
    ...{ id, task, channels: [values], names: [VALUE_CHANNEL], times: null },
    gold: { kind: 'anomaly', class: label, intervals },
    recording: null,
  };
}

/** @throws DataError for a name that a prompt must not contain: one with `RESERVED` text or a line end */
export function checkChannelNames(names: readonly string[], at: Place = {}): void {
  const wrong = names.find((name) => RESERVED.test(name) || /[\n\r]/.test(name));
  if (wrong === undefined) return;
  throw new DataError(
    `names: the channel ${show(wrong)} holds a tag of the answer, a special token or a line end, and prompts list all names; rename it`,
    at,
  );
}

/**
 * Checks a whole example: id and task not empty; at least one channel and two points; channels equally long, named and
 * named differently, without `RESERVED` text; points finite or NaN, at least one of them finite; times finite and never falling; an answer of
 * its kind: a class of one line, intervals as in `checkIntervals` with 'normal' exactly where there is none, or
 * ascending numbers of channels. Facts, where there are any, of each of its intervals.
 * @throws DataError naming the field
 */
export function checkExample(example: Example, at: Place = {}): void {
  const { id, task, channels, names, times, recording } = example;
  if (id === '') throw new DataError('id: empty; every example needs an id', at);
  if (task === '') throw new DataError('task: empty; every example needs the name of its task', at);
  if (recording === '') throw new DataError('recording: empty; expected a name, or null', at);
  if (channels.length === 0) throw new DataError('channels: none; an example needs at least one', at);
  if (names.length !== channels.length || new Set(names).size !== names.length || names.includes('')) {
    throw new DataError(
      `names: got ${show(names)}, expected a different name for each of ${channels.length} channels`,
      at,
    );
  }
  checkChannelNames(names, at);
  const length = lengthOf(example);
  if (length < 2) throw new DataError(`channels[0]: ${length} points; an example needs at least 2`, at);
  let seen = false;
  for (const [c, channel] of channels.entries()) {
    if (channel.length !== length) {
      throw new DataError(`channels[${c}]: ${channel.length} points, channels[0] has ${length}`, at);
    }
    for (let t = 0; t < length; t++) {
      const value = channel[t]!;
      if (Number.isFinite(value)) seen = true;
      else if (!Number.isNaN(value))
        throw new DataError(
          `channels[${c}][${t}]: ${value}; expected a finite number, or NaN where missing`,
          at,
        );
    }
  }
  if (!seen) throw new DataError('channels: every point is missing', at);
  if (times !== null && times.length !== length) {
    throw new DataError(`times: ${times.length} for ${length} points`, at);
  }
  for (let t = 0; times !== null && t < length; t++) {
    if (!Number.isFinite(times[t]) || times[t]! < (times[t - 1] ?? Number.NEGATIVE_INFINITY)) {
      throw new DataError(`times[${t}]: ${times[t]}; expected finite numbers that do not fall`, at);
    }
  }
  const kind = taskKind(example.gold.kind);
  kind.check(example.gold, { length, channels: channels.length }, at);
  if (example.facts === undefined) return;
  checkFacts(example.facts, kind.marks(example.gold, length)?.intervals.length ?? 0, at);
}

/** Numbers between brackets; `join` alone would write NaN, and −0 as 0. */
function numbers(values: Float64Array): string {
  for (const value of values) {
    if (Number.isNaN(value) || Object.is(value, -0)) {
      const text = Array.from(values, (number) =>
        Number.isNaN(number) ? 'null' : Object.is(number, -0) ? '-0' : String(number),
      );
      return `[${text.join(',')}]`;
    }
  }
  return `[${values.join(',')}]`;
}

/** One line of an example file, without the newline. */
export function exampleLine(example: Example): string {
  const { id, task, recording, gold, names, times, channels, facts } = example;
  const head = JSON.stringify({ id, task, recording, gold, names }).slice(0, -1);
  const x = times === null ? 'null' : numbers(times);
  const known = facts === undefined ? '' : `,"facts":${JSON.stringify(facts)}`;
  return `${head},"times":${x},"channels":[${channels.map(numbers).join(',')}]${known}}`;
}

function readNumbers(list: readonly unknown[], name: string, at: Place): Float64Array {
  const values = new Float64Array(list.length);
  for (let t = 0; t < list.length; t++) {
    const value = list[t];
    if (value !== null && typeof value !== 'number') {
      throw new DataError(`${name}[${t}]: got ${show(value)}, expected a number, or null where missing`, at);
    }
    values[t] = value ?? Number.NaN;
  }
  return values;
}

/**
 * Reads one line of an example file, strictly: exactly the known fields, each of its type, then `checkExample`.
 * @throws DataError with file, line, and column (syntax) or field (content)
 */
export function parseExample(text: string, at: Place = {}): Example {
  const record = parseRecord(text, FIELDS, at, ['facts']);
  const names = listField(record, 'names', at);
  for (const [c, name] of names.entries()) {
    if (typeof name !== 'string') throw new DataError(`names[${c}]: got ${show(name)}, expected text`, at);
  }
  const example: Example = {
    id: stringField(record, 'id', at),
    task: stringField(record, 'task', at),
    recording: record['recording'] === null ? null : stringField(record, 'recording', at),
    gold: readGold(record['gold'], at),
    names: names as string[],
    times: record['times'] === null ? null : readNumbers(listField(record, 'times', at), 'times', at),
    channels: listField(record, 'channels', at).map((list, c) => {
      if (Array.isArray(list)) return readNumbers(list, `channels[${c}]`, at);
      throw new DataError(`channels[${c}]: got ${show(list)}, expected a list of numbers`, at);
    }),
    ...(record['facts'] === undefined ? {} : { facts: readFacts(record['facts'], at) }),
  };
  checkExample(example, at);
  return example;
}

const triple = z.tuple([z.number(), z.number(), z.number()]);
const factsSchema = z.strictObject({
  facts: z.strictObject({
    components: z.array(z.string()),
    periods: z.array(z.number()),
    step: z.number(),
    range: z.tuple([z.number(), z.number()]),
    departures: z.array(
      z.strictObject({
        kind: z.enum(DEPARTURE_KINDS),
        severity: z.number(),
        visibility: z.number(),
        observed: triple,
        unmodified: triple,
      }),
    ),
  }),
});

/** @throws DataError naming the field */
function readFacts(facts: unknown, at: Place): SeriesFacts {
  const result = factsSchema.safeParse({ facts });
  if (result.success) return result.data.facts;
  throw new DataError(issueText(result.error.issues[0]!, { facts }, 'facts'), at);
}

/** @throws DataError unless there are facts about each of the intervals of an answer */
export function checkFacts({ departures }: SeriesFacts, intervals: number, at: Place = {}): void {
  if (departures.length === intervals) return;
  throw new DataError(
    `facts.departures: ${departures.length} for ${intervals} intervals; expected one for each`,
    at,
  );
}
