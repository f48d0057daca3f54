// A maker's keys, firmware and campaigns, and devices that take updates through the bridge. Asserts nothing.
import { runDurableObjectAlarm } from 'cloudflare:test';
import { env, exports } from 'cloudflare:workers';
import type { CampaignView, DeviceFirmware } from '../../../src/protocol/http/firmware.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import { bringUp, type Said } from './clients/bridge.ts';
import { call, makeProduct, readAnswer, requestOf, send } from './clients/client.ts';
import { bridge, connect, disconnect, owner, type Device } from './commands.ts';

const algorithms = { ed25519: { name: 'Ed25519' }, p256: { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } };
export type Algorithm = keyof typeof algorithms;
export type Key = { pem: string; sign: (text: string) => Promise<string> };
export type Upgrade = { version: string; size: number; hash: string; url: string };

export async function makeKey(algorithm: Algorithm = 'p256'): Promise<Key> {
  const parameters = algorithms[algorithm];
  const pair = (await crypto.subtle.generateKey(parameters, true, ['sign', 'verify'])) as CryptoKeyPair;
  const spki = new Uint8Array((await crypto.subtle.exportKey('spki', pair.publicKey)) as ArrayBuffer);
  const sign = async (text: string) =>
    new Uint8Array(await crypto.subtle.sign(parameters, pair.privateKey, new TextEncoder().encode(text))).toBase64();
  return { pem: `-----BEGIN PUBLIC KEY-----\n${spki.toBase64()}\n-----END PUBLIC KEY-----\n`, sign };
}

export const ofProduct = <T>(method: string, productKey: string, path: string, body?: object, token = owner.token) =>
  call<T>(method, `/products/${productKey}/${path}`, { token, ...(body && { body }) });

export const imageOf = (bytes: number) => Uint8Array.from({ length: bytes }, (_, at) => (at * 7 + bytes) % 256);

export async function manifestOf(productKey: string, version: string, image: Uint8Array, more: object = {}) {
  const sha256 = new Uint8Array(await crypto.subtle.digest('SHA-256', image)).toHex();
  return JSON.stringify({ product: productKey, version, size: image.length, sha256, ...more });
}

export async function addFirmware(
  productKey: string,
  key: Key,
  version: string,
  image: Uint8Array,
  { token = owner.token, ...more }: { token?: string } & object = {},
) {
  const manifest = await manifestOf(productKey, version, image, more);
  return ofProduct('POST', productKey, 'firmware', { manifest, signature: await key.sign(manifest) }, token);
}

export async function putImage(productKey: string, version: string, image: Uint8Array, token = owner.token) {
  const request = requestOf('PUT', `/products/${productKey}/firmware/${version}/image`, { token });
  return readAnswer(await exports.default.fetch(new Request(request, { body: image })));
}

/** A product with a key, and firmware with its image. */
export async function prepareFirmware(version = '1.2.0', image = imageOf(1_000), more: object = {}) {
  const productKey = await makeProduct(owner);
  return { productKey, image, ...(await storeFirmware(productKey, owner.token, version, image, more)) };
}

export async function storeFirmware(
  productKey: string,
  token: string,
  version = '1.2.0',
  image = imageOf(10),
  more: object = {},
) {
  const key = await makeKey();
  const body = { publicKey: key.pem };
  const { keyId } = (await ofProduct<{ keyId: string }>('POST', productKey, 'firmware-keys', body, token)).data;
  await addFirmware(productKey, key, version, image, { token, ...more });
  await putImage(productKey, version, image, token);
  return { key, keyId };
}

let lastSerial = 0;

/** New ones, online, that run `version`. */
export async function makeDevices(productKey: string, count: number, version = '1.0.0'): Promise<Device[]> {
  const devices: Device[] = [];
  for (let index = 0; index < count; index++) {
    const body = { productKey, deviceSN: `SN-${++lastSerial}` };
    const { data } = await call<{ deviceId: string }>('POST', '/devices/activate', { body });
    const device = { productKey, deviceId: data.deviceId };
    await connect(device);
    await bringUp(device, inform(version));
    devices.push(device);
  }
  return devices;
}

export const inform = (version: string): Said => ({ action: topicActions.otaInform, payload: { version, slot: 'a' } });
export const progress = (step: string, more: object = {}): Said => ({
  action: topicActions.otaProgress,
  payload: { step, ...more },
});
export const nextUpgrade = async (device: Device) =>
  (await bridge.nextFor(device, topicActions.otaUpgrade)).body as Upgrade;
export const fetchImage = (url: string, headers: Record<string, string> = {}) => send('GET', url, { headers });

/** Offers the version to the devices by their ids. */
export const startCampaign = (productKey: string, version: string, waves: object[], more: object = {}) =>
  ofProduct<{ campaignId: string }>('POST', productKey, 'campaigns', { version, waves, waitSeconds: 0, ...more });
export const named = (devices: Device[]) => ({ devices: devices.map(({ deviceId }) => deviceId) });
export const readCampaign = async (productKey: string, campaignId: string) =>
  (await ofProduct<CampaignView>('GET', productKey, `campaigns/${campaignId}?size=100`)).data;
export const ringCampaign = (campaignId: string) => runDurableObjectAlarm(env.CAMPAIGN.getByName(campaignId));

export async function untilCampaign(
  productKey: string,
  campaignId: string,
  isThere: (view: CampaignView) => boolean,
): Promise<CampaignView> {
  for (;;) {
    const view = await readCampaign(productKey, campaignId);
    if (isThere(view)) return view;
    await ringCampaign(campaignId);
  }
}

export const firmwareOf = async ({ deviceId }: Device) =>
  (await call<DeviceFirmware>('GET', `/devices/${deviceId}/firmware`, { token: owner.token })).data;

/** Its connection ends and begins again, as that of a device that restarts; it informs of `version`. */
export async function restart(device: Device, version: string): Promise<void> {
  await disconnect(device);
  await connect(device);
  await bringUp(device, inform(version));
}

/** Takes the update that it is offered, whole, and comes back with `version`. */
export async function takeUpdate(device: Device, version?: string): Promise<Upgrade> {
  const upgrade = await nextUpgrade(device);
  await (await fetchImage(upgrade.url, { Range: 'bytes=0-' })).arrayBuffer();
  await bringUp(device, progress('downloaded'), progress('restarting'));
  await restart(device, version ?? upgrade.version);
  return upgrade;
}
