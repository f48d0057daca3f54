// Commands over HTTP, timed until the device's report of the new position is on the relay, and devices that report it at once.
// Counts what comes; judges nothing.
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { MqttClient } from 'mqtt';
import type { Activation } from '../../rig/clients/accounts.ts';
import { sendWithoutDelay } from '../../rig/clients/mqtt-client.ts';
import { ask, encodeRequest, openConnection } from './http-load.ts';
import type { BenchRig } from './rig.ts';

type Push = { topic: string; payload: { params: { position?: string } } };

const positions = ['up', 'middle', 'down'] as const;
const lostAfterMs = 5_000;

export class TimedCommands {
  /** Reports on the relay, also those that no command waits for. */
  reports = 0;
  readonly #rig: BenchRig;
  #connection: Socket;
  #sent = 0;
  #expected = { topic: '', position: '', arrive: (_atMs: number): void => undefined };

  private constructor(rig: BenchRig, connection: Socket) {
    this.#rig = rig;
    this.#connection = connection;
  }

  static async open(rig: BenchRig): Promise<TimedCommands> {
    const commands = new TimedCommands(rig, await openConnection(rig.worker.port));
    const topics = rig.devices.map((device) => device.topics.propertyPost);
    await rig.follow(topics, (text) => commands.#noteReport(JSON.parse(text) as Push));
    return commands;
  }

  /** Every command moves the switch. Resolves with the milliseconds until its report; null if that did not arrive. */
  async send({ deviceId, topics }: Activation): Promise<number | null> {
    const { port, owner } = this.#rig.worker;
    const position = positions[(this.#sent += 1) % positions.length] ?? 'up';
    const { promise: arrived, resolve: arrive } = Promise.withResolvers<number>();
    this.#expected = { topic: topics.propertyPost, position, arrive };
    const path = `/api/v1/devices/${deviceId}/control`;
    const request = encodeRequest({ path, token: owner.token, body: { action: 'toggle', position } });
    // workerd closes a connection that has rested.
    if (this.#connection.destroyed) this.#connection = await openConnection(port);
    const startedAtMs = performance.now();
    const answer = await ask(this.#connection, request);
    if (!answer.includes('command_sent')) throw new Error(`a command was refused: ${answer}`);
    const atMs = await Promise.race([arrived, sleep(lostAfterMs, null, { ref: false })]);
    return atMs === null ? null : atMs - startedAtMs;
  }

  #noteReport({ topic, payload }: Push): void {
    this.reports += 1;
    const { topic: expected, position, arrive } = this.#expected;
    if (topic === expected && payload.params.position === position) arrive(performance.now());
  }
}

/** Devices of one connection, which report a commanded position at once. */
export async function carryOut(
  client: MqttClient,
  devices: readonly Activation[],
  onCommand: (topic: string) => void,
): Promise<void> {
  const reportTopics = new Map(devices.map(({ topics }) => [topics.propertySet, topics.propertyPost]));
  sendWithoutDelay(client);
  client.on('message', (topic, payload) => {
    onCommand(topic);
    const { id, params } = JSON.parse(payload.toString()) as { id: string; params: { position: string } };
    const report = { method: 'thing.event.property.post', id, params: { position: params.position, wifi_rssi: -58 } };
    client.publish(reportTopics.get(topic) ?? '', JSON.stringify(report), { qos: 1 });
  });
  await client.subscribeAsync([...reportTopics.keys()], { qos: 1 });
}
