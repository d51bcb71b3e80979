import { chmodSync, cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { readSummary } from '../../eval/summary.ts';
import { main } from '../../src/cli.ts';
import { change } from '../../src/ground/numbers.ts';
import { buildReport, resultLines } from '../../src/run/report.ts';
import { writeRun } from '../helpers/run-directory.ts';

let directory = '';
let run = '';
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'timeseer-report-'));
  run = join(directory, 'run');
  writeRun(run, { series: 20 });
  await buildReport(run);
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  process.exitCode = undefined;
});

async function timeseer(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const out: string[] = [];
  const err: string[] = [];
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => out.push(String(text)) > 0);
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => err.push(String(text)) > 0);
  const code = await main(args);
  vi.restoreAllMocks();
  return { code, out: out.join(''), err: err.join('') };
}

describe('timeseer report', () => {
  test('writes page, records and summary, and prints the results', async () => {
    for (const name of ['report.html', 'report.json', 'summary.json']) rmSync(join(run, name));
    const { code, out, err } = await timeseer('report', run);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(readFileSync(join(run, 'report.html'), 'utf8')).toMatch(/^<!doctype html>/);
    const summary = readSummary(join(run, 'summary.json'));
    expect(out).toContain(`after SFT${' '.repeat(12)}`);
    expect(out).toContain(summary.rl!.metrics_after.point_f1!.mean.toFixed(3));
    expect(out).toContain(`${join(run, 'report.html')}\n${join(run, 'summary.json')}\n`);
    expect(existsSync(join(run, 'report.json'))).toBe(true);
  });

  test('says on stderr what the run lacks', async () => {
    const copy = join(directory, 'damaged');
    cpSync(run, copy, { recursive: true });
    rmSync(join(copy, 'rl/stage.json'));
    const { code, err } = await timeseer('report', copy);
    expect(code).toBe(0);
    expect(err).toMatch(/damaged: rl\/stage\.json is missing: .*\n$/);
    expect(err.trimEnd().split('\n')).toHaveLength(1);
  });

  test('--json prints the summary, with the paths of what was written', async () => {
    const { code, out } = await timeseer('report', run, '--json');
    expect(code).toBe(0);
    const { files, ...summary } = JSON.parse(out);
    expect(summary).toEqual(JSON.parse(readFileSync(join(run, 'summary.json'), 'utf8')));
    expect(files.report).toBe(join(run, 'report.html'));
  });

  test('--open hands the page to the browser that is named', async () => {
    const seen = join(directory, 'seen');
    const viewer = join(directory, 'viewer');
    writeFileSync(viewer, `#!/bin/sh\nprintf %s "$1" > "${seen}.part" && mv "${seen}.part" "${seen}"\n`);
    chmodSync(viewer, 0o755);
    vi.stubEnv('BROWSER', viewer);
    const { code, err } = await timeseer('report', run, '--open');
    expect({ code, err }).toEqual({ code: 0, err: '' });
    await vi.waitFor(() => expect(existsSync(seen)).toBe(true), { timeout: 20_000 });
    expect(readFileSync(seen, 'utf8')).toBe(join(run, 'report.html'));
  });

  test('--open without a browser still reports, and says where to look', async () => {
    vi.stubEnv('BROWSER', join(directory, 'no-such-program'));
    const { code, err } = await timeseer('report', run, '--open');
    expect(code).toBe(0);
    expect(err).toMatch(/was not opened \(.*ENOENT.*\); open .*report\.html yourself/);
  });

  test('a directory that is no run is one clear error', async () => {
    const { code, out, err } = await timeseer('report', directory);
    expect({ code, out }).toEqual({ code: 3, out: '' });
    expect(err).toBe(
      `error: ${join(directory, 'recipe.json')}: no such file; name the directory of a run, as \`npx timeseer quickstart\` writes it\n`,
    );
  });

  test('a run must be named', async () => {
    const { code, err } = await timeseer('report');
    expect(code).toBe(2);
    expect(err).toContain('timeseer report --help');
  });
});

describe('the table of results', () => {
  test('leaves out what was not run and names what is missed', () => {
    const summary = readSummary(join(run, 'summary.json'));
    const lines = resultLines({
      ...summary,
      rl: null,
      requirements: [
        { name: 'sft.format', at_least: 0.98, measured: 0.99, met: true },
        { name: 'sft.point_f1', at_least: 0.75, measured: 0.7312, met: false },
      ],
    });
    expect(lines.map((line) => line.slice(0, 16).trim())).toEqual([
      '',
      'before training',
      'after SFT',
      summary.classical?.detector.slice(0, 16),
      'greedy, sampled:',
      'missed: sft.poin',
    ]);
    expect(lines.at(-1)).toBe('missed: sft.point_f1 0.7312, required 0.75');
  });

  test('says what reinforcement surely changed, and which of it is a loss', () => {
    const summary = readSummary(join(run, 'summary.json'));
    const gain = {
      reward_greedy: { mean: 0.065, ci95: [0.051, 0.079], n: 400 },
      point_recall: { mean: -0.02, ci95: [-0.03, -0.01], n: 400 },
      point_f1: { mean: 0.01, ci95: [-0.01, 0.03], n: 400 },
    } as const;
    const lines = resultLines({ ...summary, rl: { ...summary.rl!, gain }, requirements: [] });
    expect(lines.slice(-4)).toEqual([
      'what reinforcement changed, on the same 400 series (95 % interval):',
      `  reward_greedy          ${change(gain.reward_greedy)}`,
      `  point_recall           ${change(gain.point_recall)}  loss`,
      '  no significant change: point_f1',
    ]);
  });

  test('says when every requirement is met', () => {
    const summary = readSummary(join(run, 'summary.json'));
    const met = { name: 'sft.format', at_least: 0.98, measured: 0.99, met: true };
    expect(resultLines({ ...summary, requirements: [met] }).at(-1)).toBe('all requirements are met');
  });
});
