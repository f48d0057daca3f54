// Who else has to do with a device, by what the user is to it: its owner shares it; a member sees what the role allows and
// may leave.
import { dataOf } from '@latchwork/client';
import type { Signal } from '@preact/signals';
import { AskFirst } from '../parts/dialog.tsx';
import { goTo } from '../router.ts';
import type { Device } from '../state/device.ts';
import { session } from '../state/session.ts';
import { owningTexts } from '../texts/owning.ts';
import { DeviceGuestLinks } from './guest-links.tsx';
import { DeviceMembers } from './members.tsx';

const words = owningTexts.members;

export function DeviceSharing({ device, memberChanges }: { device: Device; memberChanges: Signal<number> }) {
  const { deviceId, role } = device;
  if (role === 'operator' || role === 'viewer') return <Membership deviceId={deviceId} role={role} />;
  // A registered serial number is shared and passed on once it is a device.
  if (role !== 'owner' || device.activatedAt === null) return <p class="hint">{words.notYet}</p>;
  return (
    <div class="columns even">
      <DeviceMembers deviceId={deviceId} changes={memberChanges} />
      <DeviceGuestLinks device={device} />
    </div>
  );
}

function Membership({ deviceId, role }: { deviceId: string; role: 'operator' | 'viewer' }) {
  return (
    <section class="card" aria-label={words.sharedWithYou}>
      <h2>{words.sharedWithYou}</h2>
      <p>{words.mayBe[role]}</p>
      <AskFirst
        label={words.leave}
        kind="danger"
        warning={words.leaveWarning}
        confirm={words.leaveConfirm}
        onConfirm={async () => {
          const { api } = session();
          const { userId } = await dataOf(api.users.me.$get());
          const param = { deviceId, userId: String(userId) };
          await dataOf(api.devices[':deviceId'].members[':userId'].$delete({ param }));
          goTo({ screen: 'devices' });
        }}
      />
    </section>
  );
}
