// A maker of devices at the whole service: signs images, offers them in campaigns, and compares what the service says of a device with
// what that device boots.
import { expect } from 'vitest';
import { randomBytes } from 'node:crypto';
import { createKeyPair, keyIdOf, signImage, writePem, type ManifestFacts } from '../../client/sign/firmware.ts';
import { eventually } from '../../rig/changes.ts';
import { activateMany, addProduct } from '../../rig/clients/accounts.ts';
import { buildOtaClient, OtaDevice, type BootOptions } from '../../rig/clients/ota-client.ts';
import { WholeService } from '../../rig/services/whole-service.ts';
import type { DeviceFirmware } from '../../src/protocol/http/firmware.ts';

const { privateKey, publicKey } = await createKeyPair();
export const keyId = await keyIdOf(publicKey);
const publicPem = await writePem(publicKey);
export const restart = 75;
export const oldBoot = 'boot slot=a version=1.9.0 trying=0';
export const newBoot = 'boot slot=b version=1.10.0 trying=';
const openStates = ['offered', 'accepted', 'downloading', 'downloaded', 'restarting', undefined];

type Made = Awaited<ReturnType<typeof makeImage>>;

/** The first line of an image says what it does when it boots. */
export async function makeImage(facts: ManifestFacts, behaviour = 'ok') {
  const image = Buffer.concat([Buffer.from(`${behaviour}\n`), randomBytes(40_000)]);
  return { image, signed: await signImage(image, privateKey, facts) };
}

/** The manifest resource. */
export async function signLines(image: Buffer<ArrayBuffer>, facts: ManifestFacts, key = privateKey): Promise<string> {
  const { manifest, signature } = await signImage(image, key, facts);
  return `${manifest}\n${signature}\n`;
}

export class Makers {
  readonly service: WholeService;
  readonly #program = buildOtaClient();
  readonly #devices: OtaDevice[] = [];

  private constructor(service: WholeService) {
    this.service = service;
  }

  static async start(): Promise<Makers> {
    return new Makers(await WholeService.start());
  }

  async stop(): Promise<void> {
    await this.service.stop();
    for (const device of this.#devices) device.stop();
  }

  /** A new product with devices that run 1.9.0, and a campaign that offers them another image. */
  async offer({
    devices = 1,
    behaviour = 'ok',
    ...facts
  }: Partial<ManifestFacts> & { devices?: number; behaviour?: string } = {}) {
    const { owner } = this.service.rig;
    const product = await addProduct(owner);
    await this.#ask('POST', `/products/${product}/firmware-keys`, { publicKey: publicPem });
    const old = await makeImage({ product, version: '1.9.0' });
    const serials = Array.from({ length: devices }, (_, index) => `${index}`);
    const activations = await activateMany(owner.api, product, serials);
    const made = activations.map(
      (activation) => new OtaDevice(this.#program, { activation, api: this.service.rig.url }, publicPem, old),
    );
    this.#devices.push(...made);
    const next = await makeImage({ product, version: '1.10.0', ...facts }, behaviour);
    const campaign = await this.order(product, next, activations);
    return { product, campaign, next, devices: made, device: made[0]! };
  }

  async order(product: string, { image, signed }: Made, to: { deviceId: string }[]): Promise<string> {
    const { version } = JSON.parse(signed.manifest) as { version: string };
    await this.#ask('POST', `/products/${product}/firmware`, signed);
    await this.#ask('PUT', `/products/${product}/firmware/${version}/image`, image);
    const waves = [{ devices: to.map(({ deviceId }) => deviceId) }];
    // Devices without power are away, and would pause it.
    const order = { version, waves, stopAt: { failedPercent: 100, offlinePercent: 100 } };
    const { campaignId } = await this.#ask<{ campaignId: string }>('POST', `/products/${product}/campaigns`, order);
    await eventually('the offer', async () => {
      const told = await Promise.all(to.map(({ deviceId }) => this.firmwareOf(deviceId)));
      return told.every(({ update }) => update?.campaignId === campaignId);
    });
    return `/products/${product}/campaigns/${campaignId}`;
  }

  change(campaign: string, to: 'pause' | 'resume' | 'stop') {
    return this.#ask('POST', `${campaign}/${to}`);
  }

  firmwareOf(deviceId: string): Promise<DeviceFirmware> {
    return this.#ask('GET', `/devices/${deviceId}/firmware`);
  }

  /** The service, asked until the update has an end, says that the device runs what it boots. Answers the update. */
  async untilEnd(device: OtaDevice) {
    let last: DeviceFirmware | undefined;
    await eventually(
      () => `the end of an update: ${JSON.stringify(last)}`,
      async () => {
        const { update, installed } = (last = await this.firmwareOf(device.activation.deviceId));
        // What was proved may be back at the old version, and not have said so yet.
        return !openStates.includes(update?.state) && installed?.version === device.booted.version;
      },
    );
    expect(last?.installed).toMatchObject({ ...device.booted, keys: [expect.any(String)] });
    return last?.update;
  }

  /** Starts the device again whenever it ends in one of these ways, until its update has an end. Answers the first line of each boot. */
  async supervise(device: OtaDevice, options: BootOptions = {}, ends: (number | string)[] = [restart]) {
    const boots: string[] = [];
    for (;;) {
      const boot = device.boot(options);
      boots.push(await boot.untilLine('boot'));
      const isSettled = boot.untilLine('informed').then(() => this.untilEnd(device));
      const ended = await Promise.race([boot.end(), isSettled.then(() => undefined)]);
      if (ended === undefined) {
        await boot.stop();
        return { boots, update: await isSettled };
      }
      expect(ends).toContain(ended.code);
    }
  }

  async #ask<T>(method: string, path: string, content?: object): Promise<T> {
    const isImage = content instanceof Buffer;
    const response = await fetch(`${this.service.rig.url}/api/v1${path}`, {
      method,
      headers: {
        authorization: `Bearer ${this.service.rig.owner.token}`,
        ...(content !== undefined && !isImage && { 'content-type': 'application/json' }),
      },
      ...(content !== undefined && { body: isImage ? new Uint8Array(content) : JSON.stringify(content) }),
    });
    const { message, data } = (await response.json()) as { message: string; data: T };
    if (!response.ok) throw new Error(`${method} ${path}: ${message}`);
    return data;
  }
}
