/** What `data prepare` says: while it works, and of what it has written. */

import type { ExampleManifest } from '../../../datasets/example-manifest.ts';
import { ExampleSet } from '../../../datasets/example-set.ts';
import { SPLITS, type Split } from '../../../datasets/split.ts';
import { Progress } from '../../progress.ts';
import { taskKind } from '../../tasks/kinds.ts';
import { columns, figuresText } from './list.ts';

/** Counts of the classes by split. */
export function classTable(manifest: ExampleManifest): string {
  const splits = SPLITS.filter((split) => manifest.splits[split] !== undefined);
  const found = splits.flatMap((split) => Object.keys(manifest.splits[split]!.classes));
  const names = [...new Set([...manifest.classes.filter((name) => found.includes(name)), ...found])];
  const rows = names.map((name) => [
    `  ${name}`,
    ...splits.map((split) => String(manifest.splits[split]!.classes[name] ?? 0).padStart(10)),
  ]);
  const totals = splits.map((split) => String(manifest.splits[split]!.count).padStart(10));
  return columns([['', ...splits.map((split) => split.padStart(10))], ...rows, ['  all', ...totals]]);
}

/** Bytes of everything but the manifest. */
function bytesOf({ splits, materials }: ExampleManifest): number {
  const parts = Object.values(materials?.splits ?? {});
  const sizes = [
    ...Object.values(splits).map(({ bytes }) => bytes),
    ...parts.map(({ prompts, figures }) => prompts.bytes + (figures?.bytes ?? 0)),
    materials?.classes?.bytes ?? 0,
  ];
  return sizes.reduce((sum, bytes) => sum + bytes, 0);
}

/** What stands beside the examples, in words. */
function beside({ materials }: ExampleManifest): string {
  const parts = Object.values(materials?.splits ?? {});
  const sum = (of: (part: (typeof parts)[number]) => number): number =>
    parts.reduce((total, part) => total + of(part), 0);
  const figures = sum((part) => part.figures?.count ?? 0);
  const [teacher, blind] = [sum((part) => part.teacher), sum((part) => part.blind)];
  return `beside each example: prompt ${materials?.prompt}; ${figures} ${figures === 1 ? 'figure' : 'figures'}; expert traces: ${teacher} with the right answer, ${blind} blind`;
}

/** Names of channels are with the examples. */
function figures(out: string, manifest: ExampleManifest): string {
  const set = new ExampleSet(out);
  const [first] = set.read(set.splits[0]!, 0, 1);
  return figuresText(manifest, first!.names);
}

/** @throws DataError where the data set that was written is not there any more */
export function summary(out: string, manifest: ExampleManifest, seconds: number): string {
  return [
    `${out}: ${manifest.title}; ${(bytesOf(manifest) / 1e6).toFixed(1)} MB in ${seconds.toFixed(1)} s`,
    classTable(manifest),
    beside(manifest),
    ...blindLines(manifest),
    `split: ${manifest.split.statement}`,
    ...[...manifest.notes, ...(manifest.materials?.notes ?? [])].map((note) => `note: ${note}`),
    `licence: ${manifest.source.licence}`,
    figures(out, manifest),
    `next: timeseer data show ${out}, timeseer data validate ${out}`,
  ].join('\n');
}

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

/** What a class accuracy is to be seen beside. */
const always = (chance: number | null): string =>
  chance === 1 ? 'all of one class' : `most frequent ${percent(chance ?? 0)}`;

/** How often the blind expert is right, by split; null where it was not scored. */
export function blindScores({ materials }: ExampleManifest): Record<string, unknown> | null {
  const scored = Object.entries(materials?.splits ?? {}).filter(([, { score }]) => score !== null);
  return scored.length === 0 ? null : Object.fromEntries(scored.map(([split, { score }]) => [split, score]));
}

/**
 * Number of normal series of a split where no anomaly has a kind: only those have a class that can be right. Undefined elsewhere.
 * @param chance accuracy of the most frequent class
 */
export function normalAlone(
  { kind, splits }: Pick<ExampleManifest, 'kind' | 'splits'>,
  split: Split,
  chance: number | null,
): number | undefined {
  return taskKind(kind).localises && chance === 1 ? splits[split]?.classes['normal'] : undefined;
}

/** One line on how often the blind expert is right; none where there are no traces. */
export function blindLines(manifest: ExampleManifest): string[] {
  const { materials } = manifest;
  if (materials === undefined) return [];
  const parts = Object.entries(materials.splits).flatMap(([split, { score }]) => {
    if (score === null) return [];
    const { count, accuracy, chance, f1 } = score;
    const normal = normalAlone(manifest, split as Split, chance);
    const named =
      normal === undefined
        ? `class ${percent(accuracy ?? 0)} (${always(chance)})`
        : `leaves ${percent(accuracy ?? 0)} of the ${normal} normal ones alone`;
    const words = [...(accuracy === null ? [] : [named]), ...(f1 === null ? [] : [`F1 ${f1.toFixed(3)}`])];
    return [`${split} ${words.join(', ')} of ${count}`];
  });
  const heldOut = materials.classes?.heldOut ?? null;
  if (heldOut !== null) parts.unshift(`train, in folds, class ${percent(heldOut)}`);
  return parts.length === 0 ? [] : [`blind expert: ${parts.join('; ')}`];
}

/** One progress line after the other. */
export class Phases {
  readonly #silent: boolean;
  #label = '';
  #bar: Progress | undefined;

  constructor(silent: boolean) {
    this.#silent = silent;
  }

  update(label: string, done: number, total: number | null): void {
    if (this.#label !== label) {
      this.stop();
      this.#label = label;
      this.#bar = new Progress({ label, total, unit: 'examples', silent: this.#silent });
    }
    this.#bar?.update(done);
  }

  stop(): void {
    this.#bar?.stop();
    this.#bar = undefined;
  }
}

/** What the last phase is called. */
export function materialLabel(figures: boolean, traces: boolean): string {
  if (!figures) return traces ? 'prompts and traces' : 'prompts';
  return traces ? 'figures, prompts, traces' : 'figures and prompts';
}
