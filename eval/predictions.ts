/**
 * Gold answers and anybody's predictions, each a file of JSON lines, as evaluated responses.
 *
 *  gold         {"id", "length", "intervals": [[start, end], …], "class"}, {"id", "class"}, {"id", "variates", "channels"}, or
 *               {"id", "length", "gold": {"kind", …}} as data sets and records have it; "task" groups results
 *  predictions  {"id", "intervals", "class"}, {"id", "class"}, {"id", "variates"} or {"id", "text"}; further "scores" (one for each
 *               point), "probabilities" (one for each class), "usage", "seconds", "sample" (0, 1, …) where an id has several, and
 *               "frame" where intervals in the text count another number of points than the series has
 *
 * Other fields are passed over, unless they look like a misspelt part of the answer; records of `timeseer eval` are both. Intervals are half-open and count from 0.
 */

import { closest, DataError } from '../src/ground/errors.ts';
import { readJsonValues } from '../src/ground/json-files.ts';
import { isObject, type Place, show } from '../src/ground/json-record.ts';
import { getOrMake } from '../src/ground/maps.ts';
import {
  ANOMALY_CLASSES,
  type AnomalyGold,
  type EvalRecord,
  type Gold,
  type Interval,
  type ParsedAnswer,
} from '../src/ground/types.ts';
import { checkProbabilities, mostProbable, type Stated } from '../src/measures/calibration.ts';
import { averagePrecision, rocArea, VUS_WINDOW, volumeUnderSurface } from '../src/measures/curves.ts';
import { clipAndMerge, mapBack } from '../src/series/intervals.ts';
import { checkIntervals, intervalsOf } from '../src/tasks/anomaly.ts';
import { goldParts, labelOf, parseResponse, readGold, scoreAnswer, taskKind } from '../src/tasks/kinds.ts';
import { nameClass, type Reading, readLabel } from '../src/tasks/response.ts';

export interface PredictionFiles {
  readonly gold: string;
  readonly pred: string;
  /** Classes that answers may name, in order; those of the gold answers where absent, of anomalies AnomSeer's. */
  readonly classes?: readonly string[];
  /** Reading of answers; default lenient. */
  readonly answers?: Reading;
  /** Largest window of VUS, in points; default 100. */
  readonly window?: number;
}

export interface Predictions {
  readonly kind: Gold['kind'];
  /** Records in the order of the gold file, samples of an id together; an id without a prediction has one without an answer. */
  readonly records: readonly EvalRecord[];
  /** Probabilities that predictions state for classes. */
  readonly stated: readonly (Stated & { readonly id: string })[];
  /** The classes that answers may name. */
  readonly classes: readonly string[];
  /** Ids without a prediction: they count as answers that cannot be read. */
  readonly missing: readonly string[];
  /** Number of predictions whose class is none of `classes`. */
  readonly otherLabels: number;
  /** True where predictions have scores and nothing else. */
  readonly scoresAlone: boolean;
}

const LINES = { advice: 'write one JSON object per line' };

type Fields = Readonly<Record<string, unknown>>;

interface GoldLine {
  readonly id: string;
  readonly task: string;
  readonly length: number;
  readonly channels: number;
  readonly gold: Gold;
  readonly line: number;
}

function fieldsOf(value: unknown, at: Place): Fields {
  if (isObject(value)) return value;
  throw new DataError(`got ${show(value)}, expected an object with "id"`, at);
}

function idOf(fields: Fields, at: Place): string {
  const id = fields['id'] ?? fields['seriesId'];
  if (typeof id === 'string' && id !== '') return id;
  throw new DataError(`id: got ${show(id)}, expected text`, at);
}

/** @throws DataError for a field that is nearly named like a part of the answer which the line lacks, and holds what it may hold */
function checkSpelling(fields: Fields, parts: readonly string[], at: Place): void {
  const missing = parts.filter((part) => fields[part] === undefined);
  for (const name of Object.keys(fields)) {
    const near = parts.includes(name) ? undefined : closest(name, missing, name.length < 8 ? 1 : 2);
    const fits = typeof fields[name] === (near === 'class' || near === 'text' ? 'string' : 'object');
    if (near !== undefined && fits)
      throw new DataError(`${show(name)}: unknown field. Did you mean "${near}"?`, at);
  }
}

/** A list of a line; undefined where it has none. */
function list(fields: Fields, name: string, at: Place): readonly unknown[] | undefined {
  const value = fields[name];
  if (value === undefined || value === null || Array.isArray(value)) return value ?? undefined;
  throw new DataError(`${name}: got ${show(value)}, expected a list`, at);
}

function label(fields: Fields, at: Place): string | undefined {
  const value = fields['class'];
  if (value === undefined || value === null || typeof value === 'string') return value ?? undefined;
  throw new DataError(`class: got ${show(value)}, expected text`, at);
}

function count(fields: Fields, name: string, least: number, at: Place): number | undefined {
  const value = fields[name];
  if (value === undefined || value === null) return undefined;
  if (Number.isSafeInteger(value) && (value as number) >= least) return value as number;
  throw new DataError(`${name}: got ${show(value)}, expected an integer ≥ ${least}`, at);
}

/** The points of a gold line; 1 where the answer does not count them and the line does not say. */
function lengthOf(fields: Fields, counts: boolean, at: Place): number {
  const [first] = Array.isArray(fields['channels']) ? (fields['channels'] as unknown[]) : [];
  const length = count(fields, 'length', 1, at) ?? (Array.isArray(first) ? first.length : undefined);
  if (length !== undefined) return length;
  if (counts) throw new DataError('length: missing; it is the number of points of the series', at);
  return 1;
}

/** The class of a gold answer, spelled as in the list. @throws DataError unless it is one of them */
function knownClass(name: string, classes: readonly string[], at: Place): string {
  const known = nameClass(name, classes);
  if (known !== null && classes.includes(known)) return known;
  throw new DataError(
    `class: ${show(name)} is none of ${classes.join(', ')}; name your own with --classes`,
    at,
  );
}

function anomalyGold(fields: Fields, length: number, classes: readonly string[], at: Place): AnomalyGold {
  const intervals = intervalsOf(list(fields, 'intervals', at)!, at);
  checkIntervals(intervals, length, at);
  const named = label(fields, at);
  const name = named === undefined ? null : knownClass(named, classes, at);
  if (name !== null && classes.includes('normal') && (name === 'normal') !== (intervals.length === 0)) {
    throw new DataError(
      `class: ${show(name)} with ${intervals.length} intervals; "normal" needs none, every other class at least one`,
      at,
    );
  }
  return { kind: 'anomaly', intervals, class: name as AnomalyGold['class'] };
}

function goldOf(fields: Fields, length: number, classes: readonly string[] | undefined, at: Place): Gold {
  if (fields['gold'] !== undefined) return readGold(fields['gold'], at);
  checkSpelling(fields, ['intervals', 'variates', 'class'], at);
  if (fields['intervals'] !== undefined && fields['intervals'] !== null) {
    return anomalyGold(fields, length, classes ?? ANOMALY_CLASSES, at);
  }
  const variates = list(fields, 'variates', at);
  if (variates !== undefined) return readGold({ kind: 'variates', variates }, at);
  const named = label(fields, at);
  if (named === undefined) {
    throw new DataError('no gold answer: expected intervals, a class, variates, or gold with its kind', at);
  }
  return {
    kind: 'classification',
    class: classes === undefined ? named : knownClass(named, classes, at),
  };
}

/** Reads gold answers by id, in the order of the file, all of one kind. */
function readGoldLines(file: string, classes: readonly string[] | undefined): Map<string, GoldLine> {
  const golds = new Map<string, GoldLine>();
  let first: GoldLine | undefined;
  for (const { value, line } of readJsonValues(file, LINES)) {
    const at = { file, line };
    const fields = fieldsOf(value, at);
    const id = idOf(fields, at);
    const within = (fields['gold'] ?? fields) as { readonly intervals?: unknown };
    const counts = Array.isArray(within.intervals);
    const length = lengthOf(fields, counts, at);
    const gold = goldOf(fields, length, classes, at);
    const task = typeof fields['task'] === 'string' && fields['task'] !== '' ? fields['task'] : 'all';
    const channels = Array.isArray(fields['channels'])
      ? fields['channels'].length
      : (count(fields, 'channels', 1, at) ??
        (taskKind(gold.kind).countsChannels ? Number.MAX_SAFE_INTEGER : 1));
    const entry = { id, task, length, channels, gold, line };
    const twice = golds.get(id);
    if (twice !== undefined) {
      // Records of an evaluation have the gold answer once for each sample.
      if (fields['seriesId'] !== undefined && goldParts(twice.gold) === goldParts(gold)) continue;
      throw new DataError(`id: ${show(id)} again, first in line ${twice.line}; give every id once`, at);
    }
    first ??= entry;
    if (gold.kind !== first.gold.kind) {
      throw new DataError(
        `an answer of kind ${gold.kind} beside one of kind ${first.gold.kind} in line ${first.line}; score them one by one`,
        at,
      );
    }
    if (fields['gold'] !== undefined) taskKind(gold.kind).check(gold, { length, channels }, at);
    golds.set(id, entry);
  }
  if (first === undefined) throw new DataError('holds no gold answer', { file });
  return golds;
}

/** Reads the half-open intervals of a prediction. @throws DataError unless they are pairs of numbers */
function pairsOf(values: readonly unknown[], at: Place): Interval[] {
  return values.map((pair, k): Interval => {
    if (Array.isArray(pair) && pair.length === 2) {
      const [start, end] = pair as unknown[];
      if (typeof start === 'number' && typeof end === 'number') return [start, end];
    }
    throw new DataError(`intervals[${k}]: got ${show(pair)}, expected [start, end], two numbers`, at);
  });
}

/** Problem of intervals in a strict reading; null where there is none. */
function intervalProblem(pairs: readonly Interval[], length: number): string | null {
  for (const [start, end] of pairs) {
    if (!Number.isInteger(start) || !Number.isInteger(end))
      return `interval [${start}, ${end}] is not of integers`;
    if (start >= end) return `interval [${start}, ${end}] is empty: the start must be below the end`;
    if (start < 0 || start >= length) {
      return `interval [${start}, ${end}] is outside the series of ${length} points`;
    }
  }
  return null;
}

/**
 * Reads a structured prediction the way text is read. Lenient: intervals are truncated to integers, clipped to the series and merged;
 * empty, reversed or outlying ones are left out, and a list with nothing left is unreadable. Strict: any of these but an end beyond the
 * series makes the answer unreadable.
 */
function statedAnswer(
  fields: Fields,
  { gold, length, channels }: GoldLine,
  reading: Reading,
  classes: readonly string[],
  at: Place,
): ParsedAnswer {
  const parts = taskKind(gold.kind).evaluation.answerParts;
  const asks = (part: (typeof parts)[number]): boolean =>
    part === 'class' ? taskKind(gold.kind).className(gold) !== null : part !== 'extension';
  checkSpelling(fields, parts.filter(asks), at);
  const problems: string[] = [];
  let intervals: Interval[] | null = null;
  const listed = list(fields, 'intervals', at);
  if (listed !== undefined && parts.includes('intervals')) {
    const pairs = pairsOf(listed, at);
    const problem = intervalProblem(pairs, length);
    if (problem !== null) problems.push(problem);
    if (problem === null || reading === 'lenient') {
      const merged = clipAndMerge(
        pairs.map(([start, end]) => [Math.trunc(start), Math.trunc(end)]),
        length,
      );
      intervals = merged.length === 0 && pairs.length > 0 ? null : merged;
    }
  } else if (parts.includes('intervals')) problems.push('there are no intervals');
  const named = label(fields, at);
  let name: string | null = null;
  if (parts.includes('class')) {
    name = named === undefined ? null : reading === 'strict' ? readLabel(named) : nameClass(named, classes);
    if (name === null && asks('class')) problems.push('there is no class');
  }
  const ids = list(fields, 'variates', at);
  let variates: number[] | null = null;
  if (ids !== undefined && parts.includes('variates')) {
    const known = ids.filter(
      (id): id is number => Number.isInteger(id) && (id as number) >= 0 && (id as number) < channels,
    );
    if (known.length < ids.length) problems.push(`variates: ${show(ids)} are not all numbers of channels`);
    const readable = known.length === ids.length || (reading === 'lenient' && known.length > 0);
    if (readable) variates = [...new Set(known)].sort((a, b) => a - b);
  } else if (parts.includes('variates')) problems.push('there are no variates');
  const problem = problems[0] ?? null;
  return {
    think: null,
    intervals,
    ...(parts.includes('variates') ? { variates } : {}),
    class: name,
    wellFormed: problem === null,
    problem,
  };
}

/** Answer with its intervals in points of the series, of which a policy was shown `frame`. */
const inPoints = (answer: ParsedAnswer, frame: number, length: number): ParsedAnswer =>
  frame === length || answer.intervals === null
    ? answer
    : { ...answer, intervals: mapBack(answer.intervals, frame, [0, length]) };

const ANSWERS = ['text', 'response', 'intervals', 'class', 'variates', 'probabilities'] as const;

/** Answer of a prediction without one. */
function noAnswer(gold: Gold, problem: string): ParsedAnswer {
  const { answerParts } = taskKind(gold.kind).evaluation;
  const variates = answerParts.includes('variates') ? { variates: null } : {};
  return { think: null, intervals: null, ...variates, class: null, wellFormed: false, problem };
}

const recordOf = ({ id, task, length, gold }: GoldLine, answer: ParsedAnswer): EvalRecord => ({
  ...{ seriesId: id, task, length, gold, response: '', answer },
  score: scoreAnswer(answer, gold, length),
});

/** Measures of scores for the points; empty where the series has no anomaly, or nothing else. @throws DataError */
function scoreMeasures(
  values: readonly unknown[],
  { gold, length }: GoldLine,
  window: number,
  at: Place,
): Record<string, number> {
  if (values.length !== length) {
    throw new DataError(
      `scores: got ${values.length} of them, expected one for each of the ${length} points`,
      at,
    );
  }
  const wrong = values.findIndex((score) => typeof score !== 'number' || !Number.isFinite(score));
  if (wrong >= 0)
    throw new DataError(`scores[${wrong}]: got ${show(values[wrong])}, expected a finite number`, at);
  if (!('intervals' in gold)) throw new DataError('scores: only those of anomalies are judged', at);
  const scores = Float64Array.from(values as number[]);
  const { pr, roc } = volumeUnderSurface(scores, gold.intervals, { window });
  if (Number.isNaN(pr)) return {};
  return {
    auc_pr: averagePrecision(scores, gold.intervals),
    auc_roc: rocArea(scores, gold.intervals),
    vus_pr: pr,
    vus_roc: roc,
  };
}

function probabilitiesOf(fields: Fields, gold: Gold, at: Place): Readonly<Record<string, number>> | null {
  const value = fields['probabilities'];
  if (value === undefined || value === null) return null;
  if (typeof value !== 'object' || Array.isArray(value) || Object.keys(value).length === 0) {
    throw new DataError(`probabilities: got ${show(value)}, expected an object with one number a class`, at);
  }
  if (taskKind(gold.kind).classes !== 'data') {
    throw new DataError('probabilities: only those of the classes of a classification are judged', at);
  }
  try {
    checkProbabilities(value as Record<string, number>);
  } catch (error) {
    throw new DataError((error as Error).message, at);
  }
  return value as Record<string, number>;
}

/** Reads the tokens and seconds that a prediction states. */
function spent(fields: Fields): Pick<EvalRecord, 'usage' | 'seconds'> {
  const { usage, seconds } = fields as {
    usage?: { prompt?: unknown; completion?: unknown };
    seconds?: unknown;
  };
  const { prompt, completion } = usage ?? {};
  return {
    ...(typeof prompt === 'number' && typeof completion === 'number'
      ? { usage: { prompt, completion } }
      : {}),
    ...(typeof seconds === 'number' ? { seconds } : {}),
  };
}

/**
 * Reads and checks both files. Predictions are streamed; their scores for points are not kept.
 * @throws DataError naming file and line for what is not JSON, an unknown or repeated id, a gold answer that is none, and a prediction
 * of another shape than above. Wrong answers are no errors: they are scored.
 */
export function readPredictions({
  gold: goldFile,
  pred,
  classes: named,
  answers = 'lenient',
  window = VUS_WINDOW,
}: PredictionFiles): Predictions {
  const golds = readGoldLines(goldFile, named);
  const { kind } = golds.values().next().value!.gold;
  const ofKind = taskKind(kind).classes;
  const labels = new Set([...golds.values()].map(({ gold }) => labelOf(gold)));
  const classes = named ?? (ofKind === 'data' ? [...labels].sort() : ofKind);
  const byId = new Map<string, EvalRecord[]>();
  const stated: (Stated & { id: string })[] = [];
  const lines = new Map<string, number>(); // by id and sample
  let scoresAlone = true;
  for (const { value, line } of readJsonValues(pred, LINES)) {
    const at = { file: pred, line };
    const fields = fieldsOf(value, at);
    const id = idOf(fields, at);
    const gold = golds.get(id);
    if (gold === undefined) throw new DataError(`id: ${show(id)} is not in ${goldFile}`, at);
    const sample = count(fields, 'sample', 0, at);
    const key = `${id}\n${sample}`;
    const before = lines.get(key);
    if (before !== undefined) {
      const which = sample === undefined ? '' : ` with sample ${sample}`;
      throw new DataError(
        `id: ${show(id)}${which} again, first in line ${before}; number several answers with "sample": 0, 1, …`,
        at,
      );
    }
    lines.set(key, line);
    const scores = list(fields, 'scores', at);
    const says = ANSWERS.some((name) => fields[name] !== undefined);
    if (!says && scores === undefined) {
      checkSpelling(fields, [...ANSWERS, 'scores'], at);
      throw new DataError(
        'no answer: expected text, intervals, class, variates, probabilities or scores',
        at,
      );
    }
    if (says) scoresAlone = false;
    const probabilities = probabilitiesOf(fields, gold.gold, at);
    const text = fields['text'] ?? fields['response'];
    if (text !== undefined && typeof text !== 'string') {
      throw new DataError(`text: got ${show(text)}, expected text`, at);
    }
    const frame = count(fields, 'frame', 1, at) ?? gold.length;
    const asked = { kind, length: frame, channels: gold.channels, classes, reading: answers };
    // Detectors of an evaluation have records without text, whose answer stands beside.
    const beside = text === '' ? (fields['answer'] as Fields | undefined) : undefined;
    const parsed =
      text !== undefined && beside === undefined
        ? inPoints(parseResponse(text, asked), frame, gold.length)
        : !says
          ? noAnswer(gold.gold, 'there are scores alone')
          : statedAnswer(
              beside ??
                (probabilities === null || fields['class'] !== undefined
                  ? fields
                  : { class: mostProbable(probabilities)[0] }),
              gold,
              answers,
              classes,
              at,
            );
    // The reader of text knows AnomSeer's classes; here they may be others.
    const answer =
      answers === 'lenient' && named !== undefined && parsed.class !== null
        ? { ...parsed, class: nameClass(parsed.class, named) }
        : parsed;
    if (probabilities !== null) stated.push({ id, probabilities, gold: labelOf(gold.gold) });
    const measures = scores === undefined ? {} : scoreMeasures(scores, gold, window, at);
    const record = {
      ...recordOf(gold, answer),
      ...(sample === undefined ? {} : { sample }),
      ...spent(fields),
      ...(Object.keys(measures).length === 0 ? {} : { measures }),
    };
    getOrMake(byId, id, () => []).push(record);
  }
  if (byId.size === 0) throw new DataError('holds no prediction', { file: pred });
  const missing = [...golds.keys()].filter((id) => !byId.has(id));
  const records = [...golds.values()].flatMap((gold) => {
    const group = byId.get(gold.id);
    if (group !== undefined) return group.sort((a, b) => (a.sample ?? 0) - (b.sample ?? 0));
    return [recordOf(gold, noAnswer(gold.gold, 'there is no prediction'))];
  });
  const otherLabels = records.filter(
    ({ answer }) => classes.length > 0 && answer.class !== null && !classes.includes(answer.class),
  ).length;
  return { kind, records, stated, classes, missing, otherLabels, scoresAlone };
}
