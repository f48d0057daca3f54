// The calls of EMQX's management API that the Worker makes: whether a client is connected, and ending its session.
import { hash, timingSafeEqual } from 'node:crypto';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { unescape } from 'node:querystring';

type AdminOptions = {
  apiKey: string;
  apiSecret: string;
  kick: (clientId: string) => boolean;
  has: (clientId: string) => boolean;
};

export function createAdminServer({ apiKey, apiSecret, kick, has }: AdminOptions): Server {
  const expected = digest(`Basic ${Buffer.from(`${apiKey}:${apiSecret}`).toString('base64')}`);
  return createServer((request, response) => {
    request.resume();
    const { pathname } = new URL(request.url ?? '/', 'http://localhost');
    const clientId = /^\/api\/v5\/clients\/([^/]+)$/.exec(pathname)?.[1];
    const isAuthorized = timingSafeEqual(digest(request.headers.authorization ?? ''), expected);
    if (!isAuthorized) answer(response, 401, 'BAD_API_KEY_OR_SECRET');
    else if (!['GET', 'DELETE'].includes(request.method ?? '') || clientId === undefined) {
      answer(response, 404, 'NOT_FOUND');
    } else if (request.method === 'GET') {
      if (has(unescape(clientId))) answerJson(response, 200, { clientid: unescape(clientId), connected: true });
      else answer(response, 404, 'CLIENTID_NOT_FOUND');
    } else if (!kick(unescape(clientId))) answer(response, 404, 'CLIENTID_NOT_FOUND');
    else response.writeHead(204).end();
  });
}

function digest(text: string): Buffer {
  return hash('sha256', text, 'buffer');
}

function answer(response: ServerResponse, status: number, code: string): void {
  answerJson(response, status, { code });
}

function answerJson(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
