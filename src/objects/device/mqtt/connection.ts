// One socket of a device at the edge: its bytes in and out, the time it is given, and what survives a sleep. Decides
// nothing about packets: domain/edge does, and edge-sockets.ts carries it out.
import type { EdgeSession } from '../../../domain/direct/session.ts';
import type { Config } from '../../../config.ts';
import { PacketReader, type RawPacket, type Unreadable } from '../../../protocol/mqtt-codec/packet-reader.ts';
import { readAttachment, writeAttachment, type EdgeAttachment } from './attachment.ts';
import { sendIfOpen } from '../../calls/open-socket.ts';
import { PacketGathering } from './packet-gathering.ts';
import { fullBucket, takeToken, type Bucket } from '../../../domain/token-bucket.ts';
import { directLimits } from '../../../domain/direct/direct-limits.ts';

export class EdgeConnection {
  readonly socket: WebSocket;
  readonly openedAtMs: number;
  /** Of the device, or of the gateway's client. */
  readonly address: string;
  phase: EdgeAttachment['phase'];
  session: EdgeSession | null;
  isLoggingIn = false;
  readonly gathering = new PacketGathering();
  readonly reader = new PacketReader();
  #bucket: Bucket | undefined;
  #deadline: ReturnType<typeof setTimeout> | null = null;

  private constructor(socket: WebSocket, attached: EdgeAttachment) {
    this.socket = socket;
    this.openedAtMs = attached.openedAtMs;
    this.address = attached.address;
    this.phase = attached.phase;
    this.session = attached.session;
  }

  static open(socket: WebSocket, address: string, nowMs: number): EdgeConnection {
    const opened = { phase: 'connecting', openedAtMs: nowMs, address, session: null } as const;
    const connection = new EdgeConnection(socket, opened);
    connection.save();
    return connection;
  }

  /** As it was before the object slept; undefined where that is not known. */
  static wake(socket: WebSocket): EdgeConnection | undefined {
    const attached = readAttachment(socket);
    return attached && new EdgeConnection(socket, attached);
  }

  isOpen(): boolean {
    return this.phase === 'open';
  }

  /** All whole packets, up to one that cannot be read. @param read is told of each, and where the device sends too many */
  *packets(
    { limits, rateLimits }: Pick<Config, 'limits' | 'rateLimits'>,
    read: { packets: number; isTooFast: boolean },
    nowMs: number,
  ): Generator<RawPacket | Unreadable> {
    for (;;) {
      const raw = this.reader.next(limits.edgePacketBytes);
      if (raw === undefined) return;
      read.packets += 1;
      if (rateLimits === 'production' && !this.#mayReceive(limits.edgePacketsPerSecond, nowMs)) {
        read.isTooFast = true;
        return;
      }
      yield raw;
      if ('malformed' in raw) return;
    }
  }

  #mayReceive(perSecond: number, nowMs: number): boolean {
    const rate = { burst: directLimits.packetBurst, perSecond };
    return takeToken((this.#bucket ??= fullBucket(rate, nowMs)), rate, nowMs);
  }

  send(bytes: Uint8Array): boolean {
    return sendIfOpen(this.socket, bytes);
  }

  save(): void {
    const { phase, openedAtMs, address, session } = this;
    writeAttachment(this.socket, { phase, openedAtMs, address, session });
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
