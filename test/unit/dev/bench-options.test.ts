// The options of `npm run bench`: a wrong one is refused with the right ones, before anything is started.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const runPath = fileURLToPath(new URL('../../../bench/run.ts', import.meta.url));

describe('npm run bench', () => {
  it.each([
    [['--variant', '10 device'], /there are '10 devices', .*'1 000 devices, moving'/],
    [['--variant', '10 devices', '--only', 'B3'], /--variant is of B1, B2, B2e, B5, B6: it does not go with --only B3/],
    [['--variant', '10 devices, 30 ms away', '--only', 'B2e'], /there are '10 devices', '200 devices'/],
    [['--variant', 'device', '--only', 'B1'], /there are 'device by id', 'list of 20 with its total', 'status view'/],
    [['--only', 'B9'], /there are B1, B2, B2e, B3, B3e, B4, B5, B6, B7/],
    [['--scale', '10'], /a whole number from 2000/],
    [['--rounds', '0'], /a whole number from 1/],
  ])('refuses %j', (options, reason) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [runPath, ...options], {
      encoding: 'utf8',
      timeout: 18_000,
    });
    expect(stderr).toMatch(reason);
    expect(status).toBe(2);
    expect(stdout).toBe('');
  });
});
