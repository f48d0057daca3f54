// What an operator does from the console: search, sign-up, whole accounts, credentials at a broker. Long work goes slice by slice,
// each by the use case that the account itself would call, so that sessions, broker and records stay one.
import { listKeyIds } from '../../db/accounts/api-keys.ts';
import { disableUser, eraseUser, writeSetting } from '../../db/accounts/operator.ts';
import {
  findDevicesNamed,
  listDevicesAfter,
  updateRecord,
  type DeviceFilter,
  type DeviceInRowOrder,
} from '../../db/devices/devices.ts';
import { findUser, findUserByName, type UserRow } from '../../db/accounts/users.ts';
import { inPerson } from '../../domain/access.ts';
import { foldName } from '../../domain/names.ts';
import { notFound, rateLimited, RefusedError } from '../../domain/refusal.ts';
import { log } from '../../log.ts';
import { forgetRevokedUsers } from '../../objects/calls/revoked-users.ts';
import { tellRelays } from '../../objects/calls/stubs.ts';
import type { AccountName, AccountSlice, Found, Slice, SliceDone } from '../../protocol/operator.ts';
import { provisionAtBroker } from '../broker/provisioning.ts';
import type { ServiceContext } from '../../context.ts';
import { deleteDevice, changeDevice } from '../devices/devices.ts';
import { viewsOf } from '../devices/views.ts';
import { sharingOf } from '../devices/sharing.ts';
import { endHomes } from '../accounts/api-keys.ts';
import { issuePasswordReset } from '../accounts/password-resets.ts';
import { pageSecurityEvents } from '../accounts/security-events.ts';
import { setTelling } from '../webhooks.ts';
import { devicesPerSlice, runSlice } from './device-slices.ts';

const lastEvents = { page: 1, size: 10 };

/** The account of a username or e-mail, and the devices of an id or serial number. @throws RefusedError not_found */
export async function findNamed(context: ServiceContext, { name }: AccountName): Promise<Found[]> {
  const db = context.primary();
  const [user, devices] = await Promise.all([findUserByName(db, foldName(name)), findDevicesNamed(db, name.trim())]);
  if (user === undefined && devices.length === 0) throw notFound('account');
  const found: Found[] = [];
  if (user !== undefined) {
    const { id: userId, username, email, disabledAt } = user;
    const { list: events } = await pageSecurityEvents(context, userId, lastEvents);
    found.push({ userId, username, email, state: disabledAt === null ? 'enabled' : 'disabled', events });
  }
  for (const { device, product } of devices) {
    const { deviceId, deviceSN, ownerId } = device;
    const owner = (await findUser(db, ownerId))?.email;
    const views = viewsOf(context, inPerson(ownerId), deviceId);
    const { list: events } = await views.events(lastEvents);
    found.push({ ...(await views.status()), deviceSN, productKey: product.productKey, owner, ownerId, events });
  }
  return found;
}

export async function openSignUp({ primary }: ServiceContext, { open }: { open: boolean }) {
  await writeSetting(primary(), 'sign_up', open ? 'open' : 'closed');
  log('warn', 'operator: sign-up changed', { isOpen: open });
  return { open };
}

export async function issueResetFor(context: ServiceContext, { name }: AccountName) {
  const user = await findAccount(context, name);
  if (user.disabledAt !== null) throw new RefusedError({ kind: 'account_disabled', userId: user.id });
  const reset = await issuePasswordReset(context, user, 'operator');
  if (reset === undefined) throw rateLimited('passwordResetsPerHour', 3_600);
  log('warn', 'operator: password reset issued', { userId: user.id });
  return { userId: user.id, ...reset };
}

/** Login, sessions, API keys and relay sockets end with the first slice; then its devices are disabled. @throws RefusedError not_found */
export async function disableAccount(context: ServiceContext, { name, cursor }: AccountSlice): Promise<SliceDone> {
  const { id: ownerId } = await findAccount(context, name);
  const db = context.primary();
  if (cursor === 0) {
    await revokeAccount(context, ownerId);
    log('warn', 'operator: account disabled', { userId: ownerId });
  }
  return forDevices(context, cursor, { ownerId }, async (device) => {
    // A device that its owner has disabled stays disabled when the account is enabled again.
    if (await isDisabled(context, device)) return;
    await updateRecord(db, device.deviceId, { isDisabledWithAccount: true });
    await changeDevice(context, inPerson(ownerId), device.deviceId, { disabled: true });
  });
}

export async function enableAccount(context: ServiceContext, { name, cursor }: AccountSlice): Promise<SliceDone> {
  const { id: ownerId } = await findAccount(context, name);
  const db = context.primary();
  if (cursor === 0) {
    await disableUser(db, ownerId, null);
    forgetRevokedUsers();
    await setTelling(context, ownerId, 'on');
    log('warn', 'operator: account enabled', { userId: ownerId });
  }
  return forDevices(context, cursor, { ownerId, isDisabledWithAccount: true }, async ({ deviceId }) => {
    await changeDevice(context, inPerson(ownerId), deviceId, { disabled: false });
    await updateRecord(db, deviceId, { isDisabledWithAccount: false });
  });
}

/**
 * Its memberships and devices first, then the rest. If some of them remain, the account stays disabled and can be deleted
 * again.
 */
export async function deleteAccount(context: ServiceContext, { name, cursor }: AccountSlice): Promise<SliceDone> {
  const { id: ownerId } = await findAccount(context, name);
  const db = context.primary();
  if (cursor === 0) await revokeAccount(context, ownerId);
  const byOperator = { ...context, clientAddress: 'operator' };
  const taken = await takeHoldings(byOperator, ownerId, cursor, ({ deviceId }) =>
    deleteDevice(context, inPerson(ownerId), deviceId),
  );
  const { cursor: next, failed } = taken;
  if (next === null && failed === 0 && (await listDevicesAfter(db, 0, 1, { ownerId })).length === 0) {
    await setTelling(context, ownerId, 'deleted');
    await eraseUser(db, ownerId, Date.now());
    log('warn', 'operator: account deleted', { userId: ownerId });
  }
  return taken;
}

/** A slice of the user's memberships, and of the devices, which `end` ends. */
export async function takeHoldings(
  context: ServiceContext,
  userId: number,
  cursor: number,
  end: (device: DeviceInRowOrder) => Promise<unknown>,
  size = devicesPerSlice,
): Promise<SliceDone> {
  const leave = ({ deviceId }: DeviceInRowOrder) => sharingOf(context, inPerson(userId), deviceId).remove(userId);
  const left = await forDevices(context, 0, { memberId: userId }, leave, size);
  const own = await forDevices(context, cursor, { ownerId: userId }, end, size);
  const next = own.cursor ?? (left.cursor !== null && left.done > 0 ? cursor : null);
  return { done: left.done + own.done, failed: left.failed + own.failed, cursor: next };
}

/** When it returns, no session, API key or relay socket of the user is left; access tokens end within two seconds. */
export async function revokeAccount(context: ServiceContext, userId: number): Promise<void> {
  await disableUser(context.primary(), userId, Date.now());
  forgetRevokedUsers();
  await tellRelays(context.env, (relay) => relay.endUser(userId));
  await endHomes(context, await listKeyIds(context.primary(), userId));
  await setTelling(context, userId, 'off');
}

/** Messaging passwords are not stored: a device whose account the broker lost has to activate again. */
export async function pushCredentials(context: ServiceContext, { cursor }: Slice): Promise<SliceDone> {
  if (context.config.broker.provisioning === 'none') return { done: 0, failed: 0, cursor: null };
  return forDevices(context, cursor, {}, async (device) => {
    const kind = (await isDisabled(context, device)) ? 'disable' : 'upsert';
    await provisionAtBroker(context, device, { kind }, Date.now());
  });
}

async function findAccount({ primary }: ServiceContext, name: string): Promise<UserRow> {
  const user = await findUserByName(primary(), foldName(name));
  if (user === undefined) throw notFound('account');
  return user;
}

async function isDisabled(context: ServiceContext, { deviceId, ownerId }: DeviceInRowOrder): Promise<boolean> {
  return (await viewsOf(context, inPerson(ownerId), deviceId).status()).status === 'disabled';
}

async function forDevices(
  context: ServiceContext,
  cursor: number,
  filter: DeviceFilter,
  act: (device: DeviceInRowOrder) => Promise<unknown>,
  size = devicesPerSlice,
): Promise<SliceDone> {
  const devices = await listDevicesAfter(context.primary(), cursor, size, filter);
  const { results, ...slice } = await runSlice(devices, size, act);
  return { done: results.length, ...slice };
}
