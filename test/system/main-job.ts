// The main job on a broker, told as assertions: who may log in, who may say and hear what, a report that reaches the
// status view and the relay, a command that reaches the device. The same for every broker.
import { isDeepStrictEqual } from 'node:util';
import { expect } from 'vitest';
import {
  bridgeName,
  bridgeSecret,
  RealClient,
  refusalOf,
  type ProtocolVersion,
  type RealStack,
} from '../rig/service.ts';

export type Story = {
  stack: RealStack;
  protocolVersion: ProtocolVersion;
  /** What the broker says to whoever may not log in: bad credentials, or not authorized. */
  refusal: RegExp;
  /** Serial numbers of this telling. */
  serial: string;
};

/** Logins: exactly the documented identity, and nothing beside it. */
export async function tellOfLogins({ stack, protocolVersion, refusal, serial }: Story): Promise<void> {
  const { mqtt, deviceSecret } = await stack.activate(serial);
  const other = await stack.activate(`${serial}-other`);
  const login = { username: mqtt.username, password: mqtt.password, clientId: mqtt.clientId, protocolVersion };
  const answer = (change: Record<string, unknown>) => refusalOf(stack.brokerUrl, { ...login, ...change });
  expect(await answer({})).toBe('accepted');
  expect(await answer({ password: `${mqtt.password}x` }), 'a wrong password').toMatch(refusal);
  expect(await answer({ password: deviceSecret }), 'the device secret').toMatch(refusal);
  expect(await answer({ password: other.mqtt.password }), 'the password of another device').toMatch(refusal);
  expect(await answer({ clientId: 'esp32-17' }), 'a client id of its own').toMatch(refusal);
  expect(await answer({ clientId: other.mqtt.clientId }), "another device's client id").toMatch(refusal);
  expect(await answer({ username: undefined, password: undefined }), 'no credentials').toMatch(refusal);
  expect(await answer({ username: 'admin', password: 'admin' }), 'an internal name').toMatch(refusal);
  expect(await answer({ username: bridgeName, clientId: bridgeName }), "the bridge's name").toMatch(refusal);
  const asBridge = { username: bridgeName, password: bridgeSecret };
  expect(await answer(asBridge), "the bridge's password under a device's client id").toMatch(refusal);
  expect(await answer({}), 'and still the right one').toBe('accepted');
}

/** Topics: a device neither hears nor speaks for another one. */
export async function tellOfForeignTopics({ stack, protocolVersion, serial }: Story): Promise<void> {
  const [mine, victim] = [await stack.activate(`${serial}-intruder`), await stack.activate(`${serial}-victim`)];
  const watch = await stack.watch(mine, victim);
  const other = await RealClient.ofDevice(stack.brokerUrl, victim, protocolVersion);
  expect(await other.trySubscribe(victim.topics.propertySet)).toBe(true);
  const before = { params: { position: 'up' } };
  await other.client.publishAsync(victim.topics.propertyPost, JSON.stringify(before), { qos: 1 });
  await stack.untilStatus(victim.deviceId, ({ online, position }) => online === true && position === 'up');
  const foreignFilters = [
    victim.topics.propertySet,
    victim.topics.status.replace(/status$/, '#'),
    '/sys/+/+/status',
    '#',
    '$SYS/#',
    `$share/group${mine.topics.propertySet}`,
  ];
  // A broker may refuse by closing the connection, so each attempt has its own.
  for (const filter of foreignFilters) {
    const intruder = await RealClient.ofDevice(stack.brokerUrl, mine, protocolVersion);
    expect(await intruder.trySubscribe(filter), filter).toBe(false);
    await intruder.leave();
  }
  const forgedParams = { params: { position: 'down' } };
  const forgeries = [
    { topic: victim.topics.propertyPost, body: forgedParams },
    { topic: victim.topics.status, body: { status: 'offline' } },
    { topic: victim.topics.propertySet, body: forgedParams },
    { topic: mine.topics.propertySet, body: forgedParams },
  ];
  for (const { topic, body } of forgeries) {
    const intruder = await RealClient.ofDevice(stack.brokerUrl, mine, protocolVersion);
    await intruder.tryPublish(topic, body);
    await intruder.leave();
  }
  // What the victim says, and is told, comes after all of that and is all that is heard: whatever got through lies before.
  const after = { params: { position: 'middle' } };
  await other.client.publishAsync(victim.topics.propertyPost, JSON.stringify(after), { qos: 1 });
  await watch.untilPushed(victim.topics.propertyPost, (payload) => isDeepStrictEqual(payload, after));
  expect(watch.pushed.filter(({ payload }) => (payload as { status?: string }).status !== 'online')).toEqual([
    { topic: victim.topics.propertyPost, payload: before },
    { topic: victim.topics.propertyPost, payload: after },
  ]);
  // Its report would have brought it back online: that it never went is seen in its history.
  const { data: events } = await stack.call('GET', `/devices/${victim.deviceId}/events`);
  expect(events['list']).toMatchObject([{ status: 'online' }]);
  const command = { action: 'toggle', position: 'up' };
  expect(await stack.call('POST', `/devices/${victim.deviceId}/control`, command)).toMatchObject({ code: 200 });
  await other.untilHeard(victim.topics.propertySet);
  expect(other.heard).toMatchObject([{ topic: victim.topics.propertySet, payload: { params: command } }]);
  await other.leave();
  watch.close();
}

/** The job: a report up, a command down, a reply, and presence. */
export async function tellOfTheJob({ stack, protocolVersion, serial }: Story): Promise<void> {
  const activation = await stack.activate(serial);
  const { deviceId, topics } = activation;
  const watch = await stack.watch(activation);
  const device = await RealClient.ofDevice(stack.brokerUrl, activation, protocolVersion);
  expect(await device.trySubscribe(topics.propertySet)).toBe(true);

  const report = { method: 'thing.event.property.post', id: '1', params: { position: 'middle', wifi_rssi: -60 } };
  await device.client.publishAsync(topics.propertyPost, JSON.stringify(report), { qos: 1 });
  expect(await watch.untilPushed(topics.propertyPost)).toEqual(report);
  await stack.untilStatus(deviceId, ({ online, position }) => online === true && position === 'middle');

  const command = await stack.call('POST', `/devices/${deviceId}/control`, { action: 'toggle', position: 'up' });
  expect(command).toMatchObject({ code: 200, data: { message: 'command_sent' } });
  const heard = (await device.untilHeard(topics.propertySet)) as { id: string };
  expect(heard).toEqual({
    method: 'thing.service.property.set',
    id: expect.any(String) as string,
    params: { action: 'toggle', position: 'up' },
    time: expect.any(Number) as number,
  });
  expect(await watch.untilPushed(topics.propertySet)).toEqual(heard);
  const reply = { method: 'thing.service.property.set_reply', id: heard.id, code: 200 };
  await device.client.publishAsync(topics.propertyPost, JSON.stringify(reply), { qos: 0 });
  await watch.untilPushed(topics.propertyPost, (payload) => (payload as { id: string }).id === heard.id);
  await stack.untilStatus(deviceId, ({ position }) => position === 'middle');

  await device.client.publishAsync(topics.status, '{"status":"offline"}', { qos: 1 });
  await stack.untilStatus(deviceId, ({ online }) => online === false);
  expect(device.heard, 'the device heard its command once, and nothing else').toHaveLength(1);
  await device.leave();
  watch.close();
}
