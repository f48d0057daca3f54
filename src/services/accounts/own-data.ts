// A user's own data: a copy of all of it, and its end. Deleting goes on in the minute's job with what one request cannot carry.
import { eraseUser, findErasedUser, findProductOfOthers } from '../../db/accounts/operator.ts';
import type { DeviceInRowOrder } from '../../db/devices/devices.ts';
import { inPerson } from '../../domain/access.ts';
import { daysKept } from '../../domain/device/core/history.ts';
import { maxSeries } from '../../domain/device/usage/series.ts';
import type { ListPosition } from '../../domain/pagination.ts';
import { dayMs, toIso } from '../../domain/time.ts';
import { RefusedError } from '../../domain/refusal.ts';
import { runInBackground, type ServiceContext } from '../../context.ts';
import { log } from '../../log.ts';
import { resultOr } from '../../objects/calls/stubs.ts';
import { holdToUserRate } from '../../pacing/rate-limits.ts';
import { collectionsOf } from '../collections.ts';
import { pageCommands } from '../devices/control.ts';
import { deleteDevice, pageDevices, type DeviceView } from '../devices/devices.ts';
import { pageGuestLinks } from '../devices/guest-links.ts';
import { pageOffers, releaseDevice } from '../devices/ownership.ts';
import { pageBlocked, pageIncoming, sharingOf } from '../devices/sharing.ts';
import { schedulesOf } from '../devices/times.ts';
import { viewsOf } from '../devices/views.ts';
import { witnessOf } from '../devices/witness.ts';
import { noticesOf } from '../notices.ts';
import { revokeAccount, takeHoldings } from '../operations/operator.ts';
import { pageProducts } from '../products/products.ts';
import { setTelling, webhooksOf } from '../webhooks.ts';
import { confirmPassword, readAccount, requireUser, type InSession } from './accounts.ts';
import { pageApiKeys } from './api-keys.ts';
import { deliver } from './mails.ts';
import { pageSecurityEvents } from './security-events.ts';
import { pageSessions } from './sessions.ts';

/** Each takes up to twenty calls of its object. */
const devicesPerPage = 20;
/** No list of an account or a device is longer, except products beyond the quota that is usual. */
const all = { page: 1, size: 1_000 };

/** @param after where another page of devices ended; without it, the first page, which has the account, too */
export async function exportOwnData(
  context: ServiceContext,
  caller: InSession,
  after: ListPosition | 'begin' | undefined,
) {
  const { userId } = caller;
  await holdToUserRate(context, userId, 'read', devicesPerPage);
  const query = { page: 1, size: devicesPerPage, after: after ?? 'begin' } as const;
  const listed = await pageDevices(context, inPerson(userId), query);
  const devices = await Promise.all(listed.list.map((device) => exportDevice(context, userId, device)));
  const account = after === undefined ? await exportAccount(context, caller) : null;
  return { account, devices, next: listed.next ?? null };
}

async function exportAccount(context: ServiceContext, caller: InSession): Promise<Record<string, unknown>> {
  const { userId } = caller;
  const actor = inPerson(userId);
  return {
    ...(await readAccount(context, userId)),
    sessions: await pageSessions(context, caller, all),
    apiKeys: await pageApiKeys(context, userId, all),
    securityEvents: await pageSecurityEvents(context, userId, all),
    products: await pageProducts(context, actor, all),
    groups: await collectionsOf(context, actor, 'group').list(all),
    scenes: await collectionsOf(context, actor, 'scene').list(all),
    webhooks: await webhooksOf(context, actor).list(all),
    notices: await noticesOf(context, userId).list(all),
    zone: await noticesOf(context, userId).readZone(),
    noticeSettings: await noticesOf(context, userId).readSettings(),
    pushSubscriptions: await noticesOf(context, userId).listSubscriptions(),
    invitations: await pageIncoming(context, userId, all),
    transfers: await pageOffers(context, userId, all),
    blockedSenders: await pageBlocked(context, userId, all),
  };
}

async function exportDevice(
  context: ServiceContext,
  userId: number,
  record: DeviceView,
): Promise<Record<string, unknown>> {
  const { deviceId, role } = record;
  const actor = inPerson(userId);
  const views = viewsOf(context, actor, deviceId);
  const properties = await views.properties();
  // A day more or less, as the zone is: what is older is not kept.
  const firstOf = (days: number) => toIso(Date.now() - (days - 2) * dayMs).slice(0, 10);
  const numbers = properties.list.filter(({ value }) => typeof value === 'number').slice(0, maxSeries);
  const readNumber = ({ name: property }: { name: string }) =>
    views.history({ property, step: 'day', from: firstOf(daysKept.hours) });
  return {
    ...record,
    present: await views.status(),
    properties,
    usage: await resultOr(null, views.usage({ step: 'day', from: firstOf(daysKept.day) })),
    histories: await resultOr(null, Promise.all(numbers.map(readNumber))),
    events: await views.events(all),
    commands: await pageCommands(context, actor, deviceId, all),
    schedules: await schedulesOf(context, actor, deviceId).list(all),
    runs: await schedulesOf(context, actor, deviceId).listRuns(all),
    witness: await resultOr(null, witnessOf(context, actor, deviceId).read()),
    ...(role === 'owner' && {
      members: await sharingOf(context, actor, deviceId).pageMembers(all),
      invitations: await sharingOf(context, actor, deviceId).pageInvitations(all),
      guestLinks: await pageGuestLinks(context, actor, deviceId, all),
    }),
  };
}

/** When it answers, nothing opens the account, and it has no name. @throws RefusedError product_has_devices of other users */
export async function deleteOwnAccount(context: ServiceContext, caller: InSession, password: string) {
  const { userId } = caller;
  const db = context.primary();
  await confirmPassword(context, caller, password);
  const productKey = await findProductOfOthers(db, userId);
  if (productKey !== undefined) throw new RefusedError({ kind: 'product_has_devices', productKey });
  const { email, emailVerifiedAt } = await requireUser(context, userId);
  await revokeAccount(context, userId);
  await setTelling(context, userId, 'deleted');
  await eraseUser(db, userId, Date.now());
  log('warn', 'account deleted by its user', { userId });
  const { mail } = context.config;
  const text = 'Your account was deleted, as it was asked for with its password. Its devices are released.\n';
  const told = mail && emailVerifiedAt !== null && deliver(mail, email, { subject: 'Your account was deleted', text });
  if (told) runInBackground('mail of a deleted account', told);
  const { cursor } = await endHoldings(context, userId);
  return { message: 'account_deleted' as const, isComplete: cursor === null };
}

/** Of a user who deleted the account: memberships and devices that are left. */
export async function finishDeletions(context: ServiceContext): Promise<void> {
  const userId = await findErasedUser(context.primary(), Date.now() - dayMs);
  if (userId !== undefined) await endHoldings(context, userId);
}

/** A device of an own product ends with the product; any other is released. */
async function endHoldings(context: ServiceContext, userId: number) {
  const actor = inPerson(userId);
  const unnamed = { ...context, clientAddress: 'unknown' };
  const end = ({ deviceId, makerId }: DeviceInRowOrder) =>
    makerId === userId ? deleteDevice(unnamed, actor, deviceId) : releaseDevice(unnamed, actor, deviceId);
  const taken = await takeHoldings(unnamed, userId, 0, end, devicesPerPage);
  // Products without devices, and what ending the devices has noted.
  if (taken.cursor === null) await eraseUser(context.primary(), userId, Date.now());
  return taken;
}
