// The network connection to the broker, on which the library speaks MQTT: TCP, TLS or a WebSocket. It must not read from it.
import { connect, isIP } from 'node:net';
import type { Duplex } from 'node:stream';
import { connect as connectTls } from 'node:tls';
import { createWebSocketStream, WebSocket } from 'ws';
import type { MqttConfig } from '../config.ts';

const defaultPorts: Record<string, number> = { 'mqtt:': 1883, 'mqtts:': 8883 };
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
  const address = { host, port: Number(port) || (defaultPorts[protocol] ?? 0) };
  if (protocol === 'mqtt:') return connect(address);
  // A server name is no IP address (RFC 6066 3).
  return connectTls({ ...address, ...(isIP(host) === 0 && { servername: host }), ...tls });
}
