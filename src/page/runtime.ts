/** onnxruntime-web in the place of onnxruntime-node (see bundle.js): graphs from files in memory, on one thread of WebAssembly or by WebGPU. */
import * as runtime from 'onnxruntime-web/wasm';
import { readFileSync } from './node.ts';

/** Path of the WebAssembly of onnxruntime, as it is mounted. */
export const WASM = '/onnxruntime.wasm';

/** True in the bundle whose onnxruntime has WebGPU. */
declare const WEBGPU: boolean;
declare const navigator: { readonly gpu?: { requestAdapter(): Promise<object | null> } };

// A page without cross-origin isolation, as from a file, cannot share memory between threads.
runtime.env.wasm.numThreads = 1;

const InferenceSession = {
  async create(file: string): Promise<runtime.InferenceSession> {
    runtime.env.wasm.wasmBinary ??= readFileSync(WASM) as unknown as Uint8Array<ArrayBuffer>;
    const graph = readFileSync(file) as unknown as Uint8Array;
    const open = (executionProviders: string[]): Promise<runtime.InferenceSession> =>
      runtime.InferenceSession.create(graph, { executionProviders, logSeverityLevel: 3 });
    const adapter = WEBGPU ? await navigator.gpu?.requestAdapter().catch(() => null) : null;
    return adapter ? open(['webgpu', 'wasm']).catch(() => open(['wasm'])) : open(['wasm']);
  },
};

export default { ...runtime, InferenceSession };
