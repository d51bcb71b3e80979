/** `timeseer data show NAME|DIR`: a few examples with their right answers, as text or as a page. */
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Benchmark, OpenBenchmark } from '../../../datasets/benchmarks/benchmark.ts';
import { BENCHMARKS } from '../../../datasets/benchmarks/registry.ts';
import { lengthOf } from '../../../datasets/example.ts';
import { EXAMPLES_MANIFEST, isExampleSet, readExampleManifest } from '../../../datasets/example-manifest.ts';
import { type ExampleOrigin, ExampleSet } from '../../../datasets/example-set.ts';
import { counted, describer, examplesPage, type ShownExample } from '../../../datasets/examples-page.ts';
import { type Selection, selectExamples } from '../../../datasets/prepare.ts';
import { SPLITS, type Split } from '../../../datasets/split.ts';
import { checkSetFigure } from '../../../datasets/validate-set.ts';
import { ConfigError } from '../../ground/errors.ts';
import { writeFileAtomic } from '../../ground/files.ts';
import { checkWhole } from '../../ground/json-record.ts';
import { ReadingNote } from '../../ground/progress.ts';
import { Random } from '../../ground/random.ts';
import { columns, print, printJson } from '../../ground/terminal.ts';
import type { Example } from '../../ground/types.ts';
import { isModuleSpecifier } from '../../ground/user-module.ts';
import { checkFigure } from '../../tasks/drawing.ts';
import { goldParts, labelOf } from '../../tasks/kinds.ts';
import { command, flag, type Given, number, text } from '../options.ts';
import { figuresText } from './list.ts';
import { CHOICE_OPTIONS, selectOptions, taskNamed } from './prepare.ts';

type ShowArguments = Given<typeof OPTIONS> & { readonly source: string };

/** Maximum number of examples on a page: each has a picture or two. */
const MOST = 200;

type Examples = () => Iterable<readonly [split: Split, example: Example]>;

/** Examples of a task or of a directory, in an order that does not change. */
interface Gallery {
  readonly origin: ExampleOrigin;
  readonly examples: Examples;
  /** Examples from which classes are learned, whatever is shown. Default: those above. */
  readonly training?: Examples;
  /** Prepared data set of the examples, if any. */
  readonly set?: ExampleSet;
}

const OWN = ['from', 'backgrounds', 'count', 'shots', 'window', 'length', 'shares', 'validation'] as const;

function openDirectory(path: string, args: ShowArguments, note: ReadingNote): Gallery {
  const wrong = OWN.find((key) => args[key] !== undefined);
  if (wrong !== undefined) throw new ConfigError(`--${wrong} belongs to tasks; ${path} is prepared already`);
  note.start();
  const set = new ExampleSet(path);
  if (args.figure === undefined) checkSetFigure(path, set.manifest);
  const { figure } = selectOptions(args, BENCHMARKS[0]!);
  const chosen = args.split?.split(',');
  const unknown = chosen?.find((name) => !(set.splits as string[]).includes(name));
  if (unknown !== undefined)
    throw new ConfigError(`--split: ${path} has ${set.splits.join(', ')}, not '${unknown}'`);
  const { format: _, version: __, splits: ___, ...origin } = set.manifest;
  return {
    set,
    origin:
      figure === undefined ? origin : { ...origin, figure: { ...origin.figure, preset: figure.preset } },
    *training() {
      if (set.splits.includes('train')) {
        for (const example of note.over(set.read('train'))) yield ['train', example];
      }
    },
    *examples() {
      for (const split of set.splits) {
        if (chosen !== undefined && !chosen.includes(split)) continue;
        for (const example of note.over(set.read(split))) yield [split, example];
      }
    },
  };
}

/** Returns the benchmark with examples that tick while they are loaded. */
export function watched(spec: Benchmark, note: ReadingNote): Benchmark {
  return {
    ...spec,
    open: (options): OpenBenchmark => {
      const task = spec.open(options);
      return { ...task, load: () => note.over(task.load()) };
    },
  };
}

async function openTask(args: ShowArguments, note: ReadingNote): Promise<Gallery & Selection> {
  const named = await taskNamed(args.source, args);
  const spec = watched(named.spec, note);
  const options = selectOptions(args, spec);
  // A generated task makes no more than it takes to find some of every class.
  const few = Object.fromEntries(SPLITS.map((split) => [split, 10 * args.n]));
  const counts = spec.needs === 'nothing' && options.counts === undefined ? few : options.counts;
  const directory = await named.place();
  note.start();
  return selectExamples(spec, { ...options, counts, directory });
}

/** @throws ConfigError for what is neither a task nor a directory, where it looks like the path of one */
function checkSource(source: string): void {
  const name = source.toLowerCase();
  if (isModuleSpecifier(source) || isExampleSet(source) || BENCHMARKS.some((task) => task.name === name))
    return;
  const ownFiles = 'your own files: timeseer data show custom --from FILE';
  if (!existsSync(source)) {
    if (!/[\\/]|\.\w+$/.test(source) || name.startsWith('anomllm/') || name.startsWith('vta/')) return;
    throw new ConfigError(
      `${source}: no such directory; name one that timeseer data prepare wrote, or a task`,
    );
  }
  if (statSync(source).isFile()) {
    throw new ConfigError(
      `${source}: is a file; name a task, or the directory that prepare wrote; ${ownFiles}`,
    );
  }
  if (existsSync(join(source, EXAMPLES_MANIFEST))) readExampleManifest(source); // says what is wrong with it
  throw new ConfigError(`${source}: is no data set that timeseer data prepare wrote; ${ownFiles}`);
}

/**
 * `n` examples, of one class after the other, drawn from the split that evaluation takes where there is one: test, else
 * validation, else training.
 *
 * @throws as the gallery
 */
export function chooseShown(gallery: Gallery, n: number, seed: number): ShownExample[] {
  const items: { split: Split; class: string; at: number }[] = [];
  let at = 0;
  for (const [split, { gold }] of gallery.examples()) {
    items.push({ split, class: labelOf(gold), at: at++ });
  }
  const split = [...SPLITS].reverse().find((name) => items.some((item) => item.split === name));
  const chosen = items.filter((item) => item.split === split);
  const names = [...new Set(chosen.map((item) => item.class))].sort();
  const queues = names.map((name) => {
    const items = chosen.filter((item) => item.class === name);
    return Array.from(new Random(seed, `show/${name}`).permutation(items.length), (i) => items[i]!);
  });
  const wanted = new Map<number, number>();
  for (let round = 0; wanted.size < Math.min(n, chosen.length); round++) {
    for (const queue of queues) {
      const item = queue[round];
      if (item !== undefined && wanted.size < n) wanted.set(item.at, wanted.size);
    }
  }
  const shown: ShownExample[] = [];
  const passed = new Map<Split, number>();
  let next = 0;
  for (const [part, example] of gallery.examples()) {
    const place = wanted.get(next++);
    const index = passed.get(part) ?? 0;
    passed.set(part, index + 1);
    if (place !== undefined) shown[place] = { split: part, index, example };
  }
  return shown;
}

function listing(origin: ExampleOrigin, shown: readonly ShownExample[]): string {
  const rows = shown.map(({ split, example }) => [
    example.id,
    split,
    `${lengthOf(example)} × ${example.channels.length}`,
    goldParts(example.gold),
  ]);
  const table = columns([['id', 'split', 'points', 'right answer'], ...rows]);
  return `${origin.title}\n${table}\nsplit: ${origin.split.statement}`;
}

/**
 * Runs the command: a page where `--out` is given, else a list.
 *
 * @throws ConfigError, DataError, EndpointError, WriteError
 */
export async function runShow(args: ShowArguments): Promise<void> {
  const { source, n, out, json } = args;
  checkWhole('n', n, 1, MOST);
  if (out !== undefined && existsSync(out)) {
    if (!statSync(out).isFile()) {
      throw new ConfigError(`--out ${out}: is a directory; name a file such as page.html`);
    }
    if (!/\.html?$/i.test(out)) {
      throw new ConfigError(
        `--out ${out}: is there and is no page, so it is kept; name a file such as page.html`,
      );
    }
  }
  checkSource(source);
  const note = new ReadingNote({ label: source, silent: json });
  try {
    const gallery = isExampleSet(source) ? openDirectory(source, args, note) : await openTask(args, note);
    const { origin } = gallery;
    checkFigure(origin.figure.preset);
    const shown = chooseShown(gallery, n, args.seed ?? 0);
    if (out !== undefined) {
      const { set = null, training = gallery.examples } = gallery;
      const redrawn = args.figure !== undefined;
      const describe = describer({ set, training, redrawn });
      writeFileAtomic(out, await examplesPage(origin, shown, { describe, redrawn }));
    }
    note.stop();
    if (json) {
      const examples = shown.map(({ split, example: { id, names, gold, recording, channels } }) => ({
        ...{ id, split, names, gold, recording },
        points: channels[0]!.length,
      }));
      printJson({ task: origin.task, out: out ?? null, examples });
    } else if (out !== undefined) {
      print(`${out}: ${counted(shown.length)} of ${origin.title}`);
    } else {
      const figures = shown.slice(0, 1).map(({ example }) => `${figuresText(origin, example.names)}\n`);
      print(
        `${listing(origin, shown)}\n${figures.join('')}plots, prompts and expert traces: add --out page.html`,
      );
    }
  } finally {
    note.stop();
  }
}

const OPTIONS = {
  n: number('Number of examples', { default: 6 }),
  out: text('Write an HTML page, e.g. page.html'),
  ...CHOICE_OPTIONS,
  json: flag('Print the examples as JSON'),
};

export const showCommand = command({
  command: 'show <source>',
  describe: 'Show examples with their gold answers, as text or as a page',
  positionals: { source: 'Task name, your own module, or a prepared data set' },
  options: OPTIONS,
  examples: [
    ['$0 data show ctu --from downloads --n 6 --out page.html', 'Six rendered examples'],
    ['$0 data show ./my-task.ts --out page.html', 'What a module of yours makes'],
    ['$0 data show data/emg --split train', 'The training split of a prepared data set'],
  ],
  handler: runShow,
});
