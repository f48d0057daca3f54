// What the owner of a device sets once in a while: its name and credentials, and whose it is.
import type { Device, DeviceView } from '../state/device.ts';
import { DeviceManagement } from './management.tsx';
import { DeviceOwnership } from './ownership.tsx';

export function DeviceSettings({ view, device }: { view: DeviceView; device: Device }) {
  return (
    <div class="columns even">
      <DeviceManagement view={view} device={device} />
      {/* A registered serial number is passed on once it is a device. */}
      {device.activatedAt !== null && <DeviceOwnership device={device} />}
    </div>
  );
}
