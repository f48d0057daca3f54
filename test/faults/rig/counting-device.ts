// A directly connected device that comes back by itself, does what it hears, and counts it. Judges nothing.
import mqtt, { type MqttClient } from 'mqtt';
import type { Activation } from '../../../rig/clients/accounts.ts';
import { Changes } from '../../../rig/changes.ts';

export type Press = { id: string; atMs: number; params: { action: string; position?: string } };

const reconnectMs = 200;

export class CountingDevice {
  readonly deviceId: string;
  readonly presses: Press[] = [];
  readonly changes = new Changes();
  /** Whether it answers a command that it has carried out. */
  isAnswering = (): boolean => true;
  readonly #client: MqttClient;
  readonly #topics: Activation['topics'];

  constructor(workerUrl: string, { deviceId, topics, mqtt: login }: Activation) {
    this.deviceId = deviceId;
    this.#topics = topics;
    const { username, password, clientId } = login;
    const url = `${workerUrl.replace(/^http/, 'ws')}/mqtt/${deviceId}`;
    const plain = { protocolVersion: 4, clean: true, resubscribe: false, reconnectPeriod: reconnectMs } as const;
    this.#client = mqtt.connect(url, { ...plain, username, password, clientId });
    this.#client.on('error', () => undefined);
    this.#client.on('connect', () => this.#client.subscribe(topics.propertySet, { qos: 1 }, () => this.changes.note()));
    this.#client.on('close', () => this.changes.note());
    this.#client.on('message', (_, payload) => this.#carryOut(payload.toString()));
  }

  report(position: string): Promise<unknown> {
    return this.#client.publishAsync(this.#topics.propertyPost, JSON.stringify({ params: { position } }), { qos: 1 });
  }

  /** Away without a word, until `comeBack`. */
  leave(): void {
    this.#client.options.reconnectPeriod = 0;
    this.#client.stream.destroy();
  }

  async comeBack(): Promise<void> {
    this.#client.options.reconnectPeriod = reconnectMs;
    this.#client.reconnect();
    await this.changes.until('the device is back', () => this.#client.connected);
  }

  stop(): void {
    this.#client.end(true);
  }

  #carryOut(payload: string): void {
    const { id, params } = JSON.parse(payload) as Press;
    this.presses.push({ id, params, atMs: Date.now() });
    this.changes.note();
    if (!this.isAnswering()) return;
    const reply = { method: 'thing.service.property.set_reply', id, code: 200 };
    this.#client.publish(this.#topics.propertyPost, JSON.stringify(reply), { qos: 1 });
    if (params.position !== undefined) void this.report(params.position).catch(() => undefined);
  }
}
