// What addresses are counted by: IPv6 clients have as many addresses as they like.

/** An IPv6 address's /64, which usually belongs to one client; anything else as it is. */
export function networkOf(address: string): string {
  if (!address.includes(':')) return address;
  const [head = '', tail = ''] = address.split('::');
  const groups = head.split(':').filter((group) => group !== '');
  const tailGroups = tail.split(':').filter((group) => group !== '');
  const zeros = address.includes('::') ? Math.max(0, 8 - groups.length - tailGroups.length) : 0;
  const all = [...groups, ...Array.from({ length: zeros }, () => '0'), ...tailGroups];
  return `${all.slice(0, 4).join(':')}::/64`;
}
