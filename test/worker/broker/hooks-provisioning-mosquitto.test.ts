// Credentials pushed to mosquitto through a bridge: recorded with the change, delivered at once or when the broker is back,
// in order, once; never readable in the database.
import { createExecutionContext, waitOnExecutionContext } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createApp } from '../../../src/app.ts';
import { readConfig } from '../../../src/config.ts';
import { deleteExpiredRows } from '../../../src/db/expired-rows.ts';
import { linkPath, linkPing, linkPong } from '../../../src/protocol/bridge.ts';
import { deliverOutbox, provisionAtBroker, type BrokerOperation } from '../../../src/services/broker/provisioning.ts';
import { createUser, type TestUser } from '../rig/clients/client.ts';
import {
  contextOf,
  deliverWaiting,
  device,
  makeDue,
  untilDelivered,
  emptyOutbox,
  other,
  provision,
  sealedPasswords,
} from '../rig/outbox.ts';
import { openSocket, type TestSocket } from '../rig/clients/socket.ts';
import { helloOf } from '../rig/clients/link.ts';

const bridgeSecret = 'bridge-secret-of-the-worker-tests-only';
const withMosquitto = { ...env, BROKER_PROVISIONING: 'mosquitto' } as unknown as Env;

beforeEach(emptyOutbox);

let bridge: TestSocket | undefined;
type Command = { command: string } & Record<string, unknown>;

async function dialIn(): Promise<TestSocket> {
  bridge = await openSocket(linkPath, { Authorization: `Bearer ${bridgeSecret}` });
  await bridge.ask(helloOf('one'));
  return bridge;
}

/**
 * The next list of commands, without what their replies are recognised by; answered as mosquitto would, with `errors` by
 * command, or with another outcome.
 */
async function takeCommands(from: TestSocket, outcome?: object, errors?: Record<string, string>) {
  return answerCommands(from, await from.next(), outcome, errors);
}

function answerCommands(to: TestSocket, frame: unknown, outcome?: object, errors: Record<string, string> = {}) {
  const { id, topic, payload, reply } = frame as Record<'id' | 'topic' | 'payload', string> & {
    reply: Record<string, string>;
  };
  expect(topic).toBe('$CONTROL/dynamic-security/v1');
  expect(reply['topic']).toBe('$CONTROL/dynamic-security/v1/response');
  const { commands } = JSON.parse(payload) as { commands: Command[] };
  const responses = commands.map(({ command, correlationData }) => {
    const error = errors[command];
    return { command, ...(error !== undefined && { error }), correlationData };
  });
  const published = { type: 'published', hasSubscribers: null, reply: JSON.stringify({ responses }) };
  to.send({ ...(outcome ?? published), id });
  return commands.map(({ correlationData, ...command }) => {
    expect(correlationData).toBe(reply['containing']);
    return command;
  });
}

/** An operation that the broker refuses this time. */
async function provisionRefused(from: TestSocket, operation: BrokerOperation, to = device): Promise<void> {
  const refused = takeCommands(from, { type: 'not-published', reason: 'refused' });
  await provision(withMosquitto, operation, to);
  await refused;
}

afterEach(async () => {
  bridge?.close();
  await bridge?.end();
  bridge = undefined;
});

const upsertOf = (password: string, { productKey, deviceId } = device) => {
  const name = `${productKey}&${deviceId}`;
  const own = `/sys/${productKey}/${deviceId}`;
  const send = (action: string) => ({ acltype: 'publishClientSend', topic: `${own}/${action}`, allow: true });
  return [
    {
      command: 'createRole',
      rolename: `device ${name}`,
      acls: [
        send('thing/event/property/post'),
        send('thing/service/property/set_reply'),
        send('status'),
        { acltype: 'subscribePattern', topic: `${own}/#`, allow: true },
      ],
    },
    { command: 'createClient', username: name, clientid: name, password, roles: [{ rolename: `device ${name}` }] },
    { command: 'setClientPassword', username: name, password },
    { command: 'enableClient', username: name },
  ];
};
const named = { username: 'acme&dev_01abcdef' };

describe('over the interface', () => {
  let user: TestUser;

  async function call(method: string, path: string, body?: object) {
    const context = createExecutionContext();
    const headers = { Authorization: `Bearer ${user.token}` };
    const request = new Request(`https://latchwork.test/api/v1${path}`, {
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const response = await createApp().fetch(request, withMosquitto, context);
    const answer = await response.json<{ code: number; data: { deviceId: string; mqtt: { password: string } } }>();
    await waitOnExecutionContext(context);
    expect(answer.code).toBe(200);
    return answer.data;
  }

  beforeEach(async () => {
    user = await createUser();
  });

  it('tells the broker of an activation before it is answered, and of a deletion', async () => {
    await call('POST', '/products', { productKey: `p-${user.userId}`, name: 'Switch' });
    const connected = await dialIn();
    const commands = takeCommands(connected);
    const activated = call('POST', '/devices/activate', { productKey: `p-${user.userId}`, deviceSN: '1' });
    const identity = async () => ({ productKey: `p-${user.userId}`, deviceId: (await activated).deviceId });
    expect(await commands).toEqual(upsertOf((await activated).mqtt.password, await identity()));
    expect(await sealedPasswords()).toEqual([null]);

    const removal = takeCommands(connected);
    await call('DELETE', `/devices/${(await activated).deviceId}`);
    const name = `p-${user.userId}&${(await activated).deviceId}`;
    expect(await removal).toEqual([
      { command: 'deleteClient', username: name },
      { command: 'deleteRole', rolename: `device ${name}` },
    ]);
  });

  it('answers an activation although the broker is away, and keeps its password sealed until it is back', async () => {
    await call('POST', '/products', { productKey: `q-${user.userId}`, name: 'Switch' });
    const { deviceId, mqtt } = await call('POST', '/devices/activate', {
      productKey: `q-${user.userId}`,
      deviceSN: '1',
    });
    type Row = { sealed_password: string; delivered_at: null; next_attempt_at: number };
    // No answer shows what is stored, nor that the first attempt is over.
    const findFailed = () => env.DB.prepare('SELECT * FROM broker_outbox WHERE attempts = 1').first<Row>();
    const row = await vi.waitUntil(findFailed, { timeout: 10_000, interval: 50 });
    expect(row).toMatchObject({ delivered_at: null });
    expect(row.next_attempt_at).toBeGreaterThan(Date.now());
    expect(row.sealed_password).toMatch(/^[A-Za-z0-9+/=]{80,}$/);
    expect(JSON.stringify(row)).not.toContain(mqtt.password.slice(3, 20));

    const connected = await dialIn();
    const commands = takeCommands(connected);
    await deliverWaiting(withMosquitto);
    expect(await commands).toEqual(upsertOf(mqtt.password, { productKey: `q-${user.userId}`, deviceId }));
    expect(await sealedPasswords()).toEqual([null]);
    await deliverWaiting(withMosquitto);
    expect(await connected.ask(linkPing), 'it is delivered once').toBe(linkPong);
  });
});

it('disables, enables, and ends sessions', async () => {
  const connected = await dialIn();
  const take = async (operation: BrokerOperation, lists = 1) => {
    const taken = (async () => {
      const commands = [];
      while (commands.length < lists) commands.push(await takeCommands(connected));
      return commands;
    })();
    await provision(withMosquitto, operation);
    return taken;
  };
  const [disable, enable] = [
    { command: 'disableClient', ...named },
    { command: 'enableClient', ...named },
  ];
  expect(await take({ kind: 'disable' })).toEqual([[disable]]);
  expect(await take({ kind: 'upsert' })).toEqual([[enable]]);
  const rotated = await take({ kind: 'upsert', password: 'tk_new', endsSessions: true }, 2);
  expect(rotated).toEqual([upsertOf('tk_new'), [disable, enable]]);
});

// Read in github.com/eclipse/mosquitto, v2.0.11 and v2.0.20: src/control.c (PUBACK 0 after the commands, whatever became of
// them, and without the plugin), plugins/dynamic-security/plugin.c (the reply), clients.c and roles.c (its errors).
describe('what mosquitto replies', () => {
  type Case = [BrokerOperation, Record<string, string>];

  it.each<Case>([
    [
      { kind: 'upsert', password: 'tk_x' },
      { createRole: 'Role already exists', createClient: 'Client already exists' },
    ],
    [{ kind: 'disable' }, { disableClient: 'Client not found' }],
    [{ kind: 'delete' }, { deleteClient: 'Client not found', deleteRole: 'Role not found' }],
  ])('counts as success where nothing was to do: %j', async (operation, errors) => {
    const connected = await dialIn();
    const taken = takeCommands(connected, undefined, errors);
    await provision(withMosquitto, operation);
    await taken;
    await deliverWaiting(withMosquitto);
    expect(await connected.ask(linkPing), 'nothing is sent again').toBe(linkPong);
  });

  it.each<Case>([
    [{ kind: 'upsert', password: 'tk_x' }, { createClient: 'Role not found' }],
    [{ kind: 'upsert', password: 'tk_x' }, { setClientPassword: 'Internal error' }],
    [{ kind: 'upsert' }, { enableClient: 'Client not found' }],
    [{ kind: 'delete' }, { deleteRole: 'Internal error' }],
  ])('counts as a failure, which is logged and tried again: %j %j', async (operation, errors) => {
    const connected = await dialIn();
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => undefined);
    const taken = takeCommands(connected, undefined, errors);
    await provision(withMosquitto, operation);
    const commands = await taken;
    expect(String(warn.mock.calls.at(-1)?.[0])).toContain(Object.values(errors)[0]);
    warn.mockRestore();
    const again = takeCommands(connected);
    await deliverWaiting(withMosquitto);
    expect(await again).toEqual(commands);
  });

  it.each([
    ['nothing, as without the plugin', {}],
    ['not JSON', { reply: 'nonsense' }],
    ['nothing to some command', { reply: '{"responses":[]}' }],
    ['for somebody else', { reply: '{"responses":[{"command":"disableClient","correlationData":"another"}]}' }],
  ])('makes no success of an acknowledgement where it is %s', async (_, reply) => {
    const connected = await dialIn();
    const taken = takeCommands(connected, { type: 'published', hasSubscribers: null, ...reply });
    await provision(withMosquitto, { kind: 'disable' });
    await taken;
    const again = takeCommands(connected);
    await deliverWaiting(withMosquitto);
    expect(await again).toEqual([{ command: 'disableClient', ...named }]);
  });
});

it('delivers only the last of several operations, with the password of the one before', async () => {
  const connected = await dialIn();
  await provisionRefused(connected, { kind: 'upsert', password: 'tk_first' });
  await provisionRefused(connected, { kind: 'disable' });
  const taken = (async () => [await takeCommands(connected), await takeCommands(connected)])();
  await deliverWaiting(withMosquitto);
  expect(await taken).toEqual([upsertOf('tk_first'), [{ command: 'disableClient', ...named }]]);
  expect(await connected.ask(linkPing)).toBe(linkPong);
});

it('forgets an undelivered password when the device is deleted', async () => {
  const connected = await dialIn();
  await provisionRefused(connected, { kind: 'upsert', password: 'tk_first' });
  await provisionRefused(connected, { kind: 'delete' });
  expect(await sealedPasswords()).toEqual([null]);
  const commands = takeCommands(connected);
  await deliverWaiting(withMosquitto);
  expect(await commands).toMatchObject([{ command: 'deleteClient' }, { command: 'deleteRole' }]);
});

it('lets the request win that began later, however late the other one ends', async () => {
  const connected = await dialIn();
  const first = takeCommands(connected);
  await provisionAtBroker(contextOf(withMosquitto), device, { kind: 'upsert', password: 'tk_later' }, 2_000_000);
  expect(await first).toEqual(upsertOf('tk_later'));
  await provisionAtBroker(contextOf(withMosquitto), device, { kind: 'upsert', password: 'tk_earlier' }, 1_999_999);
  expect(await connected.ask(linkPing), 'nothing is sent').toBe(linkPong);
});

it('delivers an operation that is requested during the delivery of another one after it', async () => {
  const connected = await dialIn();
  const first = provision(withMosquitto, { kind: 'upsert', password: 'tk_first' });
  const frame = await connected.next();
  await provision(withMosquitto, { kind: 'disable' });
  expect(await connected.ask(linkPing), 'it waits for the one under way').toBe(linkPong);
  answerCommands(connected, frame);
  await takeCommands(connected);
  expect(await takeCommands(connected)).toEqual([{ command: 'disableClient', ...named }]);
  await first;
  await untilDelivered();
});

it('delivers each entry once, however many deliver at the same time', async () => {
  const connected = await dialIn();
  await provisionRefused(connected, { kind: 'upsert', password: 'tk_first' });
  await makeDue();
  const commands = takeCommands(connected);
  await Promise.all([1, 2, 3].map(() => deliverOutbox(contextOf(withMosquitto))));
  expect(await commands).toEqual(upsertOf('tk_first'));
  expect(await connected.ask(linkPing)).toBe(linkPong);
});

it('stops at the first entry that finds the broker away', async () => {
  const connected = await dialIn();
  await provisionRefused(connected, { kind: 'disable' });
  await provisionRefused(connected, { kind: 'disable' }, other);
  for (let round = 1; round <= 5; round++) {
    const refused = takeCommands(connected, { type: 'not-published', reason: 'refused' });
    await deliverWaiting(withMosquitto);
    await refused;
    expect(await connected.ask(linkPing), 'one entry is tried').toBe(linkPong);
  }
});

it('opens what was sealed under the secret before the present one', async () => {
  const connected = await dialIn();
  await provisionRefused(connected, { kind: 'upsert', password: 'tk_first' });
  const secrets = `the-next-sealing-secret-of-the-worker-tests,${readConfig(env).sealingSecrets[0]}`;
  const rotated = { ...withMosquitto, SEALING_SECRETS: secrets, BRIDGE_SECRETS: 'a'.repeat(32) } as Env;
  const commands = takeCommands(connected);
  await deliverWaiting(rotated);
  expect(await commands).toEqual(upsertOf('tk_first'));
});

it('gives up a password that nothing opens any more, loudly, and carries on', async () => {
  const connected = await dialIn();
  await provisionRefused(connected, { kind: 'upsert', password: 'tk_first' });
  const error = vi.spyOn(console, 'error').mockImplementation(() => undefined);
  await deliverWaiting({ ...withMosquitto, SEALING_SECRETS: 'a-wholly-different-secret-of-the-tests' });
  expect(await connected.ask(linkPing)).toBe(linkPong);
  expect(String(error.mock.calls[0]?.[0])).toContain('cannot be opened');
  error.mockRestore();
  expect(await sealedPasswords()).toEqual([null]);
  await deliverWaiting(withMosquitto);
  expect(await connected.ask(linkPing), 'it is not tried again').toBe(linkPong);
});

it('removes delivered entries after an hour', async () => {
  const connected = await dialIn();
  const commands = takeCommands(connected);
  await provision(withMosquitto, { kind: 'disable' });
  await commands;
  await provisionRefused(connected, { kind: 'disable' }, other);
  // What a delivered entry leaves has no other effect than its row.
  const countEntries = async () => (await sealedPasswords()).length;
  await deleteExpiredRows(contextOf(withMosquitto).primary(), Date.now(), 100);
  expect(await countEntries()).toBe(2);
  await deleteExpiredRows(contextOf(withMosquitto).primary(), Date.now() + 3_600_001, 100);
  expect(await countEntries(), 'what was not delivered stays').toBe(1);
  const rest = takeCommands(connected);
  await deliverWaiting(withMosquitto);
  expect(await rest).toEqual([{ command: 'disableClient', username: 'acme&dev_01abcdeg' }]);
});
