import { beforeAll, describe, expect, test } from 'vitest';
import type { ReportInput } from '../../eval/report.ts';
import { movingMean } from '../../eval/report-curves.ts';
import { labelled, runReportPage } from '../../eval/report-page.ts';
import { confusionTable } from '../../eval/report-tables.ts';
import { requirementsOf } from '../../eval/results.ts';
import { DataError } from '../../src/ground/errors.ts';
import { change, compact, duration, fixed, grouped, signed } from '../../src/ground/numbers.ts';
import { findBrowser } from '../helpers/browser.ts';
import { hostileReport, sampleReport } from '../helpers/report.ts';

const ESCAPED = '&lt;/pre&gt;&lt;/script&gt;&lt;img src=x onerror=&quot;';

/** Everything that a browser would load for this markup; scripts are looked at as text only. */
function references(text: string): string[] {
  const markup = text.replace(/<script>[\s\S]*?<\/script>/g, '');
  return [
    ...[...markup.matchAll(/\s(?:src|href|srcset|data|poster|action)\s*=\s*"([^"]*)"/g)].map(
      (match) => match[1]!,
    ),
    ...[...markup.matchAll(/url\(([^)]*)\)/g)].map((match) => match[1]!),
    ...[...markup.matchAll(/@import[^;]*/g)].map((match) => match[0]),
  ];
}

const local = (reference: string) => /^(?:#|data:image\/png;base64,|data:,$)/.test(reference);

let input: ReportInput;
let hostile: ReportInput;
beforeAll(async () => {
  input = await sampleReport();
  hostile = hostileReport(input);
});

test('an example tells how many numbers of its reasoning are true, and which are not', () => {
  const page = runReportPage(hostile);
  expect(page).toContain('Numbers in the reasoning: 1 true, 1 false, 1 not checkable.');
  expect(page).toContain(`<li>\u201c<bdi>${ESCAPED}`);
  expect(runReportPage(input)).not.toContain('Numbers in the reasoning');
});

test('bars of a reward that passes 1 end at 1.5', () => {
  const stage = input.stages[0];
  const reward = { mean: 1.2, ci95: [1.1, 1.35] as const, n: 20 };
  const over = { ...stage!, metrics: { ...stage!.metrics, overall: { ...stage!.metrics.overall, reward } } };
  expect(runReportPage({ ...input, stages: [over, ...input.stages.slice(1)] })).toContain(
    'x1="73.3" x2="90.0"',
  );
});

describe('requirements of a change', () => {
  const of = (ci95: readonly [number, number], lowerAbove: number | null, notLower = false) => {
    const mean = (ci95[0] + ci95[1]) / 2;
    const gain = {
      key: 'point_f1',
      label: 'Point F1',
      estimate: { mean, ci95, n: 40 },
      lowerAbove,
      notLower,
    };
    return requirementsOf({ stages: [], floors: [], gains: [gain] });
  };

  test('hold its lower end to a bound; what is surely a loss never meets one', () => {
    expect(of([0.06, 0.09], 0.05)).toMatchObject([{ name: 'rl.gain.point_f1', measured: 0.06, met: true }]);
    expect(of([0.05, 0.09], 0.05)[0]!.met).toBe(false);
    expect(of([-0.01, 0.02], -0.02)[0]!.met).toBe(true);
    expect(of([-0.009, -0.001], -0.02)[0]!.met).toBe(false);
  });

  test('or its mean to what it was before', () => {
    expect(of([-0.01, 0.02], null, true)).toMatchObject([
      { name: 'rl.not_lower.point_f1', atLeast: 0, met: true },
    ]);
    expect(of([-0.02, 0.01], null, true)[0]!.met).toBe(false);
    expect(of([-0.02, 0.01], null)).toEqual([]);
  });
});

describe('the report page', () => {
  test('states its numbers: stages, intervals, requirements met and missed', () => {
    const text = runReportPage(input);
    const { mean, ci95 } = input.stages[1]!.metrics.overall.point_f1!;
    expect(text).toContain(
      `<span class="mean">${mean.toFixed(3)}</span><span class="ci">[${ci95[0].toFixed(3)}, ${ci95[1].toFixed(3)}]</span>`,
    );
    for (const { label } of input.stages) expect(text).toContain(`<th scope="col">${label}</th>`);
    expect(text).toContain('0.95 <span class="missed">missed</span>');
    expect(text).toContain('0.60 <span class="met">met</span>');
    expect(text).toContain('1 of 6 requirements missed:');
    for (const example of input.examples) expect(text).toContain(example.seriesId);
  });

  test('says how true the reasoning is, and warns where it got worse while the reward rose', () => {
    const gain = (key: string, mean: number) => ({
      ...input.gains[0]!,
      ...{ key, estimate: { mean, ci95: [mean - 0.02, mean + 0.02] as const, n: 40 } },
    });
    const page = (agreement: number): string => {
      const stages = input.stages.map((stage) => ({
        ...stage,
        metrics: {
          ...stage.metrics,
          overall: {
            ...stage.metrics.overall,
            claim_f1: { mean: 0.7821, ci95: [0.76, 0.8] as const, n: 40 },
            reasoning_agreement: { mean: 0.507, ci95: [0.45, 0.55] as const, n: 40 },
          },
        },
      }));
      const gains = [gain('reward_greedy', 0.06), gain('reasoning_agreement', agreement)];
      return runReportPage({ ...input, stages, gains });
    };
    expect(page(0.05)).toMatch(
      /Its reasoning has claim F1 0\.782 and agreement with the answer 0\.507 \(reinforcement changed it by \+0\.050/,
    );
    expect(page(0.05)).not.toContain('got worse');
    expect(page(-0.05)).toContain('Warning: the reasoning got worse while the reward rose.');
  });

  test('a change that is none has no sign and no interval', () => {
    const none = { ...input.gains[0]!, estimate: { mean: 0, ci95: [0, 0] as const, n: 40 } };
    const text = runReportPage({ ...input, gains: [none] });
    expect(text).toMatch(/sampled.* by 0\.000\.|reward by 0\.000\./);
    expect(text).not.toContain('\u00b10');
  });

  test('shades no answer as right where the data name no kind, and unreadable ones as wrong', () => {
    const confusion = {
      rows: ['normal', 'unnamed anomaly'],
      columns: ['trend', 'normal', 'other label', 'unreadable'],
      counts: [
        [1, 7, 2, 3],
        [4, 5, 6, 8],
      ],
    };
    const text = confusionTable('x', confusion).markup;
    const tones = [...text.matchAll(/<td class="shaded (\w+)"[^>]*>(\d+)/g)].map(([, tone, n]) => [
      tone,
      Number(n),
    ]);
    expect(tones).toEqual([
      ['wrong', 1],
      ['right', 7],
      ['wrong', 2],
      ['wrong', 3],
      ['ungraded', 4],
      ['ungraded', 5],
      ['ungraded', 6],
      ['wrong', 8],
    ]);
  });

  test('says when everything required is met', () => {
    expect(runReportPage({ ...input, floors: input.floors.slice(0, 1) })).toContain(
      'All 3 requirements are met.',
    );
  });

  test('loads nothing: every reference is inside the page', () => {
    const found = references(runReportPage(input));
    expect(found.filter((reference) => !local(reference))).toEqual([]);
    expect(found.length).toBeGreaterThan(12);
    expect(references('<a href="https://x.org"><img src="y.png">').some(local)).toBe(false);
  });

  test('shows hostile text as text, wherever it comes from', () => {
    const text = runReportPage(hostile);
    expect(text.split(ESCAPED).length).toBeGreaterThan(60);
    expect(text).not.toContain('<img src=x');
    expect(text.match(/<script>/g)).toHaveLength(2); // plotly.js and the drawing
  });

  test('shows a very long response up to a limit and says so', () => {
    const [first] = input.examples;
    const text = runReportPage({ ...input, examples: [{ ...first!, response: 'x'.repeat(3_000_000) }] });
    expect(text.length).toBeLessThan(2_500_000);
    expect(text).toContain('and 2980000 more characters');
  });

  test('stays below 2.5 MB with very long curves', () => {
    const n = 400_000;
    const long = {
      name: 'loss',
      x: Array.from({ length: n }, (_, i) => i),
      y: new Array<number>(n).fill(0.123),
    };
    const text = runReportPage({ ...input, curves: [{ ...input.curves[0]!, curves: [long] }] });
    expect(text.length).toBeLessThan(2_500_000);
  });

  test('leaves out what a run does not have', () => {
    const { transfer: _, ...rest } = input;
    const text = runReportPage({ ...rest, gains: [], curves: [], examples: [], caveats: [], floors: [] });
    expect(text).not.toContain('<script');
    for (const id of ['gains', 'transfer', 'curves', 'examples', 'caveats'])
      expect(text).not.toContain(`id="${id}"`);
  });

  test('needs a policy, known stages in its floors, and passive figures', () => {
    expect(() => runReportPage({ ...input, stages: input.stages.slice(3), floors: [] })).toThrow(
      'no stage of a policy',
    );
    const floor = { stage: 'later', metric: 'format', atLeast: 0.9 } as const;
    expect(() => runReportPage({ ...input, floors: [floor] })).toThrow('"later"');
    const figure = '<svg><script>1</script></svg>';
    const [first] = input.examples;
    expect(() => runReportPage({ ...input, examples: [{ ...first!, figure }] })).toThrow(DataError);
  });

  test('is the same when rebuilt from its records', () => {
    expect(runReportPage(JSON.parse(JSON.stringify(input)))).toBe(runReportPage(input));
  });
});

const browser = findBrowser();
if (browser === null)
  console.warn('No Chromium found: the pages are not looked at. Install one, or set CHROMIUM.');

describe('numbers in reports', () => {
  test('have a true minus, a sign where asked, and no negative zero', () => {
    expect(fixed(-0.0214)).toBe('\u22120.021');
    expect(fixed(-0.0002)).toBe('0.000');
    expect(signed(0.0146)).toBe('+0.015');
    expect(signed(-0.3, 1)).toBe('\u22120.3');
    expect([signed(0), signed(-0.0004)]).toEqual(['0.000', '0.000']);
    const of = (mean: number, low: number, high: number) => change({ mean, ci95: [low, high] });
    expect(of(0.0146, -0.002, 0.031)).toBe('+0.015 [\u22120.002, +0.031]');
    expect(of(0, 0, 0.031)).toBe('0.000 [0.000, +0.031]');
    expect(of(0.0001, 0, 0.0002)).toBe('0.000');
  });

  test('are grouped and scaled for people', () => {
    expect(grouped(1234567)).toBe('1\u202f234\u202f567');
    expect(grouped(999)).toBe('999');
    expect(compact(930_112)).toBe('0.93\u202fM');
    expect(compact(3_086_000_000)).toBe('3.09\u202fB');
    expect(compact(12_345)).toBe('12.3\u202fk');
    expect(compact(512)).toBe('512');
    expect(duration(4.25)).toBe('4.3\u202fs');
    expect(duration(118)).toBe('1\u202fmin 58\u202fs');
    expect(duration(7325)).toBe('2\u202fh 2\u202fmin');
  });

  test('are smoothed over a centred window that leaves out missing steps', () => {
    expect(movingMean([1, 2, null, 6, 8], 3)).toEqual([1.5, 1.5, 4, 7, 7]);
    expect(movingMean([null, null], 3)).toEqual([null, null]);
  });
});

describe('the environment of a run', () => {
  test('stands with words and units, the device once', () => {
    const shown = labelled({
      cpu: 'AMD EPYC',
      device_name: 'AMD EPYC',
      memory_gib: 24,
      matmul_gflops_one_thread: 82,
      peak_memory_mib: 1288,
      evaluation_s: 76.4,
    });
    expect(shown).toEqual({
      Processor: 'AMD EPYC',
      Memory: '24\u202fGiB',
      '512\u00b3 matrix product, one thread': '82\u202fGFLOP/s',
      'Peak memory': '1288\u202fMiB',
      Evaluation: '1\u202fmin 16\u202fs',
    });
  });

  test('names a device that is not the processor, and leaves what it does not know as it is', () => {
    const record = { cpu: 'AMD EPYC', device_name: 'NVIDIA H200', memory_gib: 'much', constructor: 3 };
    expect(labelled(record)).toEqual({
      Processor: 'AMD EPYC',
      'Device model': 'NVIDIA H200',
      Memory: 'much',
      constructor: 3,
    });
  });
});
