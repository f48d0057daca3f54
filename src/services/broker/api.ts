// Calls a broker's HTTP management API and classifies its failures. Which calls are made is decided by the provisioners.
import { BrokerCallError } from './provisioner.ts';

export type BrokerApi = { name: string; url: string; authorization: string };

/** `call` names the request in errors. */
export type BrokerAnswer = { call: string; status: number; text: string };

export type BrokerApiCall = {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  path: string;
  body?: object | undefined;
  accepts: readonly number[];
};

/**
 * @returns an answer with one of the statuses in `accepts`
 * @throws BrokerCallError
 */
export async function callBrokerApi(
  { name, url, authorization }: BrokerApi,
  { method, path, body, accepts }: BrokerApiCall,
  signal: AbortSignal,
): Promise<BrokerAnswer> {
  const call = `${name} ${method} ${path.split('?')[0] ?? ''}`;
  const headers = { Authorization: authorization, 'Content-Type': 'application/json' };
  const sent = { method, headers, body: body === undefined ? null : JSON.stringify(body), signal };
  let status;
  let text;
  try {
    const response = await fetch(`${url}${path}`, sent);
    status = response.status;
    text = await response.text();
  } catch (error) {
    throw new BrokerCallError({ kind: 'broker_away', call, cause: { error: String(error) } });
  }
  if (accepts.includes(status)) return { call, status, text };
  // A refused API key and a rate limit concern every device, not this call alone.
  const isAway = status >= 500 || [401, 403, 429].includes(status);
  throw new BrokerCallError(
    isAway ? { kind: 'broker_away', call, cause: { status } } : { kind: 'refused', call, status },
  );
}
