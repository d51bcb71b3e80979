/** Where low-rank pairs can stand: the products of the decoder's layers, of the vision tower's blocks and of its merger. */
import type { AdapterTarget } from '../adapter-targets.ts';
import type { Dims } from './dims.ts';

/** Of a layer or block; the last two of the merger. */
export type Product = 'qkv' | 'o' | 'gateUp' | 'down' | 'first' | 'second';

/** A product that pairs can stand beside. */
export interface Site {
  /** `layers.0`, `vision.0`, `merger`. */
  readonly owner: string;
  readonly product: Product;
  readonly inputs: number;
  /** The projections that are its output, under each other; `name` is the module's in published checkpoints. */
  readonly parts: readonly { readonly target: AdapterTarget; readonly name: string; readonly size: number }[];
}

/** Every site, in the order of the flat buffer. */
export function sitesOf({ layers, width, inner, heads, kvHeads, headDim, vision }: Dims): Site[] {
  const out: Site[] = [];
  const query = heads * headDim;
  const keyed = kvHeads * headDim;
  for (let i = 0; i < layers; i++) {
    const owner = `layers.${i}`;
    const part = (module: string, target: AdapterTarget, size: number) => ({
      target,
      name: `model.layers.${i}.${module}.${target}`,
      size,
    });
    const projected = [
      part('self_attn', 'q_proj', query),
      part('self_attn', 'k_proj', keyed),
      part('self_attn', 'v_proj', keyed),
    ];
    const gated = [part('mlp', 'gate_proj', inner), part('mlp', 'up_proj', inner)];
    out.push(
      { owner, product: 'qkv', inputs: width, parts: projected },
      { owner, product: 'o', inputs: query, parts: [part('self_attn', 'o_proj', width)] },
      { owner, product: 'gateUp', inputs: width, parts: gated },
      { owner, product: 'down', inputs: inner, parts: [part('mlp', 'down_proj', width)] },
    );
  }
  for (let i = 0; i < vision.depth; i++) {
    const owner = `vision.${i}`;
    const part = (module: string, name: string, size: number) => ({
      target: `visual.${name}` as AdapterTarget,
      name: `visual.blocks.${i}.${module}.${name}`,
      size,
    });
    const gated = [part('mlp', 'gate_proj', vision.inner), part('mlp', 'up_proj', vision.inner)];
    out.push(
      { owner, product: 'qkv', inputs: vision.width, parts: [part('attn', 'qkv', 3 * vision.width)] },
      { owner, product: 'o', inputs: vision.width, parts: [part('attn', 'proj', vision.width)] },
      { owner, product: 'gateUp', inputs: vision.width, parts: gated },
      { owner, product: 'down', inputs: vision.inner, parts: [part('mlp', 'down_proj', vision.width)] },
    );
  }
  const merged = vision.width * vision.merge ** 2;
  const first = { target: 'visual.merger.0', name: 'visual.merger.mlp.0', size: merged } as const;
  const second = { target: 'visual.merger.2', name: 'visual.merger.mlp.2', size: width } as const;
  out.push(
    { owner: 'merger', product: 'first', inputs: merged, parts: [first] },
    { owner: 'merger', product: 'second', inputs: merged, parts: [second] },
  );
  return out;
}
