// The devices' end of the broker or the direct connection, on one plain MQTT 3.1.1 connection. After a loss it opens a
// clean session and sends messages without a PUBACK again, in order. Not the library: after a reconnect that may report
// messages as acknowledged that the broker never took. It must not know what a message means.
import type { Duplex } from 'node:stream';
import { generate, parser, type Packet } from 'mqtt-packet';
import { Changes } from '../../../rig/changes.ts';

export type Outgoing = { topic: string; payload: string | Buffer };

export type PublisherEvents<M extends Outgoing> = {
  onAttempt: (message: M) => void;
  onAccepted: (message: M) => void;
};

/** The login of a device, for a broker that checks logins. Without it, each connection has a name of its own. */
type PublisherLogin = { clientId: string; username: string; password: string };

/** Below mosquitto's own limit of unacknowledged messages. */
const maxUnacknowledged = 100;
const connectAgainAfterMs = 50;
const connackWithinMs = 2000;

let lastName = 0;

export class StrictPublisher<M extends Outgoing> {
  readonly #dial: () => Duplex;
  readonly #events: PublisherEvents<M>;
  readonly #login: PublisherLogin | undefined;
  /** In the order of the first attempt. */
  readonly #unacknowledged = new Map<number, M>();
  readonly #waiting: M[] = [];
  readonly #changes = new Changes();
  #lost: M[] = [];
  #socket: Duplex | null = null;
  #lastPacketId = 0;
  #isClosed = false;
  connections = 0;

  private constructor(dial: () => Duplex, events: PublisherEvents<M>, login?: PublisherLogin) {
    this.#dial = dial;
    this.#events = events;
    this.#login = login;
  }

  /** @param dial opens a connection; its bytes are MQTT */
  static async connect<M extends Outgoing>(
    dial: () => Duplex,
    events: PublisherEvents<M>,
    login?: PublisherLogin,
  ): Promise<StrictPublisher<M>> {
    const publisher = new StrictPublisher<M>(dial, events, login);
    await publisher.#open();
    return publisher;
  }

  /** What the broker has not acknowledged, sent or not. */
  get unacknowledged(): number {
    return this.#unacknowledged.size + this.#lost.length + this.#waiting.length;
  }

  publish(message: M): void {
    this.#waiting.push(message);
    this.#sendMore();
  }

  /** Resolves when the broker has acknowledged everything. */
  drained(timeoutMs: number): Promise<void> {
    const left = () => `the broker's acknowledgements: ${this.unacknowledged} messages have none`;
    return this.#changes.until(left, () => this.unacknowledged === 0, timeoutMs);
  }

  close(): void {
    this.#isClosed = true;
    this.#socket?.destroy();
  }

  async #open(): Promise<void> {
    const socket = this.#dial();
    // 'close' follows and is handled below.
    socket.on('error', () => undefined);
    lastName += 1;
    const { clientId = `faults-publisher-${process.pid}-${lastName}`, username, password } = this.#login ?? {};
    const packets = parser({ protocolVersion: 4 });
    const isWelcome = new Promise<boolean>((resolve) => {
      packets.on('packet', (packet: Packet) => {
        if (packet.cmd === 'connack') resolve(packet.returnCode === 0);
        else if (packet.cmd === 'puback') this.#acknowledge(packet.messageId ?? 0);
      });
      socket.on('close', () => resolve(false));
      setTimeout(() => resolve(false), connackWithinMs).unref();
    });
    socket.on('data', (chunk: Buffer) => packets.parse(chunk));
    const session = { protocolId: 'MQTT', protocolVersion: 4, clean: true, keepalive: 0 } as const;
    socket.write(
      generate({
        cmd: 'connect',
        ...session,
        clientId,
        ...(username !== undefined && password !== undefined && { username, password: Buffer.from(password) }),
      }),
    );
    const isOpen = await isWelcome;
    if (this.#isClosed || !isOpen) {
      socket.destroy();
      if (!this.#isClosed) this.#openAgain();
      return;
    }
    this.connections += 1;
    this.#socket = socket;
    socket.once('close', () => this.#takeLoss());
    this.#sendMore();
  }

  #openAgain(): void {
    setTimeout(() => {
      if (!this.#isClosed) void this.#open();
    }, connectAgainAfterMs);
  }

  #takeLoss(): void {
    this.#socket = null;
    this.#lost = [...this.#unacknowledged.values(), ...this.#lost];
    this.#unacknowledged.clear();
    if (!this.#isClosed) this.#openAgain();
  }

  #sendMore(): void {
    const socket = this.#socket;
    if (socket === null || socket.destroyed) return;
    while (this.#unacknowledged.size < maxUnacknowledged) {
      const message = this.#lost.shift() ?? this.#waiting.shift();
      if (message === undefined) return;
      this.#lastPacketId = (this.#lastPacketId % 65_535) + 1;
      this.#unacknowledged.set(this.#lastPacketId, message);
      this.#events.onAttempt(message);
      const { topic, payload } = message;
      const messageId = this.#lastPacketId;
      socket.write(generate({ cmd: 'publish', topic, payload, qos: 1, messageId, dup: false, retain: false }));
    }
  }

  #acknowledge(packetId: number): void {
    const message = this.#unacknowledged.get(packetId);
    if (message === undefined) return;
    this.#unacknowledged.delete(packetId);
    this.#events.onAccepted(message);
    this.#sendMore();
    if (this.unacknowledged === 0) this.#changes.note();
  }
}
