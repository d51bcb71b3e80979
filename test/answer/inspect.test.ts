import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { AnomalyReport } from '../../src/explain/schema.ts';
import type { EvalRecord } from '../../src/ground/types.ts';
import { body, ChatServer, says } from '../helpers/chat-server.ts';
import { timeseer } from '../helpers/tiny-run.ts';

const server = new ChatServer();
const directory = mkdtempSync(join(tmpdir(), 'timeseer-inspector-'));
beforeAll(() => server.start());
beforeEach(() => {
  server.calls.length = 0;
  server.next.length = 0;
});
afterAll(async () => {
  await server.stop();
  rmSync(directory, { recursive: true, force: true });
});

let runs = 0;
/** Evaluates the endpoint on one series of 3000 points; returns its record. */
async function inspect(...more: string[]) {
  const out = join(directory, String(++runs));
  const policy = `openai:model@${server.url}`;
  const asked = ['--task', 'wild', '--length', '3000', '--count', '1', '--no-classical', '--attempts', '1'];
  const ending = await timeseer('eval', '--policy', policy, ...asked, '--out', out, '--inspect', ...more);
  const [line] = readFileSync(join(out, 'records.jsonl'), 'utf8').trim().split('\n');
  return { ...ending, record: JSON.parse(line!) as EvalRecord };
}
const ANSWER = '<think>a shift</think><answer>[[1000, 1200]]</answer><class>trend</class>';

describe('an endpoint that inspects', () => {
  test('sees what it asked for as turns of the user, and answers in samples of the series', async () => {
    server.next.push(says('Let me look. <tool>zoom 2 3</tool>'), says('<tool>stats</tool>'), says(ANSWER));
    const { code, record } = await inspect();
    expect(code).toBe(0);
    expect(record.response).toBe(ANSWER.replace('[[1000, 1200]]', '[[1000,1200]]'));
    expect(record.answer).toMatchObject({ intervals: [[1000, 1200]], class: 'trend', wellFormed: true });
    expect(record.usage).toEqual({ prompt: 210, completion: 9, turns: 3 });
    const [first, second, third] = server.calls.map(({ body: { messages } }) => messages);
    expect(first.map(({ role }: { role: string }) => role)).toEqual(['user']);
    expect(first[0].content[1].text).toMatch(/<tool>zoom LEVEL PLACE<\/tool>: a window/);
    expect(second.map(({ role }: { role: string }) => role)).toEqual(['user', 'assistant', 'user']);
    expect(second[2].content.map(({ type }: { type: string }) => type)).toEqual(['image_url', 'text']);
    expect(third[4].content).toEqual([
      { type: 'text', text: expect.stringMatching(/^level \d+; spread \d+; 4 left$/) },
    ]);
  });

  test('that calls two tools at once, or one that is not there, is told and goes on', async () => {
    server.next.push(
      says('<tool>zoom 1 0</tool><tool>stats</tool>'),
      says('<tool>dance</tool>'),
      says(ANSWER),
    );
    const { record } = await inspect();
    const told = server.calls.slice(1).map(({ body: { messages } }) => messages.at(-1).content.at(-1).text);
    expect(told).toEqual(['failed: two calls at once; 5 left', 'failed: no tool dance; 4 left']);
    expect(record.answer.intervals).toEqual([[1000, 1200]]);
  });

  test('that ignores the tools has its first response as the answer', async () => {
    server.next.push(says(ANSWER));
    const { record } = await inspect();
    expect(server.calls).toHaveLength(1);
    expect(record.answer.intervals).toEqual([[1000, 1200]]);
  });

  test('that only calls tools ends without an answer after six responses', async () => {
    server.usual = says('<tool>zoom 1 1</tool>');
    const { record } = await inspect();
    server.usual = says('yes');
    expect(server.calls).toHaveLength(6);
    expect(record).toMatchObject({ response: '', answer: { intervals: null } });
    expect(record.failure).toBeUndefined();
  });

  test('that breaks off in the middle of an episode is a missing response, requested again by --resume', async () => {
    server.next.push(says('<tool>zoom 1 0</tool>'), body('broken', 400));
    const { code, record } = await inspect();
    expect(code).not.toBe(0);
    expect(record.failure).toMatch(/400/);
  });
});

test.each([['--shots', '2'], ['--intervene'], ['--input', 'numbers']])(
  '%s is refused with --inspect',
  async (...more) => {
    const asked = ['--task', 'wild', '--count', '1', '--no-classical', '--inspect', ...more];
    const { code, err } = await timeseer('eval', '--policy', `openai:model@${server.url}`, ...asked);
    expect(code).not.toBe(0);
    expect(err).toMatch(/inspect/);
  },
);

describe('explain --inspect', () => {
  const samples = Array.from(
    { length: 3000 },
    (_, i) =>
      `${new Date(Date.UTC(2025, 2, 1) + i * 300_000).toISOString()},${(50 + 5 * Math.sin(i / 40) + (i >= 1000 && i < 1200 ? 30 : 0)).toFixed(2)}`,
  );
  const file = join(directory, 'long.csv');
  const explain = (...more: string[]) =>
    timeseer(
      'explain',
      file,
      '--policy',
      `openai:model@${server.url}`,
      '--out',
      join(directory, 'page'),
      ...more,
    );
  beforeAll(() => writeFileSync(file, `time,load\n${samples.join('\n')}\n`));

  test('shows where the policy looked, turn by turn, with the pictures that it saw', async () => {
    server.next.push(says('<tool>zoom 2 2</tool>'), says('<tool>fly</tool>'), says(ANSWER));
    const { code, err } = await explain('--inspect');
    expect(err).not.toMatch(/error/);
    expect(code).toBe(0);
    const report = JSON.parse(readFileSync(join(directory, 'page.json'), 'utf8')) as AnomalyReport;
    const [column] = report.policy!.columns;
    expect(column).toMatchObject({
      status: 'answers',
      window: null,
      intervals: [{ start: 1000, end: 1200 }],
    });
    expect(column!.answers.map(({ start, end, problem }) => [start, end, problem])).toEqual([
      [0, 3000, null],
      [750, 1500, 'no tool fly'],
      [750, 1500, null],
    ]);
    expect(report.findings[0]).toMatchObject({ markedByPolicy: true });
    const page = readFileSync(join(directory, 'page.html'), 'utf8');
    expect(page.match(/Turn \d: samples [\d\u202f]+ to [\d\u202f]+/g)).toHaveLength(3);
    expect(page.match(/as the policy sees it/g)!.length).toBeGreaterThanOrEqual(2);
  });

  test('refuses what cannot look closer, and windows, which the policy chooses', async () => {
    expect(await explain('--inspect', '--overlap', '0.2')).toMatchObject({
      code: 2,
      err: expect.stringMatching(/--overlap: a policy that looks closer chooses its windows/),
    });
    const small = await timeseer('explain', file, '--policy', 'small', '--inspect');
    expect(small).toMatchObject({ code: 2, err: expect.stringMatching(/was not trained to look closer/) });
    const baseline = await timeseer('explain', file, '--policy', 'baseline:zscore', '--inspect');
    expect(baseline).toMatchObject({ code: 2, err: expect.stringMatching(/sees no pictures/) });
  });

  test('an endpoint that fails ends it with an error, and writes nothing', async () => {
    rmSync(join(directory, 'page.html'), { force: true });
    server.next.push(body('no such model', 400));
    const { code, err } = await explain('--inspect');
    expect(code).toBe(3);
    expect(err).toMatch(/openai:model@.*400/s);
    expect(existsSync(join(directory, 'page.html'))).toBe(false);
  });
});
