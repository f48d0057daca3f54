// HiveMQ Cloud's REST API: each request byte by byte, against a stand-in for the API that is written from its
// documentation; and the same end state after a failure at any of the calls.
import { env } from 'cloudflare:workers';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { readConfig } from '../../../src/config.ts';
import { createContext } from '../../../src/context.ts';
import { disconnectClient } from '../../../src/services/broker/provisioner-emqx.ts';
import { createHivemqProvisioner } from '../../../src/services/broker/provisioner-hivemq.ts';
import { deliverOutbox, provisionAtBroker, type BrokerOperation } from '../../../src/services/broker/provisioning.ts';
import { device, emptyOutbox, other, sealedPasswords } from '../rig/outbox.ts';
import { HivemqCloud, hivemqApiUrl, type Failure } from '../rig/hivemq-cloud.ts';

const vars = {
  BROKER_PROVISIONING: 'hivemq',
  BROKER_API_URL: `${hivemqApiUrl}/`,
  BROKER_API_SECRET: 'token-of-the-tests',
};
const withHivemq = { ...env, ...vars } as unknown as Env;
const context = createContext(withHivemq, readConfig(withHivemq));
const name = 'acme&dev_01abcdef';
const isAway = { failure: { kind: 'broker_away' } };
const own = 'acme%26dev_01abcdef';

let cloud: HivemqCloud;

function useCloud(): HivemqCloud {
  cloud = new HivemqCloud();
  vi.spyOn(globalThis, 'fetch').mockImplementation(cloud.fetch);
  return cloud;
}

/** What is asked from now on. */
async function askedDuring(act: () => Promise<void>): Promise<string[]> {
  const before = cloud.exchanges.length;
  await act();
  return cloud.asked().slice(before);
}

const provisioner = () => createHivemqProvisioner(context);
const upsert = (password = 'tk_first', to = device) => provisioner().upsertCredential(to, password);

beforeEach(useCloud);
afterEach(() => {
  vi.restoreAllMocks();
});

const permission = (name: string, topic: string, use: 'publish' | 'subscribe', mayRetain = false) =>
  `POST /mqtt/permissions {"permission":{"name":"dev_01abcdef ${name}","description":"Latchwork device acme&dev_01abcdef",` +
  `"topic":"/sys/acme/dev_01abcdef/${topic}","publishAllowed":${use === 'publish'},"subscribeAllowed":${use === 'subscribe'},` +
  `"qos0Allowed":true,"qos1Allowed":true,"qos2Allowed":true,"retainedMsgsAllowed":${mayRetain}}}`;
const post = permission('publish thing/event/property/post', 'thing/event/property/post', 'publish');
const setReply = permission('publish thing/service/property/set_reply', 'thing/service/property/set_reply', 'publish');
const status = permission('publish status', 'status', 'publish', true);
const listen = permission('subscribe #', '#', 'subscribe');
const makeRole = 'POST /mqtt/roles {"role":{"name":"dev_01abcdef","description":"Latchwork device acme&dev_01abcdef"}}';
const makeCredential = (password: string) =>
  `POST /mqtt/credentials {"credentials":{"username":"acme&dev_01abcdef","password":"${password}"}}`;

describe('a device', () => {
  it('is made known, its rights before its credential', async () => {
    await upsert();
    expect(cloud.asked()).toEqual([
      `GET /mqtt/credentials/username/${own}`,
      makeRole,
      post,
      'PUT /mqtt/roles/1/permissions/2/attach',
      setReply,
      'PUT /mqtt/roles/1/permissions/3/attach',
      status,
      'PUT /mqtt/roles/1/permissions/4/attach',
      listen,
      'PUT /mqtt/roles/1/permissions/5/attach',
      makeCredential('tk_first'),
      `PUT /user/${own}/roles/1/attach`,
    ]);
    for (const { headers } of cloud.exchanges) {
      expect(headers.get('Authorization')).toBe('Bearer token-of-the-tests');
      expect(headers.get('Content-Type')).toBe('application/json');
    }
  });

  it('that is known gets its new password in the place of the old one, and keeps its role', async () => {
    await upsert();
    expect(await askedDuring(() => upsert('tk_next'))).toEqual([
      `GET /mqtt/credentials/username/${own}`,
      'GET /mqtt/roles/1/permissions?limit=2500',
      `DELETE /mqtt/credentials/username/${own}`,
      makeCredential('tk_next'),
      `PUT /user/${own}/roles/1/attach`,
    ]);
    expect(cloud.contents().credentials).toEqual([{ username: name, password: 'tk_next', roles: ['dev_01abcdef'] }]);
  });

  it('that was left half-way gets what is missing, and nothing twice', async () => {
    // The role and two permissions are made; the second of them is not attached.
    cloud.failure = { atCall: 6, how: 'refused' };
    await expect(upsert()).rejects.toMatchObject(isAway);
    cloud.failure = undefined;
    expect(await askedDuring(upsert)).toEqual([
      `GET /mqtt/credentials/username/${own}`,
      makeRole,
      'GET /mqtt/roles?limit=2500',
      'GET /mqtt/roles/1/permissions?limit=2500',
      'GET /mqtt/permissions?limit=2500',
      'PUT /mqtt/roles/1/permissions/3/attach',
      status,
      'PUT /mqtt/roles/1/permissions/4/attach',
      listen,
      'PUT /mqtt/roles/1/permissions/5/attach',
      makeCredential('tk_first'),
      `PUT /user/${own}/roles/1/attach`,
    ]);
  });

  it('is disabled by detaching its role and ending its session, and enabled by attaching the role', async () => {
    await upsert();
    cloud.connect(name);
    const disabling = await askedDuring(() => provisioner().disable(device));
    expect(disabling).toEqual([
      `GET /mqtt/credentials/username/${own}`,
      `PUT /user/${own}/roles/1/detach`,
      `DELETE /mqtt/clients/${own}`,
    ]);
    expect(cloud.contents()).toMatchObject({ credentials: [{ username: name, roles: [] }], clients: [] });
    expect(await askedDuring(() => provisioner().enable(device))).toEqual([
      `GET /mqtt/credentials/username/${own}`,
      makeRole,
      'GET /mqtt/roles?limit=2500',
      'GET /mqtt/roles/1/permissions?limit=2500',
      `PUT /user/${own}/roles/1/attach`,
    ]);
    expect(await askedDuring(() => provisioner().enable(device)), 'again').toHaveLength(1);
  });

  it('is deleted with its credential, session, permissions and role, and no other device is', async () => {
    await upsert('tk_other', other);
    const before = cloud.contents();
    await upsert();
    cloud.connect(name);
    expect(await askedDuring(() => provisioner().delete(device))).toEqual([
      `DELETE /mqtt/credentials/username/${own}`,
      `DELETE /mqtt/clients/${own}`,
      'GET /mqtt/roles?limit=2500',
      'GET /mqtt/permissions?limit=2500',
      'PUT /mqtt/roles/6/permissions/7/detach',
      'DELETE /mqtt/permissions/7',
      'PUT /mqtt/roles/6/permissions/8/detach',
      'DELETE /mqtt/permissions/8',
      'PUT /mqtt/roles/6/permissions/9/detach',
      'DELETE /mqtt/permissions/9',
      'PUT /mqtt/roles/6/permissions/10/detach',
      'DELETE /mqtt/permissions/10',
      'DELETE /mqtt/roles/6',
    ]);
    expect(cloud.contents()).toEqual(before);
    expect(await askedDuring(() => provisioner().delete(device)), 'again').toHaveLength(3);
  });

  it('is disconnected, connected or not', async () => {
    cloud.connect(name);
    for (const isConnected of [true, false]) {
      const asked = await askedDuring(() => provisioner().endSessions(device));
      expect(asked, String(isConnected)).toEqual([`DELETE /mqtt/clients/${own}/connection`]);
      expect(cloud.contents().clients).toEqual([{ id: name, isConnected: false }]);
    }
  });

  it('that is unknown can be disabled, enabled and disconnected', async () => {
    await provisioner().disable(device);
    await provisioner().enable(device);
    await provisioner().endSessions(device);
    expect(cloud.contents()).toEqual(new HivemqCloud().contents());
  });
});

describe('an operation that failed at any of its calls', () => {
  const known = async () => {
    await upsert('tk_before');
    cloud.connect(name);
  };
  const disabled = async () => {
    await known();
    await provisioner().disable(device);
  };
  const nothing = () => Promise.resolve();

  it.each([
    ['creates a credential', nothing, () => upsert()],
    ['changes a password', known, () => upsert()],
    ['disables', known, () => provisioner().disable(device)],
    ['enables', disabled, () => provisioner().enable(device)],
    ['deletes', known, () => provisioner().delete(device)],
    ['disconnects', known, () => provisioner().endSessions(device)],
  ])('%s when it is repeated', async (_, prepare, act) => {
    await prepare();
    const calls = (await askedDuring(act)).length;
    const expected = cloud.contents();
    for (let call = 1; call <= calls; call++) {
      for (const how of ['refused', 'unanswered'] as const satisfies Failure['how'][]) {
        useCloud();
        await prepare();
        cloud.failure = { atCall: cloud.exchanges.length + call, how };
        await expect(act(), `${how} at call ${call}`).rejects.toMatchObject(isAway);
        cloud.failure = undefined;
        await act();
        expect(cloud.contents(), `${how} at call ${call}`).toEqual(expected);
      }
    }
  });

  it('leaves nothing behind when the device is deleted instead', async () => {
    await upsert();
    const calls = cloud.exchanges.length;
    for (let call = 1; call <= calls; call++) {
      useCloud();
      cloud.failure = { atCall: call, how: 'unanswered' };
      await expect(upsert()).rejects.toMatchObject(isAway);
      cloud.failure = undefined;
      await provisioner().delete(device);
      expect(cloud.contents(), `at call ${call}`).toEqual(new HivemqCloud().contents());
    }
  });
});

describe('a list of several pages', () => {
  const everyRole = (size: number) => {
    cloud.pageSize = size;
    for (let count = 0; count < 5; count++) cloud.addRole(`someone ${count}`);
  };

  it.each([
    ['relative to the host', (path: string) => `/api/v2/orgs/abc123/clusters/0b1c2d3e${path}`],
    ['relative to the cluster', (path: string) => path],
    ['whole', (path: string) => `${hivemqApiUrl}${path}`],
    ['of another host', (path: string) => `https://elsewhere.test${path}`],
  ])('is read to its end where the next address is %s, and no other host hears the token', async (_, nextLinkOf) => {
    everyRole(2);
    cloud.nextLinkOf = nextLinkOf;
    cloud.addRole('dev_01abcdef');
    const asked = await askedDuring(upsert);
    expect(asked.slice(0, 7)).toEqual([
      `GET /mqtt/credentials/username/${own}`,
      makeRole,
      'GET /mqtt/roles?limit=2500',
      'GET /mqtt/roles?cursor=2&limit=50',
      'GET /mqtt/roles?cursor=4&limit=50',
      'GET /mqtt/roles/6/permissions?limit=2500',
      'GET /mqtt/permissions?limit=2500',
    ]);
    expect(cloud.exchanges.every(({ url }) => url.startsWith(hivemqApiUrl))).toBe(true);
    expect(cloud.contents().credentials).toEqual([{ username: name, password: 'tk_first', roles: ['dev_01abcdef'] }]);
  });

  it('of permissions is read to its end too, of a role and of all', async () => {
    cloud.pageSize = 1;
    await upsert('tk_other', other);
    await upsert();
    const asked = await askedDuring(() => upsert('tk_next'));
    expect(asked.filter((call) => call.startsWith('GET /mqtt/roles/6/permissions'))).toHaveLength(4);
    expect(asked.filter((call) => call.startsWith('POST /mqtt/permissions'))).toEqual([]);
    await provisioner().delete(device);
    expect(cloud.contents().permissions.map((each) => String(each['name']).split(' ')[0])).toEqual(
      Array(4).fill('dev_01abcdeg'),
    );
  });
});

describe('an answer', () => {
  const instead = (call: string, body: string, answered = 200) => {
    cloud.override = (method, path) =>
      `${method} ${path}` === call ? new Response(body, { status: answered }) : undefined;
  };

  it.each([
    ['a role without an id', 'POST /mqtt/roles', '{"roleInfo":{"name":"dev_01abcdef"}}'],
    ['a permission without an id', 'POST /mqtt/permissions', '{"id":"2","name":"dev_01abcdef publish status"}'],
    ['no credential where one was found', `GET /mqtt/credentials/username/${own}`, '{"credentials":[]}'],
    ['a page instead of an answer', 'POST /mqtt/roles', '<html>welcome</html>'],
    ['nothing', 'POST /mqtt/roles', ''],
  ])('with %s stops the operation and not the ones of other devices', async (_, call, body) => {
    instead(call, body);
    const failed = upsert();
    await expect(failed).rejects.toMatchObject({ failure: { kind: 'unreadable_answer', call: `HiveMQ ${call}` } });
    expect(cloud.contents().credentials).toEqual([]);
  });

  it('with a role that exists and is not listed stops the operation', async () => {
    instead('POST /mqtt/roles', '{"errors":[{"title":"Conflict","detail":"exists"}]}', 409);
    await expect(upsert()).rejects.toMatchObject({
      failure: { kind: 'unreadable_answer', call: 'HiveMQ GET /mqtt/roles' },
    });
    expect(cloud.contents()).toEqual(new HivemqCloud().contents());
  });

  it('that a role is attached already is as good as having attached it', async () => {
    instead(`PUT /user/${own}/roles/1/attach`, '{"errors":[{"title":"Conflict","detail":"attached"}]}', 409);
    await upsert();
  });
});

describe('through the outbox', () => {
  let lastRequestAtMs = 0;
  const provision = (operation: BrokerOperation, to = device) =>
    provisionAtBroker(context, to, operation, ++lastRequestAtMs);
  /** What a delivery asks after the longest wait. */
  const askedLater = () => {
    vi.setSystemTime(Date.now() + 11 * 60_000);
    return askedDuring(() => deliverOutbox(context));
  };

  beforeEach(async () => {
    await emptyOutbox();
    vi.useFakeTimers({ toFake: ['Date'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('changes a password, then disconnects who holds the old one', async () => {
    await provision({ kind: 'upsert', password: 'tk_first' });
    cloud.connect(name);
    const asked = await askedDuring(() => provision({ kind: 'upsert', password: 'tk_next', endsSessions: true }));
    expect(asked.slice(-3)).toEqual([
      makeCredential('tk_next'),
      `PUT /user/${own}/roles/1/attach`,
      `DELETE /mqtt/clients/${own}/connection`,
    ]);
    expect(await sealedPasswords()).toEqual([null]);
    expect(await askedLater(), 'it is delivered').toEqual([]);
  });

  it.each([500, 503, 401, 403, 429])('keeps every entry while the API answers %d', async (answered) => {
    cloud.override = () => new Response('{"errors":[]}', { status: answered });
    await provision({ kind: 'upsert', password: 'tk_first' });
    await provision({ kind: 'disable' }, other);
    expect(await askedLater(), 'it is away for all of them').toHaveLength(1);
    cloud.override = undefined;
    const asked = (await askedLater()).join();
    expect(asked).toContain('acme&dev_01abcdef');
    expect(asked).toContain('acme%26dev_01abcdeg');
    expect(await sealedPasswords()).toEqual([null, null]);
    expect(await askedLater(), 'both are delivered').toEqual([]);
    expect(cloud.contents().credentials).toEqual([{ username: name, password: 'tk_first', roles: ['dev_01abcdef'] }]);
  });

  it('logs neither password nor token nor what the API says', async () => {
    const lines: string[] = [];
    for (const level of ['info', 'warn', 'error'] as const) {
      vi.spyOn(console, level).mockImplementation((line) => lines.push(String(line)));
    }
    cloud.override = (method, path) =>
      `${method} ${path}` === 'POST /mqtt/credentials'
        ? new Response('{"errors":[{"title":"Bad","detail":"tk_of-the-device said"}]}', { status: 422 })
        : undefined;
    await provision({ kind: 'upsert', password: 'tk_of-the-device' });
    expect(lines.join()).toContain('"call":"HiveMQ POST /mqtt/credentials","status":422');
    expect(lines.join()).not.toMatch(/tk_of|token-of-the-tests/);
  });

  it("is the only way to end a session: EMQX's call is not tried", async () => {
    const config = readConfig({ ...withHivemq, BROKER_API_KEY: 'left from before' } as unknown as Env);
    await disconnectClient(createContext(withHivemq, config), device);
    expect(cloud.asked()).toEqual([]);
  });
});

describe('the configuration', () => {
  it.each([
    ['no token', { BROKER_API_SECRET: '' }],
    ['no address', { BROKER_API_URL: '' }],
    ['an address that ends before the cluster', { BROKER_API_URL: 'https://api.a01.euc1.aws.hivemq.test' }],
    ['an address without TLS', { BROKER_API_URL: hivemqApiUrl.replace('https', 'http') }],
  ])('is refused with %s', (_, change) => {
    expect(() => readConfig({ ...withHivemq, ...change } as unknown as Env)).toThrow(
      'BROKER_PROVISIONING hivemq needs BROKER_API_URL (https://.../orgs/{orgId}/clusters/{clusterId}) and BROKER_API_SECRET',
    );
  });
});
