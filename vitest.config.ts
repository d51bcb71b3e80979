import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

/**
 * Files that share two processes, so that modules load twice and not once a file. Not among them: files that replace modules, or depend on the
 * state of a whole process (threads, counted memory, loaded libraries, directory), or are not yet known to do without.
 */
const SHARED = [
  'test/{commands,expcot,html,measures,policy,recipe,series,tasks,train}/**/*.test.ts',
  'test/cli/{eval,follow,interrupt,study,tasks,validation}.test.ts',
  'test/engine/!(few|kernel|memory|misuse|tracking|workers).test.ts',
  'test/ground/!(files).test.ts',
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
            { resolve, test: { ...settings, name: 'shared', isolate: false, include: SHARED } },
            {
              resolve,
              test: { ...settings, name: 'isolated', include: ['test/**/*.test.ts'], exclude: SHARED },
            },
          ],
  },
}));
