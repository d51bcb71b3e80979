import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CheckpointError } from '../../src/ground/errors.ts';
import {
  readTokenizer,
  SPECIAL_TOKENS,
  TextStreamer,
  Tokenizer,
  trainBpe,
} from '../../src/policy/tokenizer.ts';
import { corpus, PROMPT } from './corpus.ts';
import { GOLDEN, golden, tokenizerOf } from './golden.ts';

const NANO = fileURLToPath(new URL('../golden/nano', import.meta.url));
const TEXT = fileURLToPath(new URL('../golden/text', import.meta.url));
const json = (file: string): unknown => JSON.parse(readFileSync(file, 'utf8'));

/** What test/golden/make_text.py stores. */
const reference = JSON.parse(readFileSync(`${TEXT}/text.json`, 'utf8')) as {
  size: number;
  strings: { text: string; ids: number[]; decoded: string; plain: string }[];
  cut: { ids: number[]; plain: string }[];
};

describe('tokenizer', () => {
  const tokenizer = tokenizerOf(GOLDEN);

  it.each(golden.encodings)('encodes and decodes as the reference does: $text', ({ text, ids }) => {
    expect([...tokenizer.encode(text)]).toEqual(ids);
    expect(tokenizer.decode(ids, { skipSpecial: false })).toBe(text);
  });

  it('returns ids that the caller may change', () => {
    tokenizer.encode('trend')[0] = 0;
    expect(tokenizer.decode(tokenizer.encode('trend'))).toBe('trend');
  });

  it('knows the special tokens and leaves them out of text', () => {
    for (const token of SPECIAL_TOKENS) {
      expect(tokenizer.special(token)).toBe(golden.special[token]);
      expect(tokenizer.isSpecial(tokenizer.special(token))).toBe(true);
    }
    expect(tokenizer.size).toBe(golden.vocabulary);
    expect(tokenizer.decode(tokenizer.encode('a<|im_end|>b'))).toBe('ab');
    expect(tokenizer.decode([999999, -1])).toBe('');
  });

  it('finds special tokens in a text, the first and longest', () => {
    expect(tokenizer.specialIn('find <|im_end and im_end|>')).toBeNull();
    expect(tokenizer.specialIn('x <|im_end|> y <|im_start|>')).toBe('<|im_end|>');
    expect(tokenizer.specialIn('<|image_pad|>')).toBe('<|image_pad|>');
  });

  it('refuses a tokenizer without the vision tokens', () => {
    const bare = { ...tokenizer.json, added_tokens: [] };
    expect(() => new Tokenizer(bare)).toThrow(CheckpointError);
    expect(() => new Tokenizer(bare)).toThrow(/<\|endoftext\|> is missing/);
    expect(() => new Tokenizer({})).toThrow(/not a usable tokenizer/);
  });
});

describe('nano BPE', () => {
  const texts = corpus(300);
  const trained = trainBpe(texts);
  const tokenizer = new Tokenizer(trained);
  const tokens = (text: string): string[] =>
    [...tokenizer.encode(text)].map((id) => tokenizer.decode([id], { skipSpecial: false }));

  it('trains the tokenizer.json that the reference ids were taken from, in any order of the corpus', () => {
    expect(trained).toEqual(json(`${NANO}/tokenizer.json`));
    expect(trainBpe([...texts].reverse())).toEqual(trained);
  });

  it('encodes as the reference implementation does with that file', () => {
    for (const { text, ids } of json(`${NANO}/encodings.json`) as { text: string; ids: number[] }[]) {
      expect([...tokenizer.encode(text)], text).toEqual(ids);
    }
  });

  it('keeps tags, phrases, digits and scan symbols as single tokens', () => {
    expect(
      tokens(
        '<think>sine wave; period 62; scan ..(#).ox.; discord</think><answer>[[140, 220]]</answer><class>global point</class>',
      ),
    ).toEqual([
      ...[
        '<think>',
        'sine wave; period ',
        '6',
        '2',
        '; scan ',
        '.',
        '.',
        '(',
        '#',
        ')',
        '.',
        'o',
        'x',
        '.',
        '; discord',
        '</think>',
      ],
      ...[
        '<answer>',
        '[',
        '[',
        '1',
        '4',
        '0',
        ', ',
        '2',
        '2',
        '0',
        ']',
        ']',
        '</answer>',
        '<class>',
        'global point',
        '</class>',
      ],
    ]);
    expect(tokens(PROMPT)).toHaveLength(7);
  });

  it('does not split o and x inside words', () => {
    expect(tokens('noise; scan oo')).not.toContain('no');
    expect(tokens('noise; scan .')[0]).toBe('noise; scan ');
  });

  it('keeps within the vocabulary and decodes any text back', () => {
    expect(tokenizer.size).toBeLessThanOrEqual(400);
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 60 }), (text) => {
        fc.pre(!/<\|[a-z_]+\|>/.test(text));
        expect(tokenizer.decode(tokenizer.encode(text), { skipSpecial: false })).toBe(text);
      }),
    );
  });

  it('has one token per role of the chat template, and learns nothing across special tokens', () => {
    expect([...tokenizer.encode('<|im_start|>assistant\n')]).toHaveLength(2);
    expect(tokens('user\nuser')).toEqual(['user\n', ...tokens('user')]);
    const rendered = Array.from({ length: 20 }, () => `<|im_start|>user\n${PROMPT}<|im_end|>\n`);
    const learned = new Tokenizer(trainBpe([...texts, ...rendered]));
    expect([...learned.encode(rendered[0]!)]).toHaveLength(2 + 7 + 2);
  });
});

describe("the tokenizer of a checkpoint, against transformers' Qwen2Tokenizer", () => {
  const tokenizer = tokenizerOf(TEXT);
  const shown = (text: string): string => JSON.stringify(text);

  it('has as many ids', () => {
    expect(tokenizer.size).toBe(reference.size);
  });

  it('encodes awkward strings to the same ids', () => {
    // Known: the reference takes a long s for an s where it looks for contractions regardless of case; ours does not.
    const rows = reference.strings.filter(({ text }) => !text.includes("'ſ"));
    expect(rows.length).toBeGreaterThan(400);
    const wrong = rows.filter(({ text, ids }) => tokenizer.encode(text).join() !== ids.join());
    expect(wrong.map(({ text }) => shown(text))).toEqual([]);
  });

  it('decodes to the same text, with and without special tokens', () => {
    for (const { ids, decoded, plain } of reference.strings) {
      expect(tokenizer.decode(ids, { skipSpecial: false })).toBe(decoded);
      expect(tokenizer.decode(ids)).toBe(plain);
    }
  });

  it('decodes ids that cut characters apart to the same text', () => {
    const wrong = reference.cut.filter(({ ids, plain }) => tokenizer.decode(ids) !== plain);
    expect(wrong.map(({ ids, plain }) => [shown(tokenizer.decode(ids)), shown(plain)])).toEqual([]);
  });
});

interface File {
  added_tokens: { id: number; content: string; special: boolean }[];
  model: { vocab: Record<string, number>; merges: (string | [string, string])[] };
}
const read = (file: string): File => JSON.parse(readFileSync(file, 'utf8')) as File;

let directory = '';
const write = (name: string, content: unknown): void =>
  writeFileSync(join(directory, name), typeof content === 'string' ? content : JSON.stringify(content));
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'tokenizer-'));
});
afterEach(() => rmSync(directory, { recursive: true }));

describe('files of a tokenizer', () => {
  it('are tokenizer.json alone, where it has everything', () => {
    copyFileSync(join(GOLDEN, 'tokenizer.json'), join(directory, 'tokenizer.json'));
    const { json, config } = readTokenizer(directory);
    expect(json).toEqual(read(join(GOLDEN, 'tokenizer.json')));
    expect(config).toEqual({});
  });

  it('may be the vocabulary and merges of older checkpoints, with the same ids', () => {
    const { model, added_tokens: added } = read(join(TEXT, 'tokenizer.json'));
    const pair = (merge: string | [string, string]): string =>
      typeof merge === 'string' ? merge : merge.join(' ');
    write('vocab.json', model.vocab);
    write('merges.txt', `#version: 0.2\n${model.merges.map(pair).join('\r\n')}\n`);
    const decoder = Object.fromEntries(added.map(({ id, ...token }) => [id, token]));
    write('tokenizer_config.json', { added_tokens_decoder: decoder });
    const older = tokenizerOf(directory);
    const rows = reference.strings.filter(({ text }) => !text.includes("'ſ"));
    const wrong = rows.filter(({ text, ids }) => older.encode(text).join() !== ids.join());
    expect(wrong.map(({ text }) => JSON.stringify(text))).toEqual([]);
  });

  it('add tokens that only tokenizer_config.json or added_tokens.json names', () => {
    copyFileSync(join(GOLDEN, 'tokenizer.json'), join(directory, 'tokenizer.json'));
    write('tokenizer_config.json', {
      added_tokens_decoder: {
        288: { content: '<spike>', special: false },
        281: { content: '<|endoftext|>', special: true },
      },
    });
    write('added_tokens.json', { '<|mark|>': 289, '<spike>': 288 });
    const tokenizer = tokenizerOf(directory);
    expect([...tokenizer.encode('<spike><|mark|>')]).toEqual([288, 289]);
    expect(tokenizer.size).toBe(290);
    expect([tokenizer.isSpecial(288), tokenizer.isSpecial(289)]).toEqual([false, true]);
    expect(tokenizer.decode([288, 289])).toBe('<spike>');
    expect([tokenizer.added(288), tokenizer.added(5)]).toEqual(['<spike>', undefined]);
  });

  it('are refused when they disagree, naming the token and both files', () => {
    copyFileSync(join(GOLDEN, 'tokenizer.json'), join(directory, 'tokenizer.json'));
    write('added_tokens.json', { '<|image_pad|>': 281 });
    expect(() => readTokenizer(directory)).toThrow(CheckpointError);
    expect(() => readTokenizer(directory)).toThrow(
      /added_tokens\.json: token 281 is '<\|image_pad\|>', but .*tokenizer\.json has '<\|endoftext\|>' there/,
    );
    write('added_tokens.json', { '<|image_pad|>': 400 });
    expect(() => readTokenizer(directory)).toThrow(/token 400 is '<\|image_pad\|>', but .* at 286/);
    write('added_tokens.json', { '<|image_pad|>': 'x' });
    expect(() => readTokenizer(directory)).toThrow(/'<\|image_pad\|>' must have a token id, got "x"/);
    write('added_tokens.json', {});
    write('tokenizer_config.json', { added_tokens_decoder: { 290: { special: true } } });
    expect(() => readTokenizer(directory)).toThrow(/added_tokens_decoder\['290'\]/);
  });

  it('are missed by name', () => {
    expect(() => readTokenizer(directory)).toThrow(/tokenizer\.json: no such file/);
    write('vocab.json', {});
    expect(() => readTokenizer(directory)).toThrow(/merges\.txt: no such file/);
    write('merges.txt', 'a b\nabc\n');
    expect(() => readTokenizer(directory)).toThrow(/merge 2 is not two tokens, but "abc"/);
    write('tokenizer.json', '{"model"');
    expect(() => readTokenizer(directory)).toThrow(/tokenizer\.json: not JSON/);
  });
});

function pieces(from: Tokenizer, ids: Iterable<number>): string[] {
  const stream = new TextStreamer(from);
  return [...Array.from(ids, (id) => stream.push(id)), stream.end()];
}

describe('text streamer', () => {
  const tokenizer = tokenizerOf(GOLDEN);

  it('is what decoding all tokens at once gives, whatever the tokens', () => {
    const size = tokenizer.size;
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: size + 3 }), { maxLength: 40 }), (ids) => {
        expect(pieces(tokenizer, ids).join('')).toBe(tokenizer.decode(ids));
      }),
    );
  });

  it('is the text of the reference for ids that cut characters apart', () => {
    const other = tokenizerOf(TEXT);
    for (const { ids, plain } of reference.cut) expect(pieces(other, ids).join('')).toBe(plain);
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
