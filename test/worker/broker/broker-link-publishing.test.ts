// Publishing through the object that bridges dial in to: which bridge is handed a message, and what happens to messages
// when a bridge goes or restarts.
import { afterEach, expect, it } from 'vitest';
import { linkPing, linkPong } from '../../../src/protocol/bridge.ts';
import type { PublishFrame } from '../../../src/protocol/bridge.ts';
import { closeBridges, dialIn, link, nextPublish, publish } from '../rig/clients/link.ts';

afterEach(closeBridges);

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
  expect(await link().health()).toEqual({ bridgeConnected: true, brokerConnected: false, stall: null });
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
