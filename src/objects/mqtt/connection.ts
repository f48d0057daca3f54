// One MQTT socket of a device or a home: its bytes in and out, the time it is given, and what survives a sleep. Decides
// nothing about packets: domain/direct does, and sockets.ts carries it out.
import type { DirectSession } from '../../domain/direct/session.ts';
import type { Config } from '../../config.ts';
import { PacketReader, type RawPacket, type Unreadable } from '../../protocol/mqtt-codec/packet-reader.ts';
import { sendIfOpen } from '../calls/open-socket.ts';
import { fullBucket, takeToken, type Bucket } from '../../domain/token-bucket.ts';
import { directLimits } from '../../domain/direct/direct-limits.ts';

/** A device answers a command with a reply and a report, without awaiting the acknowledgement of the first. */
const takenAtOnce = 2;

/** What survives a sleep of the object. Not the beginning of a packet: the timer for its rest keeps the object awake. */
type Attachment = {
  /** `ended`: closed by this side, and the client has not answered yet. */
  phase: 'connecting' | 'open' | 'ended';
  address: string;
  session: DirectSession | null;
};

export class DirectConnection {
  readonly socket: WebSocket;
  /** The address of the device, or of the gateway's client. */
  readonly address: string;
  phase: Attachment['phase'];
  session: DirectSession | null;
  isLoggingIn = false;
  /** The attachment has no room for them: the owner of the connection keeps them. */
  areSubscriptionsKept = false;
  readonly gathering = new PacketGathering();
  readonly reader = new PacketReader();
  #bucket: Bucket | undefined;
  #deadline: ReturnType<typeof setTimeout> | null = null;

  constructor(socket: WebSocket, attached: Attachment) {
    this.socket = socket;
    this.address = attached.address;
    this.phase = attached.phase;
    this.session = attached.session;
  }

  /** As it was before the object slept. */
  static wake(socket: WebSocket): DirectConnection {
    return new DirectConnection(socket, socket.deserializeAttachment() as Attachment);
  }

  isOpen(): boolean {
    return this.phase === 'open';
  }

  /** All whole packets, up to one that cannot be read. @param read counts them, and is marked if the device sends too many */
  *packets(
    { limits, rateLimits }: Pick<Config, 'limits' | 'rateLimits'>,
    read: { packets: number; isTooFast: boolean },
    nowMs: number,
  ): Generator<RawPacket | Unreadable> {
    const rate = { burst: directLimits.packetBurst, perSecond: limits.directPacketsPerSecond };
    const bucket = (this.#bucket ??= fullBucket(rate, nowMs));
    for (;;) {
      const raw = this.reader.next(limits.directPacketBytes);
      if (raw === undefined) return;
      read.packets += 1;
      if (rateLimits === 'production' && !takeToken(bucket, rate, nowMs)) {
        read.isTooFast = true;
        return;
      }
      yield raw;
      if ('malformed' in raw) return;
    }
  }

  send(bytes: Uint8Array): boolean {
    return sendIfOpen(this.socket, bytes);
  }

  /** The platform takes 16 384 bytes: `directLimits` keep a session within that. */
  save(): void {
    const { phase, address } = this;
    const session = this.session && { ...this.session, ...(this.areSubscriptionsKept && { subscriptions: [] }) };
    this.socket.serializeAttachment({ phase, address, session } satisfies Attachment);
  }

  /** A timer keeps the object awake, which a few seconds for an unfinished packet are worth. */
  setDeadline(ms: number, onPassed: () => void): void {
    this.clearDeadline();
    this.#deadline = setTimeout(onPassed, ms);
  }

  get hasDeadline(): boolean {
    return this.#deadline !== null;
  }

  clearDeadline(): void {
    clearTimeout(this.#deadline);
    this.#deadline = null;
  }
}

/**
 * When the packets of one connection are taken: at once if the device waits for each acknowledgement, else together with the packets
 * that follow. So a busy device's messages share a write, and a command's acknowledgement shares it with the reply.
 */
export class PacketGathering {
  #isPipelining = false;
  /** Packets taken since the device could last read an acknowledgement. */
  #unread = 0;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #held: ReturnType<typeof setTimeout> | null = null;

  get isWaiting(): boolean {
    return this.#timer !== null;
  }

  /** `delivery`: an acknowledgement that nobody waits for. @param take answers how many messages it acknowledged */
  come(first: 'message' | 'delivery' | 'other', gatherMs: number, take: () => number): void {
    if (this.isWaiting) return;
    const isBehindDelivery = this.#held !== null;
    clearTimeout(this.#held);
    this.#held = null;
    if (first === 'delivery' && !isBehindDelivery) {
      this.#held = setTimeout(() => {
        this.#held = null;
        take();
      }, gatherMs);
      return;
    }
    if (first === 'message' && (this.#unread >= takenAtOnce || this.#isPipelining)) {
      this.#timer = setTimeout(() => {
        this.#timer = null;
        this.#isPipelining = take() > 1;
      }, gatherMs);
      return;
    }
    if (take() === 0) return;
    this.#unread += 1;
    // Behind everything that has come already.
    if (this.#unread === 1) setTimeout(() => (this.#unread = 0), 0);
  }
}
