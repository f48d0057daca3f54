// The one way to make a user, a product and activated devices: over the HTTP interface, as anybody would.
import { randomUUID } from 'node:crypto';
import type { z } from 'zod';
import type { createProductBodySchema } from '../../src/protocol/http-products.ts';
import { ApiError, type Api, type Credentials, type DataOf } from './api.ts';

export type Account = { email: string; password: string };
export type Activation = DataOf<'POST /devices/activate'>;
export type Session = DataOf<'POST /users/login'> & Account & { api: Api; isNew: boolean };

type ProductBody = z.input<typeof createProductBodySchema>;

const activationsAtOnce = 16;

/** Logs in with an account, which is registered where it does not exist yet. `connect` makes the clients. */
export async function signUp(
  connect: (credentials?: Credentials) => Api,
  { email, password }: Account = newAccount(),
): Promise<Session> {
  const api = connect();
  const isNew = await api('POST /users/register', { body: { username: email, password, email } }).then(
    () => true,
    unless('email_exists', 'username_exists'),
  );
  const session = await api('POST /users/login', { body: { username: email, password } });
  return { ...session, email, password, isNew, api: connect({ token: session.token }) };
}

function newAccount(): Account {
  return { email: `${randomUUID()}@example.test`, password: `correct horse ${randomUUID()}` };
}

/** A product key that nobody has. */
export function newProductKey(): string {
  return `switch-${randomUUID()}`;
}

/** A product of the owner, which may exist already where `product` names its key. */
export async function addProduct(owner: Session, product: Partial<ProductBody> = {}): Promise<string> {
  const body = { productKey: newProductKey(), name: 'Servo switch', controlMode: 'toggle' as const, ...product };
  const { productKey } = await owner
    .api('POST /products', { body })
    .catch((error: unknown) => (unless('product_key_exists')(error), body));
  return productKey;
}

export function activate(
  api: Api,
  productKey: string,
  deviceSN: string,
  more: { firmwareVersion?: string; chipModel?: string } = {},
): Promise<Activation> {
  return api('POST /devices/activate', { body: { productKey, deviceSN, ...more } });
}

export async function activateMany(api: Api, productKey: string, serials: string[]): Promise<Activation[]> {
  const activations: Activation[] = [];
  for (let at = 0; at < serials.length; at += activationsAtOnce) {
    const some = serials.slice(at, at + activationsAtOnce);
    activations.push(...(await Promise.all(some.map((serial) => activate(api, productKey, serial)))));
  }
  return activations;
}

/** A handler of rejections that are one of these refusals: false. @throws any other error */
function unless(...reasons: string[]): (error: unknown) => false {
  return (error) => {
    if (error instanceof ApiError && reasons.includes(error.reason)) return false;
    throw error;
  };
}
