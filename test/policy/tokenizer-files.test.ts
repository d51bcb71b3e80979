import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CheckpointError } from '../../src/errors.ts';
import { readTokenizer, Tokenizer } from '../../src/policy/tokenizer.ts';
import { GOLDEN } from './golden.ts';

const TEXT = fileURLToPath(new URL('../golden/text', import.meta.url));

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
    const older = Tokenizer.load(directory);
    const golden = JSON.parse(readFileSync(join(TEXT, 'text.json'), 'utf8')) as {
      strings: { text: string; ids: number[] }[];
    };
    const rows = golden.strings.filter(({ text }) => !text.includes("'ſ"));
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
    const tokenizer = Tokenizer.load(directory);
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
