// The one way to make a user, a product and activated devices: over the HTTP interface, as anybody would.
import { randomUUID } from 'node:crypto';
import type { z } from 'zod';
import type { createProductBodySchema } from '../../src/protocol/http/products.ts';
import { ApiError, type Api, type Credentials, type Data, dataOf } from './api.ts';

export type Account = { email: string; password: string };
export type Activation = Data<Api['devices']['activate']['$post']>;
export type Session = Data<Api['users']['login']['$post']> & Account & { api: Api; isNew: boolean };

type ProductBody = z.input<typeof createProductBodySchema>;

const activationsAtOnce = 16;

/** Logs in with an account, which is registered if it does not exist yet. `connect` makes the clients. */
export async function signUp(
  connect: (credentials?: Credentials) => Api,
  { email, password }: Account = newAccount(),
): Promise<Session> {
  const api = connect();
  const isNew = await dataOf(api.users.register.$post({ json: { username: email, password, email } })).then(
    () => true,
    unless('email_exists', 'username_exists'),
  );
  const session = await dataOf(api.users.login.$post({ json: { username: email, password } }));
  return { ...session, email, password, isNew, api: connect({ token: session.token }) };
}

function newAccount(): Account {
  return { email: `${randomUUID()}@example.test`, password: `correct horse ${randomUUID()}` };
}

/** A product key that nobody has. */
export function newProductKey(): string {
  return `switch-${randomUUID()}`;
}

/** A product of the owner, which may exist already if `product` names its key. */
export async function addProduct(owner: Session, product: Partial<ProductBody> = {}): Promise<string> {
  const body = { productKey: newProductKey(), name: 'Servo switch', controlMode: 'toggle' as const, ...product };
  const { productKey } = await dataOf(owner.api.products.$post({ json: body })).catch(
    (error: unknown) => (unless('product_key_exists')(error), body),
  );
  return productKey;
}

export function activate(
  api: Api,
  productKey: string,
  deviceSN: string,
  more: { firmwareVersion?: string; chipModel?: string } = {},
): Promise<Activation> {
  return dataOf(api.devices.activate.$post({ json: { productKey, deviceSN, ...more } }));
}

type Control = Parameters<Api['devices'][':deviceId']['control']['$post']>[0];

/** @returns the receipt */
export function sendCommand(
  api: Api,
  { deviceId }: { deviceId: string },
  json: Control['json'],
  query: Control['query'] = {},
) {
  return dataOf(api.devices[':deviceId'].control.$post({ header: {}, query, param: { deviceId }, json }));
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
