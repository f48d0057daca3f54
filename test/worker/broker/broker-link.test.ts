// The object that bridges dial in to: how they dial in, which one is active, and what they report beside that.
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { linkCloseReasons, linkPath, linkPing, linkPong } from '../../../src/protocol/bridge.ts';
import { send } from '../rig/clients/client.ts';
import {
  helloOf,
  bridgeSecret,
  closeBridges,
  dialIn,
  link,
  nextPublish,
  openLink,
  publish,
} from '../rig/clients/link.ts';
import { openSocket, type TestSocket } from '../rig/clients/socket.ts';

/** Makes a bridge look inactive. */
async function makeInactive(bridgeId: string) {
  await runInDurableObject(link(), (_, state) => {
    for (const socket of state.getWebSockets()) {
      const attachment = socket.deserializeAttachment() as { bridgeId: string; openedAtMs: number };
      if (attachment.bridgeId !== bridgeId) continue;
      socket.serializeAttachment({ ...attachment, openedAtMs: Date.now() - 60_000 });
    }
  });
}

async function loseBroker(bridge: TestSocket) {
  bridge.send({ type: 'broker', connected: false });
  await vi.waitFor(async () => expect(await link().health()).toMatchObject({ brokerConnected: false }));
}

/** Makes the active bridge look as if it had lacked its broker for a long time. */
async function makeBrokerless() {
  await runInDurableObject(link(), (_, state) => {
    for (const socket of state.getWebSockets()) {
      const attachment = socket.deserializeAttachment() as { role: string | null };
      if (attachment.role === 'active') socket.serializeAttachment({ ...attachment, changedAtMs: Date.now() - 20_000 });
    }
  });
}

afterEach(closeBridges);

describe('dialling in', () => {
  it('welcomes the first bridge as active and says what time it is', async () => {
    const before = Date.now();
    const { welcome } = await dialIn('one');
    expect(welcome).toEqual({ type: 'role', role: 'active', nowMs: expect.any(Number) as number, resumes: false });
    expect((welcome as { nowMs: number }).nowMs).toBeGreaterThanOrEqual(before);
    expect(await link().health()).toEqual({ bridgeConnected: true, brokerConnected: true, stall: null });
  });

  it('keeps the role of a bridge that says hello twice', async () => {
    const { bridge } = await dialIn('one');
    expect(await bridge.ask(helloOf('one'))).toMatchObject({ type: 'role', role: 'active' });
  });

  it('refuses a plain request with 400', async () => {
    const response = await send('GET', linkPath, { headers: { Authorization: `Bearer ${bridgeSecret}` } });
    expect(response.status).toBe(400);
  });

  it.each([
    ['text that is not JSON', 'hello'],
    ['a frame of an unknown type', { type: 'role' }],
    ['a hello with an unusable name', helloOf('a b')],
    ['bytes', new ArrayBuffer(3)],
  ])('closes on %s', async (_, frame) => {
    const bridge = await openSocket(linkPath, { Authorization: `Bearer ${bridgeSecret}` });
    bridge.send(frame);
    expect(await bridge.end()).toEqual({ code: 1008, reason: 'unreadable frame' });
  });

  it('closes a socket that never sends hello', async () => {
    const bridge = await openSocket(linkPath, { Authorization: `Bearer ${bridgeSecret}` });
    await runInDurableObject(link(), (_, state) => {
      const [socket] = state.getWebSockets();
      socket!.serializeAttachment({ ...(socket!.deserializeAttachment() as object), openedAtMs: Date.now() - 5_001 });
    });
    expect(await runDurableObjectAlarm(link())).toBe(true);
    expect(await bridge.end()).toEqual({ code: 1008, reason: 'no hello' });
    expect(await runDurableObjectAlarm(link()), 'nothing is left to watch').toBe(false);
  });
});

describe('roles', () => {
  it('promotes the longest-waiting standby when the active bridge closes', async () => {
    const { bridge: active } = await dialIn('one');
    const { bridge: second } = await dialIn('two');
    const { bridge: third } = await dialIn('three');
    active.close();
    expect(await second.next()).toMatchObject({ type: 'role', role: 'active', resumes: false });
    expect(await third.ask(linkPing), 'the other one still stands by').toBe(linkPong);
  });

  it('lets a former active bridge stand by when it returns', async () => {
    const { bridge: active } = await dialIn('one');
    const { bridge: second } = await dialIn('two');
    active.close();
    await second.next();
    expect((await dialIn('one')).role).toBe('standby');
  });

  it('promotes a standby within ten seconds of the last ping of an inactive bridge', async () => {
    const { bridge: active } = await dialIn('one');
    const { bridge: second } = await dialIn('two');
    await runInDurableObject(link(), async (_, state) => {
      const [socket] = state.getWebSockets();
      const { openedAtMs } = socket!.deserializeAttachment() as { openedAtMs: number };
      const alarmAtMs = await state.storage.getAlarm();
      expect(alarmAtMs! - openedAtMs).toBeLessThanOrEqual(10_000);
    });
    await makeInactive('one');
    expect(await runDurableObjectAlarm(link())).toBe(true);
    expect(await second.next()).toMatchObject({ type: 'role', role: 'active' });
    expect(await active.end()).toEqual({ code: 1008, reason: 'silent' });
  });

  it('does not count a bridge that pings as inactive', async () => {
    const { bridge: active } = await dialIn('one');
    const { bridge: second } = await dialIn('two');
    await active.ask(linkPing);
    await makeInactive('one');
    await makeInactive('two');
    await second.ask(linkPing);
    await runDurableObjectAlarm(link());
    const answered = publish();
    const { id } = await nextPublish(active);
    active.send({ type: 'published', id, hasSubscribers: null });
    expect((await answered).ok).toBe(true);
  });

  it('does not promote an inactive standby', async () => {
    const { bridge: active } = await dialIn('one');
    await dialIn('two');
    const { bridge: third } = await dialIn('three');
    await makeInactive('two');
    active.close();
    expect(await third.next()).toMatchObject({ type: 'role', role: 'active' });
  });

  it('gives a bridge that dials in again its role and closes its former socket', async () => {
    const { bridge: former } = await dialIn('one');
    await dialIn('two');
    const { role } = await dialIn('one');
    expect(role).toBe('active');
    expect((await former.end()).code).toBe(1008);
  });

  it('makes a newcomer active at once where the active bridge is inactive', async () => {
    await dialIn('one');
    await makeInactive('one');
    expect(await link().health()).toEqual({ bridgeConnected: false, brokerConnected: false, stall: null });
    expect((await dialIn('two')).role).toBe('active');
  });

  it('sends an active bridge whether another one was active in between', async () => {
    const { bridge: first, welcome } = await dialIn('one');
    expect(welcome).toMatchObject({ role: 'active', resumes: false });
    first.close();
    await first.end();
    await evictDurableObject(link());
    const { bridge: back, welcome: welcomeBack } = await dialIn('one');
    expect(welcomeBack, 'nobody else was there').toMatchObject({ role: 'active', resumes: true });
    const { bridge: second } = await dialIn('two');
    back.close();
    expect(await second.next()).toMatchObject({ role: 'active', resumes: false });
    second.close();
    await second.end();
    expect((await dialIn('one')).welcome, 'another one was').toMatchObject({ role: 'active', resumes: false });
    expect((await dialIn('one', true, 'one-run-2')).welcome, 'restarted').toMatchObject({ resumes: false });
  });

  it('makes an active bridge that has no broker make way for a standby, each in turn', async () => {
    const { bridge: first } = await dialIn('one');
    const { bridge: second } = await dialIn('two');
    const { bridge: third } = await dialIn('three');
    await loseBroker(first);
    await runDurableObjectAlarm(link());
    expect(await second.ask(linkPing), 'it may be back in a moment').toBe(linkPong);
    for (const [former, next] of [
      [first, second],
      [second, third],
      [third, first],
    ] as const) {
      await makeBrokerless();
      expect(await runDurableObjectAlarm(link())).toBe(true);
      expect(await former.next()).toMatchObject({ type: 'role', role: 'standby' });
      expect(await next.next()).toMatchObject({ type: 'role', role: 'active', resumes: false });
      await loseBroker(next);
    }
  });

  it('remembers roles through an eviction', async () => {
    const { bridge: active } = await dialIn('one');
    const { bridge: second } = await dialIn('two');
    await evictDurableObject(link());
    const answered = publish();
    const { id } = await nextPublish(active);
    active.send({ type: 'published', id, hasSubscribers: true });
    expect((await answered).ok).toBe(true);
    await evictDurableObject(link());
    active.close();
    expect(await second.next()).toMatchObject({ type: 'role', role: 'active' });
  });
});

describe('a bridge that does not fit those that are connected', () => {
  const hello = { ...helloOf('one'), spoolId: 'one-a' };

  async function greet(frame: object): Promise<{ bridge: TestSocket; answer: unknown }> {
    const bridge = await openLink();
    bridge.send({ ...hello, ...frame });
    return { bridge, answer: await Promise.race([bridge.next(), bridge.end()]) };
  }

  it('is refused where its id belongs to another spool, and leaves that one active', async () => {
    const first = await greet({ bridgeId: 'one', instanceId: 'one-run-1' });
    expect(first.answer).toMatchObject({ role: 'active' });
    const second = await greet({ bridgeId: 'one', instanceId: 'one-run-2', spoolId: 'one-b' });
    expect(second.answer).toMatchObject({ code: 1008, reason: linkCloseReasons.id_in_use });
    expect(await link().health()).toEqual({ bridgeConnected: true, brokerConnected: true, stall: null });
    await makeInactive('one');
    const third = await greet({ bridgeId: 'one', instanceId: 'one-run-3', spoolId: 'one-c' });
    expect(third.answer, 'the first one is gone').toMatchObject({ role: 'active' });
  });

  it('is refused where it would have another session at the broker', async () => {
    await greet({ bridgeId: 'one' });
    const other = await greet({ bridgeId: 'two', spoolId: 'two-a', sessionDigest: 'another' });
    expect(other.answer).toMatchObject({ code: 1008, reason: linkCloseReasons.other_session });
    const fitting = await greet({ bridgeId: 'two', spoolId: 'two-a' });
    expect(fitting.answer).toMatchObject({ role: 'standby' });
  });

  it('replaces the process before it, which is told why', async () => {
    const first = await greet({ bridgeId: 'one', instanceId: 'one-run-1' });
    const second = await greet({ bridgeId: 'one', instanceId: 'one-run-2' });
    expect(second.answer).toMatchObject({ role: 'active' });
    expect(await first.bridge.end()).toMatchObject({ code: 1008, reason: linkCloseReasons.replaced });
  });
});

it('an uplink that stands still is part of health with its reason and age until it moves, also where a standby reports it', async () => {
  await dialIn('one');
  const { bridge: standby } = await dialIn('two');
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
