// How a use case reaches a device: who may, by its record in D1, and calls to its object. A device without a session is a serial
// that was registered and has not activated, or a device whose session was lost; then D1 is asked, on no hot path. Of a lost session
// the object gets back its owner, members, transfer offer and name; credentials and history are lost: the device has to activate again.
import type { ServiceContext } from '../../context.ts';
import { findDevice, type DeviceWithProduct, type DeviceRow } from '../../db/devices/devices.ts';
import { findMemberRole, findMembers } from '../../db/devices/members.ts';
import { refusalOf, roleOf, type Actor, type DeviceAction, type Role } from '../../domain/access.ts';
import type { EventOf, RequestKind, Results } from '../../domain/device/core/events.ts';
import { notFound, RefusedError, unwrap, type Outcome } from '../../domain/refusal.ts';
import { isDeviceId } from '../../domain/topics.ts';
import { callDevice, type RemoteDevice } from '../../objects/calls/stubs.ts';
import { findOpenOffer } from '../../db/devices/ownership.ts';
import { findProduct, type ProductRow } from '../../db/products/products.ts';
import { productFactsOf } from '../../domain/device/ownership/ownership.ts';
import { log } from '../../log.ts';

export async function requireDevice(
  context: ServiceContext,
  actor: Actor,
  deviceId: string,
  action: DeviceAction,
): Promise<DeviceWithProduct & { role: Role }> {
  const db = context.primary();
  const row = isDeviceId(deviceId) ? await findDevice(db, deviceId) : undefined;
  if (row === undefined) throw notFound('device', deviceId);
  const { device, product, maker } = row;
  const { userId } = actor;
  const memberRole = device.ownerId === userId ? undefined : await findMemberRole(db, device.id, userId);
  const ownership = {
    ownerId: device.ownerId,
    productOwnerId: maker.ownerId,
    members: memberRole === undefined ? [] : [{ userId, role: memberRole }],
  };
  const refusal = refusalOf({ deviceId, productKey: product.productKey, ...ownership }, actor, action);
  if (refusal !== undefined) throw new RefusedError(refusal);
  return { ...row, role: roleOf(ownership, userId) ?? 'owner' };
}

/** An idempotent call to a device's object. A lost session is restored first. */
export async function askDevice<T>(
  context: ServiceContext,
  deviceId: string,
  ask: (device: RemoteDevice) => Promise<Outcome<T>>,
): Promise<T> {
  const call = () => ask(callDevice(context.env, requireDeviceId(deviceId), 'idempotent'));
  const outcome = await call();
  const isAbsent = !outcome.ok && outcome.refusal.kind === 'not_found' && outcome.refusal.what === 'device';
  return unwrap<T>(isAbsent && (await restoreById(context, deviceId)) ? await call() : outcome);
}

type Request = EventOf<RequestKind>;
type Decided<Event extends Request> = Results[Event['kind']] extends Outcome<infer T> ? T : never;

/** Has the session decide. The event says who asks; it may arrive twice. */
export function decide<Event extends Request>(context: ServiceContext, deviceId: string, event: Event) {
  return askDevice(context, deviceId, deciding(event));
}

/** As `decide`. If there is no session, D1 says whether the user has a right to `action`. */
export function decideAs<Event extends Request & { actor: Actor }>(
  context: ServiceContext,
  deviceId: string,
  action: DeviceAction,
  event: Event,
) {
  return askDeviceAs(context, event.actor, deviceId, { action, ask: deciding(event) });
}

function deciding<Event extends Request>(event: Event) {
  return (device: RemoteDevice) => device.decide(event) as Promise<Outcome<Decided<Event>>>;
}

/** @throws RefusedError not_found for text that is no device id: each would wake an object of its own. */
export function requireDeviceId(deviceId: string): string {
  if (!isDeviceId(deviceId)) throw notFound('device', deviceId);
  return deviceId;
}

type Call<T> = {
  action: DeviceAction;
  ask: (device: RemoteDevice) => Promise<Outcome<T>>;
  repeat?: 'once';
  ifInactive?: ((name: string) => T) | undefined;
};

/** A call to a device's object that `actor` makes. */
export async function askDeviceAs<T>(
  context: ServiceContext,
  actor: Actor,
  deviceId: string,
  { action, ask, repeat, ifInactive }: Call<T>,
): Promise<T> {
  try {
    if (repeat === undefined) return await askDevice(context, deviceId, ask);
    return unwrap(await ask(callDevice(context.env, requireDeviceId(deviceId), repeat)));
  } catch (error) {
    const isAbsent =
      error instanceof RefusedError && error.refusal.kind === 'not_found' && error.refusal.what === 'device';
    if (!isAbsent) throw error;
  }
  const { device } = await requireDevice(context, actor, deviceId, action);
  if (ifInactive === undefined) throw new RefusedError({ kind: 'device_not_activated', deviceId });
  return ifInactive(device.name);
}

type Traces = Pick<DeviceRow, 'projectionVersion' | 'membersVersion' | 'claimedAt'>;

export function hadSession({ projectionVersion, membersVersion, claimedAt }: Traces): boolean {
  return projectionVersion > 0 || membersVersion > 0 || claimedAt !== null;
}

export function factsOf(device: DeviceRow, product: ProductRow) {
  const { ownerId, claimedAt: claimedAtMs, name, isDisabled } = device;
  const { productKey, ownerId: productOwnerId } = product;
  return { productKey, ownerId, productOwnerId, claimedAtMs, name, isDisabled, ...productFactsOf(product) };
}

export async function restoreSession(context: ServiceContext, device: DeviceRow, product: ProductRow): Promise<void> {
  const db = context.primary();
  const { id, deviceId, ownerId, membersVersion, projectionVersion } = device;
  const members = await findMembers(db, id);
  const offer = (await findOpenOffer(db, deviceId, ownerId, Date.now())) ?? null;
  const lost = { facts: factsOf(device, product), members, membersVersion, offer, projectionVersion };
  await callDevice(context.env, deviceId, 'idempotent').restore(lost);
  log('warn', 'session of a device restored from its record: it has to activate again', { deviceId });
}

export async function restoreById(context: ServiceContext, deviceId: string): Promise<boolean> {
  const db = context.primary();
  const record = await findDevice(db, deviceId);
  if (record === undefined || !hadSession(record.device)) return false;
  const product = await findProduct(db, record.product.productKey);
  if (product === undefined) return false;
  await restoreSession(context, record.device, product);
  return true;
}
