/** Reports and baselines of runs on prepared data sets: classes, variates, and anomalies as recordings have them. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { ExampleSet, writeExamples } from '../../datasets/example-set.ts';
import { classicalAnswers, readBaselines, runBaselines } from '../../eval/baselines.ts';
import { trainingOf } from '../../eval/harness.ts';
import { metricsOf, pairedGain } from '../../eval/metrics.ts';
import { type AssembledReport, assembleReport, writeRunReport } from '../../eval/report.ts';
import { chooseExamples, exampleRule } from '../../eval/report-examples.ts';
import { runReportPage } from '../../eval/report-page.ts';
import { RunDirectory } from '../../eval/run-directory.ts';
import { readSummary, summaryTable } from '../../eval/summary.ts';
import { sampleTraining } from '../../src/answer/classifiers.ts';
import { learnClasses } from '../../src/expcot/class-profile.ts';
import { DataError } from '../../src/ground/errors.ts';
import type { Example, Gold, Picture } from '../../src/ground/types.ts';
import { DETECTORS } from '../../src/series/detectors.ts';
import { blindTrace, labelOf } from '../../src/tasks/kinds.ts';
import { recordOf } from '../helpers/eval-records.ts';
import { type MadeRun, STATEMENT, writeMadeRun, writeMadeSet } from '../helpers/example-run.ts';
import { decodePng } from '../helpers/png.ts';
import { temporary } from '../helpers/temporary.ts';

/** Nothing to learn from or to choose on. */
const NOTHING = { training: null, validation: [], seed: 0 };

const KINDS = ['classification', 'variates', 'anomaly', 'question'] as const;
const root = temporary('example-runs');
const dataOf = (kind: Gold['kind']): string => join(root, kind, 'data');
const runOf = (kind: Gold['kind']): string => join(root, kind, 'run');

/** A picture that tells examples apart by its colour. */
function draw({ id }: Example): Picture {
  const shade = 10 * Number(id.split('/').at(-1));
  return { width: 80, height: 70, data: new Uint8Array(80 * 70 * 3).fill(shade) };
}

const runs = new Map<string, MadeRun>();
const reports = new Map<string, AssembledReport>();
beforeAll(async () => {
  for (const kind of KINDS) {
    await writeMadeSet(dataOf(kind), kind);
    runs.set(kind, writeMadeRun(runOf(kind), dataOf(kind)));
    reports.set(kind, await writeRunReport(runOf(kind), { draw }));
  }
});

const bootstrap = { seed: 7, resamples: 200 };
const wanted: Readonly<Record<Gold['kind'], readonly string[]>> = {
  classification: ['class_accuracy', 'balanced_accuracy', 'macro_f1'],
  variates: ['variate_precision', 'variate_recall', 'variate_f1', 'variate_exact'],
  anomaly: ['class_accuracy', 'point_f1', 'affiliation_f1'],
  question: ['answer_accuracy', 'chance'],
};

describe.each(KINDS)('a run on %s', (kind) => {
  const report = (): AssembledReport => reports.get(kind)!;
  const run = (): MadeRun => runs.get(kind)!;

  test('has the metrics of its kind in its summary, those of its records', () => {
    const summary = readSummary(join(runOf(kind), 'summary.json'));
    const classes = kind === 'classification' ? { classes: ['slow', 'quick', 'very quick'] } : {};
    const own = metricsOf(run().records['sft.greedy']!, { ...bootstrap, ...classes });
    const told: Readonly<Record<string, unknown>> = summary.sft!.metrics;
    for (const name of wanted[kind]) {
      expect(told[name]).toBeDefined();
      expect(told[name]).toEqual(own.overall[name as keyof typeof own.overall]);
    }
    expect(Object.keys(told).filter((name) => wanted[kind].includes(name))).toEqual(wanted[kind]);
    expect(summary.sft!.metrics.reward_sampled?.n).toBe(24);
    expect(Object.keys(summary.sft!.metrics.per_class ?? {})).toEqual(Object.keys(own.byClass));
    expect(summary.requirements).toEqual([]);
    expect(summary).not.toHaveProperty('transfer');
    expect(summaryTable(summary)[0]).toMatch(
      { variates: /exact set +greedy/, question: / answer /, classification: / class /, anomaly: / class / }[
        kind
      ],
    );
  });

  test('says aloud how the data were split, and where it ran', () => {
    const { input } = report();
    expect(input.caveats).toContain(`Split of the data: ${STATEMENT}`);
    expect(input.run.heldOutData).toContain(`all 24 examples of the test split`);
    expect(input.run.heldOutData).toContain(STATEMENT);
    expect(input.run.trainingData).toBe(`Made ${kind} (${dataOf(kind)}), train split`);
    expect(input.title).toContain(`Made ${kind}`);
    expect(input.caveats.join(' ')).not.toContain('same generator');
    expect(input.caveats.join(' ').includes('scan in the reasoning')).toBe(kind === 'anomaly');
  });

  test('shows examples as the policy saw them, with the blind reading and both answers', () => {
    const { input } = report();
    const profile =
      kind === 'classification' ? learnClasses(new ExampleSet(dataOf(kind)).read('train')) : null;
    expect(input.examples.length).toBeGreaterThan(4);
    for (const shown of input.examples) {
      const example = run().examples.find(({ id }) => id === shown.seriesId)!;
      const png = Buffer.from(shown.seen!.slice('data:image/png;base64,'.length), 'base64');
      expect(decodePng(png)).toEqual(draw(example));
      expect(shown.gold).toEqual(example.gold);
      const think =
        kind === 'question' ? 'the analyses do not read questions' : blindTrace(example, kind, profile).think;
      for (const part of think.split('\n')) expect(shown.expcot).toContain(part);
      expect(typeof shown.figure === 'string' ? 1 : shown.figure.length).toBe(kind === 'anomaly' ? 2 : 0);
    }
    const page = runReportPage(input);
    expect(page.match(/<article class="example">/g)).toHaveLength(input.examples.length);
    expect(page.match(/<figure class="seen whole">/g)).toHaveLength(input.examples.length);
    expect(page.includes('id="confusion"')).toBe(kind === 'classification' || kind === 'anomaly');
  });

  test('keeps the detectors of its kind, the best chosen on the validation split', () => {
    const baselines = readBaselines(new RunDirectory(runOf(kind)).baselineFiles);
    expect(Object.keys(baselines.records)).toEqual(
      kind === 'classification'
        ? ['expcot-blind', '1nn-euclid', 'majority']
        : kind === 'anomaly'
          ? [...Object.keys(DETECTORS), 'expcot-blind', 'timeseer-detect']
          : [kind === 'question' ? 'first-option' : 'expcot-blind'],
    );
    expect(baselines.validationSeries).toBe(18);
    expect(baselines.records[baselines.best]).toHaveLength(24);
    expect(report().input.stages.at(-1)?.label).toContain(baselines.best.replaceAll('-', '\u2011'));
    // One detector alone has its column; several have a table of their own.
    expect(report().input.transfer).toHaveLength(['variates', 'question'].includes(kind) ? 0 : 1);
  });

  test('is rebuilt to the same bytes', async () => {
    const files = ['report.html', 'report.json', 'summary.json'].map((name) => join(runOf(kind), name));
    const before = files.map((file) => readFileSync(file, 'utf8'));
    await writeRunReport(runOf(kind), { draw });
    expect(files.map((file) => readFileSync(file, 'utf8'))).toEqual(before);
  });
});

describe('a report', () => {
  test('of classes tells them in words, by class and as a confusion', () => {
    const page = runReportPage(reports.get('classification')!.input);
    const { overall } = reports.get('classification')!.input.stages[1]!.metrics;
    expect(page).toContain(`names the class of ${(100 * overall.class_accuracy!.mean).toFixed(1)}\u202f%`);
    expect(page).toContain(`macro F1 ${overall.macro_f1!.mean.toFixed(3)}`);
    for (const word of ['Balanced accuracy', 'By class', 'Recall', 'Precision', 'Classical classifiers']) {
      expect(page).toContain(word);
    }
    expect(page).not.toContain('Shaded bands');
    expect(page).not.toContain('True intervals');
  });

  test('of anomalies without named kinds keeps class accuracy out of the lead and says what it covers', () => {
    const { input } = reports.get('anomaly')!;
    const named = runs.get('anomaly')!.examples.filter(({ gold }) => labelOf(gold) === 'normal').length;
    const page = runReportPage(input);
    expect(page).toMatch(/<p class="lead">[^<]*marks the anomalous points of 24 held-out series/);
    expect(page).toContain(`Measured on the ${named} series whose class the data name.`);
    expect(input.caveats.join(' ')).toContain(`of ${24 - named} of the 24 held-out series`);
    expect(page).toContain('The data have no gold class; the policy says');
    expect(page).toContain('class="shaded ungraded"');
  });

  test('of variates names them beside what the policy named', () => {
    const { input } = reports.get('variates')!;
    const shown = input.examples.find(({ gold }) => gold.kind === 'variates' && gold.variates.length === 2)!;
    const { gold } = shown;
    const page = runReportPage({ ...input, examples: [{ ...shown, channels: ['a', 'b', 'c', 'd'] }] });
    const [one, two] = gold.kind === 'variates' ? gold.variates : [];
    expect(page).toContain(
      `Anomalous variates <strong>${one} (${'abcd'[one!]}), ${two} (${'abcd'[two!]})</strong>`,
    );
  });

  test('without a way to draw what the policy saw shows the series itself', async () => {
    const { input } = await assembleReport(runOf('variates'));
    for (const shown of input.examples) {
      expect(shown).not.toHaveProperty('seen');
      expect(shown.figure).toHaveLength(4);
    }
  });

  test('of a policy that read numbers has no picture', async () => {
    const { input } = await assembleReport(runOf('classification'), { draw: () => null });
    expect(input.examples.every(({ seen, figure }) => seen === undefined && typeof figure === 'string')).toBe(
      true,
    );
  });
});

describe('classical classifiers', () => {
  const set = () => new ExampleSet(dataOf('classification'));

  test('learn from the training split alone: other labels elsewhere, same answers', async () => {
    const heldOut = [...set().read('test')];
    const relabelled = heldOut.map((one) => ({
      ...one,
      gold: { kind: 'classification' as const, class: 'slow' },
    }));
    const [a, b] = [
      await runBaselines(heldOut, [], set().read('train')),
      await runBaselines(relabelled, [], set().read('train')),
    ];
    for (const name of Object.keys(a.records)) {
      expect(b.records[name]!.map(({ answer }) => answer)).toEqual(
        a.records[name]!.map(({ answer }) => answer),
      );
    }
    expect(a).toMatchObject({
      best: 'expcot-blind',
      validationSeries: 0,
      learned: { examples: 45, used: 45 },
    });
    const majority = a.records['majority']!.map(({ answer }) => answer.class);
    expect(new Set(majority)).toEqual(new Set(['slow']));
  });

  test('are absent without training examples, and a run cannot do without', async () => {
    const heldOut = [...set().read('test')];
    expect(await classicalAnswers(heldOut, NOTHING)).toEqual({});
    await expect(runBaselines(heldOut, [], null)).rejects.toThrow('classifiers learn from training examples');
  });

  test('are left out of the report of a data set without a training split, and so is their reading', async () => {
    const data = join(root, 'test-alone');
    // Of one split alone, without source files, it would pass for generated series.
    const kept = (['validation', 'test'] as const).flatMap((split) =>
      [...set().read(split)].map((one) => [split, one] as const),
    );
    const { format: _, version: __, splits: ___, ...origin } = set().manifest;
    await writeExamples(data, () => origin, kept);
    const directory = join(root, 'zero-shot');
    writeMadeRun(directory, data);
    const { input, summary } = await writeRunReport(directory, { draw });
    expect(summary.classical).toBeNull();
    expect(input.stages.map(({ kind }) => kind)).toEqual(['policy', 'policy']);
    expect(input.examples[0]?.expcot).toContain('learned from a training split, and there is none');
  });

  test('leave out the nearest neighbour where lengths differ', async () => {
    const training = [...set().read('train')].map((one, i) =>
      i === 3 ? { ...one, channels: [one.channels[0]!.slice(0, 90)] } : one,
    );
    const { records } = await runBaselines([...set().read('test')], [], training);
    expect(Object.keys(records)).toEqual(['expcot-blind', 'majority']);
  });

  test('come from the recipe, and for other kinds nothing is learned', () => {
    expect([...trainingOf(runs.get('classification')!.recipe)!].map(({ id }) => id)).toHaveLength(45);
    expect(trainingOf(runs.get('variates')!.recipe)).toBeNull();
  });

  test('keep a seeded sample of too many training examples, and count all', async () => {
    const values = 10 * 120;
    const [a, b, c] = [
      await sampleTraining(set().read('train'), 5, values),
      await sampleTraining(set().read('train'), 5, values),
      await sampleTraining(set().read('train'), 6, values),
    ];
    const ids = (sample: typeof a) => sample.examples.map(({ id }) => id);
    expect(ids(a)).toHaveLength(10);
    expect(a.count).toBe(45);
    expect([...a.classes.values()].reduce((sum, n) => sum + n, 0)).toBe(45);
    expect(ids(b)).toEqual(ids(a));
    expect(ids(c)).not.toEqual(ids(a));
    const order = [...set().read('train')].map(({ id }) => id);
    expect(ids(a)).toEqual(order.filter((id) => ids(a).includes(id)));
    expect(ids(a).some((id) => order.indexOf(id) >= 10)).toBe(true);
  });
});

describe('detectors', () => {
  test('answer nothing where no channel has a point, and earn nothing', async () => {
    const [one] = new ExampleSet(dataOf('anomaly')).read('test');
    const empty = { ...one!, channels: one!.channels.map(() => new Float64Array(120).fill(Number.NaN)) };
    const { 'expcot-blind': records } = await classicalAnswers([empty], NOTHING);
    expect(records![0]).toMatchObject({
      answer: { intervals: null, wellFormed: false },
      score: { total: 0 },
    });
    expect(records![0]!.answer.problem).toContain('missing');
  });

  test('are refused examples of two kinds', async () => {
    const mixed = [
      ...runs.get('variates')!.examples.slice(0, 1),
      ...runs.get('anomaly')!.examples.slice(0, 1),
    ];
    await expect(runBaselines(mixed, [], null)).rejects.toThrow(DataError);
  });
});

describe('the choice of examples', () => {
  const many = (classes: number): ReturnType<typeof recordOf>[] =>
    Array.from({ length: 3 * classes }, (_, i) =>
      recordOf(`c/${i}`, { kind: 'classification', class: `class ${i % classes}` }, 'nothing', 10),
    );
  const names = (classes: number): string[] => Array.from({ length: classes }, (_, i) => `class ${i}`);

  test.each([
    [3, 8, /the first 2 held-out series of each class, in/],
    [9, 11, /the first held-out series of each class, in/],
    [40, 18, /the first held-out series of each class \(of 16 classes of 40\), in/],
  ])('of %i classes has %i', (classes, count, rule) => {
    const chosen = chooseExamples(many(classes), names(classes));
    expect(chosen).toHaveLength(count);
    expect(new Set(chosen.map(({ record }) => record.seriesId)).size).toBe(count);
    expect(exampleRule('classification', classes)).toMatch(rule);
  });
});

test('a gain between records of a kind is paired example by example', () => {
  const { records } = runs.get('classification')!;
  const gain = pairedGain(records['initial.greedy']!, records['sft.greedy']!, 'reward', bootstrap);
  const mean = (name: string) => metricsOf(records[name]!, bootstrap).overall.reward.mean;
  expect(gain.mean).toBeCloseTo(mean('sft.greedy') - mean('initial.greedy'), 12);
});
