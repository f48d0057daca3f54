// Device records for users who have a right on them: list, read, change, new credentials, deletion. Presence here is the projection in
// D1; views.ts reads the present state, control.ts sends commands. A deletion ends the session first, so that no credential is valid
// after the answer, then the record. If a record is left over, an activation or another deletion removes it: the session keeps a
// tombstone for a while.
import { createMessagingPassword } from '../../crypto/messaging-password.ts';
import { digestOf } from '../../crypto/secrets.ts';
import {
  countDevices,
  listDevices,
  type DeviceFilter,
  searchDevices,
  countDevicesOf,
  listDevicesOf,
} from '../../db/devices/lists.ts';
import { writeTags, type DeviceWithProduct, deleteRecord } from '../../db/devices/devices.ts';
import { hasRight, hasScope, type Actor, type Role } from '../../domain/access.ts';
import { nameOf, shortenSerial } from '../../domain/names.ts';
import { describeStatus, type ConnectionStatusCode } from '../../domain/device-status.ts';
import { invalidInput, limitReached, RefusedError, type Outcome } from '../../domain/refusal.ts';
import { formatCursor, offsetOf, pagedDevices, type Page } from '../../domain/pagination.ts';
import { endAtBroker, provisionAtBroker, scheduleDeletionAtBroker } from '../broker/provisioning.ts';
import type { ServiceContext } from '../../context.ts';
import { toIso } from '../../domain/time.ts';
import { costs, holdToUserRate } from '../../pacing/rate-limits.ts';
import { decideAs, requireDevice } from './device-access.ts';
import type { Config } from '../../config.ts';
import type { ChangeDeviceBody, DeleteDevicesQuery, DevicesQuery } from '../../protocol/http/devices.ts';
import { messagingName, type DeviceIdentity } from '../../domain/topics.ts';
import { callDevice } from '../../objects/calls/stubs.ts';
import { devicesPerSlice, runSlice } from '../operations/device-slices.ts';
import { findOwnProduct } from '../products/products.ts';

export type DeviceView = ReturnType<typeof describeDevice>;

/**
 * A product key that is not the caller's matches nothing, so that filters reveal no foreign products.
 * @param query an empty `search` is none. `after`: where another page ended, in place of `page`; then the answer has `next`, and
 *   the members of the contract alone otherwise
 * @throws RefusedError invalid_input for a page that only a cursor reaches
 */
export async function pageDevices(
  context: ServiceContext,
  actor: Actor,
  { page: number, size, after, search, status: statusCode, ...wanted }: DevicesQuery,
): Promise<Page<DeviceView> & { next?: string | null; isCut?: boolean }> {
  const db = context.replica();
  const page = { page: number, size };
  const filter: DeviceFilter = { ...wanted, statusCode, userId: actor.userId };
  if (actor.productKey !== null && wanted.productKey !== undefined && wanted.productKey !== actor.productKey)
    return { list: [], total: 0, ...page };
  if (actor.productKey !== null) filter.productKey = actor.productKey;
  if (actor.deviceIds) filter.deviceIds = actor.deviceIds;
  if (search !== undefined && search !== '') {
    if (after !== undefined) throw invalidInput('after', 'not with search');
    if (wanted.tag !== undefined) throw invalidInput('tag', 'not with search');
    await holdToUserRate(context, actor.userId, 'read', costs.search - 1);
    const { total, isCut, rows } = await searchDevices(db, { ...filter, search }, page, hasScope(actor, 'readSerial'));
    return { list: rows.map((row) => describeDevice(row, row.role, actor)), total, ...page, isCut };
  }
  if (wanted.tag !== undefined) await holdToUserRate(context, actor.userId, 'read', costs.search - 1);
  if (after === undefined && offsetOf(page) >= pagedDevices) {
    const total = await countDevices(db, filter);
    if (offsetOf(page) >= total) return { list: [], total, ...page };
    throw limitReached('pagedDevices', pagedDevices);
  }
  const { total, rows } = await listDevices(db, filter, page, after);
  const list = rows.map((row) => describeDevice(row, row.role, actor));
  if (after === undefined) return { list, total, ...page };
  const last = rows.length === page.size ? rows.at(-1) : undefined;
  return { list, total, ...page, next: last === undefined ? null : formatCursor(last.device) };
}

export async function readDevice(context: ServiceContext, actor: Actor, deviceId: string): Promise<DeviceView> {
  const device = await requireDevice(context, actor, deviceId, 'readDevice');
  return describeDevice(device, device.role, actor);
}

/**
 * Changes the session, which decides, and through it the record. When this answers, a disabled device has no relay
 * sessions and its messages change nothing; its broker session is ended where the broker has a call for that.
 */
export async function changeDevice(
  context: ServiceContext,
  actor: Actor,
  deviceId: string,
  { name, disabled, reactivation, tags }: ChangeDeviceBody,
): Promise<DeviceView> {
  const requestedAtMs = Date.now();
  const action = disabled === undefined || tags !== undefined ? 'rename' : 'disable';
  const { device, product, maker, role } = await requireDevice(context, actor, deviceId, action);
  if (reactivation !== undefined) {
    const set = { isOpen: reactivation === 'open', address: context.clientAddress };
    await decideAs(context, deviceId, 'pair', { kind: 'reactivation_set', actor, ...set });
  }
  const change = { ...(name !== undefined && { name }), ...(disabled !== undefined && { isDisabled: disabled }) };
  const changed = await decideAs(context, deviceId, action, { kind: 'administered', actor, change });
  if (tags !== undefined) await writeTags(context.primary(), deviceId, device.ownerId, tags);
  const identity = { productKey: product.productKey, deviceId };
  if (disabled === true) await endAtBroker(context, identity, { kind: 'disable' }, requestedAtMs);
  if (disabled === false) await provisionAtBroker(context, identity, { kind: 'upsert' }, requestedAtMs);
  const record = { ...device, ...changed, ...(tags !== undefined && { tags }) };
  if (role !== 'product_owner') return describeDevice({ device: record, product }, role, actor);
  // The product's owner: what the device is called, its tags and when it is there is its owner's.
  const { projectId } = maker;
  const hidden = {
    name: nameOf(product.name, device.deviceSN),
    projectId,
    connectionStatus: 2,
    lastOnlineAt: null,
    tags: [],
  };
  return describeDevice({ device: { ...record, ...hidden }, product }, role, actor);
}

export async function replaceCredentials(context: ServiceContext, actor: Actor, deviceId: string) {
  const requestedAtMs = Date.now();
  const { product } = await requireDevice(context, actor, deviceId, 'replaceCredentials');
  const { productKey } = product;
  const password = await createMessagingPassword(context.config.messagingSecrets, { productKey, deviceId });
  const passwordDigest = await digestOf(password);
  const replaced = { kind: 'credentials_replaced', actor, passwordDigest, address: context.clientAddress } as const;
  const device = await decideAs(context, deviceId, 'replaceCredentials', replaced);
  await endAtBroker(context, device, { kind: 'upsert', password, endsSessions: true }, requestedAtMs);
  return { deviceId, mqtt: describeConnection(context.config, device, password) };
}

function describeDevice({ device, product }: Pick<DeviceWithProduct, 'device' | 'product'>, role: Role, actor: Actor) {
  const maySeeSerial = hasRight(role, 'readSerial') && hasScope(actor, 'readSerial');
  return {
    role,
    deviceId: device.deviceId,
    deviceSN: maySeeSerial ? device.deviceSN : shortenSerial(device.deviceSN),
    productKey: product.productKey,
    projectId: device.projectId,
    name: device.name,
    ...describeStatus(device.connectionStatus as ConnectionStatusCode, device.isDisabled),
    firmwareVersion: device.firmwareVersion,
    chipModel: device.chipModel,
    tags: device.tags,
    // While it is online: when it came online, the last moment that the projection knows of.
    lastOnlineAt: toIso(device.lastOnlineAt),
    activatedAt: toIso(device.activatedAt),
    createdAt: toIso(device.createdAt),
    product,
  };
}

/** The connection data of contract 2.7. The password is shown this once. */
export function describeConnection({ broker }: Config, device: DeviceIdentity, password: string) {
  const name = messagingName(device);
  return {
    server: broker.host,
    port: broker.port,
    portTLS: broker.tlsPort,
    username: name,
    password,
    clientId: name,
    keepAlive: broker.keepAliveSeconds,
  };
}

const maxCounted = 10_000;

export async function deleteDevice(context: ServiceContext, actor: Actor, deviceId: string) {
  const requestedAtMs = Date.now();
  const { product } = await requireDevice(context, actor, deviceId, 'delete');
  await endSession(context, actor, { productKey: product.productKey, deviceId }, requestedAtMs);
  await deleteRecord(context.primary(), deviceId);
  return { deviceId };
}

/** One slice, the newest first. A device that fails keeps its record. A request without a filter is refused. */
export async function deleteDevicesOf(
  context: ServiceContext,
  actor: Actor,
  { productKey }: { productKey: string },
  filter: DeleteDevicesQuery,
) {
  const db = context.primary();
  const { id: productId, ownerId } = await findOwnProduct(db, actor, productKey, 'manageProducts');
  if (Object.values(filter).every((value) => value === undefined)) {
    throw invalidInput('createdAfter', 'a filter is needed');
  }
  const wanted = { ...filter, productId, ownerId };
  // Another user may have claimed one of them meanwhile: that one its object refuses.
  const devices = await listDevicesOf(db, wanted, devicesPerSlice);
  const { results, failed } = await runSlice(devices, devicesPerSlice, async ({ deviceId }) => {
    await endSession(context, actor, { productKey, deviceId }, Date.now());
    await deleteRecord(db, deviceId);
  });
  return { deleted: results.length, failed, remaining: await countDevicesOf(db, wanted, maxCounted) };
}

/** The object decides, because D1 may lag behind another owner. It is asked first: the deletion at the broker cannot be undone. */
async function endSession(context: ServiceContext, actor: Actor, device: DeviceIdentity, requestedAtMs: number) {
  const session = callDevice(context.env, device.deviceId, 'idempotent');
  const refuseUnlessGone = async (asked: Promise<Outcome<null>>) => {
    const outcome = await asked;
    // A registered serial has no session: D1 has decided.
    if (!outcome.ok && outcome.refusal.kind !== 'not_found') throw new RefusedError(outcome.refusal);
  };
  await refuseUnlessGone(session.allows(actor, 'delete'));
  // Noted before the session ends: a deletion that is interrupted must not leave a credential at the broker. If that fails
  // the device can be deleted again; until then it gets new credentials by activating.
  await scheduleDeletionAtBroker(context, device, requestedAtMs);
  await refuseUnlessGone(session.decide({ kind: 'deleted', actor }));
  // An activation in between may have restored the credential: after the session's end none can.
  await endAtBroker(context, device, { kind: 'delete' }, Date.now());
}
