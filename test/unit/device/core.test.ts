// The device core as a whole: what an event does to the state, what is worth a row, and that no message stops the next.
import { describe, expect, it } from 'vitest';
import { inPerson } from '../../../src/domain/access.ts';
import { viewPresent, viewProperties } from '../../../src/domain/device/core/views.ts';
import { viewOwnership } from '../../../src/domain/device/ownership/ownership.ts';
import { limitsOf } from '../limits-of.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import { CoreDevice, onlineDevice, proofOf } from './core-device.ts';

const { propertyPost, status } = topicActions;
const startMs = 1_790_000_000_000;
const minuteMs = 60_000;

const online = (limits = limitsOf('')) => onlineDevice(startMs, { limits });

function logIn(device: CoreDevice, fields: { isClientIdRight?: boolean; matchedDigest?: string | undefined } = {}) {
  const given = { isClientIdRight: true, matchedDigest: 'password', ...fields };
  const { productKey } = device;
  return device.run({ kind: 'login_attempted', productKey, address: '192.0.2.7', relayShard: undefined, ...given });
}

it('a session that the broker reported is believed without a message for as long as the limit says', () => {
  const device = online(limitsOf('sessionSilenceHours=1'));
  for (const [afterMs, isOnline] of [
    [60 * minuteMs - 1, true],
    [60 * minuteMs, false],
  ] as const) {
    device.nowMs = startMs + afterMs;
    device.fireAlarm();
    expect(device.status().online).toBe(isOnline);
  }
  expect(device.events()[0]).toMatchObject({ status: 'offline', reason: 'silence' });
});

it('a claimed device needs no less to activate again because its product asks for less', () => {
  const device = online();
  const change = (name: string) => ({ kind: 'administered', actor: inPerson(1), change: { name } }) as const;
  device.run(change('claimed by its name'));
  for (const [index, reactivation] of (['open', 'secret', 'owner', null, 'open'] as const).entries()) {
    const facts = { controlMode: 'toggle', offlineGraceSeconds: 0, reactivation, productChangedAtMs: index + 1 };
    device.run({ kind: 'product_changed', facts });
    expect(viewOwnership(device.state, startMs).reactivation).toBe(index === 0 ? 'owner' : 'secret');
  }
});

describe('a message', () => {
  /** No text is known whose handling throws: this is none. */
  const broken = {
    length: 1,
    includes: () => false,
    toString: () => {
      throw new Error('cannot be handled');
    },
  } as unknown as string;

  it('whose handling throws is rejected with its reason, and the next one is taken', () => {
    const device = online();
    const plain = { isDup: false, isSoleReader: false, isRetained: false, receivedAtMs: startMs };
    const messages = [
      { seq: 1, action: propertyPost, payload: broken, ...plain },
      { seq: 2, action: propertyPost, payload: '{"params":{"position":"up"}}', ...plain },
    ];
    const { productKey } = device;
    const { others } = device.run({ kind: 'messages_received', productKey, spoolId: 'b', messages });
    expect(others).toEqual([{ position: 0, result: 'rejected', reason: 'handling_failed' }]);
    expect(device.status()).toMatchObject({ position: 'up' });
    expect(device.effects).toContainEqual(expect.objectContaining({ kind: 'log_failed_message', seq: 1 }));
  });

  it('that failed is rejected again when its answer was lost, also after a sleep', () => {
    const device = online();
    expect(device.receive(propertyPost, '', { seq: 1, payload: broken })).toMatchObject({ result: 'rejected' });
    const again = { result: 'duplicate', reason: 'handling_failed' };
    expect(device.receive(propertyPost, '', { seq: 1, payload: broken })).toMatchObject(again);
    device.sleep();
    expect(device.receive(propertyPost, '', { seq: 1, payload: broken })).toMatchObject(again);
  });

  it('is taken or not as the facts of the bridge say', () => {
    const device = online();
    const up = { params: { position: 'up' } };
    device.receive(propertyPost, up, { seq: 1 });
    device.receive(propertyPost, { params: { position: 'down' } }, { seq: 2 });
    const dup = { isDup: true };
    expect(device.receive(propertyPost, up, { seq: 3, ...dup, redeliveryOf: 1 })).toMatchObject({
      result: 'redelivery',
    });
    expect(device.receive(propertyPost, up, { seq: 4, ...dup })).toMatchObject({ result: 'redelivery' });
    expect(device.receive(propertyPost, up, { seq: 5, ...dup, isSoleReader: true })).toEqual({ result: 'accepted' });
    expect(device.status()).toMatchObject({ position: 'up' });
  });

  it('of the service itself is ignored when it comes back', () => {
    const device = online();
    device.disconnect();
    const own = device.published.find(({ topic }) => topic.endsWith(status));
    expect(device.receive(status, own?.payload)).toMatchObject({ result: 'ignored' });
  });
});

describe('dropped messages', () => {
  it('are one event an hour with their number', () => {
    const device = online();
    device.run({ kind: 'messages_dropped', count: 3 });
    device.nowMs += minuteMs;
    device.run({ kind: 'messages_dropped', count: 4 });
    const time = new Date(device.nowMs).toISOString();
    expect(device.events()[0]).toEqual({ status: 'flooded', reason: 'too_many_messages', detail: '', time, count: 7 });
    device.sleep();
    expect(device.events()[0]).toMatchObject({ status: 'flooded', count: 7 });
  });

  it('are saved at most once a minute', () => {
    const device = online();
    for (let times = 0; times < 100; times++) device.run({ kind: 'messages_dropped', count: 1 });
    device.sleep();
    expect(device.events()[0]).toMatchObject({ status: 'flooded', count: 1 });
  });
});

describe('a refused login', () => {
  it('of a known device is an event with its reason, the address and how often in this hour', () => {
    const device = online();
    logIn(device, { matchedDigest: undefined });
    device.nowMs += minuteMs;
    logIn(device, { matchedDigest: undefined });
    logIn(device, { isClientIdRight: false });
    expect(device.events()).toMatchObject([
      { status: 'login_refused', reason: 'wrong_client_id', count: 1, address: '192.0.2.7' },
      { status: 'login_refused', reason: 'wrong_password', count: 2, time: new Date(device.nowMs).toISOString() },
      { status: 'online', reason: 'connected' },
    ]);
  });

  it('tells a revoked password and a disabled device from a wrong password', () => {
    const device = online();
    device.run({ kind: 'credentials_replaced', actor: inPerson(1), passwordDigest: 'next', address: null });
    logIn(device, { matchedDigest: 'password' });
    device.run({ kind: 'administered', actor: inPerson(1), change: { isDisabled: true } });
    logIn(device, { matchedDigest: 'next' });
    const refused = device.events().flatMap((event) => (event.status === 'login_refused' ? event.reason : []));
    expect(refused.sort()).toEqual(['disabled', 'revoked']);
  });

  it('can be repeated without end and never fills the list', () => {
    const device = online();
    for (let hour = 0; hour < 100; hour++) {
      for (let attempt = 0; attempt < 20; attempt++) logIn(device, { matchedDigest: undefined });
      device.nowMs += 60 * minuteMs;
    }
    const refused = device.events().filter((event) => event.status === 'login_refused');
    expect(refused).toHaveLength(48);
    expect(refused[0]).toMatchObject({ count: 20 });
  });

  it('is saved at most once a minute for each reason', () => {
    const device = online();
    logIn(device, { matchedDigest: undefined });
    logIn(device, { matchedDigest: undefined });
    device.sleep();
    expect(device.events()[0]).toMatchObject({ count: 1 });
    device.nowMs += minuteMs;
    logIn(device, { matchedDigest: undefined });
    device.sleep();
    expect(device.events()[0]).toMatchObject({ count: 2 });
  });
});

describe('commands that follow each other', () => {
  const stateById = (device: CoreDevice) =>
    Object.fromEntries(device.commands().map(({ commandId, state }) => [commandId, state]));

  it('are confirmed by a report that shows the newest one', () => {
    const device = online();
    const [up, down] = (['up', 'down'] as const).map((position) =>
      device.request({ params: { action: 'toggle', position }, ttlSeconds: undefined }),
    );
    device.receive(propertyPost, { params: { position: 'up' } });
    expect(stateById(device)).toEqual({ [up!.commandId]: 'sent', [down!.commandId]: 'sent' });
    device.receive(propertyPost, { params: { position: 'down' } });
    expect(stateById(device)).toEqual({ [up!.commandId]: 'sent', [down!.commandId]: 'confirmed' });
  });

  it('replace what waits for the device; without a broker they replace nothing', () => {
    const device = new CoreDevice(startMs);
    const request = () => device.request({ params: { action: 'toggle', position: 'up' }, ttlSeconds: 60 }).commandId;
    const first = request();
    device.hasBroker = false;
    const undelivered = request();
    expect(stateById(device)).toEqual({ [first]: 'waiting', [undelivered]: 'undelivered' });
    device.hasBroker = true;
    const last = request();
    expect(stateById(device)).toMatchObject({ [first]: 'cancelled', [last]: 'waiting' });
  });
});

describe('the queued command of an API key', () => {
  const key = { ...inPerson(1), scopes: ['control'], keyId: 'ak_1' } as const;
  const toggle = (position: 'up' | 'down') => ({ action: 'toggle', position }) as const;
  const check = { kind: 'check_giver', userId: 1, keyId: 'ak_1' };
  const checksOf = ({ effects }: CoreDevice) => effects.filter(({ kind }) => kind === 'check_giver');
  const publishedBy = ({ effects }: CoreDevice) =>
    effects.flatMap((effect) => (effect.kind === 'publish_command' ? effect.commandId : []));
  const tell = (device: CoreDevice, isValid: boolean) =>
    device.run({ kind: 'giver_checked', userId: 1, keyId: 'ak_1', isValid });

  function queued() {
    const device = new CoreDevice(startMs);
    const { commandId } = device.request({ params: toggle('up'), ttlSeconds: 60 }, key);
    expect(publishedBy(device)).toEqual([commandId]);
    device.effects.length = 0;
    device.connect();
    expect(checksOf(device)).toEqual([check]);
    return { device, commandId };
  }

  it('is not published while D1 does not answer, asks again by alarm, and expires', () => {
    const { device, commandId } = queued();
    device.nowMs += 10_000;
    device.fireAlarm();
    expect(checksOf(device)).toEqual([check, check]);
    device.nowMs += 50_000;
    device.fireAlarm();
    tell(device, true);
    expect(publishedBy(device)).toEqual([]);
    expect(device.commands()).toMatchObject([{ commandId, state: 'expired' }]);
  });

  it('is published once for each attempt, however often D1 answers', () => {
    const { device, commandId } = queued();
    tell(device, true);
    tell(device, true);
    expect(publishedBy(device)).toEqual([commandId]);
    device.nowMs += 2_000;
    device.fireAlarm();
    expect(publishedBy(device)).toEqual([commandId, commandId]);
    expect(checksOf(device)).toEqual([check]);
  });

  it('does not undo a newer command that was sent while D1 was asked', () => {
    const { device, commandId } = queued();
    const newer = device.request({ params: toggle('down'), ttlSeconds: undefined }).commandId;
    tell(device, true);
    expect(publishedBy(device)).toEqual([newer]);
    expect(device.commands()).toContainEqual(expect.objectContaining({ commandId, reason: 'replaced' }));
  });
});

describe('what is worth a row', () => {
  it('is a changed property, and not a report that changes nothing', () => {
    const device = online();
    device.receive(propertyPost, { params: { position: 'up' } }, { seq: 1 });
    device.receive(propertyPost, { params: { position: 'up' } }, { seq: 2 });
    device.sleep();
    expect(device.state.deduplication.marks, 'saved with the first').toEqual([['spool', 1]]);
  });

  it('is a measurement alone every half an hour', () => {
    const device = online();
    const measure = (rssi: number) => device.receive(propertyPost, { params: { wifi_rssi: rssi } });
    const shown = () => viewProperties(device.state).list[0];
    measure(-50);
    const time = new Date(device.nowMs).toISOString();
    device.nowMs += minuteMs;
    measure(-60);
    expect(shown()).toMatchObject({ value: -60 });
    device.sleep();
    expect(shown(), 'newer ones may have been pushed').toEqual({ name: 'wifi_rssi', value: -50, time, savedAt: time });
    expect(viewPresent(device.state, device.nowMs).messages, 'not as the last one').toHaveLength(1);
    measure(-50);
    expect(shown(), 'reported again').toEqual({ name: 'wifi_rssi', value: -50, time });
    device.nowMs += 30 * minuteMs;
    measure(-70);
    device.sleep();
    expect(shown()).toMatchObject({ value: -70 });
  });
});

const shards = ['relay-0'];

it('the relay sessions of a password end when it ends, by time as well: an alarm stands for that', () => {
  const device = online();
  const { productKey, deviceId } = device;
  const listening = { isClientIdRight: true, address: null, relayShard: 'relay-0' };
  device.run({ kind: 'login_attempted', productKey, matchedDigest: 'password', ...listening });
  const { settings, identity } = device.state;
  device.run({ kind: 'provisioned', deviceId, settings, facts: identity, ...proofOf('newer') });
  // The relay shows that the newer one is in use.
  device.run({ kind: 'login_attempted', productKey, matchedDigest: 'newer', ...listening });
  expect(device.state.alarm.setAtMs).toBeLessThanOrEqual(startMs + 10 * minuteMs);
  device.nowMs += 10 * minuteMs - 1;
  device.fireAlarm();
  expect(device.effects).not.toContainEqual(expect.objectContaining({ kind: 'end_relay_sessions' }));
  device.nowMs += 1;
  device.fireAlarm();
  expect(device.effects).toContainEqual({
    kind: 'end_relay_sessions',
    cause: 'credentials_rotated',
    shards,
    generations: [2],
  });
  const say = (generation: number) =>
    device.run({
      kind: 'relay_message_received',
      productKey,
      generation,
      action: status,
      payload: '{"status":"online"}',
    });
  expect(say(1)).toMatchObject({ refusal: { kind: 'credential_refused', problem: 'revoked' } });
  expect(say(2)).toMatchObject({ ok: true });
});
