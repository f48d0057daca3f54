// Pushes devices' credentials to a broker that cannot ask for them. Wishes are noted in D1 before the change they belong
// to is answered, and delivered at once where the broker is there, every minute where it was not. Where the broker asks
// for itself (configuration), all of this does nothing.
import { waitUntil } from 'cloudflare:workers';
import type { Config } from '../config.ts';
import { openText, sealText } from '../crypto/sealed-text.ts';
import { claimWish, finishWish, postponeWish, putWish, type BrokerWish } from '../db/broker-outbox.ts';
import { openDatabase, type Database } from '../db/client.ts';
import type { DeviceIdentity } from '../domain/topics.ts';
import { describeError, log } from '../log.ts';
import { createEmqxProvisioner } from './broker-provisioner-emqx.ts';
import { createHivemqProvisioner } from './broker-provisioner-hivemq.ts';
import { createMosquittoProvisioner } from './broker-provisioner-mosquitto.ts';
import { BrokerAwayError, type BrokerProvisioner } from './broker-provisioner.ts';
import type { ServiceContext } from './context.ts';

export type Wish =
  /** Lets the device in, with this password where it is a new one; with `endsSessions` it has to log in with it. */
  | { kind: 'allow'; password?: string; endsSessions?: boolean }
  /** Keeps it out until it is allowed again. */
  | { kind: 'block' }
  | { kind: 'remove' };

/** A device that was just answered logs in at once: the broker is given this long to know it before the answer. */
const patienceMs = 2_000;
const claimMs = 30_000;
/** A deletion that is still under way delivers its wish itself. */
const cutOffAfterMs = 30_000;
const firstRetryMs = 5_000;
const longestRetryMs = 10 * 60_000;
/** One run of the minute's job; the next one takes the rest. */
const maxDeliveries = 200;

/**
 * Notes what the broker shall know of a device and waits a little for it to know.
 * @param wishedAtMs when the request began, or the device ended: of two that cross, the later one counts
 */
export async function provisionAtBroker(
  context: ServiceContext,
  device: DeviceIdentity,
  wish: Wish,
  wishedAtMs: number,
): Promise<void> {
  const provisioner = createProvisioner(context);
  if (provisioner === undefined) return;
  const database = openDatabase(context.env.DB, 'first-primary');
  const { deviceId } = device;
  await noteWish(context.config, database, device, wish, { wishedAtMs, dueAtMs: Date.now() });
  const delivery = deliverNext(context, database, provisioner, deviceId).catch((error: unknown) => {
    log('error', 'broker not provisioned', { deviceId, ...describeError(error) });
  });
  waitUntil(delivery.then((outcome) => (outcome === 'settled' ? deliverWishes(context) : undefined)));
  await Promise.race([delivery, new Promise((resolve) => setTimeout(resolve, patienceMs))]);
}

/**
 * Notes that the broker shall forget a device that is about to be deleted. Delivered where the deletion is cut off and
 * never wishes it again.
 * @param wishedAtMs when the request began
 */
export async function noteRemovalAtBroker(
  context: ServiceContext,
  device: DeviceIdentity,
  wishedAtMs: number,
): Promise<void> {
  if (createProvisioner(context) === undefined) return;
  const database = openDatabase(context.env.DB, 'first-primary');
  const dueAtMs = Date.now() + cutOffAfterMs;
  await noteWish(context.config, database, device, { kind: 'remove' }, { wishedAtMs, dueAtMs });
}

/** What is due, oldest first, until the broker is found to be away: every minute, and whenever it was just there. */
export async function deliverWishes(context: ServiceContext): Promise<void> {
  const provisioner = createProvisioner(context);
  if (provisioner === undefined) return;
  const database = openDatabase(context.env.DB, 'first-primary');
  for (let count = 0; count < maxDeliveries; count++) {
    if ((await deliverNext(context, database, provisioner)) !== 'settled') return;
  }
}

/** undefined where the broker asks for itself. */
function createProvisioner(context: ServiceContext): BrokerProvisioner | undefined {
  switch (context.config.broker.provisioning) {
    case 'none':
      return undefined;
    case 'mosquitto':
      return createMosquittoProvisioner(context);
    case 'emqx':
      return createEmqxProvisioner(context);
    case 'hivemq':
      return createHivemqProvisioner(context);
  }
}

async function noteWish(
  config: Config,
  database: Database,
  { productKey, deviceId }: DeviceIdentity,
  wish: Wish,
  { wishedAtMs, dueAtMs }: { wishedAtMs: number; dueAtMs: number },
): Promise<void> {
  const password = wish.kind === 'allow' ? wish.password : undefined;
  const sealedPassword = password === undefined ? null : await seal(config, deviceId, password);
  const endsSessions = wish.kind === 'allow' && wish.endsSessions === true;
  const row = { deviceId, productKey, wish: wish.kind, sealedPassword, endsSessions, wishedAt: wishedAtMs };
  await putWish(database, row, dueAtMs);
}

async function deliverNext(
  context: ServiceContext,
  database: Database,
  provisioner: BrokerProvisioner,
  deviceId?: string,
): Promise<'none' | 'settled' | 'away'> {
  const nowMs = Date.now();
  const claim = { nowMs, untilMs: nowMs + claimMs, ...(deviceId === undefined ? {} : { deviceId }) };
  const wish = await claimWish(database, claim);
  if (wish === undefined) return 'none';
  try {
    await deliver(context.config, provisioner, wish);
  } catch (error) {
    await postponeWish(database, wish, Date.now() + retryDelayMs(wish.attempts));
    const { deviceId: of, attempts } = wish;
    log('warn', 'broker not provisioned yet', { deviceId: of, attempts: attempts + 1, error: String(error) });
    return error instanceof BrokerAwayError ? 'away' : 'settled';
  }
  const isLastWish = await finishWish(database, wish, Date.now());
  // Another wish came while this one was delivered, and found it claimed.
  return isLastWish ? 'settled' : deliverNext(context, database, provisioner, wish.deviceId);
}

async function deliver(config: Config, provisioner: BrokerProvisioner, row: BrokerWish): Promise<void> {
  const { productKey, deviceId, wish, sealedPassword, endsSessions } = row;
  const device = { productKey, deviceId };
  if (wish === 'remove') return provisioner.revoke(device, 'remove');
  if (sealedPassword !== null) {
    const password = await openText(sealedPassword, config.bridgeSecrets, deviceId);
    // The secret was changed twice while the broker was away. The device has to activate again.
    if (password === undefined) log('error', 'broker outbox: password cannot be opened any more', { deviceId });
    else await provisioner.upsertCredential(device, password);
  }
  if (wish === 'block') return provisioner.revoke(device, 'block');
  if (sealedPassword === null) await provisioner.unblock(device);
  if (endsSessions) await provisioner.disconnect(device);
}

function seal(config: Config, deviceId: string, password: string): Promise<string> {
  const [newest = ''] = config.bridgeSecrets;
  return sealText(password, newest, deviceId);
}

/** Full jitter, so that many devices' retries do not come as one. */
function retryDelayMs(attempts: number): number {
  return Math.random() * Math.min(longestRetryMs, firstRetryMs * 2 ** attempts) + 1_000;
}
