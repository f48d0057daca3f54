// Tokens of guest links, check-in links and images: device, link and a code over both (HMAC-SHA-256), so that a guess is told from an issued
// one without asking the device's object. Whether the link still stands, only the object knows. Nothing of the token is stored.
import { certify, isCodeOf } from './secrets.ts';

/** 80 bits. */
export const linkIdLength = 16;
const tokenPattern = /^([0-9a-hjkmnp-tv-z]{8})([0-9a-hjkmnp-tv-z]{16})([A-Za-z0-9]{26})$/;

/** The link of an image is its campaign. */
export type LinkPurpose = 'guest link' | 'check-in link' | 'image';
type LinkName = { deviceId: string; linkId: string };

export async function createLinkToken(secrets: readonly string[], purpose: LinkPurpose, link: LinkName) {
  return link.deviceId.slice('dev_'.length) + link.linkId + (await certify(secrets, partsOf(purpose, link)));
}

/** Undefined for a guess, and for one whose secret was removed. */
export async function readLinkToken(
  secrets: readonly string[],
  purpose: LinkPurpose,
  token: string,
): Promise<LinkName | undefined> {
  const [, device, linkId, code] = tokenPattern.exec(token) ?? [];
  if (device === undefined || linkId === undefined || code === undefined) return undefined;
  const link = { deviceId: `dev_${device}`, linkId };
  return (await isCodeOf(secrets, partsOf(purpose, link), code)) ? link : undefined;
}

function partsOf(purpose: LinkPurpose, { deviceId, linkId }: LinkName): string[] {
  return [`latchwork ${purpose}`, deviceId, linkId];
}
