/** The backward pass as libtorch's engine makes it: which gradients are alive at the same time, and what is freed when. */
import { cast } from './copies.ts';
import type { Kernels } from './kernels.ts';
import { type DryTensor, type Edge, freeSaved, type Step, sameShape } from './tensor.ts';
import { summed } from './views.ts';

/** Whether nothing else holds the tensor's memory, and nothing is missing of it. */
const alone = (tensor: DryTensor): boolean => tensor.storage.refs === 1 && tensor.solid && !tensor.derived;

/** Adds a gradient to what has arrived already, in place where that is nobody else's. Takes over `more`. */
function accumulate(kernels: Kernels, before: DryTensor | null, more: DryTensor): DryTensor {
  if (before === null) return more;
  if (alone(before)) {
    more.release();
    return before;
  }
  const sum = kernels.like(before);
  before.release();
  more.release();
  return sum;
}

/** A gradient in the shape and dtype of what it is the gradient of. Takes it over. */
function fitted(kernels: Kernels, gradient: DryTensor, edge: Edge): DryTensor {
  let fit = gradient;
  if (!sameShape(fit.shape, edge.shape)) {
    const narrower = summed(kernels, fit, edge.shape);
    fit.release();
    fit = narrower;
  }
  if (fit.dtype !== edge.dtype) {
    const converted = cast(kernels, fit, edge.dtype);
    fit.release();
    fit = converted;
  }
  return fit;
}

/** The steps that lead from `roots` to one of `targets`. */
function neededOf(roots: readonly Step[], targets: ReadonlySet<Step>): Set<Step> {
  const needed = new Set<Step>();
  const order: Step[] = [];
  const seen = new Set<Step>();
  const queue = [...roots];
  for (let step = queue.pop(); step !== undefined; step = queue.pop()) {
    if (seen.has(step)) continue;
    seen.add(step);
    order.push(step);
    for (const edge of step.edges) if (edge !== null) queue.push(edge.step);
  }
  order.sort((a, b) => a.sequence - b.sequence); // what a step leads to comes before it
  for (const step of order) {
    const leads = step.edges.some((edge) => edge !== null && needed.has(edge.step));
    if (targets.has(step) || leads) needed.add(step);
  }
  return needed;
}

/**
 * Gradients of the outputs with respect to each input, null where none leads there. Saved values are freed as the steps
 * are done. Seeds stay the caller's.
 */
export function backward(
  kernels: Kernels,
  outputs: readonly DryTensor[],
  inputs: readonly DryTensor[],
  seeds: readonly DryTensor[],
): (DryTensor | null)[] {
  const recording = kernels.recording;
  kernels.recording = false;
  try {
    const targets = new Set(inputs.flatMap(({ edge }) => (edge === null ? [] : [edge.step])));
    const needed = neededOf(
      outputs.flatMap(({ edge }) => (edge === null ? [] : [edge.step])),
      targets,
    );
    const arrived = new Map<Step, (DryTensor | null)[]>();
    const arrive = (edge: Edge, gradient: DryTensor): void => {
      let slots = arrived.get(edge.step);
      if (slots === undefined) {
        slots = [];
        arrived.set(edge.step, slots);
      }
      slots[edge.result] = accumulate(kernels, slots[edge.result] ?? null, fitted(kernels, gradient, edge));
    };
    outputs.forEach((output, i) => {
      if (output.edge === null || !needed.has(output.edge.step)) return;
      const seed = seeds[i];
      arrive(output.edge, seed === undefined ? kernels.like(output) : seed.view());
    });
    const found = new Map<string, DryTensor | null>();
    const key = (edge: Edge): string => `${edge.step.sequence}.${edge.result}`;
    // Later steps first: whatever leads to a step was recorded after it.
    for (const step of [...needed].sort((a, b) => b.sequence - a.sequence)) {
      const slots = arrived.get(step);
      arrived.delete(step);
      if (slots === undefined) continue;
      if (targets.has(step)) {
        slots.forEach((gradient, result) => {
          found.set(`${step.sequence}.${result}`, gradient?.view() ?? null);
        });
      }
      const wanted = step.edges.map((edge) => edge !== null && needed.has(edge.step));
      const results = wanted.includes(true)
        ? step.backward(
            Array.from({ length: slots.length }, (_, i) => slots[i] ?? null),
            wanted,
          )
        : [];
      for (const gradient of slots) gradient?.release();
      if (wanted.includes(true)) freeSaved(step);
      results.forEach((gradient, i) => {
        const edge = step.edges[i] ?? null;
        if (gradient === null) return;
        if (edge === null || !wanted[i]) gradient.release();
        else arrive(edge, gradient);
      });
    }
    return inputs.map(({ edge }) => {
      const gradient = edge === null ? null : (found.get(key(edge)) ?? null);
      if (gradient === null) return null;
      // Memory of its own: autograd gives one tensor for several inputs, its seed, or an expanded one.
      if (alone(gradient)) return gradient;
      const copy = kernels.empty(gradient.shape, gradient.dtype);
      gradient.release();
      return copy;
    });
  } finally {
    kernels.recording = recording;
  }
}
