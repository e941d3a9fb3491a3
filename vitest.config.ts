import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    // Journeys wait for processes most of the time: two at once fit two cores.
    maxWorkers: 2,
    include: ['src/**/*.test.ts', 'test/**/*.test.ts', 'scripts/**/*.test.ts'],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    // What comes, comes; how soon is for benchmarks to say.
    expect: { poll: { timeout: 20_000 } },
  },
});
