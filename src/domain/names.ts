// Names of users and devices: when two names of users count as the same (decision: accounts), how a device is called that nobody
// has named, and what is shown of its serial number.

export function foldName(name: string): string {
  return name.trim().normalize('NFKC').toLowerCase();
}

const maxDeviceNameLength = 100;

/** Without the whole serial number: guests and members see the name. */
export function nameOf(productName: string, deviceSN: string): string {
  return Array.from(`${productName} ${endOf(deviceSN)}`)
    .slice(0, maxDeviceNameLength)
    .join('');
}

export function shortenSerial(deviceSN: string): string {
  return `…${endOf(deviceSN)}`;
}

/** Four characters; of a serial number that has no more, half of them. */
function endOf(deviceSN: string): string {
  return deviceSN.slice(deviceSN.length > 4 ? -4 : Math.ceil(deviceSN.length / 2));
}
