// A device as stock firmware behaves. It activates over HTTP until it succeeds, speaks MQTT 3.1.1 with a clean session and
// no will, and reports at QoS 0 without a clock. Its credentials never change. Must not do better than real devices: no
// message queue, no fresh credentials, nothing longer than its 256-byte buffer.
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type MqttClient } from 'mqtt';
import { parseJson } from '../src/domain/json.ts';
import { propertyPostMethod, propertySetReplyMethod, propertySetSchema } from '../src/protocol/mqtt.ts';
import { activate, type Activation } from '../rig/clients/accounts.ts';
import { connectApi, describeFailure } from '../rig/clients/api.ts';
import { sendWithoutDelay } from '../rig/clients/mqtt-client.ts';
import { initialState, moveSwitch, type SwitchState } from '../console/src/switch/moves.ts';
import { takeUpdates, type UpdateFault } from '../console/src/switch/updates.ts';

const activationRetryMs = 5_000;
const reconnectEveryMs = 2_000;
const reportEveryMs = 30_000;
const bufferBytes = 256;
const firmware = { firmwareVersion: '1.0.3', chipModel: 'ESP32-C3' };

type DeviceEvent = 'activated' | 'failed' | 'online' | 'offline' | 'unreachable' | 'reported' | 'commanded' | 'replied';
/** `text` says it to a person. */
export type OnDeviceEvent = (event: DeviceEvent, text: string) => void;

export type VirtualDeviceOptions = {
  apiUrl: string;
  productKey: string;
  serial: string;
  /** Connects over WebSocket to the Worker itself, instead of the address that the activation names. */
  isDirect?: boolean;
  /** Takes firmware updates. */
  ota?: UpdateFault | undefined;
  onEvent?: OnDeviceEvent;
};

export type VirtualDevice = ReturnType<typeof createVirtualDevice>;

export function createVirtualDevice(options: VirtualDeviceOptions) {
  const { apiUrl, productKey, serial, isDirect = false, ota, onEvent } = options;
  const stopping = new AbortController();
  let state: SwitchState = initialState;
  let nextId = 1;
  let isOnline = false;
  let client: MqttClient | undefined;
  let reportTimer: NodeJS.Timeout | undefined;
  let backTimer: NodeJS.Timeout | undefined;
  return { start, stop };

  /** Resolves with the activation once it succeeded; from then on the device keeps itself online. */
  async function start(): Promise<Activation> {
    const activation = await activateWithRetries();
    emit('activated', `activated as ${activation.deviceId}`);
    stayOnline(activation);
    return activation;
  }

  /** Leaves with a DISCONNECT, as a device does that is switched off in order. */
  async function stop(): Promise<void> {
    stopping.abort();
    clearInterval(reportTimer);
    clearTimeout(backTimer);
    // Not forced: the DISCONNECT has to leave first. A connection that is down has nothing to say.
    await client?.endAsync(!client.connected);
  }

  async function activateWithRetries(): Promise<Activation> {
    const api = connectApi(apiUrl);
    for (;;) {
      try {
        const activation = await activate(api, productKey, serial, firmware);
        stopping.signal.throwIfAborted();
        return activation;
      } catch (error) {
        stopping.signal.throwIfAborted();
        emit('failed', `activation failed, trying again: ${describeFailure(error)}`);
      }
      await sleep(activationRetryMs, undefined, { signal: stopping.signal });
    }
  }

  function stayOnline({ deviceId, mqtt, topics }: Activation): void {
    const onProblem = (error: unknown) => emit('unreachable', describeFailure(error));
    const direct = `${apiUrl.replace(/^http/, 'ws').replace(/\/+$/, '')}/mqtt/${deviceId}`;
    const opened = connect(isDirect ? direct : `mqtt://${mqtt.server}:${mqtt.port}`, {
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
    client = opened;
    client.on('connect', () => {
      sendWithoutDelay(opened);
      isOnline = true;
      opened.subscribe(topics.propertySet, { qos: 1 });
      emit('online', 'MQTT session accepted');
      report(topics.propertyPost);
    });
    client.on('message', (topic, payload) => {
      // Longer packets do not fit the firmware's buffer and are dropped (field note 34).
      if (topic === topics.propertySet && payload.length + topic.length + 7 <= bufferBytes) {
        execute(payload, topics.propertyPost);
      }
    });
    client.on('close', () => {
      if (isOnline) emit('offline', 'MQTT connection lost, connecting again');
      isOnline = false;
    });
    client.on('error', onProblem);
    const { signal } = stopping;
    const otaTopics = topics.status.replace(/status$/, 'thing/ota/');
    const faults = ota === undefined ? [] : [ota];
    const takeFault = () => faults.pop() ?? { name: 'none' };
    const about = { apiUrl, topics: otaTopics, version: firmware.firmwareVersion };
    if (ota !== undefined)
      takeUpdates(opened, { ...about, takeFault, leave: () => void opened.endAsync(), signal, onProblem });
    reportTimer = setInterval(() => report(topics.propertyPost), reportEveryMs);
  }

  function execute(payload: Buffer, replyTopic: string): void {
    const command = propertySetSchema.safeParse(parseJson(payload.toString()));
    if (!command.success) return;
    const { id, params } = command.data;
    emit('commanded', `received command ${id}: ${JSON.stringify(params)}`);
    const before = state;
    const move = moveSwitch(before, params);
    publish(replyTopic, { method: propertySetReplyMethod, id, code: move === undefined ? 400 : 200 });
    emit('replied', `replied to ${id}`);
    if (move === undefined) return;
    clearTimeout(backTimer);
    state = move.state;
    report(replyTopic);
    if (move.backAfterMs === undefined) return;
    backTimer = setTimeout(() => {
      state = before;
      report(replyTopic);
    }, move.backAfterMs);
  }

  function report(topic: string): void {
    if (client?.connected !== true) return;
    const { position, angle } = state;
    const wifi_rssi = -55 - Math.floor(Math.random() * 8);
    const params = { position, angle, wifi_rssi };
    publish(topic, { method: propertyPostMethod, id: String(nextId++), params });
    emit('reported', position);
  }

  function publish(topic: string, body: Record<string, unknown>): void {
    client?.publish(topic, JSON.stringify(body), { qos: 0 });
  }

  function emit(...event: Parameters<OnDeviceEvent>): void {
    if (!stopping.signal.aborted) onEvent?.(...event);
  }
}
