/** The door to policies: what references open, and what they answer. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openPolicy as openAnswerer } from '../../src/answer/open.ts';
import { REFERENCE_SYNTAX } from '../../src/answer/reference.ts';
import { CheckpointError, ConfigError } from '../../src/ground/errors.ts';
import { openPolicy, render } from '../../src/index.ts';
import { openService, type TestService, TINY_POLICY } from '../helpers/service.ts';
import { temporary } from '../helpers/temporary.ts';

const root = temporary('open');

/** A wave with a spike at 300, as long as the series of the shipped policy. */
const spike = Float64Array.from({ length: 560 }, (_, i) => Math.sin(i / 9) + (i >= 300 && i < 306 ? 9 : 0));

describe('openPolicy of the library', () => {
  test('opens the policy that ships, which answers about a picture, in whole and as it is sampled', async () => {
    const policy = await openPolicy('small', { engine: 'onnx', threads: 1 });
    try {
      const pictures = [await render(spike, 'nano-analysis')];
      const pieces: string[] = [];
      const question = { prompt: 'Find the anomalies.', pictures, maxTokens: 40 };
      const [answer] = await policy.ask({ ...question, onText: (text) => pieces.push(text) });
      expect(answer!.text.length).toBeGreaterThan(10);
      expect(pieces.length).toBeGreaterThan(1);
      expect(pieces.join('')).toBe(answer!.text);
      expect(answer!.tokens!.logProbs).toHaveLength(answer!.tokens!.ids.length);
      expect(answer!.usage!.completion).toBe(answer!.tokens!.ids.length);
      const sampled = await policy.ask({ ...question, maxTokens: 6, temperature: 1, samples: 3, seed: 5 });
      expect(sampled).toHaveLength(3);
      await expect(policy.ask({ prompt: 'a <|im_end|>' })).rejects.toThrow(ConfigError);
      await expect(policy.ask({})).rejects.toThrow(/small answers words; give a prompt/);
    } finally {
      await policy.dispose();
    }
  });

  test('opens baselines and modules of users by the same name as eval', async () => {
    const baseline = await openPolicy('baseline:timeseer-detect');
    const [found] = await baseline.ask({ values: spike });
    expect(found).toMatchObject({ text: '', answer: { kind: 'anomaly' }, tokens: null });
    const { intervals } = found!.answer as { intervals: readonly (readonly [number, number])[] };
    expect(intervals.some(([start, end]) => start < 306 && end > 300)).toBe(true);
    const [both] = await baseline.ask({ values: [spike, spike.toReversed()] });
    const { intervals: united } = both!.answer as { intervals: readonly (readonly [number, number])[] };
    for (const at of [302, 257]) expect(united.some(([start, end]) => start <= at && at < end)).toBe(true);
    await baseline.dispose();
    const file = join(root, 'mine.mjs');
    writeFileSync(
      file,
      `export default { name: 'echo', answer: ({ instruction, sample }) => instruction + sample };`,
    );
    const echo = await openPolicy(file);
    const answers = await echo.ask({ prompt: 'Hello ', samples: 2 });
    expect(answers.map(({ text }) => text)).toEqual(['Hello 0', 'Hello 1']);
    await echo.dispose();
  });
});

describe('a reference', () => {
  test.each([
    ['nowhere', ConfigError],
    ['no such thing', ConfigError],
    ['./small', CheckpointError],
  ])('to nothing, %s, lists the syntax', async (reference, kind) => {
    const opening = openAnswerer(reference);
    await expect(opening).rejects.toThrow(kind);
    await expect(opening).rejects.toThrow(`${reference}: no such directory; `);
    await expect(opening).rejects.toThrow(REFERENCE_SYNTAX);
  });

  test.each([
    ['expcot-blind', /Did you mean baseline:expcot-blind\?$/],
    ['zscor', /Did you mean baseline:zscore\?$/],
    ['smal', /Did you mean small\?$/],
    ['nowhere', /defineDetector\)$/],
  ])('to %s is told what was probably meant, where a name is near', async (reference, end) => {
    await expect(openAnswerer(reference)).rejects.toThrow(end);
  });

  test('that is empty, an unknown baseline, or an endpoint without a model is refused at opening', async () => {
    await expect(openAnswerer(' ')).rejects.toThrow(REFERENCE_SYNTAX);
    await expect(openAnswerer('baseline:mini-rocket')).rejects.toThrow(
      /--policy baseline:mini-rocket: no baseline is named 'mini-rocket'\. Did you mean minirocket\? Known: .*zscore/,
    );
    await expect(openAnswerer('openai:@http://localhost:1/v1')).rejects.toThrow(/names no model/);
  });
});

describe('serve --policy small', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await openService({ policy: { ...TINY_POLICY, policy: 'small', engine: 'onnx' } });
  });
  afterAll(() => service.close());
  const chat = async (body: object): Promise<Response> =>
    fetch(`${service.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        ...{ model: 'small', messages: [{ role: 'user', content: 'Find the anomalies.' }], seed: 1 },
        ...{ max_tokens: 12, temperature: 0, ...body },
      }),
    });

  test('answers chat by the ONNX graphs of the package, whole and as a stream', async () => {
    const response = await chat({});
    expect(response.status).toBe(200);
    const { choices, usage } = (await response.json()) as {
      choices: { message: { content: string }; finish_reason: string }[];
      usage: { completion_tokens: number };
    };
    expect(choices[0]!.message.content.length).toBeGreaterThan(0);
    expect(choices[0]!.finish_reason).toMatch(/stop|length/);
    expect(usage.completion_tokens).toBeGreaterThan(0);
    const lines = (await (await chat({ stream: true })).text()).split('\n\n');
    const deltas = lines
      .filter((line) => line.startsWith('data: {'))
      .map((line) => JSON.parse(line.slice(6)).choices[0]?.delta.content ?? '');
    expect(deltas.join('')).toBe(choices[0]!.message.content);
    // Both at once are decoded together, and answered the same.
    const two = await Promise.all([chat({}), chat({ max_tokens: 4 })]);
    const bodies = (await Promise.all(two.map((one) => one.json()))) as { choices: typeof choices }[];
    expect(bodies[0]!.choices[0]!.message.content).toBe(choices[0]!.message.content);
    expect(choices[0]!.message.content.startsWith(bodies[1]!.choices[0]!.message.content)).toBe(true);
  });
});
