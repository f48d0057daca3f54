// A device's end of the broker: an ordinary MQTT client that publishes reports and hears commands.
import mqtt, { type IClientOptions, type MqttClient } from 'mqtt';
import { Changes } from './changes.ts';

export const reportTopic = (device: string): string => `/sys/pk_test/${device}/thing/event/property/post`;
export const commandTopic = (device: string): string => `/sys/pk_test/${device}/thing/service/property/set`;

/**
 * The library's way back reuses packet identifiers that are still open, and then reports messages as acknowledged
 * that the broker never took: a device whose connection is gone is connected anew by the test.
 */
const stayAway: IClientOptions = { reconnectPeriod: 0 };

export class Device {
  readonly changes = new Changes();
  readonly heard: { topic: string; payload: string; retain: boolean }[] = [];
  readonly client: MqttClient;
  readonly name: string;

  private constructor(name: string, client: MqttClient) {
    this.name = name;
    this.client = client;
    client.on('message', (topic, payload, packet) => {
      this.heard.push({ topic, payload: payload.toString(), retain: packet.retain });
      this.changes.note();
    });
  }

  static async connect(url: string, name: string, options: IClientOptions = {}): Promise<Device> {
    const client = await mqtt.connectAsync(url, { clientId: `device-${name}`, ...stayAway, ...options });
    const stream = client.stream as unknown as { setNoDelay?: (on: boolean) => void };
    stream.setNoDelay?.(true);
    return new Device(name, client);
  }

  /** Resolves when the broker has acknowledged it: from here on it must not be lost. */
  async report(payload: string, qos: 0 | 1 = 1): Promise<void> {
    await this.client.publishAsync(reportTopic(this.name), payload, { qos });
  }

  async listen(): Promise<void> {
    await this.client.subscribeAsync(commandTopic(this.name), { qos: 1 });
  }

  async leave(): Promise<void> {
    await this.client.endAsync(true);
  }
}
