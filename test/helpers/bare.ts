/** Commands where there is neither libtorch nor a compiler. */
import { join } from 'node:path';

/** Environment with an empty cache, in which no addon is, and a path without a compiler, apt or Python. */
export const withoutTorch = (root: string): NodeJS.ProcessEnv => ({
  ...{ TIMESEER_CACHE: join(root, 'cache'), PATH: join(root, 'bin'), TIMESEER_ENGINE: '' },
});

/** Line on standard error of a stage that trains there. */
export const TRAINS_ON_TFJS =
  'engine: tfjs, by @tensorflow/tfjs-backend-wasm, as torch is not set up; `npx timeseer setup` installs libtorch, which is faster\n';
