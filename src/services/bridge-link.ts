// Passes a bridge's WebSocket on to the BrokerLink object.
import { callBrokerLink } from '../durable/stubs.ts';
import type { ServiceContext } from './context.ts';

export async function openBridgeLink({ env }: ServiceContext, request: Request): Promise<Response> {
  return callBrokerLink(env, 'fetch', 'once', (link) => link.fetch(request));
}
