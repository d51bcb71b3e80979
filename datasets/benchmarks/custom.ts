/** custom: the user's own files. */

import { ConfigError, DataError } from '../../src/errors.ts';
import { taskKind } from '../../src/tasks/kinds.ts';
import type { Example } from '../../src/types.ts';
import { lengthOf } from '../example.ts';
import type {
  Benchmark,
  BenchmarkFigure,
  BenchmarkOptions,
  OpenBenchmark,
  SplitPlan,
  UserFacts,
} from './benchmark.ts';
import { CUSTOM_LAYOUT, openSource, type Source } from './custom-source.ts';
import { type CustomWords, checkHints, readWords } from './custom-words.ts';
import { checkWindow } from './window.ts';

function planOf({ split, recordings }: Source): SplitPlan {
  if (split) {
    return {
      by: 'given',
      statement: 'Split of the user.',
      recordingsApart: recordings ? true : null,
      validation: recordings ? 'recording' : 'example',
    };
  }
  return {
    by: recordings ? 'recording' : 'example',
    sizes: { train: 8, validation: 1, test: 1 },
    statement: recordings
      ? 'Examples of one recording are in one split.'
      : 'No recordings are named: every series counts as one of its own.',
    recordingsApart: recordings ? true : null,
  };
}

const FIGURE: BenchmarkFigure = { preset: 'line', missing: 'break' };
/** Prompts number variates by their places in a grid. */
const GRID: BenchmarkFigure = { preset: 'vta-grid', missing: 'break' };

function factsOf(words: CustomWords, kind: Source['kind']): UserFacts {
  const { title, description, hints = {}, rate, figure, licence, citation } = words;
  if (words.kind !== undefined && words.kind !== kind) {
    throw new DataError(
      `kind: got ${words.kind}, but the labels are those of kind ${kind}: intervals make it anomaly, variates make it variates`,
      words.place('kind'),
    );
  }
  return {
    ...{ title, licence, citation, rate },
    figure: figure === undefined ? undefined : { ...FIGURE, preset: figure },
    prompt: { description: description ?? title ?? '', hints, advice: null },
    place: words.place,
  };
}

/** Counts missing points, to say so once. */
class Gaps {
  #first: { readonly id: string; readonly points: number } | null = null;
  #examples = 0;
  #points = 0;
  #all = 0;

  add(example: Example): void {
    let points = 0;
    for (const channel of example.channels) for (const value of channel) if (Number.isNaN(value)) points++;
    this.#all += lengthOf(example) * example.channels.length;
    if (points === 0) return;
    this.#first ??= { id: example.id, points };
    this.#examples++;
    this.#points += points;
  }

  get notes(): string[] {
    if (this.#first === null) return [];
    const { id, points } = this.#first;
    return [
      `${this.#points} of ${this.#all} values are missing, in ${this.#examples} ${this.#examples === 1 ? 'example' : 'examples'}; the first: ${id} (${points})`,
    ];
  }
}

export const custom: Benchmark = {
  name: 'custom',
  title: 'Your own files',
  kind: 'classification',
  source: {
    description: 'Files of the user.',
    licence: "the user's own",
    citation: null,
    addresses: [],
  },
  classes: null,
  rate: null,
  shape: 'any',
  figure: { preset: 'line', missing: 'break' },
  prompt: null,
  generator: null,
  needs: 'files',
  layout: CUSTOM_LAYOUT,
  open({ directory, window, allowSharedRecordings }: BenchmarkOptions): OpenBenchmark {
    if (directory === null)
      throw new ConfigError(`custom: name the files with --from; it needs ${CUSTOM_LAYOUT}`);
    if (window !== undefined) checkWindow(window);
    const source = openSource(directory, { window, allowSharedRecordings });
    const { kind } = source;
    const words = readWords(source.folder);
    const own = words === null ? undefined : factsOf(words, kind);
    const figure = own?.figure ?? (taskKind(kind).countsChannels ? GRID : undefined);
    const seen = new Set<string>();
    let notes: string[] = [];
    const known = taskKind(kind).classes;
    const classes = (): string[] =>
      known === 'data' ? [...seen].sort() : known.filter((name) => seen.has(name));
    return {
      files: words === null ? source.files : [...source.files, words.file],
      kind,
      classes,
      parameters: window === undefined ? {} : { window },
      total: null,
      notes: () => notes,
      plan: planOf(source),
      own: { place: () => ({ file: directory }), ...own, figure },
      *load() {
        notes = [...source.notes];
        const gaps = new Gaps();
        for (const loaded of source.load((text) => void notes.push(text))) {
          const { gold } = loaded.example;
          const named = taskKind(gold.kind).className(gold);
          // An anomaly of unnamed kind may be any of them.
          for (const name of named !== null ? [named] : known === 'data' ? [] : known) seen.add(name);
          gaps.add(loaded.example);
          yield loaded;
        }
        notes.push(...gaps.notes);
        if (words !== null) checkHints(words, known === 'data' ? classes() : known);
      },
    };
  },
};
