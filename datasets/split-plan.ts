/**
 * Split plans: the split of each example, the examples kept, leaks from training into evaluation, and the
 * statement about them.
 */
import { createHash } from 'node:crypto';
import { ConfigError, DataError } from '../src/ground/errors.ts';
import type { Example } from '../src/ground/types.ts';
import type { SplitPlan } from './benchmarks/benchmark.ts';
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

/** SHA-1 in base64 of the values of all channels; their names do not matter. */
export function digestOf({ channels }: Pick<Example, 'channels'>): string {
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
    homes.set(recording, (homes.get(recording) ?? new Set<Split>()).add(split));
  }
  const shared = [...homes].filter(([, home]) => home.size > 1);
  return new Map(shared.map(([name, home]) => [name, SPLITS.filter((split) => home.has(split))]));
}

/**
 * Counts held-out series with exactly the values of one in an earlier split (in the order train, validation, test).
 * @returns a sentence with one such pair, or null where there is none
 */
export function duplicatesText(
  entries: readonly Traceable[],
  splits: readonly (Split | null)[],
): string | null {
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

export interface DrawOptions {
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

export interface Item extends Traceable {
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
      `recording '${name}' is in ${home.join(' and ')}, which must not share any; correct the split, or allow it with --allow-shared-recordings`,
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
export function drawSplits(
  items: readonly Item[],
  plan: SplitPlan,
  options: DrawOptions,
  seed: number,
): Drawn {
  return checkShared(items, assign(items, plan, options, seed), options.allowSharedRecordings ?? false);
}

function assign(items: readonly Item[], plan: SplitPlan, options: DrawOptions, seed: number): Drawn {
  const { shares, validation } = options;
  if (plan.by === 'given') {
    if (shares !== undefined) {
      throw new ConfigError(
        '--shares: this data set has a split of its own; take --validation for a part of training',
      );
    }
    if (validation === 0 && items.some(({ split }) => split === 'validation')) {
      throw new ConfigError(
        '--validation 0: the data have a validation split of their own; leave it out with --split train,test',
      );
    }
    if (validation !== undefined && validation > 0) return takeValidation(items, plan, validation, seed);
    const splits = items.map(({ split }) => split);
    const statement = `${plan.statement} Here: ${sizesText(splits)}.`;
    return { splits, statement, recordingsApart: plan.recordingsApart };
  }
  if (validation !== undefined) {
    throw new ConfigError(
      '--validation: this data set has no split of its own; give --shares train,validation,test',
    );
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
  const lacks = lacksText(
    items,
    splits,
    SPLITS.filter((split) => sizes[split] > 0),
  );
  return {
    splits,
    statement: `Our own split, seed ${seed}, ${by}, stratified by class: ${sizesText(splits)}.${lacks} ${plan.statement}`,
    recordingsApart: plan.recordingsApart,
  };
}

/**
 * Keeps the requested examples of each split; the others become null.
 * @returns a statement about it
 * @throws ConfigError for a count of a split that is not there, unless the same is asked of all
 */
export function subset(
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
