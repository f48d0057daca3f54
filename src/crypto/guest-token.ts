// Tokens of guest links: device, link and a code over both (HMAC-SHA-256), so that a guess is told from an issued one without
// asking the device's object. Whether the link still stands, only the object knows. Nothing of the token is stored.
import { certify, isCodeOf } from './secrets.ts';

/** 80 bits. */
export const linkIdLength = 16;
const tokenPattern = /^([0-9a-hjkmnp-tv-z]{8})([0-9a-hjkmnp-tv-z]{16})([A-Za-z0-9]{26})$/;

type GuestLinkName = { deviceId: string; linkId: string };

export async function createGuestToken(secrets: readonly string[], link: GuestLinkName): Promise<string> {
  return link.deviceId.slice('dev_'.length) + link.linkId + (await certify(secrets, partsOf(link)));
}

/** Undefined for a guess, and for one whose secret was removed. */
export async function readGuestToken(secrets: readonly string[], token: string): Promise<GuestLinkName | undefined> {
  const [, device, linkId, code] = tokenPattern.exec(token) ?? [];
  if (device === undefined || linkId === undefined || code === undefined) return undefined;
  const link = { deviceId: `dev_${device}`, linkId };
  return (await isCodeOf(secrets, partsOf(link), code)) ? link : undefined;
}

function partsOf({ deviceId, linkId }: GuestLinkName): string[] {
  return ['latchwork guest link', deviceId, linkId];
}
