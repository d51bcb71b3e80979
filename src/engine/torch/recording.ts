/** Work of the device that is recorded once and repeated: CUDA graphs. */
import { EngineError } from '../../errors.ts';
import type { Recording } from '../engine.ts';
import type { Operators } from './operators.ts';

/** As `Engine.record`; `body` is called as it is. */
export function record(ops: Operators, body: () => void): Recording | null {
  const { native, device } = ops;
  if (!native.canRecord(device)) return null;
  const thrown: unknown[] = [];
  const run = (): void => {
    try {
      body();
    } catch (error) {
      thrown.push(error);
      throw error;
    }
  };
  let id: number;
  try {
    id = native.record(device, run);
  } catch (cause) {
    throw thrown.length > 0 ? thrown[0] : ops.error('record', [], cause);
  }
  let disposed = false;
  return {
    replay() {
      if (disposed) throw new EngineError('replay: the recording was already disposed of');
      try {
        native.replay(id);
      } catch (cause) {
        throw ops.error('replay', [], cause);
      }
    },
    dispose() {
      if (!disposed) native.freeRecording(id);
      disposed = true;
    },
  };
}
