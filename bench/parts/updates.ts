// Devices on direct connections that take one update of 1 MiB, over HTTP in ranges of 16 KiB or over MQTT, in a campaign of one wave. Counts
// nothing.
import { setTimeout as sleep } from 'node:timers/promises';
import type { MqttClient } from 'mqtt';
import type { Activation } from '../../rig/clients/accounts.ts';
import { eventually } from '../../rig/changes.ts';
import { makeMaker } from '../../rig/clients/firmware.ts';
import type { WorkerRig } from '../../rig/worker/worker-rig.ts';
import { topicOf } from '../../src/domain/topics.ts';
import { dataBytes, maxGetBytes } from '../../src/protocol/firmware.ts';
import { topicActions } from '../../src/protocol/mqtt.ts';
import { connectFramed } from './framed-client.ts';

export const updateWays = { http: 'update over HTTP', mqtt: 'update over MQTT' } as const;
const version = '1.1.0';
const imageBytes = 1024 * 1024;
const rangeBytes = 16 * 1024;
const updatesWithinMs = 30 * 60_000;

/** @returns what begins the campaign, and resolves when all have their update */
export async function prepareUpdates(rig: WorkerRig, devices: Activation[], way: keyof typeof updateWays) {
  const image = Uint8Array.from({ length: imageBytes }, (_, at) => at % 251);
  const maker = await makeMaker(rig.url, rig.owner, rig.productKey);
  await maker.addFirmware(version, image);
  const boards = await Promise.all(devices.map((device) => Board.connect(rig, device, '1.0.0')));
  const names = { devices: devices.map(({ deviceId }) => deviceId) };
  return async (): Promise<void> => {
    const campaignId = await maker.startCampaign({ version, waves: [names], waitSeconds: 0 });
    await Promise.all(boards.map((board) => board.update(way)));
    const isDone = async () => (await maker.readCampaign(campaignId)).state === 'done';
    await eventually('the campaign is done', isDone, updatesWithinMs);
    const { waves } = await maker.readCampaign(campaignId);
    if (waves[0]?.outcomes['proved'] !== devices.length) throw new Error(JSON.stringify(waves));
  };
}

class Board {
  readonly #rig: WorkerRig;
  readonly #device: Activation;
  #client!: MqttClient;
  #upgrade: Promise<Buffer> | undefined;

  private constructor(rig: WorkerRig, device: Activation) {
    this.#rig = rig;
    this.#device = device;
  }

  static async connect(rig: WorkerRig, device: Activation, version: string): Promise<Board> {
    const board = new Board(rig, device);
    await board.#begin(version);
    board.#upgrade = new Promise((resolve) => board.#client.once('message', (_, payload) => resolve(payload)));
    return board;
  }

  async update(way: keyof typeof updateWays): Promise<void> {
    const { url } = JSON.parse(String(await this.#upgrade)) as { url: string };
    const progress = (step: string, more: object = {}) => this.#say('otaProgress', { step, ...more });
    await progress('accepted');
    const read = async (path: string, headers = {}) =>
      (await fetch(`${this.#rig.url}${path}`, { headers })).arrayBuffer();
    await read(`${url}/manifest`);
    const stepBytes = way === 'http' ? rangeBytes : maxGetBytes;
    let tenths = 0;
    for (let at = 0; at < imageBytes; at += stepBytes) {
      const length = Math.min(stepBytes, imageBytes - at);
      await (way === 'mqtt' ? this.#get(at, length) : read(url, { Range: `bytes=${at}-${at + length - 1}` }));
      const reached = Math.floor((10 * (at + length)) / imageBytes);
      if (reached > tenths) await progress('downloading', { percent: 10 * (tenths = reached) });
    }
    await progress('restarting');
    await this.#client.endAsync();
    await this.#begin(version);
  }

  async #begin(version: string): Promise<void> {
    const { deviceId, mqtt } = this.#device;
    const { clientId, username, password } = mqtt;
    const login = { clientId, username, password, protocolVersion: 4 as const, keepalive: 0, reconnectPeriod: 0 };
    this.#client = await connectFramed(`${this.#rig.url.replace(/^http/, 'ws')}/mqtt/${deviceId}`, login);
    const topics = (['otaUpgrade', 'otaData'] as const).map((name) => this.#topic(name));
    await this.#client.subscribeAsync(topics, { qos: 1 });
    await this.#say('otaInform', { version, slot: 'a' });
  }

  /** Resolves with the last of the packets. Who is told that too much was asked asks again. */
  async #get(offset: number, length: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    let packets = Math.ceil(length / dataBytes);
    const take = (_: string, payload: Buffer) => {
      if (payload.includes('"error"')) resolve(false);
      else if ((packets -= 1) === 0) resolve(true);
    };
    this.#client.on('message', take);
    await this.#say('otaGet', { offset, length });
    const isWhole = await promise;
    this.#client.off('message', take);
    if (!isWhole) return sleep(1_000).then(() => this.#get(offset, length));
  }

  #topic(name: keyof typeof topicActions): string {
    return topicOf({ productKey: this.#rig.productKey, deviceId: this.#device.deviceId }, topicActions[name]);
  }

  #say(name: keyof typeof topicActions, body: object): Promise<unknown> {
    return this.#client.publishAsync(this.#topic(name), JSON.stringify(body), { qos: 1 });
  }
}
