/** Templates and tokenizers that a checkpoint brings along and that never come to an end. */
import { performance } from 'node:perf_hooks';
import { describe, expect, it } from 'vitest';
import { CheckpointError } from '../../src/ground/errors.ts';
import { Chat, DEFAULT_TEMPLATE, type Message } from '../../src/policy/chat.ts';
import { Tokenizer, trainBpe } from '../../src/policy/tokenizer.ts';
import { corpus } from './corpus.ts';

const LIMITS = { seconds: 1, memory: 128 };
const messages: Message[] = [
  { role: 'user', content: [{ type: 'image' }, { type: 'text', text: 'which?' }] },
];

/** What is thrown by a body that must come to an end in spite of what it runs. */
function thrown(body: () => unknown): unknown {
  const start = performance.now();
  try {
    return body();
  } catch (error) {
    return error;
  } finally {
    expect(performance.now() - start).toBeLessThan(60_000);
  }
}

describe('a chat template of its own', () => {
  it('is rendered as it would be without a guard', () => {
    const source = `{# another #}${DEFAULT_TEMPLATE}`;
    const chat = new Chat(source);
    expect(chat.render(messages)).toBe(new Chat().render(messages));
    const long: Message[] = [{ role: 'user', content: '漢字 '.repeat(100_000) }];
    expect(chat.render(long)).toBe(new Chat().render(long));
    const picky = new Chat('{{ raise_exception("no system message") }}', 'mine.jinja');
    expect(() => picky.render(messages)).toThrow(
      'mine.jinja: the chat template does not take these messages (no system message)',
    );
  });

  it.each([
    [
      'two nested loops',
      '{% for a in range(1000000) %}{% for b in range(1000000) %}{% endfor %}{% endfor %}',
    ],
    [
      'text that doubles',
      '{% set n = namespace(x="x") %}{% for a in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}{{ n.x }}',
    ],
    ['text that does not stop', `{% for a in range(3000) %}{{ '${'x'.repeat(999)}' }}{% endfor %}`],
    ['a list without end', '{% for a in range(1000000000000) %}{{ a }}{% endfor %}'],
  ])('is stopped: %s', (_, loops) => {
    const chat = new Chat(loops + DEFAULT_TEMPLATE, '/p/chat_template.jinja', LIMITS);
    const error = thrown(() => chat.render(messages));
    expect(error).toBeInstanceOf(CheckpointError);
    expect((error as Error).message).toMatch(
      /^\/p\/chat_template\.jinja: the chat template (was stopped: it took more than|makes \d+ char|does not take).*; use that of a Qwen/,
    );
    expect(new Chat(`{# next #}${DEFAULT_TEMPLATE}`).render(messages)).toBe(new Chat().render(messages));
  });

  it('is refused when it nests deeper than can be read', () => {
    for (const deep of [`{{ ${'('.repeat(1e5)}${')'.repeat(1e5)} }}`, '{% if a %}'.repeat(2e4)]) {
      expect(() => new Chat(deep, 'deep.jinja')).toThrow(/deep\.jinja: the chat template does not parse/);
    }
  });
});

describe('a tokenizer with expressions of its own', () => {
  const plain = trainBpe(corpus(30));
  const split = (expression: string) => ({
    ...plain,
    pre_tokenizer: {
      type: 'Sequence',
      pretokenizers: [
        { type: 'Split', pattern: { Regex: expression }, behavior: 'Isolated', invert: false },
        { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false },
      ],
    },
  });
  const text = `<|im_start|>user\nit's 0.5, ${'a'.repeat(40)}! 漢字<|im_end|>`;

  it('gives the ids and text that it would without a guard', () => {
    const known = new Tokenizer(plain);
    const expression = (plain['pre_tokenizer'] as { pretokenizers: { pattern: { Regex: string } }[] })
      .pretokenizers[0]!.pattern.Regex;
    const foreign = new Tokenizer(split(`(?:${expression})`));
    const ids = known.encode(text);
    expect(foreign.encode(text)).toEqual(ids);
    expect(foreign.decode(ids)).toBe(known.decode(ids));
    expect(foreign.decode(ids, { skipSpecial: false })).toBe(text);
    expect(foreign.decode([])).toBe('');
    expect(foreign.special('<|im_end|>')).toBe(known.special('<|im_end|>'));
  });

  it.each([
    ['an expression that backtracks', split('(a+)+$')],
    [
      'a replacement that multiplies',
      {
        ...plain,
        normalizer: {
          type: 'Sequence',
          normalizers: Array.from({ length: 9 }, () => ({
            type: 'Replace',
            pattern: { String: 'a' },
            content: 'a'.repeat(40),
          })),
        },
      },
    ],
    [
      'an expression of the decoder',
      {
        ...plain,
        decoder: {
          type: 'Sequence',
          decoders: [
            plain['decoder'],
            { type: 'Fuse' },
            { type: 'Replace', pattern: { Regex: '(a+)+$' }, content: '' },
          ],
        },
      },
    ],
  ])('is stopped: %s', (name, json) => {
    const tokenizer = new Tokenizer(json, {}, '/p/tokenizer.json', LIMITS);
    const ids = new Tokenizer(plain).encode(text);
    const error = thrown(() => (name.endsWith('decoder') ? tokenizer.decode(ids) : tokenizer.encode(text)));
    expect(error).toBeInstanceOf(CheckpointError);
    expect((error as Error).message).toMatch(
      /^\/p\/tokenizer\.json: the tokenizer was stopped: with this text it took more than/,
    );
  });

  it('is not needed for those made here, which stay in the thread', () => {
    const limits = { seconds: 0, memory: 1 }; // nothing could be run within them
    const tokenizer = new Tokenizer(plain, {}, 'tokenizer.json', limits);
    expect(tokenizer.decode(tokenizer.encode(text), { skipSpecial: false })).toBe(text);
    expect(new Chat(DEFAULT_TEMPLATE, 'chat_template.jinja', limits).render(messages)).toContain('which?');
  });
});
