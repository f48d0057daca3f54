// Sends to and closes the sockets of an object. A socket that is closed already is an expected state, not an error; any
// other failure is logged.
import { describeError, log } from '../../log.ts';

/** Set by the Worker on the request that opens a socket: the client's address, encoded as a part of a URL. */
export const clientAddressHeader = 'X-Client-Address';

export function clientAddressOf(request: Request): string {
  return decodeURIComponent(request.headers.get(clientAddressHeader) ?? '');
}

/** False if the socket is not open any more: its close handler does the rest. */
export function sendIfOpen(socket: WebSocket, frame: string | Uint8Array | ArrayBuffer): boolean {
  if (socket.readyState !== WebSocket.OPEN) return false;
  try {
    socket.send(frame);
    return true;
  } catch (error) {
    log('warn', 'socket refused a frame', describeError(error));
    return false;
  }
}

export function closeIfOpen(socket: WebSocket, code: number, reason: string): void {
  if (socket.readyState === WebSocket.CLOSED) return;
  try {
    socket.close(code, reason);
  } catch (error) {
    log('warn', 'socket refused to close', { code, reason, ...describeError(error) });
  }
}

/** Answers a client's close, or passes it on. Without an answer the client waits ten seconds and reports 1006. */
export function answerClose(socket: WebSocket, code: number, reason = ''): void {
  // 1005 and 1006 stand for a missing code and must not be sent (RFC 6455 7.4.1).
  closeIfOpen(socket, code === 1005 || code === 1006 ? 1000 : code, reason);
}
