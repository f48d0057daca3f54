// A real MQTT 3.1.1 broker in this process, for tests. It checks no logins.
import { once } from 'node:events';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { Aedes } from 'aedes';

export type TestBroker = { url: string; port: number; stop: () => Promise<void> };

export async function startAedes(port = 0): Promise<TestBroker & { aedes: Aedes }> {
  const aedes = await Aedes.createBroker();
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    socket.setNoDelay(true);
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    aedes.handle(socket);
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address() as AddressInfo;
  return {
    aedes,
    port: address.port,
    url: `mqtt://127.0.0.1:${address.port}`,
    stop: async () => {
      await new Promise<void>((resolve) => aedes.close(() => resolve()));
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
