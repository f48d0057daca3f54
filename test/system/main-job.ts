// The main job as assertions, the same for every way in. Who may log in, publish and subscribe; a report that reaches the
// status view and the relay; a command that reaches the device.
import { isDeepStrictEqual } from 'node:util';
import type { IClientOptions } from 'mqtt';
import { expect } from 'vitest';
import { sendCommand, type Activation } from '../../rig/clients/accounts.ts';
import { bridgeName, bridgePassword } from '../../rig/services/processes.ts';
import { MqttTestClient, refusalOf, type ProtocolVersion } from '../../rig/clients/mqtt-client.ts';
import type { WorkerRig } from '../../rig/worker/worker-rig.ts';
import { dataOf } from '../../rig/clients/api.ts';

export type Job = {
  rig: WorkerRig;
  protocolVersion: ProtocolVersion;
  /** How the broker refuses a login: bad credentials, or not authorized. */
  refusal: RegExp;
  /** Begins the serial numbers of this run. */
  serial: string;
  /** Where a device connects, unless that is the address that its activation names. */
  urlOf?: (device: Activation) => string;
  options?: IClientOptions;
};

const addressOf = ({ rig, urlOf }: Job, device: Activation) => urlOf?.(device) ?? rig.mqttUrl;
const connect = (job: Job, device: Activation) =>
  MqttTestClient.ofDevice(addressOf(job, device), device, job.protocolVersion, job.options);

/** Logins: exactly the documented identity, and no other. */
export async function expectLogins(job: Job): Promise<void> {
  const { rig, protocolVersion, refusal, serial, options } = job;
  const activation = await rig.activate(serial);
  const { mqtt, deviceSecret } = activation;
  const other = await rig.activate(`${serial}-other`);
  const login = { username: mqtt.username, password: mqtt.password, clientId: mqtt.clientId, protocolVersion };
  const answer = (change: Record<string, unknown>) =>
    refusalOf(addressOf(job, activation), { ...options, ...login, ...change });
  expect(await answer({})).toBe('accepted');
  expect(await answer({ password: `${mqtt.password}x` }), 'a wrong password').toMatch(refusal);
  expect(await answer({ password: deviceSecret }), 'the device secret').toMatch(refusal);
  expect(await answer({ password: other.mqtt.password }), 'the password of another device').toMatch(refusal);
  expect(await answer({ clientId: 'esp32-17' }), 'a client id of its own').toMatch(refusal);
  expect(await answer({ clientId: other.mqtt.clientId }), "another device's client id").toMatch(refusal);
  expect(await answer({ username: undefined, password: undefined }), 'no credentials').toMatch(refusal);
  expect(await answer({ username: 'admin', password: 'admin' }), 'an internal name').toMatch(refusal);
  expect(await answer({ username: bridgeName, clientId: bridgeName }), "the bridge's name").toMatch(refusal);
  const asBridge = { username: bridgeName, password: bridgePassword };
  expect(await answer(asBridge), "the bridge's password under a device's client id").toMatch(refusal);
  expect(await answer({}), 'and still the right one').toBe('accepted');
}

/** Topics: a device neither reads nor writes the topics of another one. */
export async function expectSeparateTopics(job: Job): Promise<void> {
  const { rig, serial } = job;
  const [mine, victim] = [await rig.activate(`${serial}-intruder`), await rig.activate(`${serial}-victim`)];
  const watch = await rig.watch(mine, victim);
  const other = await connect(job, victim);
  expect(await other.trySubscribe(victim.topics.propertySet)).toBe(true);
  const before = { params: { position: 'up' } };
  await other.client.publishAsync(victim.topics.propertyPost, JSON.stringify(before), { qos: 1 });
  await rig.untilStatus(victim.deviceId, ({ online, position }) => online && position === 'up');
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
    const intruder = await connect(job, mine);
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
    const intruder = await connect(job, mine);
    await intruder.tryPublish(topic, body);
    await intruder.leave();
  }
  // The victim's own messages are published after all forgeries: a forgery that got through would come before them.
  const after = { params: { position: 'middle' } };
  await other.client.publishAsync(victim.topics.propertyPost, JSON.stringify(after), { qos: 1 });
  await watch.untilPushed(victim.topics.propertyPost, (payload) => isDeepStrictEqual(payload, after));
  const pushes = watch.pushes.filter(({ payload }) => (payload as { status?: string }).status !== 'online');
  expect(pushes).toEqual([
    { topic: victim.topics.propertyPost, payload: before },
    { topic: victim.topics.propertyPost, payload: after },
  ]);
  // A report would have brought it back online: its history shows that it was never offline.
  const params = { deviceId: victim.deviceId };
  const { list } = await dataOf(rig.owner.api.devices[':deviceId'].events.$get({ param: params, query: {} }));
  expect(list).toMatchObject([{ status: 'online' }, { status: 'activated' }]);
  const command = { action: 'toggle' as const, position: 'up' as const };
  await sendCommand(rig.owner.api, victim, command);
  await other.untilHeard(victim.topics.propertySet);
  expect(other.heard).toHaveLength(1);
  expect(other.bodiesOf(victim.topics.propertySet)).toMatchObject([{ params: command }]);
  await other.leave();
  watch.terminate();
}

/** The job: a report up, a command down, a reply, and presence. */
export async function expectReportsAndCommands(job: Job): Promise<void> {
  const { rig, serial } = job;
  const activation = await rig.activate(serial);
  const { deviceId, topics } = activation;
  const watch = await rig.watch(activation);
  const device = await connect(job, activation);
  expect(await device.trySubscribe(topics.propertySet)).toBe(true);

  const report = { method: 'thing.event.property.post', id: '1', params: { position: 'middle', wifi_rssi: -60 } };
  await device.client.publishAsync(topics.propertyPost, JSON.stringify(report), { qos: 1 });
  expect(await watch.untilPushed(topics.propertyPost)).toEqual(report);
  await rig.untilStatus(deviceId, ({ online, position }) => online && position === 'middle');

  const params = { action: 'toggle' as const, position: 'up' as const };
  const receipt = await sendCommand(rig.owner.api, activation, params);
  expect(receipt).toMatchObject({ message: 'command_sent' });
  const heard = (await device.untilHeard(topics.propertySet)) as { id: string };
  expect(heard).toEqual({
    method: 'thing.service.property.set',
    id: expect.any(String) as string,
    params,
    time: expect.any(Number) as number,
  });
  expect(await watch.untilPushed(topics.propertySet)).toEqual(heard);
  const reply = { method: 'thing.service.property.set_reply', id: heard.id, code: 200 };
  await device.client.publishAsync(topics.propertyPost, JSON.stringify(reply), { qos: 0 });
  await watch.untilPushed(topics.propertyPost, (payload) => (payload as { id: string }).id === heard.id);
  await rig.untilStatus(deviceId, ({ position }) => position === 'middle');

  await device.client.publishAsync(topics.status, '{"status":"offline"}', { qos: 1 });
  await rig.untilStatus(deviceId, ({ online }) => !online);
  expect(device.heard, 'the command once, and nothing else').toHaveLength(1);
  await device.leave();
  watch.terminate();
}
