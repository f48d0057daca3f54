// The demo's user and product: made at the first start, found again at every other one. Its password is random and
// kept in the state folder.
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ApiError, createClient, dataOf } from '../src/client.ts';
import { writePrivateFile } from './secrets.ts';

export type DemoAccount = { email: string; password: string; productKey: string };

/** Signs in and makes sure that user and product exist. */
export async function openDemoAccount(
  apiUrl: string,
  stateDir: string,
): Promise<{ account: DemoAccount; token: string; isNew: boolean }> {
  const path = join(stateDir, 'demo.json');
  const known = existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as DemoAccount) : undefined;
  const account = known ?? makeAccount('');
  let isNew = await register(apiUrl, account);
  let signedIn = await signIn(apiUrl, account);
  if (signedIn === undefined) {
    // The database knows an earlier demo user whose password is gone with its file.
    Object.assign(account, makeAccount(`-${randomBytes(3).toString('hex')}`));
    isNew = await register(apiUrl, account);
    signedIn = await signIn(apiUrl, account);
  }
  if (signedIn === undefined) throw new Error('the demo user cannot sign in');
  writePrivateFile(path, `${JSON.stringify(account, null, 2)}\n`);
  await makeProduct(apiUrl, signedIn, account.productKey);
  return { account, token: signedIn, isNew };
}

function makeAccount(suffix: string): DemoAccount {
  const password = randomBytes(12).toString('base64url');
  return { email: `demo${suffix}@example.com`, password, productKey: `demo-switch${suffix}` };
}

/** true when the user is new. */
async function register(apiUrl: string, { email, password }: DemoAccount): Promise<boolean> {
  try {
    await dataOf(createClient(apiUrl).users.register.$post({ json: { username: email, email, password } }));
    return true;
  } catch (error) {
    if (error instanceof ApiError && ['email_exists', 'username_exists'].includes(error.reason)) return false;
    throw error;
  }
}

async function signIn(apiUrl: string, { email, password }: DemoAccount): Promise<string | undefined> {
  try {
    const { token } = await dataOf(createClient(apiUrl).users.login.$post({ json: { username: email, password } }));
    return token;
  } catch (error) {
    if (error instanceof ApiError && error.reason === 'invalid_password') return undefined;
    throw error;
  }
}

async function makeProduct(apiUrl: string, token: string, productKey: string): Promise<void> {
  const body = {
    productKey,
    name: 'Demo switch',
    description: 'The virtual switch of the local demo',
    category: 'switch',
    controlMode: 'toggle' as const,
    uiTemplate: 'switch',
    iconName: 'toggle_on',
    iconColor: '#2E7D32',
    manufacturer: 'Latchwork',
    model: 'LW-DEMO',
  };
  try {
    await dataOf(createClient(apiUrl, { credentials: { token } }).products.$post({ json: body }));
  } catch (error) {
    if (!(error instanceof ApiError && error.reason === 'product_key_exists')) throw error;
  }
}
