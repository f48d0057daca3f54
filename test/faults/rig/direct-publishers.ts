// Devices that are connected directly themselves: a strict publisher each, dealt to in turn between two ways in.
// Answers of the service can be held back on their way. Must not know what a message means.
import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { createWebSocketStream, WebSocket } from 'ws';
import type { Activation } from '../../../rig/clients/accounts.ts';
import type { Publisher } from './fault-rig.ts';
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

export async function connectDevices(
  devices: readonly Activation[],
  ways: readonly [WayIn, ...WayIn[]],
  events: PublisherEvents<Numbered>,
): Promise<Publisher> {
  const opened = devices.map((device, index) => {
    const dial = ways[index % ways.length] ?? ways[0];
    return StrictPublisher.connect(() => dial(device), events, device.mqtt);
  });
  const publishers = await Promise.all(opened);
  const byDevice = new Map(devices.map(({ deviceId }, index) => [deviceId, publishers[index]]));
  return {
    publish: (message) => byDevice.get(message.device)?.publish(message),
    get unacknowledged() {
      return publishers.reduce((sum, { unacknowledged }) => sum + unacknowledged, 0);
    },
    get connections() {
      return publishers.reduce((sum, { connections }) => sum + connections, 0);
    },
    drained: async (timeoutMs) => {
      await Promise.all(publishers.map((publisher) => publisher.drained(timeoutMs)));
    },
    close: () => publishers.forEach((publisher) => publisher.close()),
  };
}
