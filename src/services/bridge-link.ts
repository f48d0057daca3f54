// Hands a bridge's WebSocket to the object that holds all of them.
import { brokerLink } from '../durable/stubs.ts';
import type { ServiceContext } from './context.ts';

export async function openBridgeLink({ env }: ServiceContext, request: Request): Promise<Response> {
  return brokerLink(env).fetch(request);
}
