/** `timeseer data validate DIR` and `timeseer data stats DIR`: checks every example of a data set; counts and quantiles. */
import { performance } from 'node:perf_hooks';
import { ExampleSet } from '../../../datasets/example-set.ts';
import {
  blindLines,
  blindScores,
  type ClassStats,
  QUANTILES,
  setStats,
} from '../../../datasets/statistics.ts';
import { COMPARED, type Verdict, validateSet } from '../../../datasets/validate-set.ts';
import { plural } from '../../ground/numbers.ts';
import { formatValue, withProgress } from '../../ground/progress.ts';
import { columns, print, printJson } from '../../ground/terminal.ts';
import { command, flag, type Given } from '../options.ts';

type ValidateArguments = Given<typeof OPTIONS> & { readonly directory: string };

/** Broken rows that are printed; JSON has all. */
const SHOWN = 50;
function text(verdict: Verdict, seconds: number): string {
  const { directory, rows, drawn, graded, compared, broken, remarks } = verdict;
  const head = `${directory}: ${plural(rows, 'row')} read, ${drawn} drawn, ${graded} graded, ${plural(compared, 'figure')} compared in ${seconds.toFixed(1)} s`;
  const lines = broken.slice(0, SHOWN).map(({ file, line, id, problem }) => {
    const place = line === null ? file : `${file}:${line}`;
    return problem.includes('.jsonl:')
      ? `  ${problem}`
      : `  ${place}: ${id === null ? '' : `${id}: `}${problem}`;
  });
  const more = broken.length > SHOWN ? [`  and ${broken.length - SHOWN} more (--json lists all)`] : [];
  const summary = broken.length === 0 ? `${head}; no broken row` : `${head}; ${broken.length} broken:`;
  return [summary, ...lines, ...more, ...remarks.map((remark) => `note: ${remark}`)].join('\n');
}

/** Runs the command; exit code 1 where a row is broken. @throws as `validateSet` */
export async function runValidate(args: ValidateArguments): Promise<void> {
  const started = performance.now();
  const set = new ExampleSet(args.directory);
  const total = set.splits.reduce((sum, split) => sum + set.count(split), 0);
  const options = { label: 'validate', total, unit: 'rows', silent: args.json };
  const verdict = await withProgress(options, (update) =>
    validateSet(args.directory, {
      render: args.render,
      all: args.all,
      onProgress: (rows, broken) => update(rows, broken === 0 ? {} : { broken }),
    }),
  );
  const seconds = (performance.now() - started) / 1000;
  if (args.json) printJson({ ...verdict, seconds });
  else print(text(verdict, seconds));
  if (verdict.broken.length > 0) process.exitCode = 1;
}

const DIRECTORY = { directory: 'Prepared data set' };

const OPTIONS = {
  render: flag('Draw every example; --no-render: only read and grade them', true),
  all: flag(`Compare the pixels of every figure; default: of about ${COMPARED}`),
  json: flag('Print the result as JSON, without progress'),
};

export const validateCommand = command({
  command: 'validate <directory>',
  describe: 'Check every example of a data set, with its figure, prompt and traces; list broken rows',
  positionals: DIRECTORY,
  options: OPTIONS,
  examples: [['$0 data validate data/ctu', 'Exit code 1 where a row is broken']],
  handler: runValidate,
});

const percent = (share: number): string => `${formatValue(100 * share)} %`;

function table(list: readonly ClassStats[]): string {
  const anomalous = list.some((row) => row.anomalous !== null);
  const names = ['least', '5 %', 'median', '95 %', 'most'];
  const head = [
    'split',
    'class',
    'count',
    'points',
    'missing',
    ...(anomalous ? ['anomalous'] : []),
    ...names,
  ];
  const rows = list.map(({ split, class: name, count, length, missing, quantiles, anomalous: inside }) => {
    const [shortest, mean, longest] = length;
    const points =
      shortest === longest ? String(shortest) : `${shortest}–${longest}, mean ${formatValue(mean)}`;
    return [
      ...[split, name, String(count), points, percent(missing)],
      ...(anomalous ? [percent(inside ?? 0)] : []),
      ...quantiles.map(formatValue),
    ];
  });
  return columns([head, ...rows]);
}

/** Runs the command. @throws as `setStats` */
async function runStats({
  directory,
  json,
}: {
  readonly directory: string;
  readonly json: boolean;
}): Promise<void> {
  const set = new ExampleSet(directory);
  const list = setStats(set);
  const { task, split, materials } = set.manifest;
  const blind = blindScores(set.manifest);
  const lines = blindLines(set.manifest);
  const none = `blind expert: not scored; ${materials?.notes[0] ?? 'timeseer data prepare scores it with its traces'}`;
  if (json) {
    printJson({ directory, task, split: split.statement, quantiles: QUANTILES, stats: list, blind });
  } else {
    print([table(list), ...(lines.length === 0 ? [none] : lines), `split: ${split.statement}`].join('\n'));
  }
}

export const statsCommand = command({
  command: 'stats <directory>',
  describe: 'Print counts, lengths, missing points and value quantiles by split and class',
  positionals: DIRECTORY,
  options: { json: flag('Print the numbers as JSON') },
  examples: [['$0 data stats data/ctu', 'What a prepared data set holds']],
  handler: runStats,
});
