import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // The SDK's native bridge does not live in worker threads.
    pool: 'forks',
    // Most tests wait most of the time; each file that runs has a server of its own.
    maxWorkers: 2,
    globalSetup: ['test/support/server.ts'],
    setupFiles: ['test/support/quiet.ts', 'test/support/tidy.ts'],
    testTimeout: 240_000,
    hookTimeout: 120_000,
  },
});
