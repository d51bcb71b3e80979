/**
 * Torch engine on libtorch's meta device: shapes and autograd bookkeeping without elements. A ledger records
 * how much memory another device would hold, and when; used to plan training.
 */
import { loadNative, type Native, type NativeValue } from './native.ts';
import { TorchEngine } from './torch.ts';

/** CUDA's caching allocator gives multiples of this, bytes. */
const CUDA_BLOCK = 512;

/** The largest that a phase held. */
interface PhasePeak {
  readonly bytes: number;
  /** Bytes held at the peak by origin: operator name, or `gradient` inside a backward pass. */
  readonly kinds: Readonly<Record<string, number>>;
}

/** Bytes that tensors would hold: now, and at the peak of each phase of a computation. */
export class Ledger {
  readonly #native: Native;
  readonly #id: number;
  readonly #kinds: string[] = [];
  readonly #phases = new Map<string, PhasePeak>();
  #phase = 'begin';

  constructor(native: Native, device: 'cpu' | 'cuda') {
    this.#native = native;
    this.#id = native.openLedger(device === 'cpu', device === 'cpu' ? 1 : CUDA_BLOCK);
  }

  get now(): number {
    return this.#native.readLedger(this.#id, false)[0]!;
  }

  /** Number of a kind. */
  kind(name: string): number {
    const known = this.#kinds.indexOf(name);
    return known >= 0 ? known : this.#kinds.push(name) - 1;
  }

  /** Books later allocations under this kind. */
  use(kind: number): void {
    this.#native.useLedger(this.#id, kind);
  }

  #close(): void {
    const [, bytes, ...kinds] = this.#native.readLedger(this.#id, true) as [number, number, ...number[]];
    if (bytes <= (this.#phases.get(this.#phase)?.bytes ?? -1)) return;
    const sizes = kinds.flatMap((of, kind) => (of > 0 ? [[this.#kinds[kind]!, of] as const] : []));
    const sorted = Object.fromEntries(sizes.sort((a, b) => b[1] - a[1]));
    this.#phases.set(this.#phase, { bytes, kinds: sorted });
  }

  /** Begins a phase, or goes on with it. */
  phase(name: string): void {
    if (name === this.#phase) return;
    this.#close();
    this.#phase = name;
    if (!this.#phases.has(name)) this.#phases.set(name, { bytes: 0, kinds: {} });
  }

  /** Counts every phase anew. */
  restart(): void {
    this.#close();
    this.#phases.clear();
  }

  /** The phases so far, in the order of their beginning. */
  peaks(): ReadonlyMap<string, PhasePeak> {
    this.#close();
    return this.#phases;
  }
}

/** Operators whose allocations differ on the meta device from those elsewhere, and what is called for them. */
const REPLACED: Readonly<Record<string, string>> = {
  'aten::index_select': 'timeseer::meta_index_select',
  'aten::gather': 'timeseer::meta_gather',
  'aten::scaled_dot_product_attention': 'timeseer::meta_tiled_attention',
};

/** Engine calls that behave differently on a meta device. */
interface Answers {
  /** Value of every integer that is read back. */
  integer: number;
  onBackward: () => void;
}

function metaNative(native: Native, ledger: Ledger, host: boolean, answers: Answers): Native {
  const operators: {
    readonly id: number;
    readonly metaId: number;
    readonly name: string;
    readonly kind: number;
  }[] = [];
  const modern = Number.parseInt(native.describe().version, 10) >= 2;
  const [gradient, given] = [ledger.kind('gradient'), ledger.kind('tensor')];
  const zeros = native.op('aten::zeros', '');
  let recordings = 0;
  return {
    ...native,
    op: (name, overload) => {
      const id = native.op(name, overload);
      if (id < 0) return id;
      const replacement = name in REPLACED ? native.op(REPLACED[name]!, '') : id;
      const kind = ledger.kind(`${name}${overload && '.'}${overload}`.replace(/^\w+::/, ''));
      return operators.push({ id, metaId: replacement, name, kind }) - 1;
    },
    takes: (operator, argument) => native.takes(operators[operator]!.id, argument),
    call: (operator, ...values: NativeValue[]) => {
      const { metaId, name, kind } = operators[operator]!;
      // Which kernel: a tiled one takes grouped heads on a processor; on a GPU not all of them do beside a mask.
      if (name === 'aten::_fused_sdp_choice') return host ? 1 : 0;
      ledger.use(kind);
      if (name === 'aten::zeros') values[3] = 'meta';
      return native.call(metaId, ...values);
    },
    fromHost: (data, dtype, shape) => {
      ledger.use(given);
      return native.fromHost(data, dtype, shape, 'meta');
    },
    toHost: (handle, into) => {
      if (native.dtype(handle) === 'int64') into.fill(answers.integer);
    },
    readFile: (_file, _offset, bytes) => {
      ledger.use(given);
      return native.call(zeros, [bytes], 'uint8', null, 'meta') as number;
    },
    grad: (outputs, inputs, seeds) => {
      ledger.use(gradient);
      if (seeds.length > 0) answers.onBackward();
      return native.grad(outputs, inputs, seeds);
    },
    trackMemory: () => ledger.restart(),
    memory: () => [ledger.now, Math.max(...[...ledger.peaks().values()].map(({ bytes }) => bytes))],
    describeDevice: () => ({ name: '', memoryTotal: 0 }),
    blasKernel: () => ({ kernel: '', file: '' }),
    synchronize: () => {},
    canRecord: () => !host && modern,
    record: (_device, body) => {
      body();
      body();
      return recordings++;
    },
    replay: () => {},
    freeRecording: () => {},
  };
}

export class MetaEngine extends TorchEngine {
  readonly ledger: Ledger;
  readonly #answers: Answers;

  /** `device`: what it stands for. */
  constructor(device: 'cpu' | 'cuda') {
    const native = loadNative();
    const ledger = new Ledger(native, device);
    const answers: Answers = { integer: 0, onBackward: () => {} };
    super(metaNative(native, ledger, device === 'cpu', answers), device, 1);
    this.ledger = ledger;
    this.#answers = answers;
  }

  /** Sets the value of every integer that is read back from now on, such as a sampled token. */
  set integer(value: number) {
    this.#answers.integer = value;
  }

  /** Calls back before every backward pass that is given the gradients of its outputs. */
  set onBackward(callback: () => void) {
    this.#answers.onBackward = callback;
  }
}
