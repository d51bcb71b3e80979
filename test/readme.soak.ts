import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { BOARD, page, testCommands } from './helpers/guides.ts';

testCommands(() => true);

test('the leaderboard in the guide to evaluation is what its command has written', () => {
  const [table] = readFileSync(join(BOARD, 'leaderboard.md'), 'utf8').match(/(?:^\|.*\n)+/m)!;
  const cells = (text: string): string[][] =>
    text
      .trim()
      .split('\n')
      .map((row) => row.split('|').map((cell) => cell.trim().replace(/-{3,}/, '---')));
  expect(cells(page('eval/README.md').match(/it begins with\n\n((?:\|.*\n)+)/)![1]!)).toEqual(cells(table));
});
