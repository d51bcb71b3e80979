import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { CheckpointError } from '../../src/ground/errors.ts';
import { layoutOf, publishedName } from '../../src/policy/layout.ts';
import {
  builtInDims,
  configJson,
  isBuiltIn,
  nanoDims,
  parseDims,
  statedDType,
  usualDType,
  VISION_EPSILON,
  withDType,
} from '../../src/policy/model-config.ts';
import { GOLDEN, golden } from './golden.ts';
import { QWEN_3B, QWEN_7B, QWEN_72B } from './published.ts';

const nested = JSON.parse(readFileSync(`${GOLDEN}/config.json`, 'utf8')) as Record<string, unknown>;
const special = { image: 1, video: 2, visionStart: 3, visionEnd: 4, end: 5, pad: 6 };

const published = QWEN_3B;

function without(key: string): Record<string, unknown> {
  const { [key]: _, ...rest } = published as Record<string, unknown>;
  return rest;
}

describe('dims', () => {
  it('reads the flat layout of published checkpoints', () => {
    const dims = parseDims(published);
    expect(dims).toMatchObject({
      width: 2048,
      layers: 36,
      heads: 16,
      kvHeads: 2,
      headDim: 128,
      tied: true,
      theta: 1e6,
    });
    expect(dims.sections).toEqual([16, 24, 24]);
    expect(dims.vision).toMatchObject({
      depth: 32,
      inner: 3420,
      window: 112,
      fullAttention: [7, 15, 23, 31],
    });
    expect(dims.special).toEqual({
      image: 151655,
      video: 151656,
      visionStart: 151652,
      visionEnd: 151653,
      end: 151645,
      pad: 151643,
    });
  });

  // Counted by transformers 5.23: `num_parameters` of the model of each config on the meta device.
  it.each([
    ['3B', QWEN_3B, 3_754_622_976],
    ['7B', QWEN_7B, 8_292_166_656],
    ['72B', QWEN_72B, 73_410_777_344],
  ])('counts the parameters that the published %s checkpoint has', (_, config, parameters) => {
    expect(layoutOf(parseDims(config)).size).toBe(parameters);
  });

  it('reads 7B and 72B in full', () => {
    expect(parseDims(QWEN_7B)).toMatchObject({
      layers: 28,
      heads: 28,
      kvHeads: 4,
      inner: 18944,
      tied: false,
    });
    expect(parseDims(QWEN_72B)).toEqual({
      vocabulary: 152064,
      width: 8192,
      layers: 80,
      heads: 64,
      kvHeads: 8,
      headDim: 128,
      inner: 29568,
      theta: 1e6,
      sections: [16, 24, 24],
      epsilon: 1e-6,
      maxPositions: 128000,
      tied: false,
      vision: {
        depth: 32,
        width: 1280,
        heads: 16,
        inner: 3456,
        patch: 14,
        temporal: 2,
        merge: 2,
        window: 112,
        fullAttention: [7, 15, 23, 31],
        theta: 10000,
        tokensPerSecond: 2,
      },
      special: parseDims(QWEN_3B).special,
    });
  });

  it('reads the nested layout as the flat one, with the old and the new names of the rotary keys', () => {
    const { vision_config, rope_scaling, rope_theta, ...rest } = QWEN_7B;
    const {
      model_type,
      image_token_id,
      video_token_id,
      vision_start_token_id,
      vision_end_token_id,
      ...text
    } = rest;
    const root = { model_type, image_token_id, video_token_id, vision_start_token_id, vision_end_token_id };
    const expected = parseDims(QWEN_7B);
    const mrope_section = [16, 24, 24];
    for (const rope of [
      { rope_theta, rope_scaling: { type: 'default', rope_type: 'default', mrope_section } },
      { rope_parameters: { rope_type: 'default', rope_theta, mrope_section } },
      { rope_theta, rope_scaling, rope_parameters: { rope_type: 'yarn' } },
    ]) {
      expect(parseDims({ ...root, text_config: { ...text, ...rope }, vision_config })).toEqual(expected);
    }
  });

  it('takes the values of transformers for keys that are absent, and ties the head if root or text section says so', () => {
    const vision_config = {
      hidden_size: 1280,
      intermediate_size: 3456,
      out_hidden_size: 8192,
      tokens_per_second: 2,
    };
    const nested72 = { model_type: 'qwen2_5_vl', vision_config, text_config: {} };
    const defaults = { epsilon: 1e-5, maxPositions: 32768 };
    expect(parseDims(nested72)).toEqual({ ...parseDims(QWEN_72B), ...defaults });
    expect(parseDims({ ...nested72, text_config: { num_key_value_heads: null } }).kvHeads).toBe(64);
    expect(parseDims({ ...nested72, text_config: { tie_word_embeddings: true } }).tied).toBe(true);
    expect(parseDims({ ...nested72, tie_word_embeddings: true, text_config: {} }).tied).toBe(true);
  });

  it('takes a sliding window that starts behind the last layer', () => {
    const config = { ...QWEN_3B, use_sliding_window: true };
    expect(parseDims(config)).toEqual(parseDims(QWEN_3B));
    expect(parseDims({ ...config, max_window_layers: 3, sliding_window: null }).layers).toBe(36);
  });

  it.each(['qwen2_vl', 'qwen3_vl', 'llama', undefined])(
    'says what a %s checkpoint is and what is wanted',
    (model_type) => {
      const config = { ...without('architectures'), model_type };
      expect(() => parseDims(config, 'dir/config.json')).toThrow(CheckpointError);
      const is = model_type === undefined ? "'model_type' is missing" : `'model_type' is "${model_type}"`;
      expect(() => parseDims(config, 'dir/config.json')).toThrow(`dir/config.json: ${is}; that architecture`);
      expect(() => parseDims(config)).toThrow(/only Qwen2\.5-VL can \('qwen2_5_vl'/);
    },
  );

  it('refuses quantised checkpoints by their method', () => {
    const quantization_config = { quant_method: 'awq', bits: 4 };
    expect(() => parseDims({ ...published, quantization_config })).toThrow(/'quantization_config' \(awq\)/);
  });

  it('reads the nested layout of transformers', () => {
    const dims = parseDims(nested);
    expect(dims).toMatchObject({
      width: 32,
      heads: 4,
      kvHeads: 2,
      headDim: 8,
      theta: 10000,
      tied: false,
      vocabulary: 296,
    });
    expect(dims.special.image).toBe(golden.special['<|image_pad|>']);
  });

  it('reads back what it writes', () => {
    for (const dims of [parseDims(published), parseDims(nested), nanoDims(400, special)]) {
      expect(parseDims(JSON.parse(JSON.stringify(configJson(dims))))).toEqual(dims);
    }
  });

  it.each([
    ['hidden_size', { ...published, hidden_size: '2048' }],
    ['vision_config.out_hidden_size', without('hidden_size')],
    ['num_hidden_layers', { ...published, num_hidden_layers: 2.5 }],
    ['vision_config', without('vision_config')],
    [
      'vision_config.out_hidden_size',
      { ...published, vision_config: { ...published.vision_config, out_hidden_size: 2047 } },
    ],
    [
      'vision_config.fullatt_block_indexes',
      { ...published, vision_config: { ...published.vision_config, fullatt_block_indexes: 'all' } },
    ],
    [
      'rope_scaling.mrope_section',
      { ...published, rope_scaling: { type: 'mrope', mrope_section: [16, 24, 25] } },
    ],
    ['rope_scaling.type', { ...published, rope_scaling: { type: 'yarn', mrope_section: [16, 24, 24] } }],
    ['num_key_value_heads', { ...published, num_key_value_heads: 3 }],
    ['image_token_id', { ...published, image_token_id: 151936 }],
    ['vision_config.in_chans', { ...published, vision_config: { ...published.vision_config, in_chans: 1 } }],
    [
      'vision_config.rope_parameters.rope_type',
      { ...published, vision_config: { ...published.vision_config, rope_parameters: { rope_type: 'yarn' } } },
    ],
    ['rope_scaling', { ...published, rope_scaling: 2 }],
    ['num_hidden_layers', { ...published, num_hidden_layers: 1e9 }],
    ['vision_config.depth', { ...published, vision_config: { ...published.vision_config, depth: 1e9 } }],
    ['layer_types', { ...published, layer_types: ['full_attention', 'sliding_attention'] }],
    ['use_sliding_window', { ...published, use_sliding_window: true, max_window_layers: 35 }],
  ])('names the key %s when it is wrong', (key, config) => {
    expect(() => parseDims(config, 'dir/config.json')).toThrow(CheckpointError);
    expect(() => parseDims(config, 'dir/config.json')).toThrow(`dir/config.json: '${key}'`);
  });

  it('makes a nano policy of about three quarters of a million parameters', () => {
    const { size } = layoutOf(nanoDims(400, special));
    expect(size).toBeGreaterThan(700_000);
    expect(size).toBeLessThan(800_000);
  });

  it('makes a small policy of about two million parameters, and knows both by name', () => {
    const dims = builtInDims('small-random')(420, special);
    expect(parseDims(configJson(dims))).toEqual(dims);
    const { size } = layoutOf(dims);
    expect(size).toBeGreaterThan(2_000_000);
    expect(size).toBeLessThan(2_500_000);
    expect(['nano', 'small-random', 'small', 'toString'].map(isBuiltIn)).toEqual([true, true, false, false]);
  });
});

describe('config.json of a saved policy', () => {
  it('states the dtype wherever it was stated and keeps every other key', () => {
    const { torch_dtype: _, ...rest } = QWEN_3B;
    expect(withDType(QWEN_3B, 'float32')).toEqual({ ...rest, torch_dtype: 'float32' });
    expect(withDType(rest, 'bfloat16')).toEqual({ ...rest, dtype: 'bfloat16' });
    const sections = { text_config: { dtype: null, hidden_size: 3 }, vision_config: { depth: 1 } };
    expect(withDType({ dtype: 'float16', ...sections }, 'bfloat16')).toEqual({
      dtype: 'bfloat16',
      text_config: { dtype: 'bfloat16', hidden_size: 3 },
      vision_config: { depth: 1 },
    });
    expect(statedDType(QWEN_3B)).toBe('bfloat16');
    expect(statedDType({ text_config: { dtype: 'float16' } })).toBe('float16');
    expect(statedDType(rest)).toBeUndefined();
  });

  it('is bfloat16 on an accelerator when the checkpoint has 16 bits', () => {
    for (const stated of ['bfloat16', 'float16', 'torch.bfloat16', 'BF16', 'F16']) {
      expect(usualDType('cuda:0', stated)).toBe('bfloat16');
      expect(usualDType('cpu', stated)).toBe('float32');
    }
    expect(usualDType('cuda:0', 'float32')).toBe('float32');
    expect(usualDType('cuda:0', undefined)).toBe('float32');
  });
});

describe('layout', () => {
  it('covers the flat buffer without gaps or overlaps, parts in order', () => {
    const layout = layoutOf(parseDims(nested));
    let at = 0;
    for (const parameter of layout.parameters) {
      expect(parameter.offset).toBe(at);
      for (const part of parameter.parts) {
        expect(part.offset).toBe(at);
        at += part.shape.reduce((a, b) => a * b, 1);
      }
      expect(at).toBe(parameter.offset + parameter.size);
    }
    expect(at).toBe(layout.size);
  });

  it('decays matrices but not norms and biases', () => {
    for (const { name, shape, decay } of layoutOf(parseDims(nested)).parameters) {
      expect([name, decay]).toEqual([name, !/norm|bias/i.test(name)]);
      expect(decay).toBe(shape.length > 1);
    }
  });

  it('knows both naming schemes', () => {
    expect(publishedName('model.language_model.layers.3.mlp.up_proj.weight')).toBe(
      'model.layers.3.mlp.up_proj.weight',
    );
    expect(publishedName('model.visual.merger.ln_q.weight')).toBe('visual.merger.ln_q.weight');
    expect(publishedName('model.norm.weight')).toBe('model.norm.weight');
    expect(publishedName('lm_head.weight')).toBe('lm_head.weight');
  });
});

/** What test/golden/make_published.py stores. */
const reference = JSON.parse(readFileSync(new URL('../golden/published.json', import.meta.url), 'utf8')) as {
  sizes: Record<
    string,
    {
      tensors: Record<string, { shape: number[]; count: number }>;
      parameters: number;
      facts: Record<string, unknown>;
    }
  >;
};

describe.each(Object.entries({ QWEN_3B, QWEN_7B, QWEN_72B }))('config.json of %s', (name, config) => {
  const want = reference.sizes[name]!;
  const dims = parseDims(config);
  const layout = layoutOf(dims);

  it('asks for the tensors that transformers builds, of the same names and shapes', () => {
    const tensors: Record<string, { shape: number[]; count: number }> = {};
    for (const part of layout.parameters.flatMap(({ parts }) => parts)) {
      const key = part.name.replace(/(layers|blocks)\.\d+\./, '$1.N.');
      tensors[key] ??= { shape: [...part.shape], count: 0 };
      expect([...part.shape]).toEqual(tensors[key].shape);
      tensors[key].count++;
    }
    expect(tensors).toEqual(want.tensors);
    expect(layout.size).toBe(want.parameters);
  });

  it('is read as transformers reads it', () => {
    const { vision, special } = dims;
    expect({
      tied: dims.tied,
      headDim: dims.headDim,
      theta: dims.theta,
      sections: [...dims.sections],
      epsilon: dims.epsilon,
      maxPositions: dims.maxPositions,
      window: vision.window,
      fullAttention: [...vision.fullAttention],
      merge: vision.merge,
      patch: vision.patch,
      temporal: vision.temporal,
      visionHeadDim: vision.width / vision.heads,
      visionTheta: vision.theta,
      visionEpsilon: VISION_EPSILON,
      image: special.image,
      video: special.video,
      end: special.end,
    }).toEqual(want.facts);
  });
});
