import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { temporary } from '../helpers/temporary.ts';
import { Child, edit, lineCount, timeseer, until } from '../helpers/tiny-run.ts';
import { writeTinyStudy } from '../helpers/tiny-study.ts';
import { broken, differences } from './harness.ts';

const shared = temporary('kill-study');
const whole = join(shared, 'whole');
let study = '';
const command = (out: string): string[] => ['study', study, '--out', out, '--resume', '--quiet'];

beforeAll(async () => {
  study = writeTinyStudy(shared);
  expect(await timeseer(...command(whole))).toMatchObject({ code: 0, err: '' });
});

/** A file of JSON without what a clock measured, and without the place of the study. */
function timeless(directory: string, name: string): unknown {
  const text = readFileSync(join(directory, name), 'utf8').replaceAll(directory, 'DIR');
  return JSON.parse(text, (key, value) => (key === 'seconds' || key === 'command' ? null : value));
}

/** The ticket of a process that was killed after it had finished a run: nobody works on that run again, who would remove it. */
const TICKET = /\/\.lock\.[^/]*$/;

/** Files with seconds, or with the path of the start. */
const TIMED = /(?:^|\/)(?:[a-z]+\.)?study\.json$|(?:recipe|environment)\.json$/;

function expectSame(out: string): void {
  const names = readdirSync(whole, { recursive: true }).map(String);
  for (const name of names.filter((one) => TIMED.test(one) && !one.endsWith('environment.json'))) {
    expect([name, timeless(out, name)]).toEqual([name, timeless(whole, name)]);
  }
  const other = differences(whole, out).filter(
    (name) => !TIMED.test(name) && !TICKET.test(name) && !/^study\.(?:md|html)$/.test(name),
  );
  expect(other).toEqual([]);
}

describe('killed and resumed, a study is the unbroken one', { timeout: 400_000 }, () => {
  test('while it begins, trains, prunes, finishes a run, and at any time', async () => {
    const out = join(shared, 'killed');
    const kills = [
      'main renameSync 1 study\\.yaml$',
      'worker renameSync 1 checkpoint$',
      'main rmSync 1 checkpoint$',
      'main renameSync 2 rl\\.study\\.json$',
      1500 + 1500 * Math.random(),
    ];
    const stage = { out, begin: command(out), resume: command(out) };
    expect(await broken(stage, kills)).toBeGreaterThanOrEqual(3);
    expectSame(out);
  });

  test('and one that is stopped says what goes on, and leaves no lock', async () => {
    const out = join(shared, 'stopped');
    edit(study, (text) => text.replace('sft.samples: 40', 'sft.samples: 4000000'));
    const child = new Child(command(out).filter((word) => word !== '--quiet'));
    await until(() => lineCount(join(out, 'nano5/start/seed-1/sft/metrics.jsonl')) > 1);
    child.process.kill('SIGINT');
    const { code, err } = await child.ended;
    expect(code).toBe(130);
    expect(err).toContain(`resume with: timeseer study ${study} --out ${out} --resume`);
    expect(readdirSync(out, { recursive: true }).filter((name) => String(name).includes('.lock'))).toEqual(
      [],
    );
  });
});
