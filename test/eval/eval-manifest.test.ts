import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { checkResults, openManifest, writeManifest } from '../../eval/eval-manifest.ts';
import { OWNER } from '../../src/ground/files.ts';

let out = '';
beforeEach(() => {
  out = mkdtempSync(join(tmpdir(), 'eval-manifest-'));
});
afterEach(() => rmSync(out, { recursive: true, force: true }));

const PLAIN = { resume: false, force: false };
const RESUME = { resume: true, force: false };
const FORCE = { resume: false, force: true };
/** This process id, of a process that started before any. */
const gone = OWNER.replace(/\d+$/, '1');
const write = (name: string): void => {
  mkdirSync(dirname(join(out, name)), { recursive: true });
  writeFileSync(join(out, name), '{}\n');
};

describe('the directory of an evaluation of several policies', () => {
  test('takes another one where the first was killed before its first answer', () => {
    const cell = join(out, 'nano5', 'baseline_zscore');
    write(`nano5/baseline_zscore/.eval.json.${gone}.1a.tmp`);
    write(`.metrics.json.${gone}.1b.tmp`);
    for (const beginning of [PLAIN, RESUME, FORCE]) checkResults(out, beginning, true);
    expect(readdirSync(out)).toEqual(['nano5']);
    expect(openManifest(cell, {}, RESUME)).toBeNull();
    expect(readdirSync(cell)).toEqual([]);
  });

  test('with answers is resumed or replaced on request alone', () => {
    write('nano5/killed/.records.jsonl.1-1-1.a.tmp');
    writeManifest(join(out, 'nano5', 'answered'), { policy: 'a' }, { seconds: 3, code: undefined });
    for (const beginning of [RESUME, FORCE]) checkResults(out, beginning, true);
    expect(() => checkResults(out, PLAIN, true)).toThrow(/holds an evaluation; add --resume to continue it/);
  });

  test.each([
    ['a file of others', 'notes.txt', /holds notes\.txt, which is not part of an evaluation/],
    ['a file beside the policies', 'nano5/notes.txt', /holds nano5, which is not/],
    ['files of others in place of a policy', 'nano5/mine/notes.txt', /holds nano5, which is not/],
    ['the evaluation of one policy', 'eval.json', /holds the evaluation of one policy on one task/],
  ])('refuses %s', (_, name, message) => {
    write(name);
    for (const beginning of [PLAIN, RESUME, FORCE]) {
      expect(() => checkResults(out, beginning, true)).toThrow(message);
    }
  });
});
