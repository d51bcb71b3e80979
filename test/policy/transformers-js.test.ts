/** transformers.js on policies that were saved here, and on exports of every layout of checkpoints. */
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  AutoModelForImageTextToText,
  AutoProcessor,
  env,
  RawImage,
  type Tensor,
} from '@huggingface/transformers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MANIFEST_FILE } from '../../src/ground/manifest.ts';
import type { Picture } from '../../src/ground/types.ts';
import { exportOnnx } from '../../src/onnx/export.ts';
import type { Message } from '../../src/policy/chat.ts';
import { generate } from '../../src/policy/generate.ts';
import { readGenerationConfig } from '../../src/policy/model-config.ts';
import { Policy, Prompting } from '../../src/policy/policy.ts';
import { trainBpe } from '../../src/policy/tokenizer.ts';
import { tinyDims } from '../helpers/tiny-policy.ts';
import { corpus } from './corpus.ts';
import { distance, engine, picture } from './golden.ts';

env.allowRemoteModels = false;
process.env['ORT_DISABLE_TELEMETRY'] = '1';

const directory = mkdtempSync(join(tmpdir(), 'transformers-js-'));
const saved = join(directory, 'policy');
const born = engine.live();
let policy: Policy;
let processor: Awaited<ReturnType<typeof AutoProcessor.from_pretrained>>;
beforeAll(async () => {
  policy = Policy.create(engine, { tokenizer: trainBpe(corpus(30)), seed: 3 });
  policy.save(saved);
  processor = await AutoProcessor.from_pretrained(saved);
});
afterAll(() => {
  policy.dispose();
  rmSync(directory, { recursive: true, force: true });
  expect(engine.live()).toBe(born);
});

const raw = ({ data, width, height }: Picture): RawImage =>
  new RawImage(Uint8ClampedArray.from(data), width, height, 3);

const words = "it's a series: 0.5, -12 漢字\n\nwhich class?";
/** At most one picture: of several, transformers.js makes the frames of one. */
const conversations: { sizes: [number, number][]; messages: Message[] }[] = [
  { sizes: [], messages: [{ role: 'user', content: words }] },
  {
    sizes: [[84, 56]],
    messages: [{ role: 'user', content: [{ type: 'image' }, { type: 'text', text: words }] }],
  },
  {
    sizes: [[56, 112]],
    messages: [
      { role: 'system', content: 'Answer in one word.' },
      { role: 'user', content: words },
      { role: 'assistant', content: 'the first' },
      { role: 'user', content: [{ type: 'text', text: 'and this? ' }, { type: 'image' }] },
    ],
  },
];

/** Patches with each channel's frame twice, as transformers has them: [patches, 3 · 2 · patch²]. */
function bothFrames(patches: Float32Array, area: number): Float32Array {
  const frames: number[] = [];
  for (let at = 0; at < patches.length; at += area) {
    const frame = patches.subarray(at, at + area);
    frames.push(...frame, ...frame);
  }
  return Float32Array.from(frames);
}

describe('a saved policy in transformers.js', () => {
  it.each(conversations)(
    'has our prompt, ids and pixels: pictures of $sizes',
    async ({ sizes, messages }) => {
      const text = processor.apply_chat_template(messages as never, {
        add_generation_prompt: true,
        tokenize: false,
      }) as string;
      expect(text).toBe(policy.chat.render(messages));
      const pictures = sizes.map((size) => picture(...size));
      const images = pictures.map(raw);
      const theirs = (await processor(text, images.length === 0 ? null : images)) as Record<string, Tensor>;
      const ours = policy.encodePrompt(text, pictures);
      expect([...theirs['input_ids']!.data].map(Number)).toEqual([...ours.ids]);
      if (images.length === 0) return;
      const grids = ours.images.map(({ rows, columns }) => [1, rows, columns]);
      expect([...theirs['image_grid_thw']!.data].map(Number)).toEqual(grids.flat());
      const area = policy.dims.vision.patch ** 2;
      const pixels = ours.images.flatMap(({ patches }) => [...bothFrames(patches, area)]);
      expect(distance(theirs['pixel_values']!.data as Float32Array, pixels)).toBeLessThan(1e-5);
    },
  );

  it('sees a picture that must be resized on the same grid', async () => {
    const shown = picture(101, 67);
    const text = policy.chat.render([{ role: 'user', content: [{ type: 'image' }] }]);
    const theirs = (await processor(text, [raw(shown)])) as Record<string, Tensor>;
    expect([...theirs['input_ids']!.data].map(Number)).toEqual([...policy.encodePrompt(text, [shown]).ids]);
  });

  it('is told not to say what stands for pictures', () => {
    const config = JSON.parse(readFileSync(join(saved, 'generation_config.json'), 'utf8'));
    const tokens = ['<|vision_start|>', '<|vision_end|>', '<|image_pad|>', '<|video_pad|>'] as const;
    expect(config.suppress_tokens).toEqual(tokens.map((token) => policy.tokenizer.special(token)));
    expect(readGenerationConfig(saved).suppress).toEqual(config.suppress_tokens);
    for (const id of config.suppress_tokens) expect(policy.forbidden[id]).toBeLessThan(0);
  });

  it('is saved again with the same files', () => {
    const again = Policy.load(engine, saved);
    again.save(join(directory, 'again'));
    again.dispose();
    for (const name of ['preprocessor_config.json', 'tokenizer_config.json', 'generation_config.json']) {
      expect(readFileSync(join(directory, 'again', name))).toEqual(readFileSync(join(saved, name)));
    }
  });
});

/** Greedy tokens by this policy, and by transformers.js with everything from its export, of the conversations with a picture. */
async function bothAnswers(from: string, dtypes: readonly ('fp32' | 'fp16')[]): Promise<void> {
  const exported = `${from}-exported`;
  exportOnnx(from, exported, { types: ['float32', 'float16'], version: '1' });
  const source = Policy.load(engine, from, { tuning: 'none' });
  const processor = await AutoProcessor.from_pretrained(exported);
  for (const dtype of dtypes) {
    const model = await AutoModelForImageTextToText.from_pretrained(exported, { dtype, device: 'cpu' });
    // Without a picture transformers.js 4.3 adds the prompt's length to later positions instead of subtracting it.
    for (const { sizes, messages } of conversations.filter(({ sizes }) => sizes.length > 0)) {
      const pictures = sizes.map(([width, height]) => picture(width, height));
      const text = source.chat.render(messages);
      const { suppress, stops } = readGenerationConfig(from);
      const [ours] = await generate(source, [source.encodePrompt(text, pictures)], {
        ...{ temperature: 0, maxTokens: 12, seed: 0, free: true, suppress, stops },
      });
      const options = { add_generation_prompt: true, tokenize: false };
      const prompt = processor.apply_chat_template(messages as never, options) as string;
      const inputs = await processor(prompt, pictures.map(raw));
      const suppressed = suppress.length === 0 ? {} : { suppress_tokens: suppress };
      const answer = await model.generate({ ...inputs, max_new_tokens: 12, do_sample: false, ...suppressed });
      const ids = [...((answer as Tensor).tolist() as bigint[][])[0]!].map(Number);
      expect(prompt).toBe(text);
      expect(ids.slice(inputs.input_ids.dims.at(-1))).toEqual([...ours!.ids]);
      expect(new Set(ours!.ids).size).toBeGreaterThan(1);
    }
    await model.dispose();
  }
  source.dispose();
}

describe('transformers.js on an export', () => {
  it('answers greedily as the policy does, token for token', () => bothAnswers(saved, ['fp32', 'fp16']));

  type Files = Record<string, Record<string, unknown>>;
  /** Rewrites the JSON files of a directory as another program leaves them; null removes one. */
  const layouts: [string, (files: Files) => Record<string, unknown>][] = [
    [
      'image settings without their flags',
      ({ 'preprocessor_config.json': settings }) => {
        const named = ['image_processor_type', 'min_pixels', 'max_pixels', 'image_mean', 'image_std'];
        const kept = Object.entries(settings!).filter(([key]) => named.includes(key));
        return { 'preprocessor_config.json': Object.fromEntries(kept) };
      },
    ],
    [
      'files of transformers 5',
      ({ 'preprocessor_config.json': settings, 'tokenizer_config.json': config }) => {
        const { processor_class, ...image_processor } = settings!;
        const { chat_template: _, ...rest } = config!;
        return {
          'preprocessor_config.json': null,
          'processor_config.json': { processor_class, image_processor },
          'tokenizer_config.json': { ...rest, tokenizer_class: 'TokenizersBackend' },
          'generation_config.json': null,
        };
      },
    ],
    [
      "settings of Pillow's resize",
      ({ 'preprocessor_config.json': settings }) => ({
        'preprocessor_config.json': { ...settings, image_processor_type: 'Qwen2VLImageProcessorPil' },
      }),
    ],
    [
      'vocab.json and merges.txt alone',
      ({ 'tokenizer.json': tokenizer, 'tokenizer_config.json': config }) => {
        const { added_tokens, model } = tokenizer as unknown as {
          added_tokens: { id: number; content: string }[];
          model: { vocab: object; merges: string[][] };
        };
        const decoder = Object.fromEntries(added_tokens.map(({ id, ...token }) => [id, token]));
        return {
          'tokenizer.json': null,
          'vocab.json': model.vocab,
          'merges.txt': ['#version: 0.2', ...model.merges.map((pair) => pair.join(' '))].join('\n'),
          'tokenizer_config.json': { ...config, added_tokens_decoder: decoder },
        };
      },
    ],
  ];
  it.each(layouts)('works from %s', async (name, rewrite) => {
    const from = join(directory, name.replaceAll(/\W/g, '-'));
    cpSync(saved, from, { recursive: true });
    rmSync(join(from, MANIFEST_FILE));
    const names = readdirSync(from).filter((file) => file.endsWith('.json'));
    const files = Object.fromEntries(
      names.map((file) => [file, JSON.parse(readFileSync(join(from, file), 'utf8'))]),
    );
    for (const [file, content] of Object.entries(rewrite(files))) {
      if (content === null) rmSync(join(from, file));
      else writeFileSync(join(from, file), typeof content === 'string' ? content : JSON.stringify(content));
    }
    await bothAnswers(from, ['fp32']);
    const again = Prompting.read(`${from}-exported`);
    expect(again.processor.config).toEqual(Prompting.read(from).processor.config);
    expect(readGenerationConfig(`${from}-exported`).temperature).toBe(readGenerationConfig(from).temperature);
  });

  it('takes heads of any size: 12', async () => {
    const from = join(directory, 'heads');
    const made = Policy.create(engine, {
      ...{ tokenizer: trainBpe(corpus(30)), seed: 5 },
      dims: (vocabulary, special) => ({
        ...{ ...tinyDims(vocabulary, special), width: 48, heads: 4, kvHeads: 2, headDim: 12 },
        sections: [1, 1, 4],
      }),
    });
    made.save(from);
    made.dispose();
    await bothAnswers(from, ['fp32']);
  });
});
