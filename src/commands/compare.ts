/** `timeseer compare`: two sets of answers to the same series. */
import type { Difference, PairedComparison, SeedComparison } from '../../eval/comparison.ts';
import { ConfigError } from '../ground/errors.ts';
import { change, fixed, interval, pText } from '../ground/numbers.ts';
import { columns, print, printJson } from '../ground/terminal.ts';
import { choice, command, flag, type Given, text } from './options.ts';
import { classList } from './score.ts';

type CompareArguments = Given<typeof OPTIONS> & { readonly a: string; readonly b: string };

/** Differing series that the terminal lists. */
const LISTED = 10;

async function runCompare(given: CompareArguments): Promise<void> {
  const { a, b, gold, metric, data, split, html, json, answers } = given;
  if (a === b) throw new ConfigError(`${a} is named twice; name two sets of answers`);
  const { compareAnswers, compareSeeds, openAnswers, openPredictions, seriesText } = await import(
    '../../eval/comparison.ts'
  );
  const classes = classList(given.classes);
  const open = (path: string) =>
    gold === undefined
      ? openAnswers(path)
      : openPredictions({ gold, pred: path, answers, ...(classes === undefined ? {} : { classes }) });
  const [runsA, runsB] = [a, b].map((side) => side.split(',').filter((path) => path !== '')) as [
    string[],
    string[],
  ];
  if (runsA.length > 1 || runsB.length > 1) {
    if (html !== undefined || metric !== undefined) {
      throw new ConfigError(
        `--${html !== undefined ? 'html' : 'metric'}: works on one run a side; name one run for A and one for B, or leave it out`,
      );
    }
    const comparison = compareSeeds(runsA.map(open), runsB.map(open));
    if (json) printJson(comparison);
    else print(seedLines(comparison, seriesText(comparison)).join('\n'));
    return;
  }
  const [first, second] = [open(a), open(b)];
  const comparison = compareAnswers(first, second, metric);
  if (html !== undefined) {
    const { openExamples } = await import('../../datasets/source.ts');
    const { answersPage } = await import('../../eval/comparison-page.ts');
    const { writeFileAtomic } = await import('../ground/files.ts');
    const recorded = first.data ?? second.data;
    const address =
      data === undefined ? recorded : { ...(recorded ?? { seed: 42, length: 1000 }), name: data, split };
    writeFileAtomic(html, await answersPage(comparison, address === null ? null : openExamples(address)));
  }
  if (json) {
    const flips = comparison.flips.map(({ answers: _, ...flip }) => flip);
    printJson({ ...comparison, flips, ...(html === undefined ? {} : { html }) });
    return;
  }
  const lines = answerLines(comparison, seriesText(comparison));
  print([...lines, ...(html === undefined ? [] : [html])].join('\n'));
}

const numbers = ({ a, b, difference }: Difference): string[] => [fixed(a), fixed(b), change(difference)];

function answerLines(comparison: PairedComparison, series: string): string[] {
  const { names, onlyA, onlyB, metrics, byType, flips } = comparison;
  const { label = comparison.metric } = metrics.find(({ metric }) => metric === comparison.metric) ?? {};
  const leftOut = onlyA + onlyB === 0 ? '' : `; left out: ${onlyA} in A only, ${onlyB} in B only`;
  const listed = flips.length > LISTED ? `; the ${LISTED} largest differences:` : ':';
  return [
    `A: ${names[0]}`,
    `B: ${names[1]}`,
    `${series}${leftOut}`,
    '',
    columns([
      ['metric', 'A', 'B', 'B − A', 'p', 'test', 'won', 'lost', 'same'],
      ...metrics.map((row) => [
        ...[row.label, ...numbers(row), pText(row.p), row.test],
        ...[row.won, row.lost, row.same].map(String),
      ]),
    ]),
    '',
    label,
    columns([
      ['type', 'A', 'B', 'B − A', 'series'],
      ...Object.entries(byType).map(([type, row]) => [type, ...numbers(row), String(row.difference.n)]),
    ]),
    '',
    ...(flips.length === 0
      ? ['no series differs']
      : [
          `${flips.length} series differ${listed}`,
          columns(
            flips
              .slice(0, LISTED)
              .map((flip) => [flip.outcome, flip.id, flip.label, `${fixed(flip.a)} → ${fixed(flip.b)}`]),
          ),
        ]),
  ];
}

function seedLines({ names, metrics }: SeedComparison, series: string): string[] {
  return [
    `A: ${names[0].join(', ')}`,
    `B: ${names[1].join(', ')}`,
    `${series}; 95 % intervals over seeds and series`,
    '',
    columns([
      ['metric', 'A', 'B', 'B − A', 'p'],
      ...metrics.map(({ label, a, b, difference, p }) => [
        ...[label, ...[a, b].map((side) => `${fixed(side.mean)} ${interval(side)}`)],
        ...[change(difference), pText(p)],
      ]),
    ]),
  ];
}

const OPTIONS = {
  gold: text('File of gold answers; A and B are then files of predictions, as for `timeseer score`'),
  classes: text('With --gold: classes that answers may name, separated by commas'),
  answers: choice(['lenient', 'strict'], 'With --gold: how strictly answers are parsed', {
    default: 'lenient',
  }),
  metric: text('Metric for the tables by type and by series, e.g. class_accuracy', {
    defaultDescription: 'first main metric',
  }),
  html: text('Write a page with the series that differ'),
  data: text('With --html: data set to draw the series from', {
    defaultDescription: 'that of the evaluation',
  }),
  split: choice(['train', 'validation', 'test'], 'With --data: split of that data set', { default: 'test' }),
  json: flag('Print the comparison as one JSON object'),
};

export const compare = command({
  command: 'compare <a> <b>',
  positionals: {
    a: 'Directory of an evaluation or a run, or a file of records; with --gold, a file of predictions. For several seeds: runs separated by commas',
    b: 'Answers to compare with those of A, in the same form; differences are B − A',
  },
  options: OPTIONS,
  examples: [
    ['$0 compare evaluations/before evaluations/after', 'Two evaluations'],
    ['$0 compare evaluations/a evaluations/b --html flips.html', 'With plots of the series that differ'],
    ['$0 compare a/seed-1,a/seed-2 b/seed-1,b/seed-2', 'Two methods, two seeds each'],
    [
      '$0 compare one.jsonl other.jsonl --gold gold.jsonl --json | jq ".metrics[0].p"',
      'Predictions of other programs',
    ],
  ],
  epilogue:
    'Differences are paired by series, with bootstrap 95 % intervals. p: McNemar’s exact test where every value is 0 or 1, else a permutation test. Several answers to a series are averaged first.',
  handler: runCompare,
});
