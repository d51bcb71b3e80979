import { copyFileSync, cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openExamples } from '../../datasets/source.ts';
import { metricsOf, pairedGain } from '../../eval/metrics.ts';
import { writeRecords } from '../../eval/records.ts';
import { assembleReport, type ReportInput, reportFiles, writeRunReport } from '../../eval/report.ts';
import { chooseExamples, plainDrawing } from '../../eval/report-examples.ts';
import { runReportPage } from '../../eval/report-page.ts';
import { gainsSentence, gainsTable } from '../../eval/report-tables.ts';
import { gainsOf } from '../../eval/results.ts';
import { readSummary, summaryTable } from '../../eval/summary.ts';
import { analyse } from '../../src/expcot/evidence.ts';
import { blind } from '../../src/expcot/trace.ts';
import { DataError } from '../../src/ground/errors.ts';
import type { EvalRecord } from '../../src/ground/types.ts';
import { figure } from '../../src/plot/figure.ts';
import { renderColumns } from '../../src/plot/raster.ts';
import { defaultRecipe } from '../../src/recipe/recipe.ts';
import { resultLines } from '../../src/run/report.ts';
import { labelOf } from '../../src/tasks/kinds.ts';
import { decodePng } from '../helpers/png.ts';
import { type PretendedRun, pretend, writeRun } from '../helpers/run-directory.ts';

const GOLDEN_CONFIG = JSON.parse(
  readFileSync(join(import.meta.dirname, '../golden/qwen/config.json'), 'utf8'),
) as Record<string, unknown>;

/** What the page of the whole run is made of. */
const written = (): ReportInput =>
  JSON.parse(readFileSync(join(whole, 'report.json'), 'utf8')) as ReportInput;

let root = '';
let whole = '';
let run: PretendedRun;
beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), 'assemble-'));
  whole = join(root, 'whole');
  run = writeRun(whole, { series: 20, config: GOLDEN_CONFIG });
  const further = ['anomllm/point', 'anomllm/freq'].flatMap((task) =>
    pretend([...openExamples({ name: task, split: 'test', seed: 42, length: 1000, count: 6 })], 0.5, 3).map(
      (record) => ({ ...record, task }),
    ),
  );
  writeRecords(join(whole, 'eval/rl.anomllm.greedy.jsonl'), further);
  await writeRunReport(whole);
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

let copies = 0;
/** A copy of the whole run without the given files, to damage. */
function copyRun(...without: string[]): string {
  const copy = join(root, `copy-${copies++}`);
  cpSync(whole, copy, { recursive: true });
  for (const path of without) rmSync(join(copy, path), { recursive: true });
  return copy;
}

const records = (name: string): readonly EvalRecord[] => run.records[name]!;
const bootstrap = { seed: 7, resamples: 200 };
const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

describe('the numbers of a run', () => {
  test('are those of its records', () => {
    const summary = readSummary(join(whole, 'summary.json'));
    const greedy = metricsOf(records('sft.greedy'), bootstrap);
    expect(summary.sft?.metrics.point_f1).toEqual(greedy.overall.point_f1);
    expect(summary.sft?.metrics.point_f1_anomalous).toEqual(greedy.anomalous?.point_f1);
    expect(summary.sft?.metrics.class_accuracy?.mean).toBeCloseTo(
      mean(records('sft.greedy').map(({ answer, gold }) => (answer.class === labelOf(gold) ? 1 : 0))),
      12,
    );
    expect(summary.sft?.metrics.format.mean).toBeCloseTo(
      mean(records('sft.greedy').map(({ answer }) => (answer.wellFormed ? 1 : 0))),
      12,
    );
    for (const [metrics, name] of [
      [summary.sft?.metrics_before, 'initial'],
      [summary.sft?.metrics, 'sft'],
      [summary.rl?.metrics_before, 'sft'],
      [summary.rl?.metrics_after, 'rl'],
    ] as const) {
      const totals = (mode: string) => mean(records(`${name}.${mode}`).map(({ score }) => score.total));
      expect(metrics?.reward_greedy.mean).toBeCloseTo(totals('greedy'), 12);
      expect(metrics?.reward_sampled?.mean).toBeCloseTo(totals('sampled'), 12);
      // Two samples a series are one measurement of it.
      expect(metrics?.reward_sampled?.n).toBe(20);
    }
  });

  test('say at which temperature answers were sampled, as page and terminal do', () => {
    const summary = readSummary(join(whole, 'summary.json'));
    expect(summary.sampled).toEqual({ temperature: 0.7, samples: 2 });
    expect(summaryTable(summary).at(-1)).toMatch(/sampled at temperature 0\.7, all others .* greedy/);
    const page = readFileSync(join(whole, 'report.html'), 'utf8');
    expect(page).toContain('Reward, sampled at temperature 0.7');
    expect(page).toContain('Reinforcement changed the reward sampled at temperature 0.7 by');
    expect(page).not.toMatch(/sampled reward/i);
  });

  test('count what the stages cost, and keep the environment', () => {
    const summary = readSummary(join(whole, 'summary.json'));
    expect(summary).toMatchObject({
      install_s: 101.2,
      sft: { seconds: 118.25, samples: 480 },
      rl: { seconds: 55.5, steps: 20 },
      environment: { node: 'v20.19.0', calibration_gflops: 92 },
    });
  });

  test('pair the gain of reinforcement series by series', () => {
    const { rl } = readSummary(join(whole, 'summary.json'));
    const sampled = pairedGain(records('sft.sampled'), records('rl.sampled'), 'reward', bootstrap);
    expect(rl?.gain?.reward_sampled).toEqual(sampled);
    expect(rl?.gain?.reward_greedy.mean).toBeCloseTo(
      (rl?.metrics_after.reward_greedy.mean ?? 0) - (rl?.metrics_before?.reward_greedy.mean ?? 0),
      12,
    );
  });

  test('show the detector that was chosen on validation series', () => {
    const { classical } = readSummary(join(whole, 'summary.json'));
    const choice = JSON.parse(readFileSync(join(whole, 'eval/classical.json'), 'utf8')) as {
      best: string;
      validationSeries: number;
    };
    expect(choice.validationSeries).toBe(16);
    expect(classical?.detector).toBe(choice.best);
    expect(classical?.metrics.reward_sampled).toEqual(classical?.metrics.reward_greedy);
    const table = written().transfer?.find(({ head }) => head !== undefined);
    expect(Object.keys(table?.metrics.byTask ?? {})).toHaveLength(9);
    expect(table?.metrics.byTask).toHaveProperty('timeseer-detect');
    expect(table?.metrics.byTask[choice.best]?.reward).toEqual(classical?.metrics.reward_greedy);
  });

  test('of further tasks stand by task', () => {
    const { transfer } = readSummary(join(whole, 'summary.json'));
    expect(Object.keys(transfer?.per_task ?? {})).toEqual(['anomllm/freq', 'anomllm/point']);
    expect(transfer).not.toHaveProperty('reward_sampled');
  });
});

test('what reinforcement changed lists losses of the reasoning beside gains, the largest change first', () => {
  const reasoned = (list: readonly EvalRecord[], truth: number, agreement: boolean): EvalRecord[] =>
    list.map((record) => ({
      ...record,
      reasoning: {
        ...{ claims: 4, true: 2, false: 2, unchecked: 0, coverage: 1, contradictions: 0, wrong: [] },
        ...{ truth, agreement },
      },
    }));
  const answers = {
    sft: { greedy: reasoned(records('sft.greedy'), 0.9, true), sampled: null },
    rl: { greedy: reasoned(records('rl.greedy'), 0.4, false), sampled: null },
  };
  const gains = gainsOf(answers, defaultRecipe(), bootstrap);
  const changes = Object.fromEntries(gains.map(({ key, estimate }) => [key, estimate.mean]));
  expect(changes).toMatchObject({ claim_precision: expect.closeTo(-0.5), reasoning_agreement: -1 });
  expect(gainsSentence(gains)).toMatch(
    /^Significant losses: reasoning agrees, greedy −1\.000; true claims, greedy −0\.500\. \d+ of \d+ metrics did not change significantly\.$/,
  );
  const rows = [...gainsTable(gains, []).markup.matchAll(/<th scope="row">(.*?)<\/th><td>(.*?)<\/td>/g)];
  expect(rows).toHaveLength(gains.length);
  expect(rows.slice(0, 2).map(([, label]) => label)).toEqual([
    'Reasoning agrees, greedy',
    'True claims, greedy',
  ]);
  const sizes = rows.map(([, , change]) => Math.abs(Number(change!.replace('−', '-'))));
  expect(sizes).toEqual(sizes.toSorted((a, b) => b - a));
});

test('answers that were edited count for nothing: the responses are read again', async () => {
  const copy = copyRun('report.html', 'summary.json');
  const { summary } = await assembleReport(copy);
  for (const [name, list] of Object.entries(run.records).filter(([key]) => key.startsWith('rl.'))) {
    const edited = list.map((record) => {
      const { gold, answer } = record;
      if (gold.kind !== 'anomaly') throw new Error('not of this run');
      const { class: kind, intervals } = gold;
      return { ...record, answer: { ...answer, class: kind, intervals, wellFormed: true, problem: null } };
    });
    writeRecords(join(copy, `eval/${name}.jsonl`), edited as EvalRecord[]);
  }
  expect((await assembleReport(copy)).summary).toEqual(summary);
});

describe('requirements', () => {
  test('are listed as not checked for a handful of series', () => {
    const { requirements } = readSummary(join(whole, 'summary.json'));
    expect(requirements).toHaveLength(6);
    expect(requirements?.at(-1)).toEqual({
      ...{ name: 'rl.gain.reward_greedy', at_least: -0.02, measured: null, met: null },
      not_checked: 'needs eval.series \u2265 100',
    });
    const input = written();
    expect(runReportPage(input)).toMatch(/Not checked: needs eval\.series \u2265 100: .*after SFT ≥ 0\.98;/);
    expect(resultLines(readSummary(join(whole, 'summary.json'))).at(-1)).toMatch(
      /^requirements not checked: needs eval\.series \u2265 100: sft\.format, .*rl\.gain\.reward_greedy$/,
    );
    expect(input.gains.map(({ key }) => key)).toEqual(
      expect.arrayContaining(['reward_sampled', 'reward_greedy', 'point_recall', 'vus_f1', 'success_rate']),
    );
  });

  test('are met and missed as measured where the held-out set is large enough', async () => {
    const directory = join(root, 'held');
    const { records: all } = writeRun(directory, { series: 100 });
    const { summary, input } = await assembleReport(directory);
    const sft = metricsOf(all['sft.greedy']!, bootstrap).overall;
    expect(summary.requirements?.map(({ name }) => name)).toEqual([
      'sft.format',
      'sft.class_accuracy',
      'sft.point_f1',
      'sft.affiliation_f1',
      'rl.gain.reward_sampled',
      'rl.gain.reward_greedy',
    ]);
    expect(summary.requirements?.slice(0, 4).map(({ measured, met }) => ({ measured, met }))).toEqual(
      (
        [
          ['format', 0.98],
          ['class_accuracy', 0.95],
          ['point_f1', 0.75],
          ['affiliation_f1', 0.93],
        ] as const
      ).map(([metric, floor]) => ({ measured: sft[metric]?.mean, met: (sft[metric]?.mean ?? 0) >= floor })),
    );
    const [sampled, greedy] = summary.requirements!.slice(4);
    expect(sampled).toMatchObject({ at_least: 0, measured: summary.rl?.gain?.reward_sampled?.ci95[0] });
    expect(greedy).toMatchObject({ at_least: -0.02, measured: summary.rl?.gain?.reward_greedy.ci95[0] });
    const page = runReportPage(input);
    expect(page.match(/<span class="required">/g)).toHaveLength(4);
    const missed = summary.requirements!.filter(({ met }) => !met).length;
    expect(page).toContain(
      missed === 0 ? 'All 6 requirements are met' : `${missed} of 6 requirements missed`,
    );
  });
});

describe('what the report shows', () => {
  test('stages in the order of training, then the detector', () => {
    const input = written();
    expect(input.stages.map(({ label }) => label.replaceAll('\u2011', '-'))).toEqual([
      'Before training',
      'After SFT',
      'After TimerPO',
      expect.stringMatching(/^Classical: /),
    ]);
    expect(input.run).toMatchObject({
      command: 'npm run quickstart',
      seeds: { run: 7 },
      samples: 480,
      steps: 20,
      seconds: { 'set-up': 101.2, supervised: 118.25, TimerPO: 55.5, evaluation: 31.5 },
    });
    expect(input.run.policy.parameters).toBeGreaterThan(10_000);
  });

  test('curves hold the logged values', () => {
    const panels = new Map(written().curves.map((panel) => [panel.title, panel]));
    const lines = (stage: string) =>
      readFileSync(join(whole, stage, 'metrics.jsonl'), 'utf8')
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line));
    const [sft, rl] = [lines('sft'), lines('rl')];
    expect(panels.get('Supervised loss')).toMatchObject({
      log: true,
      curves: [{ x: sft.map(({ samples }) => samples), y: sft.map(({ loss }) => loss) }],
    });
    const { data, gradient, update } = sft[3].ms;
    expect(panels.get('Supervised throughput')?.curves[0]?.y[3]).toBeCloseTo(
      8000 / (data + gradient + update),
      9,
    );
    const reward = panels.get('Reward of rollouts')!;
    expect(reward.curves.map(({ name }) => name)).toEqual(['total', 'localisation', 'class', 'format']);
    expect(reward.curves[1]?.y).toEqual(rl.map(({ parts }) => parts.localisation));
    for (const [title, key] of [
      ['Similarity to the expert traces', 'similarity'],
      ['KL to the reference', 'kl'],
      ['Entropy', 'entropy'],
      ['Clipped tokens', 'clipped'],
      ['Zero-variance groups', 'equalRewards'],
      ['Gap between sampler and trainer', 'samplerGap'],
    ] as const) {
      expect(panels.get(title)?.curves[0]?.y).toEqual(rl.map((line) => line[key]));
    }
    const reasoning = panels.get('Reasoning of rollouts')!.curves.map(({ name, y }) => [name, y]);
    expect(reasoning).toEqual([
      ['claim F1', rl.map((line) => line.reasoning.claimF1)],
      ['agreement', rl.map((line) => line.reasoning.agreement)],
    ]);
    expect(panels.get('Zero-variance groups')?.curves[1]?.y).toEqual(
      rl.map(({ zeroVariance }) => zeroVariance),
    );
  });

  test('a run that was evaluated while it trained shows how it did on validation series', async () => {
    const copy = copyRun();
    const line = (step: number, reward: number, f1: number | null) =>
      JSON.stringify({ step, examples: 40, metrics: { reward, point_f1: f1, unparsable: 0.1 } });
    writeFileSync(
      join(copy, 'rl/validation.jsonl'),
      `${[line(5, 0.5, null), line(10, 0.75, 0.6), line(13, 0.625, 0.7)].join('\n')}\n`,
    );
    const { curves } = (await assembleReport(copy)).input;
    const panel = curves.find(({ title }) => title.startsWith('Validation during'))!;
    expect(panel).toMatchObject({
      title: 'Validation during TimerPO',
      curves: [
        { name: 'reward', x: [5, 10, 13], y: [0.5, 0.75, 0.625] },
        { name: 'point F1', x: [5, 10, 13], y: [null, 0.6, 0.7] },
      ],
    });
    expect(panel.definition).toMatch(/the same 40 validation series/);
    expect(written().curves.some(({ title }) => title.startsWith('Validation'))).toBe(false);
    writeFileSync(join(copy, 'rl/validation.jsonl'), '{"step": 5, "examples": "many"}\n');
    await expect(assembleReport(copy)).rejects.toThrow(/validation\.jsonl.*examples/s);
  });

  test('examples follow the rule: two of each class, then the two lowest rewards', () => {
    const input = written();
    const greedy = records('rl.greedy');
    const firsts = ['contextual point', 'global point', 'seasonal', 'trend', 'normal'].flatMap((label) =>
      greedy.filter(({ gold }) => labelOf(gold) === label).slice(0, 2),
    );
    expect(input.examples.slice(0, 10).map(({ seriesId }) => seriesId)).toEqual(
      firsts.map(({ seriesId }) => seriesId),
    );
    const rest = greedy.filter((record) => !firsts.includes(record));
    const shown = input.examples.slice(10).map(({ score }) => score.total);
    expect(shown).toEqual(
      rest
        .map(({ score }) => score.total)
        .sort((a, b) => a - b)
        .slice(0, 2),
    );
    expect(runReportPage(input)).toContain('Chosen by rule');
  });

  test('among equal rewards the earlier series is the example', () => {
    const equal = records('rl.greedy').map((record) => ({ ...record, score: { total: 0.5, parts: {} } }));
    const classes = Object.keys(metricsOf(equal).byClass);
    const chosen = chooseExamples(equal, classes).map(({ record }) => equal.indexOf(record));
    const [a, b] = chosen.slice(-2);
    const taken = new Set(chosen.slice(0, -2));
    const free = equal.map((_, i) => i).filter((i) => !taken.has(i));
    expect([a, b]).toEqual(free.slice(0, 2));
  });

  test('an example holds the picture that the policy saw and the blind reading of the values', () => {
    const example = written().examples[0]!;
    const series = run.series.find(({ id }) => id === example.seriesId)!;
    const png = Buffer.from(example.seen!.slice('data:image/png;base64,'.length), 'base64');
    expect(decodePng(png)).toEqual(renderColumns(figure('nano'), series.channels[0]!));
    const trace = blind(analyse(series.channels[0]!));
    for (const part of trace.think.split('\n')) expect(example.expcot).toContain(part);
    expect(example.expcot).toMatch(new RegExp(`, ${trace.class}\\.$`));
    expect(example.expcotLabel).toMatch(/blind/);
    expect(example.response).toBe(
      records('rl.greedy').find(({ seriesId }) => seriesId === example.seriesId)?.response,
    );
  });

  test('another figure can be said to be what the policy saw', async () => {
    const { input } = await assembleReport(whole, { draw: plainDrawing('ctu') });
    const png = Buffer.from(input.examples[0]!.seen!.slice('data:image/png;base64,'.length), 'base64');
    expect(decodePng(png)).toMatchObject({ width: 580, height: 230 });
  });

  test('rebuilding from the same files gives the same bytes', async () => {
    const files = Object.values(reportFiles(whole));
    const before = files.map((file) => readFileSync(file, 'utf8'));
    await writeRunReport(whole);
    expect(files.map((file) => readFileSync(file, 'utf8'))).toEqual(before);
  });
});

describe('what a run lacks', () => {
  const cut = (text: string): string => text.slice(0, text.lastIndexOf('\n', text.length - 2) + 40);

  test('a whole run lacks nothing', async () => {
    expect((await assembleReport(whole)).gaps).toEqual([]);
  });

  test.each([
    ['rl/stage.json', null, /^rl\/stage\.json is missing: .*summary\.json/],
    [
      'eval/rl.greedy.jsonl',
      null,
      /^eval\/rl\.greedy\.jsonl is missing: every number of the policy after reinforcement, and its requirements/,
    ],
    ['eval/sft.sampled.jsonl', null, /^eval\/sft\.sampled\.jsonl is missing: sampled rewards/],
    ['sft/metrics.jsonl', null, /^sft\/metrics\.jsonl is missing: the curves/],
    ['rl/metrics.jsonl', cut, /^rl\/metrics\.jsonl ends at step 19 of 20: the curves/],
    ['environment.json', null, /^environment\.json is missing/],
  ] as const)('%s: it is named, on the page too', async (path, damage, gap) => {
    const copy = copyRun();
    const file = join(copy, path);
    if (damage === null) rmSync(file);
    else writeFileSync(file, damage(readFileSync(file, 'utf8')));
    const { gaps, input } = await assembleReport(copy);
    expect(gaps).toHaveLength(1);
    expect(gaps[0]).toMatch(gap);
    expect(input.caveats[0]).toBe(`Incomplete: ${gaps[0]}.`);
  });
});

describe('what a run has not reached', () => {
  test('reinforcement: its column, gains and curves are left out', async () => {
    const copy = copyRun(
      'rl',
      'eval/rl.greedy.jsonl',
      'eval/rl.sampled.jsonl',
      'eval/rl.anomllm.greedy.jsonl',
    );
    const { input, summary } = await writeRunReport(copy);
    expect(summary.rl).toBeNull();
    expect(summary.sft?.samples).toBe(480);
    expect(summary).not.toHaveProperty('transfer');
    expect(input.gains).toEqual([]);
    expect(input.curves.map(({ title }) => title)).toEqual(['Supervised loss', 'Supervised throughput']);
    expect(input.examples[0]?.by).toBe('After SFT, greedy');
    expect(runReportPage(input)).not.toContain('What TimerPO changed');
  });

  test('the first policy and the samples: means are there without them', async () => {
    const copy = copyRun(
      'eval/initial.greedy.jsonl',
      'eval/initial.sampled.jsonl',
      'eval/sft.sampled.jsonl',
      'environment.json',
    );
    const { input, summary } = await assembleReport(copy);
    expect(summary.sft).not.toHaveProperty('metrics_before');
    expect(summary.sft?.metrics).not.toHaveProperty('reward_sampled');
    expect(summary.rl?.gain).toHaveProperty('reward_greedy');
    expect(summary.rl?.gain).not.toHaveProperty('reward_sampled');
    expect(summary.install_s).toBeNull();
    expect(input.stages.map(({ key }) => key)).toEqual(['sft', 'rl', 'classical']);
  });

  test('a supervised stage: reinforcement is compared with where it began', async () => {
    const copy = copyRun('sft', 'eval/sft.greedy.jsonl', 'eval/sft.sampled.jsonl');
    const { summary } = await assembleReport(copy);
    expect(summary.sft).toBeNull();
    expect(summary.rl?.metrics_before?.reward_greedy.mean).toBeCloseTo(
      mean(records('initial.greedy').map(({ score }) => score.total)),
      12,
    );
  });

  test('the detectors: they are left out, and run when the report is written', async () => {
    const copy = copyRun('eval/classical.json', 'eval/classical.jsonl');
    const { summary } = await assembleReport(copy);
    expect(summary.classical).toBeNull();
    await writeRunReport(copy);
    for (const name of ['classical.json', 'classical.jsonl']) {
      expect(readFileSync(join(copy, 'eval', name), 'utf8')).toBe(
        readFileSync(join(whole, 'eval', name), 'utf8'),
      );
    }
  });

  test('a policy to count: its size is not guessed', async () => {
    const { input } = await assembleReport(copyRun('rl/policy'));
    expect(input.run.policy.parameters).toBeNull();
    expect(runReportPage(input)).not.toContain('parameters)');
  });

  test('the reward of the tables in reinforcement: what it maximised is said', async () => {
    const copy = copyRun();
    const said = /Reinforcement maximised a reward with point F1 .* and 1 \/ \(1 \+ intervals\)/;
    expect((await assembleReport(copy)).input.caveats.join('\n')).not.toMatch(said);
    const file = join(copy, 'recipe.json');
    const text = readFileSync(file, 'utf8');
    writeFileSync(file, text.replace('f05_affiliation', 'point_f1').replace('"exact"', '"graded"'));
    expect((await assembleReport(copy)).input.caveats.join('\n')).toMatch(said);
  });

  test('its end: a stage that was stopped is said to be', async () => {
    const copy = copyRun();
    const stage = join(copy, 'sft/stage.json');
    writeFileSync(stage, readFileSync(stage, 'utf8').replace('"finished":true', '"finished":false'));
    const { input } = await assembleReport(copy);
    expect(input.caveats[0]).toMatch(/supervised stage was stopped/);
    writeFileSync(stage, '{"seconds": 1, "samples": 8, "steps": 1, "finished": "2026-03-01T10:00:00.000Z"}');
    expect((await assembleReport(copy)).input.run.finished).toBe('2026-03-01T10:00:00.000Z');
    const environment = join(copy, 'environment.json');
    writeFileSync(environment, '{"evaluation_s": 12.5, "evaluation_finished": "2026-03-01T10:04:00.000Z"}');
    expect((await assembleReport(copy)).input.run.finished).toBe('2026-03-01T10:04:00.000Z');
  });

  test('the last line of a killed stage is dropped', async () => {
    const copy = copyRun();
    const log = join(copy, 'rl/metrics.jsonl');
    writeFileSync(log, `${readFileSync(log, 'utf8')}{"step": 21, "rew`);
    const { input } = await assembleReport(copy);
    expect(input.curves.find(({ title }) => title === 'Entropy')?.curves[0]?.x).toHaveLength(20);
  });

  test('any evaluation: there is no report', async () => {
    const names = Object.keys(run.records).map((name) => `eval/${name}.jsonl`);
    const copy = copyRun(...names, 'report.html');
    await expect(assembleReport(copy)).rejects.toThrow(/copy-\d+\/eval: no policy was evaluated/);
    await expect(writeRunReport(copy)).rejects.toThrow(DataError);
    expect(existsSync(join(copy, 'report.html'))).toBe(false);
  });
});

describe('a damaged run', () => {
  test.each([
    ['recipe.json', (text: string) => text.slice(0, 40), 'not JSON'],
    ['recipe.json', (text: string) => text.replace('"seed"', '"sead"'), 'sead'],
    ['recipe.json', (text: string) => text.replace(/"version": ?3/, '"version": 1'), 'a run of version 1'],
    ['environment.json', () => '[1, 2', 'not JSON'],
    ['sft/stage.json', () => '{"seconds": -1}', '"seconds"'],
    ['sft/metrics.jsonl', (text: string) => text.replace('"loss"', '"lost"'), '"loss"'],
    ['rl/metrics.jsonl', (text: string) => text.replace('{', '['), 'not a JSON line'],
    ['eval/sft.greedy.jsonl', (text: string) => text.slice(0, -50), 'sft.greedy.jsonl:20:'],
    ['eval/rl.sampled.jsonl', (text: string) => text.slice(text.indexOf('\n') + 1), 'nano5/test/'],
    ['eval/rl.greedy.jsonl', (text: string) => text.replace('nano5/test/0', 'nano5/train/0'), 'no held-out'],
    ['eval/rl.anomllm.greedy.jsonl', () => '', 'holds no record'],
    ['eval/classical.json', () => '{}', '"best"'],
    ['rl/policy/config.json', (text: string) => text.slice(0, 60), 'not JSON'],
  ])('%s: the error names the file', async (path, damage, reason) => {
    const copy = copyRun('report.html');
    const file = join(copy, path);
    writeFileSync(file, damage(readFileSync(file, 'utf8')));
    const failure = await writeRunReport(copy).then(
      () => null,
      (error: unknown) => error,
    );
    expect(failure).toBeInstanceOf(DataError);
    expect((failure as Error).message).toContain(file);
    expect((failure as Error).message).toContain(reason);
    expect(existsSync(join(copy, 'report.html'))).toBe(false);
  });

  test('no run at all', async () => {
    await expect(assembleReport(join(root, 'nowhere'))).rejects.toThrow(
      /nowhere\/recipe\.json: no such file; name the directory of a run/,
    );
  });

  test('answers to the series of another seed are refused', async () => {
    const other = join(root, 'other-seed');
    writeRun(other, { series: 20, seed: 8 });
    const copy = copyRun();
    copyFileSync(join(other, 'eval/sft.greedy.jsonl'), join(copy, 'eval/sft.greedy.jsonl'));
    await expect(assembleReport(copy)).rejects.toThrow(/sft\.greedy\.jsonl: the annotation of nano5\/test\//);
  });
});
