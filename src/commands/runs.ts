/** `timeseer runs`: lists runs, compares them, and prints the glossary of logged names. */
import { existsSync } from 'node:fs';
import { compareRuns, type RunComparison } from '../../eval/comparison.ts';
import { glossary } from '../../eval/glossary.ts';
import { ConfigError } from '../ground/errors.ts';
import { writeFileAtomic } from '../ground/files.ts';
import { change, duration, extent, mean, partsOf } from '../ground/numbers.ts';
import { columns, print, printJson, say } from '../ground/terminal.ts';
import type { Estimate, Json } from '../ground/types.ts';
import { isSignificant } from '../measures/bootstrap.ts';
import { type DamagedRun, listRuns, type RunFacts } from '../run/runs.ts';
import { tagOf } from '../train/glossary.ts';
import { command, flag, type Given, text } from './options.ts';

type RunsArguments = Given<typeof OPTIONS> & { readonly runs: readonly string[] };

const DEFAULT = 'runs';
const NONE = '–';

const inText = (value: Json): string => (typeof value === 'string' ? value : JSON.stringify(value));

const HEAD = 'run recipe data method state step reward greedy sampled time changed'.split(' ');

/** Maximum number of changed keys in a line of the list. */
const MOST_KEYS = 8;

const inMean = (value: number | null): string => value?.toFixed(3) ?? NONE;

function row({
  path,
  name,
  data,
  method,
  state,
  at,
  reward,
  greedy,
  sampled,
  seconds,
  changed,
}: RunFacts): string[] {
  const all = Object.entries(changed).map(([key, value]) => `${key}=${inText(value)}`);
  const more = all.length - MOST_KEYS;
  const keys = more > 1 ? [...all.slice(0, MOST_KEYS), `and ${more} more`] : all;
  return [
    ...[path, name, data, method ?? NONE, state],
    at === null ? NONE : `${at.stage} ${at.step}/${at.steps}`,
    ...[reward, greedy, sampled].map(inMean),
    seconds === 0 ? NONE : duration(seconds).replaceAll('\u202f', ' '),
    keys.join(' '),
  ];
}

const isDamaged = (run: RunFacts | DamagedRun): run is DamagedRun => run.problem !== null;

function listLines(all: readonly (RunFacts | DamagedRun)[]): string[] {
  const readable = all.filter((run) => !isDamaged(run));
  return [
    ...(readable.length === 0 ? [] : [columns([HEAD, ...readable.map(row)])]),
    ...all
      .filter(isDamaged)
      .map(({ path, problem }) => `not read: ${problem.startsWith(path) ? problem : `${path}: ${problem}`}`),
  ];
}

const BLOCKS = '▁▂▃▄▅▆▇█';
const CURVE_WIDTH = 40;

/** Draws a curve with blocks from `low` to `high`, each the mean of its share of the steps. */
export function sparkline(values: readonly number[], low: number, high: number): string {
  const blocks = partsOf(values, CURVE_WIDTH).map((part) => {
    const level = high > low ? (mean(part) - low) / (high - low) : 0;
    return BLOCKS[Math.min(BLOCKS.length - 1, Math.floor(level * BLOCKS.length))]!;
  });
  return blocks.join('');
}

function curveLines({ runs }: RunComparison): string[] {
  const rewards = runs.map(({ rl }) => rl.flatMap(({ reward }) => reward ?? []));
  const all = rewards.flat();
  if (all.length === 0) return [];
  const [low, high] = extent(all);
  return [
    '',
    `mean reward of the responses by step, from ${low.toFixed(3)} (▁) to ${high.toFixed(3)} (█):`,
    columns(
      rewards.map((values, i) => [
        `  ${runs[i]!.path}`,
        sparkline(values, low, high) || NONE,
        values.length === 0
          ? ''
          : `${values.length} steps, ${values[0]!.toFixed(3)} → ${values.at(-1)!.toFixed(3)}`,
      ]),
    ),
  ];
}

/** Formats a difference, "+0.012 [−0.003, +0.027]", with a star where the interval excludes 0. */
const difference = (estimate: Estimate): string =>
  `${change(estimate)}${isSignificant(estimate) ? ' *' : ''}`;

function comparisonLines(comparison: RunComparison): string[] {
  const { runs, keys, metrics, notes } = comparison;
  const paths = runs.map(({ path }) => path);
  const [first, ...rest] = paths;
  const head = ['metric', ...paths, ...rest.map((path) => `${path} − ${first}`)];
  const evaluated = runs.map(({ policy, series }) =>
    policy === null ? NONE : `${policy}, ${series} series`,
  );
  const metricRows = metrics.map(({ label, values, differences }) => [
    label,
    ...values.map((value) => value?.mean.toFixed(3) ?? NONE),
    ...differences.slice(1).map((value) => (value === null ? NONE : difference(value))),
  ]);
  return [
    keys.length === 0
      ? 'the recipes are the same'
      : columns([['key', ...paths], ...keys.map(({ key, values }) => [key, ...values.map(inText)])]),
    '',
    columns([head, ['evaluated', ...evaluated, ...rest.map(() => '')], ...metricRows]),
    ...notes,
    'Means over series. Differences are paired by series, with bootstrap 95 % intervals (*: excludes 0); they do not cover the spread between training seeds.',
    ...curveLines(comparison),
  ];
}

function glossaryLines(): string[] {
  return glossary().flatMap(({ title, names }, i) => [
    ...(i === 0 ? [] : ['']),
    `${title}:`,
    ...Object.entries(names).flatMap(([name, entry]) => {
      const tag = tagOf(entry);
      const curve = tag === null ? '' : `  [TensorBoard ${tag}${entry.trl === undefined ? '' : ', as TRL'}]`;
      return [`  ${name}${curve}`, `      ${entry.definition}`];
    }),
  ]);
}

async function compare({ runs, html, json }: RunsArguments): Promise<void> {
  const comparison = compareRuns(runs);
  if (html !== undefined) {
    const { runsPage } = await import('../../eval/comparison-page.ts');
    writeFileAtomic(html, runsPage(comparison));
  }
  if (json) {
    const { runs: compared, ...rest } = comparison;
    printJson({ runs: compared.map(({ path, policy, series }) => ({ path, policy, series })), ...rest });
    return;
  }
  print([...comparisonLines(comparison), ...(html === undefined ? [] : ['', html])].join('\n'));
}

const OPTIONS = {
  compare: flag(
    'Compare runs with the first: recipe keys, metrics with paired 95 % intervals, learning curves',
  ),
  html: text('With --compare: also write a page, with learning curves in shared panels'),
  glossary: flag('Define every name in metrics.jsonl, TensorBoard and summary.json'),
  json: flag('Print the result as JSON'),
};

export const runs = command({
  command: 'runs [runs..]',
  positionals: {
    runs: {
      type: 'string',
      array: true,
      default: [] as string[],
      defaultDescription: DEFAULT,
      describe: 'Directories to search for runs; with --compare: the runs',
    },
  },
  options: OPTIONS,
  check: ({ compare: comparing, html, glossary: explained }) => {
    if (html !== undefined && !comparing) {
      throw new ConfigError('--html writes a comparison: add --compare and name the runs');
    }
    if (comparing && explained) throw new ConfigError('--glossary and --compare: give one of them');
  },
  examples: [
    ['$0 runs', 'All runs in ./runs'],
    ['$0 runs --compare runs/a runs/b --html compare.html', 'Two runs side by side'],
    ['$0 runs --json experiments | jq ".[] | select(.greedy > 0.7) | .path"', 'JSON for other programs'],
    ['$0 runs --glossary', 'Logged names with their definitions and TRL names'],
  ],
  handler: async (given: RunsArguments) => {
    if (given.glossary) {
      if (given.json) printJson(glossary());
      else print(glossaryLines().join('\n'));
      return;
    }
    if (given.compare) return compare(given);
    const directories = given.runs.length > 0 ? given.runs : existsSync(DEFAULT) ? [DEFAULT] : [];
    const all = listRuns(directories);
    if (given.json) printJson(all);
    else if (all.length > 0) print(listLines(all).join('\n'));
    else say(`no runs in ${given.runs.length > 0 ? given.runs.join(', ') : DEFAULT}`);
  },
});
