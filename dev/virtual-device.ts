// A device as stock firmware behaves. It activates over HTTP until it succeeds, speaks MQTT 3.1.1 with a clean session and
// no will, and reports at QoS 0 without a clock. Its credentials never change. Must not do better than real devices: no
// message queue, no fresh credentials, nothing longer than its 256-byte buffer.
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type MqttClient } from 'mqtt';
import { z } from 'zod';
import { parseJson } from '../src/domain/json.ts';
import { propertyPostMethod, propertySetMethod, propertySetReplyMethod } from '../src/protocol/mqtt.ts';
import { activate, type Activation } from '../rig/clients/accounts.ts';
import { connectApi, describeFailure } from '../rig/clients/api.ts';
import { sendWithoutDelay } from '../rig/clients/mqtt-client.ts';
import { initialState, moveSwitch, type SwitchState } from '../console/src/switch/moves.ts';

const activationRetryMs = 5_000;
const reconnectEveryMs = 2_000;
const bufferBytes = 256;

const commandSchema = z.object({
  method: z.literal(propertySetMethod),
  id: z.string(),
  params: z.record(z.string(), z.unknown()),
});

export type { Activation };

export type DeviceEvent =
  | { type: 'activated'; activation: Activation }
  | { type: 'activation-failed'; reason: string }
  | { type: 'online' }
  | { type: 'offline' }
  | { type: 'connection-failed'; reason: string }
  | { type: 'reported'; state: SwitchState }
  | { type: 'commanded'; id: string; params: Record<string, unknown> }
  | { type: 'replied'; id: string };

export type VirtualDeviceOptions = {
  apiUrl: string;
  productKey: string;
  serial: string;
  reportEveryMs?: number;
  /** Connects over WebSocket to the Worker itself, instead of the address that the activation names. */
  isDirect?: boolean;
  onEvent?: (event: DeviceEvent) => void;
};

export class VirtualDevice {
  readonly #options: VirtualDeviceOptions;
  readonly #stopping = new AbortController();
  #state: SwitchState = initialState;
  #nextId = 1;
  #isOnline = false;
  #client: MqttClient | undefined;
  #reportTimer: NodeJS.Timeout | undefined;
  #backTimer: NodeJS.Timeout | undefined;

  constructor(options: VirtualDeviceOptions) {
    this.#options = options;
  }

  /** Resolves with the activation once it succeeded; from then on the device keeps itself online. */
  async start(): Promise<Activation> {
    const activation = await this.#activate();
    this.#emit({ type: 'activated', activation });
    this.#connect(activation);
    return activation;
  }

  /** Leaves with a DISCONNECT, as a device does that is switched off in order. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    clearInterval(this.#reportTimer);
    clearTimeout(this.#backTimer);
    // Not forced: the DISCONNECT has to leave first. A connection that is down has nothing to say.
    await this.#client?.endAsync(!this.#client.connected);
  }

  async #activate(): Promise<Activation> {
    const { apiUrl, productKey, serial } = this.#options;
    const api = connectApi(apiUrl);
    for (;;) {
      try {
        const activation = await activate(api, productKey, serial, { firmwareVersion: '1.0.3', chipModel: 'ESP32-C3' });
        this.#stopping.signal.throwIfAborted();
        return activation;
      } catch (error) {
        this.#stopping.signal.throwIfAborted();
        this.#emit({ type: 'activation-failed', reason: describeFailure(error) });
      }
      await sleep(activationRetryMs, undefined, { signal: this.#stopping.signal });
    }
  }

  #connect({ deviceId, mqtt, topics }: Activation): void {
    const { apiUrl, reportEveryMs = 30_000, isDirect = false } = this.#options;
    const direct = `${apiUrl.replace(/^http/, 'ws').replace(/\/+$/, '')}/mqtt/${deviceId}`;
    const client = connect(isDirect ? direct : `mqtt://${mqtt.server}:${mqtt.port}`, {
      username: mqtt.username,
      password: mqtt.password,
      clientId: mqtt.clientId,
      keepalive: mqtt.keepAlive,
      protocolVersion: 4,
      clean: true,
      resubscribe: false,
      queueQoSZero: false,
      reconnectPeriod: reconnectEveryMs,
      reconnectOnConnackError: true,
    });
    this.#client = client;
    client.on('connect', () => {
      sendWithoutDelay(client);
      this.#isOnline = true;
      client.subscribe(topics.propertySet, { qos: 1 });
      this.#emit({ type: 'online' });
      this.#report(topics.propertyPost);
    });
    client.on('message', (topic, payload) => {
      // Longer packets do not fit the firmware's buffer and are dropped (field note 34).
      if (topic === topics.propertySet && payload.length + topic.length + 7 <= bufferBytes) {
        this.#execute(payload, topics.propertyPost);
      }
    });
    client.on('close', () => {
      if (this.#isOnline) this.#emit({ type: 'offline' });
      this.#isOnline = false;
    });
    client.on('error', (error) => this.#emit({ type: 'connection-failed', reason: describeFailure(error) }));
    this.#reportTimer = setInterval(() => this.#report(topics.propertyPost), reportEveryMs);
  }

  #execute(payload: Buffer, replyTopic: string): void {
    const command = commandSchema.safeParse(parseJson(payload.toString()));
    if (!command.success) return;
    const { id, params } = command.data;
    this.#emit({ type: 'commanded', id, params });
    const before = this.#state;
    const move = moveSwitch(before, params);
    this.#publish(replyTopic, { method: propertySetReplyMethod, id, code: move === undefined ? 400 : 200 });
    this.#emit({ type: 'replied', id });
    if (move === undefined) return;
    clearTimeout(this.#backTimer);
    this.#state = move.state;
    this.#report(replyTopic);
    if (move.backAfterMs === undefined) return;
    this.#backTimer = setTimeout(() => {
      this.#state = before;
      this.#report(replyTopic);
    }, move.backAfterMs);
  }

  #report(topic: string): void {
    if (this.#client?.connected !== true) return;
    const { position, angle } = this.#state;
    const wifi_rssi = -55 - Math.floor(Math.random() * 8);
    const params = { position, angle, wifi_rssi };
    this.#publish(topic, { method: propertyPostMethod, id: String(this.#nextId++), params });
    this.#emit({ type: 'reported', state: this.#state });
  }

  #publish(topic: string, body: Record<string, unknown>): void {
    this.#client?.publish(topic, JSON.stringify(body), { qos: 0 });
  }

  #emit(event: DeviceEvent): void {
    if (!this.#stopping.signal.aborted) this.#options.onEvent?.(event);
  }
}
