// An MQTT 3.1.1 client that sends what it is told, byte by byte where it matters, keeps what it receives, and answers
// nothing by itself. Asserts nothing.
import { connect, type Socket } from 'node:net';
import { generate, parser, type IPublishPacket, type Packet } from 'mqtt-packet';
import { Changes } from '../changes.ts';

export type RawLogin = { clientId: string; username: string; password: string };

export class RawMqtt {
  readonly socket: Socket;
  readonly changes = new Changes();
  readonly received: Packet[] = [];
  isClosed = false;

  private constructor(port: number) {
    this.socket = connect({ port, host: '127.0.0.1', noDelay: true });
    const packets = parser({ protocolVersion: 4 });
    packets.on('packet', (packet: Packet) => this.received.push(packet));
    this.socket.on('data', (chunk: Buffer) => {
      packets.parse(chunk);
      this.changes.note();
    });
    // 'close' follows.
    this.socket.on('error', () => undefined);
    this.socket.on('close', () => {
      this.isClosed = true;
      this.changes.note();
    });
  }

  /** Says nothing. */
  static open(port: number): RawMqtt {
    return new RawMqtt(port);
  }

  /** Resolves with the answer to CONNECT. */
  static async login(port: number, login: RawLogin, { clean = true, keepalive = 0 } = {}): Promise<RawMqtt> {
    const client = new RawMqtt(port);
    const session = { protocolId: 'MQTT', protocolVersion: 4, clean, keepalive } as const;
    client.send({ cmd: 'connect', ...session, ...login, password: Buffer.from(login.password) });
    await client.until('CONNACK', () => client.received.some(({ cmd }) => cmd === 'connack'));
    return client;
  }

  get published(): IPublishPacket[] {
    return this.received.filter((packet) => packet.cmd === 'publish');
  }

  send(packet: Packet): void {
    this.socket.write(generate(packet));
  }

  async until(what: string, isSo: () => boolean): Promise<void> {
    const describe = () =>
      `${what}; ${this.isClosed ? 'closed, ' : ''}${this.received.length} packets, the last ${JSON.stringify(this.received.slice(-3))}`;
    await this.changes.until(describe, isSo);
  }

  async untilClosed(): Promise<void> {
    await this.until('the broker closes the connection', () => this.isClosed);
  }

  /** As a process that is killed. */
  leave(): void {
    this.socket.destroy();
  }
}
