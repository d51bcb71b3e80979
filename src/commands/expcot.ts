/** `timeseer expcot`: classical evidence about a series, and the expert trace written from it. */

import { existsSync } from 'node:fs';
import { openClasses, openSet, readFromFile, readFromSet, splitOf } from '../../datasets/open-series.ts';
import { numericColumns } from '../../datasets/readers/csv.ts';
import { formatOf } from '../../datasets/readers/formats.ts';
import { SPLITS } from '../../datasets/split.ts';
import { normalAlone } from '../../datasets/statistics.ts';
import { profileToJson, readProfile } from '../expcot/class-profile.ts';
import { ClassEvidence } from '../expcot/class-trace.ts';
import { formatNumber } from '../expcot/phrase.ts';
import { ConfigError } from '../ground/errors.ts';
import { readUtf8, writeFileAtomic } from '../ground/files.ts';
import { checkWhole } from '../ground/json-record.ts';
import { percent } from '../ground/numbers.ts';
import { print, printJson } from '../ground/terminal.ts';
import type { Gold } from '../ground/types.ts';
import type { Drawable } from '../tasks/drawing.ts';
import type { Statement } from '../tasks/kind.ts';
import { TRACE_MODES, type TraceMode } from '../tasks/kind.ts';
import { type BlindScore, expertOn, scoreBlind, taskKind } from '../tasks/kinds.ts';
import { choice, command, flag, type Given, number, several, text } from './options.ts';

type ExpcotArguments = Given<typeof OPTIONS> & { readonly file: string };

/** Columns of a CSV file to compare: all numeric ones, for answers that name channels. */
const columnsFor = (kind: Gold['kind'], file: string): readonly string[] | undefined =>
  taskKind(kind).countsChannels && formatOf(file) === 'csv' ? numericColumns(file) : undefined;

/** Formats values as `path value` lines; lists of numbers on one line, longer lists counted. */
function* leaves(value: unknown, path: string): Generator<string> {
  if (value === null || typeof value !== 'object') {
    const text = typeof value === 'number' ? formatNumber(value) : String(value);
    yield `  ${path.padEnd(36)} ${text}`;
  } else if (Array.isArray(value) && value.every((item) => typeof item === 'number' || Array.isArray(item))) {
    const shown = value.slice(0, 6).map((item) => JSON.stringify(item));
    yield `  ${path.padEnd(36)} ${value.length === 0 ? 'none' : shown.join(' ')}${value.length > 6 ? ` … ${value.length} in all` : ''}`;
  } else {
    for (const [key, child] of Object.entries(value))
      yield* leaves(child, path === '' ? key : `${path}.${key}`);
  }
}

/** Maximum number of features shown: the most discriminating ones. */
const MOST_FEATURES = 12;

function describeEvidence(evidence: unknown): string {
  if (!(evidence instanceof ClassEvidence)) {
    const only = Array.isArray(evidence) && evidence.length === 1 ? evidence[0] : evidence;
    return [...leaves(only, '')].join('\n');
  }
  const { candidates, profile, values } = evidence;
  const order = profile.features
    .map((_, f) => f)
    .sort((a, b) => profile.features[b]!.ratio - profile.features[a]!.ratio);
  return [
    ...candidates.map(
      ({ class: name, percent, count }) =>
        `  ${`${percent} %`.padStart(6)}  ${name} (${count} training examples)`,
    ),
    ...order
      .slice(0, MOST_FEATURES)
      .map((f) => `  ${formatNumber(values[f]!).padStart(10)}  ${profile.features[f]!.says}`),
  ].join('\n');
}

function describeScore(score: BlindScore, subject: string, normal: number | undefined): string {
  const parts = [
    ...(score.accuracy === null
      ? []
      : normal !== undefined
        ? [`leaves ${percent(score.accuracy, 1, ' ')} of the ${normal} normal ones alone`]
        : [
            `class right in ${percent(score.accuracy, 1, ' ')} (most frequent class: ${percent(score.chance!, 1, ' ')})`,
          ]),
    ...(score.f1 === null ? [] : [`mean F1 ${score.f1.toFixed(3)}`]),
  ];
  return `${subject}: ${score.count} series; ${parts.join('; ')}`;
}

function check(args: ExpcotArguments): void {
  checkWhole('record', args.record, 0);
  const only = (key: string, given: boolean, needs: string, holds: boolean): void => {
    if (given && !holds) throw new ConfigError(`--${key} ${needs}; leave it out`);
  };
  only('class', args.class !== undefined, 'is for --mode teacher', args.mode === 'teacher');
  only('intervals', args.intervals !== undefined, 'is for --mode teacher', args.mode === 'teacher');
  only('score', args.score, 'is for --mode blind', args.mode === 'blind');
  only('kind', args.kind !== undefined, 'does not go with --classes', args.classes === undefined);
}

/** Refuses to replace a file that holds no classes. @throws ConfigError */
function checkReplaced(path: string): void {
  if (!existsSync(path)) return;
  try {
    readProfile(readUtf8(path), path);
  } catch (cause) {
    throw new ConfigError(`--save-classes ${path}: exists and holds no classes. Choose another file.`, {
      cause,
    });
  }
}

/** Returns the gold answer: the user's, else the file's. @throws ConfigError for a wrong statement */
function statedGold(kind: Gold['kind'], { id, channels, gold }: Drawable, stated: Statement): Gold {
  const missing = (option: string): never => {
    throw new ConfigError(
      `--mode teacher: ${id} has no gold answer. Give it with ${option}, or use --mode blind.`,
    );
  };
  const known = gold?.kind === kind ? gold : null;
  const { state } = taskKind(kind);
  return state?.(stated, known, channels[0]!.length, missing) ?? known ?? missing('a prepared data set');
}

/**
 * Runs the command. Writes a file only with --save-classes.
 *
 * @throws ConfigError for a wrong option; DataError for a wrong file or series; WriteError when the disk refuses
 */
export function runExpcot(args: ExpcotArguments): void {
  check(args);
  const set = openSet(args.file);
  if (set === null && args.split !== undefined)
    throw new ConfigError(`--split: ${args.file} is a file, which has no splits. Leave it out.`);
  if (set !== null && args.column !== undefined)
    throw new ConfigError(`--column: ${args.file} is a data set, which has no columns. Leave it out.`);
  if (args.score && set === null)
    throw new ConfigError(`--score: ${args.file} is a file. Prepare a data set from it first.`);
  if (set !== null && args.kind !== undefined)
    throw new ConfigError(`--kind: the data set is of kind ${set.manifest.kind}. Leave it out.`);
  const kind =
    set?.manifest.kind ?? (args.classes === undefined ? (args.kind ?? 'anomaly') : 'classification');
  const profile = taskKind(kind).learnsClasses ? openClasses(args.classes ?? args.file) : null;
  if (args.saveClasses !== undefined) {
    if (profile === null) throw new ConfigError('--save-classes: no classes were learned. Give --classes.');
    checkReplaced(args.saveClasses);
    writeFileAtomic(args.saveClasses, profileToJson(profile));
  }
  if (args.score && set !== null) {
    const split = splitOf(set, args.split);
    const score = scoreBlind(set.read(split), profile);
    if (args.json) printJson({ file: args.file, split, ...score });
    else print(describeScore(score, `${args.file} ${split}`, normalAlone(set.manifest, split, score.chance)));
    return;
  }
  const series =
    set === null
      ? readFromFile(args.file, args.record, args.column ?? columnsFor(kind, args.file))
      : readFromSet(set, splitOf(set, args.split), args.record);
  const gold = args.mode === 'blind' ? null : statedGold(kind, series, args);
  const expert = expertOn(series, kind, profile);
  const trace = gold === null ? expert.blind() : expert.teacher(gold);
  const evidence = expert.evidence();
  if (args.json) {
    printJson({ file: args.file, series: series.id, mode: args.mode, kind, evidence, trace });
    return;
  }
  const points = `${series.channels[0]!.length} points`;
  const size = series.channels.length === 1 ? points : `${series.channels.length} channels of ${points}`;
  print(
    `${series.id}: ${size}, ${args.mode} trace\n\nEvidence\n${describeEvidence(evidence)}\n\nTrace\n${trace.text}`,
  );
}

const OPTIONS = {
  mode: choice(TRACE_MODES, 'blind: answers from the values alone; teacher: explains the gold answer', {
    default: 'blind' as TraceMode,
  }),
  classes: text(
    'Classify: a profile of classes (.json), a prepared data set, or a file of labelled training series',
  ),
  'save-classes': text('Write the profile of classes to this file'),
  kind: choice(
    ['anomaly', 'variates'],
    'Without --classes: find anomalous intervals (default) or anomalous channels',
  ),
  column: several('Value column of a CSV file, by name or number; several are channels of one series'),
  record: number('Index of the series in the file, from 0', { default: 0 }),
  split: choice(SPLITS, 'Split of a prepared data set. Default: its last split'),
  class: text('Gold class for --mode teacher, if the file has none'),
  intervals: text('Gold intervals for --mode teacher, as [[start, end], …], if the file has none'),
  score: flag('Score the blind trace on a split of a prepared data set'),
  json: flag('Print evidence and trace as JSON'),
};

export const expcotCommand = command({
  command: 'expcot <file>',
  positionals: {
    file: 'A file of series (.csv, .ts, .arff, .tsv, .out, .npy, .npz, .parquet, .mat, .hea), or a prepared data set',
  },
  options: OPTIONS,
  examples: [
    ['$0 expcot my.csv', 'Find anomalies in a CSV file'],
    ['$0 expcot new.csv --classes TRAIN.ts --save-classes classes.json', 'Classify a series'],
    ['$0 expcot data/ctu --score --split test', 'Measure the accuracy of the blind trace'],
  ],
  handler: runExpcot,
});
