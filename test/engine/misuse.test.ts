/** Wrong use is an EngineError that says operator, shapes and device; it never ends the process or leaks. */
import { describe, expect, it } from 'vitest';
import type { Tensor } from '../../src/engine/engine.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { EngineError } from '../../src/ground/errors.ts';
import { ENGINES, misuse } from './complaint.ts';

describe.each(ENGINES)('%s', (_, opened, other) => {
  const { engine, complaint, floats, whole } = misuse(opened);

  const freed = (): Tensor => {
    const tensor = floats([2, 3]);
    engine.dispose(tensor);
    return tensor;
  };

  describe('a freed tensor', () => {
    const uses: Record<string, (x: Tensor) => unknown> = {
      add: (x) => engine.add(x, 1),
      'add on the right': (x) => engine.add(floats([2, 3]), x),
      concat: (x) => engine.concat([floats([2, 3]), x], 0),
      reshape: (x) => engine.reshape(x, [6]),
      floats: (x) => engine.floats(x),
      ints: (x) => engine.ints(x),
      item: (x) => engine.item(x),
      dispose: (x) => engine.dispose(x),
      share: (x) => engine.share(x),
      parameter: (x) => engine.parameter(x),
      detach: (x) => engine.detach(x),
      cast: (x) => engine.cast(x, 'float64'),
      'grad output': (x) => engine.grad(x, []),
      'grad input': (x) => engine.grad(floats([]), [x]),
      'grad seed': (x) => engine.grad(floats([]), [], x),
      'write target': (x) => engine.write(x, 0, 0, floats([1, 3])),
      'write source': (x) => engine.write(floats([2, 3]), 0, 0, x),
      rmsNorm: (x) => engine.rmsNorm(x, floats([3]), 1e-6),
      addNorm: (x) => engine.addNorm(floats([2, 3]), x, floats([3]), 1e-6),
      rotary: (x) => engine.rotary(x, floats([1, 2, 2]), floats([1, 2, 2])),
      attention: (x) => engine.attention({ query: floats([1, 1, 2, 3]), key: x, value: x }),
      swiglu: (x) => engine.swiglu(x),
      logProbs: (x) => engine.logProbs(x, floats([4, 3]), whole(0, 1)),
      sample: (x) => engine.sample(x, { temperature: 1, topP: 1, uniforms: floats([2]) }),
      'sample uniforms': (x) => engine.sample(floats([2, 3]), { temperature: 1, topP: 1, uniforms: x }),
      adamW: (x) =>
        engine.adamW(
          { parameters: x, gradients: x, firstMoment: x, secondMoment: x, decay: x },
          { learningRate: 1, beta1: 0.9, beta2: 0.9, epsilon: 1, step: 1 },
        ),
      shape: (x) => x.shape,
      dtype: (x) => x.dtype,
    };
    it.each(Object.keys(uses))('%s', (name) => {
      expect(complaint(() => uses[name]!(freed()))).toMatch(/already freed/);
    });
    it('its slot taken by another tensor does not bring it back', () => {
      expect(
        complaint(() => {
          const old = freed();
          floats([2, 3]);
          return engine.exp(old);
        }),
      ).toBe('exp(freed) on cpu: the tensor was already freed by dispose or a scope');
    });
    it('a tensor that left its scope unreturned is freed', () => {
      expect(
        complaint(() => {
          let lost: Tensor | undefined;
          engine.scope(() => {
            lost = floats([4]);
          });
          return engine.exp(lost!);
        }),
      ).toMatch(/already freed/);
    });
  });

  describe('what is no tensor of this engine', () => {
    it.each([
      ['an object of the same form', { shape: [2], dtype: 'float32', handle: 0 }],
      ['a handle', 0],
      ['null', null],
      ['undefined', undefined],
      ['a typed array', new Float32Array(3)],
      ['a symbol', Symbol('x')],
      ['a string', 'float32'],
    ])('%s', (_, thing) => {
      const foreign = thing as unknown as Tensor;
      expect(complaint(() => engine.exp(foreign))).toMatch(/^exp/);
      expect(complaint(() => engine.matmul(floats([2, 2]), foreign))).toMatch(/^matmul/);
      expect(complaint(() => engine.swiglu(foreign))).toMatch(/swiglu|narrow/);
      expect(complaint(() => engine.floats(foreign))).toMatch(/no tensor of the (torch|tfjs) engine/);
      expect(complaint(() => engine.dispose(foreign))).toMatch(/no tensor of the (torch|tfjs) engine/);
    });
    it('a tensor of another engine in the same thread', () => {
      const theirs = other.zeros([2, 3]);
      expect(complaint(() => engine.add(floats([2, 3]), theirs))).toBe(
        'add.Tensor(float32[2,3]) on cpu: the tensor belongs to another engine',
      );
      expect(engine.live()).toBe(0);
      expect(other.live()).toBe(1);
      other.dispose(theirs);
    });
    it('a tensor that went through a message', () => {
      const tensor = floats([2]);
      expect(complaint(() => engine.exp(structuredClone({ ...tensor }) as Tensor))).toMatch(
        /no tensor of the (torch|tfjs) engine/,
      );
      engine.dispose(tensor);
    });
  });

  describe('autograd', () => {
    it('grad of several outputs needs a seed for each', () => {
      expect(
        complaint(() => {
          const x = engine.parameter(floats([3]));
          return engine.grad([engine.mul(x, 2), engine.exp(x)], [x], [floats([3])]);
        }),
      ).toBe('grad([float32[3], float32[3]], [float32[3]]) on cpu: 2 outputs need as many gradients, got 1');
    });
    it('grad with respect to what is no leaf of the history names both', () => {
      expect(
        complaint(() => {
          const x = engine.parameter(floats([3]));
          return engine.grad(engine.sum(engine.mul(x, 2)), [floats([3])]);
        }),
      ).toMatch(/^grad\(float32\[\], \[\]\) on cpu: .*require/);
    });
    it('grad of several values needs a seed of their shape', () => {
      const leaf = (): Tensor => engine.parameter(floats([3]));
      expect(
        complaint(() => {
          const x = leaf();
          return engine.grad(engine.mul(x, 2), [x]);
        }),
      ).toMatch(/^grad\(float32\[3\], \[\]\) on cpu: /);
      expect(
        complaint(() => {
          const x = leaf();
          return engine.grad(engine.mul(x, 2), [x], floats([4]));
        }),
      ).toMatch(/^grad\(float32\[3\], float32\[4\]\) on cpu: /);
    });
    it('grad twice through one history, or after a write into what it needs', () => {
      expect(
        complaint(() => {
          const x = engine.parameter(floats([3]));
          const y = engine.sum(engine.mul(x, x));
          engine.grad(y, [x]);
          return engine.grad(y, [x]);
        }),
      ).toMatch(/^grad/);
      expect(
        complaint(() => {
          const x = engine.parameter(floats([3]));
          const y = engine.exp(x);
          engine.write(y, 0, 0, floats([1]));
          return engine.grad(engine.sum(y), [x]);
        }),
      ).toMatch(/^grad.*modified/);
    });
    it('noGrad with a Promise is an error and recording goes on', () => {
      expect(complaint(() => engine.noGrad(async () => 1))).toMatch(/^noGrad: .*Promise/);
      engine.scope(() => {
        const x = engine.parameter(floats([2]));
        expect(engine.grad(engine.sum(engine.mul(x, 3)), [x])).toHaveLength(1);
      });
    });
  });

  describe('scopes', () => {
    it('a Promise or another thenable is an error, and all is freed', () => {
      expect(complaint(() => engine.scope(async () => engine.zeros([3])))).toMatch(/^scope: .*Promise/);
      const thenable = Object.fromEntries([['then', () => undefined]]);
      expect(complaint(() => engine.scope(() => [floats([1]), thenable][1]))).toMatch(/^scope: .*Promise/);
    });
    it('a failing async body does not become an unhandled rejection', async () => {
      const unhandled: unknown[] = [];
      const note = (reason: unknown): void => {
        unhandled.push(reason);
      };
      process.on('unhandledRejection', note);
      complaint(() =>
        engine.scope(async () => {
          await null;
          engine.exp(freed());
        }),
      );
      await new Promise((done) => setTimeout(done, 20));
      process.off('unhandledRejection', note);
      expect(unhandled).toEqual([]);
    });
  });

  describe('sharing', () => {
    it('an unknown ticket, and one withdrawn twice', () => {
      expect(complaint(() => engine.attach(123456789))).toMatch(/^attach\(123456789\) on cpu: no tensor/);
      expect(complaint(() => engine.attach(1.5))).toMatch(/^attach/);
      expect(complaint(() => engine.attach('a' as unknown as number))).toMatch(/^attach/);
      const ticket = engine.scope(() => engine.share(floats([2])));
      engine.unshare(ticket);
      expect(complaint(() => engine.unshare(ticket))).toMatch(/^unshare\(\d+\) on cpu: no tensor/);
      expect(complaint(() => engine.attach(ticket))).toMatch(/no tensor is shared/);
    });
    it('an attached tensor outlives its source and its ticket, and both see one memory', () => {
      engine.scope(() => {
        const source = engine.tensor(new Float32Array([1, 2, 3]), [3]);
        const ticket = engine.share(source);
        const attached = engine.attach(ticket);
        engine.unshare(ticket);
        engine.write(source, 0, 1, engine.tensor(new Float32Array([7]), [1]));
        engine.dispose(source);
        expect([...engine.floats(attached)]).toEqual([1, 7, 3]);
      });
    });
  });
});

describe('opening', () => {
  it.each(['gpu', 'cuda:', 'cuda:-1', 'CPU', ''])('device %o is refused', (device) => {
    expect(() => openTorch({ device })).toThrow(
      new EngineError(`unknown device '${device}': use 'cpu', 'cuda' or 'cuda:N'`),
    );
  });
  it('a CUDA device that is not there says so', () => {
    expect(() => openTorch({ device: 'cuda:99' })).toThrow(/device 'cuda:99'/);
  });
});
