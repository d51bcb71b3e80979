/** Tensors of the tfjs engine and reverse-mode differentiation: each recorded operation keeps what its gradient reads. */
import { OwnedTensor } from '../arena.ts';
import type { DType } from '../engine.ts';
import { denseStrides, type Heap, isDense, sizeOf, type View } from './heap.ts';

/** Gradients of an operation's inputs, in order, from those of its outputs; null where there is none. */
export type Backward = (
  gradients: readonly (View | null)[],
  wanted: readonly boolean[],
) => readonly (View | null)[];

/** Output of a recorded operation, or a leaf. */
interface Edge {
  readonly node: Node;
  readonly index: number;
}

class Node {
  readonly order: number;
  readonly name: string;
  readonly inputs: readonly (Edge | null)[];
  /** Views that the gradient reads, and the version that it saw. */
  saved: readonly (readonly [view: View, version: number])[];
  /** Null for a leaf. */
  readonly backward: Backward | null;
  /** Tensors and later operations that refer to this one. */
  holders = 0;
  spent = false;

  constructor(
    order: number,
    name: string,
    inputs: readonly (Edge | null)[],
    saved: Node['saved'],
    backward: Backward | null,
  ) {
    this.order = order;
    this.name = name;
    this.inputs = inputs;
    this.saved = saved;
    this.backward = backward;
  }
}

export class TfjsTensor extends OwnedTensor {
  readonly view: View;
  readonly edge: Edge | null;

  constructor(owner: object, view: View, edge: Edge | null) {
    super(owner);
    this.view = view;
    this.edge = edge;
  }

  get shape(): readonly number[] {
    this.checkLive('shape');
    return this.view.shape;
  }

  get dtype(): DType {
    this.checkLive('dtype');
    return this.view.dtype;
  }
}

/** A gradient on its way. */
interface Flow {
  view: View;
}

export class Tape {
  readonly #heap: Heap;
  #next = 0;
  recording = true;

  constructor(heap: Heap) {
    this.#heap = heap;
  }

  leaf(): Edge {
    return { node: new Node(this.#next++, 'parameter', [], [], null), index: 0 };
  }

  /** Edges of an operation's outputs; nulls where nothing is recorded. `saved`: views that `backward` reads. */
  record(
    name: string,
    inputs: readonly (TfjsTensor | null)[],
    outputs: number,
    saved: readonly View[],
    backward: Backward,
  ): (Edge | null)[] {
    if (!this.recording || inputs.every((input) => input === null || input.edge === null)) {
      return new Array<null>(outputs).fill(null);
    }
    const edges = inputs.map((input) => input?.edge ?? null);
    for (const edge of edges) if (edge !== null) edge.node.holders++;
    for (const { storage } of saved) this.#heap.hold(storage);
    const versions = saved.map((view) => [view, view.storage.version] as const);
    const node = new Node(this.#next++, name, edges, versions, backward);
    return Array.from({ length: outputs }, (_, index) => ({ node, index }));
  }

  hold(edge: Edge | null): void {
    if (edge !== null) edge.node.holders++;
  }

  /** Lets go of an operation, and of what only it refers to. */
  let(edge: Edge | null): void {
    const left = edge === null ? [] : [edge.node];
    for (let node = left.pop(); node !== undefined; node = left.pop()) {
      if (--node.holders > 0) continue;
      this.#forget(node);
      for (const input of node.inputs) if (input !== null) left.push(input.node);
    }
  }

  #forget(node: Node): void {
    for (const [{ storage }] of node.saved) this.#heap.let(storage);
    node.saved = [];
  }

  /** Gradients of the seeded outputs with respect to the inputs, fresh memory that the caller holds. */
  grad(outputs: readonly TfjsTensor[], seeds: readonly View[], inputs: readonly TfjsTensor[]): View[] {
    const heap = this.#heap;
    for (const { edge } of inputs) {
      if (edge === null)
        throw new Error('an input does not require a gradient: it descends from no parameter');
    }
    const flows = new Map<Node, (Flow | null)[]>();
    try {
      outputs.forEach(({ edge }, i) => {
        if (edge !== null) this.#add(flows, edge, seeds[i]!);
      });
      const nodes = this.#reachable(outputs);
      const targets = new Set(inputs.map(({ edge }) => edge!.node));
      const wanted = new Set<Node>();
      for (const node of nodes) {
        if (targets.has(node) || node.inputs.some((edge) => edge !== null && wanted.has(edge.node)))
          wanted.add(node);
      }
      for (const node of nodes.reverse()) {
        const given = flows.get(node);
        if (given === undefined || node.backward === null) continue;
        if (node.inputs.some((edge) => edge !== null && wanted.has(edge.node))) {
          this.#step(flows, node, given, wanted);
        }
        if (!targets.has(node)) this.#drop(flows, node);
      }
      return inputs.map(({ edge, view }) => {
        const flow = flows.get(edge!.node)?.[edge!.index];
        const found = flow == null ? heap.zeros(view.shape, view.dtype) : heap.copy(flow.view);
        heap.hold(found.storage);
        return found;
      });
    } finally {
      for (const node of [...flows.keys()]) this.#drop(flows, node);
    }
  }

  /** Operations behind the outputs, in the order in which they were recorded. */
  #reachable(outputs: readonly TfjsTensor[]): Node[] {
    const found = new Set<Node>();
    const left = outputs.flatMap(({ edge }) => (edge === null ? [] : [edge.node]));
    for (let node = left.pop(); node !== undefined; node = left.pop()) {
      if (found.has(node)) continue;
      found.add(node);
      for (const edge of node.inputs) if (edge !== null) left.push(edge.node);
    }
    return [...found].sort((a, b) => a.order - b.order);
  }

  #step(flows: Map<Node, (Flow | null)[]>, node: Node, given: (Flow | null)[], wanted: Set<Node>): void {
    if (node.spent) {
      throw new Error(`the history of ${node.name} was used by an earlier grad, which freed it`);
    }
    for (const [view, version] of node.saved) {
      if (view.storage.version !== version) {
        throw new Error(
          `a tensor that the gradient of ${node.name} needs was modified by an in-place operation`,
        );
      }
    }
    this.#heap.frame(() => {
      const wants = node.inputs.map((edge) => edge !== null && wanted.has(edge.node));
      const gradients = node.backward!(
        given.map((flow) => flow?.view ?? null),
        wants,
      );
      node.inputs.forEach((edge, i) => {
        const gradient = gradients[i];
        if (wants[i] && gradient != null) this.#add(flows, edge!, gradient);
      });
    });
    node.spent = true;
    this.#forget(node);
  }

  /** Adds a gradient to those of an output. The sum is memory of its own. */
  #add(flows: Map<Node, (Flow | null)[]>, { node, index }: Edge, gradient: View): void {
    const heap = this.#heap;
    const all = flows.get(node) ?? [];
    flows.set(node, all);
    while (all.length <= index) all.push(null);
    const known = all[index];
    if (known == null) {
      heap.hold(gradient.storage);
      all[index] = { view: gradient };
      return;
    }
    const { view } = known;
    const exclusive = view.storage.holders === 1 && isDense(view);
    const into = exclusive ? view : heap.make(view.shape, view.dtype);
    const [a, b] = [heap.dense(view), heap.dense(gradient)];
    const count = sizeOf(view.shape);
    if (view.dtype === 'float32')
      heap.kernels.binary(0, heap.address(into), heap.address(a), heap.address(b), count);
    else {
      const [x, y, sum] = [heap.raw(a), heap.raw(b), heap.raw(into)];
      for (let i = 0; i < count; i++) sum[i] = x[i]! + y[i]!;
    }
    if (exclusive) return;
    heap.hold(into.storage);
    heap.let(view.storage);
    known.view = into;
  }

  #drop(flows: Map<Node, (Flow | null)[]>, node: Node): void {
    for (const flow of flows.get(node) ?? []) if (flow !== null) this.#heap.let(flow.view.storage);
    flows.delete(node);
  }
}

/** A view of the same elements in another shape; a copy where strides do not allow it. */
export function reshaped(heap: Heap, view: View, shape: readonly number[]): View {
  const dense = heap.dense(view);
  return { ...dense, shape, strides: denseStrides(shape) };
}
