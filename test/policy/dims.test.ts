import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { CheckpointError } from '../../src/errors.ts';
import { configJson, nanoDims, parseDims } from '../../src/policy/dims.ts';
import { layoutOf, publishedName } from '../../src/policy/layout.ts';
import { decayMask } from '../../src/policy/weights.ts';
import { GOLDEN, golden } from './golden.ts';

const nested = JSON.parse(readFileSync(`${GOLDEN}/config.json`, 'utf8')) as Record<string, unknown>;
const special = { image: 1, video: 2, visionStart: 3, visionEnd: 4, end: 5, pad: 6 };

/** config.json of Qwen2.5-VL-3B-Instruct as published, without keys that do not matter. */
const published = {
  model_type: 'qwen2_5_vl',
  bos_token_id: 151643,
  eos_token_id: 151645,
  vision_start_token_id: 151652,
  vision_end_token_id: 151653,
  image_token_id: 151655,
  video_token_id: 151656,
  hidden_act: 'silu',
  hidden_size: 2048,
  intermediate_size: 11008,
  max_position_embeddings: 128000,
  num_attention_heads: 16,
  num_hidden_layers: 36,
  num_key_value_heads: 2,
  rms_norm_eps: 1e-6,
  rope_theta: 1000000,
  sliding_window: 32768,
  tie_word_embeddings: true,
  use_sliding_window: false,
  vision_config: {
    depth: 32,
    hidden_act: 'silu',
    hidden_size: 1280,
    intermediate_size: 3420,
    num_heads: 16,
    in_chans: 3,
    out_hidden_size: 2048,
    patch_size: 14,
    spatial_merge_size: 2,
    spatial_patch_size: 14,
    window_size: 112,
    fullatt_block_indexes: [7, 15, 23, 31],
    tokens_per_second: 2,
    temporal_patch_size: 2,
  },
  rope_scaling: { type: 'mrope', mrope_section: [16, 24, 24] },
  vocab_size: 151936,
};

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

  it('counts the parameters that the published 3B checkpoint has', () => {
    expect(layoutOf(parseDims(published)).size).toBe(3_754_622_976);
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
    ['hidden_size', without('hidden_size')],
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
    ['rope_scaling.rope_type', { ...published, rope_scaling: { type: 'yarn', mrope_section: [16, 24, 24] } }],
    ['num_key_value_heads', { ...published, num_key_value_heads: 3 }],
    ['image_token_id', { ...published, image_token_id: 151936 }],
    ['model_type', { ...published, model_type: 'qwen3_vl' }],
    ['use_sliding_window', { ...published, use_sliding_window: true }],
  ])('names the key %s when it is wrong', (key, config) => {
    expect(() => parseDims(config, 'dir/config.json')).toThrow(CheckpointError);
    expect(() => parseDims(config, 'dir/config.json')).toThrow(`dir/config.json: '${key}'`);
  });

  it('makes a nano policy of about three quarters of a million parameters', () => {
    const { size } = layoutOf(nanoDims(400, special));
    expect(size).toBeGreaterThan(700_000);
    expect(size).toBeLessThan(800_000);
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
    const layout = layoutOf(parseDims(nested));
    const mask = decayMask(layout);
    for (const { name, offset, size, shape } of layout.parameters) {
      const matrix = shape.length > 1;
      expect(matrix).toBe(!/norm|bias/i.test(name));
      expect(mask.subarray(offset, offset + size).every((v) => v === (matrix ? 1 : 0))).toBe(true);
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
