// What bridges report to the object that they dial in to, beside roles and publishes.
import { env } from 'cloudflare:workers';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { linkPath } from '../../../src/protocol/bridge.ts';
import { openSocket, type TestSocket } from '../rig/clients/socket.ts';
import { helloOf } from '../rig/clients/link.ts';

const secret = 'bridge-secret-of-the-worker-tests-only';
const link = () => env.BROKER_LINK.getByName('broker-main');
const open: TestSocket[] = [];

async function dialIn(bridgeId: string): Promise<TestSocket> {
  const bridge = await openSocket(linkPath, { Authorization: `Bearer ${secret}` });
  open.push(bridge);
  await bridge.ask(helloOf(bridgeId));
  return bridge;
}

afterEach(async () => {
  for (const bridge of open.splice(0)) {
    bridge.close();
    await bridge.end();
  }
});

describe('an uplink that stands still', () => {
  it('is part of health with its reason and age until it moves, also where a standby reports it', async () => {
    await dialIn('one');
    const standby = await dialIn('two');
    const stall = { reason: 'worker_unavailable', sinceMs: Date.now() - 90_000 };
    standby.send({ type: 'uplink', stall });
    await vi.waitFor(async () => {
      const health = await link().health();
      expect(health.stall?.reason).toBe('worker_unavailable');
      expect(health.stall?.seconds).toBeGreaterThanOrEqual(90);
    });
    standby.send({ type: 'uplink', stall: null });
    await vi.waitFor(async () => expect((await link().health()).stall).toBeNull());
  });
});
