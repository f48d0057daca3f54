// A switch on a direct connection, whose answers a test chooses: it obeys, refuses or keeps silent. Asserts nothing.
import { propertyPostMethod, propertySetReplyMethod } from '../../src/protocol/mqtt.ts';
import type { Activation } from './accounts.ts';
import { MqttTestClient } from './mqtt-client.ts';

type Command = { id: string; params: Record<string, unknown> };

export class SwitchDevice {
  readonly activation: Activation;
  readonly commands: Command[] = [];
  behaviour: 'obeys' | 'refuses' | 'silent' = 'obeys';
  readonly #mqtt: MqttTestClient;

  private constructor(activation: Activation, mqtt: MqttTestClient) {
    this.activation = activation;
    this.#mqtt = mqtt;
    mqtt.client.on('message', (_topic, payload) => {
      // A device that leaves meanwhile answers no more.
      this.#take(JSON.parse(payload.toString()) as Command).catch((error: unknown) => {
        if (!mqtt.isClosed && !mqtt.client.disconnecting) throw error;
      });
    });
  }

  /** @param url of the Worker */
  static async connect(url: string, activation: Activation): Promise<SwitchDevice> {
    const mqtt = await MqttTestClient.ofDevice(`${url.replace(/^http/, 'ws')}/mqtt/${activation.deviceId}`, activation);
    const device = new SwitchDevice(activation, mqtt);
    await mqtt.client.subscribeAsync(activation.topics.propertySet, { qos: 1 });
    return device;
  }

  get deviceId(): string {
    return this.activation.deviceId;
  }

  async report(params: Record<string, unknown>): Promise<void> {
    const body = { method: propertyPostMethod, id: '1', params };
    await this.#mqtt.client.publishAsync(this.activation.topics.propertyPost, JSON.stringify(body), { qos: 1 });
  }

  async untilCommanded(count = 1): Promise<Command[]> {
    await this.#mqtt.changes.until(`${count} commands`, () => this.commands.length >= count);
    return this.commands;
  }

  leave(): Promise<void> {
    return this.#mqtt.leave();
  }

  async #take(command: Command): Promise<void> {
    this.commands.push(command);
    this.#mqtt.changes.note();
    if (this.behaviour === 'silent') return;
    const code = this.behaviour === 'obeys' ? 200 : 500;
    const reply = { method: propertySetReplyMethod, id: command.id, code };
    await this.#mqtt.client.publishAsync(this.activation.topics.propertyPost, JSON.stringify(reply), { qos: 1 });
    const { action: _, ...reported } = command.params;
    if (this.behaviour === 'obeys' && Object.keys(reported).length > 0) await this.report(reported);
  }
}
