// The object that bridges dial in to: which one is active, and what happens to publishes when a bridge goes or restarts.
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { linkPath, linkPing, linkPong } from '../../src/protocol/bridge.ts';
import { send } from '../rig/workerd/client.ts';
import { openSocket, type TestSocket } from '../rig/workerd/socket.ts';

const secret = 'bridge-secret-of-the-worker-tests-only';
const link = () => env.BROKER_LINK.getByName('broker-main');
const open: TestSocket[] = [];

/** A bridge that has said hello; answers its role. */
async function dialIn(
  bridgeId: string,
  brokerConnected = true,
  instanceId = `${bridgeId}-run-1`,
): Promise<{ bridge: TestSocket; role: unknown; welcome: unknown }> {
  const bridge = await openSocket(linkPath, { Authorization: `Bearer ${secret}` });
  open.push(bridge);
  const welcome = await bridge.ask({ type: 'hello', bridgeId, instanceId, brokerConnected });
  return { bridge, welcome, role: (welcome as { role: unknown }).role };
}

async function publish(topic = '/sys/switch/dev_00000001/thing/service/property/set', lifeMs = 4_000) {
  return link().publish({ topic, payload: '{"id":"1"}', expiresAtMs: Date.now() + lifeMs });
}

type PublishFrame = { type: string; id: string; topic: string; expiresAtMs: number; messageExpirySeconds: number };
const nextPublish = async (bridge: TestSocket) => (await bridge.next()) as PublishFrame;

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

afterEach(async () => {
  for (const bridge of open.splice(0)) {
    bridge.close();
    await bridge.end();
  }
});

describe('dialling in', () => {
  it('welcomes the first bridge as active and says what time it is', async () => {
    const before = Date.now();
    const { welcome } = await dialIn('one');
    expect(welcome).toEqual({
      type: 'welcome',
      role: 'active',
      nowMs: expect.any(Number) as number,
      resumes: false,
    });
    expect((welcome as { nowMs: number }).nowMs).toBeGreaterThanOrEqual(before);
    expect(await link().health()).toEqual({ bridgeConnected: true, brokerConnected: true });
  });

  it('lets every further bridge stand by', async () => {
    await dialIn('one');
    expect((await dialIn('two')).role).toBe('standby');
    expect((await dialIn('three')).role).toBe('standby');
  });

  it('keeps the role of a bridge that says hello twice', async () => {
    const { bridge } = await dialIn('one');
    expect(await bridge.ask({ type: 'hello', bridgeId: 'one', brokerConnected: true })).toMatchObject({
      type: 'welcome',
      role: 'active',
    });
  });

  it.each([
    ['a wrong secret', { Authorization: 'Bearer broker-hook-secret-of-the-worker-tests' }],
    ['no secret', {}],
    ['a secret in another scheme', { Authorization: `Basic ${secret}` }],
  ])('refuses %s with 401 and no socket', async (_, headers) => {
    const response = await send('GET', linkPath, { headers: { Upgrade: 'websocket', ...headers } });
    expect(response.status).toBe(401);
    expect(response.webSocket).toBeNull();
    expect(await response.json()).toEqual({ code: 401, message: 'unauthorized', data: null });
  });

  it('refuses a plain request with 400', async () => {
    const response = await send('GET', linkPath, { headers: { Authorization: `Bearer ${secret}` } });
    expect(response.status).toBe(400);
  });

  it.each([
    ['text that is not JSON', 'hello'],
    ['a frame of an unknown type', { type: 'welcome' }],
    ['a hello with an unusable name', { type: 'hello', bridgeId: 'a b', brokerConnected: true }],
    ['bytes', new ArrayBuffer(3)],
  ])('closes on %s', async (_, frame) => {
    const bridge = await openSocket(linkPath, { Authorization: `Bearer ${secret}` });
    bridge.send(frame);
    expect(await bridge.end()).toEqual({ code: 1008, reason: 'unreadable frame' });
  });

  it('closes a socket that never sends hello', async () => {
    const bridge = await openSocket(linkPath, { Authorization: `Bearer ${secret}` });
    await runInDurableObject(link(), (_, state) => {
      const [socket] = state.getWebSockets();
      socket!.serializeAttachment({ ...(socket!.deserializeAttachment() as object), openedAtMs: Date.now() - 5_001 });
    });
    expect(await runDurableObjectAlarm(link())).toBe(true);
    expect(await bridge.end()).toEqual({ code: 1008, reason: 'no hello' });
    expect(await runDurableObjectAlarm(link()), 'nothing is left to watch').toBe(false);
  });

  it('answers pings', async () => {
    const { bridge } = await dialIn('one');
    expect(await bridge.ask(linkPing)).toBe(linkPong);
  });
});

describe('roles', () => {
  it('promotes the longest-waiting standby when the active bridge closes', async () => {
    const { bridge: active } = await dialIn('one');
    const { bridge: second } = await dialIn('two');
    const { bridge: third } = await dialIn('three');
    active.close();
    const promotion = { type: 'role', role: 'active', nowMs: expect.any(Number) as number, resumes: false };
    expect(await second.next()).toEqual(promotion);
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
    expect(await link().health()).toEqual({ bridgeConnected: false, brokerConnected: false });
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

  it('leaves an active bridge without a broker in its place where nobody stands by', async () => {
    const { bridge } = await dialIn('one', false);
    await makeBrokerless();
    await runDurableObjectAlarm(link());
    expect(await bridge.ask(linkPing)).toBe(linkPong);
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

describe('publishing', () => {
  it('hands the message to the active bridge and answers when the broker has it', async () => {
    const { bridge } = await dialIn('one');
    await dialIn('two');
    const answered = publish('/sys/switch/dev_00000001/status', 3_000);
    const frame = await nextPublish(bridge);
    expect(frame).toEqual({
      type: 'publish',
      id: expect.any(String) as string,
      topic: '/sys/switch/dev_00000001/status',
      payload: '{"id":"1"}',
      expiresAtMs: expect.any(Number) as number,
      messageExpirySeconds: 3,
    });
    bridge.send({ type: 'published', id: frame.id, hasSubscribers: false });
    expect(await answered).toEqual({
      ok: true,
      id: frame.id,
      publishedAtMs: expect.any(Number) as number,
      hasSubscribers: false,
    });
  });

  it.each(['expired', 'refused', 'invalid', 'cancelled'])('answers that it was not published: %s', async (reason) => {
    const { bridge } = await dialIn('one');
    const answered = publish();
    const { id } = await nextPublish(bridge);
    bridge.send({ type: 'not-published', id, reason });
    expect(await answered).toEqual({ ok: false, reason });
  });

  it('waits for a bridge until the message expires, and sends it to none afterwards', async () => {
    expect(await publish(undefined, 300)).toEqual({ ok: false, reason: 'no_bridge' });
    const { bridge } = await dialIn('one');
    expect(await bridge.ask(linkPing)).toBe(linkPong);
  });

  it('hands a waiting message to the bridge that comes in time', async () => {
    const answered = publish();
    const { bridge } = await dialIn('one');
    const { id } = await nextPublish(bridge);
    bridge.send({ type: 'published', id, hasSubscribers: null });
    expect(await answered).toMatchObject({ ok: true, hasSubscribers: null });
  });

  it('holds a message back until the bridge has its broker again', async () => {
    const { bridge } = await dialIn('one', false);
    expect(await link().health()).toEqual({ bridgeConnected: true, brokerConnected: false });
    const answered = publish();
    expect(await bridge.ask(linkPing)).toBe(linkPong);
    bridge.send({ type: 'broker', connected: true });
    const { id } = await nextPublish(bridge);
    bridge.send({ type: 'published', id, hasSubscribers: true });
    expect((await answered).ok).toBe(true);
  });

  it('gives a message that a bridge could not take to the one that can', async () => {
    const { bridge: first } = await dialIn('one');
    const { bridge: second } = await dialIn('two');
    const answered = publish();
    const { id } = await nextPublish(first);
    first.send({ type: 'not-published', id, reason: 'broker_disconnected' });
    expect(await first.ask(linkPing), 'not handed to the same one again').toBe(linkPong);
    first.close();
    await second.next();
    expect((await nextPublish(second)).id).toBe(id);
    second.send({ type: 'published', id, hasSubscribers: true });
    expect((await answered).ok).toBe(true);
  });

  it('answers nothing that expired before it was asked', async () => {
    const { bridge } = await dialIn('one');
    expect(await publish(undefined, -1)).toEqual({ ok: false, reason: 'expired' });
    expect(await bridge.ask(linkPing)).toBe(linkPong);
  });

  it('sends the same id again to a bridge that lost its network alone', async () => {
    const { bridge: former } = await dialIn('one');
    const answered = publish();
    const { id } = await nextPublish(former);
    const { bridge } = await dialIn('one');
    expect((await nextPublish(bridge)).id).toBe(id);
    bridge.send({ type: 'published', id, hasSubscribers: true });
    expect((await answered).ok).toBe(true);
  });

  it('answers bridge_lost for what a bridge had when it restarted', async () => {
    const { bridge: former } = await dialIn('one');
    const answered = publish();
    await nextPublish(former);
    const { bridge, role } = await dialIn('one', true, 'one-run-2');
    expect(role).toBe('active');
    expect(await answered).toEqual({ ok: false, reason: 'bridge_lost' });
    expect(await bridge.ask(linkPing), 'and it is not given it again').toBe(linkPong);
  });

  it('sends nothing twice to a bridge that was away, but takes its late answer', async () => {
    const { bridge: former } = await dialIn('one');
    const answered = publish();
    const { id } = await nextPublish(former);
    former.close();
    await former.end();
    const { bridge } = await dialIn('one');
    expect(await bridge.ask(linkPing)).toBe(linkPong);
    bridge.send({ type: 'published', id, hasSubscribers: true });
    expect((await answered).ok).toBe(true);
  });

  it('answers bridge_lost for what a lost bridge had when another one becomes active', async () => {
    const { bridge: first } = await dialIn('one');
    const { bridge: second } = await dialIn('two');
    const answered = publish();
    const { id } = await nextPublish(first);
    first.close();
    expect(await answered).toEqual({ ok: false, reason: 'bridge_lost' });
    await second.next();
    second.send({ type: 'published', id, hasSubscribers: true });
    expect(await second.ask(linkPing), 'and the successor is not given it').toBe(linkPong);
  });

  it('answers bridge_lost also when the successor dials in later', async () => {
    const { bridge: first } = await dialIn('one');
    const answered = publish();
    await nextPublish(first);
    first.close();
    await first.end();
    expect((await dialIn('two')).role).toBe('active');
    expect(await answered).toEqual({ ok: false, reason: 'bridge_lost' });
  });

  it('takes an outcome only from the bridge that was asked', async () => {
    const { bridge: first } = await dialIn('one');
    const { bridge: second } = await dialIn('two');
    const answered = publish();
    const { id } = await nextPublish(first);
    second.send({ type: 'not-published', id, reason: 'refused' });
    await second.ask(linkPing);
    first.send({ type: 'published', id, hasSubscribers: true });
    expect((await answered).ok).toBe(true);
  });

  it('keeps hundreds of messages in flight apart', async () => {
    const { bridge } = await dialIn('one');
    const answers = Array.from({ length: 300 }, (_, index) => publish(`/sys/switch/dev_00000001/${index}`));
    const frames: PublishFrame[] = [];
    while (frames.length < 300) frames.push(await nextPublish(bridge));
    for (const { id, topic } of frames.reverse()) {
      const isOdd = Number(topic.split('/').at(-1)) % 2 === 1;
      bridge.send(
        isOdd ? { type: 'published', id, hasSubscribers: true } : { type: 'not-published', id, reason: 'refused' },
      );
    }
    const outcomes = await Promise.all(answers);
    expect(outcomes.map(({ ok }) => ok)).toEqual(Array.from({ length: 300 }, (_, index) => index % 2 === 1));
  });
});
