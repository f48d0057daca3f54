// Carries one MQTT connection to the object that it is for, byte for byte. Reads CONNECT and nothing else: what is wrong with it is
// answered here, and a guessed password wakes no object. Who is let in, and to which object, its opener says.
import { readConfig, type Config } from '../../config.ts';
import { closeCodeOf, connackCodeOf, type ConnectRefusal } from '../../domain/direct/answer-codes.ts';
import { readConnect } from '../../domain/direct/connect.ts';
import type { Refusal } from '../../domain/refusal.ts';
import { describeError, log } from '../../log.ts';
import type { ConnectPacket, ProtocolLevel } from '../../protocol/mqtt-codec/client-packets.ts';
import { refusedDirectLoginEvent } from '../../protocol/log-events.ts';
import { PacketReader } from '../../protocol/mqtt-codec/packet-reader.ts';
import { encodeConnack } from '../../protocol/mqtt-codec/server-packets.ts';
import { takenCheck } from './sockets.ts';
import { answerClose, closeIfOpen, sendIfOpen } from '../calls/open-socket.ts';

/** The object's socket is asked after so many bytes what was taken of them. */
const bytesPerCheck = 65_536;
/** What the object has not taken waits in its memory: many devices may do so at once. */
const maxUntakenBytes = 1_048_576;

/** The object's socket, or why there is none. */
export type Admission = WebSocket | { refusal: ConnectRefusal; because?: Refusal };

export type PumpedClient = {
  socket: WebSocket;
  /** For the log. */
  about: Record<string, unknown>;
  /** Opens the object's socket, which gets CONNECT, too. */
  admit: (packet: ConnectPacket) => Promise<Admission>;
  onConnected: () => void;
  onEnded: () => void;
};

export class MqttPump {
  readonly #config: Config;
  readonly #client: PumpedClient;
  readonly #reader = new PacketReader();
  #early: Uint8Array[] = [];
  #earlyBytes = 0;
  #object: WebSocket | undefined;
  #phase: 'connecting' | 'logging_in' | 'carrying' | 'ended' = 'connecting';
  #untakenBytes = 0;
  #bytesInCheck: number | undefined;

  constructor(env: Env, client: PumpedClient) {
    this.#config = readConfig(env);
    this.#client = client;
  }

  async receive(data: string | ArrayBuffer): Promise<void> {
    if (this.#phase === 'ended') return;
    if (this.#phase === 'carrying') {
      this.#sendUp(data);
      return;
    }
    if (typeof data === 'string') {
      // MQTT-6.0.0-1
      this.#end(closeCodeOf('text_frame'), 'text_frame');
      return;
    }
    const bytes = new Uint8Array(data);
    this.#early.push(bytes);
    this.#earlyBytes += bytes.length;
    if (this.#earlyBytes > this.#config.limits.directPacketBytes) {
      this.#end(1009, 'too much before CONNACK');
    } else if (this.#phase === 'connecting') {
      this.#reader.push(bytes);
      const first = readConnect(this.#reader);
      if (first === undefined) return;
      if ('drop' in first) this.#end(first.drop.code, first.drop.cause);
      else if ('refusal' in first) this.#refuse(first.level, first.refusal);
      else await this.#logIn(first);
    }
  }

  expire(): void {
    if (this.#phase === 'connecting') this.#end(1008, 'no CONNECT in time');
  }

  closed(code: number): void {
    this.#end(code, '');
  }

  async #logIn(packet: ConnectPacket): Promise<void> {
    this.#phase = 'logging_in';
    const admitted = await this.#client.admit(packet).catch((error: unknown): Admission => {
      log('error', 'direct login failed', { ...this.#client.about, ...describeError(error) });
      return { refusal: 'unavailable' };
    });
    if ('refusal' in admitted) this.#refuse(packet.level, admitted.refusal, admitted.because);
    else if (await this.#connectObject(admitted)) this.#client.onConnected();
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
      sendIfOpen(this.#client.socket, bytes);
    });
    object.addEventListener('close', ({ code, reason }) => {
      resolve(false);
      // Without a close frame: the object was moved, restarted or deployed anew.
      this.#end(code === 1005 || code === 1006 ? 1012 : code, reason);
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
      this.#end(1013, 'too much that the object has not taken');
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
    sendIfOpen(this.#client.socket, encodeConnack(level, connackCodeOf(level, refusal)));
    log('info', refusedDirectLoginEvent, { ...this.#client.about, refusal, ...cause });
    this.#end(1008, refusal);
  }

  #isEnded(): boolean {
    return this.#phase === 'ended';
  }

  #end(code: number, reason: string): void {
    if (this.#isEnded()) return;
    this.#phase = 'ended';
    this.#early = [];
    if (this.#object !== undefined) answerClose(this.#object, code, reason);
    answerClose(this.#client.socket, code, reason);
    this.#client.onEnded();
  }
}
