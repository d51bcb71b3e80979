/** Where `expcot` finds series and classes: prepared data sets, files of any format, profiles. */

import { statSync } from 'node:fs';
import { isExampleSet } from '../../datasets/example-manifest.ts';
import { ExampleSet } from '../../datasets/example-set.ts';
import { LARGEST_VALUE } from '../../datasets/prepare.ts';
import { readCsv } from '../../datasets/readers/csv.ts';
import { formatOf, readRecords } from '../../datasets/readers/formats.ts';
import { type RawRecord, stem } from '../../datasets/readers/record.ts';
import { SPLITS, type Split } from '../../datasets/split.ts';
import { ConfigError, DataError, reasonOf } from '../errors.ts';
import { type ClassProfile, learnClasses, readProfile } from '../expcot/class-profile.ts';
import { readUtf8 } from '../files.ts';
import { mergeIntervals, runs } from '../series/intervals.ts';
import type { Statement } from '../tasks/kind.ts';
import { taskKind } from '../tasks/kinds.ts';
import type { Example, Gold, Interval } from '../types.ts';

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
    if (gold === null || !taskKind(gold.kind).learnsClasses) {
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

/** What the user states as the right answer, over what the file says. @throws ConfigError for a wrong statement */
export function statedGold(kind: Gold['kind'], { id, channels, gold }: Explained, stated: Statement): Gold {
  const missing = (option: string): never => {
    throw new ConfigError(
      `--mode teacher: ${id} does not say what is right; say it with ${option}, or ask for --mode blind`,
    );
  };
  const found = gold?.kind === kind ? gold : null;
  return taskKind(kind).state(stated, found, channels[0]!.length, missing);
}
