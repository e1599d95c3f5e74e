import { defineConfig } from '@playwright/test';

// Debian's Chromium, not one that is downloaded; both versions are pinned together.
export default defineConfig({
  testDir: process.env.BUDGETS ? 'test/budgets' : 'test/e2e',
  // Each file has a cluster of its own, and its pages wait more than they work; measured runs, long runs and runs that
  // take pictures have no other next to them.
  workers: process.env.BUDGETS || process.env.LONG === '1' || process.env.PICTURES || process.env.PICTURES_DOCS ? 1 : 2,
  timeout: 90_000,
  expect: { timeout: 20_000 },
  reporter: 'list',
  use: {
    actionTimeout: 20_000,
    timezoneId: 'UTC',
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      args: process.getuid?.() === 0 ? ['--no-sandbox'] : [], // Chromium has no sandbox for root
    },
  },
});
