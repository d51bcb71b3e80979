/** Prepares a data set from a task: chooses its examples and their splits, and states them in a manifest. */
import { createHash } from 'node:crypto';
import { createReadStream, existsSync, lstatSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname, relative } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { ConfigError, DataError, reasonOf } from '../src/ground/errors.ts';
import { openRegular, replaceable } from '../src/ground/files.ts';
import { type Place, show } from '../src/ground/json-record.ts';
import { getOrMake } from '../src/ground/maps.ts';
import type { Example } from '../src/ground/types.ts';
import { figureProblem } from '../src/tasks/drawing.ts';
import { labelOf } from '../src/tasks/kinds.ts';
import type { Benchmark, BenchmarkFigure, OpenBenchmark, SplitPlan } from './benchmarks/benchmark.ts';
import { checkExample } from './example.ts';
import { type ExampleManifest, isExampleSet } from './example-manifest.ts';
import { type ExampleOrigin, type WriteExamplesOptions, writeExamples } from './example-set.ts';
import {
  type Entry,
  fewShots,
  SPLITS,
  type Split,
  type SplitSizes,
  splitByExample,
  splitByRecording,
  stratifiedSubset,
} from './split.ts';

/** Maximum number of files that a manifest names; more are summed up. */
const NAMED_FILES = 200;

async function fileDigest(
  file: string,
  signal: AbortSignal | undefined,
): Promise<{ bytes: number; sha256: string }> {
  const hash = createHash('sha256');
  const options = { highWaterMark: 1 << 20, ...(signal === undefined ? {} : { signal }) };
  let bytes = 0;
  try {
    const { handle: fd } = openRegular(file);
    for await (const chunk of createReadStream(file, { ...options, fd })) {
      hash.update(chunk as Buffer);
      bytes += (chunk as Buffer).length;
    }
  } catch (cause) {
    signal?.throwIfAborted();
    throw new DataError(`cannot be read (${reasonOf(cause)})`, { file, cause });
  }
  return { bytes, sha256: hash.digest('hex') };
}

type SourceFile = ExampleOrigin['source']['files'][number];

/**
 * Each file with its SHA-256, or, of very many, that of the list of theirs.
 * @param directory folder or file that paths are relative to
 */
async function sourceFiles(
  files: readonly string[],
  directory: string,
  signal: AbortSignal | undefined,
): Promise<SourceFile[]> {
  const root = statSync(directory).isDirectory() ? directory : dirname(directory);
  const list: SourceFile[] = [];
  for (const file of files) {
    const path = relative(root, file).replaceAll('\\', '/') || basename(file);
    list.push({ path, ...(await fileDigest(file, signal)) });
  }
  if (list.length <= NAMED_FILES) return list;
  const lines = list.map(({ path, sha256 }) => `${sha256}  ${path}\n`).sort();
  return [
    {
      path: `${list.length} files; SHA-256 of the sorted lines of sha256sum`,
      bytes: list.reduce((sum, { bytes }) => sum + bytes, 0),
      sha256: createHash('sha256').update(lines.join('')).digest('hex'),
    },
  ];
}

/** SHA-1 in base64 of the values of all channels; their names do not matter. */
function digestOf({ channels }: Pick<Example, 'channels'>): string {
  const hash = createHash('sha1');
  for (const { buffer, byteOffset, byteLength } of channels) {
    hash.update(`${byteLength},`);
    hash.update(new Uint8Array(buffer, byteOffset, byteLength));
  }
  return hash.digest('base64');
}

interface Traceable extends Entry {
  readonly id: string;
  readonly digest: string;
}

/** Names of recordings that have examples in several splits, with these splits. */
function sharedRecordings(
  entries: readonly Entry[],
  splits: readonly (Split | null)[],
): ReadonlyMap<string, readonly Split[]> {
  const homes = new Map<string, Set<Split>>();
  for (const [i, { recording }] of entries.entries()) {
    const split = splits[i];
    if (recording === null || split == null) continue;
    getOrMake(homes, recording, () => new Set<Split>()).add(split);
  }
  const shared = [...homes].filter(([, home]) => home.size > 1);
  return new Map(shared.map(([name, home]) => [name, SPLITS.filter((split) => home.has(split))]));
}

/**
 * Counts held-out series with exactly the values of one in an earlier split (in the order train, validation, test).
 * @returns a sentence with one such pair, or null where there is none
 */
function duplicatesText(entries: readonly Traceable[], splits: readonly (Split | null)[]): string | null {
  const first = new Map<string, { readonly split: Split; readonly id: string }>();
  const counts = new Map<Split, number>();
  let example: string | undefined;
  for (const split of SPLITS) {
    for (const [i, { digest, id }] of entries.entries()) {
      if (splits[i] !== split) continue;
      const before = first.get(digest);
      if (before === undefined) first.set(digest, { split, id });
      else if (before.split !== split) {
        counts.set(split, (counts.get(split) ?? 0) + 1);
        example ??= `${id} (${split}) and ${before.id} (${before.split})`;
      }
    }
  }
  if (example === undefined) return null;
  const parts = [...counts].map(([split, n]) => `${n} series of ${split}`);
  const total = [...counts.values()].reduce((sum, n) => sum + n, 0);
  return `Same values in several splits: ${parts.join(' and ')} ${total === 1 ? 'repeats' : 'repeat'} a series of another split, such as ${example}.`;
}

interface DrawOptions {
  /** Maximum number of examples per split; the exact number for generated tasks. */
  readonly counts?: Readonly<Partial<Record<Split, number>>> | undefined;
  /** Training examples of each class. */
  readonly shots?: number | undefined;
  /** Sizes of splits of our own; only proportions count. */
  readonly shares?: SplitSizes | undefined;
  /** Share of training that becomes validation, where the split is given; in [0, 1), 0 keeps training whole. */
  readonly validation?: number | undefined;
  /** Allows a given split to have examples of one recording on several sides. */
  readonly allowSharedRecordings?: boolean | undefined;
}

interface Item extends Traceable {
  /** Split given by the data; null without one. */
  readonly split: Split | null;
}

/** `train 122, validation 41, test 41`. */
function sizesText(splits: readonly (Split | null)[]): string {
  return SPLITS.map((split) => [split, splits.filter((assigned) => assigned === split).length] as const)
    .filter(([, n]) => n > 0)
    .map(([split, n]) => `${split} ${n}`)
    .join(', ');
}

const LISTED = 5;

/** Names the classes that drawn splits lack, after a blank; empty where all are complete. */
function lacksText(
  items: readonly Item[],
  splits: readonly (Split | null)[],
  wanted: readonly Split[],
): string {
  const present = new Map(wanted.map((split) => [split, new Set<string>()]));
  for (const [i, { class: name }] of items.entries()) {
    const split = splits[i];
    if (split != null) present.get(split)?.add(name);
  }
  const all = [...new Set([...present.values()].flatMap((classes) => [...classes]))].sort();
  const parts = [...present].flatMap(([split, classes]) => {
    const lacking = all.filter((name) => !classes.has(name));
    if (lacking.length === 0) return [];
    if (classes.size === 0) return [`${split} is empty`];
    const names = lacking.slice(0, LISTED).map((name) => `'${name}'`);
    const more = lacking.length > LISTED ? ` and ${lacking.length - LISTED} others` : '';
    return [`${split} has no example of ${names.join(', ')}${more}`];
  });
  return parts.length === 0 ? '' : ` Too few examples for every split: ${parts.join('; ')}.`;
}

/** Splits of items, with a statement about them. */
interface Drawn {
  readonly splits: (Split | null)[];
  readonly statement: string;
  readonly recordingsApart: boolean | null;
}

/** Draws a validation split from training, by recordings where the plan requires it. */
function takeValidation(
  items: readonly Item[],
  plan: SplitPlan & { by: 'given' },
  share: number,
  seed: number,
): Drawn {
  const { validation } = plan;
  if (typeof validation === 'object') {
    throw new ConfigError(`--validation: ${validation.refused}; leave it out`);
  }
  if (items.some(({ split }) => split === 'validation')) {
    throw new ConfigError('--validation: there is a validation split already; leave it out');
  }
  const at = items.flatMap(({ split }, i) => (split === 'train' ? [i] : []));
  const sizes = { train: 1 - share, validation: share, test: 0 };
  const part = at.map((i) => items[i]!);
  const drawn =
    validation === 'recording' ? splitByRecording(part, sizes, seed) : splitByExample(part, sizes, seed);
  const splits = items.map(({ split }) => split);
  for (const [k, i] of at.entries()) splits[i] = drawn[k]!;
  const by = validation === 'recording' ? 'whole recordings' : 'single examples';
  return {
    splits,
    statement: `${plan.statement} Validation is our own draw from its training split (seed ${seed}, ${by}, stratified by class): ${sizesText(splits)}.${lacksText(part, drawn, ['train', 'validation'])}`,
    recordingsApart: plan.recordingsApart,
  };
}

/** @throws DataError for a recording in several splits, unless that is allowed; then the statement says so */
function checkShared(items: readonly Item[], drawn: Drawn, allowed: boolean): Drawn {
  if (drawn.recordingsApart !== true) return drawn;
  const shared = sharedRecordings(items, drawn.splits);
  const [first] = shared;
  if (first === undefined) return drawn;
  const [name, home] = first;
  if (!allowed) {
    throw new DataError(
      `recording '${name}' is in ${home.join(' and ')}, which must not share recordings; correct the split, or allow it with --allow-shared-recordings`,
    );
  }
  const all = new Set(items.flatMap(({ recording }) => (recording === null ? [] : [recording]))).size;
  return {
    ...drawn,
    statement: `${drawn.statement} Recordings leak, as the user allowed: ${shared.size} of ${all} have examples in several splits, so results tell in part how well a recording is recognised.`,
    recordingsApart: false,
  };
}

/**
 * The split of every item: the given one, or a drawn one.
 * @throws ConfigError for options that the plan does not have; DataError for a given split with a recording on several sides
 */
function drawSplits(items: readonly Item[], plan: SplitPlan, options: DrawOptions, seed: number): Drawn {
  return checkShared(items, assign(items, plan, options, seed), options.allowSharedRecordings ?? false);
}

function assign(items: readonly Item[], plan: SplitPlan, options: DrawOptions, seed: number): Drawn {
  const { shares, validation } = options;
  if (plan.by === 'given') {
    if (shares !== undefined) {
      throw new ConfigError(
        '--shares: this data set has its own split; use --validation for a part of training',
      );
    }
    if (validation === 0 && items.some(({ split }) => split === 'validation')) {
      throw new ConfigError(
        '--validation 0: the data have their own validation split; leave it out with --split train,test',
      );
    }
    if (validation !== undefined && validation > 0) return takeValidation(items, plan, validation, seed);
    const splits = items.map(({ split }) => split);
    const statement = `${plan.statement} Here: ${sizesText(splits)}.`;
    return { splits, statement, recordingsApart: plan.recordingsApart };
  }
  if (validation !== undefined) {
    throw new ConfigError('--validation: this data set has no split; give --shares train,validation,test');
  }
  const sizes = shares ?? plan.sizes;
  const only = SPLITS.filter((split) => sizes[split] > 0);
  if (only.length === 1) {
    return {
      splits: items.map(() => only[0]!),
      statement: `Everything is ${only[0]}: ${items.length} examples. ${plan.statement}`,
      recordingsApart: plan.recordingsApart === null ? null : true,
    };
  }
  const splits =
    plan.by === 'recording' ? splitByRecording(items, sizes, seed) : splitByExample(items, sizes, seed);
  const by = plan.by === 'recording' ? 'by recording' : 'by single examples';
  return {
    splits,
    statement: `Our own split, seed ${seed}, ${by}, stratified by class: ${sizesText(splits)}.${lacksText(items, splits, only)} ${plan.statement}`,
    recordingsApart: plan.recordingsApart,
  };
}

/**
 * Keeps the requested examples of each split; the others become null.
 * @returns a statement about it
 * @throws ConfigError for a count of a split that is not there, unless the same is asked of all
 */
function subset(
  items: readonly Item[],
  splits: (Split | null)[],
  options: DrawOptions,
  seed: number,
): string {
  const { counts = {}, shots } = options;
  const there = SPLITS.filter((split) => splits.includes(split));
  const asked = SPLITS.map((split) => counts[split]);
  const gone = SPLITS.find((split) => counts[split] !== undefined && !there.includes(split));
  if (gone !== undefined && new Set(asked).size > 1) {
    throw new ConfigError(
      `--count ${gone}=${counts[gone]}: there is no ${gone} split, only ${there.join(' and ')}; leave it out, or make one with --validation, --shares or --split`,
    );
  }
  let statement = '';
  const keep = (split: Split, choose: (classes: readonly string[]) => number[]): void => {
    const at = splits.flatMap((assigned, i) => (assigned === split ? [i] : []));
    const kept = new Set(choose(at.map((i) => items[i]!.class)).map((k) => at[k]!));
    for (const i of at) if (!kept.has(i)) splits[i] = null;
    if (kept.size < at.length) statement += ` Of ${split}, ${kept.size} of ${at.length} are kept`;
  };
  if (shots !== undefined) {
    keep('train', (classes) => fewShots(classes, shots, seed));
    if (statement !== '') statement += ` (${shots} of each class, seed ${seed}).`;
  }
  for (const split of SPLITS) {
    const count = counts[split];
    if (count === undefined) continue;
    const before = statement;
    keep(split, (classes) => (classes.length === 0 ? [] : stratifiedSubset(classes, count, seed)));
    if (statement !== before) statement += ` (stratified by class, seed ${seed}).`;
  }
  return statement;
}

export interface SelectOptions extends DrawOptions {
  /** Folder, or file, of the data; null for generated tasks. */
  readonly directory: string | null;
  /** Splits to prepare. Default: all. */
  readonly splits?: readonly Split[] | undefined;
  /** Seed of draws (default 0) and of generated series (default: those of the splits). */
  readonly seed?: number | undefined;
  readonly window?: number | null | undefined;
  readonly length?: number | undefined;
  /** Index of the first generated series. */
  readonly offset?: number | undefined;
  readonly figure?: BenchmarkFigure | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Reports the examples read so far, where all must be read before any is chosen. */
  readonly onRead?: ((read: number) => void) | undefined;
}

/** Chosen examples and what the manifest states about them. */
export interface Selection {
  readonly total: number;
  readonly origin: ExampleOrigin;
  /** Walks through the files again. @throws DataError also where they changed meanwhile */
  readonly examples: () => Generator<readonly [split: Split, example: Example]>;
}

/** Examples between two yields to the event loop. */
const BREATH = 256;

/** Largest magnitude that analyses (sums of powers in float64) and pictures (float32) can take. */
export const LARGEST_VALUE = 1e30;
/** Maximum characters of a channel name: prompts list all names. */
const LONGEST_NAME = 60;

/** Checks an example, also against the limits of prompts and analyses. @throws DataError */
function checkEntering(example: Example, place: Place): void {
  checkExample(example, place);
  const { id, channels, names } = example;
  const long = names.find((name) => [...name].length > LONGEST_NAME);
  if (long !== undefined) {
    throw new DataError(
      `${id}: the channel name ${show(long)} has ${[...long].length} characters, more than ${LONGEST_NAME}; prompts list all names: shorten it`,
      place,
    );
  }
  for (const [c, channel] of channels.entries()) {
    for (let t = 0; t < channel.length; t++) {
      if (!(Math.abs(channel[t]!) > LARGEST_VALUE)) continue;
      throw new DataError(
        `${id}: point ${t} of channel ${show(names[c])} is ${channel[t]}, beyond ±${LARGEST_VALUE}; rescale the series, or leave the cell empty if it marks a missing value`,
        place,
      );
    }
  }
}

async function indexOf(task: OpenBenchmark, { signal, onRead }: SelectOptions): Promise<Item[]> {
  const items: Item[] = [];
  const ids = new Set<string>();
  for (const { split, example, place = {} } of task.load()) {
    const { id, gold, recording } = example;
    checkEntering(example, place);
    if (ids.has(id)) throw new DataError(`id '${id}' occurs twice`, place);
    ids.add(id);
    items.push({ split, id, class: labelOf(gold), recording, digest: digestOf(example) });
    if (items.length % BREATH !== 0) continue;
    onRead?.(items.length);
    await setImmediate();
    signal?.throwIfAborted();
  }
  if (items.length === 0) throw new DataError('no examples');
  onRead?.(items.length);
  return items;
}

/** @throws DataError for a figure that the user's files name; ConfigError for one of the options */
function checkFigureOf({ own }: OpenBenchmark, { figure: wanted }: SelectOptions): void {
  const preset = (wanted ?? own?.figure)?.preset;
  if (preset === undefined || own === undefined) return;
  const problem = figureProblem(preset);
  if (problem === null) return;
  if (wanted !== undefined) throw new ConfigError(`figure: ${problem}`);
  throw new DataError(`figure: ${problem}`, own.place('figure'));
}

function checkOptions({ validation, shares, splits, seed }: SelectOptions): void {
  if (validation !== undefined && !(validation >= 0 && validation < 1)) {
    throw new ConfigError(
      `--validation: got ${validation}, expected a share of at least 0 and below 1; 0 keeps the training split whole`,
    );
  }
  if (shares !== undefined) {
    const list = SPLITS.map((split) => shares[split]);
    if (list.some((share) => !(share >= 0 && share < Number.POSITIVE_INFINITY)) || !list.some((s) => s > 0)) {
      throw new ConfigError(
        `--shares: got ${list.join(',')}, expected numbers of at least 0, one of them above 0`,
      );
    }
  }
  if (splits?.length === 0) throw new ConfigError('--split: names no split');
  if (seed !== undefined && !(Number.isSafeInteger(seed) && seed >= 0)) {
    throw new ConfigError(`--seed: got ${seed}, expected a whole number of at least 0`);
  }
}

/** Advice for a data set without a validation split, unless the user chose that. */
function withoutValidation(
  plan: OpenBenchmark['plan'],
  splits: readonly (Split | null)[],
  { shares, validation, splits: wanted = SPLITS }: SelectOptions,
): string[] {
  const asked = shares !== undefined || validation === 0 || !wanted.includes('validation');
  if (asked || !splits.includes('train') || splits.includes('validation')) return [];
  const advice =
    plan.by !== 'given'
      ? plan.sizes.validation > 0
        ? `there are too few ${plan.by === 'recording' ? 'recordings' : 'examples'} for one; add some`
        : '--shares 8,1,1 makes one'
      : typeof plan.validation === 'object'
        ? `none can be made, because ${plan.validation.refused}`
        : '--validation 0.1 takes one from training, --validation 0 does without (for figures on published splits)';
  return [`no validation split for choosing settings: ${advice}`];
}

/** Examples per split of a generated task; 0 for splits that are not requested. */
function generatedCounts(options: SelectOptions): Partial<Record<Split, number>> {
  const { counts = {}, splits = SPLITS } = options;
  const idle = SPLITS.find((split) => !splits.includes(split) && counts[split] !== undefined);
  if (idle !== undefined && splits.every((split) => counts[split] === undefined)) {
    throw new ConfigError(`--count: counts ${idle}, which --split leaves out; it has ${splits.join(', ')}`);
  }
  const unwanted = SPLITS.filter((split) => !splits.includes(split)).map((split) => [split, 0]);
  return { ...counts, ...Object.fromEntries(unwanted) };
}

/**
 * Opens a task, reads through it once, and chooses: its split or a drawn one, subsets, few shots.
 * @throws ConfigError for options out of range, or that the task does not have; DataError for files that are missing or
 * wrong, and where nothing is left; the signal's reason
 */
export async function selectExamples(spec: Benchmark, options: SelectOptions): Promise<Selection> {
  checkOptions(options);
  const { splits: wanted = SPLITS, signal, seed = 0 } = options;
  const { directory, window, length, offset, allowSharedRecordings } = options;
  if (spec.needs !== 'nothing' && length !== undefined) {
    throw new ConfigError(`--length: ${spec.name} is not generated; --window cuts longer series`);
  }
  if (options.counts !== undefined) {
    for (const count of Object.values(options.counts)) {
      if (!Number.isInteger(count) || count < 1) {
        throw new ConfigError(`--count: got ${count}, expected a whole number of at least 1`);
      }
    }
  }
  const generated = spec.needs === 'nothing';
  const counts = generated ? generatedCounts(options) : undefined;
  const task = spec.open({
    ...{ directory, window, length, offset, counts, seed: options.seed, allowSharedRecordings },
  });
  const { own } = task;
  checkFigureOf(task, options);
  const files = directory === null ? [] : await sourceFiles(task.files, directory, signal);
  const plain = generated && options.shots === undefined && options.shares === undefined;
  let chosen: (Split | null)[] | null = null;
  let ids: string[] | null = null;
  const notes: string[] = [];
  let split = { statement: task.plan.statement, recordingsApart: task.plan.recordingsApart };
  if (!plain || options.validation !== undefined) {
    const items = await indexOf(task, options);
    const { splits, statement, recordingsApart } = drawSplits(items, task.plan, options, seed);
    for (const [i, drawn] of splits.entries())
      if (drawn !== null && !wanted.includes(drawn)) splits[i] = null;
    const kept = subset(items, splits, generated ? { ...options, counts: {} } : options, seed);
    const same = duplicatesText(items, splits);
    split = { statement: `${statement}${kept}${same === null ? '' : ` ${same}`}`, recordingsApart };
    ids = items.map(({ id }) => id);
    chosen = splits;
    notes.push(...withoutValidation(task.plan, splits, options));
  }
  const total = chosen === null ? task.total! : chosen.filter((drawn) => drawn !== null).length;
  if (total === 0) {
    throw new DataError(
      `${spec.name}: nothing is left; it has no example of the splits ${wanted.join(', ')}`,
    );
  }
  const origin: ExampleOrigin = {
    task: spec.name,
    title: own?.title ?? spec.title,
    kind: task.kind ?? spec.kind,
    source: {
      description: spec.source.description,
      licence: own?.licence ?? spec.source.licence,
      citation: own?.citation ?? spec.source.citation,
      addresses: spec.source.addresses.map(({ url }) => url),
      files,
    },
    parameters: { ...task.parameters, ...parametersOf(options, seed, generated) },
    split,
    classes: [...task.classes()],
    ...(own?.prompt === undefined ? {} : { prompt: own.prompt }),
    rate: own?.rate ?? spec.rate,
    figure: options.figure ?? own?.figure ?? spec.figure,
    notes: [...(task.notes?.() ?? []), ...notes],
  };
  return {
    total,
    origin,
    *examples() {
      let index = 0;
      for (const { split: given, example } of task.load()) {
        const target = chosen === null ? given : chosen[index];
        if (ids !== null && ids[index] !== example.id) {
          throw new DataError(
            `${spec.name}: the files changed while they were read; run the same command again`,
          );
        }
        index++;
        if (target != null) yield [target, example];
      }
    },
  };
}

function parametersOf(options: SelectOptions, seed: number, generated: boolean): Record<string, unknown> {
  const { counts, shots, shares, validation, splits, allowSharedRecordings } = options;
  const given = { counts, shots, shares, validation, splits, allowSharedRecordings };
  const named = Object.entries(given).filter(([, value]) => value !== undefined);
  return { ...Object.fromEntries(named), ...(generated ? {} : { seed }) };
}

interface PrepareOptions extends SelectOptions, Pick<WriteExamplesOptions, 'complete'> {
  /** Reports the number of examples written, and their total. */
  readonly onProgress?: (written: number, total: number) => void;
}

/** Prepares a data set directory, whole or not at all. @returns its manifest @throws as `selectExamples` and `writeExamples` */
export async function prepare(
  spec: Benchmark,
  out: string,
  options: PrepareOptions,
): Promise<ExampleManifest> {
  return writeSelection(await selectExamples(spec, options), out, options);
}

/**
 * Checks that a data set may be written into `out`: only a data set is replaced, never a directory of other files.
 * @throws ConfigError
 */
export function checkTarget(out: string, force: boolean): void {
  if (out.trim() === '') throw new ConfigError('--out: empty; name the directory to write');
  replaceable(out);
  if (!existsSync(out)) {
    if (lstatSync(out, { throwIfNoEntry: false })?.isSymbolicLink()) {
      throw new ConfigError(`--out ${out}: is a broken link; remove it, or choose another place`);
    }
    return;
  }
  if (!statSync(out).isDirectory()) throw new ConfigError(`--out ${out}: is a file; choose a directory`);
  if (isExampleSet(out)) {
    if (force) return;
    throw new ConfigError(`--out ${out}: holds a data set already; choose another directory, or add --force`);
  }
  if (readdirSync(out).length === 0) return;
  throw new ConfigError(`--out ${out}: holds other files, which are never replaced; choose a new directory`);
}

/** Writes chosen examples, whole or not at all. @returns the manifest @throws as `writeExamples` */
export async function writeSelection(
  selection: Selection,
  out: string,
  { onProgress, signal, complete }: Pick<PrepareOptions, 'onProgress' | 'signal' | 'complete'>,
): Promise<ExampleManifest> {
  const { total } = selection;
  onProgress?.(0, total);
  return writeExamples(out, () => selection.origin, selection.examples(), {
    ...(onProgress === undefined ? {} : { onProgress: (written) => onProgress(written, total) }),
    ...(signal === undefined ? {} : { signal }),
    ...(complete === undefined ? {} : { complete }),
  });
}
