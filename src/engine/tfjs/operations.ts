/** Common ground of every operation of the tfjs engine: heap, tape and arena, argument checks, and how results become tensors. */
import { EngineError } from '../../ground/errors.ts';
import { Arena } from '../arena.ts';
import { checkOwned, operationError } from '../checks.ts';
import type { Tensor } from '../engine.ts';
import type { Backend } from './backend.ts';
import { Heap, type View } from './heap.ts';
import { type Backward, Tape, TfjsTensor } from './tape.ts';

/** Device of every tensor, which lies in this process's memory. */
export const DEVICE = 'cpu';

export class Operations {
  readonly heap: Heap;
  readonly tape: Tape;
  readonly arena: Arena<TfjsTensor>;

  constructor(backend: Backend) {
    this.heap = new Heap(backend);
    this.tape = new Tape(this.heap);
    this.arena = new Arena((tensors) => {
      for (const { view, edge } of tensors) {
        this.heap.let(view.storage);
        this.tape.let(edge);
      }
    });
  }

  /** A live tensor of this engine. */
  of(tensor: Tensor, where: string): TfjsTensor {
    try {
      checkOwned(tensor, TfjsTensor, this.arena, 'tfjs');
    } catch (cause) {
      throw operationError(where, [tensor], DEVICE, cause);
    }
    const found = tensor as TfjsTensor;
    if (found.view.storage.shared !== null) this.heap.pull(found.view.storage);
    return found;
  }

  /** Live tensors of this engine, absent ones as null. */
  all(where: string, tensors: readonly (Tensor | undefined)[]): (TfjsTensor | null)[] {
    return tensors.map((tensor) => (tensor === undefined ? null : this.of(tensor, where)));
  }

  /** Live float32 tensors of this engine. */
  floats(where: string, tensors: readonly (Tensor | undefined)[]): (TfjsTensor | null)[] {
    const found = this.all(where, tensors);
    for (const tensor of found) {
      if (tensor === null || tensor.dtype === 'float32') continue;
      const cause = new Error(`the tfjs engine computes in float32, not ${tensor.dtype}; cast it first`);
      throw operationError(where, found.filter(Boolean), DEVICE, cause);
    }
    return found;
  }

  /** Runs an operation; a plain error becomes an EngineError that names it and its arguments. */
  run<T>(name: string, values: readonly unknown[], body: () => T): T {
    try {
      return this.heap.frame(body);
    } catch (cause) {
      if (cause instanceof EngineError) throw cause;
      throw operationError(name, values, DEVICE, cause);
    }
  }

  adopt(view: View, edge: TfjsTensor['edge'] = null): TfjsTensor {
    this.heap.hold(view.storage);
    this.tape.hold(edge);
    return this.arena.own(new TfjsTensor(this.arena, view, edge));
  }

  /** Results of a differentiable operation as tensors. `saved`: views that `backward` reads. */
  emit(
    name: string,
    inputs: readonly (TfjsTensor | null)[],
    outputs: readonly View[],
    saved: readonly View[],
    backward: Backward,
  ): TfjsTensor[] {
    const edges = this.tape.record(name, inputs, outputs.length, saved, backward);
    return outputs.map((view, i) => this.adopt(view, edges[i]!));
  }

  /** Returns true where a gradient of one of the inputs can be asked for. */
  records(inputs: readonly (TfjsTensor | null)[]): boolean {
    return this.tape.recording && inputs.some((input) => input !== null && input.edge !== null);
  }
}
