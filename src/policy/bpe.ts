/**
 * Trains the small byte-level BPE of the nano policy. Tags, digits and scan symbols stand alone; every other run
 * of text, spaces included, is one piece, and the pieces that save the most become whole tokens (`ignore_merges`, as
 * Llama 3's tokenizer has it), so that a phrase of the trace is one token. Merges learned from the same corpus and
 * the 256 bytes cover text that is not one of those pieces. The result is a standard `tokenizer.json`.
 */
import { addedToken, bpeJson, byteAlphabet, NANO_PATTERN, SPECIAL_TOKENS } from './tokenizer.ts';

/** Roles that the chat template writes after `<|im_start|>`. */
const ROLES = ['system\n', 'user\n', 'assistant\n'];

/** Splits as the `Split` pre-tokenizer with behaviour `isolated`: matches and what lies between them. */
function preTokenize(text: string, pattern: RegExp): string[] {
  const out: string[] = [];
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    if (match.index > end) out.push(text.slice(end, match.index));
    out.push(match[0]);
    end = match.index + match[0].length;
  }
  if (end < text.length) out.push(text.slice(end));
  return out;
}

interface Word {
  symbols: string[];
  readonly count: number;
}

/** The most frequent adjacent pair, ties by spelling; undefined when none occurs twice. */
function bestPair(words: readonly Word[]): readonly [string, string] | undefined {
  const counts = new Map<string, number>();
  for (const { symbols, count } of words) {
    for (let i = 0; i + 1 < symbols.length; i++) {
      const pair = `${symbols[i]} ${symbols[i + 1]}`;
      counts.set(pair, (counts.get(pair) ?? 0) + count);
    }
  }
  let best: string | undefined;
  let most = 1;
  for (const [pair, count] of counts) {
    if (count > most || (count === most && best !== undefined && pair < best)) {
      best = pair;
      most = count;
    }
  }
  if (best === undefined) return undefined;
  const [left, right] = best.split(' ');
  return [left!, right!];
}

function join([left, right]: readonly [string, string], symbols: readonly string[]): string[] {
  const out: string[] = [];
  for (let i = 0; i < symbols.length; i++) {
    if (symbols[i] === left && symbols[i + 1] === right) {
      out.push(left + right);
      i++;
    } else {
      out.push(symbols[i]!);
    }
  }
  return out;
}

/** Share of the room above the bytes that whole pieces may take; merges get the rest. */
const WHOLE_SHARE = 0.7;

/**
 * Trains on `corpus` and returns a `tokenizer.json` object of at most `vocabulary` tokens (at least 300), special ones
 * included. Independent of the corpus' order. Special tokens in the corpus, as in rendered prompts, only separate its text.
 */
export function trainBpe(
  corpus: Iterable<string>,
  { vocabulary: most = 400 }: { readonly vocabulary?: number } = {},
): Record<string, unknown> {
  const room = most - 256 - SPECIAL_TOKENS.length;
  const pattern = new RegExp(NANO_PATTERN, 'gu');
  const special = /<\|[a-z_]+\|>/u;
  const alphabet = byteAlphabet();
  const spell = (text: string): string =>
    Array.from(Buffer.from(text, 'utf8'), (byte) => alphabet[byte]!).join('');
  const counts = new Map<string, number>();
  for (const text of corpus) {
    for (const word of text.split(special).flatMap((part) => preTokenize(part, pattern))) {
      const spelling = spell(word);
      counts.set(spelling, (counts.get(spelling) ?? 0) + 1);
    }
  }
  const ranked = [...counts]
    .filter(([word, count]) => word.length > 1 && count > 1)
    .map(([word, count]) => ({ word, count, saved: count * (word.length - 1) }))
    .sort((a, b) => b.saved - a.saved || (a.word < b.word ? -1 : 1));
  const spelled = ROLES.map((role) => spell(role));
  const chosen = ranked.slice(0, Math.floor(room * WHOLE_SHARE)).map(({ word }) => word);
  const whole = [...spelled, ...chosen.filter((word) => !spelled.includes(word))];
  const vocabulary = new Map<string, number>();
  // Bytes in the order of the alphabet's code points, as the reference trainer sorts them.
  for (const token of [...alphabet].sort()) vocabulary.set(token, vocabulary.size);
  for (const token of whole) vocabulary.set(token, vocabulary.size);
  let words: Word[] = [...counts]
    .filter(([word]) => word.length > 1)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([word, count]) => ({ symbols: [...word], count }));
  const merges: [string, string][] = [];
  while (vocabulary.size < 256 + room) {
    const pair = bestPair(words);
    if (pair === undefined) break;
    merges.push([pair[0], pair[1]]);
    const merged = pair[0] + pair[1];
    if (!vocabulary.has(merged)) vocabulary.set(merged, vocabulary.size);
    words = words.map(({ symbols, count }) => ({ symbols: join(pair, symbols), count }));
  }
  const first = vocabulary.size;
  return bpeJson({
    added: SPECIAL_TOKENS.map((content, i) => addedToken({ id: first + i, content })),
    pattern: NANO_PATTERN,
    ignoreMerges: true,
    vocab: Object.fromEntries(vocabulary),
    merges,
  });
}

/** The `tokenizer_config.json` that goes with it. */
export const BPE_CONFIG = {
  tokenizer_class: 'PreTrainedTokenizerFast',
  eos_token: '<|im_end|>',
  pad_token: '<|endoftext|>',
  clean_up_tokenization_spaces: false,
} as const;
