// Names of users and devices: when two names of users count as the same (decision: accounts), and how a device is called that
// nobody has named.

export function foldName(name: string): string {
  return name.trim().normalize('NFKC').toLowerCase();
}

const maxDeviceNameLength = 100;

export function nameOf(productName: string, deviceSN: string): string {
  return Array.from(`${productName} ${deviceSN}`).slice(0, maxDeviceNameLength).join('');
}
