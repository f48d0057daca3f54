// The process that ends TLS for the API on a server without a reverse proxy. It hands each request and WebSocket to the Worker and says
// from which address it comes: what a client says about that is taken out. Decides nothing else.
import { once } from 'node:events';
import { type ClientRequest, type IncomingMessage, request as sendRequest, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { Socket } from 'node:net';
import { pipeline } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { type CertificateFiles, watchCertificate } from '../mqtt-gateway/src/certificate.ts';
import { describeError, type Log, type LogOptions } from '../node-service/log.ts';
import { runService } from '../node-service/run-service.ts';

export type FrontOptions = CertificateFiles & { port: number; apiPort: number };

const timeouts = { handshakeTimeout: 10_000, headersTimeout: 15_000, requestTimeout: 60_000 };
/** For requests that are under way at the end. */
const drainMs = 1_000;
/** Each holds a file and some memory. */
const maxConnections = 10_000;
/** Headers about one connection (RFC 9110), and those that the front writes itself. */
const ownHeaders = /^(connection|upgrade|keep-alive|proxy-.*|te|trailer|cf-connecting-ip|forwarded|x-forwarded-.*)$/;
const ignore = (): void => undefined;

const given = JSON.parse(process.env['FRONT_OPTIONS'] ?? '{}') as FrontOptions;
const config = { ...given, log: { level: 'info', format: 'json' } satisfies LogOptions };
const { log } = await runService(config, {
  noun: 'TLS front',
  start: startFront,
  stopWithinMs: () => 2 * drainMs,
});
log.info('ready', { port: config.port });
process.send?.({ type: 'ready' });

/** @throws Error if the certificate cannot be used or the port is taken */
async function startFront({ port, apiPort, ...files }: FrontOptions, log: Log): Promise<{ stop: () => Promise<void> }> {
  const certificate = watchCertificate(files, log, (pem) => server.setSecureContext(pem));
  const server = createServer({ ...certificate.current.pem, ...timeouts });
  server.maxConnections = maxConnections;
  server.on('request', (request, response) => {
    const onward = askWorker(request);
    onward.on('response', (answer) => passAnswer(answer, response));
    onward.on('error', () => (response.headersSent ? response.destroy() : response.writeHead(502).end()));
    response.on('close', () => onward.destroy());
    pipeline(request, onward, ignore);
  });
  server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
    socket.on('error', ignore);
    const refusal = new ServerResponse(request);
    const isWebSocket = request.method === 'GET' && request.headers.upgrade?.toLowerCase() === 'websocket';
    if (!isWebSocket) {
      refuse().writeHead(400).end();
      return;
    }
    const onward = askWorker(request, { connection: 'Upgrade', upgrade: 'websocket' });
    onward.on('response', (answer) => passAnswer(answer, refuse()));
    onward.on('error', () => socket.destroy());
    socket.on('close', () => onward.destroy());
    onward.on('upgrade', ({ rawHeaders }: IncomingMessage, worker: Socket, first: Buffer) => {
      // Names and values take turns.
      const lines = rawHeaders.map((text, index) => (index % 2 === 0 ? `${text}: ` : `${text}\r\n`));
      socket.write(`HTTP/1.1 101 Switching Protocols\r\n${lines.join('')}\r\n`);
      socket.write(first);
      worker.write(head);
      // The pipeline has eleven listeners on a socket that is both its ends, of which Node would warn.
      for (const side of [socket, worker]) side.setNoDelay(true).setKeepAlive(true, 60_000).setMaxListeners(20);
      pipeline(socket, worker, socket, ignore);
    });
    onward.end();

    function refuse(): ServerResponse {
      refusal.assignSocket(socket);
      refusal.shouldKeepAlive = false;
      return refusal.on('finish', () => socket.end());
    }
  });
  server.listen({ port, backlog: 1024 });
  await once(server, 'listening');
  return { stop };

  /** The path as the client wrote it, and its Host: addresses that the service hands out begin with it. */
  function askWorker(request: IncomingMessage, more: object = {}): ClientRequest {
    const { method, url: path, socket } = request;
    const { host = '' } = request.headers;
    const told = { host, 'cf-connecting-ip': socket.remoteAddress ?? '', 'x-forwarded-proto': 'https' };
    const headers = { ...withoutOwn(request), ...told, ...more };
    const onward = sendRequest({ host: '127.0.0.1', port: apiPort, agent: false, method, path, headers });
    return onward.on('error', (error) => log.warn('a request broke off', { cause: describeError(error) }));
  }

  async function stop(): Promise<void> {
    certificate.stop();
    server.close();
    server.closeIdleConnections();
    await Promise.race([once(server, 'close'), sleep(drainMs)]);
  }
}

function passAnswer(answer: IncomingMessage, response: ServerResponse): void {
  // The version of HTTP decides how the end of the body is told.
  const headers = withoutOwn(answer);
  delete headers['transfer-encoding'];
  response.writeHead(answer.statusCode ?? 502, headers);
  pipeline(answer, response, ignore);
}

function withoutOwn({ headersDistinct }: IncomingMessage): NodeJS.Dict<string[]> {
  return Object.fromEntries(Object.entries(headersDistinct).filter(([name]) => !ownHeaders.test(name)));
}
