// The name of a device that nobody has named.

const maxNameLength = 100;

export function nameOf(productName: string, deviceSN: string): string {
  return Array.from(`${productName} ${deviceSN}`).slice(0, maxNameLength).join('');
}
