/**
 * Arguments that turn against the addon while it reads them: `node --import tsx attacks.ts` makes each attack on the engine's
 * own addon. Prints the name of each before it begins, and `done` at the end. An attack may be refused or succeed; what it must
 * not do is to end the process, or to leave tensors behind.
 */
import { fileURLToPath } from 'node:url';
import { loadNative, type Native } from '../../src/engine/torch/native.ts';
import { Random } from '../../src/ground/random.ts';

/** An array whose entry `at` runs `body` when it is read, and is `value`. */
function trap<T>(entries: readonly T[], at: number, body: (array: T[]) => void): T[] {
  const array = [...entries];
  const value = array[at]!;
  Object.defineProperty(array, at, {
    configurable: true,
    enumerable: true,
    get: () => {
      body(array);
      return value;
    },
  });
  return array;
}

const grow = (array: unknown[]): void => {
  for (let i = 0; i < 200_000; i++) array.push(array[1]);
};

interface Stage {
  readonly native: Native;
  /** float32 of this shape, the elements 0, 1, 2 … */
  readonly tensor: (...shape: number[]) => number;
  readonly call: (name: string, ...values: unknown[]) => unknown;
}

type Attack = (stage: Stage) => void;

const refused = (body: () => unknown): void => {
  try {
    body();
  } catch (error) {
    if (!(error instanceof Error)) throw new Error(`not an Error: ${String(error)}`);
    return;
  }
  throw new Error('accepted');
};

/** A buffer that other code takes away: what was there is given to something else. */
function detach(buffer: ArrayBuffer): void {
  structuredClone(buffer, { transfer: [buffer] });
  for (let i = 0; i < 50; i++) new Float32Array(buffer.byteLength / 4 + 1000).fill(7);
}

const attacks: Record<string, Attack> = {
  'a shape grows while it is read': ({ tensor, call }) => {
    call('aten::reshape', tensor(2, 3), trap([6, 1, 1], 0, grow));
  },
  'a list of tensors grows while it is read': ({ tensor, call }) => {
    call('aten::cat', trap([tensor(2), tensor(2)], 0, grow), 0);
  },
  'a shape shrinks while it is read': ({ tensor, call }) => {
    refused(() =>
      call(
        'aten::reshape',
        tensor(2, 3),
        trap([6, 1, 1], 0, (array) => void array.splice(1)),
      ),
    );
  },
  'a list of optional tensors grows while it is read': ({ native, tensor, call }) => {
    const index = native.fromHost(Int32Array.of(0, 1), 'int64', [2], 'cpu');
    refused(() => call('aten::index.Tensor', tensor(4, 3), trap([index, null, index], 0, grow)));
  },
  'a list of flags and one of numbers grow while they are read': ({ tensor, call }) => {
    call('aten::fft_fftn', tensor(4, 4), trap([4, 4], 0, grow), trap([0, 1], 0, grow));
    call('aten::upsample_nearest2d.vec', tensor(1, 1, 2, 2), null, trap([2, 2], 0, grow));
  },
  'an argument asks for operators while it is read': ({ native, tensor, call }) => {
    const more = (): void => {
      for (let i = 0; i < 5000; i++) native.op('aten::add', 'Tensor');
    };
    for (let i = 0; i < 20; i++) call('aten::reshape', tensor(2, 3), trap([6, 1], 1, more));
  },
  'an argument frees the tensor of the call': ({ native, tensor, call }) => {
    const x = tensor(400, 300);
    call(
      'aten::reshape',
      x,
      trap([300, 400], 0, () => native.free(x)),
    );
    refused(() => native.shape(x));
  },
  'an argument makes tensors until the table moves': ({ native, tensor, call }) => {
    call(
      'aten::cat',
      trap([tensor(2), tensor(2), tensor(2)], 1, () => {
        for (let i = 0; i < 20_000; i++) native.free(tensor(1));
        for (let i = 0; i < 20_000; i++) tensor(1);
      }),
      0,
    );
  },
  'a shape takes away the data that it is of': ({ native }) => {
    const data = new Float32Array(1 << 20);
    refused(() =>
      native.fromHost(
        data,
        'float32',
        trap([1 << 20], 0, () => detach(data.buffer)),
        'cpu',
      ),
    );
  },
  'a shape shrinks the data that it is of': ({ native }) => {
    const buffer = new (ArrayBuffer as unknown as new (size: number, options: object) => ArrayBuffer)(
      1 << 22,
      {
        maxByteLength: 1 << 23,
      },
    );
    const data = new Float32Array(buffer);
    const shrink = (): void => (buffer as unknown as { resize(size: number): void }).resize(16);
    refused(() => native.fromHost(data, 'float32', trap([1 << 20], 0, shrink), 'cpu'));
    refused(() => native.toHost(native.fromHost(new Float32Array(8), 'float32', [8], 'cpu'), data));
  },
  'data that was taken away': ({ native, tensor }) => {
    const data = new Float32Array(8);
    detach(data.buffer);
    refused(() => native.fromHost(data, 'float32', [8], 'cpu'));
    refused(() => native.toHost(tensor(8), data));
    native.toHost(tensor(0), data);
  },
  'a list of handles to free grows, and frees its own entries': ({ native, tensor }) => {
    const list = [tensor(1), tensor(1), tensor(1)];
    native.free(trap(list, 0, (array) => void array.push(...list)));
    refused(() => native.free(trap([tensor(1), tensor(1)], 0, (array) => native.free([array[1]!]))));
  },
  'an index of all arrays is set to what frees the tensor': ({ native, tensor }) => {
    for (let round = 0; round < 50; round++) {
      const x = tensor(...new Array<number>(20).fill(1));
      Object.defineProperty(Array.prototype, '0', {
        configurable: true,
        set: () => {
          native.free(x);
          for (let i = 0; i < 100; i++) tensor(1, 1, 1, 1, 1, 1, 1);
        },
      });
      try {
        native.shape(x);
      } finally {
        delete (Array.prototype as unknown as Record<string, unknown>)['0'];
      }
    }
  },
  'lists of a gradient free what they hold, and grow': ({ native, tensor, call }) => {
    const x = native.parameter(tensor(3));
    native.gradMode(true);
    try {
      const y = call('aten::sum', call('aten::exp', x)) as number;
      const z = call('aten::sum', x) as number;
      native.grad(
        trap([y, z], 1, () => native.free(y)),
        trap([x, x], 0, grow),
        [],
      );
    } finally {
      native.gradMode(false);
    }
  },
  'arrays of a length without entries': ({ native, tensor, call }) => {
    const sparse = new Array<number>(2 ** 32 - 1);
    refused(() => call('aten::reshape', tensor(2), sparse));
    refused(() => call('aten::cat', sparse, 0));
    refused(() => native.fromHost(new Float32Array(1), 'float32', sparse, 'cpu'));
    refused(() => native.free(sparse));
    refused(() => native.grad(sparse, [], []));
  },
  'shapes of more elements than exist': ({ native }) => {
    const most = Number.MAX_SAFE_INTEGER;
    for (const shape of [[most, most, 0], [0, most, most], [most, 2], [most]]) {
      try {
        native.free(native.fromHost(new Float32Array(0), 'float32', shape, 'cpu'));
      } catch {
        // either is right
      }
    }
  },
  'what is read throws': ({ tensor, call }) => {
    for (const thrown of [undefined, null, 1, 'text', Symbol('s'), new RangeError('own')]) {
      let caught: unknown = 'nothing';
      try {
        call(
          'aten::reshape',
          tensor(2),
          trap([2], 0, () => {
            throw thrown;
          }),
        );
      } catch (error) {
        caught = error;
      }
      if (caught !== thrown) throw new Error(`${String(thrown)} became ${String(caught)}`);
    }
  },
  'an argument calls the same without end': ({ tensor, call }) => {
    const x = tensor(2);
    const again = (array: number[]): void => void call('aten::reshape', x, array);
    refused(() => call('aten::reshape', x, trap([2], 0, again)));
  },
  'values that are not what they seem': ({ native, tensor, call }) => {
    const x = tensor(2);
    const strange: readonly unknown[] = [
      new Proxy([2], {}),
      { length: 1, 0: 2 },
      { valueOf: () => x, [Symbol.toPrimitive]: () => x },
      new Number(x),
      Int32Array.of(2),
      Symbol.iterator,
      () => x,
      new Date(),
      2n ** 70n,
      Number.NaN,
      Number.NEGATIVE_INFINITY,
      -1,
      x + 0.5,
      2 ** 60,
      '\0cpu',
      '\ud800',
    ];
    for (const value of strange) {
      refused(() => call('aten::reshape', x, value));
      refused(() => call('aten::exp', value));
      refused(() => native.free(value as number));
      refused(() => native.toHost(x, value as Float32Array));
      refused(() => native.fromHost(new Float32Array(2), value as 'float32', [2], 'cpu'));
      refused(() => native.fromHost(new Float32Array(2), 'float32', value as number[], 'cpu'));
      refused(() => native.fromHost(new Float32Array(2), 'float32', [2], value as string));
    }
    refused(() => native.toHost(x, new DataView(new ArrayBuffer(8)) as unknown as Float32Array));
    refused(() => native.toHost(x, new BigInt64Array(2) as unknown as Float32Array));
    refused(() => native.threads(1e9));
  },
  'any value in any place of any function': ({ native }) => {
    const random = new Random(1, 'attacks');
    const below = (n: number): number => random.integer(0, n - 1);
    const values: readonly (() => unknown)[] = [
      () => undefined,
      () => null,
      () => below(6),
      () => -below(6),
      () => below(200) * 2 ** below(50),
      () => random.uniform(),
      () => [below(5), below(5)],
      () => [],
      () => [null, 'a', [1]],
      () => trap([1, 2, 3], below(3), (array) => void array.pop()),
      () => new Float32Array(below(5)),
      () =>
        ['cpu', 'cuda', 'meta', 'float32', '', 'aten::add', 'Tensor', 'set', 'add', 'get', 'allGather'][
          below(11)
        ],
      () => true,
      () => ({}),
      () => 5n,
    ];
    // They change the process, end it, or take long.
    const spared = [
      'trackMemory',
      'threads',
      'clockRate',
      'endProcess',
      'storeOpen',
      'storeClose',
      'groupOpen',
    ];
    const functions = { ...native, ...native.distributed };
    const names = Object.keys(functions).filter((name) => !spared.includes(name) && name !== 'distributed');
    const store = native.distributed?.storeOpen('127.0.0.1', 0, true, 5000);
    for (let round = 0; round < 10_000; round++) {
      const name = names[below(names.length)]!;
      const given = Array.from({ length: below(6) }, () => values[below(values.length)]!());
      try {
        const result = (functions as unknown as Record<string, (...values: unknown[]) => unknown>)[name]!(
          ...given,
        );
        if (result instanceof Promise) result.catch(() => undefined); // the store refuses it
      } catch (error) {
        if (!(error instanceof Error)) throw error;
      }
    }
    native.gradMode(false);
    if (store !== undefined) native.distributed!.storeClose(store);
  },
};

/** Makes every attack on an addon. */
export function attack(native: Native, say: (line: string) => void, chosen = Object.keys(attacks)): void {
  native.gradMode(false);
  for (const name of chosen) {
    say(name);
    const made: number[] = [];
    const operators = new Map<string, number>();
    const before = native.live();
    const call: Stage['call'] = (operator, ...values) => {
      const [base, overload = ''] = operator.split('.');
      let id = operators.get(operator);
      if (id === undefined) {
        id = native.op(base!, overload);
        operators.set(operator, id);
      }
      if (id < 0) throw new Error(`no operator ${operator}`);
      const result = native.call(id, ...(values as number[]));
      if (typeof result === 'number') made.push(result);
      return result;
    };
    const tensor: Stage['tensor'] = (...shape) => {
      const size = shape.reduce((a, b) => a * b, 1);
      const handle = native.fromHost(
        Float32Array.from({ length: size }, (_, i) => i),
        'float32',
        shape,
        'cpu',
      );
      made.push(handle);
      return handle;
    };
    attacks[name]!({ native, tensor, call });
    for (const handle of made) {
      try {
        native.free(handle);
      } catch {
        // the attack freed it
      }
    }
    if (native.live() < before) throw new Error(`${name} freed what it did not make`);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  attack(loadNative(), (line) => process.stdout.write(`${line}\n`));
  process.stdout.write('done\n');
}
