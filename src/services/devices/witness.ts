// The witness of a device: set by somebody who may control the device and read the witness, removed, read; and check-ins by anybody who
// has the address. Two objects at most, no D1.
import { createLinkToken, linkIdLength } from '../../crypto/link-token.ts';
import { createId } from '../../crypto/secrets.ts';
import { actorOf, type Actor } from '../../domain/access.ts';
import { invalidInput, notFound } from '../../domain/refusal.ts';
import type { WitnessSettings } from '../../protocol/http/witness.ts';
import type { ServiceContext } from '../../context.ts';
import type { WitnessView } from '../../objects/device/device-session.ts';
import { askDevice, askDeviceAs, decide, decideAs } from './device-access.ts';
import { requireLink } from './guest-links.ts';

const action = 'manageWitness';

export function witnessOf(context: ServiceContext, caller: Actor, deviceId: string) {
  const actor = actorOf(caller);
  return {
    async read(): Promise<WitnessView> {
      const witness = await askDeviceAs<WitnessView | null>(context, actor, deviceId, {
        action: 'readReports',
        ask: (device) => device.readWitness(actor),
      });
      if (witness === null) throw notFound('witness');
      return witness;
    },

    async set(settings: WitnessSettings) {
      const { by } = settings;
      // Before the other device learns anything.
      await askDevice<null>(context, deviceId, (device) => device.allows(actor, action));
      if ('deviceId' in by && by.deviceId !== undefined) {
        if (by.deviceId === deviceId) throw invalidInput('by.deviceId', 'leave it out for the device itself');
        await decide(context, by.deviceId, { kind: 'watcher_set', actor, deviceId, condition: by });
      }
      const linkId = 'checkIn' in by ? createId('', linkIdLength) : null;
      await decideAs(context, deviceId, action, { kind: 'witness_set', actor, settings, linkId });
      // Not read again: who may set it need not be allowed to read it.
      const set: WitnessView = { ...settings, actual: null };
      if (linkId === null) return set;
      const token = await createLinkToken(context.config.messagingSecrets, 'check-in link', { deviceId, linkId });
      return { ...set, checkInUrl: `${new URL(context.requestUrl).origin}/w/${token}` };
    },

    async remove() {
      await decideAs(context, deviceId, action, { kind: 'witness_set', actor, settings: null, linkId: null });
      return { deviceId };
    },
  };
}

export async function checkIn(context: ServiceContext, token: string): Promise<void> {
  const { deviceId, linkId } = await requireLink(context, 'check-in link', token);
  await decide(context, deviceId, { kind: 'checked_in', linkId });
}
