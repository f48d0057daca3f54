// Tokens of guest links: device, link and a code over both (HMAC-SHA-256), so that a guess is told from an issued one without
// asking the device's object. Whether the link still stands, only the object knows. Nothing of the token is stored.
import { deriveDigits, importMacKeys, isEqualDigest } from './secrets.ts';

/** 80 bits. */
export const linkIdLength = 16;
/** 154 bits. */
const codeLength = 26;
const tokenPattern = /^([0-9a-hjkmnp-tv-z]{8})([0-9a-hjkmnp-tv-z]{16})([A-Za-z0-9]{26})$/;
/** One secret may have several uses, each with its own label. */
const label = 'latchwork guest link';

type GuestLinkName = { deviceId: string; linkId: string };

/** The first secret signs. */
export async function createGuestToken(secrets: readonly string[], link: GuestLinkName): Promise<string> {
  const [current] = await importMacKeys(secrets);
  if (current === undefined) throw new Error('no messaging secret');
  return link.deviceId.slice('dev_'.length) + link.linkId + (await codeOf(current, link));
}

/** Undefined for a guess, and for one whose secret was removed. */
export async function readGuestToken(secrets: readonly string[], token: string): Promise<GuestLinkName | undefined> {
  const [, device, linkId, given] = tokenPattern.exec(token) ?? [];
  if (device === undefined || linkId === undefined || given === undefined) return undefined;
  const link = { deviceId: `dev_${device}`, linkId };
  const codes = await Promise.all((await importMacKeys(secrets)).map((key) => codeOf(key, link)));
  return codes.map((code) => isEqualDigest(code, given)).includes(true) ? link : undefined;
}

function codeOf(key: CryptoKey, { deviceId, linkId }: GuestLinkName): Promise<string> {
  return deriveDigits(key, [label, deviceId, linkId].join('\n'), codeLength);
}
