// Names that one process of this machine holds at a time: ports that are chosen and not yet listened on, state folders. The
// system releases them when the process ends, however it ends. Holds nothing on systems that have no such names (macOS).
import { once } from 'node:events';
import { createServer } from 'node:net';

const prefixes: Partial<Record<NodeJS.Platform, string>> = { linux: '\0latchwork-', win32: '\\\\.\\pipe\\latchwork-' };

/** Until this process ends; false where another one holds it. */
export async function claim(name: string): Promise<boolean> {
  const prefix = prefixes[process.platform];
  if (prefix === undefined) return true;
  const server = createServer((socket) => socket.destroy()).listen(`${prefix}${name}`);
  try {
    await once(server, 'listening');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') return false;
    throw error;
  }
  server.unref();
  return true;
}
