/** onnxruntime-web in the place of onnxruntime-node (see bundle.js): WebAssembly with SIMD, one thread, graphs from files in memory. */
import * as runtime from 'onnxruntime-web/wasm';
import { readFileSync } from './node.ts';

/** Path of the WebAssembly of onnxruntime, as it is mounted. */
export const WASM = '/onnxruntime.wasm';

// A page without cross-origin isolation, as from a file, cannot share memory between threads.
runtime.env.wasm.numThreads = 1;

const InferenceSession = {
  create(file: string): Promise<runtime.InferenceSession> {
    runtime.env.wasm.wasmBinary ??= readFileSync(WASM) as unknown as Uint8Array<ArrayBuffer>;
    return runtime.InferenceSession.create(readFileSync(file) as unknown as Uint8Array, {
      executionProviders: ['wasm'],
      logSeverityLevel: 3,
    });
  },
};

export default { ...runtime, InferenceSession };
