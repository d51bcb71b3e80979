/** `timeseer score`: metrics of predictions from any program against gold answers. */
import { ConfigError } from '../ground/errors.ts';
import { checkWhole } from '../ground/json-record.ts';
import { print, printJson, say } from '../ground/terminal.ts';
import { choice, command, flag, type Given, number, required, text } from './options.ts';

type ScoreArguments = Given<typeof OPTIONS>;

/** Parses class names separated by commas. @throws ConfigError for an empty or repeated name */
export function classList(text: string | undefined): string[] | undefined {
  if (text === undefined) return undefined;
  const names = text.split(',').map((name) => name.trim());
  if (names.includes('') || new Set(names).size < names.length) {
    throw new ConfigError(
      `--classes: expected different names separated by commas, e.g. walk,run, got ${text}`,
    );
  }
  return names;
}

async function runScore({
  gold,
  pred,
  classes,
  answers,
  window,
  perExample,
  json,
}: ScoreArguments): Promise<void> {
  checkWhole('window', window, 0, 100_000);
  const allowed = classList(classes);
  const { readPredictions } = await import('../../eval/predictions.ts');
  const { detailLines, exampleScore, scored } = await import('../../eval/scoring.ts');
  const { metricsTable } = await import('../../eval/metrics-table.ts');
  const read = readPredictions({
    gold,
    pred,
    answers,
    window,
    ...(allowed === undefined ? {} : { classes: allowed }),
  });
  const result = scored(read);
  if (perExample) for (const record of read.records) printJson(exampleScore(record));
  if (json) {
    printJson(result);
    return;
  }
  const { n, answered, missing, missingIds, otherLabels, failed } = result;
  const notes = [
    `${n} gold answers, ${answered} with a prediction`,
    ...(missing > 0
      ? [
          `${missing} without a prediction count as unparsable: ${missingIds.join(', ')}${missing > missingIds.length ? ', …' : ''}`,
        ]
      : []),
    ...(otherLabels > 0 ? [`${otherLabels} predictions name an unknown class`] : []),
    ...(failed > 0 ? [`${failed} failed responses are left out`] : []),
  ];
  const table = `${read.scoresAlone ? '' : `${metricsTable(result, {})}\n`}${detailLines(result).join('\n')}\n${notes.join('\n')}`;
  // Standard output holds the JSON lines of the examples only; the table goes to standard error.
  if (perExample) say(table);
  else print(table);
}

const OPTIONS = {
  gold: required(
    'Gold answers: JSON lines {"id", "length", "intervals": [[start, end], …], "class"}, a split of a prepared data set, or records of eval',
  ),
  pred: required(
    'Predictions: JSON lines {"id", "intervals", "class"} or {"id", "text"}; optional: "scores", "probabilities", "sample"',
  ),
  classes: text(
    "Allowed classes, separated by commas. Default: those of the gold answers; for anomalies AnomSeer's",
  ),
  answers: choice(
    ['lenient', 'strict'],
    'Reversed intervals, and those outside of the series: lenient leaves them out beside others; strict cannot read the list then',
    { default: 'lenient' },
  ),
  window: number('Maximum window of VUS, in points (for "scores")', { default: 100 }),
  'per-example': flag('Print one JSON line for each prediction: id, total, parts, metrics'),
  json: flag('Print all metrics as one JSON object, after the lines of --per-example'),
};

export const score = command({
  command: 'score',
  options: OPTIONS,
  examples: [
    ['$0 score --gold gold.jsonl --pred mine.jsonl', 'A table of metrics'],
    [
      '$0 score --gold gold.jsonl --pred mine.jsonl --json | jq .overall.affiliation_f1',
      'One number for a program',
    ],
    [
      '$0 score --gold data/har/test.jsonl --pred answers.jsonl',
      'Predictions for the test split of a prepared data set',
    ],
    [
      '$0 score --gold gold.jsonl --pred mine.jsonl --per-example | jq -c "[.id, .total]"',
      'The reward of each prediction',
    ],
  ],
  epilogue:
    'A gold answer without a prediction counts as an unparsable answer. Intervals are half-open, in points from 0. Number several predictions for one id with "sample": 0, 1, …; pass@k and the consensus are then reported too.',
  handler: runScore,
});
