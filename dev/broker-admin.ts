// The one call of EMQX's management API that the Worker makes (end a client's session), and the broker's own health.
// Listens on loopback only.
import { createHash, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';

export type AdminOptions = {
  apiKey: string;
  apiSecret: string;
  kick: (clientId: string) => boolean;
  health: () => Record<string, unknown>;
};

export function createAdminServer(options: AdminOptions): Server {
  const expected = `Basic ${Buffer.from(`${options.apiKey}:${options.apiSecret}`).toString('base64')}`;
  return createServer((request, response) => {
    request.resume();
    const { pathname } = new URL(request.url ?? '/', 'http://localhost');
    if (request.method === 'GET' && pathname === '/healthz') {
      answer(response, 200, { status: 'ok', ...options.health() });
      return;
    }
    const [, encodedClientId] = /^\/api\/v5\/clients\/([^/]+)$/.exec(pathname) ?? [];
    const clientId = encodedClientId === undefined ? undefined : decode(encodedClientId);
    if (!isAuthorized(request, expected)) answer(response, 401, { code: 'BAD_API_KEY_OR_SECRET' });
    else if (request.method !== 'DELETE' || clientId === undefined) answer(response, 404, { code: 'NOT_FOUND' });
    else if (!options.kick(clientId)) answer(response, 404, { code: 'CLIENTID_NOT_FOUND' });
    else response.writeHead(204).end();
  });
}

function isAuthorized(request: IncomingMessage, expected: string): boolean {
  const given = request.headers.authorization ?? '';
  return timingSafeEqual(digest(given), digest(expected));
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    if (error instanceof URIError) return undefined;
    throw error;
  }
}

function answer(response: ServerResponse, status: number, body: Record<string, unknown>): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
