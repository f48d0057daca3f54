// Floods over HTTP by somebody with an account: reads without end, and everything that he may make of his own.
import { randomBytes } from 'node:crypto';
import type { Attack, Target } from '../rig/attack.ts';
import { flood, oneAddress } from './http-floods.ts';

const name = (): string => `own-${randomBytes(8).toString('hex')}`;
const post = (path: string, body: object) => ({ path, method: 'POST', body });
/** What an owner can make or change, in turn. */
const writes = ({ own }: Target): { path: string; method: string; body: object }[] => [
  post('/products', { productKey: name(), name: 'Flood' }),
  post('/users/api-keys', { description: 'flood' }),
  post('/devices/claim-tokens', {}),
  { path: `/products/${own.productKey}`, method: 'PUT', body: { offlineGraceSeconds: Date.now() % 60 } },
  post(`/devices/${own.devices[6]?.deviceId ?? ''}/members`, { email: `${name()}@example.test`, role: 'viewer' }),
  post(`/devices/${own.devices[6]?.deviceId ?? ''}/guest-links`, {
    command: { action: 'trigger' },
    expiresAt: new Date(Date.now() + 3_600_000).toISOString(),
  }),
  { path: `/devices/${own.devices[6]?.deviceId ?? ''}`, method: 'PATCH', body: { name: name() } },
];
const serialsAtOnce = 1_000;
/** Generated requests of the same account may disable and delete what it has meanwhile. */
const isAnswer = (status: number): boolean => [200, 400, 403, 404, 429].includes(status);

export const signedInFloods: Attack[] = [
  flood(
    {
      name: 'status-views',
      title: 'a signed-in user reads a status view as fast as it goes',
      holds: 'served or refused with 429',
    },
    ({ own }) => ({
      path: `/api/v1/devices/${own.devices[0]?.deviceId ?? ''}/status`,
      headers: { Authorization: `Bearer ${own.token}` },
      address: oneAddress,
    }),
    (status) => status === 200 || status === 429,
  ),
  flood(
    {
      name: 'deep-pages',
      title: 'a signed-in user searches, and asks for pages far beyond the end',
      holds: 'answered without reading what lies before; a search counts as five requests',
    },
    ({ own }, number) => ({
      path: `/api/v1/devices?${number % 2 === 0 ? 'search=x&' : ''}page=${1 + (number % 100_000)}&size=100`,
      headers: { Authorization: `Bearer ${own.token}` },
      address: oneAddress,
    }),
    (status) => status === 200 || status === 400 || status === 429,
  ),
  flood(
    {
      name: 'owner-writes',
      title: 'products, API keys, claim tokens, invitations, guest links and changes of a signed-in user',
      holds: 'refused beyond the quotas',
    },
    (target, number) => {
      const all = writes(target);
      const { path, method, body } = all[number % all.length]!;
      const headers = { Authorization: `Bearer ${target.own.token}` };
      return { path: `/api/v1${path}`, method, body: JSON.stringify(body), headers, address: oneAddress };
    },
    isAnswer,
  ),
  flood(
    {
      name: 'serial-imports',
      title: 'a signed-in user registers a thousand new serial numbers with each request',
      holds: 'refused beyond what a product may have in an hour',
    },
    ({ own }) => ({
      path: `/api/v1/products/${own.productKey}/serials`,
      method: 'POST',
      body: JSON.stringify({ serials: Array.from({ length: serialsAtOnce }, name) }),
      headers: { Authorization: `Bearer ${own.token}` },
      address: oneAddress,
    }),
    isAnswer,
  ),
];
