// Calls a broker's management API: one way to ask, and one reading of what a refusal means. Which calls there are is each
// provisioner's matter.
import { BrokerAwayError } from './broker-provisioner.ts';

export type BrokerApi = { name: string; url: string; authorization: string };

export type BrokerApiCall = {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  path: string;
  body?: unknown;
  accepts: readonly number[];
  signal: AbortSignal;
};

/**
 * @returns an answer with one of the statuses of `accepts`; its body is the caller's, to read or to cancel
 * @throws BrokerAwayError, or Error at any other status, as BrokerProvisioner says
 */
export async function callBrokerApi(
  { name, url, authorization }: BrokerApi,
  { method, path, body, accepts, signal }: BrokerApiCall,
): Promise<Response> {
  const headers = { Authorization: authorization, 'Content-Type': 'application/json' };
  const response = await fetch(`${url}${path}`, {
    method,
    headers,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal,
  }).catch((error: unknown) => {
    throw new BrokerAwayError(`${name}: ${String(error)}`);
  });
  const { status } = response;
  if (accepts.includes(status)) return response;
  // What a refusal says may repeat what it was sent: it is neither kept nor logged.
  await response.body?.cancel();
  const message = `${name}: ${method} ${path.split('?')[0] ?? ''} answered ${status}`;
  // A key that is refused is refused for every device, and so is a request too many.
  if (status >= 500 || [401, 403, 429].includes(status)) throw new BrokerAwayError(message);
  throw new Error(message);
}
