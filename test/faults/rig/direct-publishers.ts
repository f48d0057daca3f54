// Devices that are connected directly themselves: a strict publisher each, dealt to in turn between two ways in.
// Answers of the service can be held back on their way. Must not know what a message means.
import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { createWebSocketStream, WebSocket } from 'ws';
import type { Activation } from '../../../rig/clients/accounts.ts';
import type { Numbered } from './message-maker.ts';
import { StrictPublisher, type PublisherEvents } from './strict-publisher.ts';

/** Opens a connection for a device. */
export type WayIn = (device: Activation) => Duplex;

/** MQTT over WebSocket to the device's own address. */
export function overWebSocket(port: () => number): WayIn {
  return ({ deviceId }) => {
    const socket = new WebSocket(`ws://127.0.0.1:${port()}/mqtt/${deviceId}`, 'mqtt', { perMessageDeflate: false });
    const stream = createWebSocketStream(socket);
    // By itself it would end and never close, and a device that has nothing to send would not notice.
    socket.once('close', () => stream.destroy());
    return stream;
  };
}

/** MQTT over TCP to a gateway. */
export function overTcp(port: () => number): WayIn {
  return () => connect({ port: port(), host: '127.0.0.1', noDelay: true });
}

export class DirectPublishers {
  readonly #byDevice: Map<string, StrictPublisher<Numbered>>;

  private constructor(byDevice: Map<string, StrictPublisher<Numbered>>) {
    this.#byDevice = byDevice;
  }

  static async connect(
    devices: readonly Activation[],
    ways: readonly WayIn[],
    events: PublisherEvents<Numbered>,
  ): Promise<DirectPublishers> {
    const opened = devices.map(async (device, index) => {
      const dial = ways[index % ways.length];
      if (dial === undefined) throw new Error('there is no way in');
      return [device.deviceId, await StrictPublisher.connect(() => dial(device), events, device.mqtt)] as const;
    });
    return new DirectPublishers(new Map(await Promise.all(opened)));
  }

  publish(message: Numbered): void {
    this.#byDevice.get(message.device)?.publish(message);
  }

  get unacknowledged(): number {
    return this.#sum(({ unacknowledged }) => unacknowledged);
  }

  get connections(): number {
    return this.#sum(({ connections }) => connections);
  }

  async drained(timeoutMs: number): Promise<void> {
    await Promise.all([...this.#byDevice.values()].map((publisher) => publisher.drained(timeoutMs)));
  }

  close(): void {
    for (const publisher of this.#byDevice.values()) publisher.close();
  }

  #sum(of: (publisher: StrictPublisher<Numbered>) => number): number {
    return [...this.#byDevice.values()].reduce((sum, publisher) => sum + of(publisher), 0);
  }
}
