// The devices' side of an uplink benchmark: a thread sends packets that were made before the clock starts. It has a few connections
// to a broker, or one for each device. Acknowledgements and arrivals set its rate. Must not be what limits a figure.
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { generate } from 'mqtt-packet';
import type { Activation } from '../../rig/clients/accounts.ts';
import { Arrivals, type Report } from './reports.ts';

/** One connection to a broker, the direct connection or a gateway. */
export type Line = {
  /** `tcp://host:port`, or `ws://` with the path of the device. */
  url: string;
  /** Sent first; the answer has to accept it. */
  connect: Uint8Array<ArrayBuffer>;
  /** So many packets are written together: over WebSocket they are one frame. */
  packetsAWrite: number;
  /** Packets that may wait for their acknowledgement. */
  maxUnacknowledged: number;
};

/** `arrived` counts the reports of the present load that have come out at the other end. */
export type PublisherData = { lines: Line[]; arrived: Int32Array<SharedArrayBuffer> };

/** One connection's packets, one after the other, and where each ends. */
export type Load = { bytes: Uint8Array<ArrayBuffer>; ends: Uint32Array<ArrayBuffer> };

export class Publishers {
  readonly #thread: Worker;
  readonly #arrived: PublisherData['arrived'];
  readonly #lines: number;
  #arrivals = new Arrivals(0);

  private constructor(thread: Worker, arrived: PublisherData['arrived'], lines: number) {
    this.#thread = thread;
    this.#arrived = arrived;
    this.#lines = lines;
  }

  static async connect(lines: Line[]): Promise<Publishers> {
    const arrived = new Int32Array(new SharedArrayBuffer(4));
    const workerData: PublisherData = { lines, arrived };
    const thread = new Worker(new URL('publisher-thread.ts', import.meta.url), { workerData });
    await once(thread, 'message');
    return new Publishers(thread, arrived, lines.length);
  }

  /** A report has come out at the other end; `text` as `textOf` joins it. */
  readonly noteArrival = (text: string): void => {
    this.#arrivals.add(text);
    Atomics.add(this.#arrived, 0, 1);
  };

  /** Sends the reports and waits for their arrival. A device always has the same connection, so its reports keep their order. */
  async send(reports: readonly Report[]): Promise<{ perSecond: number; problems: string[] }> {
    const byLine = Map.groupBy(reports, ({ deviceIndex }) => deviceIndex % this.#lines);
    const loads = Array.from({ length: this.#lines }, (_, line) => encode(byLine.get(line) ?? []));
    const buffers = loads.flatMap(({ bytes, ends }) => [bytes.buffer, ends.buffer]);
    this.#arrivals = new Arrivals(reports.length);
    Atomics.store(this.#arrived, 0, 0);
    const startedAtMs = performance.now();
    this.#thread.postMessage(loads, buffers);
    const acknowledged = once(this.#thread, 'message');
    const arrivedAtMs = await this.#arrivals.untilComplete();
    // The thread sends the rest without waiting: no more will arrive.
    Atomics.store(this.#arrived, 0, 2 ** 31 - 1);
    await acknowledged;
    const perSecond = arrivedAtMs === null ? 0 : (reports.length * 1000) / (arrivedAtMs - startedAtMs);
    return { perSecond, problems: this.#arrivals.check(reports) };
  }

  async stop(): Promise<void> {
    await this.#thread.terminate();
  }
}

/** A few connections of publishers to a broker that checks no logins. */
export function brokerLines(port: number): Line[] {
  return Array.from({ length: 4 }, (_, index) => ({
    url: `tcp://127.0.0.1:${port}`,
    connect: connectPacket({ clientId: `bench-publisher-${index}` }),
    packetsAWrite: 100,
    maxUnacknowledged: 1_000,
  }));
}

/** A connection of each device itself, which sends a packet at a time. */
export function deviceLines(devices: readonly Activation[], urlOf: (device: Activation) => string): Line[] {
  return devices.map((device) => ({
    url: urlOf(device),
    connect: connectPacket(device.mqtt),
    packetsAWrite: 1,
    maxUnacknowledged: 100,
  }));
}

/** MQTT 3.1.1, clean session, no keep-alive. */
function connectPacket(login: { clientId: string; username?: string; password?: string }): Uint8Array<ArrayBuffer> {
  const { clientId, username, password } = login;
  const packet = {
    cmd: 'connect',
    protocolId: 'MQTT',
    protocolVersion: 4,
    clean: true,
    keepalive: 0,
    clientId,
  } as const;
  const named = username !== undefined && password !== undefined && { username, password: Buffer.from(password) };
  return new Uint8Array(generate({ ...packet, ...named }));
}

/** MQTT 3.1.1 PUBLISH packets at QoS 1 (MQTT-3.3). */
function encode(reports: Report[]): Load {
  const packets = reports.map(({ topic, payload }, index) => {
    const topicBytes = Buffer.byteLength(topic);
    const length = 2 + topicBytes + 2 + Buffer.byteLength(payload);
    const header = length < 128 ? [0x32, length] : [0x32, (length % 128) | 0x80, Math.floor(length / 128)];
    const packet = Buffer.alloc(header.length + length);
    packet.set(header);
    let at = packet.writeUInt16BE(topicBytes, header.length);
    at += packet.write(topic, at);
    at = packet.writeUInt16BE((index % 65_535) + 1, at);
    packet.write(payload, at);
    return packet;
  });
  const bytes = new Uint8Array(Buffer.concat(packets));
  let end = 0;
  return { bytes, ends: Uint32Array.from(packets, (packet) => (end += packet.length)) };
}
