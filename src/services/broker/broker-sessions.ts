// Sessions at a broker with EMQX's REST API, of which the local broker offers this part: whether a device is connected, and the end
// of its session. Checked against EMQX's source, 5.4.1 and 5.8.9; never run.
import { z } from 'zod';
import type { ServiceContext } from '../../context.ts';
import { parseJson } from '../../domain/json.ts';
import { messagingName, type DeviceIdentity } from '../../domain/topics.ts';
import { describeError, log } from '../../log.ts';
import { BrokerCallError } from './broker-call-error.ts';

const answerWithinMs = 2_000;
/** 404: it is not connected. */
const answers = [200, 204, 404];
/** A client whose session outlives its connection is known and not connected. */
const connectedClientSchema = z.object({ connected: z.boolean() });
const unknownClientSchema = z.object({ code: z.literal('CLIENTID_NOT_FOUND') });

/** Best effort, for two seconds at most: whatever a revoked session still publishes has no effect. Never rejects. */
export async function disconnectClient(context: ServiceContext, device: DeviceIdentity): Promise<void> {
  if (context.config.broker.api === undefined) return;
  try {
    await callAbout(context, device, 'DELETE');
  } catch (error) {
    const reason = error instanceof BrokerCallError ? { failure: error.failure } : describeError(error);
    log('warn', 'broker session not ended', { deviceId: device.deviceId, ...reason });
  }
}

/** @throws BrokerCallError */
export async function isClientConnected(context: ServiceContext, device: DeviceIdentity): Promise<boolean> {
  const { call, status, text } = await callAbout(context, device, 'GET');
  const answer = (status === 200 ? connectedClientSchema : unknownClientSchema).safeParse(parseJson(text)).data;
  if (answer === undefined) throw new BrokerCallError({ kind: 'unreadable_answer', call });
  return 'connected' in answer && answer.connected;
}

/** @throws BrokerCallError for any other answer */
async function callAbout({ config }: ServiceContext, device: DeviceIdentity, method: 'GET' | 'DELETE') {
  const { api } = config.broker;
  if (api === undefined) throw new Error('no broker API configured');
  const path = `/clients/${encodeURIComponent(messagingName(device))}`;
  const call = `EMQX ${method} ${path}`;
  const headers = { Authorization: `Basic ${btoa(`${api.key}:${api.secret}`)}` };
  const signal = AbortSignal.timeout(answerWithinMs);
  const { status, text } = await fetch(`${api.url}/api/v5${path}`, { method, headers, signal })
    .then(async (response) => ({ status: response.status, text: await response.text() }))
    .catch((error: unknown) => {
      throw new BrokerCallError({ kind: 'broker_away', call, cause: { error: String(error) } });
    });
  if (answers.includes(status)) return { call, status, text };
  // A refused API key and a rate limit concern every device, not this call alone.
  const isOfAll = status >= 500 || [401, 403, 429].includes(status);
  if (isOfAll) throw new BrokerCallError({ kind: 'broker_away', call, cause: { status } });
  throw new BrokerCallError({ kind: 'refused', call, error: String(status) });
}
