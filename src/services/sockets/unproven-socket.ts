// An MQTT WebSocket whose CONNECT the Worker reads first, so that a guess wakes no object: of a home, and of a device beyond the budget
// of unproven logins. Limits how many wait for a good CONNECT, by address and in all, and for how long. It must not read MQTT itself.
import { runInBackground, type ServiceContext } from '../../context.ts';
import { RefusedError } from '../../domain/refusal.ts';
import { answerClose, closeIfOpen } from '../../objects/calls/open-socket.ts';
import { MqttPump, type PumpedClient } from '../../objects/mqtt/pump.ts';

const connectWithinMs = 10_000;
/** An isolate has 128 MiB; what each one may send before its login is answered must fit into it. */
const maxWaiting = 2_000;

type Waiting = { address: string; end: (code: number, reason: string) => void };

const waiting = new Set<Waiting>();

export function openUnproven(
  { env, config, clientAddress: address }: ServiceContext,
  { about, admit }: Pick<PumpedClient, 'about' | 'admit'>,
): WebSocket {
  const max = config.limits.directUnconnectedPerAddress;
  const ofAddress = [...waiting].filter((socket) => socket.address === address).length;
  if (ofAddress >= max) {
    throw new RefusedError({ kind: 'limit_reached', limit: { name: 'directUnconnectedPerAddress', max } });
  }
  const [oldest] = waiting;
  if (waiting.size >= maxWaiting) oldest?.end(1013, 'too many connections without CONNECT');

  const { 0: client, 1: server } = new WebSocketPair();
  const settle = (): void => {
    clearTimeout(deadline);
    waiting.delete(entry);
  };
  const pump = new MqttPump(env, { socket: server, about, admit, onConnected: settle, onEnded: settle });
  const end = (code: number, reason = ''): void => {
    if (reason !== '') closeIfOpen(server, code, reason);
    pump.closed(code);
    answerClose(server, code);
  };
  const entry: Waiting = { address, end };
  const deadline = setTimeout(() => pump.expire(), connectWithinMs);
  waiting.add(entry);
  server.binaryType = 'arraybuffer';
  server.accept();
  server.addEventListener('message', ({ data }) => {
    runInBackground('carry a frame', pump.receive(data as string | ArrayBuffer));
  });
  server.addEventListener('close', ({ code }) => end(code));
  server.addEventListener('error', () => end(1006));
  return client;
}
