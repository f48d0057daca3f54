// Events of a device in its real object: the ring, webhooks that come and go by the directory, answers of endpoints, evictions, and
// reading on from a number. Rules of the core: test/unit/device/outgoing.test.ts; what an endpoint does: webhooks.test.ts.
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { DeviceSession } from '../../../src/objects/device/device-session.ts';
import { FleetDirectory } from '../../../src/objects/fleet-directory.ts';
import { WebhookEndpoint } from '../../../src/objects/webhooks/webhook-endpoint.ts';
import type { EventGap, OutgoingEvent, TakeAnswer } from '../../../src/domain/webhooks/webhooks.ts';
import type { EventType } from '../../../src/protocol/vocabulary.ts';
import { call } from '../rig/clients/client.ts';
import { comeOnline, report, tokenOf } from '../rig/clients/relay.ts';
import { directoryOf, failure, leases, newUserId, reportOf, userWithDevice } from '../rig/fleet.ts';
import { provisionDevice, sessionOf, type TestDevice } from '../rig/provision.ts';

type Call = { deviceId: string; numbers: number[]; types: EventType[]; gap: EventGap | null };
type Read = { list: OutgoingEvent[]; gap: EventGap | null; next: number; last: number };

let calls: Call[];
let answer: (events: readonly OutgoingEvent[], gap: EventGap | null) => TakeAnswer | Promise<TakeAnswer>;

const takeAll: typeof answer = (events, gap) => ({ upTo: events.at(-1)?.number ?? gap?.to ?? 0 });

beforeEach(() => {
  calls = [];
  answer = takeAll;
  vi.spyOn(WebhookEndpoint.prototype, 'take').mockImplementation((deviceId, events, gap) => {
    calls.push({ deviceId, numbers: events.map(({ number }) => number), types: events.map(({ type }) => type), gap });
    return Promise.resolve(answer(events, gap));
  });
});
afterEach(() => {
  vi.restoreAllMocks();
});

const put = (userId: number, types: EventType[] = ['device.reported'], webhookId = 'w') =>
  directoryOf(userId).putWebhook(
    userId,
    { webhookId, types, productKey: null, deviceIds: null, disabledBecause: null, url: '', createdAtMs: 0 },
    20,
  );
const move = async (device: TestDevice, ...positions: string[]) => {
  for (const position of positions) await report(reportOf(device, position));
};
const called = (count: number) => vi.waitFor(() => expect(calls.length).toBeGreaterThanOrEqual(count));
const rows = ({ deviceId }: TestDevice) =>
  runInDurableObject(sessionOf(deviceId), (_, { storage }) =>
    storage.sql.exec<{ number: number }>('SELECT number FROM event ORDER BY number').toArray(),
  );
const read = async (userId: number, { deviceId }: TestDevice, query: string) => {
  const token = await tokenOf(userId);
  return (await call<Read>('GET', `/devices/${deviceId}/events?${query}`, { token })).data;
};
/** The device rests: every cursor is at its end and saved. */
const rested = ({ deviceId }: TestDevice, cursor: number) =>
  vi.waitFor(async () => {
    const saved = await runInDurableObject(sessionOf(deviceId), (_, { storage }) =>
      storage.sql.exec<{ json: string }>("SELECT json FROM slice WHERE name = 'outgoing'").toArray(),
    );
    expect(JSON.parse(saved[0]?.json ?? '{}')).toMatchObject({ outgoing: { consumers: [{ cursor }] } });
  });

describe('events of a device', () => {
  it('write no row once the directory said that nobody wants them', async () => {
    const { device } = await userWithDevice();
    await vi.waitFor(async () => expect(await rows(device)).not.toEqual([]));
    const before = await rows(device);
    await move(device, 'up', 'down');
    await evictDurableObject(sessionOf(device.deviceId));
    await move(device, 'up');
    expect(await rows(device)).toEqual(before);
    expect(calls).toEqual([]);
  });

  it('reach a webhook from the moment that it exists, once, in order, over evictions', async () => {
    const { userId, device } = await userWithDevice();
    await put(userId);
    await move(device, 'up', 'down');
    await vi.waitFor(() => expect(calls.flatMap(({ numbers }) => numbers)).toHaveLength(2));
    const [first = 0] = calls[0]?.numbers ?? [];
    await rested(device, first + 1);
    await evictDurableObject(sessionOf(device.deviceId));
    await move(device, 'middle');
    await vi.waitFor(() => expect(calls.flatMap(({ numbers }) => numbers)).toEqual([first, first + 1, first + 2]));
    expect(calls.every(({ deviceId, gap }) => deviceId === device.deviceId && gap === null)).toBe(true);
    const { list, next, last } = await read(userId, device, `after=${first}`);
    expect(list.map(({ number, type, data }) => [number, type, data])).toEqual([
      [first + 1, 'device.reported', { changes: { position: 'down' } }],
      [first + 2, 'device.reported', { changes: { position: 'middle' } }],
    ]);
    expect([next, last]).toEqual([first + 2, first + 2]);
  });

  it('of a new device are all there: it activates, is claimed by nobody, and comes online', async () => {
    const userId = newUserId();
    await put(userId, ['device.activated', 'device.online']);
    const device = await provisionDevice({ ownerId: userId });
    await comeOnline(device);
    await vi.waitFor(() => expect(calls.flatMap(({ types }) => types)).toEqual(['device.activated', 'device.online']));
  });

  it('go nowhere after the webhook was removed, or does not want their type any more', async () => {
    const { userId, device } = await userWithDevice();
    await put(userId);
    await move(device, 'up');
    await called(1);
    await put(userId, ['device.offline']);
    await move(device, 'down');
    await directoryOf(userId).removeWebhook(userId, 'w');
    // The last event before the device knows it.
    await move(device, 'up');
    const before = await rows(device);
    await move(device, 'down', 'up');
    expect(await rows(device)).toEqual(before);
    expect(calls).toHaveLength(1);
  });

  it('are a gap if the endpoint took none for too long, and the last 200 follow', async () => {
    const { userId, device } = await userWithDevice();
    await put(userId);
    const { promise, resolve } = Promise.withResolvers<TakeAnswer>();
    answer = () => promise;
    await move(device, 'up');
    await called(1);
    const [first = 0] = calls[0]?.numbers ?? [];
    for (let index = 0; index < 110; index++) await move(device, 'down', 'up');
    answer = takeAll;
    resolve({ upTo: first });
    const last = first + 220;
    await rested(device, last);
    expect(calls[1]).toMatchObject({ gap: { from: first + 1, to: last - 200 } });
    const after = Array.from({ length: 200 }, (_, index) => last - 199 + index);
    expect(calls.slice(1).flatMap(({ numbers }) => numbers)).toEqual(after);
    expect(calls.slice(1).map(({ numbers }) => numbers.length)).toEqual([50, 50, 50, 50]);
    const page = await read(userId, device, `after=${first}&size=100`);
    expect([page.gap, page.list.length, page.next]).toEqual([{ from: first + 1, to: last - 200 }, 100, last - 100]);
    expect(await read(userId, device, `after=${last}`)).toEqual({ list: [], gap: null, next: last, last });
  });

  it('are sent again by the alarm if the object ended in the midst of a call', async () => {
    const { userId, device } = await userWithDevice();
    await put(userId);
    answer = () => new Promise(() => undefined);
    await move(device, 'up');
    await called(1);
    answer = takeAll;
    await runInDurableObject(sessionOf(device.deviceId), (_, state) => state.abort('killed')).catch(() => undefined);
    await runDurableObjectAlarm(sessionOf(device.deviceId));
    await called(2);
    expect(calls[1]?.numbers).toEqual(calls[0]?.numbers);
  });

  it('pass an endpoint that is gone, and its directory is asked again', async () => {
    const { userId, device } = await userWithDevice();
    await put(userId);
    const asks = vi.spyOn(FleetDirectory.prototype, 'ask');
    answer = () => 'gone';
    await move(device, 'up', 'down');
    await called(1);
    await vi.waitFor(() => expect(asks.mock.calls.length).toBeGreaterThan(1));
  });

  it.each(['failed', 'never came, and the directory was killed meanwhile'])(
    'reach a webhook although the call that ends the lease of its device %s',
    async (problem) => {
      const { userId, device } = await userWithDevice();
      // Its first event: the device asks the directory, which has no webhook yet.
      await vi.waitFor(async () => expect(await leases(userId)).toEqual([device.deviceId]));
      const isKilled = problem !== 'failed';
      const calledOff = vi.spyOn(DeviceSession.prototype, 'endFleetLease');
      calledOff.mockImplementation(isKilled ? () => new Promise(() => undefined) as never : failure);
      const putting = put(userId).catch(() => undefined);
      await vi.waitFor(() => expect(calledOff).toHaveBeenCalled());
      const kill = async (_: unknown, state: DurableObjectState) => {
        await state.storage.sync();
        state.abort('killed');
      };
      if (isKilled) await runInDurableObject(directoryOf(userId), kill).catch(() => undefined);
      await putting;
      expect(await leases(userId)).toEqual([device.deviceId]);
      calledOff.mockRestore();
      await runDurableObjectAlarm(directoryOf(userId));
      await move(device, 'up');
      await called(1);
    },
  );

  it('say to a viewer nothing of who shares the device', async () => {
    const { userId, device } = await userWithDevice();
    await put(userId, ['member.changed', 'device.reported']);
    const [viewer, party] = [newUserId(), { email: 'v@example.test', address: null }];
    await sessionOf(device.deviceId).decide({
      kind: 'member_joined',
      ...{ userId: viewer, role: 'viewer', invitedBy: userId, ...party },
    });
    await move(device, 'up');
    const seen = async (reader: number) =>
      (await read(reader, device, 'after=0&size=100')).list.map(({ type }) => type);
    expect(await seen(userId)).toContain('member.changed');
    expect(await seen(viewer)).not.toContain('member.changed');
    expect(await seen(viewer)).toContain('device.reported');
  });
});
