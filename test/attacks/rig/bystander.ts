// Another user of the same service, who does what users do during an attack. The user reads a status view and a list,
// commands a device, activates a board again, and signs in anew. Notes how long each took and what failed.
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import mqtt, { type MqttClient } from 'mqtt';
import type { Activation, Session } from '../../../rig/clients/accounts.ts';
import { Random } from '../../../rig/inputs/random.ts';
import type { ProcessorWait } from './processor-wait.ts';
import { send, type HttpAnswer, type HttpRequest } from './traffic.ts';

/** Fast enough for a p95 of a few seconds, slow enough for the limit of commands a minute. */
const pauseMs = 10;
/** A person's own network: Cloudflare's edge names it, and nobody of the attackers has it. */
const address = '203.0.113.5';

export const kinds = ['status', 'list', 'command', 'activation'] as const;
export type Kind = (typeof kinds)[number];

export type Measured = {
  /** Milliseconds, by what was done, without what was waited for a processor. */
  times: Record<Kind, number[]>;
  /** Milliseconds of all of them. */
  waited: number;
  failures: string[];
};

export class Bystander {
  readonly #url: string;
  readonly #session: Session;
  readonly #device: Activation;
  readonly #deviceSN: string;
  readonly #productKey: string;
  readonly #client: MqttClient;
  readonly #random: Random;
  /** How often its device's connection ended. */
  #losses = 0;

  private constructor(
    url: string,
    session: Session,
    product: { productKey: string; deviceSN: string; device: Activation },
    client: MqttClient,
    seed: number,
  ) {
    this.#url = url;
    this.#session = session;
    this.#productKey = product.productKey;
    this.#deviceSN = product.deviceSN;
    this.#device = product.device;
    this.#client = client;
    this.#random = new Random(seed);
  }

  static async start(
    url: string,
    mqttUrl: string,
    session: Session,
    product: { productKey: string; deviceSN: string; device: Activation },
    seed: number,
  ): Promise<Bystander> {
    const { username, password, clientId } = product.device.mqtt;
    const client = await mqtt.connectAsync(mqttUrl, { username, password, clientId, reconnectPeriod: 1_000 });
    const bystander = new Bystander(url, session, product, client, seed);
    const { propertySet } = product.device.topics;
    client.on('message', (_topic, payload) => {
      const { id } = JSON.parse(payload.toString()) as { id: string };
      client.publish(`${propertySet}_reply`, JSON.stringify({ id, code: 200 }), { qos: 1 });
    });
    client.on('close', () => (bystander.#losses += 1));
    client.on('error', () => undefined);
    await client.subscribeAsync(propertySet, { qos: 1 });
    return bystander;
  }

  /** Goes on until `isOver`. */
  async live(isOver: () => boolean, processorWait?: ProcessorWait): Promise<Measured> {
    const measured: Measured = {
      times: { status: [], list: [], command: [], activation: [] },
      waited: 0,
      failures: [],
    };
    const losses = this.#losses;
    while (!isOver()) {
      for (const kind of kinds) {
        const askWaited = processorWait?.watch({ isCommand: kind === 'command' });
        const startedAt = performance.now();
        try {
          const { status, text } = await this.#do(kind);
          const took = performance.now() - startedAt;
          const waited = Math.min(askWaited?.() ?? 0, took);
          measured.times[kind].push(took - waited);
          measured.waited += waited;
          if (status !== 200) measured.failures.push(`${kind}: ${status} ${text.slice(0, 120)}`);
        } catch (error) {
          measured.failures.push(`${kind}: ${String(error)}`);
        }
        // Not in step with anything.
        await sleep(pauseMs * (0.5 + this.#random.next()));
      }
    }
    if (this.#losses > losses) measured.failures.push("the device's MQTT session was lost");
    return measured;
  }

  /** Signs in from an address where he never was. @returns how long it took; undefined if it was refused for good */
  async signIn(withinMs: number): Promise<number | undefined> {
    const startedAt = performance.now();
    const { email, password } = this.#session;
    while (performance.now() - startedAt < withinMs) {
      const body = JSON.stringify({ email, password });
      const { status } = await send(`${this.#url}/api/v1/users/login`, {
        method: 'POST',
        body,
        address: '203.0.113.77',
      });
      if (status === 200) return performance.now() - startedAt;
      await sleep(500);
    }
    return undefined;
  }

  async stop(): Promise<void> {
    await this.#client.endAsync(true);
  }

  #do(kind: Kind): Promise<HttpAnswer> {
    const { deviceId } = this.#device;
    switch (kind) {
      case 'status':
        return this.#ask(`/devices/${deviceId}/status`);
      case 'list':
        return this.#ask('/devices');
      case 'command':
        return this.#ask(`/devices/${deviceId}/control`, { action: 'toggle', position: 'up' });
      case 'activation':
        // A known serial: what a board does at every start.
        return this.#ask('/devices/activate', { productKey: this.#productKey, deviceSN: this.#deviceSN });
    }
  }

  #ask(path: string, body?: object): Promise<HttpAnswer> {
    const request: HttpRequest = { address, headers: { Authorization: `Bearer ${this.#session.token}` } };
    const more = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
    return send(`${this.#url}/api/v1${path}`, { ...request, ...more });
  }
}
