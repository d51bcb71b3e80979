import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CheckpointError } from '../../src/errors.ts';
import { trainBpe } from '../../src/policy/bpe.ts';
import { Chat, expandImages } from '../../src/policy/chat.ts';
import { SPECIAL_TOKENS, Tokenizer } from '../../src/policy/tokenizer.ts';
import { corpus, PROMPT } from './corpus.ts';
import { GOLDEN, golden } from './golden.ts';

const NANO = fileURLToPath(new URL('../golden/nano', import.meta.url));
const json = (file: string): unknown => JSON.parse(readFileSync(file, 'utf8'));

describe('tokenizer', () => {
  const tokenizer = Tokenizer.load(GOLDEN);

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

describe('chat', () => {
  it.each(golden.cases)(
    "renders the checkpoint's template as the reference does: $name",
    ({ messages, text }) => {
      expect(Chat.load(GOLDEN).render(messages)).toBe(text);
    },
  );

  it('has a default template without a system message', () => {
    const content = [{ type: 'image' as const }, { type: 'text' as const, text: 'what?' }];
    expect(new Chat().render([{ role: 'user', content }])).toBe(
      '<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>what?<|im_end|>\n<|im_start|>assistant\n',
    );
  });

  it('expands one placeholder per image, and says when their number differs', () => {
    expect(expandImages('a<|image_pad|>b<|image_pad|>', [2, 1])).toBe(
      'a<|image_pad|><|image_pad|>b<|image_pad|>',
    );
    expect(() => expandImages('a<|image_pad|>b', [])).toThrow(/1 image placeholders .* for 0 images/);
    expect(() => expandImages('ab', [4])).toThrow(CheckpointError);
  });

  it('refuses a template that does not parse', () => {
    expect(() => new Chat('{% for x %}')).toThrow(CheckpointError);
  });

  it.each([
    [
      "{{ raise_exception('roles must alternate') }}",
      /dir\/a\.jinja: .* does not take .*\(roles must alternate\)/,
    ],
    ["{{ messages[0]['role'].nothing.more }}", /dir\/a\.jinja: the chat template makes an empty prompt/],
    ['{% if false %}a{% endif %}\n', /dir\/a\.jinja: the chat template makes an empty prompt/],
    ['{{ messages[0].role }}', /dir\/a\.jinja: .* no place \(<\|image_pad\|>\) for images/],
  ])('names the file of a template that fails: %s', (source, message) => {
    const chat = new Chat(source, 'dir/a.jinja');
    const content = [{ type: 'text' as const, text: 'what?' }, { type: 'image' as const }];
    const render = () => chat.render([{ role: 'user', content }]);
    expect(render).toThrow(CheckpointError);
    expect(render).toThrow(message);
  });
});
