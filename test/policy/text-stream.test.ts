import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TextStream, Tokenizer } from '../../src/policy/tokenizer.ts';
import { GOLDEN } from './golden.ts';

const TEXT = fileURLToPath(new URL('../golden/text', import.meta.url));
const tokenizer = Tokenizer.load(GOLDEN);

function pieces(from: Tokenizer, ids: Iterable<number>): string[] {
  const stream = new TextStream(from);
  return [...Array.from(ids, (id) => stream.push(id)), stream.end()];
}

describe('text stream', () => {
  it('is what decoding all tokens at once gives, whatever the tokens', () => {
    const size = tokenizer.size;
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: size + 3 }), { maxLength: 40 }), (ids) => {
        expect(pieces(tokenizer, ids).join('')).toBe(tokenizer.decode(ids));
      }),
    );
  });

  it('is the text of the reference for ids that cut characters apart', () => {
    const golden = JSON.parse(readFileSync(`${TEXT}/text.json`, 'utf8')) as {
      cut: { ids: number[]; plain: string }[];
    };
    const other = Tokenizer.load(TEXT);
    for (const { ids, plain } of golden.cut) expect(pieces(other, ids).join('')).toBe(plain);
  });

  it('holds back the bytes of a character until it is whole', () => {
    const ids = tokenizer.encode('a漢b');
    const got = pieces(tokenizer, ids);
    expect(ids).toHaveLength(5); // the sign is three bytes, each a token here
    expect(got).toEqual(['a', '', '', '漢', 'b', '']);
  });

  it('ends with what never became a character, and leaves special tokens out', () => {
    const [first] = tokenizer.encode('漢');
    expect(pieces(tokenizer, [first!])).toEqual(['', '\uFFFD']);
    expect(pieces(tokenizer, tokenizer.encode('a<|im_end|>b'))).toEqual(['a', '', 'b', '']);
  });
});
