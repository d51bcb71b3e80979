/** Recorded work, and what surrounds it: waiting for the device, and what the device is. */
import { describe, expect, it } from 'vitest';
import type { Engine, Recording, Tensor } from '../../src/engine/engine.ts';
import { EngineError } from '../../src/errors.ts';

export function recordingContract(get: () => Engine): void {
  describe('recording', () => {
    it('where the device cannot record, the body is not called', () => {
      const engine = get();
      if (engine.info.device !== 'cpu') return;
      let calls = 0;
      expect(engine.record(() => calls++)).toBeNull();
      expect(calls).toBe(0);
    });
    it('where it can, the body takes effect once, and once more with each replay, on what is there then', () => {
      const engine = get();
      if (engine.info.device === 'cpu') return;
      engine.scope(() => {
        const values = (...list: number[]): Tensor => engine.tensor(new Float32Array(list), [list.length]);
        const [state, weight, log] = [values(1, 2), values(3, 4), engine.zeros([4, 2])];
        const place = engine.tensor(new Int32Array([0]), [1]);
        const recording = engine.record(() => {
          const next = engine.mul(state, weight); // [2]
          engine.write(state, 0, 0, next);
          engine.indexCopyInto(log, 0, place, engine.reshape(next, [1, 2]));
          engine.addInto(weight, 0, 1, engine.narrow(next, 0, 0, 1));
        }) as Recording;
        expect([...engine.floats(state)]).toEqual([3, 8]);
        expect([...engine.floats(weight)]).toEqual([3, 7]);
        engine.write(place, 0, 0, engine.tensor(new Int32Array([2]), [1]));
        recording.replay();
        engine.synchronize();
        expect([...engine.floats(log)]).toEqual([3, 8, 0, 0, 9, 56, 0, 0]);
        recording.replay();
        expect([...engine.floats(weight)]).toEqual([3, 43]);
        recording.dispose();
        recording.dispose();
        expect(() => recording.replay()).toThrow(EngineError);
      });
    });
    it('a body that fails, or copies to the host, leaves the engine as it was', () => {
      const engine = get();
      if (engine.info.device === 'cpu') return;
      engine.scope(() => {
        const [x, y] = [engine.zeros([3]), engine.zeros([3])];
        const live = engine.live();
        expect(() => engine.record(() => engine.write(y, 0, 0, engine.zeros([4])))).toThrow(/write/);
        let calls = 0;
        const fails = (): void => {
          engine.write(y, 0, 0, engine.add(x, 1));
          if (++calls === 2) throw new RangeError('second');
        };
        expect(() => engine.record(fails)).toThrow(new RangeError('second'));
        expect(() => engine.record(() => void engine.item(engine.sum(x)))).toThrow(EngineError);
        expect(engine.live()).toBe(live);
        const recording = engine.record(() => engine.write(y, 0, 0, engine.add(y, 1))) as Recording;
        recording.replay();
        expect([...engine.floats(y)]).toEqual([3, 3, 3]);
        recording.dispose();
      });
    });
  });
  it('info tells the device and its memory', () => {
    const { device, deviceName, memoryTotal } = get().info;
    expect(deviceName.length).toBeGreaterThan(0);
    expect(Number.isSafeInteger(memoryTotal)).toBe(true);
    if (device === 'cpu') expect(memoryTotal).toBeGreaterThan(2 ** 28);
  });
}
