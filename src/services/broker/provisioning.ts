// Pushes devices' credentials to a broker without a login hook. The outbox in D1 records an operation before the request
// it belongs to is answered; it is delivered at once if the broker is reachable, otherwise every minute. Does nothing
// if the broker has a login hook (configuration).
import { runInBackground, type ServiceContext } from '../../context.ts';
import { openText, sealText } from '../../crypto/sealed-text.ts';
import {
  claimOutboxEntry,
  putOutboxEntry,
  releaseOutboxEntry,
  type OutboxEntry,
} from '../../db/devices/broker-outbox.ts';
import { RefusedError } from '../../domain/refusal.ts';
import type { DeviceIdentity } from '../../domain/topics.ts';
import { describeError, log } from '../../log.ts';
import { BrokerCallError, type BrokerFailure } from './broker-call-error.ts';
import { disconnectClient } from './broker-sessions.ts';
import { deletionOf, disablingOf, enablingOf, runCommands, upsertionOf } from './mosquitto.ts';

export type BrokerOperation =
  /** Lets the device in, with `password` if it is new; `endsSessions` forces a new login. */
  | { kind: 'upsert'; password?: string; endsSessions?: boolean }
  /** Refuses its logins until the next `upsert`. */
  | { kind: 'disable' }
  | { kind: 'delete' };

/** A device logs in right after its answer: the answer waits that long for the delivery. */
const answerWaitMs = 2_000;
const claimMs = 30_000;
/** After that a deletion that has not delivered its own operation counts as cut off. */
const cutOffAfterMs = 30_000;
const firstRetryMs = 5_000;
const longestRetryMs = 10 * 60_000;
const maxDeliveriesPerRun = 200;

/** As `provisionAtBroker`, and ends the session that is open there. */
export async function endAtBroker(...request: Parameters<typeof provisionAtBroker>): Promise<void> {
  const [context, device] = request;
  await Promise.all([disconnectClient(context, device), provisionAtBroker(...request)]);
}

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
  if (!hasOutbox(context)) return;
  await record(context, device, operation, requestedAtMs, Date.now());
  const delivery = deliverNext(context, device.deviceId);
  // A broker that took this entry can be asked for others.
  const deliverRest = async () => {
    if ((await delivery) === 'attempted') await deliverOutbox(context);
  };
  runInBackground(`broker outbox, from ${device.deviceId} on`, deliverRest());
  await Promise.race([Promise.allSettled([delivery]), scheduler.wait(answerWaitMs)]);
}

/**
 * Records the deletion of a device before it begins. Delivered from here only if the request is cut off before its end.
 * @param requestedAtMs when the request began
 */
export async function scheduleDeletionAtBroker(
  context: ServiceContext,
  device: DeviceIdentity,
  requestedAtMs: number,
): Promise<void> {
  if (hasOutbox(context)) await record(context, device, { kind: 'delete' }, requestedAtMs, Date.now() + cutOffAfterMs);
}

/** Delivers what is due, oldest first, until the broker is away: every minute, and after each successful delivery. */
export async function deliverOutbox(context: ServiceContext): Promise<void> {
  if (!hasOutbox(context)) return;
  for (let count = 0; count < maxDeliveriesPerRun; count++) {
    if ((await deliverNext(context)) !== 'attempted') return;
  }
}

const hasOutbox = ({ config }: ServiceContext) => config.broker.provisioning === 'mosquitto';

async function record(
  { config, primary }: ServiceContext,
  { productKey, deviceId }: DeviceIdentity,
  operation: BrokerOperation,
  requestedAt: number,
  nextAttemptAt: number,
): Promise<void> {
  const { kind, password, endsSessions } = { password: undefined, endsSessions: false, ...operation };
  const [newestSecret = ''] = config.sealingSecrets;
  const sealedPassword =
    password === undefined ? null : await sealText(password, newestSecret, deviceId, 'broker outbox');
  const credential = { deviceId, productKey, operation: kind, sealedPassword, endsSessions };
  await putOutboxEntry(primary(), { ...credential, requestedAt, nextAttemptAt });
}

type Delivery = 'nothing_due' | 'attempted' | 'broker_away';

/** `attempted`: the entry is delivered or postponed, and the broker can be asked for others. */
async function deliverNext(context: ServiceContext, deviceId?: string): Promise<Delivery> {
  const database = context.primary();
  const nowMs = Date.now();
  const entry = await claimOutboxEntry(database, nowMs, nowMs + claimMs, deviceId);
  if (entry === undefined) return 'nothing_due';
  try {
    const commands = await commandsOf(context, entry);
    if (commands.length > 0) await runCommands(context, commands);
  } catch (error) {
    const { operation } = entry;
    const attempts = entry.attempts + 1;
    const failure = failureOf(error);
    log('warn', 'broker outbox: not delivered yet', { deviceId: entry.deviceId, operation, attempts, ...failure });
    // Full jitter, so that the retries of many devices do not coincide.
    const delayMs = Math.random() * Math.min(longestRetryMs, firstRetryMs * 2 ** entry.attempts) + 1_000;
    await releaseOutboxEntry(database, entry, { attempts, nextAttemptAt: Date.now() + delayMs });
    return failure.kind === 'broker_away' ? 'broker_away' : 'attempted';
  }
  const isCurrent = await releaseOutboxEntry(database, entry, { deliveredAt: Date.now(), sealedPassword: null });
  // An entry that replaced this one during its delivery found it claimed.
  return isCurrent ? 'attempted' : deliverNext(context, entry.deviceId);
}

function failureOf(error: unknown): BrokerFailure | { kind: 'failed' } {
  if (error instanceof BrokerCallError) return error.failure;
  // The link to the bridge cannot be called; callBrokerLink has logged why.
  if (error instanceof RefusedError) return { kind: 'broker_away', call: 'bridge link', cause: 'unreachable' };
  return { kind: 'failed', ...describeError(error) };
}

async function commandsOf(
  { config }: ServiceContext,
  { productKey, deviceId, operation, sealedPassword, endsSessions }: OutboxEntry,
) {
  const device = { productKey, deviceId };
  if (operation === 'delete') return deletionOf(device);
  const password = sealedPassword && (await openText(sealedPassword, config.sealingSecrets, deviceId, 'broker outbox'));
  // The sealing secret was replaced twice since. The device has to activate again.
  if (password === undefined) log('error', 'broker outbox: password cannot be opened any more', { deviceId });
  const credential = password ? upsertionOf(device, password) : [];
  if (operation === 'disable') return [...credential, disablingOf(device)];
  const enabling = sealedPassword === null ? [enablingOf(device)] : [];
  return [...credential, ...enabling, ...(endsSessions ? [disablingOf(device), enablingOf(device)] : [])];
}
