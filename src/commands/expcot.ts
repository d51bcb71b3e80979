/** `timeseer expcot`: what the classical analyses find in a series, and the expert trace made of it. */
import { existsSync } from 'node:fs';
import type { Argv, CommandModule } from 'yargs';
import { openClasses, openSet, readFromFile, readFromSet, splitOf } from '../../datasets/open-series.ts';
import { numericColumns } from '../../datasets/readers/csv.ts';
import { formatOf } from '../../datasets/readers/formats.ts';
import { SPLITS, type Split } from '../../datasets/split.ts';
import { normalAlone } from '../../datasets/statistics.ts';
import { profileToJson, readProfile } from '../expcot/class-profile.ts';
import { ClassEvidence } from '../expcot/class-trace.ts';
import { formatNumber } from '../expcot/phrase.ts';
import { ConfigError } from '../ground/errors.ts';
import { readUtf8, writeFileAtomic } from '../ground/files.ts';
import { print, printJson } from '../ground/terminal.ts';
import type { Gold } from '../ground/types.ts';
import type { Drawable } from '../tasks/drawing.ts';
import type { Statement } from '../tasks/kind.ts';
import { TRACE_MODES, type TraceMode } from '../tasks/kind.ts';
import { type BlindScore, expertOn, scoreBlind, taskKind } from '../tasks/kinds.ts';

export interface ExpcotArguments {
  file: string;
  mode: TraceMode;
  kind: 'anomaly' | 'variates' | undefined;
  column: string[] | undefined;
  record: number;
  split: Split | undefined;
  classes: string | undefined;
  saveClasses: string | undefined;
  class: string | undefined;
  intervals: string | undefined;
  score: boolean;
  json: boolean;
}

/** Of a CSV file the columns that are compared: all that hold numbers, where the answer names some of them. */
const columnsFor = (kind: Gold['kind'], file: string): readonly string[] | undefined =>
  taskKind(kind).countsChannels && formatOf(file) === 'csv' ? numericColumns(file) : undefined;

/** Values as `path value` lines; lists of numbers on one line, longer lists counted. */
function* leaves(value: unknown, path: string): Generator<string> {
  if (value === null || typeof value !== 'object') {
    const text = typeof value === 'number' ? formatNumber(value) : String(value);
    yield `  ${path.padEnd(36)} ${text}`;
  } else if (Array.isArray(value) && value.every((one) => typeof one === 'number' || Array.isArray(one))) {
    const shown = value.slice(0, 6).map((one) => JSON.stringify(one));
    yield `  ${path.padEnd(36)} ${value.length === 0 ? 'none' : shown.join(' ')}${value.length > 6 ? ` … ${value.length} in all` : ''}`;
  } else {
    for (const [key, own] of Object.entries(value)) yield* leaves(own, path === '' ? key : `${path}.${key}`);
  }
}

/** Features of a class trace worth showing: the most discriminating ones. */
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

function describeScore(score: BlindScore, what: string, normal: number | undefined): string {
  const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;
  const parts = [
    ...(score.accuracy === null
      ? []
      : normal !== undefined
        ? [`leaves ${percent(score.accuracy)} of the ${normal} normal ones alone`]
        : [`class right in ${percent(score.accuracy)} (most frequent class: ${percent(score.chance!)})`]),
    ...(score.f1 === null ? [] : [`mean F1 ${score.f1.toFixed(3)}`]),
  ];
  return `${what}: ${score.count} series; ${parts.join('; ')}`;
}

function check(args: ExpcotArguments): void {
  if (!(Number.isInteger(args.record) && args.record >= 0)) {
    throw new ConfigError(`--record: expected a whole number of at least 0, got ${args.record}`);
  }
  const only = (key: string, given: boolean, needs: string, holds: boolean): void => {
    if (given && !holds) throw new ConfigError(`--${key} ${needs}; leave it out`);
  };
  only('class', args.class !== undefined, 'is for --mode teacher', args.mode === 'teacher');
  only('intervals', args.intervals !== undefined, 'is for --mode teacher', args.mode === 'teacher');
  only('score', args.score, 'is for --mode blind', args.mode === 'blind');
  only('kind', args.kind !== undefined, 'does not go with --classes', args.classes === undefined);
}

/** Classes replace classes, and no other file. @throws ConfigError */
function checkReplaced(path: string): void {
  if (!existsSync(path)) return;
  try {
    readProfile(readUtf8(path), path);
  } catch (cause) {
    throw new ConfigError(
      `--save-classes ${path}: is there and holds no classes, so it is kept; choose another`,
      { cause },
    );
  }
}

/** What the user states as the right answer, over what the file says. @throws ConfigError for a wrong statement */
function statedGold(kind: Gold['kind'], { id, channels, gold }: Drawable, stated: Statement): Gold {
  const missing = (option: string): never => {
    throw new ConfigError(
      `--mode teacher: ${id} does not say what is right; say it with ${option}, or ask for --mode blind`,
    );
  };
  const found = gold?.kind === kind ? gold : null;
  return taskKind(kind).state(stated, found, channels[0]!.length, missing);
}

/**
 * Runs the command. Nothing is written but with --save-classes.
 *
 * @throws ConfigError for a wrong option; DataError for a wrong file or series; WriteError when the disk refuses
 */
export function runExpcot(args: ExpcotArguments): void {
  check(args);
  const set = openSet(args.file);
  if (set === null && args.split !== undefined)
    throw new ConfigError(`--split belongs to data sets; ${args.file} is a file`);
  if (set !== null && args.column !== undefined)
    throw new ConfigError('--column belongs to CSV files; leave it out');
  if (args.score && set === null)
    throw new ConfigError(`--score belongs to data sets; ${args.file} is a file`);
  if (set !== null && args.kind !== undefined)
    throw new ConfigError(`--kind: the data set is of kind ${set.manifest.kind}; leave it out`);
  const kind =
    set?.manifest.kind ?? (args.classes === undefined ? (args.kind ?? 'anomaly') : 'classification');
  const profile = taskKind(kind).learnsClasses ? openClasses(args.classes ?? args.file) : null;
  if (args.saveClasses !== undefined) {
    if (profile === null) throw new ConfigError('--save-classes: there are no classes; give --classes');
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
  const found =
    set === null
      ? readFromFile(args.file, args.record, args.column ?? columnsFor(kind, args.file))
      : readFromSet(set, splitOf(set, args.split), args.record);
  const gold = args.mode === 'blind' ? null : statedGold(kind, found, args);
  const expert = expertOn(found, kind, profile);
  const trace = gold === null ? expert.blind() : expert.teacher(gold);
  const evidence = expert.evidence();
  if (args.json) {
    printJson({ file: args.file, series: found.id, mode: args.mode, kind, evidence, trace });
    return;
  }
  const points = `${found.channels[0]!.length} points`;
  const size = found.channels.length === 1 ? points : `${found.channels.length} channels of ${points}`;
  print(
    `${found.id}: ${size}, ${args.mode} trace\n\nEvidence\n${describeEvidence(evidence)}\n\nTrace\n${trace.text}`,
  );
}

export const expcotCommand: CommandModule<object, ExpcotArguments> = {
  command: 'expcot <file>',
  describe: 'Print the classical evidence about a series and the expert trace made of it',
  // The types do not know that `--save-classes` arrives as saveClasses.
  builder: (yargs: Argv<object>) =>
    yargs
      .positional('file', {
        type: 'string',
        demandOption: true,
        describe:
          'A file of series (.csv, .ts, .arff, .tsv, .out, .npy, .npz, .parquet, .mat, .hea), or a prepared data set',
      })
      .option('mode', {
        choices: TRACE_MODES,
        default: 'blind' as TraceMode,
        describe:
          'blind: its own answer, from values alone; teacher: the right answer with the evidence for it',
        requiresArg: true,
      })
      .option('classes', {
        type: 'string',
        describe:
          'For a classification: a profile of classes (.json), a prepared data set, or a file of labelled training series',
        requiresArg: true,
      })
      .option('save-classes', {
        type: 'string',
        describe: 'Write the profile of classes to this file',
        requiresArg: true,
      })
      .option('kind', {
        choices: ['anomaly', 'variates'] as const,
        describe: 'What to look for without classes: intervals (default), or channels unlike the others',
        requiresArg: true,
      })
      .option('column', {
        type: 'string',
        array: true,
        describe: 'Value column of a CSV file, by name or number; several are channels of one series',
        requiresArg: true,
      })
      .option('record', {
        type: 'number',
        default: 0,
        describe: 'Which series, counted from 0',
        requiresArg: true,
      })
      .option('split', {
        choices: SPLITS,
        describe: 'Split of a prepared data set (default: the last that it has)',
        requiresArg: true,
      })
      .option('class', {
        type: 'string',
        describe: 'The right class, where the file does not say it',
        requiresArg: true,
      })
      .option('intervals', {
        type: 'string',
        describe: 'The right intervals, as [[start, end], …], where the file does not say them',
        requiresArg: true,
      })
      .option('score', {
        type: 'boolean',
        default: false,
        describe: 'How often the blind trace is right on a split of a prepared data set',
      })
      .option('json', { type: 'boolean', default: false, describe: 'Print evidence and trace as JSON' })
      .example('$0 expcot my.csv', 'Anomalies of a CSV file')
      .example(
        '$0 expcot new.csv --classes TRAIN.ts --save-classes classes.json',
        'Which class a series belongs to',
      )
      .example(
        '$0 expcot data/ctu --score --split test',
        'How often the blind answer is right',
      ) as unknown as Argv<ExpcotArguments>,
  handler: runExpcot,
};
