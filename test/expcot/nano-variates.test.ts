import { Tokenizer } from '@huggingface/tokenizers';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { VTA_WAVES } from '../../datasets/generators/vta.ts';
import { VTA_VARIATES, vtaMultivariate } from '../../datasets/generators/vta-variates.ts';
import { parseVariates } from '../../rewards/answer.ts';
import { DataError } from '../../src/errors.ts';
import {
  NANO_VARIATES_PHRASES,
  nanoVariatesBlind,
  nanoVariatesTeacher,
} from '../../src/expcot/nano-variates.ts';
import { analyseVariates } from '../../src/expcot/variates.ts';
import { BPE_CONFIG, trainBpe } from '../../src/policy/bpe.ts';

const series = VTA_WAVES.flatMap((wave) =>
  VTA_VARIATES.flatMap((variates) =>
    [0, 1].map((i) => vtaMultivariate(wave, 3407, 'train', i, { variates })),
  ),
);
const analysed = series.map((one) => ({ ...one, evidence: analyseVariates(one.channels) }));
const nine = analysed.find(({ channels }) => channels.length === 9)!.evidence;

describe('nano variates style', () => {
  it('walks through the variates, one symbol each, then names them', () => {
    expect(nanoVariatesTeacher(nine, [7, 2])).toBe(
      '<think>9 variates; scan ..x....x.</think><answer>[2, 7]</answer>',
    );
    expect(nanoVariatesTeacher(nine, [])).toBe(
      '<think>9 variates; scan .........</think><answer>[]</answer>',
    );
  });

  it('is well formed, and its scan marks exactly the ids of its answer', () => {
    fc.assert(
      fc.property(fc.constantFrom(...analysed), fc.infiniteStream(fc.boolean()), ({ evidence }, odd) => {
        const count = evidence.variates.length;
        const gold = Array.from({ length: count }, (_, id) => id).filter(() => odd.next().value);
        const text = nanoVariatesTeacher(evidence, gold);
        expect(parseVariates(text, count)).toMatchObject({ wellFormed: true, variates: gold });
        const scan = /^<think>(\d+) variates; scan ([.x]+)<\/think>/.exec(text)!;
        expect(Number(scan[1])).toBe(count);
        expect([...scan[2]!].flatMap((symbol, id) => (symbol === 'x' ? [id] : []))).toEqual(gold);
      }),
    );
  });

  it('blind, gives the variates that the rule sets apart', () => {
    for (const { evidence, channels } of analysed) {
      const { variates } = parseVariates(nanoVariatesBlind(evidence), channels.length);
      expect(variates).toEqual(evidence.reading.variates);
    }
  });

  it('refuses ids that are not there or come twice', () => {
    expect(() => nanoVariatesTeacher(nine, [9])).toThrow(/variate 9: the series has 9/);
    expect(() => nanoVariatesTeacher(nine, [-1])).toThrow(DataError);
    expect(() => nanoVariatesTeacher(nine, [3, 1, 3])).toThrow(/variate 3 is named twice/);
  });

  it('takes one token for each symbol, tag and phrase', () => {
    const texts = analysed.map(({ evidence, variates }) => nanoVariatesTeacher(evidence, variates));
    const tokenizer = new Tokenizer(trainBpe(texts, { vocabulary: 320 }), BPE_CONFIG);
    const encode = (text: string) =>
      tokenizer.encode(text).tokens.map((token: string) => token.replaceAll('Ġ', ' '));
    const known = [...NANO_VARIATES_PHRASES, '[', ']', ', ', ...'0123456789'];
    for (const [i, text] of texts.entries()) {
      const tokens = encode(text);
      expect(tokens.join('')).toBe(text);
      for (const token of tokens.filter((t: string) => !t.startsWith('<'))) expect(known).toContain(token);
      const { channels, variates } = analysed[i]!;
      const digits = [channels.length, ...variates].join('').length;
      expect(tokens).toHaveLength(4 + 1 + 2 + channels.length + digits + Math.max(0, variates.length - 1));
    }
  });
});
