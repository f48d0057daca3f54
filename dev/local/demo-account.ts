// The demo's user and product: made at the first start, found again at every later one. The password is random and kept
// in the state folder.
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { addProduct, signUp, type Account, type Session } from '../../rig/clients/accounts.ts';
import { ApiError, connectApi } from '../../rig/clients/api.ts';
import { writePrivateFile } from './secrets.ts';

export type DemoAccount = Account & { productKey: string };

/** Signs in and makes sure that user and product exist. */
export async function openDemoAccount(apiUrl: string, stateDir: string): Promise<Session & DemoAccount> {
  const path = join(stateDir, 'demo.json');
  const open = (account: Account) => signUp((credentials) => connectApi(apiUrl, credentials), account);
  let account = existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as DemoAccount) : makeAccount('');
  const session = await open(account).catch((error: unknown) => {
    if (!(error instanceof ApiError && error.reason === 'invalid_password')) throw error;
    // The database has an earlier demo user, whose password was lost with its file.
    account = makeAccount(`-${randomBytes(3).toString('hex')}`);
    return open(account);
  });
  writePrivateFile(path, `${JSON.stringify(account, null, 2)}\n`);
  await addProduct(session, {
    productKey: account.productKey,
    name: 'Demo switch',
    description: 'The virtual switch of the local demo',
    category: 'switch',
    uiTemplate: 'switch',
    iconName: 'toggle_on',
    iconColor: '#2E7D32',
    manufacturer: 'Latchwork',
    model: 'LW-DEMO',
  });
  return { ...session, productKey: account.productKey };
}

function makeAccount(suffix: string): DemoAccount {
  const password = randomBytes(12).toString('base64url');
  return { email: `demo${suffix}@example.com`, password, productKey: `demo-switch${suffix}` };
}
