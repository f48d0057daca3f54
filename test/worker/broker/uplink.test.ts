// Batches of a bridge: every item answered by itself, once in effect, in order, whatever stands beside it.
import { describe, expect, it, vi } from 'vitest';
import { exports } from 'cloudflare:workers';
import { inPerson } from '../../../src/domain/access.ts';
import { maxBatchBytes, maxBatchItems, uplinkPath } from '../../../src/protocol/bridge.ts';
import { topicOf, type DeviceIdentity } from '../../../src/domain/topics.ts';
import { type TopicAction } from '../../../src/protocol/mqtt.ts';
import { limitSpecs } from '../../../src/limits.ts';
import { call } from '../rig/clients/client.ts';
import { openSocket } from '../rig/clients/socket.ts';
import { eventsOf, provisionDevice, sessionOf, statusOf } from '../rig/provision.ts';
import type { PropertiesView } from '../../../src/domain/device/core/views.ts';
import { unwrap, type Outcome } from '../../../src/domain/refusal.ts';

const headers = { Authorization: 'Bearer bridge-secret-of-the-worker-tests-only' };
const report = (position: string) => JSON.stringify({ params: { position } });

let lastSeq = 0;
function itemOf(device: DeviceIdentity, payload: string, action: TopicAction = 'thing/event/property/post') {
  return { seq: ++lastSeq, topic: topicOf(device, action), payload, receivedAtMs: Date.now() };
}

async function post(items: unknown[], spoolId = 'spool-1') {
  const answered = await call<{ results: unknown[] }>('POST', uplinkPath, {
    headers,
    body: { spoolId, sentAtMs: Date.now(), items },
  });
  expect(answered.code).toBe(200);
  return answered.data.results;
}

const positionOf = async (device: DeviceIdentity) => (await statusOf(device)).position;

/** How many messages were not used, by reason. */
async function rejectionsOf(device: DeviceIdentity): Promise<Record<string, number>> {
  const events = await eventsOf(device);
  return Object.fromEntries(
    events.flatMap((event) => (event.status === 'message_rejected' ? [[event.reason, event.count ?? 0]] : [])),
  );
}

describe('a batch', () => {
  it('answers each poisonous item by itself and takes the others', async () => {
    const device = await provisionDevice();
    const stranger = { productKey: 'switch', deviceId: 'dev_00000000' };
    const foreignProduct = { productKey: 'another', deviceId: device.deviceId };
    const good = itemOf(device, report('up'));
    const topic = good.topic;
    const receivedAtMs = Date.now();
    const items = [
      null,
      'text',
      { seq: 'x', topic, payload: '{}', receivedAtMs },
      { seq: -1, topic, payload: '{}', receivedAtMs },
      { seq: 901, topic: 'x'.repeat(1025), payload: '{}', receivedAtMs },
      { seq: 902, topic: '/sys/switch/nobody/status', payload: '{}', receivedAtMs },
      { seq: 903, topic: `${topic}/more`, payload: '{}', receivedAtMs },
      { seq: 904, topic, payloadBase64: '/w==', receivedAtMs },
      { seq: 905, topic, receivedAtMs },
      { ...itemOf(stranger, report('up')), seq: 906 },
      { ...itemOf(foreignProduct, report('down')), seq: 907 },
      good,
      itemOf(device, 'not json'),
      itemOf(device, '[]'),
      itemOf(device, `{"params":"${'x'.repeat(17_000)}"}`),
      itemOf(device, report('down')),
    ];
    const results = (await post(items)) as { seq: number; result: string; reason?: string }[];
    expect(results.map(({ result, reason }) => reason ?? result)).toEqual([
      'malformed_item',
      'malformed_item',
      'malformed_item',
      'malformed_item',
      'malformed_item',
      'unknown_topic',
      'unknown_topic',
      'not_text',
      'too_large',
      'device_not_found',
      'device_not_found',
      'accepted',
      'not_json',
      'not_an_object',
      'too_large',
      'accepted',
    ]);
    expect(results.slice(4, 11).map(({ seq }) => seq)).toEqual([901, 902, 903, 904, 905, 906, 907]);
    expect(await positionOf(device)).toBe('down');
    const counts = { not_text: 1, too_large: 2, not_json: 1, not_an_object: 1 };
    expect(await rejectionsOf(device)).toEqual(counts);
    expect(await post(items), 'the first answer may have been lost').toEqual(results);
    expect(await rejectionsOf(device), 'of messages that come again').toEqual(counts);
    const retained = { ...itemOf(device, report('up')), retain: true };
    await post([retained, { ...itemOf(device, '{"status":"online"}', 'status'), retain: true }], 'spool-2');
    expect(await rejectionsOf(device)).toEqual({ ...counts, retained: 1 });
  });

  it('takes a device by the numbers of its messages, whatever their order in the batch', async () => {
    const device = await provisionDevice();
    const early = itemOf(device, report('up'));
    const late = itemOf(device, report('down'));
    expect(await post([late, early])).toEqual([
      { seq: late.seq, result: 'accepted' },
      { seq: early.seq, result: 'accepted' },
    ]);
    expect(await positionOf(device)).toBe('down');
  });

  it('dates messages by how long ago they came, not by the clock of the bridge', async () => {
    const device = await provisionDevice();
    const item = itemOf(device, report('up'));
    const bridgeNowMs = Date.now() - 3_600_000;
    const batch = { spoolId: 'spool-5', sentAtMs: bridgeNowMs, items: [{ ...item, receivedAtMs: bridgeNowMs - 250 }] };
    const { code } = await call('POST', uplinkPath, { headers, body: batch });
    expect(code).toBe(200);
    const outcome = (await sessionOf(device.deviceId).properties(inPerson(1))) as Outcome<PropertiesView>;
    const agoMs = Date.now() - Date.parse(unwrap(outcome).list[0]!.time);
    expect(agoMs).toBeGreaterThanOrEqual(250);
    expect(agoMs, 'an hour by the clock of the bridge').toBeLessThan(1_800_000);
  });
});

describe('what is refused', () => {
  it.each([
    ['no items', { spoolId: 'spool-1', sentAtMs: 1, items: [] }],
    [
      'too many items',
      { spoolId: 'spool-1', sentAtMs: 1, items: Array.from({ length: maxBatchItems + 1 }, () => null) },
    ],
    ['no spool', { sentAtMs: 1, items: [null] }],
    ['an unusable spool name', { spoolId: 'a/b', sentAtMs: 1, items: [null] }],
    ['no time', { spoolId: 'spool-1', items: [null] }],
    ['something else', []],
    ['text', 'not json'],
    ['an empty body', ''],
  ])('answers 400 to %s', async (_, body) => {
    const { status, code, message, data } = await call('POST', uplinkPath, { headers, body });
    expect({ status, code, data }).toEqual({ status: 400, code: 400, data: null });
    expect(message).toMatch(/^invalid_request: /);
  });

  it('takes a batch of the largest size and answers 413 to one byte more', async () => {
    const device = await provisionDevice();
    const batchOf = (bytes: number) => {
      const around = JSON.stringify({
        spoolId: 's',
        sentAtMs: Date.now(),
        items: [{ ...itemOf(device, ''), pad: '' }],
      });
      const pad = 'x'.repeat(bytes - around.length);
      return around.replace('"pad":""', `"pad":"${pad}"`);
    };
    expect((await call('POST', uplinkPath, { headers, body: batchOf(maxBatchBytes) })).code).toBe(200);
    const { status, code, data } = await call('POST', uplinkPath, { headers, body: batchOf(maxBatchBytes + 1) });
    expect({ status, code, data }).toEqual({ status: 413, code: 413, data: null });
  });

  it('counts the bytes of a body that does not announce its length', async () => {
    const chunk = new TextEncoder().encode('é'.repeat(64 * 1024));
    let sent = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (sent++ < 16) controller.enqueue(chunk);
        else controller.close();
      },
    });
    const request = new Request(`https://latchwork.test${uplinkPath}`, { method: 'POST', headers, body });
    expect((await exports.default.fetch(request)).status).toBe(413);
  });
});

it('a device that sends too much is not pushed beyond its limit, and a second later the last position is true and pushed', async () => {
  const device = await provisionDevice();
  const socket = await openSocket('/mqtt');
  await socket.ask({ action: 'auth', username: device.name, password: device.password });
  await socket.ask({ action: 'subscribe', topic: `/sys/${device.productKey}/${device.deviceId}/#` });
  const max = limitSpecs.deviceMessagesPerMinute.default;
  const receivedAtMs = Date.now();
  const positions = [...Array.from({ length: max }, () => 'up'), 'middle', 'up', 'down'];
  const items = positions.map((position) => ({ ...itemOf(device, report(position)), receivedAtMs }));
  const tooMany = { result: 'rejected', reason: 'too_many_messages' };
  expect((await post(items)).slice(max)).toEqual(items.slice(max).map(({ seq }) => ({ seq, ...tooMany })));
  await vi.waitFor(async () => expect(await positionOf(device)).toBe('down'));
  const pushed: unknown[] = [];
  while (pushed.at(-1) !== 'down') {
    const { payload } = (await socket.next()) as { payload: { params?: { position: string } } };
    if (payload.params !== undefined) pushed.push(payload.params.position);
  }
  expect(pushed).toEqual([...Array.from({ length: max }, () => 'up'), 'down']);
  expect(await eventsOf(device)).toContainEqual(expect.objectContaining({ status: 'flooded', count: 3 }));
});
