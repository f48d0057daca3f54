// The reports that devices send in a benchmark, and the account of their arrival: each once, unaltered, and in the order of
// its device. Reading happens after the clock has stopped.
import type { Activation } from '../../rig/clients/accounts.ts';

export type Report = { topic: string; payload: string; deviceIndex: number };

/**
 * `resting`: what a switch reports most of the day: the same position, a slightly different signal strength.
 * `moving`: every report tells a new position.
 */
export type Kind = 'resting' | 'moving';

const positions = [
  ['up', 180],
  ['middle', 90],
  ['down', 0],
] as const;
const completeAfterQuietMs = 300;
/** A Worker may answer nothing for seconds while a thousand objects are created or wait for one disk. */
const lostAfterQuietMs = 30_000;

let lastId = 0;

/** Device after device in turn, as many as wanted; no two reports are equal. */
export function makeReports(devices: readonly Activation[], count: number, kind: Kind, root: string): Report[] {
  return Array.from({ length: count }, (_, index) => {
    const deviceIndex = index % devices.length;
    const turn = Math.floor(index / devices.length);
    const [position, angle] = positions[kind === 'moving' ? turn % positions.length : 0] ?? positions[0];
    const params = { position, angle, wifi_rssi: -55 - (lastId % 8) };
    lastId += 1;
    const payload = JSON.stringify({ method: 'thing.event.property.post', id: String(lastId), params });
    const topic = (devices[deviceIndex]?.topics.propertyPost ?? '').replace(/^\/sys\//, root);
    return { topic, payload, deviceIndex };
  });
}

export class Arrivals {
  readonly #texts: string[] = [];
  readonly #wanted: number;
  #lastAtMs = performance.now();
  #completeAtMs: number | null = null;

  constructor(wanted: number) {
    this.#wanted = wanted;
  }

  /** `text` is the topic and the payload as `textOf` joins them. */
  add(text: string): void {
    this.#texts.push(text);
    this.#lastAtMs = performance.now();
    if (this.#texts.length === this.#wanted) this.#completeAtMs = this.#lastAtMs;
  }

  /**
   * When the last one came, or null when some did not. Waits a little longer for reports that should not come; gives up after
   * a time without any.
   */
  async untilComplete(): Promise<number | null> {
    for (;;) {
      const quietMs = performance.now() - this.#lastAtMs;
      if (quietMs > (this.#completeAtMs === null ? lostAfterQuietMs : completeAfterQuietMs)) break;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return this.#completeAtMs;
  }

  /** What is wrong, in words; nothing when all is well. */
  check(reports: readonly Report[]): string[] {
    const expected = new Map(reports.map((report, index) => [textOf(report.topic, report.payload), index]));
    const seen = new Set<number>();
    const lastOfDevice = new Map<number, number>();
    const counts = { lost: 0, doubled: 0, altered: 0, overtaken: 0 };
    for (const text of this.#texts) {
      const index = expected.get(text);
      if (index === undefined) counts.altered += 1;
      else if (seen.has(index)) counts.doubled += 1;
      else {
        seen.add(index);
        const device = reports[index]?.deviceIndex ?? 0;
        if ((lastOfDevice.get(device) ?? -1) > index) counts.overtaken += 1;
        lastOfDevice.set(device, index);
      }
    }
    counts.lost = reports.length - seen.size;
    return Object.entries(counts).flatMap(([what, count]) => (count === 0 ? [] : [`${count} ${what}`]));
  }
}

/** The form of a relay push, so that nothing has to be taken apart while the clock runs. */
export function textOf(topic: string, payload: string): string {
  return `{"topic":"${topic}","payload":${payload}}`;
}
