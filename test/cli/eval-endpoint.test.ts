import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { readRecords } from '../../eval/records.ts';
import type { ChatMessage } from '../../src/endpoint/chat.ts';
import { ChatServer, json, type Reply, says } from '../helpers/chat-server.ts';
import { decodePng } from '../helpers/png.ts';
import { listing, timeseer, until } from '../helpers/tiny-run.ts';

/** The text of a message, and its pictures. */
function partsOf({ content }: ChatMessage): { readonly text: string; readonly pictures: readonly string[] } {
  if (typeof content === 'string') return { text: content, pictures: [] };
  return {
    text: content.flatMap((part) => (part.type === 'text' ? part.text : [])).join(''),
    pictures: content.flatMap((part) => (part.type === 'image_url' ? part.image_url.url : [])),
  };
}

const fails = (status: number, message: string): Reply => json({ error: { message } }, status);
/** No answer while the connection stands. */
const waits: Reply = () => {};
const ANSWER = '<think>flat</think><answer>[[20, 40]]</answer><class>trend</class>';
let root = '';
let out = '';
let server: ChatServer;
let policy = '';
let asked: string[] = [];
beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), 'eval-endpoint-'));
  out = join(root, 'out');
  server = new ChatServer();
  server.usual = says(ANSWER);
  await server.start();
  policy = `openai:tiny:7b@${server.url}`;
  asked = ['eval', '--policy', policy, '--count', '6', '--length', '200', '--no-classical', '--quiet'];
  asked.push('--attempts', '1', '--out', out);
});
afterEach(async () => {
  await server.stop();
  rmSync(root, { recursive: true, force: true });
});

const file = (): string => join(out, 'records.jsonl');
/** What tells a question from another: its picture. */
const pictureOf = ({ body: { messages } }: { body: { messages: ChatMessage[] } }): string =>
  partsOf(messages.at(-1)!).pictures[0]!;

describe('a policy behind an endpoint', () => {
  test('is asked with the picture of each example, and its answers are counted and priced', async () => {
    const { code, err, out: text } = await timeseer(...asked, '--prices', '2,10', '--max-tokens', '50');
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(text).toMatch(
      /^responses: 6 of 6; 3\.0 completion and 70\.0 prompt tokens each; .* total cost 0\.0010$/m,
    );
    expect(server.calls).toHaveLength(6);
    expect(server.calls[0]!.body).toMatchObject({ model: 'tiny:7b', temperature: 0, max_tokens: 50 });
    const [, png] = /^data:image\/png;base64,(.+)$/.exec(pictureOf(server.calls[0]!))!;
    expect(decodePng(Buffer.from(png!, 'base64')).width).toBeGreaterThan(100);
    expect(new Set(server.calls.map(pictureOf)).size).toBe(6);
    expect(partsOf(server.calls[0]!.body.messages[0]!).text).toMatch(
      /one time series of 200 points.*<think>/s,
    );
    const records = readRecords(file());
    expect(records.map(({ seriesId }) => seriesId)).toEqual([0, 1, 2, 3, 4, 5].map((i) => `nano5/test/${i}`));
    for (const { response, usage, cost, seconds } of records) {
      expect({ response, usage, cost }).toEqual({
        response: ANSWER,
        usage: { prompt: 70, completion: 3 },
        cost: 0.00017,
      });
      expect(seconds).toBeGreaterThan(0);
    }
    const { responses, prompt } = JSON.parse(readFileSync(join(out, 'metrics.json'), 'utf8'));
    expect({ prompt, ...responses }).toMatchObject({ prompt: null, asked: 6, missing: 0 });
  });

  test('continues from changed reasonings where the server continues the last message', async () => {
    const thinks = [
      'scan ..(#)...............; swings faster; sine wave',
      'scan ...........().......; shift up 60; noise',
    ];
    const answers = [
      '<answer>[[20, 40]]</answer><class>seasonal</class>',
      '<answer>[[110, 130]]</answer><class>global point</class>',
    ];
    let questions = 0;
    server.usual = (response, call) => {
      const last: ChatMessage = call.body.messages.at(-1);
      if (last.role === 'user') {
        const k = questions++ % 2;
        says(`<think>${thinks[k]}</think>${answers[k]}`)(response, call);
        return;
      }
      expect(call.body).toMatchObject({ continue_final_message: true, add_generation_prompt: false });
      says(answers[String(last.content).includes('shift') ? 1 : 0]!)(response, call);
    };
    const { code, err, out: text } = await timeseer(...asked, '--intervene', '--concurrency', '1');
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(text).toMatch(/^corrupted kind +6 +1\.000 /m);
    const { reliance } = JSON.parse(readFileSync(join(out, 'metrics.json'), 'utf8'));
    expect(reliance.corrupted.followsClass).toMatchObject({ mean: 1, n: 6 });
    expect(reliance.moved).toMatchObject({ followsClass: null, followsIntervals: { mean: 0 } });
    const continued = readRecords(join(out, 'interventions', 'records.jsonl'));
    const sizes = Object.values(reliance).map((effect) => (effect as { n: number } | null)?.n ?? 0);
    expect(continued).toHaveLength(sizes.reduce((sum, n) => sum + n, 0));
    // Requests wait for their pictures, so the series that gets the first reasoning is not always the same.
    expect(continued.map(({ response }) => response)).toContain(
      `<think>${thinks[0]!.replace('swings faster', 'shift up 60')}</think>${answers[1]}`,
    );
    // Everything is there: no request is sent again.
    const calls = server.calls.length;
    const again = await timeseer(...asked, '--intervene', '--resume');
    expect([again.code, again.err]).toEqual([0, '']);
    expect(server.calls).toHaveLength(calls);
    await timeseer(...asked, '--resume');
    expect(JSON.parse(readFileSync(join(out, 'metrics.json'), 'utf8')).reliance).toEqual(reliance);
  });

  test('says what is wrong where the server starts a response of its own', async () => {
    const { code, err } = await timeseer(...asked, '--intervene');
    expect(code).toBe(3);
    expect(err).toMatch(/responses are missing.*does not continue the last message.*vLLM/s);
    expect(JSON.parse(readFileSync(join(out, 'metrics.json'), 'utf8')).reliance.other_class).toBeNull();
  });

  test.each([
    [2, ['--temperature', '0.7'], /--intervene: edits greedy responses, and --temperature has no 0/],
    [3, ['--reasoning', 'off'], /has reasoning between <think> and <\/think>/],
  ])('ends with code %i given %j, which leaves nothing to change', async (expected, more, message) => {
    server.usual = says('<answer>[]</answer><class>normal</class>');
    const { code, err } = await timeseer(...asked, '--intervene', ...more);
    expect(code).toBe(expected);
    expect(err).toMatch(message);
  });

  test('answers questions of a prepared set, each with its own words', async () => {
    const rows = Array.from({ length: 5 }, (_, i) => ({
      ...{ question: `Is ${i} above 1?`, options: ['yes', 'no'], answer: i > 1 ? 'yes' : 'no' },
      ...{ series: [i, i + 1, i], category: i % 2 === 0 ? 'even' : 'odd', split: 'test' },
    }));
    const source = join(root, 'questions.json');
    writeFileSync(source, JSON.stringify(rows));
    const data = join(root, 'qa');
    const prepared = await timeseer('data', 'prepare', 'qa', '--from', source, '--out', data, '--no-figures');
    expect(prepared.code).toBe(0);
    server.usual = says('<think>it is</think><answer>(A) yes</answer>');
    const given = ['eval', '--policy', policy, '--task', data, '--no-classical', '--quiet', '--out', out];
    const { code, out: text } = await timeseer(...given);
    expect(code).toBe(0);
    expect(text).toMatch(/^ +format +readable +accuracy +chance +reward +n$/m);
    expect(text).toMatch(/^all series +0\.000 .* 1\.000 +0\.600 .* 0\.500 /m);
    expect(text).toMatch(/^ +odd .* 2$/m);
    const asked = server.calls.map(({ body: { messages } }) => partsOf(messages.at(-1)!).text);
    expect(new Set(asked).size).toBe(5);
    expect(asked[0]).toMatch(/Question: Is \d above 1\?\nThe options are:\nA\) yes\nB\) no\n/);
  });

  test('that fails for some examples leaves them missing, says so, and is asked for them alone again', async () => {
    server.next.push(...[0, 1, 2, 3, 4, 5].map((i) => (i % 3 === 0 ? fails(400, 'too hot') : says(ANSWER))));
    const first = await timeseer(...asked, '--concurrency', '1');
    expect(first.code).toBe(3);
    expect(first.err).toMatch(
      /^error: 2 of 6 responses are missing and are left out of the means \(first: nano5\/test\/\d: .*status 400: too hot.*--resume to request only the missing ones\n$/,
    );
    expect(first.out).toMatch(/^all series .* 4$/m);
    const failed = readRecords(file()).filter(({ failure }) => failure !== undefined);
    expect(failed.map(({ response, answer }) => [response, answer.wellFormed])).toEqual([
      ['', false],
      ['', false],
    ]);
    const second = await timeseer(...asked, '--resume');
    expect({ code: second.code, err: second.err }).toEqual({ code: 0, err: '' });
    expect(server.calls).toHaveLength(8);
    expect(new Set(server.calls.map(pictureOf)).size).toBe(6);
  });

  test('that is interrupted keeps its answers, and repeats no call', async () => {
    server.next.push(...Array.from({ length: 4 }, () => says(ANSWER)));
    server.usual = waits;
    const waiting = process.listenerCount('SIGINT');
    const running = timeseer(...asked, '--concurrency', '2');
    await until(() => server.calls.length === 6 && process.listenerCount('SIGINT') > waiting);
    process.emit('SIGINT');
    expect(await running).toMatchObject({ code: 130, err: expect.stringContaining('stopped on request') });
    const answered = new Set(server.calls.slice(0, 4).map(pictureOf));
    expect(readFileSync(file(), 'utf8').trimEnd().split('\n')).toHaveLength(4);
    server.usual = says(ANSWER);
    expect((await timeseer(...asked, '--resume')).code).toBe(0);
    const again = server.calls.slice(6);
    expect(again).toHaveLength(2);
    expect(again.some((body) => answered.has(pictureOf(body)))).toBe(false);
    expect(readRecords(file())).toHaveLength(6);
  });

  test('samples with seeds of its own for each response, the same in every run', async () => {
    const seeds = async (to: string, ...more: string[]): Promise<number[]> => {
      server.calls.length = 0;
      const sampled = [
        '--temperature',
        '0.9',
        '--samples',
        '2',
        '--count',
        '2',
        '--length',
        '200',
        '--no-classical',
      ];
      const { code } = await timeseer(
        ...['eval', '--policy', policy, ...sampled, '--quiet', '--out', join(root, to), ...more],
      );
      expect(code).toBe(0);
      return server.calls.map(({ body }) => body.seed as number).sort();
    };
    const one = await seeds('a');
    expect(new Set(one).size).toBe(4);
    expect(await seeds('b')).toEqual(one);
    expect(await seeds('c', '--seed', '43')).not.toEqual(one);
    const clockless = (name: string) =>
      readFileSync(join(root, name, 'records.jsonl'), 'utf8').replace(/"seconds":[\d.e-]+/g, '');
    expect(clockless('b')).toBe(clockless('a'));
  });

  test('has solved training examples before each question; without reasoning the form is the answer alone', async () => {
    server.usual = says('<answer>[[20, 40]]</answer><class>trend</class>');
    const { code, out: text } = await timeseer(...asked, '--shots', '3', '--reasoning', 'off');
    expect(code).toBe(0);
    expect(text).toMatch(/^all series +1\.000 /m); // the format
    const { messages } = server.calls[0]!.body as { messages: ChatMessage[] };
    expect(messages.map(({ role }) => role)).toEqual([
      ...Array(3).fill(['user', 'assistant']).flat(),
      'user',
    ]);
    const pictures = messages.flatMap((one) => partsOf(one).pictures);
    expect(new Set(pictures).size).toBe(4);
    for (const one of messages.filter(({ role }) => role === 'assistant')) {
      expect(one.content).toMatch(/^<answer>\[.*\]<\/answer><class>[a-z ]+<\/class>$/);
    }
    expect(partsOf(messages[0]!).text).toMatch(/without any reasoning\. Give the intervals/);
  });
});

describe('an endpoint that cannot be used', () => {
  test('ends the evaluation at once, with nothing written: it is not there, or takes no pictures', async () => {
    await server.stop();
    const down = await timeseer(...asked);
    expect(down.code).toBe(3);
    expect(down.err).toMatch(/^error: no response to any question .*127\.0\.0\.1.*\n$/);
    expect(listing(out)).toEqual([]);
    await server.start();
    server.usual = fails(400, 'this model takes no image input');
    const blind = asked.map((one) => (one === policy ? `openai:text@${server.url}` : one));
    const refused = await timeseer(...blind, '--concurrency', '2');
    expect(refused.err).toMatch(/refuses pictures.*numbers/);
    expect(server.calls.length).toBeLessThanOrEqual(3);
    expect(existsSync(file())).toBe(false);
  });

  test('that closes the connection, and a module that throws, are reported with one way out', async () => {
    server.usual = (response) => void response.destroy();
    const { err } = await timeseer(...asked);
    expect(err).toMatch(/ broke \(.*\)\); check the endpoint, then run the command again with --resume\n$/);
    const mine = join(root, 'mine.mjs');
    writeFileSync(mine, "export default { name: 'mine', detect() { throw new Error('no'); } };\n");
    const own = asked.map((one) => (one === policy ? mine : one));
    const { err: thrown } = await timeseer(...own);
    expect(thrown).toMatch(
      /: detect of mine: threw Error: no\); correct .*mine\.mjs, then run the command again with --force\n$/,
    );
  });

  test('is given up after many failures in a row, and what came before is kept', async () => {
    server.next.push(...Array.from({ length: 5 }, () => says(ANSWER)));
    server.usual = fails(400, 'out of order');
    const many = asked.map((one, i) => (asked[i - 1] === '--count' ? '60' : one));
    const { code, err } = await timeseer(...many, '--concurrency', '1');
    expect(code).toBe(3);
    expect(err).toMatch(
      /^error: 55 of 60 responses are missing.*16 requests in a row have failed.*out of order/,
    );
    expect(server.calls.length).toBeLessThan(25);
    expect(readRecords(file()).filter(({ failure }) => failure === undefined)).toHaveLength(5);
  });

  test.each([
    [['--policy', 'openai:@http://localhost:1/v1'], /names no model; expected openai:MODEL@URL/],
    [
      ['--policy', 'openai:m@http://localhost:1/v1', '--prices', '3'],
      /--prices: got 3, expected prices per million/,
    ],
    [
      ['--policy', 'openai:m@http://localhost:1/v1', '--key-variable', 'NO_SUCH_KEY'],
      /NO_SUCH_KEY is not set/,
    ],
    [
      ['--policy', 'openai:m@http://localhost:1/v1', '--concurrency', '0'],
      /--concurrency: expected a whole number from 1 to 4096, got 0/,
    ],
    [['--policy', 'baseline:zscor'], /zscor.* Did you mean zscore\?/],
    [['--policy', 'baseline:zscore', '--resume'], /--resume: there is nothing to resume without --out/],
    [['--policy', 'baseline:zscore', '--task', 'nano5,nano5'], /--task: nano5 is given twice/],
    [
      ['--policy', 'baseline:zscore', '--task', 'ctu'],
      /no data set in 'ctu'; create it with timeseer data prepare ctu --out data\/ctu/,
    ],
    [['--policy', 'baseline:zscore', '--count', 'abc'], /--count: got 'abc', expected a number/],
    [
      ['--policy', 'openai:m@http://localhost:1/v1', '--timeout', '3601'],
      /expected above 0 and at most 3600/,
    ],
  ])('%j is refused', async (args, message) => {
    const { code, err } = await timeseer('eval', ...args, '--length', '200', '--quiet');
    expect(code).toBe(2);
    expect(err).toMatch(message);
  });
});

describe('a module of the user', () => {
  test('is evaluated as any policy, and not resumed once it has changed', async () => {
    const module = join(root, 'mine.ts');
    const text = `import { definePolicy, type PolicyRequest } from 'timeseer';
export const brief = definePolicy({
  name: 'brief',
  answer: async ({ picture }: PolicyRequest): Promise<string> => {
    if (picture === null) throw new Error('nothing to see');
    return ${JSON.stringify(ANSWER)};
  },
});`;
    writeFileSync(module, text);
    const mine = asked.map((one) => (one === policy ? `${module}#brief` : one));
    expect(await timeseer(...mine)).toMatchObject({ code: 0, err: '' });
    expect(readRecords(file()).map(({ response }) => response)).toEqual(Array(6).fill(ANSWER));
    const blind = await timeseer(...mine, '--input', 'numbers', '--force');
    expect(blind.err).toMatch(
      /no response to any question \(nano5\/test\/0: answer of brief: threw Error: nothing to see\)/,
    );
    expect((await timeseer(...mine, '--force')).code).toBe(0);
    writeFileSync(module, text.replace('nothing to see', 'too dark'));
    const changed = await timeseer(...mine, '--resume');
    expect(changed).toMatchObject({
      code: 2,
      err: expect.stringMatching(/other settings: policy\.module \(was/),
    });
    const missing = await timeseer(...mine.map((one) => one.replace('#brief', '#long')));
    expect(missing).toMatchObject({
      code: 2,
      err: expect.stringContaining('exports no long; it exports brief'),
    });
  });
});

describe('several policies and tasks', () => {
  const board = (): string[] => [
    ...['eval', '--policy', policy, '--policy', 'baseline:zscore', '--task', 'nano5,anomllm/trend'],
    ...['--count', '5', '--length', '300', '--quiet', '--out', out],
  ];

  test('have their records apart and a leaderboard in three forms; resumed, nothing is asked again', async () => {
    const { code, err, out: text } = await timeseer(...board());
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(text).toMatch(/Mean Affiliation F1 of 2 tasks .*\n.*baseline:zscore/s);
    expect(readdirSync(out).sort()).toEqual([
      ...['anomllm_trend', 'leaderboard.csv', 'leaderboard.html', 'leaderboard.md', 'metrics.json', 'nano5'],
    ]);
    expect(readdirSync(join(out, 'nano5')).sort()).toEqual(['baseline_zscore', 'tiny_7b']);
    expect(readRecords(join(out, 'anomllm_trend', 'tiny_7b', 'records.jsonl'))).toHaveLength(5);
    const [head, ...lines] = readFileSync(join(out, 'leaderboard.csv'), 'utf8').trimEnd().split('\n');
    expect(lines.map((line) => line.split(',').slice(0, 6))).toEqual(
      expect.arrayContaining([['anomllm/trend', 'anomaly', 'tiny:7b', '0', '5', '0']]),
    );
    expect(lines).toHaveLength(4);
    expect(head).toContain('affiliation_f1,affiliation_f1_low,affiliation_f1_high');
    expect(server.calls).toHaveLength(10);
    const before = readFileSync(join(out, 'leaderboard.md'), 'utf8');
    expect((await timeseer(...board())).err).toMatch(/holds an evaluation; add --resume/);
    expect((await timeseer(...board(), '--resume')).code).toBe(0);
    expect(server.calls).toHaveLength(10);
    expect(readFileSync(join(out, 'leaderboard.md'), 'utf8')).toBe(before);
  });

  test('are told without the policy whose endpoint is gone, which counts as missing', async () => {
    server.usual = fails(401, 'no');
    const { code, err, out: text } = await timeseer(...board());
    expect(code).toBe(3);
    expect(err).toMatch(/^warning: nano5 tiny:7b: .*401.*error: 10 of 20 responses are missing/s);
    expect(text).toMatch(/^tiny:7b +– +– +– /m);
  });

  test('are not written beside what is not theirs', async () => {
    writeFileSync(join(root, 'thesis.tex'), 'mine');
    const refused = await timeseer(...board().map((one) => (one === out ? root : one)), '--force');
    expect(refused).toMatchObject({ code: 2, err: expect.stringContaining('holds thesis.tex') });
    expect(server.calls).toEqual([]);
  });
});
