// The secret of the broker hooks: in the header or in the path, two live at once, and in no log line.
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { env } from 'cloudflare:workers';
import { readConfig } from '../../../src/config.ts';
import { createMessagingPassword } from '../../../src/crypto/messaging-password.ts';
import { uplinkPath } from '../../../src/protocol/bridge.ts';
import { send } from '../rig/clients/client.ts';
import { callHook, hookSecret } from '../rig/clients/hooks.ts';
import { sendWith } from '../rig/limited.ts';

const next = 'the-next-broker-hook-secret-of-these-tests';
const denied = '{"result":"deny","is_superuser":false,"message":"invalid_password"}';
const unauthorized = {
  status: 401,
  type: 'application/json',
  body: '{"code":401,"message":"unauthorized","data":null}',
};

const withPathSecret = (hook: string, secret: string) => hook.replace('/', `/s/${encodeURIComponent(secret)}/`);

it('accepts the old and the next secret while one replaces the other, and then the next alone', async () => {
  const ask = async (live: string, secret: string) => {
    const changed = { ...env, BROKER_HOOK_SECRETS: live };
    const headers = { Authorization: `Bearer ${secret}` };
    const response = await sendWith(changed, 'POST', '/hooks/emqx/connect', { headers, body: {} });
    return { status: response.status, body: await response.text() };
  };
  expect(await ask(`${next},${hookSecret}`, hookSecret)).toEqual({ status: 200, body: denied });
  expect(await ask(`${next},${hookSecret}`, next)).toEqual({ status: 200, body: denied });
  expect((await ask(next, hookSecret)).status).toBe(401);
  expect(await ask(next, next)).toEqual({ status: 200, body: denied });
});

it('lets the header decide where there are two', async () => {
  const hook = withPathSecret('emqx/connect', hookSecret);
  expect(await callHook(hook, '{}', { Authorization: 'Bearer wrong' })).toEqual(unauthorized);
});

it('takes no secret from the path of anything but a hook', async () => {
  const path = '/bridge/s/bridge-secret-of-the-worker-tests-only/uplink';
  expect((await send('POST', path, { body: {} })).status).toBe(401);
});

it("takes the bridge's password at the broker and its secret here for two things", async () => {
  const { bridgeSecrets, bridgeMqttPasswords } = readConfig(env);
  const name = 'latchwork-bridge';
  const logIn = (password = '') =>
    callHook('emqx/connect', JSON.stringify({ clientid: name, username: name, password }), {
      'Content-Type': 'application/json',
      Authorization: `Bearer ${hookSecret}`,
    });
  expect((await logIn(bridgeMqttPasswords[0])).body).toContain('"allow"');
  expect((await logIn(bridgeSecrets[0])).body).toContain('"deny"');
  const post = (secret = '') => send('POST', uplinkPath, { token: secret, body: {} });
  expect((await post(bridgeMqttPasswords[0])).status).toBe(401);
  expect((await post(bridgeSecrets[0])).status).toBe(400);
});

describe('the log', () => {
  const lines: string[] = [];

  beforeEach(() => {
    lines.length = 0;
    for (const level of ['log', 'info', 'warn', 'error', 'debug'] as const) {
      vi.spyOn(console, level).mockImplementation((...parts: unknown[]) => {
        lines.push(parts.map(String).join(' '));
      });
    }
  });
  it('names the route and never the secret, whether it was right, wrong, or beside an unknown route', async () => {
    const wrong = 'a-wrong-but-telling-secret-of-somebody-else';
    for (const secret of [hookSecret, wrong]) {
      await callHook(withPathSecret('emqx/connect', secret), '{}', {});
      await callHook(withPathSecret('rabbitmq/unknown', secret), '{}', {});
      await callHook(withPathSecret('unknown/unknown', secret), '{}', {});
      await callHook(`${withPathSecret('rabbitmq/user', secret)}?username=a&password=${wrong}`, '', {}, 'GET');
      await callHook('emqx/connect', JSON.stringify({ password: wrong }), { Authorization: `Bearer ${secret}` });
    }
    expect(lines.length).toBeGreaterThanOrEqual(10);
    expect(lines.filter((line) => line.includes(hookSecret) || line.includes(wrong))).toEqual([]);
    expect(lines[0]).toContain('/hooks/emqx/s/:secret/connect');
  });

  it('keeps the secret when a hook fails', async () => {
    vi.spyOn(env.DEVICE_SESSION, 'getByName').mockImplementation(() => {
      throw new Error('Durable Object is overloaded');
    });
    const device = { productKey: 'a', deviceId: 'dev_01abcdef' };
    const password = await createMessagingPassword(readConfig(env).messagingSecrets, device);
    const login = { clientid: 'a&dev_01abcdef', username: 'a&dev_01abcdef', password };
    const { status } = await callHook(withPathSecret('emqx/connect', hookSecret), JSON.stringify(login), {});
    expect(status).toBe(500);
    expect(lines.join('\n')).toContain('overloaded');
    expect(lines.filter((line) => line.includes(hookSecret) || line.includes(password))).toEqual([]);
  });
});
