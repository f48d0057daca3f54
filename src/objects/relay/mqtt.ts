// Relay sockets whose first frame is MQTT although they did not ask for its sub-protocol: their shard carries them, and
// does not sleep meanwhile. Those that ask for it are carried by the Worker.
import { MqttPump } from '../device/mqtt/pump.ts';

/** CONNECT (MQTT 3.1.1). Other bytes are a frame of the relay that cannot be read. */
const connectByte = 0x10;

export class RelayMqtt {
  readonly #env: Env;
  readonly #onConnected: (socket: WebSocket) => void;
  readonly #pumps = new WeakMap<WebSocket, MqttPump>();
  /** Sockets that speak the relay's language. */
  readonly #others = new WeakSet<WebSocket>();

  constructor(env: Env, onConnected: (socket: WebSocket) => void) {
    this.#env = env;
    this.#onConnected = onConnected;
  }

  /** What carries this socket; undefined where the frame is for the relay. */
  pumpFor(socket: WebSocket, address: string, frame: string | ArrayBuffer): MqttPump | undefined {
    const known = this.#pumps.get(socket);
    if (known !== undefined) return known;
    const isConnect = typeof frame !== 'string' && new Uint8Array(frame)[0] === connectByte;
    if (!isConnect || this.#others.has(socket)) {
      this.#others.add(socket);
      return undefined;
    }
    const pump = new MqttPump(this.#env, {
      socket,
      address,
      onConnected: () => this.#onConnected(socket),
      onEnded: () => this.#pumps.delete(socket),
    });
    this.#pumps.set(socket, pump);
    return pump;
  }

  closed(socket: WebSocket, code: number): void {
    this.#pumps.get(socket)?.closed(code);
  }
}
