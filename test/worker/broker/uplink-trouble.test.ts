// Batches of many devices, one of which hangs or fails: it is asked for again by itself, and the others are answered in time.
import { env } from 'cloudflare:workers';
import { expect, describe, it, vi } from 'vitest';
import { inPerson } from '../../../src/domain/access.ts';
import { readConfig } from '../../../src/config.ts';
import type { PropertiesView } from '../../../src/domain/device/core/views.ts';
import { unwrap, type Outcome } from '../../../src/domain/refusal.ts';
import { topicOf, type DeviceIdentity } from '../../../src/domain/topics.ts';
import { maxBatchDevices, maxBatchItems, messageFailed } from '../../../src/protocol/bridge.ts';
import { createContext } from '../../../src/context.ts';
import { takeBatch } from '../../../src/services/broker/uplink.ts';
import { eventsOf, provisionDevice, sessionOf, requestSubscription } from '../rig/provision.ts';

type Session = ReturnType<typeof sessionOf>;
type Ingest = (...call: Parameters<Session['ingest']>) => Promise<unknown>;
type Overrides = { DEVICE_SESSION?: (name: string) => object; RELAY_GATEWAY?: (name: string) => object };

/** The test's own environment with other objects behind the same names. */
function override(stubs: Overrides) {
  const overridden = new Proxy(env, {
    get: (target, name) => {
      const stubOf = stubs[name as keyof Overrides];
      return stubOf === undefined ? (Reflect.get(target, name) as unknown) : { getByName: stubOf };
    },
  });
  return createContext(overridden, readConfig(env));
}

/** An environment in which `ingest` of one device is replaced. */
function overrideIngest(
  { deviceId }: DeviceIdentity,
  ingest: Ingest,
  checkStorage = () => sessionOf(deviceId).checkStorage(),
) {
  const stubOf = (name: string) => (name === deviceId ? { ingest, checkStorage } : sessionOf(name));
  return override({ DEVICE_SESSION: stubOf });
}

let lastSeq = 0;
const itemOf = (device: DeviceIdentity, position: string) => ({
  seq: ++lastSeq,
  topic: topicOf(device, 'thing/event/property/post'),
  payload: JSON.stringify({ params: { position } }),
  receivedAtMs: Date.now(),
});

const take = (context: ReturnType<typeof createContext>, items: unknown[], answerWithinMs = 10_000) =>
  takeBatch(context, { spoolId: 'spool-trouble', sentAtMs: Date.now(), items }, answerWithinMs);

async function positionsOf({ deviceId }: DeviceIdentity): Promise<string[]> {
  const outcome = (await sessionOf(deviceId).properties(inPerson(1))) as Outcome<PropertiesView>;
  return unwrap(outcome).positionChanges.map(({ position }) => position);
}

const plain = () => override({});

it('a device whose object hangs is asked for again alone, and what it did after all is done once', async () => {
  const [prompt, hanging] = [await provisionDevice(), await provisionDevice()];
  const { promise: released, resolve: release } = Promise.withResolvers<undefined>();
  const context = overrideIngest(hanging, async (...call) => {
    await released;
    return sessionOf(hanging.deviceId).ingest(...call);
  });
  const items = [itemOf(hanging, 'up'), itemOf(prompt, 'down'), itemOf(hanging, 'down')];
  expect(await take(context, items, 1_000)).toEqual([
    { seq: items[0]!.seq, result: 'retry', reason: 'device_timeout' },
    { seq: items[1]!.seq, result: 'accepted' },
    { seq: items[2]!.seq, result: 'retry', reason: 'device_timeout' },
  ]);
  expect(await positionsOf(prompt)).toEqual(['down']);
  release(undefined);
  await vi.waitFor(async () => expect(await positionsOf(hanging)).toEqual(['down', 'up']));
  const again = await take(plain(), [items[0], items[2], itemOf(hanging, 'middle')]);
  expect(again.map(({ result }) => result)).toEqual(['accepted', 'accepted', 'accepted']);
  expect(await positionsOf(hanging), 'each has its effect once').toEqual(['middle', 'down', 'up']);
});

it('a relay shard that hangs holds up no answer', async () => {
  const device = await provisionDevice();
  await requestSubscription(device, 'relay-0', topicOf(device, 'thing/event/property/post'));
  const push = vi.fn(() => new Promise(() => undefined));
  const items = [itemOf(device, 'up')];
  expect(await take(override({ RELAY_GATEWAY: () => ({ push }) }), items, 100)).toMatchObject([{ result: 'accepted' }]);
  expect(push).toHaveBeenCalledOnce();
  expect(await positionsOf(device)).toEqual(['up']);
});

describe('an object that fails', () => {
  it('with one message is told from one that fails altogether', async () => {
    const device = await provisionDevice();
    const failing = vi.fn<Ingest>(async (...call) => {
      if (call[2].some(({ payload }) => payload.includes('middle'))) throw new Error('the object failed');
      return sessionOf(device.deviceId).ingest(...call);
    });
    const context = overrideIngest(device, failing);
    const items = [itemOf(device, 'up'), itemOf(device, 'middle'), itemOf(device, 'down')];
    const [up, middle, down] = items.map(({ seq }) => seq);
    expect(await take(context, items)).toEqual([
      { seq: up, result: 'accepted' },
      { seq: middle, result: 'retry', reason: 'device_failed' },
      { seq: down, result: 'retry', reason: 'device_failed' },
    ]);
    expect(await take(context, items.slice(1))).toEqual([
      { seq: middle, result: 'retry', reason: messageFailed },
      { seq: down, result: 'retry', reason: 'device_failed' },
    ]);
    expect(await take(context, items.slice(2))).toEqual([{ seq: down, result: 'accepted' }]);
  });

  it.each([
    ['device_unreachable', { retryable: true }],
    ['device_overloaded', { overloaded: true, retryable: true }],
    ['device_failed', {}],
  ])('and cannot save either fails altogether, for the reason of the failure: %s', async (reason, marks) => {
    const [reachable, device] = [await provisionDevice(), await provisionDevice()];
    const fail = () => Promise.reject(Object.assign(new Error('the object failed'), marks));
    const items = [itemOf(reachable, 'up'), itemOf(device, 'up'), itemOf(reachable, 'down')];
    const accepted = items.map(({ seq }) => ({ seq, result: 'accepted' }));
    const retried = { seq: items[1]!.seq, result: 'retry', reason };
    expect(await take(overrideIngest(device, fail, fail), items)).toEqual([accepted[0], retried, accepted[2]]);
    expect(await take(plain(), [items[1]])).toEqual([accepted[1]]);
    expect(await positionsOf(device)).toEqual(['up']);
  });
});

describe('a batch of many devices', () => {
  it('calls each device once, all of them at the same time', async () => {
    const devices = await Promise.all(Array.from({ length: 20 }, () => provisionDevice()));
    const items = Array.from({ length: maxBatchItems }, (_, index) =>
      itemOf(devices[index % devices.length]!, index < 80 ? 'up' : 'down'),
    );
    const calls: string[] = [];
    let open = 0;
    let mostOpen = 0;
    const ingest = async (deviceId: string, ...call: Parameters<Ingest>) => {
      calls.push(deviceId);
      mostOpen = Math.max(mostOpen, ++open);
      const answer = await sessionOf(deviceId).ingest(...call);
      open -= 1;
      return answer;
    };
    const counting = override({ DEVICE_SESSION: (name) => ({ ingest: ingest.bind(undefined, name) }) });
    expect((await take(counting, items)).map(({ result }) => result)).toEqual(items.map(() => 'accepted'));
    expect(calls.toSorted()).toEqual(devices.map(({ deviceId }) => deviceId).toSorted());
    expect(mostOpen).toBe(20);
    for (const device of devices) expect((await positionsOf(device))[0]).toBe('down');
  });

  it('asks for a retry of those that are too many for one request', async () => {
    const items = Array.from({ length: maxBatchDevices + 1 }, (_, index) =>
      itemOf({ productKey: 'switch', deviceId: `dev_${String(index).padStart(8, '0')}` }, 'up'),
    );
    // So many new objects at once may take long on a busy machine.
    const results = await take(plain(), items, 20_000);
    const reasons = results.slice(0, -1).map((result) => 'reason' in result && result.reason);
    expect(new Set(reasons)).toEqual(new Set(['device_not_found']));
    expect(results.at(-1)).toMatchObject({ result: 'retry', reason: 'too_many_devices' });
  });
});

it('messages that a bridge dropped are in the events of their device, and unknown devices stay unknown', async () => {
  const [one, other] = [await provisionDevice(), await provisionDevice()];
  const items = [itemOf(other, 'up')];
  const dropped = [
    { topic: topicOf(one, 'status'), count: 70 },
    { topic: topicOf(other, 'status'), count: 2 },
    { topic: topicOf({ ...one, deviceId: 'dev_00000000' }, 'status'), count: 1 },
    { topic: 'nonsense', count: 1 },
  ];
  await takeBatch(plain(), { spoolId: 'spool-trouble', sentAtMs: Date.now(), items, dropped });
  for (const [device, count] of [[one, 70] as const, [other, 2] as const]) {
    expect(await eventsOf(device)).toContainEqual(expect.objectContaining({ status: 'flooded', count }));
  }
});

it.each(['thing/event/property/post', 'thing/service/property/set_reply', 'status'] as const)(
  'a message of thousands of levels on %s is rejected, and the next one is taken',
  async (action) => {
    const device = await provisionDevice();
    const method = '"method":"thing.service.property.set_reply"';
    const payloads = [
      `{"params":{"a":${'['.repeat(7000)}${']'.repeat(7000)}}}`,
      `${'{"a":'.repeat(2500)}1${'}'.repeat(2500)}`,
      `{${method},"id":${'['.repeat(7000)}${']'.repeat(7000)}}`,
    ];
    const items = payloads.map((payload) => ({ ...itemOf(device, 'up'), topic: topicOf(device, action), payload }));
    const results = await take(plain(), [...items, itemOf(device, 'down')]);
    expect(results.slice(0, 3)).toMatchObject(items.map(() => ({ result: 'rejected', reason: 'too_complex' })));
    expect(results[3]).toMatchObject({ result: 'accepted' });
  },
);
