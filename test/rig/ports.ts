// The one place that picks loopback ports and temporary folders for parts that run as processes of their own.
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from './changes.ts';

/** Free when asked: nothing keeps it free until it is used. */
export async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** @throws Error where nothing listens in time */
export function untilListening(port: number, timeoutMs = 10_000): Promise<void> {
  return eventually(`a listener on port ${port}`, () => isListening(port), timeoutMs);
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    const end = (isOpen: boolean): void => {
      socket.destroy();
      resolve(isOpen);
    };
    socket.once('connect', () => end(true));
    socket.once('error', () => end(false));
  });
}

const tempDirs: string[] = [];

/** Removed when this process ends. */
export function makeTempDir(name: string): string {
  if (tempDirs.length === 0) {
    process.once('exit', () => {
      for (const dir of tempDirs) rmSync(dir, { recursive: true, force: true, maxRetries: 3 });
    });
  }
  const dir = mkdtempSync(join(tmpdir(), `latchwork-${name}-`));
  tempDirs.push(dir);
  return dir;
}
