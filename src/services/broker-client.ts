// Ends a device's session at a broker that offers EMQX's call for it (EMQX, and the local one); HiveMQ's is ended by what
// provisions it, once its rights are gone. Best effort: what a revoked session still says changes nothing anyway.
import { messagingName, type DeviceIdentity } from '../domain/topics.ts';
import { describeError, log } from '../log.ts';
import type { ServiceContext } from './context.ts';

const answerWithinMs = 2_000;

/** Never throws, and never takes longer than two seconds. */
export async function disconnectClient({ config }: ServiceContext, device: DeviceIdentity): Promise<void> {
  const { api } = config.broker;
  if (api === undefined) return;
  const url = `${api.url}/api/v5/clients/${encodeURIComponent(messagingName(device))}`;
  const headers = { Authorization: `Basic ${btoa(`${api.key}:${api.secret}`)}` };
  try {
    const signal = AbortSignal.timeout(answerWithinMs);
    const { status, body } = await fetch(url, { method: 'DELETE', headers, signal });
    await body?.cancel();
    // 404: it was not connected.
    if (status >= 300 && status !== 404) log('warn', 'broker session not ended', { deviceId: device.deviceId, status });
  } catch (error) {
    log('warn', 'broker session not ended', { deviceId: device.deviceId, ...describeError(error) });
  }
}
