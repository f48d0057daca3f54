// The network connection to the broker, on which the library speaks MQTT: TCP or TLS. It must not read from it.
import { connect, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { MqttConfig } from '../config.ts';

export function openStream({ url, tls }: MqttConfig): Socket {
  const { protocol, hostname, port } = new URL(url);
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  if (protocol === 'mqtt:') return connect({ host, port: Number(port) || 1883 });
  // A server name is no IP address (RFC 6066 3).
  return connectTls({ host, port: Number(port) || 8883, ...(isIP(host) === 0 && { servername: host }), ...tls });
}
