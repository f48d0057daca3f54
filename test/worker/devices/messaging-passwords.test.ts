// Messaging passwords certify themselves: what an issued one looks like, and that guesses reach no device's object, at
// the brokers' hooks and at the relay.
import { env } from 'cloudflare:workers';
import { describe, expect, it } from 'vitest';
import { readConfig } from '../../../src/config.ts';
import { createMessagingPassword, digestIfCertified } from '../../../src/crypto/messaging-password.ts';
import { createId, createSecret } from '../../../src/crypto/secrets.ts';
import { RelayAuthentication } from '../../../src/objects/relay/authentication.ts';
import { hookSecret } from '../rig/clients/hooks.ts';
import { countWoken, sendWith } from '../rig/limited.ts';
import { eventsOf, provisionDevice, replacePassword } from '../rig/provision.ts';

const device = { productKey: 'switch', deviceId: 'dev_01abcdef' };
const [newest, former] = ['n'.repeat(32), 'f'.repeat(32)] as const;
const guess = () => createSecret('tk_', 48);
/** One character differs. */
const alter = (password: string, at: number) =>
  password.slice(0, at) + (password[at] === 'x' ? 'y' : 'x') + password.slice(at + 1);

const isCertified = async (...asked: Parameters<typeof digestIfCertified>) => (await digestIfCertified(...asked)).ok;

describe('a messaging password', () => {
  it('has the form of the contract, and is different each time', async () => {
    const { messagingSecrets } = readConfig(env);
    const issued = await Promise.all([1, 2, 3].map(() => createMessagingPassword(messagingSecrets, device)));
    for (const password of issued) expect(password).toMatch(/^tk_[A-Za-z0-9]{48}$/);
    expect(new Set(issued.map((password) => password.slice(0, 25))).size).toBe(3);
  });

  it('is certified for its device alone, and with no character changed', async () => {
    const secrets = [newest];
    const password = await createMessagingPassword(secrets, device);
    expect(await isCertified(secrets, device, password)).toBe(true);
    for (let at = 0; at < password.length; at++) {
      expect(await isCertified(secrets, device, alter(password, at)), `character ${at}`).toBe(false);
    }
    expect(await isCertified(secrets, { ...device, productKey: 'switc' }, password)).toBe(false);
    expect(await isCertified(secrets, { ...device, deviceId: 'dev_01abcdeg' }, password)).toBe(false);
    expect(await isCertified([former], device, password)).toBe(false);
    for (const text of ['', 'tk_', 'tk_wrong', `${password}0`, password.slice(0, -1), guess()]) {
      expect(await isCertified(secrets, device, text), text).toBe(false);
    }
  });

  it('stays certified while its secret is in the list; the first certifies', async () => {
    const before = await createMessagingPassword([former], device);
    const rotated = [newest, former];
    const after = await createMessagingPassword(rotated, device);
    expect(await isCertified(rotated, device, before)).toBe(true);
    expect(await isCertified(rotated, device, after)).toBe(true);
    expect(await isCertified([newest], device, after)).toBe(true);
    expect(await isCertified([former], device, after)).toBe(false);
  });

  it('needs a secret, which may be one of eight', () => {
    const listOf = (count: number) => ({
      ...env,
      MESSAGING_SECRETS: Array.from({ length: count }, () => newest).join(','),
    });
    expect(readConfig(listOf(8)).messagingSecrets).toHaveLength(8);
    expect(() => readConfig(listOf(9))).toThrow(/MESSAGING_SECRETS at most 8/);
    expect(() => readConfig(listOf(0))).toThrow(/MESSAGING_SECRETS is missing/);
  });
});

/** Two ways in; `woken` tells the number of calls of objects. */
function waysIn() {
  const { changed, woken } = countWoken();
  const relay = new RelayAuthentication({ ...env, ...changed } as unknown as Env, 'relay-of-the-test');
  return {
    woken: () => woken.length,
    hook: async (name: string, password: string) => {
      const body = { clientid: name, username: name, password };
      const response = await sendWith(changed, 'POST', `/hooks/emqx/s/${hookSecret}/connect`, { body });
      const { result, message } = await response.json<{ result: string; message?: string }>();
      return message ?? result;
    },
    otherHook: async (path: string, body: object) => {
      const response = await sendWith(changed, 'POST', `/hooks/${path.replace(':', hookSecret)}`, { body });
      return `${response.status} ${await response.text()}`;
    },
    relay: async (username: string, password: string, address: string) => {
      const outcome = await relay.authenticate({ action: 'auth', username, password }, address);
      return outcome.ok ? 'allow' : outcome.refusal.kind;
    },
  };
}

const unknownName = () => `switch&${createId('dev_', 8)}`;
let addresses = 0;
const newAddress = () => `2001:db8:0:${(++addresses).toString(16)}::1`;

describe('without a right code', () => {
  it('neither a wrong password nor an unknown device wakes an object', async () => {
    const known = await provisionDevice();
    const ways = waysIn();
    for (const name of [known.name, unknownName(), `other&${known.deviceId}`]) {
      for (const password of ['', 'tk_wrong', guess(), alter(known.password, 50)]) {
        expect(await ways.hook(name, password)).toBe('invalid_password');
        expect(await ways.relay(name, password, newAddress())).toBe('credential_refused');
      }
    }
    expect(await ways.hook(unknownName(), known.password)).toBe('invalid_password');
    expect(ways.woken()).toBe(0);
    expect(await ways.hook(known.name, known.password)).toBe('allow');
    expect(await ways.relay(known.name, known.password, newAddress())).toBe('allow');
    expect(ways.woken()).toBe(2);
  });

  it('nor at the hook of RabbitMQ', async () => {
    const allowed = /^200 allow/;
    const known = await provisionDevice();
    const ways = waysIn();
    const logIn = (username: string, password: string) =>
      ways.otherHook('rabbitmq/s/:/user', { client_id: username, username, password });
    for (const name of [known.name, unknownName()]) {
      for (const password of ['tk_wrong', guess(), alter(known.password, 50)]) {
        expect(await logIn(name, password)).not.toMatch(allowed);
      }
    }
    expect(await logIn(unknownName(), known.password)).not.toMatch(allowed);
    expect(ways.woken()).toBe(0);
    expect(await logIn(known.name, known.password)).toMatch(allowed);
    expect(ways.woken()).toBe(1);
  });

  it('an issued password still has to be valid', async () => {
    const known = await provisionDevice();
    const ways = waysIn();
    await replacePassword(known);
    expect(await ways.hook(known.name, known.password)).toBe('invalid_password');
    const issued = await createMessagingPassword(readConfig(env).messagingSecrets, known);
    expect(await ways.hook(known.name, issued)).toBe('invalid_password');
    expect(ways.woken()).toBe(2);
  });
});

it.each([
  ['203.0.113.9', '203.0.113.9'],
  ['::ffff:203.0.113.9', '203.0.113.9'],
  ['2001:db8:0:7::1', '2001:db8:0:7::/64'],
])('a client with the address %s counts as one of %s', async (peer, network) => {
  const known = await provisionDevice();
  const { name: username, password } = known;
  const { otherHook } = waysIn();
  const ofEmqx = { clientid: 'another', username, password, peerhost: peer };
  expect(await otherHook('emqx/s/:/connect', ofEmqx)).toMatch(/invalid_client_id/);
  expect((await eventsOf(known))[0]).toMatchObject({ reason: 'wrong_client_id', count: 1, address: network });
});

it('a password whose secret was removed wakes no object', async () => {
  const removed = await provisionDevice({ password: await createMessagingPassword([former], device) });
  const ways = waysIn();
  expect(await ways.hook(removed.name, removed.password)).toBe('invalid_password');
  expect(await ways.relay(removed.name, removed.password, newAddress())).toBe('credential_refused');
  expect(ways.woken()).toBe(0);
});
