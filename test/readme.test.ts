import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { COMMANDS } from '../src/cli.ts';
import { inside } from './helpers/command-line.ts';
import { guides, LONG, ONLY_NAMED, PAGES, page, ROOT, testCommands } from './helpers/guides.ts';

const readme = page('README.md');
const scripts = JSON.parse(page('package.json')).scripts as object;

test('every npm script that the guides name exists', () => {
  const named = [...guides.matchAll(/npm run ([a-z]+)/g)].map((match) => match[1]!);
  expect(named).toContain('quickstart');
  for (const name of named) expect(scripts).toHaveProperty(name);
});

test('every relative link of the README and its guides leads to a file', () => {
  for (const file of PAGES) {
    for (const [, link] of page(file).matchAll(/\]\((?!https?:|#)([^)#]+)/g)) {
      expect(existsSync(resolve(ROOT, dirname(file), link!)), `${file}: ${link}`).toBe(true);
    }
  }
});

test(`the README names every command, and the guides show all but ${ONLY_NAMED.join(', ')}`, () => {
  // test/rewards runs those of the guide to rewards.
  const shown = new Set([...guides.matchAll(/^ *(?:npx )?timeseer ([a-z]+)/gm)].map(([, name]) => name));
  for (const name of Object.keys(COMMANDS)) {
    expect(readme).toMatch(new RegExp(`^\\| .*\`${name}\``, 'm'));
    if (!ONLY_NAMED.includes(name)) expect(shown).toContain(name);
  }
});

test('the commands in shell blocks, which need servers, have options that exist', async () => {
  const blocks = [...guides.matchAll(/```sh\n(.*?)```/gs)].map(([, block]) => block!.replaceAll('\\\n', ' '));
  const lines = blocks.flatMap((block) => [
    ...block.matchAll(/(?:^|npx )timeseer ([a-z]+(?: [a-z]+\b)?)(.*)$/gm),
  ]);
  expect(lines.length).toBeGreaterThan(5);
  for (const [, command, rest] of lines) {
    const { out } = await inside(...command!.split(' '), '--help');
    for (const [option] of rest!.matchAll(/--[a-z-]+/g)) expect(out).toMatch(new RegExp(`\\s${option}\\s`));
  }
});

test('the README has at most 1500 words', () => {
  expect(readme.split(/\s+/).length).toBeLessThanOrEqual(1500);
});

testCommands((command) => !LONG.test(command));
