import { readFileSync } from 'node:fs';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { choiceHelp } from '../../src/ground/choice.ts';
import { FIGURE_NAMES, FIGURES } from '../../src/plot/presets.ts';
import { ADVANTAGES, type AdvantageEstimator, advantagesOf } from '../../src/train/advantage.ts';
import { RATIOS } from '../../src/train/loss.ts';
import { choiceTable, documents, CHOICES as TABLES } from '../helpers/documents.ts';

test.each(Object.entries(TABLES))('%s: schema, range and help come from its table', async (key, table) => {
  const { recipeKeys } = await import('../../src/recipe/recipe.ts');
  const entry = recipeKeys().find((one) => one.key === key)!;
  expect(entry.range.split(' | ')).toEqual(Object.keys(table));
  expect(entry.meaning).toContain(choiceHelp(table));
  for (const { label, summary } of Object.values(table)) {
    expect(label).not.toBe('');
    expect(summary).toMatch(/[^.;]$/);
  }
});

test('a table becomes Markdown with a row for each choice', () => {
  const rows = choiceTable(RATIOS).split('\n');
  expect(rows).toHaveLength(2 + Object.keys(RATIOS).length);
  expect(rows[3]).toMatch(/^\| `sequence` \| GSPO \| length-normalised ratio .* \| Zheng et al\. 2025/);
});

describe('an estimator that is added to the table', () => {
  const median: AdvantageEstimator = {
    label: 'Median',
    summary: 'reward minus the median of its group',
    paper: 'nobody, never',
    reads: 'rewards',
    estimate: (groups) =>
      groups.map(({ rewards }) => {
        const middle = rewards.toSorted((a, b) => a - b)[Math.floor(rewards.length / 2)]!;
        return rewards.map((reward) => reward - middle);
      }),
  };

  test('is in the schema, the help, the label and what it trains with', async () => {
    vi.resetModules();
    // The process is shared: other files must not see the estimator.
    onTestFinished(() => void vi.resetModules());
    const tables = await import('../../src/train/advantage.ts');
    Object.assign(tables.ADVANTAGES, { median });
    const { loadRecipe } = await import('../../src/recipe/config.ts');
    const { advantageLabel } = await import('../../src/recipe/recipe.ts');
    const { recipeHelp } = await import('../../src/commands/run-options.ts');
    const { rl } = loadRecipe('quickstart', ['rl.advantage=median']);
    expect(rl.advantage).toBe('median');
    expect(advantageLabel(rl)).toBe('Median');
    expect(recipeHelp('rl').replace(/\s+/g, ' ')).toContain('median: reward minus the median of its group');
    expect(() => loadRecipe('quickstart', ['rl.advantage=media'])).toThrow(/expected one of .*none, median/);
    const group = { rewards: [1, 0, 3], parts: [{}, {}, {}], lengths: [1, 1, 1], similarity: [0, 0, 0] };
    const [advantage] = tables.advantagesOf(
      [{ ...group, task: 'a' }],
      {
        advantage: 'median' as never,
        timerpo: { alpha: 0, projection: true, base: 'grpo', scale: 'plain' },
        weights: {},
        normalise: 'batch',
      },
      { rank: 0, gather: (values) => Float64Array.from(values), allReduce: (values) => values },
    );
    expect(advantage!.advantage).toEqual([0, -1, 2]);
    expect(Object.keys(ADVANTAGES)).not.toContain('median');
    expect(advantagesOf).not.toBe(tables.advantagesOf);
  });
});

test.each(Object.entries(documents()))('%s is what `npm run docs` writes', (path, text) => {
  expect(readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')).toBe(text);
});

test('pages list every key, choice and export', () => {
  const { 'src/recipe/README.md': recipe, 'src/API.md': api } = documents();
  for (const table of Object.values(TABLES)) {
    for (const [name, { label }] of Object.entries(table))
      expect(recipe).toContain(`| \`${name}\` | ${label} |`);
  }
  for (const name of FIGURE_NAMES) expect(recipe).toContain(`| \`${name}\` | ${FIGURES[name].summary} |`);
  for (const name of ['detect', 'openPolicy', 'rl', 'sft'])
    expect(api).toContain(`### ${name}\n\n\`\`\`ts\n${name}(`);
});
