// Calls a broker's HTTP management API and classifies its failures. Which calls are made is decided by the provisioners.
import { BrokerCallError } from './broker-provisioner.ts';

export type BrokerApi = { name: string; url: string; authorization: string };

export type BrokerApiCall = {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  path: string;
  body?: unknown;
  accepts: readonly number[];
  signal: AbortSignal;
};

/**
 * @returns an answer with one of the statuses in `accepts`; the caller reads or cancels its body
 * @throws BrokerCallError
 */
export async function callBrokerApi(
  { name, url, authorization }: BrokerApi,
  { method, path, body, accepts, signal }: BrokerApiCall,
): Promise<Response> {
  const call = `${name} ${method} ${path.split('?')[0] ?? ''}`;
  const headers = { Authorization: authorization, 'Content-Type': 'application/json' };
  const response = await fetch(`${url}${path}`, {
    method,
    headers,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal,
  }).catch((error: unknown) => {
    throw new BrokerCallError({ kind: 'broker_away', call, cause: { error: String(error) } });
  });
  const { status } = response;
  if (accepts.includes(status)) return response;
  await response.body?.cancel();
  // A refused API key and a rate limit concern every device, not this call alone.
  const isAway = status >= 500 || [401, 403, 429].includes(status);
  throw new BrokerCallError(
    isAway ? { kind: 'broker_away', call, cause: { status } } : { kind: 'refused', call, status },
  );
}
