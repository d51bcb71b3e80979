import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { CheckpointError } from '../../src/ground/errors.ts';
import { parseGenerationConfig, readGenerationConfig } from '../../src/policy/model-config.ts';

const NOTHING = {
  stops: [],
  suppress: [],
  temperature: 0,
  topP: 1,
  topK: null,
  repetitionPenalty: 1,
  maxTokens: null,
};

describe('generation config', () => {
  it('reads what the published checkpoints ask for', () => {
    expect(
      parseGenerationConfig({
        bos_token_id: 151643,
        pad_token_id: 151643,
        do_sample: true,
        eos_token_id: [151645, 151643],
        repetition_penalty: 1.05,
        temperature: 0.1,
        top_p: 0.001,
        top_k: 1,
        transformers_version: '4.49.0',
      }),
    ).toEqual({
      stops: [151645, 151643],
      suppress: [],
      temperature: 0.1,
      topP: 0.001,
      topK: 1,
      repetitionPenalty: 1.05,
      maxTokens: null,
    });
  });

  it('is greedy unless the file samples, whatever its temperature', () => {
    expect(parseGenerationConfig({ temperature: 0.7 }).temperature).toBe(0);
    expect(parseGenerationConfig({ temperature: 0.7, do_sample: true }).temperature).toBe(0.7);
    expect(parseGenerationConfig({ do_sample: true }).temperature).toBe(1);
  });

  it('takes one end token or several, each once, and no limit of null or of a top_k of 0', () => {
    expect(parseGenerationConfig({ eos_token_id: 7 }).stops).toEqual([7]);
    expect(parseGenerationConfig({ eos_token_id: [7, 9, 7] }).stops).toEqual([7, 9]);
    expect(parseGenerationConfig({ eos_token_id: null, top_k: 0, max_new_tokens: null })).toEqual(NOTHING);
    expect(parseGenerationConfig({ max_new_tokens: 128 }).maxTokens).toBe(128);
    expect(parseGenerationConfig({ suppress_tokens: [9, 7] }).suppress).toEqual([9, 7]);
  });

  it.each([
    ['eos_token_id', '151645'],
    ['eos_token_id', [3, -1]],
    ['suppress_tokens', 151655],
    ['suppress_tokens', [-1]],
    ['temperature', -0.1],
    ['top_p', 0],
    ['top_p', 1.1],
    ['top_k', 2.5],
    ['repetition_penalty', 0],
    ['do_sample', 1],
    ['max_new_tokens', 0],
  ])('refuses %s = %j by name', (key, value) => {
    expect(() => parseGenerationConfig({ [key]: value }, 'g.json')).toThrow(CheckpointError);
    expect(() => parseGenerationConfig({ [key]: value }, 'g.json')).toThrow(`g.json: '${key}' must be`);
  });

  it('reads the file of a directory, does without one, and says when it is damaged', () => {
    const directory = mkdtempSync(join(tmpdir(), 'generation-'));
    try {
      expect(readGenerationConfig(directory)).toEqual(NOTHING);
      const file = join(directory, 'generation_config.json');
      writeFileSync(file, '{"eos_token_id": 5}');
      expect(readGenerationConfig(directory).stops).toEqual([5]);
      writeFileSync(file, '{"eos_token_id": ');
      expect(() => readGenerationConfig(directory)).toThrow(`${file}: not JSON`);
      writeFileSync(file, '[]');
      expect(() => readGenerationConfig(directory)).toThrow(/must hold a JSON object/);
    } finally {
      rmSync(directory, { recursive: true });
    }
  });
});
