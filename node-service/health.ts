// Liveness, readiness and metrics over HTTP, for orchestrators and Prometheus. Nothing can be changed through it.
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { Registry } from 'prom-client';
import { describeError, type Log } from './log.ts';

export type Readiness = { isReady: boolean; details: Record<string, string | number | boolean | null> };

export function createHealthServer(registry: Registry, log: Log, readReadiness: () => Readiness): Server {
  return createServer((request, response) => {
    const path = request.url?.split('?')[0];
    if (path === '/healthz') answerJson(response, 200, { up: true });
    else if (path === '/readyz') {
      const { isReady, details } = readReadiness();
      answerJson(response, isReady ? 200 : 503, { ready: isReady, ...details });
    } else if (path === '/metrics') {
      registry.metrics().then(
        (text) => response.writeHead(200, { 'content-type': registry.contentType }).end(text),
        (error: unknown) => {
          log.error('metrics cannot be read', { cause: describeError(error) });
          response.writeHead(500).end();
        },
      );
    } else answerJson(response, 404, { paths: ['/healthz', '/readyz', '/metrics'] });
  });
}

function answerJson(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(`${JSON.stringify(body)}\n`);
}
