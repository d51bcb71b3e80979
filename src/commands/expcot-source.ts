/** Where `expcot` finds series and classes: prepared data sets, files of any format, profiles. */
import { statSync } from 'node:fs';
import { isExampleSet } from '../../datasets/example-manifest.ts';
import { ExampleSet } from '../../datasets/example-set.ts';
import { LARGEST_VALUE } from '../../datasets/prepare.ts';
import { readCsv } from '../../datasets/readers/csv.ts';
import { formatOf, readRecords } from '../../datasets/readers/formats.ts';
import { type RawRecord, stem } from '../../datasets/readers/record.ts';
import { SPLITS, type Split } from '../../datasets/split.ts';
import { parseIntervals } from '../../rewards/answer.ts';
import { ConfigError, DataError, reasonOf } from '../errors.ts';
import { type ClassProfile, learnClasses, readProfile } from '../expcot/class-profile.ts';
import { readUtf8 } from '../files.ts';
import { mergeIntervals, runs } from '../series/intervals.ts';
import { ANOMALY_CLASSES, type AnomalyClass, type Example, type Gold, type Interval } from '../types.ts';

/** A series to explain, and what is known of its right answer. */
export interface Explained {
  readonly id: string;
  readonly channels: readonly Float64Array[]; // [C][N]
  readonly names: readonly string[];
  /** Null where the file does not say. */
  readonly gold: Gold | null;
}

function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch (cause) {
    throw new DataError(`cannot be read (${reasonOf(cause)})`, { file: path, cause });
  }
}

/** The prepared data set at a path; null for a file. @throws DataError for a directory that is not one */
export function openSet(path: string): ExampleSet | null {
  if (!isDirectory(path)) return null;
  if (!isExampleSet(path)) {
    throw new DataError('a directory, but not a prepared data set; timeseer data prepare writes one', {
      file: path,
    });
  }
  return new ExampleSet(path);
}

function* records(path: string, columns: readonly string[] | undefined): Generator<RawRecord> {
  if (columns === undefined) yield* readRecords(path);
  else {
    const format = formatOf(path);
    if (format !== 'csv' && format !== 'nab') {
      throw new ConfigError(
        `--column belongs to CSV files with a column per channel; ${path} is read as ${format}`,
      );
    }
    yield* readCsv(path, { columns, missing: true });
  }
}

function intervalsOf({ anomalies, channels }: RawRecord): readonly Interval[] | null {
  if (anomalies === null) return null;
  return anomalies instanceof Uint8Array
    ? runs(channels[0]!.length, (i) => anomalies[i] === 1)
    : mergeIntervals(anomalies);
}

function explained(record: RawRecord): Explained {
  const { id, channels, channelNames: names, label, file } = record;
  const odd = channels.find((channel) => channel.length !== channels[0]!.length);
  if (odd !== undefined) {
    throw new DataError(
      `series ${id}: channels of ${channels[0]!.length} and ${odd.length} points; they must be equally long`,
      {
        file: file.path,
      },
    );
  }
  for (const [c, channel] of channels.entries()) {
    const beyond = channel.findIndex((value) => Math.abs(value) > LARGEST_VALUE);
    if (beyond >= 0) {
      throw new DataError(
        `series ${id}: point ${beyond} of channel ${names[c]} is ${channel[beyond]}, beyond ±${LARGEST_VALUE}; rescale the series`,
        { file: file.path },
      );
    }
  }
  const intervals = intervalsOf(record);
  const gold: Gold | null =
    label !== null
      ? { kind: 'classification', class: label }
      : intervals === null
        ? null
        : { kind: 'anomaly', class: intervals.length === 0 ? 'normal' : null, intervals };
  return { id, channels, names, gold };
}

/** Series number `index` (0-based) of a file. @throws DataError for fewer series, and as the file's reader */
export function readFromFile(path: string, index: number, columns: readonly string[] | undefined): Explained {
  let count = 0;
  for (const record of records(path, columns)) if (count++ === index) return explained(record);
  throw new DataError(`--record ${index}: the file holds ${count} series, counted from 0`, { file: path });
}

/** Example number `index` of a split. @throws DataError for a split or example that is not there */
export function readFromSet(set: ExampleSet, split: Split, index: number): Explained {
  if (index >= set.count(split)) {
    const has = set.splits.map((own) => `${own} ${set.count(own)}`).join(', ');
    throw new DataError(`--split ${split} --record ${index}: not there; examples by split: ${has}`, {
      file: set.directory,
    });
  }
  return set.at(split, index);
}

/** The split to look at: the given one, else the last that is there. */
export function splitOf(set: ExampleSet, split: Split | undefined): Split {
  return split ?? SPLITS.filter((own) => set.count(own) > 0).at(-1)!;
}

/** Labelled series of a file as the training split that the user says it is. */
function* labelled(path: string): Generator<Example> {
  const task = stem(path);
  let index = 0;
  for (const record of readRecords(path)) {
    const { id, channels, names, gold } = explained(record);
    if (gold?.kind !== 'classification') {
      throw new DataError(`series ${id} has no class; classes are learned from labelled series`, {
        file: path,
      });
    }
    yield { id: `${task}/train/${index++}`, task, channels, names, times: null, gold, recording: null };
  }
}

/**
 * Classes from a profile (.json), the training split of a prepared data set, or a file of labelled training series.
 * @throws DataError for what is not one of these, and as `learnClasses`
 */
export function openClasses(path: string): ClassProfile {
  const set = openSet(path);
  if (set !== null) return learnClasses(set.read('train'));
  return /\.json$/i.test(path) ? readProfile(readUtf8(path), path) : learnClasses(labelled(path));
}

/** Intervals as a user states them: unlike those of a model, nothing is cut or merged. @throws ConfigError */
function statedIntervals(text: string, length: number): readonly Interval[] {
  const read = parseIntervals(text, length);
  if (typeof read === 'string') throw new ConfigError(`--intervals: ${read}`);
  const given = (JSON.parse(text) as Interval[]).toSorted(([a], [b]) => a - b);
  const beyond = given.find(([, end]) => end > length);
  if (beyond !== undefined) {
    throw new ConfigError(
      `--intervals: [${beyond.join(', ')}] ends beyond the series of ${length} points; indices count from 0, and the end is not in the interval`,
    );
  }
  const second = given.findIndex(([start], i) => i > 0 && start < given[i - 1]![1]);
  if (second > 0) {
    throw new ConfigError(
      `--intervals: [${given[second - 1]!.join(', ')}] and [${given[second]!.join(', ')}] overlap; give one for both`,
    );
  }
  return read;
}

/** What the user states as the right answer, over what the file says. @throws ConfigError for a wrong statement */
export function statedGold(
  kind: Gold['kind'],
  found: Explained,
  stated: { readonly class: string | undefined; readonly intervals: string | undefined },
): Gold {
  const missing = (how: string): never => {
    throw new ConfigError(
      `--mode teacher: ${found.id} does not say what is right; say it with ${how}, or ask for --mode blind`,
    );
  };
  const { gold } = found;
  if (kind === 'classification') {
    const name = stated.class ?? (gold?.kind === kind ? gold.class : missing('--class'));
    return { kind, class: name };
  }
  if (kind === 'variates') return gold?.kind === kind ? gold : missing('a prepared data set');
  const length = found.channels[0]!.length;
  const given = stated.intervals === undefined ? null : statedIntervals(stated.intervals, length);
  const intervals = given ?? (gold?.kind === kind ? gold.intervals : missing('--intervals "[[120, 180]]"'));
  const own = stated.class ?? (gold?.kind === kind ? gold.class : null);
  const label = own ?? (intervals.length === 0 ? 'normal' : null);
  if (label !== null && !ANOMALY_CLASSES.includes(label as AnomalyClass)) {
    throw new ConfigError(`--class ${label}: expected one of ${ANOMALY_CLASSES.join(', ')}`);
  }
  if (label !== null && (label === 'normal') !== (intervals.length === 0)) {
    throw new ConfigError(
      label === 'normal'
        ? `--class normal: there are anomalies at ${JSON.stringify(intervals)}; leave one of the two out`
        : `--class ${label}: a series without intervals is normal; say where with --intervals "[[120, 180]]"`,
    );
  }
  return { kind, class: label as AnomalyClass | null, intervals };
}
