// Ends a device's sessions through EMQX's management API, which EMQX and the local broker offer. Best effort: whatever a
// revoked session still publishes has no effect.
import type { Config } from '../config.ts';
import { messagingName, type DeviceIdentity } from '../domain/topics.ts';
import { describeError, log } from '../log.ts';
import { callBrokerApi, type BrokerApi } from './broker-api.ts';
import { BrokerCallError } from './broker-provisioner.ts';
import type { ServiceContext } from './context.ts';

const answerWithinMs = 2_000;

export function emqxApiOf({ url, key, secret }: NonNullable<Config['broker']['api']>): BrokerApi {
  return { name: 'EMQX', url: `${url}/api/v5`, authorization: `Basic ${btoa(`${key}:${secret}`)}` };
}

/** @throws BrokerCallError */
export async function endEmqxSessions(api: BrokerApi, device: DeviceIdentity, withinMs: number): Promise<void> {
  const path = `/clients/${encodeURIComponent(messagingName(device))}`;
  // 404: it is not connected.
  await callBrokerApi(api, { method: 'DELETE', path, accepts: [200, 204, 404] }, AbortSignal.timeout(withinMs));
}

/** Never rejects, and never takes longer than two seconds. */
export async function disconnectClient({ config }: ServiceContext, device: DeviceIdentity): Promise<void> {
  const { api } = config.broker;
  if (api === undefined) return;
  try {
    await endEmqxSessions(emqxApiOf(api), device, answerWithinMs);
  } catch (error) {
    const reason = error instanceof BrokerCallError ? { failure: error.failure } : describeError(error);
    log('warn', 'broker session not ended', { deviceId: device.deviceId, ...reason });
  }
}
