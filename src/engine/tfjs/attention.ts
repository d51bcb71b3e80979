/** Attention of the tfjs engine: products head by head, softmax over own keys and a shared prefix in one kernel. */
import { checkAttention, checkAttentionStep } from '../checks.ts';
import type { AttentionInput, AttentionStepInput, Tensor } from '../engine.ts';
import { denseStrides, type Heap, sizeOf, type View } from './heap.ts';
import { DEVICE, type Operations } from './operations.ts';
import { narrowed, permuted, turned } from './shape.ts';
import { reshaped, type TfjsTensor } from './tape.ts';

/** Products of the last two axes, both dense with equal axes before: [..., M, K] · [..., K, N]. */
function products(heap: Heap, a: View, b: View): View {
  const [m, k] = a.shape.slice(-2) as [number, number];
  const n = b.shape.at(-1)!;
  const out = heap.make([...a.shape.slice(0, -2), m, n]);
  const [to, x, y] = [out, a, b].map((view) => heap.address(view)) as [number, number, number];
  const count = sizeOf(a.shape.slice(0, -2));
  for (let i = 0; i < count; i++) {
    heap.multiply(to + 4 * i * m * n, x + 4 * i * m * k, y + 4 * i * k * n, m, k, n);
  }
  return out;
}

/** A mask [B or 1, 1, T or 1, S or 1] for the kernels: its address, 0 without one, and strides of 0 where it repeats. */
function maskFor(heap: Heap, mask: TfjsTensor | null): readonly [number, number, number, number] {
  if (mask === null) return [0, 0, 0, 0];
  const view = heap.dense(heap.cast(mask.view, 'float32'));
  const strides = denseStrides(view.shape).map((stride, axis) => (view.shape[axis] === 1 ? 0 : stride));
  return [heap.address(view), strides[0]!, strides[2]!, strides[3]!];
}

/** Live tensors of an attention: float32 but for masks, which may be of any float dtype. */
function inputsOf(
  ops: Operations,
  where: string,
  tensors: readonly (Tensor | undefined)[],
  masks: readonly (Tensor | undefined)[],
) {
  return [...ops.floats(where, tensors), ...ops.all(where, masks)];
}

export function attention(ops: Operations, input: AttentionInput): TfjsTensor {
  const { query, key, value, mask, prefix } = input;
  const found = inputsOf(
    ops,
    'attention',
    [query, key, value, prefix?.key, prefix?.value],
    [mask, prefix?.mask],
  );
  const inputs = found.slice(0, 5);
  const [q, k, v, pk, pv] = inputs.map((tensor) => tensor?.view) as [
    View,
    View,
    View,
    View | undefined,
    View | undefined,
  ];
  const [ownMask, prefixMask] = found.slice(5) as [TfjsTensor | null, TfjsTensor | null];
  const before = checkAttention(input); // S₀
  return ops.run('attention', [query, key, value], () => {
    const { heap } = ops;
    const [batch, queryHeads, length, width] = query.shape as [number, number, number, number]; // [B, Hq, T, D]
    const [, heads, keys] = key.shape as [number, number, number]; // Hkv, S
    const repeat = queryHeads / heads;
    const rows = repeat * length; // R·T
    const prompts = prefix?.key.shape[0] ?? 1; // P
    const group = batch / prompts; // G
    const scale = 1 / Math.sqrt(width);
    /** [B, Hkv, R·T, n] as [P, Hkv, G·R·T, n], a copy, and back. */
    const together = (x: View): View => {
      const five = reshaped(heap, x, [prompts, group, heads, rows, x.shape.at(-1)!]);
      return reshaped(heap, permuted(five, [0, 2, 1, 3, 4]), [prompts, heads, group * rows, x.shape.at(-1)!]);
    };
    const apart = (x: View): View => {
      const five = reshaped(heap, x, [prompts, heads, group, rows, x.shape.at(-1)!]);
      return reshaped(heap, permuted(five, [0, 2, 1, 3, 4]), [batch, heads, rows, x.shape.at(-1)!]);
    };
    const added = (a: View, b: View): View => {
      heap.kernels.binary(0, heap.address(a), heap.address(a), heap.address(b), sizeOf(a.shape));
      return a;
    };
    const queries = reshaped(heap, q, [batch, heads, rows, width]);
    const weights = products(heap, queries, heap.dense(turned(k))); // [B, Hkv, R·T, S], scores so far
    const shared = pk === undefined ? null : products(heap, together(queries), heap.dense(turned(pk))); // [P, Hkv, G·R·T, S₀]
    const [pMask, pB, , pS] = maskFor(heap, prefixMask);
    heap.kernels.softmax(
      ...[heap.address(weights), keys, shared === null ? 0 : heap.address(shared), before],
      ...[prompts, group, heads, repeat, length, scale, ...maskFor(heap, ownMask), pMask, pB, pS],
    );
    let out = products(heap, weights, heap.dense(v)); // [B, Hkv, R·T, D]
    if (shared !== null) out = added(out, apart(products(heap, shared, heap.dense(pv!))));
    const saved = [queries, k, v, weights, ...(shared === null ? [] : [shared, pk!, pv!])];
    return ops.emit('attention', inputs, [reshaped(heap, out, q.shape)], saved, ([g]) => {
      const up = reshaped(heap, g!, [batch, heads, rows, width]);
      const slopes = products(heap, up, heap.dense(turned(v))); // gradients of the weights, then of the scores
      const groupedUp = shared === null ? null : together(up);
      const sharedSlopes = groupedUp === null ? null : products(heap, groupedUp, heap.dense(turned(pv!)));
      const at = (view: View | null): number => (view === null ? 0 : heap.address(view));
      heap.kernels.softmaxBack(
        ...[at(slopes), at(weights), keys, at(sharedSlopes), at(shared), before],
        ...[prompts, group, heads, rows, scale],
      );
      let dq = products(heap, slopes, heap.dense(k));
      const dk = products(heap, heap.dense(turned(slopes)), queries);
      const dv = products(heap, heap.dense(turned(weights)), up);
      if (sharedSlopes === null) return [reshaped(heap, dq, q.shape), dk, dv];
      dq = added(dq, apart(products(heap, sharedSlopes, heap.dense(pk!))));
      const dpk = products(heap, heap.dense(turned(sharedSlopes)), together(queries));
      const dpv = products(heap, heap.dense(turned(shared!)), groupedUp!);
      return [reshaped(heap, dq, q.shape), dk, dv, dpk, dpv];
    })[0]!;
  });
}

/** Keys or values [B, H, S, D] whose rows stand D apart, as the kernel reads them. */
function inRows(heap: Heap, view: View): View {
  const width = view.shape[3]!;
  return view.strides[2] === width && view.strides[3] === 1 ? view : heap.dense(view);
}

export function attentionStep(ops: Operations, input: AttentionStepInput): TfjsTensor {
  const { cache, at, prefix } = input;
  const found = inputsOf(
    ops,
    'attentionStep',
    [input.qkv, input.cos, input.sin, cache.key, cache.value, prefix?.key, prefix?.value],
    [input.mask, prefix?.mask],
  );
  const before = checkAttentionStep(input, DEVICE);
  const used =
    at === undefined ? input.used : ops.heap.raw(ops.heap.dense(ops.all('attentionStep', [at])[0]!.view))[0]!;
  const [qkv, cos, sin, keyCache, valueCache, pk, pv] = found.map((tensor) => tensor?.view) as [
    View,
    View,
    View,
    View,
    View,
    View?,
    View?,
  ];
  return ops.run('attentionStep', [input.qkv, cache.key], () => {
    const { heap } = ops;
    const [batch, heads, , width] = keyCache.shape as [number, number, number, number]; // [B, Hkv, C, D]
    const all = qkv.shape[1]! / width; // Hq + 2·Hkv
    const queryHeads = all - 2 * heads;
    const rows = heap.dense(qkv);
    const turning = queryHeads + heads;
    const rotated = heap.make([batch, turning, width]);
    const [c, s] = [heap.dense(cos), heap.dense(sin)];
    heap.kernels.rotary(
      ...[heap.address(rotated), heap.address(rows), all * width, heap.address(c), heap.address(s)],
      ...[batch, c.shape[0]!, turning, width, 0],
    );
    // One column of the cache: [B, Hkv, 1, D].
    const column = (view: View, from: number, stride: number): View => ({
      ...view,
      shape: [batch, heads, 1, width],
      strides: [stride, width, width, 1],
      offset: view.offset + from * width,
    });
    heap.move(narrowed(keyCache, 2, used, 1), column(rotated, queryHeads, turning * width));
    heap.move(narrowed(valueCache, 2, used, 1), column(rows, turning, all * width));
    heap.wrote(narrowed(keyCache, 2, used, 1));
    heap.wrote(narrowed(valueCache, 2, used, 1));
    const q = heap.copy(narrowed(rotated, 1, 0, queryHeads));
    const [key, value] = [keyCache, valueCache].map((view) =>
      inRows(heap, narrowed(view, 2, 0, used + 1)),
    ) as [View, View];
    // The strides of both must be one.
    const [k, v] =
      key.strides.join() === value.strides.join() ? [key, value] : [heap.copy(key), heap.copy(value)];
    const [beforeKey, beforeValue] = [pk, pv].map((view) =>
      view === undefined ? null : heap.dense(view),
    ) as [View | null, View | null];
    const out = heap.make([batch, queryHeads * width]);
    const repeat = queryHeads / heads;
    const room = heap.make([before + used + 1]);
    const [mask, mB, , mS] = maskFor(heap, found[7] ?? null);
    const [pMask, pB, , pS] = maskFor(heap, found[8] ?? null);
    heap.kernels.attend(
      ...[
        heap.address(out),
        heap.address(q),
        batch,
        heads,
        repeat,
        width,
        1 / Math.sqrt(width),
        heap.address(room),
      ],
      ...[heap.address(k), heap.address(v), used + 1, k.strides[0]!, k.strides[1]!, mask, mB, mS],
      ...(beforeKey === null || beforeValue === null
        ? [0, 0, 0, 0, 0, 1, 0, 0, 0]
        : [
            ...[
              heap.address(beforeKey),
              heap.address(beforeValue),
              before,
              heads * before * width,
              before * width,
            ],
            ...[batch / beforeKey.shape[0]!, pMask, pB, pS],
          ]),
    );
    return ops.adopt(out);
  });
}
