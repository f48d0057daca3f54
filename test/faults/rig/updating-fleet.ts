// Devices that take firmware, all on one connection to a broker: over HTTP ranges, each tenth over MQTT. They announce their presence, and
// each knows what became of it. Judges nothing.
import { setTimeout as sleep } from 'node:timers/promises';
import PQueue from 'p-queue';
import mqtt, { type MqttClient } from 'mqtt';
import { Changes } from '../../../rig/changes.ts';
import type { Activation } from '../../../rig/clients/accounts.ts';
import type { Random } from '../../../rig/inputs/random.ts';
import { topicOf } from '../../../src/domain/topics.ts';
import { maxGetBytes, type Data } from '../../../src/protocol/firmware.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';

/** What a device does with an image: keeps it, comes back with the version before, finds it spoiled, never comes back. */
export type Fate = 'plain' | 'old' | 'hash' | 'away';
/** `held`: it was told to wait or to forget it. */
export type Truth = 'idle' | 'busy' | 'held' | 'new' | 'old' | 'hash' | 'away';
export type Member = {
  device: Activation;
  isOverMqtt: boolean;
  fate: Fate;
  /** It loses its power, once, when it has so many bytes. */
  cutAt: number;
  truth: Truth;
  version: string;
  flash: Buffer;
  flashVersion: string;
  take: ((data: Data) => void) | undefined;
};

type Options = { apiUrl: string; productKey: string; random: Random };

const firstVersion = '1.0.0';
const rangeBytes = 2_048;
/** Times of messages are as exact as the Worker is fast: of a shorter restart a busy one may turn end and begin round. */
const restartMs = [3_000, 6_000] as const;
const againMs = 500;
/** Without an answer over MQTT. */
const patienceMs = 5_000;

const [callsAtOnce, callsPerSecond] = [16, 60];

/** For each of very many devices: a device that was called has open files for 70 s, of which this machine has 20 000. */
export async function gently<T>(items: readonly T[], call: (item: T) => Promise<unknown>): Promise<void> {
  const queue = new PQueue({ concurrency: callsAtOnce, intervalCap: callsPerSecond, interval: 1_000 });
  await queue.addAll(items.map((item) => () => call(item)));
}

export class UpdatingFleet {
  readonly members: Member[];
  readonly changes = new Changes();
  /** The image that they are offered. */
  image: Uint8Array = new Uint8Array();
  /** How many of the bytes that came were others. */
  spoiled = 0;
  readonly #byId: Map<string, Member>;
  readonly #client: MqttClient;
  readonly #options: Options;
  readonly #stopping = new AbortController();

  private constructor(client: MqttClient, devices: Activation[], options: Options) {
    this.#client = client;
    this.#options = options;
    this.members = devices.map((device, index) => {
      const begin = {
        fate: 'plain',
        cutAt: Infinity,
        truth: 'idle',
        version: firstVersion,
        flash: Buffer.alloc(0),
        flashVersion: '',
        take: undefined,
      } as const;
      return { ...begin, device, isOverMqtt: index % 10 === 9 };
    });
    this.#byId = new Map(this.members.map((member) => [member.device.deviceId, member]));
  }

  /** All are online and have informed. */
  static async start(mqttUrl: string, devices: Activation[], options: Options): Promise<UpdatingFleet> {
    const client = await mqtt.connectAsync(mqttUrl, { reconnectPeriod: 0 });
    const fleet = new UpdatingFleet(client, devices, options);
    client.on('message', (topic, payload) => {
      const member = fleet.#byId.get(topic.split('/')[3] ?? '');
      if (member === undefined) return;
      const body = JSON.parse(payload.toString()) as unknown;
      if (topic.endsWith(topicActions.otaData)) member.take?.(body as Data);
      else fleet.#install(member, body as { version: string; size: number; url: string }).catch(fleet.#noteError);
    });
    for (const action of [topicActions.otaUpgrade, topicActions.otaData])
      await client.subscribeAsync(topicOf({ productKey: options.productKey, deviceId: '+' }, action), { qos: 1 });
    await gently(fleet.members, (member) => fleet.comeBack(member, firstVersion));
    return fleet;
  }

  count(...truths: Truth[]): number {
    return this.members.filter(({ truth }) => truths.includes(truth)).length;
  }

  /** As a device that was switched on. */
  async comeBack(member: Member, version: string): Promise<void> {
    member.version = version;
    await this.#say(member, 'status', { status: 'online' });
    await this.#say(member, 'otaInform', { version, slot: 'a' });
  }

  stop(): void {
    this.#stopping.abort();
    this.#client.end(true);
  }

  readonly #noteError = (error: unknown): void => {
    if (!this.#stopping.signal.aborted) throw error;
  };

  #become(member: Member, truth: Truth): void {
    member.truth = truth;
    this.changes.note();
  }

  #say({ device }: Member, action: keyof typeof topicActions, body: object): Promise<unknown> {
    const identity = { productKey: this.#options.productKey, deviceId: device.deviceId };
    return this.#client.publishAsync(topicOf(identity, topicActions[action]), JSON.stringify(body), { qos: 1 });
  }

  async #install(
    member: Member,
    { version, size, url }: { version: string; size: number; url: string },
  ): Promise<void> {
    if (member.truth === 'busy' || member.version === version) return;
    this.#become(member, 'busy');
    if (member.flashVersion !== version) Object.assign(member, { flash: Buffer.alloc(0), flashVersion: version });
    const progress = (step: string, more: object = {}) => this.#say(member, 'otaProgress', { step, ...more });
    await progress('accepted');
    while (member.flash.length < size) {
      const part = await this.#read(member, url, member.flash.length);
      if (part === undefined) {
        this.#become(member, 'held');
        return;
      }
      member.flash = Buffer.concat([member.flash, part]);
      if (member.flash.length < member.cutAt) continue;
      member.cutAt = Infinity;
      await this.#restart(member, member.version);
      this.#become(member, 'idle');
      return;
    }
    if (Buffer.compare(member.flash, this.image) !== 0) this.spoiled += 1;
    member.flash = Buffer.alloc(0);
    if (member.fate === 'hash') {
      await progress('failed', { error: 'hash_mismatch' });
      this.#become(member, 'hash');
      return;
    }
    await progress('restarting');
    if (member.fate === 'away') {
      await this.#say(member, 'status', { status: 'offline' });
      this.#become(member, 'away');
      return;
    }
    await this.#restart(member, member.fate === 'old' ? member.version : version);
    this.#become(member, member.version === version ? 'new' : 'old');
  }

  async #restart(member: Member, version: string): Promise<void> {
    await this.#say(member, 'status', { status: 'offline' });
    await this.#sleep(this.#options.random.between(...restartMs));
    await this.comeBack(member, version);
  }

  /** Some bytes from there on; undefined if it is not to be read now. Asks again until it is answered. */
  async #read(member: Member, url: string, at: number): Promise<Uint8Array | undefined> {
    for (;;) {
      const asked = member.isOverMqtt ? this.#get(member, at) : this.#fetch(url, at);
      const answer = await asked;
      if (answer === 'held') return undefined;
      if (answer !== 'again') return answer;
      await this.#sleep(againMs);
    }
  }

  async #fetch(url: string, at: number): Promise<Uint8Array | 'held' | 'again'> {
    try {
      const headers = { Range: `bytes=${at}-${at + rangeBytes - 1}` };
      const answer = await fetch(new URL(url, this.#options.apiUrl), { headers, signal: this.#stopping.signal });
      const bytes = new Uint8Array(await answer.arrayBuffer());
      if (answer.status === 206) return bytes;
      return answer.status === 409 || answer.status === 410 ? 'held' : 'again';
    } catch (error) {
      this.#stopping.signal.throwIfAborted();
      // How fetch fails while the Worker is away.
      if (error instanceof TypeError) return 'again';
      throw error;
    }
  }

  async #get(member: Member, at: number): Promise<Uint8Array | 'held' | 'again'> {
    const length = Math.min(maxGetBytes, this.image.length - at);
    const { promise, resolve } = Promise.withResolvers<Uint8Array | 'held' | 'again'>();
    let got = Buffer.alloc(0);
    member.take = (data) => {
      if ('error' in data) resolve(data.error === 'busy' ? 'again' : 'held');
      else if (data.offset === at + got.length) got = Buffer.concat([got, Buffer.from(data.data, 'base64')]);
      if (got.length >= length) resolve(got);
    };
    const timer = setTimeout(() => resolve('again'), patienceMs);
    await this.#say(member, 'otaGet', { offset: at, length });
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      member.take = undefined;
    }
  }

  #sleep(ms: number): Promise<void> {
    return sleep(ms, undefined, { signal: this.#stopping.signal });
  }
}
