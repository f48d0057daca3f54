// How much a connection may take of the local broker: how many there are, in all and of one address, and how many bytes a
// packet may have before and after the login. Knows no logins.
import type { EventEmitter } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Client } from 'aedes';
import type { Log } from '../../rig/worker/part-process.ts';
import type { BrokerLimits } from './limits.ts';

/** The parser keeps what it has of a packet until that is whole; -1 is a packet whose length is not known yet. */
type Parser = EventEmitter & { parse: (bytes: Buffer) => number; packet: { length: number } };
type PacketListener = (this: Parser, packet: { length: number }) => void;

/** CONNACK with "server unavailable" (MQTT-3.2.2.3), which a client reads as the answer to its CONNECT. */
const unavailable = Buffer.from([0x20, 2, 0, 3]);
const unavailableOverHttp = 'HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n';

export class BrokerGate {
  readonly #limits: BrokerLimits;
  readonly #log: Log;
  readonly #connections = new Map<string, number>();
  #total = 0;

  constructor(limits: BrokerLimits, log: Log) {
    this.#limits = limits;
    this.#log = log;
  }

  /** False where the socket was refused. Call it once for each socket. */
  admit(socket: Socket, protocol: 'mqtt' | 'http'): boolean {
    const address = socket.remoteAddress ?? '';
    const count = this.#connections.get(address) ?? 0;
    const { connections, connectionsPerAddress } = this.#limits;
    const reached = this.#total >= connections ? { connections } : { connectionsPerAddress };
    if (this.#total >= connections || count >= connectionsPerAddress) {
      this.#log('warn', 'connection_refused', { address, ...reached });
      socket.on('error', (error) => this.#log('debug', 'refused_connection_broke', { error: error.message }));
      socket.end(protocol === 'mqtt' ? unavailable : unavailableOverHttp, () => socket.destroy());
      return false;
    }
    this.#total += 1;
    this.#connections.set(address, count + 1);
    socket.once('close', () => this.#release(address));
    return true;
  }

  /** Ends the connection when a packet, or all that comes before the login is accepted, is larger than allowed. */
  watch(client: Client, request?: IncomingMessage): void {
    const { connectBytes, packetBytes } = this.#limits;
    const { _parser: parser } = client as unknown as { _parser: Parser };
    const maxLength = (): number => (client.connected ? packetBytes : connectBytes);
    let bytesBeforeLogin = 0;
    const refuse = (max: number): void => {
      if (client.closed) return;
      this.#log('warn', 'packet_too_large', { address: addressOf(client, request), clientId: client.id, max });
      client.close();
    };
    const parse = parser.parse.bind(parser);
    parser.parse = (bytes) => {
      if (!client.connected) bytesBeforeLogin += bytes.length;
      if (!client.connected && bytesBeforeLogin > connectBytes) {
        refuse(connectBytes);
        return 0;
      }
      const rest = parse(bytes);
      if (parser.packet.length > maxLength()) refuse(maxLength());
      return rest;
    };
    const [handle] = parser.listeners('packet') as PacketListener[];
    parser.removeAllListeners('packet');
    parser.on('packet', (packet: { length: number }) => {
      if (packet.length > maxLength()) refuse(maxLength());
      else handle?.call(parser, packet);
    });
  }

  #release(address: string): void {
    this.#total -= 1;
    const left = (this.#connections.get(address) ?? 1) - 1;
    if (left === 0) this.#connections.delete(address);
    else this.#connections.set(address, left);
  }
}

export function addressOf(client: Client, request = client.req): string {
  const socket = request?.socket ?? client.conn;
  return ('remoteAddress' in socket && socket.remoteAddress) || '';
}
