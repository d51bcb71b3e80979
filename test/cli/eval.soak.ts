import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { readRecords } from '../../eval/records.ts';
import { temporary } from '../helpers/temporary.ts';
import { edit, timeseer, writeTinyPolicy } from '../helpers/tiny-run.ts';

const shared = temporary('eval');
const policy = join(shared, 'policy');
const BASE = [
  'eval',
  '--policy',
  policy,
  '--length',
  '400',
  '--maxTokens',
  '12',
  '--no-classical',
  '--quiet',
];
let out = '';

beforeAll(() => writeTinyPolicy(policy));
beforeEach(() => {
  out = mkdtempSync(join(shared, 'out-'));
  rmSync(out, { recursive: true });
});
afterEach(() => rmSync(out, { recursive: true, force: true }));

describe('timeseer eval', () => {
  test('gives the same answers whatever the number of workers', async () => {
    const sampled = ['--count', '5', '--temperature', '1', '--json'];
    const one = await timeseer(...BASE, ...sampled, '--workers', '1', '--out', out);
    const alone = readFileSync(join(out, 'records.jsonl'), 'utf8');
    const three = await timeseer(...BASE, ...sampled, '--workers', '3', '--force', '--out', out);
    expect([one.code, three.code]).toEqual([0, 0]);
    expect(readFileSync(join(out, 'records.jsonl'), 'utf8')).toBe(alone);
    expect(JSON.parse(three.out).metrics).toEqual(JSON.parse(one.out).metrics);
  });

  test('compares several temperatures, names the best, and answers at each as it would alone', async () => {
    const several = ['--count', '5', '--temperature', '0,0.5,1', '--samples', '2', '--out', out];
    const { code, err, out: text } = await timeseer(...BASE, '--split', 'validation', ...several);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(text).toMatch(/\ngreedy .*\ntemperature 0\.5 .*\ntemperature 1 .*\n/);
    const { best, temperatures } = JSON.parse(readFileSync(join(out, 'metrics.json'), 'utf8'));
    const rewards = temperatures.map((one: { metrics: { overall: { reward: { mean: number } } } }) => {
      return one.metrics.overall.reward.mean;
    });
    expect(best).toBe([0, 0.5, 1][rewards.indexOf(Math.max(...rewards))]);
    expect(text).toContain(
      `best mean reward at temperature ${best}, chosen on the validation split; evaluate it with --split test --temperature ${best}\n`,
    );
    const kept = readFileSync(join(out, 'records.0.5.jsonl'), 'utf8');
    expect(readRecords(join(out, 'records.0.jsonl'))).toHaveLength(5);
    const alone = ['--count', '5', '--temperature', '0.5', '--samples', '2', '--force', '--out', out];
    expect((await timeseer(...BASE, '--split', 'validation', ...alone)).code).toBe(0);
    expect(readFileSync(join(out, 'records.jsonl'), 'utf8')).toBe(kept);
    const flattering = await timeseer(...BASE, '--count', '2', '--temperature', '0,1');
    expect(flattering.out).toContain('chosen on the test split, so its score is biased upward');
  });

  test('asks with solved training examples before each question, which makes other prompts', async () => {
    const asked = [...BASE, '--count', '2', '--force', '--out', out];
    const prompts = async (...more: string[]): Promise<number[]> => {
      const { code, err } = await timeseer(...asked, ...more);
      expect({ code, err }).toEqual({ code: 0, err: '' });
      return readRecords(join(out, 'records.jsonl')).map(({ usage }) => usage!.prompt);
    };
    const [plain, few] = [await prompts(), await prompts('--shots', '2')];
    for (const [i, tokens] of few.entries()) expect(tokens).toBeGreaterThan(2.5 * plain[i]!);
    const quiet = await timeseer(...asked, '--reasoning', 'off');
    expect(quiet).toMatchObject({ code: 2, err: expect.stringContaining('always answers with reasoning') });
    const seen = await timeseer(...asked, '--shots', '2', '--split', 'train');
    expect(seen).toMatchObject({ code: 2, err: expect.stringContaining('drawn from the training split') });
  });

  test('answers with an adapter merged into the policy, which is another policy to a resumed evaluation', async () => {
    const golden = resolve(import.meta.dirname, '../golden');
    const base = join(out, 'base');
    cpSync(join(golden, 'qwen'), base, { recursive: true });
    edit(join(base, 'config.json'), (text) => text.replace(/("max_position_embeddings":) \d+/g, '$1 4096'));
    const answers = async (to: string, ...more: string[]): Promise<string[]> => {
      const asked = [
        '--policy',
        base,
        '--count',
        '1',
        '--length',
        '200',
        '--max-tokens',
        '4',
        '--no-classical',
      ];
      const { code, err } = await timeseer('eval', ...asked, '--quiet', '--out', join(out, to), ...more);
      if (code !== 0) return [err];
      return readRecords(join(out, to, 'records.jsonl')).map(({ response }) => response);
    };
    const plain = await answers('plain');
    expect(plain).toHaveLength(1);
    const adapter = ['--adapter', join(golden, 'peft')];
    expect(await answers('adapted', ...adapter)).not.toEqual(plain);
    expect(await answers('plain', '--resume', ...adapter)).toEqual([
      expect.stringMatching(/other settings: policy\.adapter \(was nothing, is /),
    ]);
    expect(await answers('none', '--adapter', base)).toEqual([expect.stringContaining('no adapter there')]);
  });
});
