import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

/**
 * Files with processes of their own: they replace modules, or depend on the state of a whole process (threads, counted memory,
 * loaded libraries, directory). All others share two processes, so that modules load twice and not once a file.
 */
const ISOLATED = [
  'test/{kernels,readme}.test.ts',
  'test/answer/reference.test.ts',
  'test/cli/{built-in-policy,cli,explain,tfjs}.test.ts',
  'test/datasets/define.test.ts',
  'test/engine/{few,kernel,misuse,tracking}.test.ts',
  'test/ground/files.test.ts',
  'test/hub/pull.test.ts',
  'test/serve/chat.test.ts',
];

/** Examples import the package by its name. */
const resolve = { alias: { timeseer: fileURLToPath(new URL('./src/index.ts', import.meta.url)) } };

const settings = {
  setupFiles: ['test/helpers/built-workers.ts', 'test/helpers/bytes-equality.ts'],
  pool: 'forks' as const,
  testTimeout: 60_000,
  hookTimeout: 120_000,
  env: { OMP_NUM_THREADS: '1', OMP_WAIT_POLICY: 'passive' },
};

/**
 * `npm test` runs *.test.ts; `npm run soak` (mode soak) runs the long tests, *.soak.ts. A shared test restores what it changes
 * and counts tensors from where it began.
 */
export default defineConfig(({ mode }) => ({
  test: {
    globalSetup: 'test/helpers/build.ts',
    maxWorkers: 2,
    projects:
      mode === 'soak'
        ? [{ resolve, test: { ...settings, name: 'soak', include: ['test/**/*.soak.ts'] } }]
        : [
            {
              resolve,
              test: {
                ...settings,
                name: 'shared',
                isolate: false,
                include: ['test/**/*.test.ts'],
                exclude: ISOLATED,
              },
            },
            { resolve, test: { ...settings, name: 'isolated', include: ISOLATED } },
          ],
  },
}));
