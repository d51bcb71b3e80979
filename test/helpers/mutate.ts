/** Seeded damage to small files, as it happens to real ones, and worse: what a reader has to survive. */
import { Random } from '../../src/ground/random.ts';

/** Pieces of text that mean something to some format. */
const TOKENS = [
  ',',
  ':',
  ';',
  '\t',
  ' ',
  '\n',
  '\r',
  '\r\n\r\n',
  '"',
  "'",
  '\\n',
  '(',
  ')',
  '{',
  '}',
  '[',
  '?',
  'NaN',
  'inf',
  '-Infinity',
  '1e999',
  '-1e-999',
  '0x10',
  '1_000',
  '99999999999999999999999',
  '-1',
  '0',
  '4294967295',
  '@data',
  '@attribute x {a,b}',
  '#',
  '%',
  '\ufeff',
  '\u0000',
  'é',
  '2014-02-30 25:61:00',
  'x',
] as const;

/** Integers at the edges of what headers hold. */
const EDGES = [
  0, 1, 2, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffffe,
];

type Mutation = (bytes: Buffer, random: Random) => Buffer;

const within = (bytes: Buffer, random: Random): number => random.integer(0, Math.max(0, bytes.length - 1));

function splice(bytes: Buffer, start: number, removed: number, added: Uint8Array): Buffer {
  return Buffer.concat([bytes.subarray(0, start), added, bytes.subarray(start + removed)]);
}

/** A range of at most `longest` bytes. */
function range(bytes: Buffer, random: Random, longest = 64): [start: number, end: number] {
  const start = within(bytes, random);
  return [start, Math.min(bytes.length, start + random.integer(1, longest))];
}

const MUTATIONS: readonly Mutation[] = [
  // bits flip
  (bytes, random) => {
    const out = Buffer.from(bytes);
    for (let i = random.integer(1, 4); i > 0 && out.length > 0; i--) {
      const at = within(out, random);
      out[at] = out[at]! ^ (1 << random.integer(0, 7));
    }
    return out;
  },
  // a byte becomes another
  (bytes, random) => {
    const out = Buffer.from(bytes);
    if (out.length > 0) out[within(out, random)] = random.integer(0, 255);
    return out;
  },
  // the end is missing
  (bytes, random) => bytes.subarray(0, within(bytes, random)),
  // the beginning is missing
  (bytes, random) => bytes.subarray(random.integer(0, Math.min(bytes.length, 40))),
  // something is in between
  (bytes, random) => splice(bytes, within(bytes, random), 0, Buffer.from(random.pick(TOKENS), 'utf8')),
  (bytes, random) => {
    const noise = Buffer.from(Array.from({ length: random.integer(1, 16) }, () => random.integer(0, 255)));
    return splice(bytes, within(bytes, random), 0, noise);
  },
  // a part is replaced, missing, or there twice
  (bytes, random) => {
    const [start, end] = range(bytes, random, 12);
    return splice(bytes, start, end - start, Buffer.from(random.pick(TOKENS), 'utf8'));
  },
  (bytes, random) => {
    const [start, end] = range(bytes, random);
    return splice(bytes, start, end - start, Buffer.alloc(0));
  },
  (bytes, random) => {
    const [start, end] = range(bytes, random, 200);
    return splice(bytes, within(bytes, random), 0, bytes.subarray(start, end));
  },
  // a number of a header is another, in either byte order
  (bytes, random) => {
    const out = Buffer.from(bytes);
    const size = random.pick([1, 2, 4, 8]);
    if (out.length < size) return out;
    const at = random.integer(0, out.length - size);
    const value = random.pick(EDGES);
    const little = random.integer(0, 1) === 0;
    for (let i = 0; i < size; i++) {
      out[at + (little ? i : size - 1 - i)] =
        i < 4 ? (value >>> (8 * i)) & 255 : value === 0xffffffff ? 255 : 0;
    }
    return out;
  },
  // lines change places, or are there twice
  (bytes, random) => {
    const lines = bytes.toString('latin1').split('\n');
    const [a, b] = [random.integer(0, lines.length - 1), random.integer(0, lines.length - 1)];
    if (random.integer(0, 1) === 0) [lines[a], lines[b]] = [lines[b]!, lines[a]!];
    else lines.splice(a, 0, lines[b]!);
    return Buffer.from(lines.join('\n'), 'latin1');
  },
  // a digit of a text is another
  (bytes, random) => {
    const out = Buffer.from(bytes);
    const start = within(out, random);
    for (let i = start; i < Math.min(out.length, start + 200); i++) {
      if (out[i]! < 48 || out[i]! > 57) continue;
      out[i] = 48 + random.integer(0, 9);
      break;
    }
    return out;
  },
];

/** The `index`th mutant of `bytes`: one to three kinds of damage, the same for the same seed, name and index. */
export function mutant(bytes: Buffer, seed: number, name: string, index: number): Buffer {
  const random = new Random(seed, name, index);
  let out = bytes;
  for (let i = random.pick([1, 1, 1, 2, 3]); i > 0; i--) out = random.pick(MUTATIONS)(out, random);
  return out;
}
