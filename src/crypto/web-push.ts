// Web Push: encryption of a message for a browser (RFC 8291) and the service's token for its push service (VAPID, RFC 8292).
// Knows no message and sends nothing.
import { createECDH } from 'node:crypto';
import { base64url, SignJWT } from 'jose';

/** `contact` is where push services reach the operator: `mailto:` or `https:`. */
export type VapidKeys = { publicKey: string; privateKey: string; contact: string };

/** Of a browser's subscription, in base64url: its public key and a secret that it shares with the service. */
export type BrowserKeys = { p256dh: string; auth: string };

const curve = { name: 'ECDH', namedCurve: 'P-256' };
/** RFC 8291 4: a message is one record, and push services take 4 096 bytes. */
const recordBytes = 4_096;
/** RFC 8292 2 allows 24 hours. */
const tokenSeconds = 12 * 60 * 60;

const encoder = new TextEncoder();

/** undefined unless it is a private key of P-256, in base64url. */
export function readVapidKeys(privateKey: string, contact: string): VapidKeys | undefined {
  if (!/^[\w-]{43}$/.test(privateKey)) return undefined;
  const ecdh = createECDH('prime256v1');
  try {
    ecdh.setPrivateKey(base64url.decode(privateKey));
    return { publicKey: base64url.encode(ecdh.getPublicKey()), privateKey, contact };
  } catch (error) {
    // Zero, or a number beyond the order of the curve.
    if (error instanceof Error) return undefined;
    throw error;
  }
}

/** The header `Authorization` for the push service of `endpoint`. */
export async function signVapid({ publicKey, privateKey, contact }: VapidKeys, endpoint: string): Promise<string> {
  const point = base64url.decode(publicKey);
  const [x, y] = [base64url.encode(point.subarray(1, 33)), base64url.encode(point.subarray(33))];
  const token = await new SignJWT({ sub: contact, aud: new URL(endpoint).origin })
    .setProtectedHeader({ alg: 'ES256', typ: 'JWT' })
    .setExpirationTime(Math.floor(Date.now() / 1000) + tokenSeconds)
    .sign({ kty: 'EC', crv: 'P-256', x, y, d: privateKey });
  return `vapid t=${token}, k=${publicKey}`;
}

/**
 * The body of a push message, in the content coding aes128gcm (RFC 8188). Each message needs a new `salt` and `sender`.
 * @throws DOMException if the browser's key is no point of the curve
 */
export async function encryptPush(
  text: string,
  { p256dh, auth }: BrowserKeys,
  salt: Uint8Array = crypto.getRandomValues(new Uint8Array(16)),
  sender?: CryptoKeyPair,
): Promise<Uint8Array> {
  const { subtle } = crypto;
  const { privateKey, publicKey } =
    sender ?? ((await subtle.generateKey(curve, true, ['deriveBits'])) as CryptoKeyPair);
  const senderPoint = new Uint8Array((await subtle.exportKey('raw', publicKey)) as ArrayBuffer);
  const browserPoint = base64url.decode(p256dh);
  const browserKey = await subtle.importKey('raw', browserPoint, curve, false, []);
  // The types of workerd call the member `$public`.
  const agreement = { name: 'ECDH', public: browserKey };
  const shared = new Uint8Array(await subtle.deriveBits(agreement, privateKey, 256));
  const info = [...encoder.encode('WebPush: info\0'), ...browserPoint, ...senderPoint];
  const material = await derive(shared, base64url.decode(auth), info, 32);
  const contentKey = await derive(material, salt, encoder.encode('Content-Encoding: aes128gcm\0'), 16);
  const iv = await derive(material, salt, encoder.encode('Content-Encoding: nonce\0'), 12);
  const key = await subtle.importKey('raw', contentKey, 'AES-GCM', false, ['encrypt']);
  // The byte 2 ends the last record; nothing is padded.
  const sealed = await subtle.encrypt({ name: 'AES-GCM', iv }, key, Uint8Array.of(...encoder.encode(text), 2));
  const header = [...salt, 0, 0, recordBytes >> 8, recordBytes & 0xff, senderPoint.length];
  return Uint8Array.of(...header, ...senderPoint, ...new Uint8Array(sealed));
}

/** HKDF-SHA-256. */
async function derive(material: Uint8Array, salt: Uint8Array, info: Iterable<number>, bytes: number) {
  const key = await crypto.subtle.importKey('raw', material, 'HKDF', false, ['deriveBits']);
  const parameters = { name: 'HKDF', hash: 'SHA-256', salt, info: Uint8Array.from(info) };
  return new Uint8Array(await crypto.subtle.deriveBits(parameters, key, bytes * 8));
}
