// The witness of a device over HTTP, with two devices' objects between which readings go. What is decided: test/unit/witness.
import { exports } from 'cloudflare:workers';
import { beforeAll, describe, expect, it } from 'vitest';
import { bringUp } from '../rig/clients/bridge.ts';
import { call, createUser, makeDevice, type TestUser } from '../rig/clients/client.ts';
import {
  activateOnline,
  control,
  nextCommand,
  owner,
  prepareOwnerAndBridge,
  read,
  reply,
  report,
  ring,
  setClock,
  sleep,
  unheard,
  up,
  type Device,
} from '../rig/commands.ts';
import { makeOpen } from '../rig/guest-links.ts';
import { handOver } from '../rig/ownership.ts';
import { remove, share } from '../rig/sharing.ts';

type Outcome = { outcome: string; reason: string | null; by: string | null; at: string | null };
type Seen = Awaited<ReturnType<typeof read>> & { final: boolean; retryOf: string | null; witness: Outcome | null };

const pulse = { action: 'pulse' };
const ensure = (value: string) => ({ action: 'ensure', value });
let friend: TestUser;

prepareOwnerAndBridge();
beforeAll(async () => void (friend = await createUser()));

const ask = <T>(method: string, { deviceId }: Device, part: string, user = owner, body?: object) =>
  call<T>(method, `/devices/${deviceId}/${part}`, { token: user.token, ...(body && { body }) });
const by = ({ deviceId }: Device) => ({ deviceId, property: 'power', operator: '>', value: 20 });
const settings = (seer: object, more: object = {}) => ({
  ...{ expect: 'on', by: seer, withinSeconds: 30, then: 'nothing', ...more },
});
const put = (device: Device, body: object, user = owner) =>
  ask<{ checkInUrl?: string }>('PUT', device, 'witness', user, body);
const reportPower = (plug: Device, power: number) => bringUp(plug, report({ power }));
const actualOf = async (device: Device) =>
  (await ask<{ actual?: { value: string; by: string } | null }>('GET', device, 'status')).data.actual;
const seen = async (device: Device, commandId: string) => (await read(device, commandId)) as Seen;
const press = async (device: Device, body: object = pulse) => (await control(device, body)).data.commandId;

/** Two of the owner's devices, of which the second is the witness of the first. */
async function withPlug(more: object = {}) {
  const [device, plug] = [await activateOnline(), await activateOnline()];
  expect(await put(device, settings(by(plug), more))).toMatchObject({ code: 200 });
  return { device, plug };
}

/** Time passes until its witness was asked for the last time. */
async function outcomeOf(device: Device, commandId: string): Promise<Seen> {
  setClock(Date.now() + 32_000);
  await ring(device);
  await expect.poll(async () => (await seen(device, commandId)).witness?.outcome).toBe('not_witnessed');
  return seen(device, commandId);
}

describe('another device', () => {
  it('shows that a press worked: who waits is told, and the command is not final before', async () => {
    const { device, plug } = await withPlug();
    await reportPower(plug, 1);
    await expect.poll(() => actualOf(device)).toMatchObject({ value: 'off', reading: 1, by: plug.deviceId });
    const answer = control(device, pulse, '?wait=10&until=witnessed');
    const { id } = await nextCommand(device);
    await bringUp(device, reply(id, 200));
    expect(await seen(device, id)).toMatchObject({
      ...{ state: 'acknowledged', final: false, witness: { outcome: 'pending' } },
    });
    await sleep(plug);
    await reportPower(plug, 34);
    const witness = { outcome: 'witnessed', by: plug.deviceId, reason: null, expect: 'on' };
    expect(await answer).toMatchObject({ data: { state: 'acknowledged', witness } });
    expect(await seen(device, id)).toMatchObject({
      final: true,
      witness,
      steps: { witnessed: expect.any(Number) as number },
    });
    expect(await actualOf(device)).toMatchObject({ value: 'on', reading: 34, ageSeconds: 0 });
    expect(await ask('GET', device, 'witness')).toMatchObject({ data: { expect: 'on', actual: { value: 'on' } } });
    expect(await ask('DELETE', device, 'witness')).toMatchObject({ code: 200 });
    expect(await ask('GET', device, 'witness')).toMatchObject({ code: 404, message: 'not_found' });
    expect(await actualOf(device)).toBeUndefined();
  });

  it('is asked once more at the end, and what follows is what was set', async () => {
    const { device, plug } = await withPlug({ then: 'notice' });
    await reportPower(plug, 1);
    const pressed = await outcomeOf(device, await press(device));
    expect(pressed).toMatchObject({ final: true, witness: { reason: 'not_seen', at: null } });
    type Notices = { list: { cause: string; detail: object }[] };
    const told = async () => (await call<Notices>('GET', '/users/me/notices', { token: owner.token })).data.list[0];
    await expect.poll(told).toMatchObject({ cause: 'not_witnessed', detail: { expected: 'on' } });
    await put(device, settings(by(plug), { then: 'retry_once' }));
    await outcomeOf(device, await press(device));
    const commandId = await press(device, up);
    await outcomeOf(device, commandId);
    const sent = unheard(device).map(({ params }) => params);
    expect(sent).toEqual([pulse, pulse, up, up]);
    const { list } = (await ask<{ list: Seen[] }>('GET', device, 'commands')).data;
    expect(list.map(({ retryOf }) => retryOf)).toEqual([commandId, null, null, null]);
  });

  it('is told of nowhere if it is foreign, and reads nothing once the right is withdrawn', async () => {
    const device = await activateOnline();
    const plug = await makeDevice(friend);
    expect(await put(device, settings(by(plug)))).toMatchObject({ code: 403, message: 'forbidden' });
    const none = { deviceId: 'dev_00000000' };
    expect(await put(device, settings(by(none as Device)))).toMatchObject({ code: 404, message: 'device_not_found' });
    expect(await put(device, settings(by(device)))).toMatchObject({ code: 400 });
    expect(await ask('GET', device, 'witness')).toMatchObject({ code: 404 });
    await share(plug, owner, 'viewer', friend);
    expect(await put(device, settings(by(plug)))).toMatchObject({ code: 200 });
    await reportPower(plug, 34);
    await expect.poll(() => actualOf(device)).toMatchObject({ value: 'on' });
    await remove(plug, owner, friend);
    const commandId = await press(device);
    await reportPower(plug, 1);
    expect((await outcomeOf(device, commandId)).witness).toMatchObject({ reason: 'forbidden' });
    expect(await actualOf(device)).toMatchObject({ value: 'on', reading: 34 });
  });

  it('is not read any more for a member who set it and may not control the device now', async () => {
    const device = await activateOnline();
    const plug = await makeDevice(friend);
    await share(device, friend, 'operator', owner);
    expect(await put(device, settings(by(plug)), friend)).toMatchObject({ code: 200 });
    await remove(device, friend, owner);
    const commandId = await press(device);
    await reportPower(plug, 34);
    expect((await outcomeOf(device, commandId)).witness).toMatchObject({ reason: 'forbidden' });
    expect(await actualOf(device)).toBeNull();
  });

  it('may be deleted, and so may the device that it watches', async () => {
    const { device, plug } = await withPlug();
    await call('DELETE', `/devices/${plug.deviceId}`, { token: owner.token });
    expect((await outcomeOf(device, await press(device))).witness).toMatchObject({ reason: 'forbidden' });
    const other = await withPlug();
    await call('DELETE', `/devices/${other.device.deviceId}`, { token: owner.token });
    expect(await reportPower(other.plug, 34)).toMatchObject([{ result: 'accepted' }]);
  });

  it('has eight watchers; one that has another witness makes room', async () => {
    const { device, plug } = await withPlug();
    await reportPower(plug, 1);
    const others = await Promise.all(Array.from({ length: 8 }, () => activateOnline()));
    for (const other of others.slice(1)) expect(await put(other, settings(by(plug)))).toMatchObject({ code: 200 });
    const ninth = () => put(others[0]!, settings(by(plug)));
    expect(await ninth()).toMatchObject({ code: 400, message: expect.stringMatching(/^too_many_witnesses/) as string });
    await ask('DELETE', device, 'witness');
    await expect.poll(async () => (await ninth()).code).toBe(200);
  });
});

it('a counter of the device itself has to change', async () => {
  const device = await activateOnline();
  await put(device, settings({ property: 'presses' }, { expect: 'pressed' }));
  await bringUp(device, report({ presses: 7 }));
  const commandId = await press(device);
  await bringUp(device, report({ presses: 7 }));
  expect((await seen(device, commandId)).witness).toMatchObject({ outcome: 'pending' });
  await bringUp(device, report({ presses: 8 }));
  expect((await seen(device, commandId)).witness).toMatchObject({ outcome: 'witnessed', by: 'property' });
  expect(await actualOf(device)).toMatchObject({ value: 'pressed', reading: 8 });
});

describe('a check-in', () => {
  const visit = async (url: string, method = 'POST') => {
    const response = await exports.default.fetch(new Request(url, { method }));
    return { status: response.status, text: await response.text() };
  };

  it('is a POST to an address that is shown once, ten a minute, and ends with the next witness', async () => {
    const device = await activateOnline();
    const { checkInUrl = '' } = (await put(device, settings({ checkIn: true }))).data;
    expect((await ask<object>('GET', device, 'witness')).data).not.toHaveProperty('checkInUrl');
    const commandId = await press(device);
    expect(await visit(checkInUrl, 'GET')).toMatchObject({ status: 404 });
    expect((await visit(checkInUrl, 'GET')).text).not.toContain(device.deviceId);
    const guessed = checkInUrl.slice(0, -1) + (checkInUrl.endsWith('A') ? 'B' : 'A');
    const guest = (await makeOpen(device)).url;
    for (const wrong of [guessed, checkInUrl.slice(0, -1), guest.replace('/g/', '/w/')])
      expect(await visit(wrong), wrong).toMatchObject({ status: 404 });
    expect(await visit(checkInUrl.replace('/w/', '/g/'), 'GET')).toMatchObject({ status: 404 });
    expect((await seen(device, commandId)).witness).toMatchObject({ outcome: 'pending' });
    setClock(Date.now() + 1_000);
    expect(await visit(checkInUrl)).toEqual({ status: 204, text: '' });
    expect((await seen(device, commandId)).witness).toMatchObject({ outcome: 'witnessed', by: 'check_in' });
    for (let more = 2; more <= 10; more++) expect((await visit(checkInUrl)).status).toBe(204);
    expect((await visit(checkInUrl)).status).toBe(429);
    const next = (await put(device, settings({ checkIn: true }))).data.checkInUrl ?? '';
    expect([(await visit(checkInUrl)).status, (await visit(next)).status]).toEqual([404, 204]);
  });

  it('ends with the ownership of the device', async () => {
    const device = await activateOnline();
    const { checkInUrl = '' } = (await put(device, settings({ checkIn: true }))).data;
    await handOver(device.deviceId, owner, friend);
    expect(await ask('GET', device, 'witness', friend)).toMatchObject({ code: 404, message: 'not_found' });
    expect(await visit(checkInUrl)).toMatchObject({ status: 404 });
    expect((await put(device, settings({ property: 'presses' }), friend)).code).toBe(200);
  });
});

it('ensure presses only if the appliance was just seen to be otherwise', async () => {
  const { device, plug } = await withPlug();
  const unknown = { code: 400, message: 'state_unknown' };
  expect(await control(device, ensure('on'))).toMatchObject(unknown);
  setClock(Date.now() + 1_000);
  await reportPower(plug, 34);
  await expect.poll(() => actualOf(device)).toMatchObject({ value: 'on' });
  await sleep(device);
  const actual = { value: 'on', by: plug.deviceId };
  expect(await control(device, ensure('on'))).toMatchObject({ data: { message: 'not_needed', actual } });
  const key = { 'Idempotency-Key': 'evening' };
  const { commandId } = (await control(device, { ...ensure('off'), press: 'trigger' }, '', key)).data;
  expect(await control(device, { ...ensure('off'), press: 'trigger' }, '', key)).toMatchObject({ data: { commandId } });
  expect(await control(device, ensure('off'))).toMatchObject(unknown);
  setClock(Date.now() + 1_000);
  // Still on: it may go off any moment.
  await reportPower(plug, 34);
  expect(await control(device, ensure('off'))).toMatchObject(unknown);
  setClock(Date.now() + 1_000);
  await reportPower(plug, 1);
  await expect.poll(async () => (await seen(device, commandId)).witness?.outcome).toBe('witnessed');
  expect(await control(device, ensure('off'))).toMatchObject({ data: { message: 'not_needed' } });
  expect(unheard(device).map(({ params }) => params)).toEqual([{ action: 'trigger' }]);
  setClock(Date.now() + 31_000);
  expect(await control(device, ensure('off'))).toMatchObject(unknown);
});
