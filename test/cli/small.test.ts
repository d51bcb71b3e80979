/** The policy of the package itself: it finds what is obvious, and its confidences can be fitted again. */
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { CONFIDENCE_FILE } from '../../src/explain/confidence.ts';
import { REPORT } from '../../src/explain/schema.ts';
import { policiesDirectory } from '../../src/ground/paths.ts';
import { Random } from '../../src/ground/random.ts';
import type { Interval } from '../../src/ground/types.ts';
import { parseDims } from '../../src/policy/model-config.ts';
import { Policy, readParts } from '../../src/policy/policy.ts';
import { inside } from '../helpers/command-line.ts';
import { OBVIOUS, writeObvious } from '../helpers/obvious.ts';
import { temporary } from '../helpers/temporary.ts';

const root = temporary('small');

const small = join(policiesDirectory(), 'small');

const table = join(root, 'obvious.csv');
beforeAll(() => writeObvious(table));

/** Share of the union of two intervals that both cover. */
function overlapOverUnion(a: Interval, b: Interval): number {
  const common = Math.max(0, Math.min(a[1], b[1]) - Math.max(a[0], b[0]));
  return common / (a[1] - a[0] + b[1] - b[0] - common);
}

/** Names of the series in which a policy marks the change and little else. */
async function found(policy: string): Promise<string[]> {
  const out = join(root, 'report');
  expect((await inside('explain', table, '--policy', policy, '--out', out)).code).toBe(0);
  const { policy: answers } = REPORT.parse(JSON.parse(readFileSync(`${out}.json`, 'utf8')));
  return Object.entries(OBVIOUS).flatMap(([name, { truth }]) => {
    const { intervals } = answers!.columns.find(({ column }) => column === name)!;
    const hit = intervals.some(({ start, end }) => overlapOverUnion([start, end], truth) >= 0.5);
    return hit && intervals.length <= 2 ? [name] : [];
  });
}

test('looks closer at a long series with --inspect, where a single picture hides what is there', async () => {
  const random = new Random(7, 'long');
  const values = Array.from({ length: 20_000 }, (_, t) => Math.sin(t / 40) + 0.1 * random.normal());
  for (let t = 12_300; t < 12_330; t++) values[t]! = 0.9;
  const long = join(root, 'long.csv');
  writeFileSync(long, `load\n${values.join('\n')}\n`);
  const out = join(root, 'long');
  expect((await inside('explain', long, '--inspect', '--out', out)).code).toBe(0);
  const { policy } = REPORT.parse(JSON.parse(readFileSync(`${out}.json`, 'utf8')));
  const { answers, intervals } = policy!.columns[0]!;
  expect(policy!.name).toBe('inspect');
  // The whole, then a window around what was put there, which is marked there.
  expect(answers[0]).toMatchObject({ start: 0, end: 20_000 });
  expect(answers.slice(1).some(({ start, end }) => start < 12_300 && end > 12_330)).toBe(true);
  expect(intervals).toHaveLength(1);
  expect(intervals[0]!.start).toBeGreaterThan(12_200);
  expect(intervals[0]!.end).toBeLessThan(12_400);
});

test('marks obvious changes at their place, which random weights of its shape do not', async () => {
  expect((await found('small')).length).toBeGreaterThanOrEqual(5);
  const random = join(root, 'random');
  const { config, tokenizer } = readParts(small);
  const policy = Policy.create(openTorch({ threads: 1 }), {
    tokenizer,
    seed: 1,
    dims: () => parseDims(config, 'config.json'),
  });
  policy.write(random);
  policy.dispose();
  for (const name of ['timeseer.json', CONFIDENCE_FILE]) cpSync(join(small, name), join(random, name));
  expect((await found(random)).length).toBeLessThanOrEqual(1);
});
