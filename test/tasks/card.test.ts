import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { CheckpointError, ConfigError } from '../../src/ground/errors.ts';
import {
  CARD_FILE,
  checkedCard,
  FOREIGN_CARD,
  type PolicyCard,
  readCard,
  writeCard,
} from '../../src/tasks/card.ts';

const CARD: PolicyCard = {
  version: 1,
  style: 'nano',
  figure: 'nano',
  length: 250,
  kind: 'anomaly',
  task: 'nano5',
  channels: 1,
  numbers: null,
  classes: ['trend', 'normal'],
  limitations: [],
  stage: 'sft',
};

let directory = '';
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'timeseer-card-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

test('a card is read as it was written', () => {
  writeCard(directory, CARD);
  expect(readCard(directory)).toEqual(CARD);
  writeCard(directory, { ...CARD, length: null, stage: 'rl' });
  expect(readCard(directory)).toEqual({ ...CARD, length: null, stage: 'rl' });
});

test('a policy without a card is asked as a foreign checkpoint', () => {
  expect(readCard(directory)).toEqual(FOREIGN_CARD);
  expect(FOREIGN_CARD.style).toBe('full');
});

test('a policy is not trained on data that its card could not hold', () => {
  expect(checkedCard(CARD)).toEqual(CARD);
  expect(() => checkedCard({ ...CARD, length: 2e6 })).toThrow(ConfigError);
  expect(() => checkedCard({ ...CARD, length: 2e6 })).toThrow(/be trained on these data: length: /);
});

test('a card that asks for too much is refused by the key', () => {
  writeFileSync(join(directory, CARD_FILE), JSON.stringify({ ...CARD, length: 1e9 }));
  expect(() => readCard(directory)).toThrow(/timeseer\.json: .*\(length: .*1000000/);
});

test.each([
  ['a truncated file', '{"version": 1, "style"'],
  ['a newer version', JSON.stringify({ ...CARD, version: 2 })],
  ['an unknown key', JSON.stringify({ ...CARD, colour: 'blue' })],
  ['an unknown class', JSON.stringify({ ...CARD, classes: ['odd'] })],
  ['no class', JSON.stringify({ ...CARD, classes: [] })],
  ['a length of a billion points', JSON.stringify({ ...CARD, length: 1e9 })],
  ['a billion channels', JSON.stringify({ ...CARD, channels: 1e9 })],
  ['a billion numbers', JSON.stringify({ ...CARD, numbers: { digits: 3, points: 1e9 } })],
  [
    'a class of a million letters',
    JSON.stringify({ ...CARD, kind: 'classification', classes: ['a'.repeat(1e6)] }),
  ],
  ['a length of one point', JSON.stringify({ ...CARD, length: 1 })],
  ['a missing key', JSON.stringify({ ...CARD, figure: undefined })],
])('%s is refused, naming the file and what to do', (_name, text) => {
  writeFileSync(join(directory, CARD_FILE), text);
  expect(() => readCard(directory)).toThrow(CheckpointError);
  expect(() => readCard(directory)).toThrow(/timeseer\.json: not a policy card.*train again/);
});
