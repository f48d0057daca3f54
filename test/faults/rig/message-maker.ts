// Makes the messages of a scenario, each with a number of its own, and knows what the devices' states must show in the
// end. A device's messages are in turn changing, with a new property, and resting, with the same measurement. The Worker
// writes nothing for resting messages, and only the relay shows them. It must not send anything.
import type { History } from './history.ts';
import type { Activation } from '../../../rig/clients/accounts.ts';
import type { WorkerRig } from '../../../rig/worker/worker-rig.ts';
import { readDevice } from './device-state.ts';
import type { Outgoing } from './strict-publisher.ts';

/** `number` is null for a message that is not in the history: no effect of it is expected. */
export type Numbered = Outgoing & { number: number | null; device: string; isResting: boolean };

/** A device keeps at most 64 properties: its last changing messages each leave their number in one of these. */
export const slotsPerDevice = 60;

let lastNumber = 0;

export class MessageMaker {
  readonly #devices: readonly Activation[];
  readonly #history: History;
  readonly #sentByDevice = new Map<string, number>();
  readonly #lastBySlot = new Map<string, { deviceId: string; slot: string; number: number }>();
  #turn = 0;

  constructor(devices: readonly Activation[], history: History) {
    this.#devices = devices;
    this.#history = history;
  }

  /** The device is the next in turn unless named. With `moves`, each changing message also changes the position. */
  make(
    options: { device?: Activation | undefined; padBytes?: number; moves?: boolean } = {},
  ): Numbered & { number: number } {
    const device = options.device ?? this.#devices[this.#turn++ % this.#devices.length];
    if (device === undefined) throw new Error('there is no device');
    lastNumber += 1;
    const number = lastNumber;
    const sent = this.#sentByDevice.get(device.deviceId) ?? 0;
    this.#sentByDevice.set(device.deviceId, sent + 1);
    const isResting = sent % 2 === 1;
    const body = {
      method: 'thing.event.property.post',
      // The number of a resting one is outside of `params`, where the service reads no properties.
      ...(isResting
        ? { params: { wifi_rssi: -60 }, n: number }
        : { params: this.#change(device, sent / 2, number, options.moves ?? false) }),
      ...(options.padBytes === undefined ? {} : { pad: 'x'.repeat(options.padBytes) }),
    };
    return {
      topic: device.topics.propertyPost,
      payload: JSON.stringify(body),
      number,
      device: device.deviceId,
      isResting,
    };
  }

  /** How many changing messages of a device were made. */
  countChanging(deviceId: string): number {
    return Math.ceil((this.#sentByDevice.get(deviceId) ?? 0) / 2);
  }

  /**
   * Reads every device. A slot shows an effect even if the relay missed it.
   * @returns how many slots show another number than the last that should be there
   */
  async compareState(worker: WorkerRig): Promise<number> {
    let stale = 0;
    for (const { deviceId } of this.#devices) {
      const { list } = await readDevice(worker, deviceId);
      const properties = new Map(list.map(({ name, value }) => [name, value]));
      for (const last of this.#lastBySlot.values()) {
        if (last.deviceId !== deviceId) continue;
        const shown = properties.get(last.slot);
        if (typeof shown === 'number') this.#history.noteSeenInState(shown);
        if (shown !== last.number && !this.#history.isExcused(last.number)) stale += 1;
      }
    }
    return stale;
  }

  #change({ deviceId }: Activation, index: number, number: number, moves: boolean): Record<string, unknown> {
    const slot = `s${index % slotsPerDevice}`;
    this.#lastBySlot.set(`${deviceId} ${slot}`, { deviceId, slot, number });
    return { n: number, [slot]: number, ...(moves ? { position: index % 2 === 0 ? 'up' : 'down' } : {}) };
  }
}
