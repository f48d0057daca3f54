// A device that speaks MQTT over WebSocket, inside workerd: packets as bytes, so that a test can send what no library would.
// Answers nothing by itself and asserts nothing.
import { PacketReader, type RawPacket } from '../../../../src/protocol/mqtt-codec/packet-reader.ts';
import { messagingName } from '../../../../src/domain/topics.ts';
import { provisionDevice, type TestDevice } from '../provision.ts';
import { upgrade, within } from './socket.ts';

const encoder = new TextEncoder();

export type Level = 4 | 5;

export const text = (value: string): number[] => {
  const bytes = encoder.encode(value);
  return [bytes.length >> 8, bytes.length & 255, ...bytes];
};

/** A packet from its first byte and its body. */
export function packet(first: number, body: readonly number[] | Uint8Array): Uint8Array {
  const length: number[] = [];
  let left = body.length;
  do {
    length.push((left % 128) + (left >= 128 ? 128 : 0));
    left = Math.floor(left / 128);
  } while (left > 0);
  return new Uint8Array([first, ...length, ...body]);
}

export type ConnectOptions = {
  level?: Level;
  clientId?: string;
  username?: string | undefined;
  password?: string | undefined;
  keepAlive?: number;
  will?: { topic: string; payload: string; qos?: number; retain?: boolean };
  /** The CONNECT properties of MQTT 5. */
  properties?: number[];
};

export function connectPacket(device: TestDevice, options: ConnectOptions = {}): Uint8Array {
  const { level = 4, keepAlive = 60, will, properties = [] } = options;
  const { clientId = messagingName(device), username = device.name, password = device.password } = options;
  const hasName = !('username' in options) || options.username !== undefined;
  const hasPassword = !('password' in options) || options.password !== undefined;
  const willFlags = will === undefined ? 0 : 4 | ((will.qos ?? 0) << 3) | (will.retain === true ? 32 : 0);
  return packet(0x10, [
    ...text('MQTT'),
    level,
    2 | willFlags | (hasName ? 128 : 0) | (hasPassword ? 64 : 0),
    keepAlive >> 8,
    keepAlive & 255,
    ...(level === 5 ? [properties.length, ...properties] : []),
    ...text(clientId),
    ...(will === undefined ? [] : [...(level === 5 ? [0] : []), ...text(will.topic), ...text(will.payload)]),
    ...(hasName ? text(username) : []),
    ...(hasPassword ? text(password) : []),
  ]);
}

export function publishPacket(
  topic: string,
  payload: string | Uint8Array,
  { level = 4, packetId = 0, retain = false }: { level?: Level; packetId?: number; retain?: boolean } = {},
): Uint8Array {
  const bytes = typeof payload === 'string' ? encoder.encode(payload) : payload;
  return packet((packetId > 0 ? 0x32 : 0x30) | (retain ? 1 : 0), [
    ...text(topic),
    ...(packetId > 0 ? [packetId >> 8, packetId & 255] : []),
    ...(level === 5 ? [0] : []),
    ...bytes,
  ]);
}

export function subscribePacket(
  filter: string,
  qos = 1,
  { level = 4, packetId = 1 }: { level?: Level; packetId?: number } = {},
) {
  return packet(0x82, [packetId >> 8, packetId & 255, ...(level === 5 ? [0] : []), ...text(filter), qos]);
}

export const unsubscribePacket = (filter: string) => packet(0xa2, [0, 1, ...text(filter)]);
export const pubackPacket = (packetId: number) => packet(0x40, [packetId >> 8, packetId & 255]);
export const pingreq = packet(0xc0, []);
export const disconnectPacket = packet(0xe0, []);

export type Received = RawPacket & { text: string };

/** At the home of an API key, with the answer to its CONNECT. */
export async function connectHome(
  { keyId: name, apiKey: password }: { keyId: string; apiKey: string },
  options: ConnectOptions = {},
): Promise<{ client: DirectClient; connack: Received }> {
  const client = await DirectClient.open('home');
  client.send(connectPacket({ name, password, deviceId: '', productKey: '' }, { clientId: 'home', ...options }));
  return { client, connack: await client.next() };
}

export class DirectClient {
  readonly #socket: WebSocket;
  readonly #reader = new PacketReader();
  readonly #packets: Received[] = [];
  #look: () => void = () => undefined;
  end: { code: number; reason: string } | undefined;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.binaryType = 'arraybuffer';
    socket.accept();
    socket.addEventListener('message', ({ data }) => {
      this.#reader.push(new Uint8Array(data as ArrayBuffer));
      for (let raw = this.#reader.next(1_000_000); raw !== undefined; raw = this.#reader.next(1_000_000)) {
        if ('malformed' in raw) throw new Error(raw.malformed);
        this.#packets.push({ ...raw, text: new TextDecoder().decode(raw.body) });
      }
      this.#look();
    });
    socket.addEventListener('close', ({ code, reason }) => {
      this.end = { code, reason };
      this.#look();
    });
  }

  static over(socket: WebSocket): DirectClient {
    return new DirectClient(socket);
  }

  /** @throws Error with status and body where the Worker does not upgrade */
  static async open(deviceId: string, headers: Record<string, string> = {}): Promise<DirectClient> {
    return new DirectClient(await upgrade(`/mqtt/${deviceId}`, headers));
  }

  /** Opens, connects and awaits CONNACK. */
  static async connect(device: TestDevice, options: ConnectOptions = {}): Promise<DirectClient> {
    const client = await DirectClient.open(device.deviceId);
    client.send(connectPacket(device, options));
    const connack = await client.next();
    if (connack.type !== 2 || connack.body[1] !== 0) throw new Error(`refused: ${[...connack.body].join()}`);
    return client;
  }

  send(...packets: Uint8Array[]): void {
    this.#socket.send(Uint8Array.from(packets.flatMap((one) => [...one])));
  }

  sendText(frame: string): void {
    this.#socket.send(frame);
  }

  async next(): Promise<Received> {
    await this.#until('no packet came', () => this.#packets.length > 0 || this.end !== undefined);
    const first = this.#packets.shift();
    if (first === undefined) throw new Error(`closed: ${JSON.stringify(this.end)}`);
    return first;
  }

  async untilClosed(): Promise<{ code: number; reason: string }> {
    await this.#until('not closed', () => this.end !== undefined);
    return this.end ?? { code: 0, reason: '' };
  }

  /** What came and was not taken. */
  get unread(): readonly Received[] {
    return this.#packets;
  }

  /** Closes the socket without DISCONNECT. */
  drop(): void {
    this.#socket.close(1000, '');
  }

  async #until(complaint: string, isSo: () => boolean): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<undefined>();
    this.#look = () => {
      if (isSo()) resolve(undefined);
    };
    this.#look();
    await within(promise, complaint);
  }
}

/** A new device in a session. */
export async function connectNew(options?: ConnectOptions): Promise<{ device: TestDevice; client: DirectClient }> {
  const device = await provisionDevice();
  return { device, client: await DirectClient.connect(device, options) };
}

/** Topic, packet id (0 with QoS 0) and payload of a PUBLISH. */
export function readPublish({ type, flags, body }: RawPacket, level: Level = 4) {
  if (type !== 3) throw new Error(`type ${type} is no PUBLISH`);
  const length = (body[0] ?? 0) * 256 + (body[1] ?? 0);
  const topic = new TextDecoder().decode(body.subarray(2, 2 + length));
  let at = 2 + length;
  const qos = (flags >> 1) & 3;
  const packetId = qos === 0 ? 0 : (body[at] ?? 0) * 256 + (body[at + 1] ?? 0);
  if (qos > 0) at += 2;
  if (level === 5) at += 1 + (body[at] ?? 0);
  return { topic, packetId, payload: new TextDecoder().decode(body.subarray(at)), flags };
}
