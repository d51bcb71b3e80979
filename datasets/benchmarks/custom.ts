/**
 * custom: the user's own files, described in `task.yaml` beside them in the user's words. Prompts contain the description and the
 * hints; the rest goes into the manifest.
 */
import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { ConfigError, DataError, suggestion } from '../../src/ground/errors.ts';
import { fileInside } from '../../src/ground/files.ts';
import { issueText, show } from '../../src/ground/json-record.ts';
import { plural } from '../../src/ground/numbers.ts';
import { firstNames } from '../../src/ground/terminal.ts';
import type { Example } from '../../src/ground/types.ts';
import { MOST_YAML_BYTES, readYaml } from '../../src/ground/yaml.ts';
import { taskKind } from '../../src/tasks/kinds.ts';
import { RESERVED } from '../../src/tasks/response.ts';
import { lengthOf, VALUE_CHANNEL } from '../example.ts';
import { readText } from '../readers/csv.ts';
import type {
  Benchmark,
  BenchmarkFigure,
  BenchmarkOptions,
  OpenBenchmark,
  SplitPlan,
  UserFacts,
} from './benchmark.ts';
import { CUSTOM_LAYOUT, openSource, type Source } from './custom-source.ts';
import { checkWindow } from './source-files.ts';

export const TASK_FILES = ['task.yaml', 'task.yml', 'task.json'] as const;

const words = z
  .string()
  .trim()
  .min(1)
  .refine((value) => !RESERVED.test(value), {
    error: 'holds a tag of the answer or a special token; leave it out',
  });

const schema = z.strictObject({
  /** Title of the data: one line. */
  title: words.regex(/^[^\n\r]{1,100}$/, 'expected one line of at most 100 characters').optional(),
  /** Description of the measurement: quantity, method, rate. */
  description: words.optional(),
  kind: z.enum(['classification', 'anomaly', 'variates']).optional(),
  rate: z.number().positive().optional(),
  /** Channels to keep, by name and in this order. */
  columns: z
    .array(z.string().min(1))
    .min(1)
    .refine((names) => new Set(names).size === names.length, { error: 'names a column twice' })
    .optional(),
  /** Appearance of each class, by name. */
  hints: z.record(z.string().min(1), words).optional(),
  /** Advice requested after the class, as a clause, where a recipe or command asks for one; classification only. */
  advice: words.optional(),
  figure: z.string().min(1).optional(),
  licence: z.string().min(1).optional(),
  citation: z.string().min(1).optional(),
});

export const TASK_FILE_EXAMPLE = `title: Pumps of one plant
description: Vibration of a pump bearing in g, two seconds at 100 Hz.
kind: classification        # or anomaly, variates: checked against the labels
rate: 100                   # samples per second
columns: [value]            # channels to keep, by name; default: all
hints:                      # what the classes look like
  worn: a rough hum that grows with every turn
  new: an even, quiet hum
advice: advise the operator when to stop the pump # after the class, where an extension is asked for
figure: line                # a preset, as of --figure
licence: internal           # citation: where the data were published`;

const FIELDS = Object.keys(schema.shape);

/** The user's words, with their places in the file. */
interface CustomWords extends z.infer<typeof schema> {
  readonly file: string;
  /** Returns the place of a field such as `hints.worn`. */
  readonly place: (...path: readonly string[]) => { readonly file: string; readonly line?: number };
}

/**
 * Reads the file of a folder, strictly; null where it has none.
 * @throws DataError with file and line for a field that is unknown or wrong, and for text that is not YAML (or JSON)
 */
export function readWords(folder: string): CustomWords | null {
  const [file, other] = TASK_FILES.map((name) => join(folder, name)).filter((path) => existsSync(path));
  if (file === undefined) return null;
  if (other !== undefined) throw new DataError(`stands beside ${other}; keep one of them`, { file });
  const text = readText(fileInside(folder, basename(file)), MOST_YAML_BYTES);
  const yaml = readYaml(text, (complaint, line = 1, column = 1) => {
    return new DataError(`not YAML: ${complaint}`, { file, line, column });
  });
  const tree = yaml.content;
  const place = (...path: readonly PropertyKey[]): { file: string; line?: number } => ({
    file,
    line: yaml.line(path) ?? 1,
  });
  const result = schema.safeParse(tree);
  if (!result.success) {
    const issue = result.error.issues[0]!;
    const unknown = issue.code === 'unrecognized_keys' ? issue.keys[0]! : undefined;
    const near = unknown === undefined ? '' : `.${suggestion(unknown, FIELDS)}`;
    const known = unknown === undefined ? '' : `${near === '.' ? '.' : near} Known: ${FIELDS.join(', ')}`;
    throw new DataError(
      `${issueText(issue, tree, 'task')}${known}`,
      place(...issue.path, ...(unknown === undefined ? [] : [unknown])),
    );
  }
  return { ...result.data, file, place };
}

/** Keeps the named channels of an example. @throws DataError for one that is not there */
function keepColumns(example: Example, { columns, place }: CustomWords): Example {
  if (columns === undefined) return example;
  const { id, names, channels } = example;
  const kept = columns.map((name) => {
    const c = names.indexOf(name);
    if (c >= 0) return channels[c]!;
    throw new DataError(
      `columns: ${id} has no channel ${show(name)}.${suggestion(name, names)} Channels: ${firstNames(names.map(show), 20)}`,
      place('columns'),
    );
  });
  return { ...example, channels: kept, names: kept.length === 1 ? [VALUE_CHANNEL] : columns };
}

/** @throws DataError for a hint to a class that the data do not have */
export function checkHints({ hints = {}, place }: CustomWords, classes: readonly string[]): void {
  const odd = Object.keys(hints).find((name) => !classes.includes(name));
  if (odd === undefined) return;
  throw new DataError(
    `hints.${odd}: the data have no such class.${suggestion(odd, classes)} Classes: ${classes.slice(0, 20).join(', ')}`,
    place('hints', odd),
  );
}

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
  const { title, description, hints = {}, advice, rate, figure, licence, citation } = words;
  if (words.kind !== undefined && words.kind !== kind) {
    throw new DataError(
      `kind: got ${words.kind}, but the labels are those of kind ${kind}: intervals make it anomaly, variates make it variates`,
      words.place('kind'),
    );
  }
  if (advice !== undefined && !taskKind(kind).evaluation.answerParts.includes('extension')) {
    throw new DataError(
      'advice: applies to classifications only, and the labels are no classes; leave it out',
      words.place('advice'),
    );
  }
  if (words.columns !== undefined && taskKind(kind).countsChannels) {
    throw new DataError(
      'columns: the labels number all channels of the files; leave it out',
      words.place('columns'),
    );
  }
  return {
    ...{ title, licence, citation, rate },
    figure: figure === undefined ? undefined : { ...FIGURE, preset: figure },
    prompt: { description: description ?? title ?? '', hints, advice: advice ?? null },
    place: words.place,
  };
}

/** Counts missing points for a single note. */
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
      `${this.#points} of ${this.#all} values are missing, in ${plural(this.#examples, 'example')}; the first: ${id} (${points})`,
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
      notes: () => notes,
      plan: planOf(source),
      own: { place: () => ({ file: directory }), ...own, figure },
      *load() {
        notes = [...source.notes];
        const gaps = new Gaps();
        let first: Example | null = null;
        const trained = new Set<string>();
        for (const { example: read, ...loaded } of source.load((text) => void notes.push(text))) {
          const example = words === null ? read : keepColumns(read, words);
          const { id, channels, gold } = example;
          first ??= example;
          if (channels.length !== first.channels.length) {
            throw new DataError(
              `${id}: has ${plural(channels.length, 'channel')}, and ${first.id} has ${plural(first.channels.length, 'channel')}; give every series the same channels`,
              loaded.place,
            );
          }
          const named = taskKind(gold.kind).className(gold);
          // An anomaly of unnamed kind may be any of them.
          for (const name of named !== null ? [named] : known === 'data' ? [] : known) seen.add(name);
          if (named !== null && loaded.split === 'train') trained.add(named);
          gaps.add(example);
          yield { ...loaded, example };
        }
        notes.push(...gaps.notes);
        const unseen =
          known === 'data' && trained.size > 0 ? classes().filter((name) => !trained.has(name)) : [];
        if (unseen.length > 0) {
          notes.push(
            `no training example of ${unseen.length === 1 ? 'class' : 'classes'} ${firstNames(unseen.map(show), 5)}; are all classes spelled alike in every file?`,
          );
        }
        if (words !== null) checkHints(words, known === 'data' ? classes() : known);
      },
    };
  },
};
