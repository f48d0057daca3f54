// What the relay is compared with in B4: a partyserver room in the same workerd that hands each message to all others.
import { routePartykitRequest, Server, type Connection, type WSMessage } from 'partyserver';

export class Room extends Server {
  static override options = { hibernate: true };

  override onMessage(connection: Connection, message: WSMessage): void {
    this.broadcast(message, [connection.id]);
  }
}

export default {
  fetch: async (request: Request, env: Cloudflare.Env): Promise<Response> =>
    (await routePartykitRequest(request, env)) ?? new Response(null, { status: 404 }),
};
