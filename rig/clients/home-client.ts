// A client of a home, as a test sees it: what it heard last on each topic. And the API key with which it logs in. Asserts nothing.
import type { IClientOptions } from 'mqtt';
import type { keyScopes } from '../../src/protocol/vocabulary.ts';
import { dataOf, type Api } from './api.ts';
import { MqttTestClient, type ProtocolVersion } from './mqtt-client.ts';

export type HomeKey = { keyId: string; apiKey: string };

export async function makeHomeKey(
  api: Api,
  limits: { scopes?: (typeof keyScopes)[number][]; productKey?: string; deviceIds?: string[] } = {},
): Promise<HomeKey> {
  const json = { description: 'Home Assistant', scopes: ['read' as const, 'control' as const], ...limits };
  return dataOf(api.users['api-keys'].$post({ json }));
}

export class HomeClient {
  readonly mqtt: MqttTestClient;

  private constructor(client: MqttTestClient) {
    this.mqtt = client;
  }

  /** @param url with the path, or of the gateway. @throws Error with the CONNACK's code if the login is refused */
  static async open(
    url: string,
    { keyId: username, apiKey: password }: HomeKey,
    options: IClientOptions & { protocolVersion?: ProtocolVersion } = {},
  ): Promise<HomeClient> {
    return new HomeClient(await MqttTestClient.open(url, { username, password, protocolVersion: 4, ...options }));
  }

  /** All that a home says. */
  async follow(filters = ['homeassistant/#', 'latchwork/#']): Promise<void> {
    await this.mqtt.client.subscribeAsync(filters, { qos: 1 });
  }

  /** On a device's own topic; undefined before the first. An empty text is null. */
  last(deviceId: string, name: 'config' | 'state' | 'availability' | 'info'): unknown {
    const topic =
      name === 'config' ? `homeassistant/device/latchwork_${deviceId}/config` : `latchwork/${deviceId}/${name}`;
    const payload = this.mqtt.heard.findLast((message) => message.topic === topic)?.payload;
    if (payload === undefined || payload === '') return payload === '' ? null : undefined;
    return name === 'availability' ? payload : JSON.parse(payload);
  }

  async until(what: string, isSo: () => boolean): Promise<void> {
    await this.mqtt.changes.until(() => `${what}; heard ${JSON.stringify(this.mqtt.heard.slice(-6))}`, isSo);
  }

  async untilState(deviceId: string, expected: Record<string, unknown>): Promise<void> {
    await this.until(`the state ${JSON.stringify(expected)} of ${deviceId}`, () => {
      const state = this.last(deviceId, 'state') as Record<string, unknown> | null | undefined;
      return Object.entries(expected).every(([name, value]) => state?.[name] === value);
    });
  }

  async order(deviceId: string, action: 'set' | 'press', payload: string): Promise<void> {
    await this.mqtt.client.publishAsync(`latchwork/${deviceId}/${action}`, payload, { qos: 1 });
  }

  leave(): Promise<void> {
    return this.mqtt.leave();
  }
}
