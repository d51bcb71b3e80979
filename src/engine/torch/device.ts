/** The device that an engine computes on: whether it is there, what it is, and when it is done. */
import { cpus, totalmem } from 'node:os';
import { EngineError } from '../../errors.ts';
import type { EngineInfo } from '../engine.ts';
import { loadedBlas, type Native } from './native.ts';
import type { Operators } from './operators.ts';

/** Throws EngineError unless `device` is 'cpu', 'cuda' or 'cuda:N'. */
export function checkDeviceName(device: string): void {
  if (!/^(cpu|cuda(:\d+)?)$/.test(device)) {
    throw new EngineError(`unknown device '${device}': use 'cpu', 'cuda' or 'cuda:N'`);
  }
}

/** Throws EngineError when this libtorch does not see the device. */
export function checkDevice(native: Native, device: string): void {
  if (device === 'cpu') return;
  const { cudaDevices, version } = native.describe();
  if (Number(device.split(':')[1] ?? 0) >= cudaDevices) {
    throw new EngineError(
      `device '${device}' asked for, but this libtorch (${version}) sees ${cudaDevices || 'no'} CUDA devices; ` +
        'use --device cpu, or set LIBTORCH to a CUDA build and run `npm run setup`',
    );
  }
}

/** What an engine of `threads` intra-op threads on this device says of itself. */
export function describeEngine(native: Native, device: string, threads: number): EngineInfo {
  const { name, memoryTotal } =
    device === 'cpu'
      ? { name: cpus()[0]?.model.trim() ?? '', memoryTotal: totalmem() }
      : native.describeDevice(device);
  return {
    name: 'torch',
    version: native.describe().version,
    device,
    threads,
    blas: loadedBlas(native, device),
    deviceName: name === '' ? device : name,
    memoryTotal,
  };
}

/** As `Engine.synchronize`. */
export function synchronize(ops: Operators): void {
  try {
    ops.native.synchronize(ops.device);
  } catch (cause) {
    throw ops.error('synchronize', [], cause);
  }
}
