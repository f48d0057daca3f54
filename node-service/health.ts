// Liveness, readiness and metrics over HTTP, for orchestrators and Prometheus. Nothing can be changed through it.
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Registry } from 'prom-client';
import { describeError, type Log } from './log.ts';

export type Readiness = { isReady: boolean; details: Record<string, string | number | boolean | null> };

/** Answers how to end it. Without an address nothing is served. @throws Error if it cannot listen */
export async function serveHealth(
  address: { host: string; port: number } | undefined,
  registry: Registry,
  log: Log,
  readReadiness: () => Readiness,
): Promise<() => void> {
  if (address === undefined) return () => undefined;
  const server = createServer((request, response) => {
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
  await once(server.listen(address.port, address.host), 'listening');
  log.info('health is served', { ...address, port: (server.address() as AddressInfo).port });
  return () => {
    server.close();
    server.closeAllConnections();
  };
}

function answerJson(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(`${JSON.stringify(body)}\n`);
}
