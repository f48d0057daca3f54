// The shares of the uplink: which share a product is of, how a bridge hands one over to another, what the bridge is asked
// about a product, and what it may subscribe to. With real bridges: system/active-bridges.test.ts.
import { runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { afterEach, describe, expect, it } from 'vitest';
import { readConfig } from '../../../src/config.ts';
import {
  bridgeLinkName,
  commandLinkName,
  shareOfBridgeLink,
  shareOfProduct,
} from '../../../src/objects/calls/stubs.ts';
import { linkPing, linkPong, uplinkFiltersOf } from '../../../src/protocol/bridge.ts';
import { readShare } from '../../../src/services/broker/bridge-shares.ts';
import { refuseTopic } from '../../../src/services/broker/messaging-auth.ts';
import { send } from '../rig/clients/client.ts';
import { bridgeSecret, closeBridges, dialIn, link, nextPublish, publish } from '../rig/clients/link.ts';

afterEach(closeBridges);

const dial = (bridgeId: string, activeShares: number[]) =>
  dialIn(bridgeId, true, `${bridgeId}-run-1`, null, activeShares);

describe('a product', () => {
  it('is always of the same share, and every share has some', () => {
    const keys = Array.from({ length: 300 }, (_, n) => `switch-${n}`);
    const shares = keys.map((key) => shareOfProduct(key, 3));
    expect(new Set(shares)).toEqual(new Set([0, 1, 2]));
    expect(keys.map((key) => shareOfProduct(key, 3))).toEqual(shares);
    for (const share of [0, 1, 2]) expect(shares.filter((one) => one === share).length).toBeGreaterThan(60);
    expect(keys.every((key) => shareOfProduct(key, 1) === 0)).toBe(true);
  });

  it('has links with names of its share, and those of share 0 are the ones that there are without shares', () => {
    expect([0, 1, 12].map(bridgeLinkName)).toEqual(['broker-main', 'broker-share-1', 'broker-share-12']);
    expect([0, 1, 12].map((share) => shareOfBridgeLink(bridgeLinkName(share)))).toEqual([0, 1, 12]);
    expect([commandLinkName(2), commandLinkName(2, 0), commandLinkName(2, 1)]).toEqual([
      'broker-commands-2',
      'broker-commands-2',
      'broker-commands-1-2',
    ]);
    expect(shareOfBridgeLink(commandLinkName(2, 1))).toBeUndefined();
  });

  it.each(['1', '-1', 'x', '', '1e1', '99'])('of share %j, which there is not, is refused with 400', async (share) => {
    for (const path of ['/bridge/products', '/bridge/link']) {
      const headers = { Upgrade: 'websocket', Authorization: `Bearer ${bridgeSecret}` };
      const response = await send('GET', `${path}?share=${encodeURIComponent(share)}`, { headers });
      expect(response.status).toBe(400);
    }
    expect(() => readShare({ ...readConfig(env), bridgeShares: 1 }, share)).toThrow();
  });
});

describe('the bridge of a share', () => {
  it('is asked once about a product, and the answer is remembered', async () => {
    const { bridge } = await dial('one', []);
    const asked = link().serveProduct('switch-9');
    const question = (await bridge.next()) as { type: string; id: string; productKey: string };
    expect(question).toMatchObject({ type: 'product', productKey: 'switch-9' });
    bridge.send({ type: 'product-served', id: question.id, isServed: true });
    expect(await asked).toBe(true);
    bridge.close();
    await bridge.end();
    expect(await link().serveProduct('switch-9')).toBe(true);
  });

  it.each([
    ['there is none', undefined],
    ['it has no broker', false],
  ])('serves no new product where %s', async (_, hasBroker) => {
    if (hasBroker !== undefined) await dialIn('one', hasBroker);
    expect(await link().serveProduct('switch-8')).toBe(false);
  });

  it('is asked again where it could not subscribe', async () => {
    const { bridge } = await dial('one', []);
    for (const isServed of [false, true]) {
      const asked = link().serveProduct('switch-7');
      const { id } = (await bridge.next()) as { id: string };
      bridge.send({ type: 'product-served', id, isServed });
      expect(await asked).toBe(isServed);
    }
  });

  it('may subscribe to the topics of single products where there are several shares, and only then', () => {
    for (const topic of uplinkFiltersOf('switch-1')) {
      expect(refuseTopic('latchwork-bridge', { action: 'subscribe', topic }, 2)).toBeUndefined();
      expect(refuseTopic('latchwork-bridge', { action: 'subscribe', topic }, 1)).toMatchObject({
        kind: 'topic_forbidden',
      });
    }
    for (const topic of ['#', '/sys/#', '/sys/switch-1/+/thing/service/property/set', '/sys/+/#']) {
      expect(refuseTopic('latchwork-bridge', { action: 'subscribe', topic }, 2)).toBeDefined();
    }
  });
});

describe('a number of shares that has changed', () => {
  const store = (shares: number) =>
    runInDurableObject(link(), (_, state) => state.storage.kv.put('shares', { shares, changedAtMs: 0 }));

  it('is told to every bridge with the former one, until the active one has made the change', async () => {
    await store(3);
    const { bridge: active, welcome } = await dial('one', []);
    expect(welcome).toMatchObject({ role: 'active', formerShares: 3 });
    const { bridge: standby, welcome: second } = await dial('two', []);
    expect(second).toMatchObject({ role: 'standby', formerShares: 3 });
    // Not by a standby, nor of another number.
    standby.send({ type: 'changed', shares: 1 });
    active.send({ type: 'changed', shares: 2 });
    expect(await active.ask({ type: 'hello', bridgeId: 'one', brokerConnected: true })).toHaveProperty('formerShares');
    active.send({ type: 'changed', shares: 1 });
    for (const [bridge, role] of [
      [active, 'active'],
      [standby, 'standby'],
    ] as const) {
      const told = await bridge.next();
      expect(told).toMatchObject({ type: 'role', role, changedMsAgo: expect.any(Number) as number });
      expect(told).not.toHaveProperty('formerShares');
    }
    expect((await dial('three', [])).welcome).not.toHaveProperty('formerShares');
  });
});

describe('a share', () => {
  /** Makes all bridges look as if they had had their roles for a while. */
  async function letTimePass() {
    await runInDurableObject(link(), (_, state) => {
      for (const socket of state.getWebSockets()) {
        const attachment = socket.deserializeAttachment() as object;
        socket.serializeAttachment({ ...attachment, changedAtMs: Date.now() - 10_000 });
      }
    });
  }

  /** Share 0 is the last one of those that the bridge says it has. */
  async function dialHeavyAndLight() {
    const { bridge: heavy, role } = await dial('heavy', []);
    expect(role).toBe('active');
    const { bridge: light } = await dial('light', []);
    await letTimePass();
    heavy.send({ type: 'shares', active: [0, 0] });
    expect(await heavy.next()).toMatchObject({ type: 'role', role: 'standby' });
    return { heavy, light };
  }

  it('goes to a bridge with two shares less, when the one before has left; publishes wait meanwhile', async () => {
    const { heavy, light } = await dialHeavyAndLight();
    const published = publish();
    expect((await dial('third', [])).role).toBe('standby');
    heavy.send({ type: 'released' });
    expect(await light.next()).toMatchObject({ type: 'role', role: 'active' });
    const { id } = await nextPublish(light);
    light.send({ type: 'published', id, hasSubscribers: true });
    expect(await published).toMatchObject({ ok: true });
  });

  it.each(['does not say that it has left', 'goes'])('goes on, too, where the one before %s', async (what) => {
    const { heavy, light } = await dialHeavyAndLight();
    if (what === 'goes') {
      heavy.close();
      await heavy.end();
    } else {
      await runInDurableObject(link(), (_, state) => {
        for (const socket of state.getWebSockets()) {
          const attachment = socket.deserializeAttachment() as { leavingUntilMs: number | null };
          if (attachment.leavingUntilMs !== null) socket.serializeAttachment({ ...attachment, leavingUntilMs: 1 });
        }
      });
      await runDurableObjectAlarm(link());
    }
    expect(await light.next()).toMatchObject({ type: 'role', role: 'active' });
  });

  it('stays where no bridge has two shares less', async () => {
    const { bridge: one } = await dial('one', []);
    await dial('two', [0]);
    await letTimePass();
    one.send({ type: 'shares', active: [0, 0] });
    expect(await one.ask(linkPing)).toBe(linkPong);
  });
});
