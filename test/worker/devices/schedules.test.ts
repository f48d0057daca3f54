// Schedules, runs and leases over HTTP and through the real object and its alarm. The rules of due times are tested on the core:
// test/unit/device/times.test.ts.
import { runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { describe, expect, it, vi } from 'vitest';
import { runScheduledJobs } from '../../../src/scheduled.ts';
import { bringUp } from '../rig/clients/bridge.ts';
import { call, type Answer } from '../rig/clients/client.ts';
import {
  activate,
  activateOnline,
  control,
  down,
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
import { sessionOf } from '../rig/provision.ts';

type Schedule = Record<string, unknown> & { scheduleId: string };
type Run = { runId: string; outcome: string; reason: string | null; dueAt: string; commandId: string };

const hourMs = 3_600_000;
const recurring = { command: up, at: '07:30', zone: 'Europe/Berlin', days: ['sat', 'mon'] };

const ask = <T>(method: string, { deviceId }: Device, path: string, body?: unknown): Promise<Answer<T>> =>
  call<T>(method, `/devices/${deviceId}${path}`, { token: owner.token, ...(body !== undefined && { body }) });
const make = (device: Device, body: unknown) => ask<Schedule>('POST', device, '/schedules', body);
const runsOf = async (device: Device) => (await ask<{ list: Run[]; dropped: number }>('GET', device, '/runs')).data;
const leaseOf = async (device: Device) => (await ask<{ lease?: object }>('GET', device, '/status')).data.lease;
const inMs = (ms: number) => new Date(Date.now() + ms).toISOString();

prepareOwnerAndBridge();

describe('a schedule', () => {
  it('is made, read, replaced, paused, resumed and removed', async () => {
    const device = await activate();
    const { data: made } = await make(device, recurring);
    const plain = { from: null, until: null, except: [], pausedBecause: null, why: null, name: '', enabled: true };
    const times = { at: '07:30', days: ['mon', 'sat'], zone: 'Europe/Berlin', jitterSeconds: 120, graceSeconds: 60 };
    expect(made).toMatchObject({ ...plain, ...times, command: up, author: { userId: owner.userId, withKey: false } });
    expect(made['nextDueAt']).toMatch(/T0[56]:30:00\.000Z$/);
    const path = `/schedules/${made.scheduleId}`;
    expect((await ask('GET', device, path)).data).toEqual(made);
    const sun = { sun: 'sunset', offsetMinutes: -15, place: { latitude: 52.5163, longitude: 13.3777 } };
    const replaced = await ask('PUT', device, path, { ...recurring, at: sun, name: 'Evening', days: null });
    const at = { ...sun, place: { latitude: 52.5, longitude: 13.4 } };
    expect(replaced.data).toMatchObject({ scheduleId: made.scheduleId, name: 'Evening', at });
    expect((await ask('POST', device, `${path}/pause`)).data).toMatchObject({ enabled: false, pausedBecause: 'user' });
    expect((await ask('POST', device, `${path}/resume`)).data).toMatchObject({ enabled: true, pausedBecause: null });
    expect((await ask('GET', device, '/schedules')).data).toMatchObject({ total: 1, list: [{ name: 'Evening' }] });
    expect((await ask('DELETE', device, path)).data).toEqual({ scheduleId: made.scheduleId });
    for (const operation of ['GET ', 'PUT ', 'DELETE ', 'POST /run']) {
      const [method = '', more = ''] = operation.split(' ');
      const body = method === 'PUT' ? recurring : undefined;
      expect(await ask(method, device, path + more, body)).toMatchObject({ code: 404 });
    }
  });

  it.each([
    ['zone: must be the name', { ...recurring, zone: 'Mars/Olympus' }],
    ['zone: must be the name', { ...recurring, zone: undefined }],
    ['zone: must be the name', { command: up, at: '2099-12-01T18:30' }],
    ['at: must be a time', { ...recurring, at: '24:00' }],
    ['at: must be a time', { ...recurring, at: '2099-02-30T18:30' }],
    ['at: runs once', { ...recurring, at: '2099-12-01T18:30' }],
    ['at: never comes', { command: up, at: '2020-01-01T00:00:00Z' }],
    ['at: never comes', { ...recurring, until: '2020-01-01' }],
    ['graceSeconds: must be at most 10', { ...recurring, command: { action: 'pulse' }, graceSeconds: 60 }],
    ['every: unknown member', { ...recurring, every: 'day' }],
  ])('is refused: %s', async (problem, body) => {
    const { code, message } = await make(await activate(), body);
    expect({ code, message }).toEqual({
      code: 400,
      message: expect.stringContaining(`invalid_request: ${problem}`) as string,
    });
  });

  it('says what lies ahead, made or not, and why a clock is odd', async () => {
    const device = await activate();
    const local = { command: up, at: '2027-03-28T02:30', zone: 'Europe/Berlin' };
    const why = '02:30 does not exist on 2027-03-28 in Europe/Berlin; runs at 03:30';
    const due = { dueAt: '2027-03-28T01:30:00.000Z', why, skipped: null };
    expect((await ask('POST', device, '/schedules/next', local)).data).toEqual({ list: [due] });
    const { data: made } = await make(device, local);
    expect(made).toMatchObject({ at: due.dueAt, why, zone: null, jitterSeconds: 0 });
    const daily = { ...recurring, days: null, at: '02:30', from: '2027-03-28', except: ['2027-03-30'], enabled: false };
    await make(device, daily);
    const { data } = await ask<{ list: object[] }>('GET', device, '/schedules/next?count=4');
    const paused = { ...due, skipped: 'paused' };
    expect(data.list).toMatchObject([due, paused, { skipped: 'paused', why: null }, { skipped: 'excepted' }]);
    expect(await ask('GET', device, '/schedules/next?count=0')).toMatchObject({ code: 400 });
  });

  it('presses once by its alarm, and its run is confirmed with the command, also after a sleep', async () => {
    const device = await activateOnline();
    const { data: made } = await make(device, { command: up, at: inMs(hourMs), name: 'Once' });
    await sleep(device);
    setClock(Date.now() + hourMs + 1);
    await ring(device);
    await ring(device);
    const { id } = await nextCommand(device);
    await sleep(device);
    expect(await runsOf(device)).toMatchObject({ list: [{ outcome: 'running', commandId: id }], dropped: 0 });
    await bringUp(device, reply(id, 200), report({ position: 'up' }));
    const { scheduleId, nextDueAt: dueAt } = made;
    const runId = `${scheduleId}:${Date.parse(dueAt as string)}`;
    const run = { runId, scheduleId, name: 'Once', dueAt, outcome: 'confirmed', reason: null, commandId: id };
    expect(await runsOf(device)).toMatchObject({ total: 1, list: [run] });
    expect(await read(device, id)).toMatchObject({ state: 'confirmed', scheduleId });
    expect(unheard(device)).toEqual([]);
  });

  it('is refused beyond 32 and 8 of a device, and so is a run beyond 48 open ones', async () => {
    const device = await activateOnline();
    const { data: made } = await make(device, { ...recurring, command: { action: 'pulse' } });
    for (let count = 1; count < 32; count++) expect(await make(device, recurring)).toMatchObject({ code: 200 });
    const soon = { command: up, at: inMs(hourMs) };
    for (let count = 0; count < 8; count++) expect(await make(device, soon)).toMatchObject({ code: 200 });
    const refused = { code: 400, message: expect.stringMatching(/^too_many_schedules/) as string };
    expect(await make(device, recurring)).toMatchObject(refused);
    expect(await make(device, soon)).toMatchObject({
      ...refused,
      message: 'too_many_schedules: at most 8 that run once',
    });
    const path = `/schedules/${made.scheduleId}`;
    expect(await ask('PUT', device, path, soon)).toMatchObject(refused);
    const run = () => ask<{ runId: string }>('POST', device, `${path}/run`);
    // None of them ends meanwhile, however slow the machine is.
    setClock(Date.now());
    const runIds = new Set<string>();
    while (runIds.size < 48) runIds.add((await run()).data.runId);
    const answer = await run();
    expect(answer).toMatchObject({ code: 429, message: 'too_many_requests' });
    expect(answer.headers.get('Retry-After')).toBe('10');
  });

  it('runs by request, beside its due times', async () => {
    const device = await activateOnline();
    const { data: made } = await make(device, { ...recurring, enabled: false });
    const { data: run } = await ask<Run>('POST', device, `/schedules/${made.scheduleId}/run`);
    const { id } = await nextCommand(device);
    expect(run).toMatchObject({ outcome: 'running', reason: null, commandId: id });
    await bringUp(device, reply(id, 500));
    expect((await runsOf(device)).list).toMatchObject([{ ...run, outcome: 'refused', reason: 'device replied 500' }]);
  });
});

const dueInD1 = async ({ deviceId }: Device) =>
  env.DB.prepare('select due_at from devices where device_id = ?').bind(deviceId).first<number>('due_at');

it('the next due time in D1 follows each change, and wakes a device whose alarm was lost', async () => {
  const device = await activateOnline();
  const { data: made } = await make(device, { command: up, at: inMs(hourMs), graceSeconds: 600 });
  const later = await make(device, { command: down, at: inMs(3 * hourMs) });
  const dueAt = (schedule: Schedule) => Date.parse(schedule['nextDueAt'] as string);
  await vi.waitFor(async () => expect(await dueInD1(device)).toBe(dueAt(made)));
  const loseAlarm = () => runInDurableObject(sessionOf(device.deviceId), (_, { storage }) => storage.deleteAlarm());
  await loseAlarm();
  setClock(dueAt(made) + 119_000);
  await runScheduledJobs(env);
  expect(unheard(device)).toEqual([]);
  setClock(dueAt(made) + 121_000);
  await runScheduledJobs(env);
  expect(await nextCommand(device)).toMatchObject({ params: up });
  await vi.waitFor(async () => expect(await dueInD1(device)).toBe(dueAt(later.data)));
  const getAlarm = () => runInDurableObject(sessionOf(device.deviceId), (_, { storage }) => storage.getAlarm());
  expect(await getAlarm()).not.toBeNull();
  await ask('DELETE', device, `/schedules/${later.data.scheduleId}`);
  setClock(dueAt(made) + 130_000);
  await ring(device);
  await vi.waitFor(async () => expect(await dueInD1(device)).toBeNull());
});

describe('a lease', () => {
  const lease = (seconds = 600) => ({ seconds, then: down });
  const begin = async (device: Device, seconds = 600) => {
    await control(device, { ...up, lease: lease(seconds) });
    const { id } = await nextCommand(device);
    await bringUp(device, reply(id, 200), report({ position: 'up' }));
    return id;
  };

  it('is shown, pursued beyond its end until a report shows it, and a run then', async () => {
    const device = await activateOnline();
    const commandId = await begin(device);
    const running = { state: 'running', attempts: 0, then: down, commandId, lastCommandId: null };
    expect(await leaseOf(device)).toMatchObject({ ...running, endsAt: expect.stringMatching(/Z$/) as string });
    await sleep(device);
    setClock(Date.now() + 601_000);
    await ring(device);
    const { id } = await nextCommand(device);
    await bringUp(device, reply(id, 200));
    expect(await leaseOf(device)).toMatchObject({ state: 'pursuing', attempts: 1, lastCommandId: id });
    await bringUp(device, report({ position: 'down' }));
    expect(await leaseOf(device)).toBeUndefined();
    expect((await runsOf(device)).list).toMatchObject([{ scheduleId: 'lease', outcome: 'confirmed', commandId: id }]);
    expect(await read(device, id)).toMatchObject({ scheduleId: 'lease', state: 'confirmed' });
  });

  it('is ended by its user, once', async () => {
    const device = await activateOnline();
    await begin(device);
    const { deviceId } = device;
    expect(await ask('DELETE', device, '/lease')).toMatchObject({ code: 200, data: { deviceId } });
    expect(await ask('DELETE', device, '/lease')).toMatchObject({ code: 404, message: 'not_found' });
    expect(await leaseOf(device)).toBeUndefined();
  });

  it('is begun once by a repeated request', async () => {
    const device = await activateOnline();
    const headers = { 'Idempotency-Key': 'lease-1' };
    const [first, again] = [
      await control(device, { ...up, lease: lease() }, '', headers),
      await control(device, { ...up, lease: lease() }, '', headers),
    ];
    expect(again.data.commandId).toBe(first.data.commandId);
    expect(await control(device, { ...up, lease: lease(700) }, '', headers)).toMatchObject({ code: 400 });
    expect(await leaseOf(device)).toMatchObject({ commandId: first.data.commandId });
  });

  it.each([
    { ...up, lease: lease(4) },
    { ...up, lease: lease(86_401) },
    { ...up, lease: { seconds: 60 } },
    { ...up, lease: { ...lease(), hold: true } },
    { ...up, lease: { seconds: 60, then: { action: 'pulse' } } },
    { ...up, lease: { seconds: 60, then: { angle: 90 } } },
    { action: 'trigger', lease: lease() },
    { switch: true, lease: lease() },
  ])('that cannot be is refused: %j', async (body) => {
    expect(await control(await activate(), body)).toMatchObject({ code: 400 });
  });

  it('reaches firmware as `holdSeconds` if its product says so', async () => {
    const device = await activateOnline();
    const { productKey } = device;
    const hold = () => control(device, { ...up, lease: lease() });
    await hold();
    expect((await nextCommand(device)).params).toEqual(up);
    const changed = await call('PUT', `/products/${productKey}`, { token: owner.token, body: { supportsHold: true } });
    expect(changed).toMatchObject({ data: { supportsHold: true } });
    // The device learns it in the background.
    await vi.waitFor(async () => {
      await hold();
      expect(await nextCommand(device)).toMatchObject({ params: { ...up, holdSeconds: 600 } });
    });
    await control(device, up);
    expect((await nextCommand(device)).params).toEqual(up);
  });
});
