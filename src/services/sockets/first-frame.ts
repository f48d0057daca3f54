// Sockets of `{ws_url}/mqtt` that ask for MQTT's sub-protocol, and may still speak the relay's language: the first frame
// tells. Bytes go to the object of the device that CONNECT names, text to the relay's shard. Beside them only those for a
// device that edge-door.ts does not let through unseen: the relay's own go to their shard at once and sleep with it.
import { runInBackground } from '../../background.ts';
import { RefusedError } from '../../domain/refusal.ts';
import { MqttPump } from '../../objects/device/mqtt/pump.ts';
import { answerClose, closeIfOpen } from '../../objects/calls/open-socket.ts';
import { log } from '../../log.ts';
import type { ServiceContext } from '../../context.ts';
import { RelayPump } from './relay-pump.ts';
import { answerUpgrade, selectSubprotocol } from './open-sockets.ts';

/** Carries what comes behind the first frame, too. */
type Pump = Pick<MqttPump, 'receive' | 'closed' | 'expire'>;

/** Of this isolate, oldest first: those that have not sent a CONNECT that was accepted, nor text. */
const unconnected = new Set<BareSocket>();

/** Whether `openByFirstFrame` is for it. */
export function asksForMqtt(request: Request): boolean {
  return selectSubprotocol(request) !== undefined;
}

/**
 * @param deviceId of the path, where that names one: then it is MQTT of this device or nothing
 * @throws RefusedError `limit_reached`
 */
export function openByFirstFrame(
  context: ServiceContext,
  request: Request,
  address: string,
  deviceId?: string,
): Response {
  const { edgeUnconnectedPerAddress: maxPerAddress, edgeUnconnected: max } = context.config.limits;
  const ofAddress = [...unconnected].filter((one) => one.address === address).length;
  if (ofAddress >= maxPerAddress) {
    throw new RefusedError({ kind: 'limit_reached', limit: { name: 'edgeUnconnectedPerAddress', max: maxPerAddress } });
  }
  const { 0: client, 1: server } = new WebSocketPair();
  unconnected.add(new BareSocket(context, request, server, { address, deviceId }));
  for (const oldest of [...unconnected].slice(0, Math.max(0, unconnected.size - max))) {
    oldest.end(1013, 'too many connections without CONNECT');
  }
  return answerUpgrade(client, selectSubprotocol(request));
}

class BareSocket {
  readonly address: string;
  readonly #deviceId: string | undefined;
  readonly #context: ServiceContext;
  readonly #request: Request;
  readonly #socket: WebSocket;
  readonly #deadline: ReturnType<typeof setTimeout>;
  #pump: Pump | undefined;

  constructor(
    context: ServiceContext,
    request: Request,
    socket: WebSocket,
    { address, deviceId }: { address: string; deviceId: string | undefined },
  ) {
    this.#context = context;
    this.#request = request;
    this.#socket = socket;
    this.address = address;
    this.#deviceId = deviceId;
    this.#deadline = setTimeout(() => this.#expire(), context.config.limits.edgeConnectSeconds * 1_000);
    socket.binaryType = 'arraybuffer';
    socket.accept();
    socket.addEventListener('message', ({ data }) => this.#receive(data as string | ArrayBuffer));
    socket.addEventListener('close', ({ code }) => this.#closed(code));
    socket.addEventListener('error', () => this.#closed(1006));
  }

  end(code: number, cause: string): void {
    log('info', 'socket closed before a session', { code, cause });
    this.#pump?.closed(code);
    this.#settle();
    closeIfOpen(this.#socket, code, cause);
  }

  #receive(data: string | ArrayBuffer): void {
    const isRelay = typeof data === 'string' && this.#deviceId === undefined;
    this.#pump ??= isRelay ? this.#openRelay() : this.#openMqtt();
    runInBackground('carry a frame', this.#pump.receive(data));
  }

  #openMqtt(): Pump {
    return new MqttPump(this.#context.env, {
      socket: this.#socket,
      address: this.address,
      deviceId: this.#deviceId,
      onConnected: () => this.#settle(),
      onEnded: () => this.#settle(),
    });
  }

  /** Its shard has limits of its own. */
  #openRelay(): Pump {
    this.#settle();
    return new RelayPump(this.#context, this.#request, this.#socket, this.address);
  }

  #expire(): void {
    if (this.#pump === undefined) this.end(1008, 'no CONNECT in time');
    else this.#pump.expire();
  }

  #closed(code: number): void {
    this.#settle();
    this.#pump?.closed(code);
    answerClose(this.#socket, code);
  }

  #settle(): void {
    clearTimeout(this.#deadline);
    unconnected.delete(this);
  }
}
