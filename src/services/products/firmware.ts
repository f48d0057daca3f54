// Keys, firmware and campaigns of a product, for its maker. A manifest is taken only with a signature of one of the product's keys, an
// image only as its manifest describes it. A campaign is a row in D1, and an object that carries it out.
import { findSigner, readPublicKey } from '../../crypto/firmware-signature.ts';
import { createId } from '../../crypto/secrets.ts';
import { linkIdLength } from '../../crypto/link-token.ts';
import { findDeviceIds } from '../../db/devices/devices.ts';
import * as records from '../../db/products/firmware.ts';
import type { Actor } from '../../domain/access.ts';
import { imageNameOf, readManifest } from '../../domain/firmware/images.ts';
import type { PageRequest } from '../../domain/pagination.ts';
import {
  invalidInput,
  limitReached,
  notFound,
  RefusedError,
  unwrap,
  type FirmwareProblem,
} from '../../domain/refusal.ts';
import { toIso } from '../../domain/time.ts';
import { callCampaign } from '../../objects/calls/stubs.ts';
import type { CampaignBody, CampaignView } from '../../protocol/http/firmware.ts';
import type { ServiceContext } from '../../context.ts';
import { findOwnProduct } from './products.ts';

const max = { firmwareKeysPerProduct: 4, firmwarePerProduct: 50, campaignsPerProduct: 200 };

const leftPerRun = 50;

const refusedFirmware = (because: FirmwareProblem) => new RefusedError({ kind: 'firmware_refused', because });

export async function firmwareOf(
  context: ServiceContext,
  actor: Actor,
  productKey: string,
  action: 'readProducts' | 'manageProducts',
) {
  const db = context.primary();
  const { id: productId } = await findOwnProduct(db, actor, productKey, action);
  const { FIRMWARE: bucket } = context.env;

  const find = async (version: string) => {
    const found = await records.findFirmware(db, productId, version);
    if (found === undefined) throw notFound('firmware', version);
    return found;
  };
  const objectOf = (campaignId: string) => callCampaign(context.env, campaignId, 'idempotent');
  const requireCampaign = async (campaignId: string) => {
    const found = await records.findCampaign(db, productId, campaignId);
    if (found === undefined) throw notFound('campaign', campaignId);
  };

  return {
    async addKey(pem: string) {
      const key = await readPublicKey(pem);
      if (key === undefined) throw invalidInput('publicKey', 'must be an Ed25519 or P-256 public key in PEM');
      const row = { ...key, productId, createdAt: Date.now() };
      const isNew = await records.insertKey(db, row, max.firmwareKeysPerProduct);
      const kept = isNew ? row : (await records.listKeys(db, productId)).find(({ keyId }) => keyId === key.keyId);
      if (kept === undefined) throw limitReached('firmwareKeysPerProduct', max.firmwareKeysPerProduct);
      return viewKey(kept);
    },

    async listKeys() {
      return { list: (await records.listKeys(db, productId)).map(viewKey) };
    },

    /** Devices go on to trust it: a manifest that it signed before stays. */
    async removeKey(keyId: string) {
      if (!(await records.deleteKey(db, productId, keyId))) throw notFound('firmware_key', keyId);
      return { keyId };
    },

    async add({ manifest: text, signature }: { manifest: string; signature: string }) {
      const manifest = unwrap(readManifest(text));
      if (manifest.product !== productKey) throw refusedFirmware('product');
      const signer = await findSigner(await records.listKeys(db, productId), text, signature);
      if (signer === undefined) throw refusedFirmware('signature');
      const { version } = manifest;
      const content = { manifest: text, signature, keyId: signer.keyId };
      const row = { productId, version, ...content, createdAt: Date.now(), storedAt: null };
      if (await records.insertFirmware(db, row, max.firmwarePerProduct)) return viewFirmware(row);
      const isThere = (await records.findFirmware(db, productId, version)) !== undefined;
      if (isThere) throw new RefusedError({ kind: 'firmware_exists', version });
      throw limitReached('firmwarePerProduct', max.firmwarePerProduct);
    },

    /** The bucket compares the SHA-256 while it takes the bytes. */
    async putImage(version: string, body: ReadableStream | null, bytes: number) {
      const row = await find(version);
      const { size, sha256 } = unwrap(readManifest(row.manifest));
      if (bytes !== size || body === null) throw refusedFirmware('size');
      // An image that is there may be on its way to devices. Bytes that are not these are refused in any case.
      await bucket.put(imageNameOf(productId, version), body, { sha256 }).catch(async (error: unknown) => {
        const cause = String(error);
        if (/checksum|digest|10037/i.test(cause)) throw refusedFirmware('hash');
        if (!/connection lost/i.test(cause)) throw error;
        // To the client, or to the bucket: one that answers has lost nothing.
        const [{ status }] = await Promise.allSettled([bucket.head(imageNameOf(productId, version))]);
        throw new RefusedError({ kind: status === 'fulfilled' ? 'body_not_received' : 'storage_unavailable', cause });
      });
      const storedAt = row.storedAt ?? Date.now();
      const isKept = await records.setStored(db, productId, version, storedAt);
      if (isKept) return viewFirmware({ ...row, storedAt });
      // It was removed meanwhile.
      await bucket.delete(imageNameOf(productId, version));
      throw notFound('firmware', version);
    },

    async list() {
      return { list: (await records.listFirmware(db, productId)).map(viewFirmware) };
    },

    async remove(version: string) {
      await find(version);
      const isFree = await records.setStored(db, productId, version, null);
      if (!isFree) throw new RefusedError({ kind: 'firmware_in_use', version });
      await bucket.delete(imageNameOf(productId, version));
      await records.deleteFirmware(db, productId, version);
      return { version };
    },

    async startCampaign(order: CampaignBody) {
      const { version, waves } = order;
      const row = await find(version);
      // A wave of none would let the next one begin at once.
      const named = waves.flatMap((wave) => ('devices' in wave ? wave.devices : []));
      const known = await findDeviceIds(db, named, productId);
      const missing = named.find((deviceId) => !known.has(deviceId));
      if (missing !== undefined) throw invalidInput('waves', `${missing} is no device of the product`);
      const [campaignId, createdAt] = [createId('', linkIdLength), Date.now()];
      const campaign = { campaignId, productId, version, state: 'running', createdAt } as const;
      if (!(await records.insertCampaign(db, campaign, max.campaignsPerProduct))) {
        if (await records.hasOpenCampaign(db, productId)) throw new RefusedError({ kind: 'campaign_open', productKey });
        if ((await find(version)).storedAt === null) throw refusedFirmware('no_image');
        throw limitReached('campaignsPerProduct', max.campaignsPerProduct);
      }
      const manifest = unwrap(readManifest(row.manifest));
      await objectOf(campaignId).start({ productId, productKey, manifest, createdAtMs: createdAt, order });
      return viewCampaign(campaign);
    },

    async listCampaigns(page: PageRequest) {
      const { total, rows } = await records.listCampaigns(db, productId, page);
      return { list: rows.map(viewCampaign), total, ...page };
    },

    async readCampaign(campaignId: string, page: PageRequest) {
      await requireCampaign(campaignId);
      return unwrap<CampaignView>(await objectOf(campaignId).view(page));
    },

    async changeCampaign(campaignId: string, change: 'pause' | 'resume' | 'stop') {
      await requireCampaign(campaignId);
      unwrap(await objectOf(campaignId).change(change));
      return { campaignId };
    },
  };
}

/** Firmware, keys and campaigns go with their product. */
export async function removeLeftFirmware({ env, primary }: ServiceContext): Promise<void> {
  const db = primary();
  for (const { productId, version } of await records.listLeftFirmware(db, leftPerRun)) {
    await env.FIRMWARE.delete(imageNameOf(productId, version));
    await records.deleteFirmware(db, productId, version);
  }
  await records.deleteLeftRows(db);
}

function viewKey({ keyId, algorithm, createdAt }: Awaited<ReturnType<typeof records.listKeys>>[number]) {
  return { keyId, algorithm, createdAt: toIso(createdAt) };
}

function viewFirmware({ version, manifest, keyId, createdAt, storedAt }: records.FirmwareRow) {
  const times = { createdAt: toIso(createdAt), storedAt: toIso(storedAt) };
  return { version, manifest: unwrap(readManifest(manifest)), keyId, ...times };
}

function viewCampaign({ campaignId, version, state, createdAt }: records.CampaignRow) {
  return { campaignId, version, state, createdAt: toIso(createdAt) };
}
