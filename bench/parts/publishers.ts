// The devices' side of an uplink benchmark: a thread sends packets that were made before the clock starts. It has a few connections
// to a broker, or one for each device. Acknowledgements and arrivals set its rate. Must not be what limits a figure.
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { generate } from 'mqtt-packet';
import type { Activation } from '../../rig/clients/accounts.ts';
import type { Report } from './reports.ts';

const pubackBytes = 4;

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
export type Load = {
  bytes: Uint8Array<ArrayBuffer>;
  ends: Uint32Array<ArrayBuffer>;
  /** The size of the answer to each packet. */
  answerBytes: number;
};

export class Publishers {
  readonly #thread: Worker;
  readonly #arrived: PublisherData['arrived'];

  readonly #lines: number;

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

  /** Made ready beforehand; a device always has the same connection, so its reports keep their order. */
  prepare(reports: readonly Report[]): Load[] {
    const byLine = Map.groupBy(reports, ({ deviceIndex }) => deviceIndex % this.#lines);
    return Array.from({ length: this.#lines }, (_, line) => encode(byLine.get(line) ?? []));
  }

  /** Resolves when the broker has acknowledged everything. */
  async publish(loads: Load[]): Promise<void> {
    Atomics.store(this.#arrived, 0, 0);
    await this.#hand(loads);
  }

  async #hand(loads: Load[]): Promise<void> {
    this.#thread.postMessage(
      loads,
      loads.flatMap(({ bytes, ends }) => [bytes.buffer, ends.buffer]),
    );
    await once(this.#thread, 'message');
  }

  /** Resolves when the last one was handed over; some hundred reports a second at most. */
  async publishPaced(reports: readonly Report[], { perSecond, everyMs }: { perSecond: number; everyMs: number }) {
    const startedAtMs = performance.now();
    for (let sent = 0; sent < reports.length;) {
      const due = Math.min(reports.length, Math.ceil(((performance.now() - startedAtMs) * perSecond) / 1000));
      if (due > sent) await this.publish(this.prepare(reports.slice(sent, due)));
      sent = due;
      await sleep(everyMs);
    }
  }

  /** Sends that many PINGREQ on each line, each when the one before is answered. */
  async ping(countEach: number): Promise<void> {
    const load = (): Load => ({
      bytes: new Uint8Array(countEach * 2).map((_, at) => (at % 2 === 0 ? 0xc0 : 0)),
      ends: Uint32Array.from({ length: countEach }, (_, index) => (index + 1) * 2),
      answerBytes: 2,
    });
    await this.#hand(Array.from({ length: this.#lines }, load));
  }

  /** One more has come out at the other end. */
  noteArrival(): void {
    Atomics.add(this.#arrived, 0, 1);
  }

  /** Sends the rest without waiting for arrivals: no more will come. */
  releaseAll(): void {
    Atomics.store(this.#arrived, 0, 2 ** 31 - 1);
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
  return { bytes, ends: Uint32Array.from(packets, (packet) => (end += packet.length)), answerBytes: pubackBytes };
}
