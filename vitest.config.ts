import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: 'test/helpers/build.ts',
    setupFiles: ['test/helpers/built-workers.ts', 'test/helpers/bytes-equality.ts'],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 120_000,
    env: { OMP_NUM_THREADS: '1', OMP_WAIT_POLICY: 'passive' },
  },
});
