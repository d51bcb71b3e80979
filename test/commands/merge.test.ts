import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { Random } from '../../src/ground/random.ts';
import type { Picture } from '../../src/ground/types.ts';
import { collate } from '../../src/policy/batch.ts';
import { forward } from '../../src/policy/forward.ts';
import { type AdapterOptions, adapterLayout, createAdapter, saveAdapter } from '../../src/policy/lora.ts';
import { Policy } from '../../src/policy/policy.ts';
import { inside } from '../helpers/command-line.ts';
import { temporary } from '../helpers/temporary.ts';
import { tinyPolicy, tinyTask } from '../helpers/tiny-policy.ts';

const OPTIONS: AdapterOptions = {
  rank: 3,
  alpha: 5,
  rslora: true,
  targets: ['q_proj', 'up_proj', 'down_proj', 'visual.qkv'],
};
const engine = openTorch({ threads: 1 });
const place = temporary('merge');
const base = join(place, 'base');
const adapter = join(place, 'adapter');
let expected: Float32Array;

/** Final hidden states of a prompt with a picture: [T · D]. */
function states(policy: Policy): Float32Array {
  return engine.noGrad(() =>
    engine.scope(() => {
      const picture = tinyTask().picture(tinyTask().example(1)) as Picture;
      const text = '<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>Where?<|im_end|>\n';
      return engine.floats(forward(policy, collate([policy.encodePrompt(text, [picture])], 0)).hidden);
    }),
  );
}

beforeAll(() => {
  tinyPolicy(engine).save(base);
  const policy = Policy.load(engine, base, {
    adapter: (dims) => {
      const made = createAdapter(engine, dims, OPTIONS, 4);
      // B starts at zero: give it values, so that the adapter changes something.
      const random = new Random(8, 'up');
      const values = Float32Array.from({ length: adapterLayout(dims, OPTIONS).size }, () =>
        random.normal(0, 0.1),
      );
      engine.scope(() => engine.write(made.flat, 0, 0, engine.tensor(values, [values.length])));
      return made;
    },
  });
  expected = states(policy);
  saveAdapter(policy, adapter, base);
});

describe('merge', () => {
  it('writes a plain checkpoint that computes what base and adapter compute together', async () => {
    const out = join(place, 'merged');
    const { code, out: said } = await inside('merge', '--policy', base, '--adapter', adapter, '--out', out);
    expect(code).toBe(0);
    expect(said).toContain('rank 3, alpha 5, rsLoRA, on q_proj, up_proj, down_proj, visual.qkv');
    const merged = Policy.load(engine, out);
    expect(merged.adapter).toBeNull();
    const got = states(merged);
    const plain = states(Policy.load(engine, base));
    const largest = (other: Float32Array): number =>
      expected.reduce((most, value, i) => Math.max(most, Math.abs(value - other[i]!)), 0);
    expect(largest(got)).toBeLessThan(1e-5);
    expect(largest(plain)).toBeGreaterThan(1e-2);
  });

  it('says what it did as JSON, and writes the dtype that is asked for', async () => {
    const out = join(place, 'half');
    const { code, out: said } = await inside(
      ...['merge', '--policy', base, '--adapter', adapter, '--out', out, '--dtype', 'bfloat16', '--json'],
    );
    expect(code).toBe(0);
    expect(JSON.parse(said)).toEqual({ out, base, adapter, dtype: 'bfloat16', ...OPTIONS });
    expect(Policy.load(engine, out, { dtype: 'bfloat16' }).dtype).toBe('bfloat16');
  });

  it('refuses to write over what it reads, or beside other files', async () => {
    const over = await inside('merge', '--policy', base, '--adapter', adapter, '--out', base);
    expect([over.code, over.err]).toEqual([2, expect.stringContaining('is also the input')]);
    const full = join(place, 'full');
    mkdirSync(full);
    writeFileSync(join(full, 'notes.txt'), 'mine');
    const beside = await inside('merge', '--policy', base, '--adapter', adapter, '--out', full);
    expect([beside.code, beside.err]).toEqual([2, expect.stringContaining('holds files already')]);
  });

  it('leaves nothing behind when the adapter is none', async () => {
    const out = join(place, 'never');
    const { code, err } = await inside('merge', '--policy', base, '--adapter', base, '--out', out);
    expect(code).toBe(3);
    expect(err).toContain('adapter_config.json');
    expect(existsSync(out)).toBe(false);
  });
});
