// The Worker bundles fewer members of zod than TypeScript knows: what the sources use must be among them.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));

it('is complete for everything that the sources use', async () => {
  const { z: bundled } = (await import(join(root, 'bundling/zod.js'))) as { z: Record<string, unknown> };
  const used = new Set<string>();
  for (const file of readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts')) continue;
    for (const [, member] of readFileSync(join(root, 'src', file), 'utf8').matchAll(/\bz\.(\w+)[.(]/g)) {
      if (member !== undefined) used.add(member);
    }
  }
  expect(used.size).toBeGreaterThan(10);
  expect([...used].filter((member) => !(member in bundled))).toEqual([]);
});
