// Status codes of a device (interface 3) and how they read. Disabled is an administrative fact of its own: it
// covers the connection state and never replaces it.

const textByCode = { 0: 'inactive', 1: 'online', 2: 'offline', 3: 'disabled' } as const;
const wordingByText = {
  inactive: 'Not activated',
  online: 'Online',
  offline: 'Offline',
  disabled: 'Disabled',
} as const;

export type DeviceStatusCode = keyof typeof textByCode;
export type DeviceStatusText = (typeof textByCode)[DeviceStatusCode];
export type ConnectionStatusCode = 0 | 1 | 2;

export const deviceStatusTexts = Object.values(textByCode) as [DeviceStatusText, ...DeviceStatusText[]];

export type DeviceStatus = { statusCode: DeviceStatusCode; status: DeviceStatusText; statusText: string };

export function describeStatus(connection: ConnectionStatusCode, isDisabled: boolean): DeviceStatus {
  const statusCode = isDisabled ? 3 : connection;
  const status = textByCode[statusCode];
  return { statusCode, status, statusText: wordingByText[status] };
}

/** Reads the list filter: the integer or the text (decisions, Devices); undefined for anything else. */
export function parseStatusFilter(text: string): DeviceStatusCode | undefined {
  const code = Object.entries(textByCode).find(([key, value]) => key === text || value === text)?.[0];
  return code === undefined ? undefined : (Number(code) as DeviceStatusCode);
}
