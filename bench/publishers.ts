// Devices' side of an uplink benchmark: packets made ready before the clock starts, sent by a thread of its own over a
// few connections, as fast as the broker acknowledges and reports arrive. Must not be what limits a figure.
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { Report } from './reports.ts';

const connections = 4;

/** `arrived` counts the reports of the present load that have come out at the other end. */
export type PublisherData = { port: number; connections: number; arrived: Int32Array<SharedArrayBuffer> };

/** One connection's packets, one after the other, and where each ends. */
export type Load = { bytes: Uint8Array<ArrayBuffer>; ends: Uint32Array<ArrayBuffer> };

export class Publishers {
  readonly #thread: Worker;
  readonly #arrived: PublisherData['arrived'];

  private constructor(thread: Worker, arrived: PublisherData['arrived']) {
    this.#thread = thread;
    this.#arrived = arrived;
  }

  static async connect(port: number): Promise<Publishers> {
    const arrived = new Int32Array(new SharedArrayBuffer(4));
    const workerData: PublisherData = { port, connections, arrived };
    const thread = new Worker(new URL('publisher-thread.ts', import.meta.url), { workerData });
    await once(thread, 'message');
    return new Publishers(thread, arrived);
  }

  /** Made ready beforehand; a device always has the same connection, so its reports keep their order. */
  prepare(reports: readonly Report[]): Load[] {
    return Array.from({ length: connections }, (_, connection) =>
      encode(reports.filter(({ deviceIndex }) => deviceIndex % connections === connection)),
    );
  }

  /** Resolves when the broker has acknowledged everything. */
  async publish(loads: Load[]): Promise<void> {
    Atomics.store(this.#arrived, 0, 0);
    this.#thread.postMessage(
      loads,
      loads.flatMap(({ bytes, ends }) => [bytes.buffer, ends.buffer]),
    );
    await once(this.#thread, 'message');
  }

  /** One more has come out at the other end. */
  noteArrival(): void {
    Atomics.add(this.#arrived, 0, 1);
  }

  /** Sends the rest without waiting for arrivals, which will not come any more. */
  releaseAll(): void {
    Atomics.store(this.#arrived, 0, 2 ** 31 - 1);
  }

  async stop(): Promise<void> {
    await this.#thread.terminate();
  }
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
