// A maker over the HTTP interface: a key, signed firmware with its image, campaigns. Asserts nothing.
import { createHash, generateKeyPairSync, sign } from 'node:crypto';
import type { Session } from './accounts.ts';
import { type Api, type Data, dataOf } from './api.ts';

type Campaigns = Api['products'][':productKey']['campaigns'];
export type CampaignOrder = Parameters<Campaigns['$post']>[0]['json'];
export type CampaignProgress = Data<Campaigns[':campaignId']['$get']>;
export type Maker = Awaited<ReturnType<typeof makeMaker>>;

const sha256Of = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** With a key of its own at the product. @param url of the service */
export async function makeMaker(url: string, { api, token }: Pick<Session, 'api' | 'token'>, productKey: string) {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const [param, routes] = [{ productKey }, api.products[':productKey']];
  const json = { publicKey: publicKey.export({ type: 'spki', format: 'pem' }) as string };
  await dataOf(routes['firmware-keys'].$post({ param, json }));
  const signText = (text: string): string => sign(null, Buffer.from(text), privateKey).toString('base64');

  return {
    sign: signText,

    async addFirmware(version: string, image: Uint8Array<ArrayBuffer>, more: object = {}): Promise<void> {
      const about = { product: productKey, version, size: image.length, sha256: sha256Of(image), ...more };
      const manifest = JSON.stringify(about);
      await dataOf(routes.firmware.$post({ param, json: { manifest, signature: signText(manifest) } }));
      const address = `${url}/api/v1/products/${productKey}/firmware/${version}/image`;
      const headers = { Authorization: `Bearer ${token}` };
      const answer = await fetch(address, { method: 'PUT', headers, body: image });
      if (!answer.ok) throw new Error(`the image is refused: ${await answer.text()}`);
    },

    async startCampaign(order: CampaignOrder): Promise<string> {
      return (await dataOf(routes.campaigns.$post({ param, json: order }))).campaignId;
    },

    /** Devices too, a hundred a page. */
    readCampaign(campaignId: string, page = 1): Promise<CampaignProgress> {
      const query = { page: String(page), size: '100' };
      return dataOf(routes.campaigns[':campaignId'].$get({ param: { ...param, campaignId }, query }));
    },

    async changeCampaign(campaignId: string, change: 'pause' | 'resume' | 'stop'): Promise<void> {
      await dataOf(routes.campaigns[':campaignId'][':change'].$post({ param: { ...param, campaignId, change } }));
    },
  };
}
