// The sockets of bridges at their link: what each one's attachment holds while the object sleeps, and what is sent and
// closed. Decides nothing.
import { log } from '../../log.ts';
import type { UplinkStall, linkCloseReasons, WorkerFrame } from '../../protocol/bridge.ts';
import type { BridgeState } from './bridge-roles.ts';
import { closeIfOpen, sendIfOpen } from '../calls/open-socket.ts';

export type Attachment = Omit<BridgeState, 'lastSeenAtMs'> & {
  bridgeId: string | null;
  instanceId: string;
  spoolId: string;
  sessionDigest: string;
  /** Why the bridge's uplink stands still, and since when; null while it moves. */
  stall: UplinkStall | null;
};
type CloseCause = 'unreadable frame' | 'no hello' | 'silent' | (typeof linkCloseReasons)[keyof typeof linkCloseReasons];

export function readAttachment(socket: WebSocket): Attachment {
  return socket.deserializeAttachment() as Attachment;
}

export function changeAttachment(socket: WebSocket, change: Partial<Attachment>): void {
  socket.serializeAttachment({ ...readAttachment(socket), ...change });
}

export function sendFrame(socket: WebSocket, frame: WorkerFrame): void {
  sendIfOpen(socket, JSON.stringify(frame));
}

export function closeBridge(socket: WebSocket, cause: CloseCause): void {
  log('warn', 'bridge disconnected', { bridgeId: readAttachment(socket).bridgeId, cause });
  closeIfOpen(socket, 1008, cause);
}
