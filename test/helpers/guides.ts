/** The README and its guides, and their commands as tests. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { inside } from './command-line.ts';

export const ROOT = resolve(import.meta.dirname, '../..');
export const page = (file: string): string => readFileSync(join(ROOT, file), 'utf8');

/** README and the guides that it links to, in the order in which their commands are run. */
export const PAGES = [
  'README.md',
  'src/README.md',
  'eval/README.md',
  'rewards/README.md',
  'datasets/README.md',
];
export const guides = PAGES.map(page).join('\n');

/** Command lines of the indented blocks, each once. */
const commands = [
  ...new Set(
    guides
      .split('\n')
      .filter((line) => /^ {4}npx timeseer/.test(line))
      .map((line) => line.replace(/ #.*/, '').trim()),
  ),
].map((line) => Array.from(line.matchAll(/"([^"]*)"|\S+/g), ([word, quoted]) => quoted ?? word).slice(2));

/** Commands that take long, and what is read of their results: `npm run soak` runs them too. */
export const LONG =
  /^(?:quickstart|report|study) |evaluations\/(?:board|reliance)|\bdata\/vta|runs\/(?:lora|grpo)|evaluations\/sampled/;

/** Output of the command whose table the README shows: it is run as it stands. */
export const BOARD = 'evaluations/board';

/** Sizes for tests, as settings of a command that begins a run. */
const TINY = ['sft.samples=32', 'sft.workers=1', 'rl.steps=1', 'rl.workers=1', 'eval.series=8'];

/** The command at a size for tests: fewer samples, steps, series and cells, one worker; nothing else is changed. */
function shortened(args: readonly string[]): string[] {
  const out = args.map((word) => (word === 'runs/quickstart' ? 'runs/mine' : word));
  const begins =
    out[0] === 'quickstart' || out[0] === 'sft' || (out[0] === 'train' && out.includes('--policy'));
  if (begins) {
    if (!out.includes('--recipe')) out.push('--recipe', 'quickstart-short');
    const stage = out[0] === 'sft' ? /^sft/ : out[0] === 'train' ? /^rl/ : /./;
    out.push(...TINY.filter((setting) => stage.test(setting)).flatMap((setting) => ['--set', setting]));
  }
  if (out[0] === 'study') out.push('--only', '*/*/seed-1');
  if (out[0] === 'eval' && !out.includes(BOARD)) {
    if (out.includes('--count')) out[out.indexOf('--count') + 1] = '8';
    else out.push('--count', '8');
    // Reasoning that is cut off cannot be changed.
    if (!out.includes('--intervene')) out.push('--max-tokens', '24');
    out.push('--workers', '1');
  }
  return out;
}

/** They change the machine, or need the network or recordings, or run until they are interrupted. */
export const ONLY_NAMED = ['setup', 'doctor', 'pull', 'serve', 'calibrate', 'adapt'];

/** Declares a test for each command of the guides that is `wanted`, run in their order in one new directory. */
export function testCommands(wanted: (command: string) => boolean): void {
  const home = process.cwd();
  let directory = '';

  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), 'readme-'));
    process.chdir(directory);
    const wave = Array.from(
      { length: 700 },
      (_, i) => Math.sin(i / 8) + (i > 300 && i < 360 ? Math.sin(i) : 0),
    );
    for (const [, name, text] of guides.matchAll(/```ts\n\/\/ (\S+)\n(.*?)```/gs))
      writeFileSync(name!, text!);
    const stamp = (i: number): string =>
      new Date(Date.UTC(2025, 2, 1) + i * 300_000).toISOString().slice(0, 16);
    const rows = wave.map((value, i) => `${stamp(i)},${value.toFixed(4)}`);
    for (const [name, part] of [
      ['my.csv', rows],
      ['last-week.csv', rows.slice(0, 412)],
      ['today.csv', rows.slice(412)],
    ] as const)
      writeFileSync(name, `time,value\n${part.join('\n')}\n`);
  });

  afterEach(() => {
    process.exitCode = undefined;
  });

  afterAll(() => {
    process.chdir(home);
    rmSync(directory, { recursive: true, force: true });
  });

  const inOrder = commands
    .filter(([name]) => !ONLY_NAMED.includes(name!))
    .map((args) => [args.join(' '), args] as const)
    .filter(([command]) => wanted(command));

  test.each(inOrder)('npx timeseer %s', async (_, args) => {
    const { code, err } = await inside(...shortened(args));
    expect(err).not.toMatch(/error:/);
    expect(code).toBe(0);
  });
}
