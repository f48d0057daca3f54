// Updates of a virtual device, as firmware on a small chip takes them: in ranges over HTTP, resumed after a power cut, compared with the
// hash of the manifest, begun by a restart. It knows no maker's key, so it believes the manifest. A fault happens once.
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { MqttClient } from 'mqtt';
import type { z } from 'zod';
import { parseJson } from '../src/domain/json.ts';
import { topicOf, type DeviceIdentity } from '../src/domain/topics.ts';
import { manifestSchema, upgradeSchema, type Inform, type Progress } from '../src/protocol/firmware.ts';
import { topicActions } from '../src/protocol/mqtt.ts';
import { describeFailure } from '../rig/clients/api.ts';
import { runDetached } from '../node-service/detached.ts';

const rangeBytes = 4_096;
const restartMs = 1_000;
const againMs = 5_000;

export const otaUsage = `take firmware updates; =FAULT, once: cut:BYTE (power cut at that byte), flip (one bit of the image),
              old (the old version comes back), away (nothing comes back)`;

/** `cutAt`: the byte at which the power is cut. */
export type OtaFault = { name: string; cutAt: number };

/** @throws Error if there is none of that name */
export function readOtaFault(text: string): OtaFault {
  const [name = '', byte] = text.split(':');
  const cutAt = name === 'cut' ? Number(byte) : Infinity;
  if (['none', 'flip', 'old', 'away', 'cut'].includes(name) && !Number.isNaN(cutAt)) return { name, cutAt };
  throw new Error('--ota takes cut:BYTE, flip, old or away');
}

type Options = {
  apiUrl: string;
  device: DeviceIdentity;
  version: string;
  fault: OtaFault;
  signal: AbortSignal;
  onProblem: (text: string) => void;
};

/** From now on, in each session of the client. */
export function takeUpdates(client: MqttClient, { apiUrl, device, version, fault, signal, onProblem }: Options): void {
  const upgradeTopic = topicOf(device, topicActions.otaUpgrade);
  let installed = version;
  let { name: due, cutAt } = fault;
  let flash = { hash: '', bytes: Buffer.alloc(0) };
  let isBusy = false;
  const publish = (action: 'otaInform' | 'otaProgress', body: Inform | Progress) =>
    client.publish(topicOf(device, topicActions[action]), JSON.stringify(body), { qos: 0 });
  const say = (progress: Progress) => publish('otaProgress', progress);

  client.on('connect', () =>
    client.subscribe(upgradeTopic, { qos: 1 }, () => publish('otaInform', { version: installed, slot: 'a' })),
  );
  client.on('message', (topic, payload) => {
    const upgrade = upgradeSchema.safeParse(parseJson(payload.toString()));
    if (topic !== upgradeTopic || !upgrade.success || isBusy) return;
    isBusy = true;
    const installing = install(upgrade.data).catch((error: unknown) => {
      if (!signal.aborted) onProblem(describeFailure(error));
    });
    runDetached(installing.finally(() => (isBusy = false)));
  });

  async function install({ version: next, hash, size, url }: z.infer<typeof upgradeSchema>): Promise<void> {
    say({ step: 'accepted' });
    const signed = await read(`${url}/manifest`);
    if (signed === undefined) return;
    const { sha256 } = manifestSchema.parse(parseJson(signed.toString().split('\n')[0] ?? ''));
    if (flash.hash !== hash) flash = { hash, bytes: Buffer.alloc(0) };
    while (flash.bytes.length < size) {
      const { length: at } = flash.bytes;
      if (at >= cutAt) {
        cutAt = Infinity;
        return restart(installed, true);
      }
      const end = Math.min(at + rangeBytes, size, cutAt);
      const part = await read(url, `bytes=${at}-${end - 1}`);
      if (part === undefined) return;
      flash.bytes = Buffer.concat([flash.bytes, part]);
      const tenths = Math.floor((10 * end) / size);
      if (tenths > Math.floor((10 * at) / size)) say({ step: 'downloading', percent: 10 * tenths });
    }
    const image = flash.bytes;
    flash = { hash: '', bytes: Buffer.alloc(0) };
    const fails = due;
    due = 'none';
    if (fails === 'flip') image[0] = (image[0] ?? 0) ^ 1;
    const isWhole = createHash('sha256').update(image).digest('hex') === sha256;
    if (!isWhole) return void say({ step: 'failed', error: 'hash_mismatch' });
    say({ step: 'downloaded' });
    say({ step: 'restarting' });
    if (fails === 'away') return client.endAsync();
    await restart(fails === 'old' ? installed : next);
  }

  /** What the address answers; undefined if the update has ended. */
  async function read(path: string, range?: string): Promise<Buffer | undefined> {
    for (;;) {
      const headers = range === undefined ? {} : { Range: range };
      const answer = await fetch(new URL(path, apiUrl), { signal, headers }).catch((error: unknown) => {
        signal.throwIfAborted();
        onProblem(describeFailure(error));
      });
      // Any other answer with 200 would be the whole image.
      if (answer?.status === (range === undefined ? 200 : 206)) return Buffer.from(await answer.arrayBuffer());
      if ([404, 410].includes(answer?.status ?? 0)) return undefined;
      const seconds = Number(answer?.headers.get('Retry-After') ?? 0);
      await sleep(Math.max(seconds * 1_000, againMs), undefined, { signal });
    }
  }

  async function restart(comesBackWith: string, isPowerCut = false): Promise<void> {
    await client.endAsync(isPowerCut);
    await sleep(restartMs, undefined, { signal });
    installed = comesBackWith;
    client.reconnect();
  }
}
