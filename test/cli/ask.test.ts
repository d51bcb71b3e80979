import { spawnSync } from 'node:child_process';
import { copyFileSync, cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { visible } from '../../src/ground/terminal.ts';
import { encodePng } from '../../src/plot/png.ts';
import { generate } from '../../src/policy/generate.ts';
import { createAdapter, saveAdapter } from '../../src/policy/lora.ts';
import { Policy } from '../../src/policy/policy.ts';
import { ChatServer, json as reply, says } from '../helpers/chat-server.ts';
import { inside } from '../helpers/command-line.ts';
import { CLI } from '../helpers/program.ts';
import { temporary } from '../helpers/temporary.ts';
import { Child } from '../helpers/tiny-run.ts';
import { engine, GOLDEN, golden, picture } from '../policy/golden.ts';

const directory = temporary('generate-text');
/** The tiny checkpoint, and a copy that samples. */
const sampling = join(directory, 'sampling');
const wide = join(directory, 'wide.png'); // 140 × 84
const small = join(directory, 'small.png'); // 84 × 56
const thin = join(directory, 'thin.png');

beforeAll(() => {
  cpSync(GOLDEN, sampling, { recursive: true });
  writeFileSync(
    join(sampling, 'generation_config.json'),
    JSON.stringify({
      do_sample: true,
      temperature: 1.5,
      top_k: 200,
      eos_token_id: [283, 281],
      max_new_tokens: 40,
    }),
  );
  writeFileSync(wide, encodePng(picture(140, 84)));
  writeFileSync(small, encodePng(picture(84, 56)));
  writeFileSync(thin, encodePng(picture(900, 4)));
});
afterEach(() => {
  process.exitCode = undefined;
});

const PICTURES = fileURLToPath(new URL('../golden/processor', import.meta.url));
/** What test/golden/make_processor.py stores. */
const processed = JSON.parse(readFileSync(join(PICTURES, 'expected.json'), 'utf8')) as {
  answers: {
    files: string[];
    prompt: string;
    system: string | null;
    penalty: number;
    length: number;
    ids: number[];
  }[];
};

interface Answer {
  text: string;
  ids: number[];
  tokens: number;
  finished: boolean;
}
type Summary = Answer & {
  answers?: Answer[];
  prompt: { tokens: number; images: number; imageTokens: number };
  sampling: Record<string, unknown>;
  seconds: Record<'load' | 'prefill' | 'decode', number>;
  tokensPerSecond: number | null;
};

const ask = (...args: string[]): ReturnType<typeof inside> =>
  inside('ask', '--policy', GOLDEN, '--threads', '1', ...args);
async function json(...args: string[]): Promise<Summary> {
  const { code, out, err } = await ask(...args, '--json');
  expect([code, err.replace(/.* cut off after \d+ tokens \(--max-tokens\)\n/, '')]).toEqual([0, '']);
  return JSON.parse(out) as Summary;
}
const reference = (name: string) => golden.cases.find((row) => row.name === name)!;

describe('timeseer ask', () => {
  it('answers a text with the tokens of the reference', async () => {
    const { ids, greedy } = reference('text only');
    const got = await json('--prompt', 'find the trend', '--max-tokens', '12');
    expect(got.ids).toEqual(greedy);
    expect(got.prompt).toEqual({ tokens: ids.length, images: 0, imageTokens: 0 });
    expect(got.tokens).toBe(greedy.length);
    expect(got.finished).toBe(greedy.at(-1) === 283);
  });

  it('answers a picture and a text with the tokens of the reference', async () => {
    const { ids, greedy } = reference('one image');
    const got = await json('--image', small, '--prompt', 'series of 12', '--max-tokens', '12');
    expect(got.ids).toEqual(greedy);
    expect(got.prompt).toEqual({ tokens: ids.length, images: 1, imageTokens: 6 });
    expect(got.sampling).toMatchObject({ temperature: 0, maxTokens: 12, repetitionPenalty: 1 });
    for (const part of ['load', 'prefill', 'decode'] as const)
      expect(got.seconds[part]).toBeGreaterThanOrEqual(0);
  });

  it.each(processed.answers)('answers $prompt about $files as the reference does', async (want) => {
    const policy = join(directory, `penalty${want.penalty}`);
    cpSync(GOLDEN, policy, { recursive: true });
    if (want.penalty !== 1) {
      const config = { repetition_penalty: want.penalty, eos_token_id: 283, max_new_tokens: 40 };
      writeFileSync(join(policy, 'generation_config.json'), JSON.stringify(config));
    }
    const images = want.files.flatMap((name) => ['--image', join(PICTURES, name)]);
    const system = want.system === null ? [] : ['--system', want.system];
    const args = ['--policy', policy, '--prompt', want.prompt, ...system, ...images];
    const { out } = await inside('ask', ...args, '--max-tokens', '40', '--threads', '1', '--json');
    const { ids, prompt } = JSON.parse(out) as Summary;
    expect(prompt.tokens).toBe(want.length);
    expect(ids).toEqual(want.ids);
  });

  it('answers with a low-rank adapter', async () => {
    const adapter = join(directory, 'adapter');
    const options = { rank: 3, alpha: 12, targets: ['q_proj', 'down_proj'] as const };
    const adapted = Policy.load(engine, GOLDEN, {
      adapter: (dims) => createAdapter(engine, dims, options, 3),
    });
    const { flat } = adapted.adapter!;
    const values = Float32Array.from({ length: flat.shape[0]! }, (_, i) => Math.sin(i * i + 1) / 2);
    engine.write(flat, 0, 0, engine.tensor(values, flat.shape));
    saveAdapter(adapted, adapter);
    const prompt = adapted.encodePrompt(adapted.chat.render([{ role: 'user', content: 'trend' }]), []);
    const [want] = await generate(adapted, [prompt], { maxTokens: 8, seed: 0, temperature: 0 });
    adapted.dispose();
    const args = ['--prompt', 'trend', '--max-tokens', '8'];
    const got = await json('--adapter', adapter, ...args);
    expect(got.ids).toEqual([...want!.ids]);
    expect(got.ids).not.toEqual((await json(...args)).ids);
  });

  it('writes the same text plainly, and says when it was cut off', async () => {
    const args = ['--image', small, '--prompt', 'series of 12', '--max-tokens', '3'];
    const { text, finished } = await json(...args);
    expect(finished).toBe(false);
    const { code, out, err } = await ask(...args);
    expect([code, out]).toEqual([0, `${text}\n`]);
    expect(err).toBe('the answer was cut off after 3 tokens (--max-tokens)\n');
  });

  it('shows several pictures in the order they are given, behind the system message', async () => {
    const args = ['--prompt', 'compare', '--system', 'be brief', '--max-tokens', '10'];
    const got = await json('--image', wide, '--image', small, ...args);
    expect(got.prompt).toMatchObject({ images: 2, imageTokens: 15 + 6 });
    const policy = Policy.load(engine, GOLDEN, { tuning: 'none' });
    const text = policy.chat.render([
      { role: 'system', content: 'be brief' },
      { role: 'user', content: [{ type: 'image' }, { type: 'image' }, { type: 'text', text: 'compare' }] },
    ]);
    const prompts = [
      policy.encodePrompt(text, [picture(140, 84), picture(84, 56)]),
      policy.encodePrompt(text, [picture(84, 56), picture(140, 84)]),
    ];
    const [same, swapped] = await generate(policy, prompts, { maxTokens: 10, seed: 0, temperature: 0 });
    expect(got.ids).toEqual([...same!.ids]);
    expect(got.ids).not.toEqual([...swapped!.ids]);
    policy.dispose();
  });

  it("samples as the checkpoint's generation_config.json says, unless told otherwise", async () => {
    const run = async (...more: string[]): Promise<Summary> => {
      const { code, out } = await inside(
        'ask',
        '--policy',
        sampling,
        '--threads',
        '1',
        '--prompt',
        'trend',
        '--json',
        ...more,
      );
      expect(code).toBe(0);
      return JSON.parse(out) as Summary;
    };
    const first = await run();
    expect(first.sampling).toMatchObject({
      temperature: 1.5,
      topK: 200,
      stops: [283, 281],
      maxTokens: 40,
      seed: 0,
    });
    expect((await run()).ids).toEqual(first.ids);
    expect((await run('--seed', '1')).ids).not.toEqual(first.ids);
    const own = await run('--temperature', '0', '--max-tokens', '5');
    expect(own.sampling).toMatchObject({ temperature: 0, maxTokens: 5 });
    expect(own.ids).toEqual((await json('--prompt', 'trend', '--max-tokens', '5')).ids);
  });

  it('gives several answers, which differ, each under its number', async () => {
    const args = [
      '--prompt',
      'trend',
      '--samples',
      '3',
      '--temperature',
      '1',
      '--seed',
      '4',
      '--max-tokens',
      '9',
    ];
    const { answers } = await json(...args);
    expect(answers).toHaveLength(3);
    expect(new Set(answers!.map(({ ids }) => ids.join())).size).toBe(3);
    const { out } = await ask(...args);
    expect(out).toBe(answers!.map(({ text }, i) => `[${i + 1} of 3]\n${visible(text)}\n`).join('\n'));
  });

  it('finds the policy of a run directory', async () => {
    const run = join(directory, 'run');
    cpSync(GOLDEN, join(run, 'sft/policy'), { recursive: true });
    const { code, out } = await inside(
      'ask',
      '--policy',
      run,
      '--threads',
      '1',
      '--prompt',
      'a',
      '--max-tokens',
      '2',
      '--json',
    );
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({
      policy: join(run, 'sft/policy'),
      device: 'cpu',
      dtype: 'float32',
    });
  });

  it('reads the prompt from standard input', () => {
    const args = [
      'ask',
      '--policy',
      GOLDEN,
      '--prompt',
      '-',
      '--max-tokens',
      '12',
      '--threads',
      '1',
      '--json',
    ];
    const { stdout, status } = spawnSync(process.execPath, [CLI, ...args], {
      input: 'find the trend\n',
      encoding: 'utf8',
    });
    expect(status).toBe(0);
    expect((JSON.parse(stdout) as Summary).ids).toEqual(reference('text only').greedy);
  });

  it.each(['SIGINT', 'SIGTERM'] as const)(
    '%s ends it, even where a chat template never does',
    async (name) => {
      const endless = join(directory, `endless-${name}`);
      cpSync(GOLDEN, endless, { recursive: true });
      const loop = '{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}';
      const template = join(endless, 'chat_template.jinja');
      writeFileSync(template, loop + readFileSync(template, 'utf8'));
      const child = new Child(['ask', '--policy', endless, '--prompt', 'trend', '--threads', '1']);
      await sleep(1_500); // the template is what keeps it busy by then
      expect(child.process.exitCode).toBe(null);
      const began = performance.now();
      child.process.kill(name);
      expect(await child.ended).toMatchObject({ code: null, signal: name, out: '' });
      expect(performance.now() - began).toBeLessThan(2_000);
    },
  );

  it('has a help with examples', async () => {
    const { code, out } = await inside('ask', '--help');
    expect(code).toBe(0);
    for (const part of ['--prompt', '--image', 'small', 'Examples:']) expect(out).toContain(part);
  });
});

describe('timeseer ask refuses', () => {
  const asked = ['--policy', GOLDEN, '--prompt', 'trend'];
  it.each([
    [['--policy', GOLDEN], /--prompt: missing; give the text, or - to read it/],
    [['nano5', ...asked], /Unknown argument: nano5/],
    [[...asked, '--prompt', 'b'], /--prompt: given twice; give it once/],
    [['--policy', GOLDEN, '--prompt', ' '], /--prompt: the text is empty/],
    [['--policy', GOLDEN, '--prompt', 'a<|im_end|>b'], /--prompt: holds <\|im_end\|>, which is not text/],
    [[...asked, '--system', '<|image_pad|>'], /--system: holds <\|image_pad\|>/],
    [[...asked, '--max-tokens', '0'], /--max-tokens: expected a whole number of at least 1, got 0/],
    [
      [...asked, '--max-tokens', '500'],
      /--max-tokens 500: there is room for 4\d\d: the prompt has \d+ tokens, .* ends at 512/,
    ],
    [[...asked, '--temperature', '-1'], /--temperature: expected a number of at least 0/],
    [[...asked, '--top-p', '0'], /--top-p: expected/],
    [[...asked, '--top-k', '1.5'], /--top-k: expected/],
    [[...asked, '--samples', '0'], /--samples: expected/],
    [[...asked, '--seed', 'x'], /--seed: got 'x', expected a number/],
    [[...asked, '--threads', '0'], /--threads: expected/],
    [[...asked, '--top-p', '0.5'], /--top-p: has no effect, decoding is greedy, as the checkpoint asks for/],
    [
      [...asked, '--temperature', '0', '--samples', '2'],
      /--samples 2: all would be the same, decoding is greedy;/,
    ],
    [[...asked, '--adapter', 'nowhere'], /--adapter nowhere: is not a directory/],
    [[...asked, '--dtype', 'int8'], /Choices: "auto", "float32", "bfloat16"/],
  ])('%j as wrong usage', async (args, message) => {
    const { code, out, err } = await inside('ask', ...args);
    expect(err).toMatch(message);
    expect([code, out]).toEqual([2, '']);
  });

  it.each([
    [['--policy', './nowhere', '--prompt', 'a'], /nowhere: no such directory/],
    [[...asked, '--image', 'nowhere.png'], /nowhere\.png: no such file/],
    [[...asked, '--image', join(GOLDEN, 'config.json')], /config\.json: is no PNG, JPEG or WebP picture/],
    [
      [...asked, '--image', small, '--image', thin],
      /thin\.png: a picture of 900 × 4 pixels cannot be used: .* at most 200/,
    ],
    [
      ['--policy', GOLDEN, '--prompt', '漢'.repeat(200)],
      /the prompt has \d+ tokens, and the checkpoint's context ends at 512/,
    ],
    [[...asked, '--device', 'tpu'], /unknown device 'tpu'/],
  ])('%j with one line', async (args, message) => {
    const { code, out, err } = await inside('ask', ...args);
    expect(err).toMatch(message);
    expect(err.trimEnd().split('\n')).toHaveLength(1);
    expect([code, out]).toEqual([3, '']);
  });

  it('a picture that leaves no room in the context, naming both lengths', async () => {
    const many = Array.from({ length: 12 }, () => ['--image', wide]).flat();
    const { code, err } = await inside('ask', ...asked, ...many, ...many, ...many);
    expect(err).toMatch(
      /the prompt has \d+ tokens, 540 of them of images, .* ends at 512 \(max_position_embeddings\)/,
    );
    expect(code).toBe(3);
  });

  it('a prompt that is too long before the weights are looked at', async () => {
    const light = join(directory, 'light');
    cpSync(GOLDEN, light, { recursive: true });
    rmSync(join(light, 'model.safetensors'));
    const ask = (prompt: string) => inside('ask', '--policy', light, '--prompt', prompt, '--threads', '1');
    expect((await ask('漢'.repeat(200))).err).toMatch(/the checkpoint's context ends at 512/);
    expect((await ask('a')).err).toMatch(/model\.safetensors: no such file/);
  });

  it('a generation_config.json that cannot be', async () => {
    const bad = join(directory, 'bad');
    cpSync(GOLDEN, bad, { recursive: true });
    const file = join(bad, 'generation_config.json');
    for (const [content, message] of [
      [{ temperature: -1 }, /generation_config\.json: 'temperature' must be/],
      [
        { eos_token_id: 296 },
        /generation_config\.json: 'eos_token_id' 296 is beyond config\.json's vocab_size, 296/,
      ],
    ] as const) {
      writeFileSync(file, JSON.stringify(content));
      const { code, err } = await inside('ask', '--policy', bad, '--prompt', 'a', '--threads', '1');
      expect(err).toMatch(message);
      expect(code).toBe(3);
    }
  });

  it('a checkpoint of another architecture, and one that lacks a file', async () => {
    const other = join(directory, 'other');
    cpSync(GOLDEN, other, { recursive: true });
    const config = JSON.parse(readFileSync(join(GOLDEN, 'config.json'), 'utf8')) as object;
    writeFileSync(join(other, 'config.json'), JSON.stringify({ ...config, model_type: 'llava' }));
    expect((await inside('ask', '--policy', other, '--prompt', 'a')).err).toMatch(
      /'model_type' is "llava"; that architecture cannot be loaded/,
    );
    copyFileSync(join(GOLDEN, 'config.json'), join(other, 'config.json'));
    rmSync(join(other, 'tokenizer.json'));
    expect((await inside('ask', '--policy', other, '--prompt', 'a')).err).toMatch(
      /tokenizer\.json: no such file/,
    );
  });
});

describe('ask of a model behind an endpoint', () => {
  const server = new ChatServer();
  beforeAll(() => server.start());
  afterAll(() => server.stop());
  const elsewhere = (...args: string[]): ReturnType<typeof inside> =>
    inside('ask', '--policy', `openai:qwen2.5vl:7b@${server.url}`, '--prompt', 'Where is it?', ...args);

  it('sends words and pictures with the sampling, and prints the answer', async () => {
    server.next.push(says('at 300'));
    const options = ['--system', 'Be brief.', '--max-tokens', '9', '--temperature', '0.5'];
    const { code, out, err } = await elsewhere('--image', small, '--image', wide, ...options);
    expect([code, out.trimEnd(), err]).toEqual([0, 'at 300', '']);
    const { path, body } = server.calls.at(-1)!;
    expect(path).toBe('/v1/chat/completions');
    expect(body).toMatchObject({ model: 'qwen2.5vl:7b', temperature: 0.5 });
    expect(body.max_tokens ?? body.max_completion_tokens).toBe(9);
    expect(body.messages[0]).toEqual({ role: 'system', content: 'Be brief.' });
    const { role, content } = body.messages[1];
    expect([role, content.map(({ type }: { type: string }) => type)]).toEqual([
      'user',
      ['image_url', 'image_url', 'text'],
    ]);
    expect(content[0].image_url.url).toMatch(/^data:image\/png;base64,/);
    expect(content[2].text).toBe('Where is it?');
  });

  it('gives several answers with their seeds, as JSON with the usage of each', async () => {
    server.next.push(says('here'), says('there'));
    const { code, out } = await elsewhere('--samples', '2', '--temperature', '1', '--seed', '4', '--json');
    expect(code).toBe(0);
    const { policy, answers } = JSON.parse(out);
    expect(policy).toBe(`openai:qwen2.5vl:7b@${server.url}`);
    expect(answers.map(({ text }: Answer) => text).sort()).toEqual(['here', 'there']);
    expect(answers[0].usage).toEqual({ prompt: 70, completion: 3 });
    const seeds = server.calls.slice(-2).map(({ body }) => body.seed);
    expect(new Set(seeds).size).toBe(2);
  });

  it('fails where the endpoint refuses, and names options that only policies on this machine have', async () => {
    server.next.push(reply({ error: { message: 'no such model' } }, 404));
    const refused = await elsewhere();
    expect([refused.code, refused.out]).toEqual([3, '']);
    expect(refused.err).toMatch(/no such model/);
    expect((await elsewhere('--top-k', '4')).err).toMatch(/--top-k: applies to local policies only/);
  });
});
