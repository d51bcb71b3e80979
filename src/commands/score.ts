/** `timeseer score`: metrics of anybody's predictions against gold answers. */
import type { CommandModule } from 'yargs';
import { ConfigError } from '../ground/errors.ts';
import { print, printJson, say } from '../ground/terminal.ts';
import type { Reading } from '../tasks/response.ts';

export interface ScoreArguments {
  readonly gold: string;
  readonly pred: string;
  readonly classes: string | undefined;
  readonly answers: Reading;
  readonly window: number;
  readonly 'per-example': boolean;
  readonly json: boolean;
}

/** Names between commas, each once. @throws ConfigError */
export function classList(text: string | undefined): string[] | undefined {
  if (text === undefined) return undefined;
  const names = text.split(',').map((name) => name.trim());
  if (names.includes('') || new Set(names).size < names.length) {
    throw new ConfigError(
      `--classes: got ${text}, expected different names between commas, such as walk,run`,
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
  'per-example': perExample,
  json,
}: ScoreArguments): Promise<void> {
  if (!Number.isInteger(window) || window < 0 || window > 100_000) {
    throw new ConfigError(`--window: got ${window}, expected an integer from 0 to 100000`);
  }
  const own = classList(classes);
  const { readPredictions } = await import('../../eval/predictions.ts');
  const { detailLines, exampleScore, scored } = await import('../../eval/scoring.ts');
  const { metricsTable } = await import('../../eval/metrics-table.ts');
  const read = readPredictions({
    gold,
    pred,
    answers,
    window,
    ...(own === undefined ? {} : { classes: own }),
  });
  const found = scored(read);
  if (perExample) for (const record of read.records) printJson(exampleScore(record));
  if (json) {
    printJson(found);
    return;
  }
  const { n, answered, missing, missingIds, otherLabels, failed } = found;
  const notes = [
    `${n} gold answers, ${answered} with a prediction`,
    ...(missing > 0
      ? [
          `${missing} without one count as unreadable: ${missingIds.join(', ')}${missing > missingIds.length ? ', …' : ''}`,
        ]
      : []),
    ...(otherLabels > 0 ? [`${otherLabels} predictions name a class that is none of the list`] : []),
    ...(failed > 0 ? [`${failed} responses failed and count nowhere`] : []),
  ];
  const table = `${read.scoresAlone ? '' : `${metricsTable(found, {})}\n`}${detailLines(found).join('\n')}\n${notes.join('\n')}`;
  // The lines of the examples are for a program, which is not to find a table among them.
  if (perExample) say(table);
  else print(table);
}

export const score: CommandModule<object, ScoreArguments> = {
  command: 'score',
  describe: 'Score predictions that were made elsewhere against gold answers',
  builder: (cli) =>
    cli
      .option('gold', {
        type: 'string',
        demandOption: true,
        requiresArg: true,
        describe:
          'JSON lines {"id", "length", "intervals": [[start, end], …], "class"}; or a split of a data set, or records',
      })
      .option('pred', {
        type: 'string',
        demandOption: true,
        requiresArg: true,
        describe:
          'JSON lines {"id", "intervals", "class"} or {"id", "text"}; also "scores", "probabilities", "sample"',
      })
      .option('classes', {
        type: 'string',
        requiresArg: true,
        describe:
          "Classes that answers may name, between commas; default: those of the gold answers, of anomalies AnomSeer's",
      })
      .option('answers', {
        choices: ['lenient', 'strict'] as const,
        default: 'lenient' as const,
        requiresArg: true,
        describe:
          'Whether intervals that are reversed or leave the series are mended, or make an answer unreadable',
      })
      .option('window', {
        type: 'number',
        default: 100,
        requiresArg: true,
        describe: 'Largest window of VUS of scores, in points',
      })
      .option('per-example', {
        type: 'boolean',
        default: false,
        describe: 'Print one JSON line for each prediction: id, total, parts, metrics',
      })
      .option('json', {
        type: 'boolean',
        default: false,
        describe: 'Print all metrics as one JSON object, after those lines',
      })
      .example('$0 score --gold gold.jsonl --pred mine.jsonl', 'A table')
      .example(
        '$0 score --gold gold.jsonl --pred mine.jsonl --json | jq .overall.affiliation_f1',
        'For a program',
      )
      .example(
        '$0 score --gold data/har/test.jsonl --pred answers.jsonl',
        'Answers to the test split of a data set',
      )
      .example(
        '$0 score --gold gold.jsonl --pred mine.jsonl --per-example | jq -c "[.id, .total]"',
        'What each prediction earns',
      )
      .epilogue(
        'Gold answers without a prediction count as unreadable answers. Intervals are half-open and count points from 0; their length costs nothing. Several predictions of an id have "sample": 0, 1, …; then pass@k and their consensus are told too.',
      ),
  handler: runScore,
};
