/** `timeseer data prepare NAME`: a task, or the user's own files, as a checked data set. */
import { basename } from 'node:path';
import { performance } from 'node:perf_hooks';
import type { Benchmark } from '../../../datasets/benchmarks/benchmark.ts';
import { TASK_FILE_EXAMPLE, TASK_FILES } from '../../../datasets/benchmarks/custom.ts';
import { CUSTOM_LAYOUT } from '../../../datasets/benchmarks/custom-source.ts';
import { wildOver } from '../../../datasets/benchmarks/generated.ts';
import { benchmarkNamed } from '../../../datasets/benchmarks/registry.ts';
import { addMaterials, type MaterialOptions } from '../../../datasets/compose-materials.ts';
import { userTask } from '../../../datasets/define.ts';
import type { ExampleManifest } from '../../../datasets/example-manifest.ts';
import { ExampleSet } from '../../../datasets/example-set.ts';
import { taskFolder } from '../../../datasets/fetch.ts';
import { PartFiles, type WrittenPart, writePart } from '../../../datasets/material-parts.ts';
import {
  checkTarget,
  type SelectOptions,
  selectExamples,
  writeSelection,
} from '../../../datasets/prepare.ts';
import type { SplitSizes } from '../../../datasets/split.ts';
import { SPLITS, type Split } from '../../../datasets/split.ts';
import { blindLines } from '../../../datasets/statistics.ts';
import { ConfigError } from '../../ground/errors.ts';
import { withInterrupt } from '../../ground/interrupt.ts';
import { plural, sum } from '../../ground/numbers.ts';
import { Phases, ReadingNote } from '../../ground/progress.ts';
import { parseShard, type Shard } from '../../ground/shard.ts';
import { columns, print, printJson, shellWord } from '../../ground/terminal.ts';
import { ANOMALY_CLASSES } from '../../ground/types.ts';
import { isModuleSpecifier, moduleAddress } from '../../ground/user-module.ts';
import { openBackgrounds } from '../../run/backgrounds.ts';
import { checkFigure } from '../../tasks/drawing.ts';
import { command, flag, type Given, number, required, text } from '../options.ts';
import { figuresText } from './list.ts';

/** Options that choose examples; `show` takes the same. */
export type ChoiceArguments = Partial<Given<typeof CHOICE_OPTIONS>>;

type PrepareArguments = Given<typeof OPTIONS> & { readonly name: string };

const isSplit = (word: string): word is Split => (SPLITS as readonly string[]).includes(word);

function readSplits(text: string | undefined): Split[] | undefined {
  if (text === undefined) return undefined;
  return text.split(',').map((word) => {
    const name = word.trim();
    if (isSplit(name)) return name;
    throw new ConfigError(`--split: got '${name}', expected some of ${SPLITS.join(',')}`);
  });
}

/** `200`, or `train=200,test=50`. */
function readCounts(text: string | undefined): Partial<Record<Split, number>> | undefined {
  if (text === undefined) return undefined;
  const fail = (): ConfigError =>
    new ConfigError(`--count: got '${text}', expected a number such as 200, or train=200,test=50`);
  const number = (word: string): number => {
    if (!/^\d{1,9}$/.test(word.trim())) throw fail();
    return Number(word);
  };
  if (!text.includes('=')) return Object.fromEntries(SPLITS.map((split) => [split, number(text)]));
  const seen = new Set<string>();
  return Object.fromEntries(
    text.split(',').map((pair) => {
      const [name = '', value = ''] = pair.split('=');
      const split = name.trim();
      if (!isSplit(split)) throw fail();
      if (seen.has(split)) throw new ConfigError(`--count: got '${text}', which names ${split} twice`);
      seen.add(split);
      return [split, number(value)];
    }),
  );
}

function readShares(text: string | undefined): SplitSizes | undefined {
  if (text === undefined) return undefined;
  const parts = text.split(',').map((word) => (word.trim() === '' ? Number.NaN : Number(word)));
  if (parts.length === 3 && parts.every((part) => part >= 0)) {
    return { train: parts[0]!, validation: parts[1]!, test: parts[2]! };
  }
  throw new ConfigError(`--shares: got '${text}', expected train,validation,test such as 8,1,1`);
}

/** Options as the command line has them. @throws ConfigError */
export function selectOptions(args: ChoiceArguments, spec: Benchmark): Omit<SelectOptions, 'directory'> {
  const { window, figure } = args;
  if (figure !== undefined) checkFigure(figure);
  return {
    splits: readSplits(args.split),
    counts: readCounts(args.count),
    shots: args.shots,
    seed: args.seed,
    window: window === 0 ? null : window,
    length: args.length,
    shares: readShares(args.shares),
    validation: args.validation,
    figure: figure === undefined ? undefined : { preset: figure, missing: spec.figure.missing },
    allowSharedRecordings: args.allowSharedRecordings,
  };
}

/** Counts of the classes by split. */
function classTable(manifest: ExampleManifest): string {
  const splits = SPLITS.filter((split) => manifest.splits[split] !== undefined);
  const classes = splits.flatMap((split) => Object.keys(manifest.splits[split]!.classes));
  const names = [...new Set([...manifest.classes.filter((name) => classes.includes(name)), ...classes])];
  const rows = names.map((name) => [
    `  ${name}`,
    ...splits.map((split) => String(manifest.splits[split]!.classes[name] ?? 0).padStart(10)),
  ]);
  const totals = splits.map((split) => String(manifest.splits[split]!.count).padStart(10));
  return columns([['', ...splits.map((split) => split.padStart(10))], ...rows, ['  all', ...totals]]);
}

/** Number of bytes of all files but the manifest. */
function bytesOf({ splits, materials }: ExampleManifest): number {
  const parts = Object.values(materials?.splits ?? {});
  const sizes = [
    ...Object.values(splits).map(({ bytes }) => bytes),
    ...parts.map(({ prompts, figures }) => prompts.bytes + (figures?.bytes ?? 0)),
    materials?.classes?.bytes ?? 0,
  ];
  return sum(sizes);
}

/** Caption of the prompts, figures and traces beside the examples. */
function beside({ materials }: ExampleManifest): string {
  const parts = Object.values(materials?.splits ?? {});
  const figures = sum(parts.map((part) => part.figures?.count ?? 0));
  const [teacher, blind] = [sum(parts.map((part) => part.teacher)), sum(parts.map((part) => part.blind))];
  return `beside each example: prompt ${materials?.prompt}; ${plural(figures, 'figure')}; expert traces: ${teacher} with the right answer, ${blind} blind`;
}

/** Lines about the figure; the names of channels are read from the first example. */
function figures(out: string, manifest: ExampleManifest): string {
  const set = new ExampleSet(out);
  const [first] = set.read(set.splits[0]!, 0, 1);
  return figuresText(manifest, first!.names);
}

/** @throws DataError where the data set that was written is not there any more */
function summary(out: string, manifest: ExampleManifest, seconds: number): string {
  return [
    `${out}: ${manifest.title}; ${(bytesOf(manifest) / 1e6).toFixed(1)} MB in ${seconds.toFixed(1)} s`,
    classTable(manifest),
    beside(manifest),
    ...blindLines(manifest),
    `split: ${manifest.split.statement}`,
    ...[...manifest.notes, ...(manifest.materials?.notes ?? [])].map((note) => `note: ${note}`),
    `licence: ${manifest.source.licence}`,
    figures(out, manifest),
    `next: timeseer data show ${shellWord(out)}, timeseer data validate ${shellWord(out)}`,
  ].join('\n');
}

const partText = (out: string, { index, of }: Shard, { count, total, wasThere }: WrittenPart): string =>
  `${out}: part ${index + 1} of ${of} ${wasThere ? 'was there' : 'is written'}: ${count} of ${total} examples\nnext: when all parts are there, the same command without --shard puts them together`;

function partsText(parts: PartFiles | null): string[] {
  if (parts === null) return [];
  const { of, missing } = parts;
  if (missing.length === 0)
    return [`put together from ${plural(of, 'part, which is', 'parts, which are')} removed`];
  return [
    `put together from ${of - missing.length} of ${of} parts, which are removed; made here: ${missing.join(', ')}`,
  ];
}

/** Label of the last phase. */
function materialLabel(figures: boolean, traces: boolean): string {
  if (!figures) return traces ? 'prompts and traces' : 'prompts';
  return traces ? 'figures, prompts, traces' : 'figures and prompts';
}

/** Task with the place of its data: a folder or file, perhaps downloaded first, or the module that makes them. */
export interface NamedTask {
  readonly spec: Benchmark;
  readonly place: () => Promise<string | null>;
}

/** @throws ConfigError for an unknown name; of a module as `userTask` */
export async function taskNamed(
  name: string,
  {
    from,
    backgrounds,
    seed = 0,
    json,
  }: Pick<ChoiceArguments, 'from' | 'backgrounds' | 'seed'> & { readonly json: boolean },
): Promise<NamedTask> {
  if (backgrounds !== undefined && name.toLowerCase() !== 'wild') {
    throw new ConfigError(`--backgrounds: replaces the families of wild, not of ${name}; leave it out`);
  }
  if (isModuleSpecifier(name)) {
    const address = moduleAddress(name, '.');
    const note = new ReadingNote({ label: basename(address.file), verb: 'running', silent: json });
    note.start();
    try {
      const spec = await userTask(address, { directory: from ?? null, seed }, (count) => {
        note.detail = `${count} examples`;
      });
      return { spec, place: async () => address.file };
    } finally {
      note.stop();
    }
  }
  const spec = backgrounds === undefined ? benchmarkNamed(name) : wildOver(openBackgrounds(backgrounds));
  return { spec, place: () => taskFolder(spec, from, json) };
}

/**
 * Runs the command: progress on standard error, a summary on standard output. Ctrl-C leaves nothing behind but what was
 * downloaded.
 *
 * @throws ConfigError for a wrong name, option or target; DataError for wrong files; EndpointError; WriteError
 */
export async function runPrepare(args: PrepareArguments): Promise<void> {
  checkTarget(args.out, args.force);
  const shard = parseShard(args.shard);
  const { spec, place } = await taskNamed(args.name, args);
  const options = selectOptions(args, spec);
  const started = performance.now();
  const { figures, traces } = args;
  const phases = new Phases({ unit: 'examples', silent: args.json });
  try {
    const directory = await place();
    // Until something is written Ctrl-C simply ends the process, however long a file keeps its reader busy.
    const selection = await selectExamples(spec, {
      ...options,
      directory,
      onRead: (read) => phases.update('read', read, null),
    });
    const onWrite = (written: number, total: number): void => phases.update('prepare', written, total);
    const composing = (signal: AbortSignal): MaterialOptions => ({
      ...{ figures, traces, signal },
      onProgress: (phase, done, total) =>
        phases.update(phase === 'classes' ? 'learn classes' : materialLabel(figures, traces), done, total),
    });
    const note = 'stopping: nothing half-written is left; press Ctrl-C again to quit at once';
    const taken = (): number => Number(((performance.now() - started) / 1000).toFixed(3));
    if (shard !== null) {
      const write = (signal: AbortSignal): Promise<WrittenPart> =>
        writePart(selection, args.out, shard, composing(signal), onWrite);
      const part = await withInterrupt(write, note);
      phases.stop();
      if (args.json)
        printJson({ out: args.out, part: shard.index + 1, of: shard.of, seconds: taken(), ...part });
      else print(partText(args.out, shard, part));
      return;
    }
    let made: PartFiles | null = null;
    const write = (signal: AbortSignal): Promise<ExampleManifest> =>
      writeSelection(selection, args.out, {
        signal,
        onProgress: onWrite,
        complete: (temporary, examples) => {
          made = PartFiles.open(args.out, examples, { figures, traces });
          return addMaterials(temporary, examples, { ...composing(signal), made });
        },
      });
    const manifest = await withInterrupt(write, note);
    phases.stop();
    const parts = made as PartFiles | null;
    parts?.remove();
    const put = parts === null ? {} : { parts: { of: parts.of, missing: parts.missing } };
    if (args.json) printJson({ out: args.out, seconds: taken(), ...put, ...manifest });
    else print([summary(args.out, manifest, taken()), ...partsText(parts)].join('\n'));
  } finally {
    phases.stop();
  }
}

/** Options of `ChoiceArguments`, for help. */
export const CHOICE_OPTIONS = {
  from: text(
    'Folder with the data; for custom and qa also a single file; your own module receives it as an argument. Default: download to the cache',
  ),
  backgrounds: text(
    'For wild: folder backgrounds that timeseer adapt wrote; its windows replace the families of wild',
  ),
  split: text(`Splits to use: ${SPLITS.join(',')}. Default: all`),
  count: text(
    'Maximum number of examples per split, stratified by class: 200, or train=200,test=50. Default: all',
  ),
  shots: number('Number of training examples per class'),
  seed: number('Seed for split draws (default: 0) and for generated series'),
  window: number(
    "Maximum number of points per example; longer series are cut into windows. 0: never cut. Default: the task's",
  ),
  length: number('Number of points per generated series'),
  shares: text('Split proportions train,validation,test for data without a split, e.g. 8,1,1'),
  validation: number(
    'Share of the training split to hold out for validation, for data with a split, e.g. 0.1. 0: none',
  ),
  figure: text("Figure to draw instead of the task's; timeseer render --help lists them"),
  'allow-shared-recordings': flag('Accept splits that share recordings; reports mention it'),
} as const;

const OPTIONS = {
  out: required('Output directory'),
  ...CHOICE_OPTIONS,
  figures: flag('Draw the picture of each example; --no-figures: none', true),
  traces: flag(
    'Write expert traces, and score those written without the gold answer; --no-traces: none',
    true,
  ),
  shard: text(
    'Make one part of figures, prompts and traces, e.g. 2/4, on as many machines as there are parts, which share the folder of --out. The same command without --shard puts them together, and makes what is missing',
  ),
  force: flag('Replace an existing data set'),
  json: flag('Print the manifest, or with --shard what was made, as JSON, no progress'),
};

export const prepareCommand = command({
  command: 'prepare <name>',
  describe: 'Prepare a task or your own files as a data set with pictures, prompts and expert traces',
  positionals: {
    name: 'Task name (timeseer data list), or your own task: FILE.ts, FILE.js or FILE.ts#NAME (defineTask)',
  },
  options: OPTIONS,
  examples: [
    ['$0 data prepare ctu --out data/ctu', 'Download, check and write it'],
    ['$0 data prepare emg --from downloads/emg --out data/emg --seed 1', 'From files on disk'],
    ['$0 data prepare har --out data/few --shots 8', 'Eight training examples of each class'],
    ['$0 data prepare custom --from my --out data/my --shares 8,1,1', 'Your own files'],
    [
      '$0 data prepare har --out /shared/har --shard 3/16',
      'The third of 16 parts; after all of them the same without --shard',
    ],
    ['$0 data prepare ./my-task.ts --out data/mine', 'Examples from your own module'],
    ['$0 data prepare qa --from questions.json --out data/questions', 'Questions about series, with answers'],
  ],
  epilogue:
    `Your own files (custom): ${CUSTOM_LAYOUT}. Gaps, NaN, NA and null are missing values.\n\n` +
    'Intervals in labels.csv are half-open indices such as 120-180 300-310. With that column the task is anomaly detection, ' +
    `and the class is one of ${ANOMALY_CLASSES.join(', ')}, or empty where the kind is unknown. Variates are the indices ` +
    'of the anomalous channels, from 0, e.g. 2 7. A column split that puts one recording into several splits is refused.\n\n' +
    `${TASK_FILES.join(' or ')} beside the labels describes the data; prompts contain the description and the hints. ` +
    `All fields are optional:\n\n${TASK_FILE_EXAMPLE.replaceAll(/^/gm, '  ')}`,
  handler: runPrepare,
});
