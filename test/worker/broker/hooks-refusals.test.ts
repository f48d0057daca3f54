// What the log says of logins and topics that a broker hook refuses, whatever status its vendor wants for a refusal.
import { afterEach, describe, expect, it, vi } from 'vitest';
import { callHook, hookSecret } from '../rig/clients/hooks.ts';
import { provisionDevice, type TestDevice } from '../rig/provision.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

const vendors = {
  emqx: ({ name, password }: TestDevice, clientId = name) =>
    ask('emqx/s/:/connect', { clientid: clientId, username: name, password }),
  rabbitmq: ({ name, password }: TestDevice, clientId = name) =>
    ask('rabbitmq/s/:/user', { client_id: clientId, username: name, password }),
  'mosquitto-go-auth': ({ name, password }: TestDevice, clientId = name) =>
    ask('mosquitto-go-auth/s/:/user', { clientid: clientId, username: name, password }),
  vernemq: ({ name, password }: TestDevice, clientId = name) =>
    ask('vernemq/s/:/auth_on_register', { client_id: clientId, username: name, password }),
};

/** Calls a hook, and answers the refusals of its log lines and the whole text of these. */
async function ask(path: string, body: object): Promise<{ refusals: unknown[]; text: string }> {
  const lines: string[] = [];
  vi.spyOn(console, 'info').mockImplementation((line: string) => void lines.push(line));
  await callHook(path.replace(':', hookSecret), JSON.stringify(body), { 'Content-Type': 'application/json' });
  const parsed = lines
    .map((line) => JSON.parse(line) as { event: string; requestId: string; refusal?: unknown })
    // The device's own line, which belongs to no request.
    .filter(({ event }) => event !== 'device login refused');
  expect(new Set(parsed.map(({ requestId }) => requestId)).size).toBe(1);
  return { refusals: parsed.map(({ refusal }) => refusal), text: lines.join('\n') };
}

describe.each(Object.entries(vendors))('a login that %s is told to refuse', (_, logIn) => {
  it('leaves its reason in the log, and no password', async () => {
    const device = await provisionDevice();
    const wrong = await logIn({ ...device, password: 'tk_wrongwrong' });
    const { deviceId } = device;
    expect(wrong.refusals).toEqual([
      { kind: 'credential_refused', credential: 'messaging_password', problem: 'wrong', deviceId },
    ]);
    expect(wrong.text).not.toContain('tk_wrong');
    expect(wrong.text).not.toContain(hookSecret);
    expect((await logIn(device, 'another')).refusals).toEqual([{ kind: 'wrong_client_id', deviceId }]);
    expect((await logIn({ ...device, name: 'somebody' })).refusals).toEqual([
      { kind: 'not_found', what: 'device', id: 'somebody' },
    ]);
    expect((await logIn({ ...device, password: undefined as never })).refusals).toEqual([
      expect.objectContaining({ kind: 'invalid_input', path: 'password' }),
    ]);
    expect((await logIn(device)).refusals).toEqual([undefined]);
  });
});

describe('a topic that a broker is told to refuse', () => {
  const username = 'acme&dev_01abcdef';
  const topic = '/sys/acme/dev_99999999/status';

  it.each([
    ['emqx/s/:/authz', { username, action: 'subscribe', topic }],
    [
      'rabbitmq/s/:/topic',
      { username, name: 'amq.topic', permission: 'read', routing_key: topic.replaceAll('/', '.') },
    ],
    ['mosquitto-go-auth/s/:/acl', { username, topic, acc: 4 }],
    ['vernemq/s/:/auth_on_subscribe', { username, topics: [{ topic, qos: 1 }] }],
  ])('is in the log of %s', async (path, body) => {
    expect((await ask(path, body)).refusals).toEqual([{ kind: 'topic_forbidden', action: 'subscribe', topic }]);
  });

  it('is in the log beside the others of one request', async () => {
    const topics = [topic, '/sys/acme/dev_01abcdef/#', '#'].map((filter) => ({ topic: filter, qos: 0 }));
    const { refusals } = await ask('vernemq/s/:/auth_on_subscribe', { username, topics });
    expect(refusals).toEqual([
      { kind: 'topic_forbidden', action: 'subscribe', topic: '#' },
      { kind: 'topic_forbidden', action: 'subscribe', topic },
    ]);
  });
});
