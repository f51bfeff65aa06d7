import { join } from 'node:path';
import { defineConfig } from 'vitest/config';

/** The suite on the topology: one server, so one file at a time. */
export default defineConfig({
  root: join(import.meta.dirname, '..', '..'),
  test: {
    include: ['test/**/*.test.ts', 'deploy/topology/*.test.ts'],
    pool: 'forks',
    maxWorkers: 1,
    globalSetup: ['deploy/topology/setup.ts'],
    setupFiles: ['test/support/quiet.ts'],
    testTimeout: 240_000,
    hookTimeout: 120_000,
  },
});
