// Status codes of a device (contract 3) and how they read. Disabled is an administrative fact of its own: it covers the
// connection state and never replaces it.
import { deviceStatusTexts } from '../protocol/vocabulary.ts';

export type ConnectionStatusCode = 0 | 1 | 2;
export type DeviceStatusCode = ConnectionStatusCode | 3;

const wordings = { inactive: 'Not activated', online: 'Online', offline: 'Offline', disabled: 'Disabled' } as const;

export function describeStatus(connection: ConnectionStatusCode, isDisabled: boolean) {
  const statusCode: DeviceStatusCode = isDisabled ? 3 : connection;
  const status = deviceStatusTexts[statusCode];
  return { statusCode, status, statusText: wordings[status] };
}
