// Carries one MQTT connection to the object of its device, byte for byte. Reads CONNECT and nothing else: what is wrong with
// it, and a guessed password, is answered here and wakes no object.
import { readConfig, type Config } from '../../../config.ts';
import {
  closeCodeOf,
  connackCodeOf,
  connectRefusalOf,
  type ConnectRefusal,
} from '../../../domain/direct/answer-codes.ts';
import { readConnect, readLogin } from '../../../domain/direct/connect.ts';
import { refuse, RefusedError, type Outcome, type Refusal } from '../../../domain/refusal.ts';
import { log } from '../../../log.ts';
import type { ConnectPacket, ProtocolLevel } from '../../../protocol/mqtt-codec/client-packets.ts';
import { refusedDirectLoginEvent } from '../../../protocol/log-events.ts';
import { PacketReader } from '../../../protocol/mqtt-codec/packet-reader.ts';
import { encodeConnack } from '../../../protocol/mqtt-codec/server-packets.ts';
import { directAddressHeader, takenCheck } from './sockets.ts';
import { digestIfCertified } from '../../../crypto/messaging-password.ts';
import { answerClose, closeIfOpen, sendIfOpen } from '../../calls/open-socket.ts';
import { callDevice } from '../../calls/stubs.ts';

/** The object's socket is asked after so many bytes what was taken of them. */
const bytesPerCheck = 65_536;
/** What the object has not taken waits in its memory: many devices may do so at once. */
const maxUntakenBytes = 1_048_576;

export type PumpedClient = {
  socket: WebSocket;
  /** An IPv6 address counts by its /64 network. */
  address: string;
  deviceId: string;
  onConnected: () => void;
  onEnded: () => void;
};

export class MqttPump {
  readonly #env: Env;
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
    this.#env = env;
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
    const { level } = packet;
    const login = readLogin(packet, this.#client.deviceId);
    if ('refusal' in login) {
      this.#refuse(level, login.refusal);
      return;
    }
    this.#phase = 'logging_in';
    const { device, password } = login;
    const digest = await digestIfCertified(this.#config.messagingSecrets, device, password);
    const opened = digest.ok ? await this.#openObject(device.deviceId) : digest;
    if (!opened.ok) this.#refuse(level, connectRefusalOf(opened.refusal), opened.refusal);
    else if (await this.#connectObject(opened.value)) this.#client.onConnected();
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

  async #openObject(deviceId: string): Promise<Outcome<WebSocket>> {
    const headers = { Upgrade: 'websocket', [directAddressHeader]: encodeURIComponent(this.#client.address) };
    try {
      const request = new Request(`https://object/mqtt/${deviceId}`, { headers });
      const { webSocket } = await callDevice(this.#env, deviceId, 'once').fetch(request);
      return webSocket === null ? refuse({ kind: 'not_found', what: 'device' }) : { ok: true, value: webSocket };
    } catch (error) {
      if (error instanceof RefusedError) return refuse(error.refusal);
      throw error;
    }
  }

  /** The platform tells nobody how much waits for an object: it is asked now and then what it has taken. */
  #sendUp(data: string | ArrayBuffer | Uint8Array): void {
    if (this.#object === undefined) return;
    this.#untakenBytes += typeof data === 'string' ? data.length : data.byteLength;
    if (this.#untakenBytes > maxUntakenBytes) {
      this.#end(1013, 'too much that the object of the device has not taken');
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
    log('info', refusedDirectLoginEvent, { deviceId: this.#client.deviceId, refusal, ...cause });
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
