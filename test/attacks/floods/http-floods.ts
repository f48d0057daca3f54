// Floods over HTTP without a sign-in: everything that costs something and that anybody may ask for.
import { randomBytes, randomUUID } from 'node:crypto';
import { Tally, type Attack, type Effort, type Target } from '../rig/attack.ts';
import { besideHeavyWorkMs } from '../rig/judgement.ts';
import { addressOf, endOf, inParallel, nameOfError, send, type HttpRequest } from '../rig/traffic.ts';

type Shot = { path: string } & HttpRequest;

/** One closed-loop flood: no answer may be a 5xx other than those allowed, and none may be a success it must not be. */
export function flood(
  attack: Pick<Attack, 'name' | 'title' | 'holds' | 'isOnce' | 'slowsToMs'>,
  shotOf: (target: Target, number: number) => Shot,
  isAllowed: (status: number, path: string) => boolean,
  noteAnswer: (text: string) => void = () => undefined,
): Attack {
  return {
    ...attack,
    run: async (target, { seconds, clients }: Effort) => {
      const tally = new Tally();
      await inParallel(clients, endOf(seconds), async (number) => {
        const { path, ...request } = shotOf(target, number);
        try {
          const { status, text } = await send(`${target.url}${path}`, request);
          tally.note(status);
          noteAnswer(text);
          if (!isAllowed(status, path))
            tally.problem(`${request.method ?? 'GET'} ${path}: ${status} ${text.slice(0, 200)}`);
        } catch (error) {
          tally.note(nameOfError(error));
          tally.problem(`${path}: ${nameOfError(error)}`);
        }
      });
      return tally.result();
    },
  };
}

export const oneAddress = '192.0.2.66';
const secret = (length: number): string =>
  randomBytes(length).toString('base64url').replaceAll(/[-_]/g, 'x').slice(0, length);
const strangeKey = () => ({ 'X-API-Key': `ak_${secret(20)}`, 'X-API-Secret': `sk_${secret(40)}` });
const isRefusal = (status: number): boolean => status === 401 || status === 429;

export const httpFloods: Attack[] = [
  flood(
    {
      name: 'health',
      title: 'GET /health as fast as it goes',
      holds: 'answered from a cache, refused beyond the limit',
    },
    () => ({ path: '/health', address: oneAddress }),
    (status) => [200, 429, 503].includes(status),
  ),
  flood(
    {
      name: 'unknown-keys',
      title: 'API key pairs that nobody has, from one address',
      holds: 'refused, beyond the limit without a read of the database',
    },
    () => ({ path: '/api/v1/devices', headers: strangeKey(), address: oneAddress }),
    isRefusal,
  ),
  flood(
    {
      name: 'unknown-keys-spread',
      title: 'the same from 131 072 addresses',
      holds: 'refused',
    },
    (_target, number) => ({ path: '/api/v1/devices', headers: strangeKey(), address: addressOf(number) }),
    isRefusal,
  ),
  flood(
    {
      name: 'register',
      title: 'registrations from many addresses, each worth a password hash',
      holds: 'at most a few hashes at once, the others refused with 429',
      isOnce: true,
      slowsToMs: besideHeavyWorkMs,
    },
    (_target, number) => ({
      path: '/api/v1/users/register',
      method: 'POST',
      address: addressOf(number),
      body: JSON.stringify({ email: `${randomUUID()}@example.test`, password: 'correct horse battery' }),
    }),
    (status) => status === 200 || status === 429,
  ),
  flood(
    {
      name: 'login-guesses',
      title: "guesses at the victim's password, each from another address",
      holds: 'none succeeds; the guesses of a day are bounded',
      isOnce: true,
      slowsToMs: besideHeavyWorkMs,
    },
    ({ victim }, number) => ({
      path: '/api/v1/users/login',
      method: 'POST',
      address: addressOf(number),
      body: JSON.stringify({ email: victim.email, password: `guess ${number}` }),
    }),
    isRefusal,
  ),
  flood(
    {
      name: 'activations',
      title: "new serial numbers for the victim's product, from many addresses",
      holds: 'refused beyond the limits of the product; known serials still activate (bystander)',
      slowsToMs: besideHeavyWorkMs,
    },
    ({ victim }, number) => ({
      path: '/api/v1/devices/activate',
      method: 'POST',
      address: addressOf(number % 64),
      body: JSON.stringify({ productKey: victim.productKey, deviceSN: `FLOOD-${number}-${secret(8)}` }),
    }),
    (status) => status === 200 || status === 400 || status === 403 || status === 429,
  ),
  flood(
    {
      name: 'activations-unknown',
      title: 'activations for products that nobody has',
      holds: 'refused',
    },
    (_target, number) => ({
      path: '/api/v1/devices/activate',
      method: 'POST',
      address: addressOf(number),
      body: JSON.stringify({ productKey: `none-${secret(12)}`, deviceSN: 'SN-1' }),
    }),
    (status) => status === 400 || status === 429,
  ),
  flood(
    {
      name: 'guest-links',
      title: 'guesses at addresses of guest links, looked at and used, from many addresses',
      holds: 'none is a page that does something; refused',
    },
    ({ victim }, number) => {
      const code =
        secret(16)
          .toLowerCase()
          .replaceAll(/[ilou]/g, '0') + secret(26);
      const method = number % 2 === 0 ? 'GET' : 'POST';
      return { path: `/g/${victim.deviceId.slice('dev_'.length)}${code}`, method, address: addressOf(number) };
    },
    (status) => status === 404 || status === 429,
  ),
];
