// Finds devices that show as online although their session is over and nobody said so: a slice of all devices at each run.
// A broker with an API is asked about each. Of another one it matters only that it has forgotten its sessions.
import { listDevicesAfter } from '../../db/devices/devices.ts';
import type { DeviceIdentity } from '../../domain/topics.ts';
import { callBrokerLink, callDevice, resultOr } from '../../objects/calls/stubs.ts';
import { log } from '../../log.ts';
import { BrokerCallError } from '../broker/broker-call-error.ts';
import { isClientConnected } from '../broker/broker-sessions.ts';
import type { ServiceContext } from '../../context.ts';
import { presenceTimes } from '../../domain/device/presence/presence-times.ts';

type Doubt = { beforeMs: number; confirmWithinMs: number };

const checksAtOnce = 6;
/** One invocation may call 1 000 objects; each device that shows as online costs a call. */
const devicesPerMinute = 800;
/** The clocks of broker and Worker may differ, and what the broker says may have crossed a new session. */
const slackMs = 10_000;

export async function reconcilePresence(context: ServiceContext, limit = devicesPerMinute): Promise<void> {
  const { env, config, primary } = context;
  if (!config.hasBroker || !config.broker.reportsConnections) return;
  const reconciliation = await callBrokerLink(env, 'idempotent').readReconciliation();
  const { forgottenBeforeMs, afterId } = reconciliation;
  const hasApi = config.broker.api !== undefined;
  if (!hasApi && forgottenBeforeMs === null) return;
  const rows = await listDevicesAfter(primary(), afterId, limit);
  const waiting = rows.filter(({ connectionStatus }) => connectionStatus === 1);
  const confirmWithinMs = presenceTimes.brokerRestartMs(config.limits);
  const remembered = forgottenBeforeMs === null ? undefined : { beforeMs: forgottenBeforeMs, confirmWithinMs };
  const work = async (): Promise<void> => {
    for (let device = waiting.pop(); device !== undefined; device = waiting.pop()) {
      const doubt = hasApi ? await askBroker(context, device) : remembered;
      if (doubt === undefined) continue;
      const report = { kind: 'doubted', ...doubt } as const;
      const session = callDevice(env, device.deviceId, 'idempotent');
      // A device that cannot be told is told by a later run.
      await resultOr(undefined, session.decide({ kind: 'connection_reported', report }));
    }
  };
  try {
    await Promise.all(Array.from({ length: checksAtOnce }, work));
  } catch (error) {
    if (!(error instanceof BrokerCallError)) throw error;
    log('warn', 'broker not asked about its clients', error.failure);
    return;
  }
  const lastId = rows.length < limit ? null : (rows.at(-1)?.id ?? null);
  await callBrokerLink(env, 'idempotent').continueReconciliation(reconciliation, lastId);
}

/** @throws BrokerCallError if the broker is away, or something else answers: no other device need be tried now */
async function askBroker(context: ServiceContext, device: DeviceIdentity): Promise<Doubt | undefined> {
  const askedAtMs = Date.now();
  const isConnected = await isClientConnected(context, device).catch((error: unknown) => {
    if (!(error instanceof BrokerCallError) || error.failure.kind !== 'refused') throw error;
    // It must not stop those after it; sessionSilenceHours stands behind.
    log('warn', 'broker not asked about a client', { deviceId: device.deviceId, ...error.failure });
  });
  return isConnected === false ? { beforeMs: askedAtMs - slackMs, confirmWithinMs: 0 } : undefined;
}
