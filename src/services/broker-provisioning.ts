// Pushes devices' credentials to a broker without a login hook. The outbox in D1 records an operation before the request
// it belongs to is answered; it is delivered at once where the broker is reachable, otherwise every minute. Does nothing
// where the broker has a login hook (configuration).
import { waitUntil } from 'cloudflare:workers';
import { openText, sealText } from '../crypto/sealed-text.ts';
import {
  claimOutboxEntry,
  completeOutboxEntry,
  postponeOutboxEntry,
  putOutboxEntry,
  type OutboxEntry,
} from '../db/broker-outbox.ts';
import { openDatabase, type Database } from '../db/client.ts';
import { RefusedError } from '../domain/refusal.ts';
import type { DeviceIdentity } from '../domain/topics.ts';
import { describeError, log } from '../log.ts';
import { createEmqxProvisioner } from './broker-provisioner-emqx.ts';
import { createHivemqProvisioner } from './broker-provisioner-hivemq.ts';
import { createMosquittoProvisioner } from './broker-provisioner-mosquitto.ts';
import { BrokerCallError, type BrokerFailure, type BrokerProvisioner } from './broker-provisioner.ts';
import type { ServiceContext } from './context.ts';

export type BrokerOperation =
  /** Lets the device in, with `password` where it is new; `endsSessions` forces a new login. */
  | { kind: 'upsert'; password?: string; endsSessions?: boolean }
  /** Refuses its logins until the next `upsert`. */
  | { kind: 'disable' }
  | { kind: 'delete' };

type Outbox = { context: ServiceContext; database: Database; provisioner: BrokerProvisioner };
type Delivery = { kind: 'delivered' } | BrokerFailure | { kind: 'failed'; error: unknown };

/** A device logs in right after its answer: the answer waits that long for the delivery. */
const answerWaitMs = 2_000;
const claimMs = 30_000;
/** After that a deletion that has not delivered its own operation counts as cut off. */
const cutOffAfterMs = 30_000;
const firstRetryMs = 5_000;
const longestRetryMs = 10 * 60_000;
const maxDeliveriesPerRun = 200;

/**
 * Records the operation, starts its delivery and waits a moment for it.
 * @param requestedAtMs when the request began; of two requests that cross, the later one wins
 */
export async function provisionAtBroker(
  context: ServiceContext,
  device: DeviceIdentity,
  operation: BrokerOperation,
  requestedAtMs: number,
): Promise<void> {
  const outbox = openOutbox(context);
  if (outbox === undefined) return;
  await record(outbox, device, operation, { requestedAtMs, dueAtMs: Date.now() });
  const logFailure = (error: unknown) => {
    log('error', 'broker outbox: delivery failed', { deviceId: device.deviceId, ...describeError(error) });
    return 'failed' as const;
  };
  const delivery = deliverNext(outbox, device.deviceId).catch(logFailure);
  waitUntil(
    delivery.then((outcome) => (outcome === 'attempted' ? deliverOutbox(context) : undefined)).catch(logFailure),
  );
  await Promise.race([delivery, new Promise((resolve) => setTimeout(resolve, answerWaitMs))]);
}

/**
 * Records that a device about to be deleted is to be deleted at the broker too. Delivered only if the deletion is cut off
 * before it does so itself.
 * @param requestedAtMs when the request began
 */
export async function scheduleDeletionAtBroker(
  context: ServiceContext,
  device: DeviceIdentity,
  requestedAtMs: number,
): Promise<void> {
  const outbox = openOutbox(context);
  if (outbox === undefined) return;
  await record(outbox, device, { kind: 'delete' }, { requestedAtMs, dueAtMs: Date.now() + cutOffAfterMs });
}

/** Delivers what is due, oldest first, until the broker is away: every minute, and after each successful delivery. */
export async function deliverOutbox(context: ServiceContext): Promise<void> {
  const outbox = openOutbox(context);
  if (outbox === undefined) return;
  for (let count = 0; count < maxDeliveriesPerRun; count++) {
    if ((await deliverNext(outbox)) !== 'attempted') return;
  }
}

/** undefined where the broker has a login hook. */
function openOutbox(context: ServiceContext): Outbox | undefined {
  const provisioner = createProvisioner(context);
  return provisioner && { context, provisioner, database: openDatabase(context.env.DB, 'first-primary') };
}

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

async function record(
  { context, database }: Outbox,
  { productKey, deviceId }: DeviceIdentity,
  operation: BrokerOperation,
  { requestedAtMs, dueAtMs }: { requestedAtMs: number; dueAtMs: number },
): Promise<void> {
  const { kind, password, endsSessions } = { password: undefined, endsSessions: false, ...operation };
  const [newestSecret = ''] = context.config.bridgeSecrets;
  const sealedPassword = password === undefined ? null : await sealText(password, newestSecret, deviceId);
  const times = { requestedAt: requestedAtMs, nextAttemptAt: dueAtMs };
  await putOutboxEntry(database, { deviceId, productKey, operation: kind, sealedPassword, endsSessions, ...times });
}

/** `attempted`: the entry is delivered or postponed, and the broker can be asked for others. */
async function deliverNext(outbox: Outbox, deviceId?: string): Promise<'nothing_due' | 'attempted' | 'broker_away'> {
  const { database } = outbox;
  const nowMs = Date.now();
  const claim = { nowMs, untilMs: nowMs + claimMs, ...(deviceId === undefined ? {} : { deviceId }) };
  const entry = await claimOutboxEntry(database, claim);
  if (entry === undefined) return 'nothing_due';
  const delivery = await attempt(outbox, entry);
  if (delivery.kind === 'delivered') {
    const isCurrent = await completeOutboxEntry(database, entry, Date.now());
    // An entry that replaced this one during its delivery found it claimed.
    return isCurrent ? 'attempted' : deliverNext(outbox, entry.deviceId);
  }
  const { operation, attempts } = entry;
  const failure = delivery.kind === 'failed' ? describeError(delivery.error) : delivery;
  const given = { deviceId: entry.deviceId, operation, attempts: attempts + 1 };
  log('warn', 'broker outbox: not delivered yet', { ...given, ...failure });
  await postponeOutboxEntry(database, entry, Date.now() + retryDelayMs(attempts));
  return delivery.kind === 'broker_away' ? 'broker_away' : 'attempted';
}

async function attempt(outbox: Outbox, entry: OutboxEntry): Promise<Delivery> {
  try {
    await deliver(outbox, entry);
    return { kind: 'delivered' };
  } catch (error) {
    if (error instanceof BrokerCallError) return error.failure;
    // The link to the bridge cannot be called; callBrokerLink has logged why.
    if (error instanceof RefusedError) return { kind: 'broker_away', call: 'bridge link', cause: 'unreachable' };
    return { kind: 'failed', error };
  }
}

async function deliver(
  { context, provisioner }: Outbox,
  { productKey, deviceId, operation, sealedPassword, endsSessions }: OutboxEntry,
): Promise<void> {
  const device = { productKey, deviceId };
  if (operation === 'delete') return provisioner.delete(device);
  if (sealedPassword !== null) {
    const password = await openText(sealedPassword, context.config.bridgeSecrets, deviceId);
    // The bridge secret was replaced twice since. The device has to activate again.
    if (password === undefined) log('error', 'broker outbox: password cannot be opened any more', { deviceId });
    else await provisioner.upsertCredential(device, password);
  }
  if (operation === 'disable') return provisioner.disable(device);
  if (sealedPassword === null) await provisioner.enable(device);
  if (endsSessions) await provisioner.endSessions(device);
}

/** Full jitter, so that the retries of many devices do not coincide. */
function retryDelayMs(attempts: number): number {
  return Math.random() * Math.min(longestRetryMs, firstRetryMs * 2 ** attempts) + 1_000;
}
