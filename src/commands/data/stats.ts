/** `timeseer data stats DIR`: what a data set holds, by split and class. */
import { ExampleSet } from '../../../datasets/example-set.ts';
import {
  blindLines,
  blindScores,
  type ClassStats,
  QUANTILES,
  setStats,
} from '../../../datasets/statistics.ts';
import { formatValue } from '../../ground/progress.ts';
import { columns, print, printJson } from '../../ground/terminal.ts';
import { command, flag } from '../options.ts';

interface StatsArguments {
  readonly directory: string;
  readonly json: boolean;
}

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
async function runStats({ directory, json }: StatsArguments): Promise<void> {
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
  positionals: { directory: 'Prepared data set' },
  options: { json: flag('Print the numbers as JSON') },
  examples: [['$0 data stats data/ctu', 'What a prepared data set holds']],
  handler: runStats,
});
