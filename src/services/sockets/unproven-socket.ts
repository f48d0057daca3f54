// An MQTT WebSocket whose CONNECT the Worker reads first, so that a guess wakes no object: of a home, and of a device beyond the budget
// of unproven logins. Answers a CONNECT that is wrong, and carries a good one and all that follows to its object, byte for byte. Limits
// how many wait for a good CONNECT, by address and in all, and for how long. It must not read more of MQTT.
import { runInBackground, type ServiceContext } from '../../context.ts';
import { closeCodeOf, connackCodeOf, type ConnectRefusal } from '../../domain/direct/answer-codes.ts';
import { readConnect } from '../../domain/direct/connect.ts';
import { RefusedError, type Refusal } from '../../domain/refusal.ts';
import { describeError, log } from '../../log.ts';
import { answerClose, closeIfOpen, sendIfOpen } from '../../objects/calls/open-socket.ts';
import { takenCheck } from '../../objects/mqtt/sockets.ts';
import type { ConnectPacket, ProtocolLevel } from '../../protocol/mqtt-codec/client-packets.ts';
import { refusedDirectLoginEvent } from '../../protocol/log-events.ts';
import { PacketReader } from '../../protocol/mqtt-codec/packet-reader.ts';
import { encodeConnack } from '../../protocol/mqtt-codec/server-packets.ts';

const connectWithinMs = 10_000;
/** An isolate has 128 MiB; what each one may send before its login is answered must fit into it. */
const maxWaiting = 2_000;
/** The object's socket is asked after so many bytes what was taken of them. */
const bytesPerCheck = 65_536;
/** What the object has not taken waits in its memory: many devices may do so at once. */
const maxUntakenBytes = 1_048_576;

/** The object's socket, or why there is none. */
export type Admission = WebSocket | { refusal: ConnectRefusal; because?: Refusal };

type Opening = {
  /** For the log. */
  about: Record<string, unknown>;
  /** Opens the object's socket, which gets CONNECT, too. */
  admit: (packet: ConnectPacket) => Promise<Admission>;
};

const waiting = new Set<UnprovenSocket>();

export function openUnproven(context: ServiceContext, opening: Opening): WebSocket {
  const max = context.config.limits.directUnconnectedPerAddress;
  const ofAddress = [...waiting].filter(({ address }) => address === context.clientAddress).length;
  if (ofAddress >= max) {
    throw new RefusedError({ kind: 'limit_reached', limit: { name: 'directUnconnectedPerAddress', max } });
  }
  const [oldest] = waiting;
  if (waiting.size >= maxWaiting) oldest?.end(1013, 'too many connections without CONNECT');
  const { 0: client, 1: server } = new WebSocketPair();
  waiting.add(new UnprovenSocket(server, context, opening));
  return client;
}

class UnprovenSocket {
  readonly address: string;
  readonly #maxEarlyBytes: number;
  readonly #client: WebSocket;
  readonly #opening: Opening;
  readonly #deadline = setTimeout(() => this.#expire(), connectWithinMs);
  readonly #reader = new PacketReader();
  #early: Uint8Array[] = [];
  #earlyBytes = 0;
  #object: WebSocket | undefined;
  #phase: 'connecting' | 'logging_in' | 'carrying' | 'ended' = 'connecting';
  #untakenBytes = 0;
  #bytesInCheck: number | undefined;

  constructor(client: WebSocket, { config, clientAddress }: ServiceContext, opening: Opening) {
    this.address = clientAddress;
    this.#maxEarlyBytes = config.limits.directPacketBytes;
    this.#client = client;
    this.#opening = opening;
    client.binaryType = 'arraybuffer';
    client.accept();
    client.addEventListener('message', ({ data }) => {
      runInBackground('carry a frame', this.#receive(data as string | ArrayBuffer));
    });
    client.addEventListener('close', ({ code }) => this.#closed(code));
    client.addEventListener('error', () => this.#closed(1006));
  }

  end(code: number, reason: string): void {
    if (this.#isEnded()) return;
    this.#phase = 'ended';
    this.#early = [];
    if (this.#object !== undefined) answerClose(this.#object, code, reason);
    answerClose(this.#client, code, reason);
    this.#settle();
  }

  async #receive(data: string | ArrayBuffer): Promise<void> {
    if (this.#phase === 'ended') return;
    if (this.#phase === 'carrying') {
      this.#sendUp(data);
      return;
    }
    if (typeof data === 'string') {
      // MQTT-6.0.0-1
      this.end(closeCodeOf('text_frame'), 'text_frame');
      return;
    }
    const bytes = new Uint8Array(data);
    this.#early.push(bytes);
    this.#earlyBytes += bytes.length;
    if (this.#earlyBytes > this.#maxEarlyBytes) {
      this.end(1009, 'too much before CONNACK');
    } else if (this.#phase === 'connecting') {
      this.#reader.push(bytes);
      const first = readConnect(this.#reader);
      if (first === undefined) return;
      if ('drop' in first) this.end(first.drop.code, first.drop.cause);
      else if ('refusal' in first) this.#refuse(first.level, first.refusal);
      else await this.#logIn(first);
    }
  }

  #expire(): void {
    if (this.#phase === 'connecting') this.end(1008, 'no CONNECT in time');
  }

  #closed(code: number): void {
    this.end(code, '');
    answerClose(this.#client, code);
  }

  #settle(): void {
    clearTimeout(this.#deadline);
    waiting.delete(this);
  }

  async #logIn(packet: ConnectPacket): Promise<void> {
    this.#phase = 'logging_in';
    const admitted = await this.#opening.admit(packet).catch((error: unknown): Admission => {
      log('error', 'direct login failed', { ...this.#opening.about, ...describeError(error) });
      return { refusal: 'unavailable' };
    });
    if ('refusal' in admitted) this.#refuse(packet.level, admitted.refusal, admitted.because);
    else if (await this.#connectObject(admitted)) this.#settle();
  }

  /** Whether the object accepts CONNECT. The client gets its answer unchanged. */
  async #connectObject(object: WebSocket): Promise<boolean> {
    object.binaryType = 'arraybuffer';
    object.accept();
    if (this.#isEnded()) {
      closeIfOpen(object, 1001, '');
      return false;
    }
    this.#object = object;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    object.addEventListener('message', ({ data }) => {
      if (typeof data === 'string') {
        if (data === takenCheck.answer) this.#noteTaken();
        return;
      }
      const bytes = new Uint8Array(data as ArrayBuffer);
      resolve(bytes[3] === 0);
      sendIfOpen(this.#client, bytes);
    });
    object.addEventListener('close', ({ code, reason }) => {
      resolve(false);
      // Without a close frame: the object was moved, restarted or deployed anew.
      this.end(code === 1005 || code === 1006 ? 1012 : code, reason);
    });
    this.#phase = 'carrying';
    for (const bytes of this.#early.splice(0)) this.#sendUp(bytes);
    return promise;
  }

  /** The platform tells nobody how much waits for an object: it is asked now and then what it has taken. */
  #sendUp(data: string | ArrayBuffer | Uint8Array): void {
    if (this.#object === undefined) return;
    this.#untakenBytes += typeof data === 'string' ? data.length : data.byteLength;
    if (this.#untakenBytes > maxUntakenBytes) {
      this.end(1013, 'too much that the object has not taken');
      return;
    }
    sendIfOpen(this.#object, data);
    this.#checkTaken(this.#object);
  }

  #checkTaken(object: WebSocket): void {
    if (this.#bytesInCheck !== undefined || this.#untakenBytes < bytesPerCheck) return;
    this.#bytesInCheck = this.#untakenBytes;
    sendIfOpen(object, takenCheck.ask);
  }

  #noteTaken(): void {
    this.#untakenBytes -= this.#bytesInCheck ?? 0;
    this.#bytesInCheck = undefined;
    if (this.#object !== undefined) this.#checkTaken(this.#object);
  }

  #refuse(level: ProtocolLevel, refusal: ConnectRefusal, cause?: Refusal): void {
    if (this.#isEnded()) return;
    sendIfOpen(this.#client, encodeConnack(level, connackCodeOf(level, refusal)));
    log('info', refusedDirectLoginEvent, { ...this.#opening.about, refusal, ...cause });
    this.end(1008, refusal);
  }

  #isEnded(): boolean {
    return this.#phase === 'ended';
  }
}
