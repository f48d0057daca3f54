// Sockets and WebSockets under the attacker's own hand, so that it can stop reading and send what no library sends.
import { connect, type Socket } from 'node:net';

export function openTcp(port: number | string, localAddress?: string): Promise<Socket> {
  const socket = connect({ port: Number(port), host: '127.0.0.1', ...(localAddress && { localAddress }) });
  return new Promise((resolve, reject) => {
    socket.once('connect', () => resolve(socket));
    socket.on('error', reject);
  });
}

/** @throws Error if the service does not open one */
export function openByHand(url: string, headers: Record<string, string>): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => undefined);
  socket.write(
    [
      'GET /mqtt HTTP/1.1',
      `Host: ${hostname}:${port}`,
      'Upgrade: websocket',
      'Connection: Upgrade',
      'Sec-WebSocket-Version: 13',
      'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
      ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
      '\r\n',
    ].join('\r\n'),
  );
  return new Promise((resolve, reject) => {
    socket.once('data', (chunk: Buffer) => {
      if (chunk.toString().startsWith('HTTP/1.1 101')) resolve(socket);
      else reject(new Error(`no WebSocket: ${chunk.toString().slice(0, 80)}`));
    });
    socket.once('close', () => reject(new Error('no WebSocket: closed')));
  });
}

/** A client's frame with the mask 0, for bodies up to 64 KiB. @param first FIN, reserved bits and opcode */
export function frameOf(first: number, body: Buffer): Buffer {
  const head = body.length < 126 ? [first, 0x80 | body.length] : [first, 0xfe, body.length >> 8, body.length & 255];
  return Buffer.concat([Buffer.from([...head, 0, 0, 0, 0]), body]);
}

export const textFrame = (text: string): Buffer => frameOf(0x81, Buffer.from(text));
