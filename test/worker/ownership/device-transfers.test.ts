// Devices that leave their owner (decision: ownership): released, handed to somebody else, or given back to their maker.
import { env } from 'cloudflare:workers';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { inPerson } from '../../../src/domain/access.ts';
import { call, type Answer, type CallOptions, type TestUser } from '../rig/clients/client.ts';
import {
  maker,
  anna,
  bert,
  abroad,
  createProduct,
  handOver,
  isWorking,
  openWindow,
  tokenOf,
  activate,
  claimed,
  logIn,
  as,
  read,
  eventsOf,
  listed,
  refused,
  signUpUsers,
} from '../rig/ownership.ts';
import { sessionOf } from '../rig/provision.ts';
import { share } from '../rig/sharing.ts';

beforeAll(signUpUsers);

it('a release and a claim at the same moment leave one truth', async () => {
  for (let round = 0; round < 6; round++) {
    const { deviceId, productKey } = await claimed();
    const token = await tokenOf(bert);
    const [release, claim] = await Promise.all([
      call('POST', `/devices/${deviceId}/release`, as(anna)),
      activate(productKey, token),
    ]);
    expect(release.status).toBe(200);
    const isBerts = claim.status === 200;
    if (!isBerts) expect(claim).toMatchObject(refused);
    expect((await read(bert, deviceId)).status).toBe(isBerts ? 200 : 403);
    expect((await read(anna, deviceId)).status).toBe(403);
    expect(await listed(isBerts ? bert : maker)).toContain(deviceId);
    if (isBerts) expect(await logIn(claim.data.mqtt)).toBe('accepted');
  }
});

it('a release is not used up by a stranger who activates first', async () => {
  const { deviceId, productKey } = await claimed({ reactivation: 'owner' });
  await call('POST', `/devices/${deviceId}/release`, as(anna));
  const { data: stranger } = await activate(productKey, undefined, {}, abroad);
  const bought = await activate(productKey, await tokenOf(bert));
  expect(bought).toMatchObject({ status: 200, data: { deviceId } });
  expect(await isWorking(stranger)).toBe(false);
});

it('a former owner deletes no device, and reads no list of it, while the database lags', async () => {
  const { deviceId } = await claimed();
  await handOver(deviceId);
  await env.DB.prepare('update devices set owner_id = ? where device_id = ?').bind(anna.userId, deviceId).run();
  for (const path of ['/members', '/invitations']) {
    expect((await call('GET', `/devices/${deviceId}${path}`, as(anna))).status, path).toBe(403);
  }
  expect(await call('DELETE', `/devices/${deviceId}`, as(anna))).toMatchObject({ status: 403 });
  expect((await read(bert, deviceId)).status).toBe(200);
});

describe('a transfer', () => {
  const offer = (deviceId: string, email: string, user = anna) =>
    call('POST', `/devices/${deviceId}/transfer`, { ...as(user), body: { email } });
  const accept = (deviceId: string, user: TestUser) => call('POST', `/devices/${deviceId}/transfer/accept`, as(user));

  it('leaves no password that a person was shown, nor the device secret', async () => {
    const { deviceId, productKey, deviceSecret, mqtt } = await claimed({ reactivation: 'secret' });
    expect(await logIn(mqtt)).toBe('accepted');
    const { data: renewed } = await activate(productKey, undefined, { deviceSecret });
    await logIn(renewed.mqtt);
    expect(await handOver(deviceId)).toEqual({ deviceId, mustRenew: true });
    for (const password of [mqtt, renewed.mqtt]) expect(await logIn(password)).toBe('invalid_password');
    const mustRenew = async () =>
      (await call<{ mustRenew: boolean }>('GET', `/devices/${deviceId}/ownership`, as(bert))).data.mustRenew;
    expect(await mustRenew()).toBe(true);
    const former = { deviceSecret: renewed.deviceSecret };
    expect(await activate(productKey, undefined, former)).toMatchObject(refused);
    expect(await activate(productKey, await tokenOf(anna), former)).toMatchObject(refused);
    await openWindow(bert, deviceId);
    expect(await activate(productKey)).toMatchObject({ status: 200 });
    expect(await mustRenew()).toBe(false);
  });

  it('makes who accepts it the owner; the device goes on working with its password, and no other one', async () => {
    const productKey = await createProduct({ reactivation: 'secret' });
    const { deviceId, deviceSecret, mqtt } = (await activate(productKey)).data;
    const { data: other } = await activate(productKey, undefined, { deviceSecret });
    await logIn(mqtt);
    const offered = await offer(deviceId, bert.email.toUpperCase(), maker);
    expect(offered).toMatchObject({ status: 200, data: { deviceId } });
    const incoming = await call('GET', '/devices/transfers', as(bert));
    expect(incoming).toMatchObject({ data: { total: 1, list: [{ deviceId, productKey, from: maker.email }] } });
    expect((await read(bert, deviceId)).status, 'not yet').toBe(403);
    expect(await accept(deviceId, bert)).toMatchObject({ status: 200, data: { deviceId, mustRenew: false } });
    expect(await read(bert, deviceId)).toMatchObject({ status: 200, data: { online: true } });
    expect((await read(maker, deviceId)).status).toBe(403);
    expect(await listed(bert)).toContain(deviceId);
    expect(await listed(maker)).not.toContain(deviceId);
    expect(await logIn(mqtt)).toBe('accepted');
    expect(await logIn(other.mqtt)).toBe('invalid_password');
    expect(await eventsOf(bert, deviceId)).toContainEqual(
      expect.objectContaining({ status: 'ownership', reason: 'transferred', address: expect.any(String) as string }),
    );
    const former = { deviceSecret: other.deviceSecret };
    expect(await activate(productKey, undefined, former), 'the secret ended').toMatchObject(refused);
    expect(await call('GET', '/devices/transfers', as(bert))).toMatchObject({ data: { total: 0 } });
    expect(await accept(deviceId, bert), 'once').toMatchObject({ status: 404 });
  });

  it('to an e-mail without an account is answered like one to an account', async () => {
    const { deviceId } = await claimed();
    const shapeOf = ({ status, message, data }: Answer<unknown>) => [status, message, Object.keys(data as object)];
    const known = await offer(deviceId, bert.email);
    const unknown = await offer(deviceId, 'nobody@example.test');
    expect(shapeOf(unknown)).toEqual(shapeOf(known));
    expect(await call('GET', `/devices/${deviceId}/ownership`, as(anna))).toMatchObject({
      data: { transfer: { email: 'nobody@example.test' } },
    });
    expect(await accept(deviceId, bert), 'the second took the place of the first').toMatchObject({ status: 404 });
  });

  it('can be declined, withdrawn, and is over after seven days', async () => {
    const { deviceId } = await claimed();
    await offer(deviceId, bert.email);
    expect((await call('POST', `/devices/${deviceId}/transfer/decline`, as(bert))).status).toBe(200);
    expect((await accept(deviceId, bert)).status).toBe(404);
    await offer(deviceId, bert.email);
    expect((await call('DELETE', `/devices/${deviceId}/transfer`, as(anna))).status).toBe(200);
    expect((await accept(deviceId, bert)).status).toBe(404);
    expect((await call('DELETE', `/devices/${deviceId}/transfer`, as(anna))).status).toBe(404);
    await offer(deviceId, bert.email);
    const now = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 7 * 24 * 3_600_000 + 1);
    expect(
      await sessionOf(deviceId).decide({
        kind: 'transfer_answered',
        userId: bert.userId,
        offerId: 'x',
        ...{ isAccepted: true, address: null },
      }),
    ).toMatchObject({ ok: false });
    const expired = await accept(deviceId, bert);
    now.mockRestore();
    expect([401, 404], 'the token has expired as well').toContain(expired.status);
    const reasons = (await eventsOf(anna, deviceId)).map(({ reason }) => reason);
    expect(reasons).toEqual(
      expect.arrayContaining(['transfer_offered', 'transfer_declined', 'transfer_withdrawn']) as string[],
    );
  });

  it('refuses who was not asked, an own e-mail and what is no e-mail', async () => {
    const { deviceId } = await claimed();
    await offer(deviceId, bert.email);
    for (const user of [maker, anna]) expect((await accept(deviceId, user)).status).toBe(404);
    for (const email of [anna.email, 'bert']) expect(await offer(deviceId, email)).toMatchObject({ status: 400 });
  });

  it('and a withdrawal, a release or a deletion at the same moment leave one truth', async () => {
    for (const [method, path] of [
      ['DELETE', '/transfer'],
      ['POST', '/release'],
      ['DELETE', ''],
    ] as const) {
      for (let round = 0; round < 3; round++) {
        const { deviceId } = await claimed();
        await offer(deviceId, bert.email);
        const [accepted, removed] = await Promise.all([
          accept(deviceId, bert),
          call(method, `/devices/${deviceId}${path}`, as(anna)),
        ]);
        const isBerts = (await read(bert, deviceId)).status === 200;
        if (path === '/transfer') expect(isBerts).toBe(accepted.status === 200);
        else if (removed.status === 200) expect(isBerts).toBe(false);
        expect(await listed(bert)).toEqual(
          isBerts ? expect.arrayContaining([deviceId]) : expect.not.arrayContaining([deviceId]),
        );
        if (isBerts) expect((await read(anna, deviceId)).status).toBe(403);
      }
    }
  });
});

describe('a claim that the product’s owner undoes', () => {
  const undo = (deviceId: string, who: CallOptions) => call('DELETE', `/devices/${deviceId}/claim`, who);

  it('gives the device back, wiped, and shows nothing of the user who had claimed it', async () => {
    const { deviceId, productKey, mqtt } = await claimed({ reactivation: 'owner' });
    await logIn(mqtt);
    await call('PATCH', `/devices/${deviceId}`, { ...as(anna), body: { name: "Anna's hall" } });
    await share({ deviceId, productKey }, bert, 'operator', anna);
    expect(await undo(deviceId, as(maker))).toMatchObject({ status: 200, data: { deviceId } });
    for (const user of [anna, bert]) {
      expect((await read(user, deviceId)).status).toBe(403);
      expect(await listed(user)).not.toContain(deviceId);
    }
    expect(await logIn(mqtt)).not.toBe('accepted');
    expect(await call('GET', `/devices/${deviceId}`, as(maker))).toMatchObject({ data: { name: 'Switch -1' } });
    const events = await eventsOf(maker, deviceId);
    expect(events.map(({ reason }) => reason)).toContain('claim_undone');
    expect(JSON.stringify(events)).not.toMatch(/Anna|claimed"|joined|online/);
    expect(await activate(productKey, await tokenOf(bert)), 'as after a release').toMatchObject({ status: 200 });
  });

  it('stays for good after 14 days, also if the device was transferred meanwhile', async () => {
    const days = 24 * 3_600_000;
    const [early, late] = [await claimed(), await claimed()];
    await handOver(early.deviceId);
    expect(await undo(early.deviceId, as(maker)), 'an accomplice does not keep it').toMatchObject({ status: 200 });
    await handOver(late.deviceId);
    const clock = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 14 * days);
    const undone = { kind: 'claim_undone', actor: inPerson(maker.userId), defaultName: '', address: null } as const;
    const outcome = await sessionOf(late.deviceId).decide(undone);
    clock.mockRestore();
    expect(outcome).toMatchObject({ ok: false, refusal: { kind: 'invalid_input', path: 'deviceId' } });
    expect(await read(bert, late.deviceId)).toMatchObject({ status: 200 });
  });
});
