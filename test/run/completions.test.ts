import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { openExamples, reinforcementExamples } from '../../datasets/source.ts';
import { RUN_VERSION, RunDirectory } from '../../eval/run-directory.ts';
import { Random } from '../../src/ground/random.ts';
import { type Recipe, recipeSchema } from '../../src/recipe/recipe.ts';
import { CompletionsPage, isShown } from '../../src/run/completions.ts';
import { nanoCard } from '../../src/run/policy-task.ts';
import { buildCompletions } from '../../src/run/report.ts';
import { writeCard } from '../../src/tasks/card.ts';
import { goldResponse } from '../../src/tasks/kinds.ts';
import type { Completion } from '../../src/train/metrics.ts';
import { findBrowser, loadPage } from '../helpers/browser.ts';
import { temporary } from '../helpers/temporary.ts';

const shared = temporary('completions');

const recipe: Recipe = recipeSchema.parse({ data: { length: 400 } });
const address = reinforcementExamples(recipe.data, recipe.seed);
const source = openExamples(address);
const HOSTILE = '<think></pre><script>alert(1)</script><img src="http://example.org/x.png"></think>';

/** Responses to two examples of a step: the gold answers, others, one that is not well formed. */
function completionsOf(step: number): Completion[] {
  return [2 * step, 2 * step + 1].flatMap((number) => {
    const { id, gold } = source.at(number);
    return Array.from({ length: 4 }, (_, g): Completion => {
      const reward = new Random(5, 'reward', step * 8 + g).uniform();
      return {
        ...{ step, example: number, seriesId: id, reward, similarity: 0.25, advantage: g - 1, main: g - 1.5 },
        orthogonal: -0.125,
        parts: { localisation: reward, format: 1 },
        response: g === 3 ? HOSTILE : goldResponse(g === 0 ? gold : source.at(number + g).gold, 'a wave'),
      };
    });
  });
}

/** A run with so many steps of reinforcement. */
function writeRun(
  path: string,
  steps: number,
  change: (one: Completion) => object = (one) => one,
): RunDirectory {
  mkdirSync(join(path, 'rl'), { recursive: true });
  mkdirSync(join(path, 'initial'));
  const header = { version: RUN_VERSION, name: 'made', recipe, command: 'timeseer train' };
  writeFileSync(join(path, 'recipe.json'), JSON.stringify(header));
  writeCard(join(path, 'initial'), nanoCard(recipe, source.facts));
  const all = Array.from({ length: steps }, (_, i) => i + 1);
  const jsonl = (lines: readonly object[]): string =>
    lines.map((line) => `${JSON.stringify(line)}\n`).join('');
  writeFileSync(join(path, 'rl/metrics.jsonl'), jsonl(all.map((step) => ({ step, reward: step / steps }))));
  writeFileSync(join(path, 'rl/completions.jsonl'), jsonl(all.flatMap(completionsOf).map(change)));
  return new RunDirectory(path);
}

const pageOf = (run: RunDirectory): string => readFileSync(run.file('rl', 'completions.html'), 'utf8');
const stepsOf = (text: string): number[] =>
  [...text.matchAll(/<section class="step" id="step-(\d+)"/g)].map(([, step]) => Number(step));

describe('the steps of a page', () => {
  test('are all of a short run; the first, the last ones and few of those between of a long one', () => {
    const shown = (last: number): number[] =>
      Array.from({ length: last }, (_, i) => i + 1).filter((step) => isShown(step, last));
    expect(shown(60)).toHaveLength(60);
    for (const last of [61, 100, 1000, 12_345]) {
      const steps = shown(last);
      expect(steps.length).toBeLessThanOrEqual(61);
      expect(steps.length).toBeGreaterThan(38);
      expect(steps[0]).toBe(1);
      expect(steps.slice(-20)).toEqual(Array.from({ length: 20 }, (_, i) => last - 19 + i));
    }
  });

  test('that were left out once are never wanted again', () => {
    const natural = fc.integer({ min: 1, max: 20_000 });
    fc.assert(
      fc.property(natural, natural, natural, (step, more, yetMore) => {
        const last = step + more;
        if (!isShown(step, last)) expect(isShown(step, last + yetMore)).toBe(false);
      }),
    );
  });
});

describe('the page of a run', () => {
  let long: RunDirectory;
  beforeAll(async () => {
    long = writeRun(join(shared, 'long'), 1000);
    await CompletionsPage.of(long).write();
  });

  test('of 1000 steps is small, and shows of each step the picture, the answers, rewards and advantages', () => {
    const text = pageOf(long);
    expect(Buffer.byteLength(text)).toBeLessThan(5_000_000);
    const steps = stepsOf(text);
    expect(steps.slice(0, 3)).toEqual([1000, 999, 998]);
    expect(steps.at(-1)).toBe(1);
    expect(text.match(/src="data:image\/png;base64,/g)).toHaveLength(2 * steps.length);
    expect(text.match(/class="completion"/g)).toHaveLength(8 * steps.length);
    const [newest] = /<section class="step" id="step-1000"[\s\S]*?<\/section>/.exec(text)!;
    const { id, gold } = source.at(2000);
    expect(newest).toContain(id);
    if (gold.kind !== 'anomaly' || gold.intervals.length === 0) throw new Error('choose another step');
    const [start, end] = gold.intervals[0]!;
    // Over the picture and in each of the four answers; the first answer is the gold one.
    const bar = (kind: string): string => `<rect class="${kind}" x="${start}" y=`;
    expect(newest.split(bar('gold')).length - 1).toBe(5);
    expect(newest.split(bar('said')).length - 1).toBeGreaterThanOrEqual(1);
    expect(newest).toContain(`true ${start} to ${end}`);
    expect(newest).toContain('+2.000');
    expect(newest).toContain('\u22121.000');
    expect(newest).toContain('<dt>orthogonal</dt><dd>\u22120.125</dd>');
    expect(newest).toContain('Not well formed');
  });

  test('holds what a policy wrote as text, and refers to nothing outside itself', () => {
    const text = pageOf(long);
    expect(text).toContain('&lt;script&gt;alert(1)&lt;/script&gt;');
    expect(text.match(/<script/g)).toHaveLength(1);
    expect(text).not.toMatch(/(?:src|href)="(?!data:)/);
  });

  test('that grew with it is that of its files', async () => {
    const run = writeRun(join(shared, 'grown'), 90);
    const grown = new CompletionsPage(run);
    for (let step = 1; step <= 90; step++) {
      grown.add(completionsOf(step));
      grown.reward([{ step, reward: step / 90 }]);
      if (step % 30 === 0) await grown.write();
    }
    const text = pageOf(run);
    await buildCompletions(run.path);
    expect(pageOf(run)).toBe(text);
  });

  test('two writes at a time leave the newer state', async () => {
    const run = writeRun(join(shared, 'twice'), 2);
    const page = new CompletionsPage(run);
    page.add(completionsOf(1));
    const first = page.write();
    page.add(completionsOf(2));
    await Promise.all([first, page.write()]);
    expect(stepsOf(pageOf(run))).toEqual([2, 1]);
  });

  test('says of an example that is another by now that it cannot be shown, beside its responses', async () => {
    const run = writeRun(join(shared, 'changed'), 2, (one) => ({ ...one, seriesId: `old ${one.seriesId}` }));
    await CompletionsPage.of(run).write();
    expect(pageOf(run)).toContain('The example cannot be shown: the data have changed since.');
    expect(pageOf(run)).not.toContain('data:image/png');
    expect(pageOf(run).match(/class="completion"/g)).toHaveLength(16);
  });

  const browser = findBrowser();
  test.skipIf(browser === null)(
    'shows the newest step in a browser, and no other, without a complaint',
    () => {
      const { dom, complaints } = loadPage(browser!, { 'completions.html': pageOf(long) });
      expect(complaints).toEqual([]);
      const sections = [...dom.matchAll(/<section class="step"[^>]*>/g)].map(([tag]) => tag);
      expect(sections.filter((tag) => !tag.includes('hidden'))).toEqual([
        expect.stringContaining('step-1000'),
      ]);
      expect(dom).toMatch(/<form id="controls" class="controls">/);
    },
  );
});
