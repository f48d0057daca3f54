// One MQTT socket of a device or a home: its bytes in and out, the time it is given, and what survives a sleep. Decides
// nothing about packets: domain/direct does, and sockets.ts carries it out.
import type { DirectSession } from '../../domain/direct/session.ts';
import type { Config } from '../../config.ts';
import { PacketReader, type RawPacket, type Unreadable } from '../../protocol/mqtt-codec/packet-reader.ts';
import { sendIfOpen } from '../calls/open-socket.ts';
import { PacketGathering } from './packet-gathering.ts';
import { fullBucket, takeToken, type Bucket } from '../../domain/token-bucket.ts';
import { directLimits } from '../../domain/direct/direct-limits.ts';

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
