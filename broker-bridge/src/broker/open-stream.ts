// The network connection to the broker, on which the library speaks MQTT: TCP, TLS or a WebSocket. It must not read from it.
import { connect, isIP } from 'node:net';
import type { Duplex } from 'node:stream';
import { connect as connectTls } from 'node:tls';
import { createWebSocketStream, WebSocket } from 'ws';
import type { MqttConfig } from '../config.ts';

const subprotocol = 'mqtt';

export function openStream({ url, tls }: MqttConfig): Duplex {
  const { protocol, hostname, port } = new URL(url);
  if (protocol === 'ws:' || protocol === 'wss:') {
    const socket = new WebSocket(url, subprotocol, { ...tls, perMessageDeflate: false });
    const stream = createWebSocketStream(socket);
    // Also without a close frame.
    socket.on('close', () => stream.destroy());
    return stream;
  }
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  if (protocol === 'mqtt:') return connect({ host, port: Number(port) || 1883 });
  // A server name is no IP address (RFC 6066 3).
  return connectTls({ host, port: Number(port) || 8883, ...(isIP(host) === 0 && { servername: host }), ...tls });
}
