import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // The SDK's native bridge does not live in worker threads; one server serves the whole suite.
    pool: 'forks',
    fileParallelism: false,
    globalSetup: ['test/support/server.ts'],
    setupFiles: ['test/support/quiet.ts'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
