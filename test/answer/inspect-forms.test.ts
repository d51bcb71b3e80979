/** Inspections by models behind an endpoint: by functions, by code, and with the history as a picture. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { decodeImage } from '../../src/plot/image-file.ts';
import { ChatServer, completion, json, type Reply, says } from '../helpers/chat-server.ts';
import { inside } from '../helpers/command-line.ts';

let server: ChatServer;
beforeEach(async () => {
  server = new ChatServer();
  await server.start();
});
afterEach(() => server.stop());

const evaluate = (...more: string[]) =>
  inside(
    ...[
      'eval',
      '--policy',
      `openai:model@${server.url}`,
      '--task',
      'wild',
      '--length',
      '2000',
      '--count',
      '1',
    ],
    ...['--no-classical', '--json', '--quiet', ...more],
  );
const ANSWER = '<think>a step</think><answer>[[100, 120]]</answer><class>trend</class>';
const block = (code: string): string => `\`\`\`js\n${code}\n\`\`\``;

interface Part {
  readonly type: string;
  readonly text?: string;
  readonly image_url?: { readonly url: string };
}
/** Messages of a request, each as its text and the sizes of its pictures. */
async function messages(call: number) {
  const sent = server.calls[call]!.body.messages as { role: string; content: string | Part[] }[];
  return Promise.all(
    sent.map(async ({ role, content }) => {
      const parts: Part[] = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
      const urls = parts.flatMap(({ image_url }) => image_url?.url ?? []);
      const pictures = urls.map((url) => decodeImage(Buffer.from(url.split(',')[1]!, 'base64')));
      const sizes = (await Promise.all(pictures)).map(({ width, height }) => [width, height]);
      return { role, text: parts.map(({ text = '' }) => text).join(''), sizes };
    }),
  );
}

/** An answer that calls functions, as servers send it. */
const callsFor = (...calls: [name: string, given: unknown][]): Reply => {
  const made = calls.map(([name, given], i) => ({
    ...{ id: `c${i}`, type: 'function', function: { name, arguments: given } },
  }));
  const message = { role: 'assistant', content: null, tool_calls: made };
  return json(completion(null, { choices: [{ index: 0, message, finish_reason: 'tool_calls' }] }));
};

test('--inspect: tools are functions where the server takes them, and calls come back as such', async () => {
  server.next.push(callsFor(['zoom', '{"place":1,"level":1}']), callsFor(['stats', '{}']), says(ANSWER));
  const { out, code } = await evaluate('--inspect');
  expect(code).toBe(0);
  expect(JSON.parse(out).metrics.overall.format.mean).toBe(1);
  const [first, , last] = server.calls.map(({ body }) => body);
  expect(first.tools.map((tool: { function: { name: string } }) => tool.function.name)).toEqual([
    'zoom',
    'next',
    'compare',
    'spectrum',
    'stats',
  ]);
  expect(first.tools[0].function.parameters).toEqual({
    type: 'object',
    properties: { level: { type: 'integer' }, place: { type: 'integer' } },
    required: ['level', 'place'],
  });
  const sent = last.messages as { role: string; tool_calls?: object[]; tool_call_id?: string }[];
  expect(sent.map(({ role }) => role)).toEqual([
    ...['user', 'assistant', 'tool', 'user', 'assistant', 'tool', 'user'],
  ]);
  expect(sent[1]!.tool_calls).toEqual([
    { id: 'call_1', type: 'function', function: { name: 'zoom', arguments: '{"level":1,"place":1}' } },
  ]);
  expect([sent[2]!.tool_call_id, sent[5]!.tool_call_id]).toEqual(['call_1', 'call_2']);
  // The picture of the zoom is in the turn of the user: templates drop those of tools.
  expect((await messages(2)).map(({ sizes }) => sizes.length)).toEqual([1, 0, 0, 1, 0, 0, 0]);
});

test('--inspect: calls are tags from the first refusal on', async () => {
  const error = { message: '"auto" tool choice requires --enable-auto-tool-choice', type: 'BadRequestError' };
  server.next.push(json({ error }, 400), says('<tool>zoom 1 1</tool>'), says(ANSWER));
  const { out, code } = await evaluate('--inspect');
  expect(code).toBe(0);
  expect(JSON.parse(out).metrics.overall.format.mean).toBe(1);
  expect(server.calls.map(({ body }) => body.tools === undefined)).toEqual([false, true, true]);
  expect((await messages(2)).map(({ role, text }) => [role, text.slice(0, 21)])[1]).toEqual([
    'assistant',
    '<tool>zoom 1 1</tool>',
  ]);
});

test.each([
  [404, 'No endpoints found that support tool use'],
  [422, 'tools: extra fields not permitted'],
  [500, 'tools param requires --jinja flag'],
])(
  '--inspect: a refusal of functions with status %i leads to tags, and calls made before become tags',
  async (status, message) => {
    server.next.push(
      callsFor(['zoom', '{"level":1,"place":1}']),
      json({ error: { message } }, status),
      says(ANSWER),
    );
    const { out, code } = await evaluate('--inspect', '--attempts', '1');
    expect(code).toBe(0);
    expect(JSON.parse(out).metrics.overall.format.mean).toBe(1);
    const sent = (await messages(2)).map(({ role, text }) => [role, text.slice(0, 21)]);
    expect(sent.map(([role]) => role)).toEqual(['user', 'assistant', 'user']);
    expect(sent[1]).toEqual(['assistant', '<tool>zoom 1 1</tool>']);
  },
);

test('--inspect: arguments may be an object, missing, or nested as deep as they like', async () => {
  const deep = `{"level":${'['.repeat(200_000)}${']'.repeat(200_000)}}`;
  server.next.push(
    callsFor(['zoom', { level: 1, place: 1 }]),
    callsFor(['stats', null]),
    callsFor(['zoom', deep]),
    says(ANSWER),
  );
  const { out, code } = await evaluate('--inspect');
  expect(code).toBe(0);
  expect(JSON.parse(out).metrics.overall.format.mean).toBe(1);
  const sent = await messages(3);
  expect(sent.map(({ role }) => role).slice(0, 7)).toEqual([
    ...['user', 'assistant', 'tool', 'user', 'assistant', 'tool', 'user'],
  ]);
  expect(sent.at(-1)!.text).toMatch(/^failed: /);
});

test('--inspect: calls that make no sense are failed steps, and the model is told', async () => {
  server.next.push(
    callsFor(['zoom', '{"level":1,"place":1}'], ['stats', '{}']),
    callsFor(['erase', '{"all":"</tool><answer>[[0, 9]]</answer>"}']),
    callsFor(['zoom', 'left']),
    callsFor(['zoom', '{"level":[1],"place":{"at":2}}']),
    says(ANSWER),
  );
  const { out, code } = await evaluate('--inspect');
  expect(code).toBe(0);
  expect(JSON.parse(out).metrics.overall.format.mean).toBe(1);
  const told = (await messages(4)).filter(({ role }) => role === 'user').map(({ text }) => text);
  expect(told.slice(1)).toEqual([
    'failed: two calls at once; 5 left',
    'failed: no tool erase; 4 left',
    'failed: expected LEVEL PLACE; 3 left',
    'failed: expected LEVEL PLACE; 2 left',
  ]);
});

test('--runtime code: blocks run in one sandbox over the turns, and their output comes back', async () => {
  server.next.push(
    says(block('const n = series.length\nprint(n)')),
    says(block('print(n + 1)\nnothing()')),
    says(ANSWER),
  );
  const { out, code } = await evaluate('--runtime', 'code');
  expect(code).toBe(0);
  expect(JSON.parse(out).metrics.overall.format.mean).toBe(1);
  expect(server.calls).toHaveLength(3);
  const last = await messages(2);
  expect(last.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant', 'user']);
  expect(last[0]!.text).toContain('- series: array of 2000 numbers');
  expect(last[2]!.text).toBe('<execution_output>\n2000\n</execution_output>\n9 left');
  expect(last[4]!.text).toContain("2001\nReferenceError: 'nothing' is not defined (line 2)");
  expect(last.map(({ sizes }) => sizes.length)).toEqual([1, 0, 0, 0, 0]);
});

test('--runtime code: outputs but the last six are left out', async () => {
  for (let t = 0; t < 8; t++) server.next.push(says(block(`print('turn', ${t})`)));
  server.usual = says(ANSWER);
  await evaluate('--runtime', 'code');
  const shown = (await messages(8)).filter(({ text }) => text.startsWith('<execution_output>'));
  expect(shown.map(({ text }) => /turn \d/.exec(text)?.[0] ?? 'none')).toEqual([
    'none',
    'none',
    'turn 2',
    'turn 3',
    'turn 4',
    'turn 5',
    'turn 6',
    'turn 7',
  ]);
});

test('--history optical: one turn whose first picture is the history, compressed as the policy chose', async () => {
  server.next.push(
    says('<think>left</think><tool>zoom 1 0</tool>'),
    says('<think>no</think><tool>stats</tool><compression>4</compression>'),
    says(`${ANSWER}<compression>2</compression>`),
  );
  const { out, code } = await evaluate('--history', 'optical');
  expect(code).toBe(0);
  expect(JSON.parse(out).metrics.overall.format.mean).toBe(1);
  const turns = [await messages(0), await messages(1), await messages(2)];
  expect(turns.map((sent) => sent.length)).toEqual([1, 1, 1]);
  const memories = turns.map(([sent]) => sent!.sizes[0]!);
  expect(memories).toEqual([
    [38, 38],
    [402, 22],
    [206, 38],
  ]);
  // The window of the zoom is still shown beside the text of `stats`.
  expect(turns.map(([sent]) => sent!.sizes.length)).toEqual([2, 2, 2]);
  expect(turns[2]![0]!.text).toContain('compressed by a factor of 4;');
  expect(turns[2]![0]!.text).toContain('<tool>zoom LEVEL PLACE</tool>');
  expect(turns[2]![0]!.text).toContain('level ');
});

test('both at once', async () => {
  server.next.push(says(block('print(series.length)')), says('Done.'));
  const { code } = await evaluate('--runtime', 'code', '--history', 'optical');
  expect(code).toBe(0);
  const [sent] = await messages(1);
  expect(sent!.text).toContain('<execution_output>\n2000\n');
  expect(sent!.sizes).toHaveLength(2);
});

test('small policies take neither', async () => {
  for (const form of [
    ['--runtime', 'code'],
    ['--history', 'optical'],
  ]) {
    const { err, code } = await inside(
      'eval',
      '--policy',
      'small',
      '--task',
      'wild',
      '--count',
      '1',
      ...form,
    );
    expect([code, err]).toEqual([2, expect.stringContaining('small policies neither write code nor read')]);
  }
});
