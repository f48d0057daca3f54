// What the device's update needs of others: tells the device of it, answers its requests for bytes over MQTT, and reports to its campaign. The
// bytes come from R2, the state of the campaign from D1. Decides nothing.
import { readConfig } from '../../config.ts';
import { createLinkToken } from '../../crypto/link-token.ts';
import { openDatabase } from '../../db/client.ts';
import { findImage } from '../../db/products/firmware.ts';
import type { EffectOf } from '../../domain/device/core/events.ts';
import { topicOf } from '../../domain/topics.ts';
import { describeError, log } from '../../log.ts';
import { dataBytes, type Data } from '../../protocol/firmware.ts';
import { topicActions } from '../../protocol/mqtt.ts';
import { callCampaign, hasAnswer } from '../calls/stubs.ts';
import type { DeviceCommands } from './commands.ts';
import type { StoredDevice } from './stored-device.ts';

type Problem = Extract<Data, { error: string }>['error'];

export class DeviceUpdates {
  readonly #env: Env;
  readonly #deviceId: string;
  readonly #device: StoredDevice;
  readonly #commands: DeviceCommands;

  constructor(env: Env, deviceId: string, device: StoredDevice, commands: DeviceCommands) {
    this.#env = env;
    this.#deviceId = deviceId;
    this.#device = device;
    this.#commands = commands;
  }

  async tell({ campaignId, version, size, hash }: EffectOf<'tell_upgrade'>): Promise<void> {
    const link = { deviceId: this.#deviceId, linkId: campaignId };
    const token = await createLinkToken(readConfig(this.#env).messagingSecrets, 'image', link);
    await this.#send('otaUpgrade', { version, size, hash, url: `/f/${token}` });
  }

  async sendImage(asked: EffectOf<'send_image'>): Promise<void> {
    const { offset, isManifest } = asked;
    const bytes = await this.#read(asked).catch((error: unknown): Problem => {
      log('warn', 'image not read', { deviceId: this.#deviceId, ...describeError(error) });
      return 'busy';
    });
    if (typeof bytes === 'string') return this.#send('otaData', { offset, error: bytes });
    // Not before it is known that the campaign goes on.
    const endsAt = isManifest ? null : offset + bytes.length;
    const allowed = this.#device.decide({ kind: 'image_asked', campaignId: asked.campaignId ?? '', endsAt });
    if (!allowed.ok) {
      const error: Problem = allowed.refusal.kind === 'update_ended' ? 'gone' : 'busy';
      return this.#send('otaData', { offset, error });
    }
    for (let at = 0; at === 0 || at < bytes.length; at += dataBytes) {
      const data = bytes.subarray(at, at + dataBytes).toBase64();
      await this.#send('otaData', { offset: offset + at, ...(isManifest && { manifest: true }), data });
    }
  }

  async tellCampaign({ campaignId, report }: EffectOf<'tell_campaign'>): Promise<void> {
    await hasAnswer(callCampaign(this.#env, campaignId, 'idempotent').report(this.#deviceId, report));
  }

  async #read({ campaignId, offset, length, isManifest }: EffectOf<'send_image'>): Promise<Uint8Array | Problem> {
    const database = openDatabase(this.#env.DB, 'first-primary');
    const image = campaignId === null ? 'gone' : await findImage(database, campaignId);
    if (typeof image === 'string') return image;
    if (isManifest) return new TextEncoder().encode(image.signedManifest).subarray(offset, offset + length);
    if (offset >= image.size) return 'range';
    const part = await this.#env.FIRMWARE.get(image.name, { range: { offset, length } });
    return part === null ? 'gone' : new Uint8Array(await part.arrayBuffer());
  }

  async #send(action: 'otaUpgrade' | 'otaData', body: object): Promise<void> {
    const identity = this.#device.identity();
    if (identity === undefined) return;
    await this.#commands.send(topicOf(identity, topicActions[action]), JSON.stringify(body));
  }
}
