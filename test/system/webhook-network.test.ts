// Host names that resolve to addresses inside, against the network rule of the local workerd. The resolver is a hosts file of the
// test's own. Not tried: Cloudflare's own rule, and a resolver that changes its answer: workerd connects to what it has checked.
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { ApiError, dataOf } from '../../rig/clients/api.ts';
import { makeTempDir } from '../../rig/temp-dirs.ts';
import { withHosts } from '../../rig/worker/built-worker.ts';
import { WorkerRig } from '../../rig/worker/worker-rig.ts';

/** Loopback as well, and nobody else listens there. */
const loopback = '127.71.82.93';
const names = { 'v4.maker.example': loopback, 'mapped.maker.example': `::ffff:${loopback}` };
const hostsFile = join(makeTempDir('hosts'), 'hosts');
writeFileSync(
  hostsFile,
  [['127.0.0.1', 'localhost'], ...Object.entries(names).map(([name, to]) => [to, name])]
    .map((line) => line.join(' '))
    .join('\n'),
);

const [command = '', ...args] = withHosts(hostsFile);
const hasNamespaces = spawnSync(command, [...args, 'true']).status === 0;

describe.skipIf(!hasNamespaces)('a webhook at a name that resolves to this machine', () => {
  test.each([
    ['false', 0],
    ['true', 1],
  ])('with WEBHOOKS_MAY_BE_LOCAL = %s meets a listener %i times', async (mayBeLocal, expected) => {
    let connections = 0;
    const listener = createServer((socket) => {
      connections += 1;
      socket.destroy();
    }).listen(8443, loopback);
    await once(listener, 'listening');
    const rig = await WorkerRig.start({ hostsFile, vars: { WEBHOOKS_MAY_BE_LOCAL: mayBeLocal } });
    try {
      for (const name of Object.keys(names)) {
        connections = 0;
        const url = `https://${name}:8443/hook`;
        const refusal: unknown = await dataOf(
          rig.owner.api.webhooks.$post({ json: { url, types: ['device.online'] } }),
        ).catch((error: unknown) => error);
        expect(refusal).toBeInstanceOf(ApiError);
        expect((refusal as ApiError).message).toContain('came: unreachable');
        expect([name, connections]).toEqual([name, expected]);
      }
    } finally {
      await rig.stop();
      listener.close();
    }
  });
});
