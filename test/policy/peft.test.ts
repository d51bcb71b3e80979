import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CheckpointError } from '../../src/ground/errors.ts';
import { collate } from '../../src/policy/batch.ts';
import { forward } from '../../src/policy/forward.ts';
import {
  type AdapterOptions,
  createAdapter,
  loadAdapter,
  mergeAdapter,
  saveAdapter,
} from '../../src/policy/lora.ts';
import { ADAPTER_TARGETS, type AdapterTarget, VISION_TARGETS } from '../../src/policy/lora-targets.ts';
import { Policy } from '../../src/policy/policy.ts';
import { openSafetensors, writeSafetensors } from '../../src/policy/safetensors.ts';
import { float32Tensor, readTensor } from '../helpers/safetensors.ts';
import { distance, engine, GOLDEN, picture } from './golden.ts';

/** What PEFT wrote and computed: test/golden/make_peft.py. */
const PEFT = fileURLToPath(new URL('../golden/peft', import.meta.url));
/** Rank-stabilised, beside every linear layer but the head: `all-linear`. */
const ALL = fileURLToPath(new URL('../golden/peft-all', import.meta.url));
const expectedOf = (directory: string) =>
  JSON.parse(readFileSync(join(directory, 'expected.json'), 'utf8')) as {
    ids: number[];
    first: number[];
    last: number[];
    text: string;
    picture: number[];
  };
const expected = expectedOf(PEFT);

const born = engine.live();
const base = Policy.load(engine, GOLDEN);
afterAll(() => {
  base.dispose();
  expect(engine.live()).toBe(born);
});

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'adapter-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

/** Logits of the first and of the last of the golden tokens. */
function logits(policy: Policy): { first: Float32Array; last: Float32Array } {
  return engine.noGrad(() =>
    engine.scope(() => {
      const ids = Int32Array.from(expected.ids);
      const positions = Int32Array.from({ length: 3 * ids.length }, (_, i) => i % ids.length);
      const { hidden } = forward(policy, collate([{ ids, positions, images: [] }], 0));
      const of = (t: number): Float32Array => engine.floats(policy.logits(engine.narrow(hidden, 0, t, 1)));
      return { first: of(0).slice(0, 20), last: of(ids.length - 1) };
    }),
  );
}

/** Logits behind a prompt with a picture. */
function seen(policy: Policy, text: string): Float32Array {
  return engine.noGrad(() =>
    engine.scope(() => {
      const { hidden } = forward(policy, collate([policy.encodePrompt(text, [picture(84, 112)])], 0));
      return engine.floats(policy.logits(engine.narrow(hidden, 0, hidden.shape[0]! - 1, 1)));
    }),
  );
}

type Stored = { name: string; shape: number[]; data: Float32Array };

/** The golden adapter, with its configuration and its tensors changed. */
function tampered(
  change: (config: Record<string, unknown>, tensors: Stored[]) => Stored[] | undefined,
): () => unknown {
  cpSync(PEFT, directory, { recursive: true });
  const config = JSON.parse(readFileSync(join(directory, 'adapter_config.json'), 'utf8'));
  const file = join(directory, 'adapter_model.safetensors');
  const tensors = [...openSafetensors(file).values()].map((tensor) => ({
    name: tensor.name,
    shape: [...tensor.shape],
    data: readTensor(tensor),
  }));
  const changed = change(config, tensors) ?? tensors;
  writeFileSync(join(directory, 'adapter_config.json'), JSON.stringify(config));
  writeSafetensors(
    file,
    changed.map(({ name, shape, data }) => float32Tensor(name, shape, data)),
  );
  return () => loadAdapter(engine, base.dims, directory);
}

describe('an adapter that PEFT wrote', () => {
  it('gives the logits that PEFT computes with it', () => {
    const policy = Policy.load(engine, GOLDEN, { adapter: (dims) => loadAdapter(engine, dims, PEFT) });
    expect(policy.adapter!.options).toEqual({
      rank: 3,
      alpha: 5,
      rslora: false,
      targets: ['q_proj', 'v_proj', 'o_proj'],
    });
    const { first, last } = logits(policy);
    expect(distance(first, expected.first)).toBeLessThan(1e-5);
    expect(distance(last, expected.last)).toBeLessThan(1e-5);
    expect(distance(logits(base).last, expected.last)).toBeGreaterThan(0.1);
    policy.dispose();
  });

  it('may be rank-stabilised and stand beside every linear layer, those of the vision tower too', () => {
    const want = expectedOf(ALL);
    const policy = Policy.load(engine, GOLDEN, { adapter: (dims) => loadAdapter(engine, dims, ALL) });
    expect(policy.adapter!.options).toEqual({ rank: 2, alpha: 1, rslora: true, targets: ADAPTER_TARGETS });
    const check = (): void => {
      const { first, last } = logits(policy);
      expect(distance(first, want.first)).toBeLessThan(1e-5);
      expect(distance(last, want.last)).toBeLessThan(1e-5);
      expect(distance(seen(policy, want.text), want.picture)).toBeLessThan(2e-5);
    };
    check();
    expect(distance(seen(base, want.text), want.picture)).toBeGreaterThan(0.1);
    mergeAdapter(policy);
    check();
    policy.dispose();
    // The vision tower's part of it alone changes what is seen.
    const half = Policy.load(engine, GOLDEN, {
      adapter: (dims) => {
        cpSync(ALL, directory, { recursive: true });
        const file = join(directory, 'adapter_model.safetensors');
        const tensors = [...openSafetensors(file).values()].filter(({ name }) => name.includes('visual'));
        writeSafetensors(
          file,
          // read before the file is replaced
          tensors.map((tensor) => float32Tensor(tensor.name, tensor.shape, readTensor(tensor))),
        );
        return loadAdapter(engine, dims, directory);
      },
    });
    expect(half.adapter!.options.targets).toEqual(VISION_TARGETS);
    expect(logits(half)).toEqual(logits(base));
    expect(distance(seen(half, want.text), seen(base, want.text))).toBeGreaterThan(0.01);
    half.dispose();
  });

  it('is refused when it is of another kind, each option by its name', () => {
    const before = engine.live();
    const refused: [Record<string, unknown>, RegExp][] = [
      [{ peft_type: 'ADALORA' }, /'peft_type' is "ADALORA"/],
      [{ use_dora: true }, /'use_dora' is true; only plain low-rank pairs/],
      [{ use_rslora: 'yes' }, /'use_rslora' must be true or false, got "yes"/],
      [{ bias: 'lora_only' }, /'bias' is "lora_only"/],
      [{ rank_pattern: { q_proj: 8 } }, /'rank_pattern' is {"q_proj":8}/],
      [{ alpha_pattern: { q_proj: 8 } }, /'alpha_pattern'/],
      [{ modules_to_save: ['lm_head'] }, /'modules_to_save'/],
      [{ layers_to_transform: [0] }, /'layers_to_transform'/],
      [{ init_lora_weights: 'pissa' }, /'init_lora_weights' is "pissa"/],
      [{ something_new: { strength: 2 } }, /'something_new'/],
      [{ r: 2.5 }, /'r' must be a positive integer, got 2.5/],
      [{ lora_alpha: '16' }, /'lora_alpha' must be a positive number, got "16"/],
    ];
    for (const [options, message] of refused) {
      const load = tampered((config) => void Object.assign(config, options));
      expect(load).toThrow(CheckpointError);
      expect(load).toThrow(message);
      expect(load).toThrow(directory);
    }
    expect(engine.live()).toBe(before);
  });

  it('is refused with a scale that no number holds', () => {
    const load = tampered(() => undefined);
    const file = join(directory, 'adapter_config.json');
    writeFileSync(file, readFileSync(file, 'utf8').replace(/"lora_alpha":\s*5/, '"lora_alpha": 1e999'));
    expect(load).toThrow(/'lora_alpha' must be a positive number/);
  });

  it('is refused when its tensors do not fit, each by its name', () => {
    const before = engine.live();
    const query = 'base_model.model.model.language_model.layers.1.self_attn.q_proj.lora_B.weight';
    const patches = 'base_model.model.model.visual.patch_embed.proj.lora_A.weight';
    const vision = 'base_model.model.model.visual.blocks.0.mlp.up_proj.lora_A.weight';
    const named = (tensors: Stored[], name: string): Stored =>
      tensors.find((tensor) => tensor.name === name)!;
    expect(tampered((_, all) => all.filter(({ name }) => name !== query))).toThrow(`1 missing: ${query}`);
    expect(
      tampered((_, all) => [...all, { name: patches, shape: [3, 2], data: new Float32Array(6) }]),
    ).toThrow(`1 not part of this policy: ${patches}. Head, embedding and patches cannot be adapted: merge`);
    expect(
      tampered((_, all) => [...all, { name: vision, shape: [3, 2], data: new Float32Array(6) }]),
    ).toThrow(
      /\d+ missing: .*visual\.blocks\.0\.mlp\.up_proj\.lora_B\.weight.*; 1 of another shape: .*visual/,
    );
    expect(tampered((config) => void Object.assign(config, { r: 4 }))).toThrow(/12 of another shape/);
    expect(tampered((_, all) => void Object.assign(named(all, query), { shape: [3, 32] }))).toThrow(
      `${query} is [3, 32] instead of [32, 3]`,
    );
    expect(
      tampered((_, all) => {
        named(all, query).name = query.replace('layers.1.', 'layers.7.');
        return all;
      }),
    ).toThrow(/1 missing: .*; 1 not part of this policy: .*layers\.7/);
    expect(tampered((_, all) => void named(all, query).data.fill(Number.NaN, 5, 6))).toThrow(
      `tensor ${query} holds NaN`,
    );
    expect(tampered(() => [])).toThrow(/no low-rank pair/);
    for (const name of ['adapter_model.safetensors', 'adapter_config.json']) {
      rmSync(join(directory, name));
      expect(() => loadAdapter(engine, base.dims, directory)).toThrow(
        `${join(directory, name)}: no such file; an adapter is a directory with`,
      );
    }
    expect(engine.live()).toBe(before);
  });
});

/** Of transformers; the last three have no pair. */
const MODULES = [
  'model.language_model.layers.3.mlp.gate_proj',
  'model.language_model.layers.3.self_attn.q_proj',
  'model.visual.blocks.3.mlp.gate_proj',
  'model.visual.blocks.3.attn.qkv',
  'model.visual.blocks.0.attn.proj',
  'model.visual.merger.mlp.2',
  'model.visual.merger.mlp.0',
  'model.visual.merger.mlp.1',
  'model.visual.patch_embed.proj',
  'lm_head',
];

describe('a saved adapter', () => {
  const options: AdapterOptions = {
    rank: 2,
    alpha: 7,
    rslora: true,
    targets: ['up_proj', 'visual.proj', 'k_proj'],
  };

  it('is read back bit for bit, and replaces an older one', () => {
    const policy = Policy.load(engine, GOLDEN, {
      adapter: (dims) => createAdapter(engine, dims, options, 9),
    });
    engine.scope(() => {
      const { flat } = policy.adapter!;
      const values = Float32Array.from({ length: flat.shape[0]! }, (_, i) => Math.sin(0.3 * i));
      engine.write(flat, 0, 0, engine.tensor(values, flat.shape));
    });
    const target = join(directory, 'adapter');
    saveAdapter(policy, target);
    saveAdapter(policy, target, 'Qwen/Qwen2.5-VL-3B-Instruct');
    expect(readdirSync(directory)).toEqual(['adapter']);
    const again = loadAdapter(engine, policy.dims, target);
    expect(again.options).toEqual({ ...options, targets: ['k_proj', 'up_proj', 'visual.proj'] });
    const same = Policy.load(engine, GOLDEN, { adapter: again });
    expect(logits(same).last).toEqual(logits(policy).last);
    expect(engine.floats(again.flat)).toEqual(engine.floats(policy.adapter!.flat));
    const other = { ...policy.dims, width: policy.dims.width * 2 };
    expect(() => loadAdapter(engine, other, target)).toThrow(
      /lora_A.weight is \[2, 32\] instead of \[2, 64\]/,
    );
    policy.dispose();
    same.dispose();
  });

  it('has the names and the options that PEFT reads', () => {
    const policy = Policy.load(engine, GOLDEN, {
      adapter: (dims) => createAdapter(engine, dims, { ...options, targets: ADAPTER_TARGETS }, 9),
    });
    saveAdapter(policy, directory, 'some/base');
    const stored = openSafetensors(join(directory, 'adapter_model.safetensors'));
    const theirs = openSafetensors(join(ALL, 'adapter_model.safetensors'));
    expect([...stored.keys()].sort()).toEqual([...theirs.keys()].sort());
    for (const [name, { shape }] of theirs) expect(stored.get(name)?.shape, name).toEqual(shape);
    const config = JSON.parse(readFileSync(join(directory, 'adapter_config.json'), 'utf8'));
    expect(config).toMatchObject({
      peft_type: 'LORA',
      r: 2,
      lora_alpha: 7,
      use_rslora: true,
      bias: 'none',
      base_model_name_or_path: 'some/base',
    });
    const matched = (targets: readonly AdapterTarget[]): string[] => {
      const some = Policy.load(engine, GOLDEN, {
        adapter: (dims) => createAdapter(engine, dims, { ...options, targets }, 9),
      });
      saveAdapter(some, directory);
      some.dispose();
      const { target_modules } = JSON.parse(readFileSync(join(directory, 'adapter_config.json'), 'utf8'));
      const pattern = new RegExp(`^(?:${target_modules})$`);
      return MODULES.filter((module) => pattern.test(module));
    };
    expect(matched(ADAPTER_TARGETS)).toEqual(MODULES.slice(0, -3));
    expect(matched(['gate_proj', 'q_proj'])).toEqual(MODULES.slice(0, 2));
    expect(matched(['visual.gate_proj', 'visual.merger.2'])).toEqual([MODULES[2], MODULES[5]]);
    policy.dispose();
  });

  it('is not written by a policy that has none', () => {
    expect(() => saveAdapter(base, join(directory, 'x'))).toThrow(/has no adapter/);
    expect(readdirSync(directory)).toEqual([]);
  });
});
