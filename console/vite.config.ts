import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';

// The page is served under /ui by the node that it came from.
export default defineConfig({
  base: '/ui/',
  plugins: [svelte()],
  build: {
    target: 'es2022',
    modulePreload: { polyfill: false },
    // A file of its own for everything: data: addresses of scripts and styles are refused by the page's policy.
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
  // `npm run dev` next to a node of `rota dev`.
  server: { proxy: { '/v1': 'http://127.0.0.1:6470' } },
  test: { include: ['test/unit/**/*.test.ts'] },
});
