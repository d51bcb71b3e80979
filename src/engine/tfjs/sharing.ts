/**
 * Tensors that Workers of this process share. WebAssembly memories are each thread's own, so a shared storage has its content in one growable
 * SharedArrayBuffer as well: writes go there at once, and a thread that reads copies what changed since. Writers of different ranges, and
 * readers behind a barrier, see what they would see in one memory.
 */
import { getEnvironmentData, setEnvironmentData } from 'node:worker_threads';
import { EngineError } from '../../ground/errors.ts';
import { type DType, ELEMENT_BYTES } from '../engine.ts';

/** Key under which Workers find the buffer; one that was started before its parent opened the engine has a buffer of its own. */
const KEY = 'timeseer.tfjs';
const LARGEST = 2 ** 32 - 2 ** 16;
const TICKETS = 128;
const UNIT = 64; // bytes; blocks begin at multiples

// Words of the buffer: lock, end of the blocks in units, number of tickets given; then the tickets, then blocks.
const [LOCK, END, GIVEN] = [0, 1, 2] as const;
const FIRST_TICKET = 16;
/** Words of a ticket: number, block, dtype, offset, rank, sizes, strides. */
const TICKET_WORDS = 24;
const MOST_AXES = 8;
const FIRST_BLOCK = Math.ceil((4 * (FIRST_TICKET + TICKETS * TICKET_WORDS)) / UNIT);
// Words of a block, whose content follows one unit later: units, holders, version, bytes in use.
const [SIZE, HOLDERS, VERSION, BYTES] = [0, 1, 2, 3] as const;

const DTYPES = Object.keys(ELEMENT_BYTES) as DType[];

interface Growable {
  readonly byteLength: number;
  grow(bytes: number): void;
}

/** A view of a shared storage: its block, and the rest of a View. */
export interface SharedView {
  readonly block: number;
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly strides: readonly number[];
  readonly offset: number;
}

/** The buffer of this process. A thread opens it before it starts Workers. */
export function openSharing(): SharedArrayBuffer {
  const known = getEnvironmentData(KEY) as unknown as SharedArrayBuffer | undefined;
  if (known instanceof SharedArrayBuffer) return known;
  const Growing = SharedArrayBuffer as unknown as new (
    bytes: number,
    options: { maxByteLength: number },
  ) => SharedArrayBuffer;
  let buffer: SharedArrayBuffer;
  try {
    buffer = new Growing(FIRST_BLOCK * UNIT, { maxByteLength: LARGEST });
  } catch (cause) {
    throw new EngineError(
      'not enough memory: the tfjs engine reserves 4 GB of addresses; raise the limit of the process (ulimit -v)',
      { cause },
    );
  }
  new Int32Array(buffer, 0, FIRST_TICKET)[END] = FIRST_BLOCK;
  setEnvironmentData(KEY, buffer as never);
  return buffer;
}

export class SharedBlocks {
  readonly #buffer = openSharing();
  readonly #words = new Int32Array(this.#buffer, 0, FIRST_BLOCK * (UNIT / 4));

  constructor() {
    // A Worker that ends lets go of what it shared.
    process.once('exit', () => {
      for (const block of this.held) this.let(block);
    });
  }

  /** Blocks that this thread holds. */
  readonly held = new Set<number>();

  #locked<T>(body: () => T): T {
    while (Atomics.compareExchange(this.#words, LOCK, 0, 1) !== 0) Atomics.wait(this.#words, LOCK, 1, 5);
    try {
      return body();
    } finally {
      Atomics.store(this.#words, LOCK, 0);
      Atomics.notify(this.#words, LOCK, 1);
    }
  }

  #block(block: number): Int32Array {
    return new Int32Array(this.#buffer, block * UNIT, UNIT / 4);
  }

  /** Content of a block. */
  content(block: number, from: number, bytes: number): Uint8Array {
    return new Uint8Array(this.#buffer, (block + 1) * UNIT + from, bytes);
  }

  /** A block for this many bytes, held by this thread. */
  create(bytes: number): number {
    const size = Math.ceil(bytes / UNIT);
    const block = this.#locked(() => {
      const end = this.#words[END]!;
      for (let at = FIRST_BLOCK; at < end; at += 1 + this.#block(at)[SIZE]!) {
        const words = this.#block(at);
        const fits = words[SIZE]! >= size && words[SIZE]! <= 1.25 * size + 16;
        if (words[HOLDERS] !== 0 || !fits) continue;
        words[HOLDERS] = 1;
        words[BYTES] = bytes;
        return at;
      }
      const needed = (end + 1 + size) * UNIT;
      if (needed > LARGEST) throw new Error(`not enough memory: Workers share ${LARGEST} bytes at most`);
      const growable = this.#buffer as unknown as Growable;
      if (needed > growable.byteLength) growable.grow(needed);
      this.#block(end).set([size, 1, 0, bytes]);
      this.#words[END] = end + 1 + size;
      return end;
    });
    this.held.add(block);
    return block;
  }

  hold(block: number): void {
    Atomics.add(this.#block(block), HOLDERS, 1);
  }

  let(block: number): void {
    Atomics.sub(this.#block(block), HOLDERS, 1);
  }

  bytes(block: number): number {
    return this.#block(block)[BYTES]!;
  }

  version(block: number): number {
    return Atomics.load(this.#block(block), VERSION);
  }

  /** Marks a block as changed; returns its version now. */
  changed(block: number): number {
    return Atomics.add(this.#block(block), VERSION, 1) + 1;
  }

  /** Publishes a view, whose block the ticket holds. */
  publish({ block, dtype, shape, strides, offset }: SharedView): number {
    if (shape.length > MOST_AXES) throw new Error(`at most ${MOST_AXES} axes can be shared`);
    return this.#locked(() => {
      const place = Array.from({ length: TICKETS }, (_, i) => FIRST_TICKET + i * TICKET_WORDS).find(
        (at) => this.#words[at] === 0,
      );
      if (place === undefined) throw new Error(`${TICKETS} tensors are shared already; unshare some`);
      this.hold(block);
      const ticket = ++this.#words[GIVEN]!;
      const axes = [...shape, ...new Array<number>(MOST_AXES - shape.length).fill(0), ...strides];
      this.#words.set([ticket, block, DTYPES.indexOf(dtype), offset, shape.length, ...axes], place);
      return ticket;
    });
  }

  #place(ticket: number): number {
    for (let at = FIRST_TICKET; at < FIRST_TICKET + TICKETS * TICKET_WORDS; at += TICKET_WORDS) {
      if (Number.isInteger(ticket) && ticket > 0 && this.#words[at] === ticket) return at;
    }
    throw new Error('no tensor is shared by this ticket, or by a thread that this one was not started from');
  }

  /** The view of a ticket. */
  find(ticket: number): SharedView {
    return this.#locked(() => {
      const [, block, dtype, offset, rank, ...axes] = this.#words.subarray(
        this.#place(ticket),
      ) as unknown as number[];
      return {
        ...{ block: block!, dtype: DTYPES[dtype!]!, offset: offset! },
        shape: axes.slice(0, rank),
        strides: axes.slice(MOST_AXES, MOST_AXES + rank!),
      };
    });
  }

  withdraw(ticket: number): void {
    this.#locked(() => {
      const place = this.#place(ticket);
      this.let(this.#words[place + 1]!);
      this.#words[place] = 0;
    });
  }
}
