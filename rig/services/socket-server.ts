// Stands in for the Worker in tests of the gateway alone: real WebSockets on a free port, which answer as a test tells
// them. Asserts nothing.
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import { WebSocketServer, type WebSocket } from 'ws';
import { Changes } from '../changes.ts';
import { LoopbackServer } from '../loopback-server.ts';

/** What one WebSocket received. */
export class ServerSide {
  readonly socket: WebSocket;
  readonly headers: IncomingHttpHeaders;
  readonly subprotocol: string;
  readonly path: string;
  receivedBytes = 0;
  readonly #chunks: Buffer[] = [];
  closeCode: number | undefined;

  constructor(socket: WebSocket, path: string, headers: IncomingHttpHeaders, changes: Changes) {
    this.socket = socket;
    this.headers = headers;
    this.subprotocol = socket.protocol;
    this.path = path;
    socket.on('message', (data: Buffer) => {
      this.receivedBytes += data.length;
      this.#chunks.push(data);
      changes.note();
    });
    socket.on('close', (code) => {
      this.closeCode = code;
      changes.note();
    });
    // 'close' follows.
    socket.on('error', () => undefined);
  }

  get received(): Buffer {
    return Buffer.concat(this.#chunks);
  }
}

export class SocketServer extends LoopbackServer {
  readonly changes = new Changes();
  readonly sides: ServerSide[] = [];
  /** Instead of a WebSocket. */
  refuseWith: number | undefined;
  /** Called for each WebSocket before it receives anything. */
  onOpen: (side: ServerSide) => void = () => undefined;

  private constructor(server: Server) {
    super(server);
    const sockets = new WebSocketServer({ noServer: true });
    server.on('upgrade', (request, raw, head) => {
      if (this.refuseWith !== undefined) {
        raw.end(`HTTP/1.1 ${this.refuseWith} Refused\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
        return;
      }
      sockets.handleUpgrade(request, raw, head, (socket) => {
        const side = new ServerSide(socket, request.url ?? '', request.headers, this.changes);
        this.sides.push(side);
        this.onOpen(side);
        this.changes.note();
      });
    });
  }

  static start(port = 0): Promise<SocketServer> {
    return new SocketServer(createServer()).listen(port);
  }

  /** The WebSocket that was opened as this one. */
  async side(index: number): Promise<ServerSide> {
    await this.changes.until(`WebSocket ${index}`, () => this.sides.length > index);
    return this.sides[index]!;
  }

  override async stop(): Promise<void> {
    for (const { socket } of this.sides) socket.terminate();
    await super.stop();
  }
}
