/**
 * Writes what a saved policy computes, for test/golden/check_transformers.py to compare with transformers and check_onnx.py with
 * the policy's export in onnxruntime:
 *
 *     npx tsx test/golden/write_logits.ts DIR [--bfloat16]                                 (what it computes goes to DIR.logits.json)
 *     npx tsx test/golden/write_logits.ts DIR --create [--untied] [--bfloat16] [--seed N]
 *
 * With `--create` a nano policy of random weights is made and saved as DIR first: norms away from one, biases away from zero.
 * Then the directory is loaded again, and prompts with no, one and two pictures are run through it.
 */
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { writeFileAtomic } from '../../src/ground/files.ts';
import { collate } from '../../src/policy/batch.ts';
import { nanoDims } from '../../src/policy/model-config.ts';
import { forward } from '../../src/policy/forward.ts';
import { generate } from '../../src/policy/generate.ts';
import { Policy } from '../../src/policy/policy.ts';
import { Random } from '../../src/ground/random.ts';
import type { Picture } from '../../src/ground/types.ts';

const TOKENIZER = fileURLToPath(new URL('nano/tokenizer.json', import.meta.url));
/** Most logits that are written of a prompt: its last tokens. */
const MOST = 4_000_000;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    create: { type: 'boolean', default: false },
    untied: { type: 'boolean', default: false },
    bfloat16: { type: 'boolean', default: false },
    seed: { type: 'string', default: '1' },
  },
});
const [directory] = positionals;
if (directory === undefined || positionals.length !== 1) {
  throw new Error('usage: write_logits.ts DIR [--bfloat16] [--create [--untied] [--seed N]]');
}
if (!values.create && !existsSync(directory))
  throw new Error(`${directory}: no such directory; add --create`);

const engine = openTorch();

/** Saves a nano policy of random weights. */
function create(into: string): void {
  const policy = Policy.create(engine, {
    tokenizer: JSON.parse(readFileSync(TOKENIZER, 'utf8')),
    seed: Number(values.seed),
    dims: (vocabulary, special) => ({ ...nanoDims(vocabulary + 8, special), tied: !values.untied }),
    dtype: values.bfloat16 ? 'bfloat16' : 'float32',
  });
  const random = new Random(Number(values.seed), 'logits');
  engine.scope(() => {
    for (const { name, offset, size } of policy.layout.parameters) {
      if (!/norm|bias/.test(name)) continue;
      const moved = engine
        .floats(engine.narrow(policy.flat, 0, offset, size))
        .map((v) => v + random.normal(0, 0.3));
      engine.write(policy.flat, 0, offset, engine.tensor(moved, [size]));
    }
  });
  policy.save(into);
  policy.dispose();
}

function picture(width: number, height: number): Picture {
  const data = Uint8Array.from({ length: width * height * 3 }, (_, i) => {
    const [x, y, c] = [Math.floor(i / 3) % width, Math.floor(i / (3 * width)), i % 3];
    return (x * 7 + y * 13 + c * 29 + Math.floor((x * y) / 3)) % 256;
  });
  return { width, height, data };
}

const base64 = (array: Float32Array | Uint8Array): string =>
  Buffer.from(array.buffer, array.byteOffset, array.byteLength).toString('base64');

if (values.create) create(directory);
const policy = Policy.load(engine, directory, {
  tuning: 'none',
  dtype: values.bfloat16 ? 'bfloat16' : 'float32',
});
const { pad, end } = policy.dims.special;
const image = { type: 'image' as const };
const text = (words: string) => ({ type: 'text' as const, text: words });
const prompts = [
  { content: [text('find the anomalies; period 62?')], pictures: [] },
  { content: [image, text('where is it?')], pictures: [picture(280, 84)] },
  { content: [text('a '), image, text(' and b '), image], pictures: [picture(100, 70), picture(56, 140)] },
].map(({ content, pictures }) => {
  const messages = [{ role: 'user' as const, content }];
  const rendered = policy.chat.render(messages);
  return { messages, pictures, rendered, encoded: policy.encodePrompt(rendered, pictures) };
});
const continued = await generate(
  policy,
  prompts.map(({ encoded }) => encoded),
  { temperature: 0, maxTokens: 32, seed: 0 },
);
const rows = engine.noGrad(() =>
  prompts.map(({ messages, pictures, rendered, encoded }, i) =>
    engine.scope(() => {
      const count = Math.min(encoded.ids.length, Math.floor(MOST / policy.dims.vocabulary));
      const last = Int32Array.from({ length: count }, (_, t) => encoded.ids.length - count + t);
      const { hidden } = forward(policy, { ...collate([encoded], pad), rows: last });
      return {
        messages,
        text: rendered,
        pictures: pictures.map(({ width, height, data }) => ({ width, height, rgb: base64(data) })),
        ids: [...encoded.ids],
        positions: [...encoded.positions],
        next: encoded.next,
        grids: encoded.images.map((one) => [1, one.rows, one.columns]),
        patches: encoded.images.map(({ patches }) => base64(patches)),
        logits: base64(engine.floats(policy.logits(hidden))),
        greedy: [...continued[i]!.ids],
      };
    }),
  ),
);
const forbidden = [...policy.forbidden].flatMap((value, id) => (value === 0 ? [] : [id]));
writeFileAtomic(
  `${directory}.logits.json`,
  JSON.stringify({ dtype: policy.dtype, vocabulary: policy.dims.vocabulary, forbidden, stops: [end], rows }),
);
console.log(
  `${directory}.logits.json: ${rows.map(({ ids }) => ids.length).join(', ')} tokens, ${policy.dtype}`,
);
policy.dispose();
