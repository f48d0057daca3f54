// MQTT clients of tests: they keep what they receive and do not reconnect by themselves. `MqttTestClient` logs in with an
// activation; `Device` is a device of a broker that checks no logins. Assert nothing.
import mqtt, { type IClientOptions, type MqttClient } from 'mqtt';
import type { Activation } from './accounts.ts';
import { Changes } from '../changes.ts';

export type ProtocolVersion = 4 | 5;

/**
 * The library's reconnect reuses packet identifiers that are still open, and then reports messages as acknowledged that
 * the broker never took.
 */
const noReconnect: IClientOptions = { reconnectPeriod: 0 };

export class MqttTestClient {
  readonly changes = new Changes();
  readonly heard: { topic: string; payload: string; retain: boolean }[] = [];
  readonly client: MqttClient;
  isClosed = false;

  protected constructor(client: MqttClient) {
    this.client = client;
    client.on('message', (topic, payload, packet) => {
      this.heard.push({ topic, payload: payload.toString(), retain: packet.retain });
      this.changes.note();
    });
    client.on('close', () => {
      this.isClosed = true;
      this.changes.note();
    });
    // 'close' follows every error of a connection; the promises of the calls carry the reason.
    client.on('error', () => undefined);
  }

  /** @throws Error with the CONNACK's code if the login is refused */
  static async open(url: string, options: IClientOptions): Promise<MqttTestClient> {
    return new MqttTestClient(await connectAsync(url, options));
  }

  static async ofDevice(
    url: string,
    { mqtt: login }: Activation,
    protocolVersion: ProtocolVersion = 4,
    options: IClientOptions = {},
  ) {
    const { username, password, clientId } = login;
    return MqttTestClient.open(url, { ...options, username, password, clientId, protocolVersion });
  }

  /** The bodies of all messages on a topic, in their order. */
  bodiesOf(topic: string): unknown[] {
    return this.heard.filter((message) => message.topic === topic).map(({ payload }) => JSON.parse(payload) as unknown);
  }

  /** The body of the first message on a topic, whether it has come already or not. */
  async untilHeard(topic: string): Promise<unknown> {
    await this.changes.until(`a message on ${topic}`, () => this.bodiesOf(topic).length > 0);
    return this.bodiesOf(topic)[0];
  }

  async untilClosed(): Promise<void> {
    await this.changes.until('the broker closes the connection', () => this.isClosed);
  }

  /** Publishes and ignores whether the broker refuses, by an answer or by closing the connection. */
  async tryPublish(topic: string, body: unknown): Promise<void> {
    const done = Promise.allSettled([this.client.publishAsync(topic, JSON.stringify(body), { qos: 1 })]);
    await Promise.race([done, this.untilClosed()]);
  }

  /** Whether the broker grants the filter; closing the connection counts as a refusal. */
  async trySubscribe(filter: string): Promise<boolean> {
    const asked = this.client.subscribeAsync(filter, { qos: 1 }).then(
      (granted) => granted.every(({ qos }) => qos < 128),
      () => false,
    );
    return Promise.race([asked, this.untilClosed().then(() => false)]);
  }

  async leave(): Promise<void> {
    await this.client.endAsync(true);
  }
}

/** Why a login was refused: the CONNACK's code, or that there was none. */
export async function refusalOf(url: string, options: IClientOptions): Promise<string> {
  try {
    const client = await MqttTestClient.open(url, { connectTimeout: 20_000, ...options });
    await client.leave();
    return 'accepted';
  } catch (error) {
    const code = (error as { code?: unknown }).code;
    return typeof code === 'number' ? `code ${code}` : (error as Error).message;
  }
}

export const reportTopic = (device: string): string => `/sys/pk_test/${device}/thing/event/property/post`;
export const commandTopic = (device: string): string => `/sys/pk_test/${device}/thing/service/property/set`;

export class Device extends MqttTestClient {
  readonly name: string;

  private constructor(name: string, client: MqttClient) {
    super(client);
    this.name = name;
  }

  static async connect(url: string, name: string, options: IClientOptions = {}): Promise<Device> {
    return new Device(name, await connectAsync(url, { clientId: `device-${name}`, ...options }));
  }

  /** Resolves when the broker has acknowledged it: from here on it must not be lost. */
  async report(payload: string, qos: 0 | 1 = 1): Promise<void> {
    await this.client.publishAsync(reportTopic(this.name), payload, { qos });
  }

  /** Reports `m0` and so on at once. Resolves with the payloads when the broker has acknowledged all of them. */
  async reportMany(from: number, count: number): Promise<string[]> {
    const payloads = Array.from({ length: count }, (_, n) => `m${from + n}`);
    await Promise.all(payloads.map((payload) => this.report(payload)));
    return payloads;
  }

  async listen(): Promise<void> {
    await this.client.subscribeAsync(commandTopic(this.name), { qos: 1 });
  }
}

async function connectAsync(url: string, options: IClientOptions): Promise<MqttClient> {
  const client = await mqtt.connectAsync(url, { ...noReconnect, ...options }, false);
  sendWithoutDelay(client);
  return client;
}

/** Switches off Nagle's algorithm, which adds 40 ms to a message that follows another. */
export function sendWithoutDelay(client: MqttClient): void {
  (client.stream as { setNoDelay?: (on: boolean) => void }).setNoDelay?.(true);
}
