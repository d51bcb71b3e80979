/** `timeseer compare`: two sets of answers to the same series. */
import type { CommandModule } from 'yargs';
import type { SeedComparison } from '../../eval/paired-comparison.ts';
import { ConfigError } from '../ground/errors.ts';
import { columns, print, printJson } from '../ground/terminal.ts';
import type { Reading } from '../tasks/response.ts';
import { classList } from './score.ts';

export interface CompareArguments {
  readonly a: string;
  readonly b: string;
  readonly gold: string | undefined;
  readonly classes: string | undefined;
  readonly answers: Reading;
  readonly metric: string | undefined;
  readonly data: string | undefined;
  readonly split: 'train' | 'validation' | 'test';
  readonly html: string | undefined;
  readonly json: boolean;
}

/** Flips that the terminal lists. */
const LISTED = 10;

async function runCompare(given: CompareArguments): Promise<void> {
  const { a, b, gold, metric, data, split, html, json, answers } = given;
  if (a === b) throw new ConfigError(`${a} is named twice; name two sets of answers`);
  const { compareAnswers, compareSeeds, openAnswers, openPredictions } = await import(
    '../../eval/paired-comparison.ts'
  );
  const own = classList(given.classes);
  const open = (path: string) =>
    gold === undefined
      ? openAnswers(path)
      : openPredictions({ gold, pred: path, answers, ...(own === undefined ? {} : { classes: own }) });
  const [runsA, runsB] = [a, b].map((side) => side.split(',').filter((one) => one !== '')) as [
    string[],
    string[],
  ];
  if (runsA.length > 1 || runsB.length > 1) {
    if (html !== undefined || metric !== undefined) {
      throw new ConfigError(
        `--${html !== undefined ? 'html' : 'metric'}: flipped series are those of two runs; give one run a side, or leave it out`,
      );
    }
    await printSeeds(compareSeeds(runsA.map(open), runsB.map(open)), json);
    return;
  }
  const [first, second] = [open(a), open(b)];
  const found = compareAnswers(first, second, metric);
  if (html !== undefined) {
    const { openExamples } = await import('../../datasets/source.ts');
    const { pairedComparisonPage } = await import('../../eval/paired-comparison-page.ts');
    const { writeFileAtomic } = await import('../ground/files.ts');
    const recorded = first.data ?? second.data;
    const address =
      data === undefined ? recorded : { ...(recorded ?? { seed: 42, length: 1000 }), name: data, split };
    writeFileAtomic(html, await pairedComparisonPage(found, address === null ? null : openExamples(address)));
  }
  if (json) {
    const flips = found.flips.map(({ answers: _, ...flip }) => flip);
    printJson({ ...found, flips, ...(html === undefined ? {} : { html }) });
    return;
  }
  const { pText } = await import('../../eval/paired-comparison-page.ts');
  const { change, fixed } = await import('../html/numbers.ts');
  const { series, onlyA, onlyB, metrics, byType, flips } = found;
  const table = columns([
    ['metric', 'A', 'B', 'B − A', 'p', 'test', 'won', 'lost', 'same'],
    ...metrics.map(({ label, a: before, b: after, difference, p, test, won, lost, same }) => [
      ...[label, fixed(before), fixed(after), change(difference), pText(p), test],
      ...[won, lost, same].map(String),
    ]),
  ]);
  const types = columns([
    ['type', 'A', 'B', 'B − A', 'series'],
    ...Object.entries(byType).map(([label, { a: before, b: after, difference }]) => [
      ...[label, fixed(before), fixed(after), change(difference), String(difference.n)],
    ]),
  ]);
  const lines = [
    `A: ${found.names[0]}\nB: ${found.names[1]}`,
    `${series} series that both answer${onlyA + onlyB === 0 ? '' : `; ${onlyA} only A, ${onlyB} only B, left out`}\n`,
    `${table}\n`,
    `${metrics.find((one) => one.metric === found.metric)?.label ?? found.metric}\n${types}`,
    ...(flips.length === 0
      ? ['\nno series has another value']
      : [
          `\n${flips.length} series differ${flips.length > LISTED ? `; the ${LISTED} largest differences:` : ':'}`,
          columns(
            flips
              .slice(0, LISTED)
              .map((flip) => [flip.outcome, flip.id, flip.label, `${fixed(flip.a)} → ${fixed(flip.b)}`]),
          ),
        ]),
    ...(html === undefined ? [] : [html]),
  ];
  print(lines.join('\n'));
}

/** Runs of several seeds: intervals over seeds and series. */
async function printSeeds(found: SeedComparison, json: boolean): Promise<void> {
  if (json) {
    printJson(found);
    return;
  }
  const { pText } = await import('../../eval/paired-comparison-page.ts');
  const { change, fixed, interval } = await import('../html/numbers.ts');
  const { names, series, metrics } = found;
  const table = columns([
    ['metric', 'A', 'B', 'B − A', 'p'],
    ...metrics.map(({ label, a, b, difference, p }) => [
      ...[
        label,
        ...[a, b].map((side) => `${fixed(side.mean)} ${interval(side)}`),
        change(difference),
        pText(p),
      ],
    ]),
  ]);
  print(
    `A: ${names[0].join(', ')}\nB: ${names[1].join(', ')}\n${series} series that all runs answer; 95 % intervals over seeds and series\n\n${table}`,
  );
}

export const compare: CommandModule<object, CompareArguments> = {
  command: 'compare <a> <b>',
  describe:
    'Compare two sets of answers to the same series: what was won and lost, and whether it may be chance',
  builder: (cli) =>
    cli
      .positional('a', {
        type: 'string',
        demandOption: true,
        describe:
          'Directory of an evaluation or a run, or a file of records; with --gold, a file of predictions. Several between commas are runs of different seeds',
      })
      .positional('b', {
        type: 'string',
        demandOption: true,
        describe: 'The other one; differences are B − A',
      })
      .option('gold', {
        type: 'string',
        requiresArg: true,
        describe: 'Gold answers: then A and B are files of predictions, as `timeseer score` reads them',
      })
      .option('classes', {
        type: 'string',
        requiresArg: true,
        describe: 'With --gold, the classes that answers may name, between commas',
      })
      .option('answers', {
        choices: ['lenient', 'strict'] as const,
        default: 'lenient' as const,
        requiresArg: true,
        describe: 'With --gold, how answers are read',
      })
      .option('metric', {
        type: 'string',
        requiresArg: true,
        describe:
          'What types and flipped series are judged by; default: the first main metric, class_accuracy, say',
      })
      .option('html', { type: 'string', requiresArg: true, describe: 'Write a page with the flipped series' })
      .option('data', {
        type: 'string',
        requiresArg: true,
        describe: 'With --html, the data set for pictures; default: that of the evaluation',
      })
      .option('split', {
        choices: ['train', 'validation', 'test'] as const,
        default: 'test' as const,
        requiresArg: true,
        describe: 'With --data, its split',
      })
      .option('json', {
        type: 'boolean',
        default: false,
        describe: 'Print the comparison as one JSON object',
      })
      .example('$0 compare evaluations/before evaluations/after', 'What training changed')
      .example(
        '$0 compare evaluations/a evaluations/b --html flips.html',
        'With pictures of the series that flipped',
      )
      .example(
        '$0 compare one.jsonl other.jsonl --gold gold.jsonl --json | jq ".metrics[0].p"',
        'Predictions of others',
      )
      .epilogue(
        'Paired by series: bootstrap 95 % intervals; p by McNemar’s exact test where every value is 0 or 1, else by a permutation test. Several answers to a series are averaged first.',
      ),
  handler: runCompare,
};
