// Distance for the loopback: a TCP proxy that hands on every byte a fixed time after it came. It delays, and limits
// nothing: as much may be on its way as the two sides want.
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

export type DelayProxy = { url: string; stop: () => Promise<void> };

/** `oneWayMs` is added in each direction. */
export async function startDelayProxy(targetUrl: string, oneWayMs: number): Promise<DelayProxy> {
  const { hostname, port } = new URL(targetUrl);
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(Number(port), hostname);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('close', () => sockets.delete(socket));
      socket.on('error', () => undefined);
    }
    pass(near, far, oneWayMs);
    pass(far, near, oneWayMs);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop: async () => {
      server.close();
      for (const socket of sockets) socket.destroy();
      await once(server, 'close');
    },
  };
}

function pass(from: Socket, to: Socket, delayMs: number): void {
  const later = (work: () => void): void => void setTimeout(work, delayMs);
  from.on('data', (chunk: Buffer) => later(() => to.writable && to.write(chunk)));
  from.on('end', () => later(() => to.end()));
  from.on('close', (hadError) => later(() => hadError && to.destroy()));
}
