// The firmware of one device: how far its update is, putting it off, and its image for whoever has the address. The device decides
// whether its update is open, the campaign in D1 whether it may go on.
import { readLinkToken } from '../../crypto/link-token.ts';
import { findImage } from '../../db/products/firmware.ts';
import { actorOf, type Actor } from '../../domain/access.ts';
import { readRange } from '../../domain/firmware/images.ts';
import { notFound, RefusedError, unwrap } from '../../domain/refusal.ts';
import { holdToShield } from '../../pacing/rate-limits.ts';
import type { DeviceFirmware } from '../../protocol/http/firmware.ts';
import type { ServiceContext } from '../../context.ts';
import { askDeviceAs, decide, decideAs } from './device-access.ts';

export function readFirmware(context: ServiceContext, caller: Actor, deviceId: string): Promise<DeviceFirmware> {
  const actor = actorOf(caller);
  return askDeviceAs<DeviceFirmware>(context, actor, deviceId, {
    action: 'readReports',
    ask: (device) => device.firmware(actor),
    ifInactive: () => ({ installed: null, update: null }),
  });
}

export async function postponeUpdate(context: ServiceContext, caller: Actor, deviceId: string) {
  const event = { kind: 'update_postponed', actor: actorOf(caller) } as const;
  await decideAs(context, deviceId, 'postponeUpdate', event);
  return { deviceId };
}

export async function readSignedManifest(context: ServiceContext, token: string): Promise<string> {
  const { image, allow } = await findImageOf(context, token);
  await allow(null);
  return image.signedManifest;
}

/**
 * `part`: why there is none, of a request for a part: it is outside, or of another image.
 * @param headers of the request: `range` undefined for the whole image
 */
export async function openImage(
  context: ServiceContext,
  token: string,
  { range, ifRange }: { range: string | undefined; ifRange: string | undefined },
) {
  const { image, allow } = await findImageOf(context, token);
  const { size, sha256, name } = image;
  const about = { size, etag: `"${sha256}"` };
  if (range !== undefined && (ifRange ?? about.etag) !== about.etag) return { ...about, part: 'other_image' } as const;
  const wanted = range === undefined ? { offset: 0, length: size } : readRange(range, size);
  if (wanted === undefined) return { ...about, part: 'outside' } as const;
  await allow(wanted.offset + wanted.length);
  const stored = await context.env.FIRMWARE.get(name, { range: wanted });
  if (stored === null) throw new RefusedError({ kind: 'update_ended' });
  return { ...about, part: { ...wanted, body: stored.body } };
}

async function findImageOf(context: ServiceContext, token: string) {
  await holdToShield(context, 'IMAGE_LIMIT', context.clientAddress);
  const link = await readLinkToken(context.config.messagingSecrets, 'image', token);
  if (link === undefined) throw notFound('update');
  const { deviceId, linkId: campaignId } = link;
  const image = unwrap(await findImage(context.primary(), campaignId));
  const allow = (endsAt: number | null) => decide(context, deviceId, { kind: 'image_asked', campaignId, endsAt });
  return { image, allow };
}
