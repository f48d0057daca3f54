// A maker's key, images and manifests for the tests of updates.
import { randomBytes } from 'node:crypto';
import { createKeyPair, keyIdOf, signImage, writePem, type ManifestFacts } from '../../client/sign/firmware.ts';

const { privateKey, publicKey } = await createKeyPair();
export const keyId = await keyIdOf(publicKey);
export const publicPem = await writePem(publicKey);

/** The first line of an image says what it does when it boots. */
export async function makeImage(
  version: string,
  more: Partial<ManifestFacts> = {},
  behaviour = 'ok',
  key = privateKey,
) {
  const image = Buffer.concat([Buffer.from(`${behaviour}\n`), randomBytes(20_000)]);
  return { image, signed: await signImage(image, key, { product: 'pk', version, ...more }) };
}
