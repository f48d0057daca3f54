// What addresses are counted by: IPv6 clients have as many addresses as they like.

/** An IPv6 address's /64, which usually belongs to one client; an IPv4 address as it is, also if written as IPv6. */
export function networkOf(address: string): string {
  if (!address.includes(':')) return address;
  const ipv4 = /^[0:]*:ffff:(?:([\d.]+)|([0-9a-f]{1,4}):([0-9a-f]{1,4}))$/i.exec(address);
  if (ipv4 !== null) return ipv4[1] ?? [ipv4[2], ipv4[3]].flatMap(bytesOf).join('.');
  const [head = '', tail = ''] = address.split('::');
  const groups = head.split(':').filter((group) => group !== '');
  const tailGroups = tail.split(':').filter((group) => group !== '');
  const zeros = address.includes('::') ? Math.max(0, 8 - groups.length - tailGroups.length) : 0;
  const all = [...groups, ...Array.from({ length: zeros }, () => '0'), ...tailGroups];
  return `${all.slice(0, 4).join(':')}::/64`;
}

function bytesOf(group = ''): number[] {
  const number = Number.parseInt(group, 16);
  return [number >> 8, number & 255];
}
