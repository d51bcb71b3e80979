/** `timeseer runs`: lists runs, compares them, and prints the glossary of the names in their files. */
import { existsSync } from 'node:fs';
import type { CommandModule } from 'yargs';
import { type Comparison, compareRuns } from '../../eval/comparison.ts';
import { glossary } from '../../eval/glossary.ts';
import { ConfigError } from '../ground/errors.ts';
import { writeFileAtomic } from '../ground/files.ts';
import { print, printJson, say } from '../ground/terminal.ts';
import type { Estimate, Json } from '../ground/types.ts';
import { duration } from '../html/numbers.ts';
import { type DamagedRun, listRuns, type RunFacts } from '../run/runs.ts';
import { tagOf } from '../train/glossary.ts';

interface RunsArguments {
  readonly runs: readonly string[];
  readonly compare: boolean;
  readonly html: string | undefined;
  readonly glossary: boolean;
  readonly json: boolean;
}

const DEFAULT = 'runs';
const NONE = '–';

const inText = (value: Json): string => (typeof value === 'string' ? value : JSON.stringify(value));

/** Rows as columns, each as wide as its widest cell; the last one ends the line. */
function table(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0]!.map((_, c) => Math.max(...rows.map((row) => row[c]!.length)));
  return rows.map((row) =>
    row
      .map((cell, c) => (c === row.length - 1 ? cell : cell.padEnd(widths[c]!)))
      .join('  ')
      .trimEnd(),
  );
}

const HEAD = [
  'run',
  'recipe',
  'data',
  'method',
  'state',
  'step',
  'reward',
  'greedy',
  'sampled',
  'time',
  'changed',
];

/** Keys that a line of the list names. */
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

const isDamaged = (one: RunFacts | DamagedRun): one is DamagedRun => one.problem !== null;

function listLines(found: readonly (RunFacts | DamagedRun)[]): string[] {
  const whole = found.filter((one) => !isDamaged(one));
  return [
    ...(whole.length === 0 ? [] : table([HEAD, ...whole.map(row)])),
    ...found
      .filter(isDamaged)
      .map(({ path, problem }) => `not read: ${problem.startsWith(path) ? problem : `${path}: ${problem}`}`),
  ];
}

const BLOCKS = '▁▂▃▄▅▆▇█';
const CURVE_WIDTH = 40;

/** A curve as blocks from `low` to `high`, each the mean of its share of the steps. */
export function sparkline(values: readonly number[], low: number, high: number): string {
  const width = Math.min(CURVE_WIDTH, values.length);
  return Array.from({ length: width }, (_, b) => {
    const part = values.slice(
      Math.floor((b * values.length) / width),
      Math.floor(((b + 1) * values.length) / width),
    );
    const mean = part.reduce((sum, value) => sum + value, 0) / part.length;
    const level = high > low ? (mean - low) / (high - low) : 0;
    return BLOCKS[Math.min(BLOCKS.length - 1, Math.floor(level * BLOCKS.length))]!;
  }).join('');
}

function curveLines({ runs }: Comparison): string[] {
  const rewards = runs.map(({ rl }) => rl.flatMap(({ reward }) => reward ?? []));
  const all = rewards.flat();
  if (all.length === 0) return [];
  const [low, high] = [all, all].map((list, i) =>
    list.reduce((best, value) => (i === 0 ? Math.min(best, value) : Math.max(best, value))),
  ) as [number, number];
  return [
    '',
    `mean reward of the responses, from ${low.toFixed(3)} (▁) to ${high.toFixed(3)} (█):`,
    ...table(
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

/** "+0.012 [−0.003, +0.027]"; a star where the interval leaves out 0. */
function difference({ mean, ci95 }: Estimate): string {
  const signed = (value: number): string => `${value < 0 ? '−' : '+'}${Math.abs(value).toFixed(3)}`;
  const apart = ci95[0] > 0 || ci95[1] < 0;
  return `${signed(mean)} [${ci95.map(signed).join(', ')}]${apart ? ' *' : ''}`;
}

function comparisonLines(comparison: Comparison): string[] {
  const { runs, keys, metrics, notes } = comparison;
  const paths = runs.map(({ path }) => path);
  const [first, ...others] = paths;
  const keyLines =
    keys.length === 0
      ? ['the recipes are the same']
      : table([['key', ...paths], ...keys.map(({ key, values }) => [key, ...values.map(inText)])]);
  const head = ['metric', ...paths, ...others.map((path) => `${path} − ${first}`)];
  const metricLines = metrics.map(({ label, values, differences }) => [
    label,
    ...values.map((value) => value?.mean.toFixed(3) ?? NONE),
    ...differences.slice(1).map((value) => (value === null ? NONE : difference(value))),
  ]);
  const evaluated = runs.map(({ policy, series }) =>
    policy === null ? NONE : `${policy}, ${series} series`,
  );
  return [
    ...keyLines,
    '',
    ...table([head, ['evaluated', ...evaluated, ...others.map(() => '')], ...metricLines]),
    ...notes,
    'means over series; differences are paired by series, with bootstrap 95 % intervals (*: leaves out 0), and say nothing of another seed',
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
    const { comparisonPage } = await import('../../eval/comparison-page.ts');
    writeFileAtomic(html, comparisonPage(comparison));
  }
  if (json) {
    const { runs: own, ...rest } = comparison;
    printJson({ runs: own.map(({ path, policy, series }) => ({ path, policy, series })), ...rest });
    return;
  }
  print([...comparisonLines(comparison), ...(html === undefined ? [] : ['', html])].join('\n'));
}

export const runs: CommandModule<object, RunsArguments> = {
  command: 'runs [runs..]',
  describe: 'List runs and what they have come to, or compare some',
  builder: (cli) =>
    cli
      .positional('runs', {
        type: 'string',
        array: true,
        default: [] as string[],
        defaultDescription: DEFAULT,
        describe: 'Directories with runs in them; with --compare the runs themselves',
      })
      .option('compare', {
        type: 'boolean',
        default: false,
        describe: 'Compare runs with the first: keys, metrics with paired 95 % intervals, learning curves',
      })
      .option('html', {
        type: 'string',
        requiresArg: true,
        describe: 'Of --compare: also write a page with the learning curves over each other',
      })
      .option('glossary', {
        type: 'boolean',
        default: false,
        describe: 'Print the meaning of every name in metrics.jsonl, TensorBoard and summary.json',
      })
      .option('json', { type: 'boolean', default: false, describe: 'Print the result as JSON' })
      .check(({ compare: comparing, html, glossary: explained }) => {
        if (html !== undefined && !comparing) {
          throw new ConfigError('--html writes a comparison: add --compare and name the runs');
        }
        if (comparing && explained) throw new ConfigError('--glossary and --compare: give one of them');
        return true;
      })
      .example('$0 runs', 'The runs below ./runs')
      .example('$0 runs --compare runs/a runs/b --html compare.html', 'Two runs side by side')
      .example('$0 runs --json experiments | jq ".[] | select(.greedy > 0.7) | .path"', 'For programs')
      .example('$0 runs --glossary', 'What the logged names mean, and what TRL calls them') as never,
  handler: async (given) => {
    if (given.glossary) {
      if (given.json) printJson(glossary());
      else print(glossaryLines().join('\n'));
      return;
    }
    if (given.compare) return compare(given);
    const directories = given.runs.length > 0 ? given.runs : existsSync(DEFAULT) ? [DEFAULT] : [];
    const found = listRuns(directories);
    if (given.json) printJson(found);
    else if (found.length > 0) print(listLines(found).join('\n'));
    else say(`no runs below ${given.runs.length > 0 ? given.runs.join(', ') : DEFAULT}`);
  },
};
