// Which addresses a webhook may have. It reads the address alone: if a name resolves to a private address, the platform's
// public network refuses the connection (compatibility flag `global_fetch_strictly_public`).

const ports = ['', '8443'];
/** RFC 6761, 6762, 8375 and ICANN's reserved `internal`: names that never belong to the public network. */
const privateNames = /(?:^|\.)(?:localhost|local|internal|lan|home\.arpa|localdomain|test|invalid|onion)$/;

/** @param mayBeLocal any HTTP address, for tests and `npm start` */
export function findAddressProblem(text: string, mayBeLocal: boolean): string | undefined {
  const url = URL.parse(text);
  if (url === null || !['https:', 'http:'].includes(url.protocol)) return 'must be an https:// address';
  if (url.username !== '' || url.password !== '') return 'must not contain a user name or password';
  if (url.hash !== '') return 'must not contain a fragment';
  if (mayBeLocal) return undefined;
  if (url.protocol !== 'https:') return 'must be an https:// address';
  if (!ports.includes(url.port)) return 'must use port 443 or 8443';
  // The parser has turned every spelling of an IPv4 address into four decimal numbers.
  const name = url.hostname.replace(/\.$/, '');
  if (name.startsWith('[') || /^[\d.]+$/.test(name)) return 'must have a host name, not a number';
  if (!name.includes('.') || privateNames.test(name)) return 'must have a public host name';
  return undefined;
}
