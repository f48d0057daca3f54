// A TCP or TLS client that sends what it is told and keeps what it receives. Asserts nothing.
import { connect, type Socket } from 'node:net';
import { connect as connectTls, type ConnectionOptions } from 'node:tls';
import { generate } from 'mqtt-packet';
import { Changes } from '../changes.ts';

type Login = { clientId: string; username: string; password: string; keepalive?: number };

/** CONNECT of a device. */
export function connectBytesOf({ password, keepalive = 60, ...names }: Login): Buffer {
  const session = { protocolId: 'MQTT', protocolVersion: 4, clean: true, keepalive } as const;
  return generate({ cmd: 'connect', ...session, ...names, password: Buffer.from(password) });
}

export const connectBytes = connectBytesOf({
  ...{ clientId: 'switch&dev_00000000', username: 'switch&dev_00000000', password: 'tk_x' },
});

export class TcpClient {
  readonly socket: Socket;
  readonly changes = new Changes();
  receivedBytes = 0;
  readonly #chunks: Buffer[] = [];
  isClosed = false;
  error: string | undefined;

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.setNoDelay(true);
    socket.on('data', (chunk: Buffer) => {
      this.receivedBytes += chunk.length;
      this.#chunks.push(chunk);
      this.changes.note();
    });
    // 'close' follows.
    socket.on('error', (error) => (this.error = error.message));
    socket.on('close', () => {
      this.isClosed = true;
      this.changes.note();
    });
  }

  static async open(port: number): Promise<TcpClient> {
    const client = new TcpClient(connect(port, '127.0.0.1'));
    return client.#opened('connect');
  }

  static async openTls(port: number, options: ConnectionOptions): Promise<TcpClient> {
    const client = new TcpClient(connectTls({ port, host: '127.0.0.1', ...options }));
    return client.#opened('secureConnect');
  }

  get received(): Buffer {
    return Buffer.concat(this.#chunks);
  }

  async until(what: string, isSo: () => boolean): Promise<void> {
    const describe = () =>
      `${what}; ${this.isClosed ? `closed (${this.error ?? 'in order'}), ` : ''}${this.receivedBytes} bytes`;
    await this.changes.until(describe, isSo);
  }

  /** Resolves when it is open, or closed before that. */
  #opened(event: 'connect' | 'secureConnect'): Promise<this> {
    return new Promise((resolve) => {
      this.socket.once(event, () => resolve(this));
      this.socket.once('close', () => resolve(this));
    });
  }

  async untilClosed(): Promise<void> {
    await this.until('the connection is closed', () => this.isClosed);
  }
}
