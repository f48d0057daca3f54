// Credentials pushed to mosquitto through a bridge: recorded with the change, delivered at once or when the broker is back,
// in order, once; never readable in the database.
import { env } from 'cloudflare:workers';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { readConfig } from '../../../src/config.ts';
import { deleteExpiredRows } from '../../../src/db/expired-rows.ts';
import { linkPing, linkPong } from '../../../src/protocol/bridge.ts';
import { deliverOutbox, provisionAtBroker, type BrokerOperation } from '../../../src/services/broker/provisioning.ts';
import { createUser, makeProduct, type TestUser } from '../rig/clients/client.ts';
import { callWith } from '../rig/limited.ts';
import {
  answerCommands,
  contextOf,
  deliverWaiting,
  device,
  makeDue,
  untilDelivered,
  emptyOutbox,
  other,
  provision,
  sealedPasswords,
  withMosquitto,
} from '../rig/outbox.ts';
import type { TestSocket } from '../rig/clients/socket.ts';
import { closeBridges, dialIn } from '../rig/clients/link.ts';

let bridge: TestSocket;

beforeEach(async () => {
  await emptyOutbox();
  ({ bridge } = await dialIn('one'));
});
afterEach(closeBridges);

/** The next list of commands, answered as mosquitto would, with `errors` by command, or with another outcome. */
async function takeCommands(outcome?: object, errors?: Record<string, string>) {
  return answerCommands(bridge, await bridge.next(), outcome, errors);
}

type Work = BrokerOperation | 'what waits';

function run(work: Work, to = device): Promise<void> {
  return work === 'what waits' ? deliverWaiting(withMosquitto) : provision(withMosquitto, work, to);
}

/** The commands that an operation sends, or the delivery of what waits. */
async function commandsOf(work: Work, outcome?: object, errors?: Record<string, string>) {
  const commands = takeCommands(outcome, errors);
  await run(work);
  return commands;
}

/** An operation that the broker refuses this time. */
async function runRefused(work: Work, to = device): Promise<void> {
  const refused = takeCommands({ type: 'not-published', reason: 'refused' });
  await run(work, to);
  await refused;
}

async function expectSilence(why: string): Promise<void> {
  expect(await bridge.ask(linkPing), why).toBe(linkPong);
}

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
        ...['inform', 'progress', 'get'].map((name) => send(`thing/ota/${name}`)),
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
  let productKey: string;

  async function call(method: string, path: string, body?: object) {
    type Activation = { deviceId: string; mqtt: { password: string } };
    const { code, data } = await callWith<Activation>(withMosquitto, method, path, { token: user.token, body });
    expect(code).toBe(200);
    return data;
  }

  beforeEach(async () => {
    user = await createUser();
    productKey = await makeProduct(user);
  });

  it('tells the broker of an activation before it is answered, and of a deletion', async () => {
    const commands = takeCommands();
    const { deviceId, mqtt } = await call('POST', '/devices/activate', { productKey, deviceSN: '1' });
    expect(await commands).toEqual(upsertOf(mqtt.password, { productKey, deviceId }));
    expect(await sealedPasswords()).toEqual([null]);

    const removal = takeCommands();
    await call('DELETE', `/devices/${deviceId}`);
    const name = `${productKey}&${deviceId}`;
    expect(await removal).toEqual([
      { command: 'deleteClient', username: name },
      { command: 'deleteRole', rolename: `device ${name}` },
    ]);
  });

  it('answers an activation although the broker is away, and keeps its password sealed until it is back', async () => {
    await closeBridges();
    const { deviceId, mqtt } = await call('POST', '/devices/activate', { productKey, deviceSN: '1' });
    type Row = { sealed_password: string; delivered_at: null; next_attempt_at: number };
    // No answer shows what is stored, nor that the first attempt is over.
    const findFailed = () => env.DB.prepare('SELECT * FROM broker_outbox WHERE attempts = 1').first<Row>();
    const row = await vi.waitUntil(findFailed, { interval: 50 });
    expect(row).toMatchObject({ delivered_at: null });
    expect(row.next_attempt_at).toBeGreaterThan(Date.now());
    expect(row.sealed_password).toMatch(/^[A-Za-z0-9+/=]{80,}$/);
    expect(JSON.stringify(row)).not.toContain(mqtt.password.slice(3, 20));

    ({ bridge } = await dialIn('one'));
    expect(await commandsOf('what waits')).toEqual(upsertOf(mqtt.password, { productKey, deviceId }));
    expect(await sealedPasswords()).toEqual([null]);
    await run('what waits');
    await expectSilence('it is delivered once');
  });
});

const [disable, enable] = [
  { command: 'disableClient', ...named },
  { command: 'enableClient', ...named },
];

it('disables, enables, and ends sessions', async () => {
  expect(await commandsOf({ kind: 'disable' })).toEqual([disable]);
  expect(await commandsOf({ kind: 'upsert' })).toEqual([enable]);
  const rotation = { kind: 'upsert', password: 'tk_new', endsSessions: true } as const;
  expect(await commandsOf(rotation)).toEqual([...upsertOf('tk_new'), disable, enable]);
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
    await commandsOf(operation, undefined, errors);
    await run('what waits');
    await expectSilence('nothing is sent again');
  });

  it.each<Case>([
    [{ kind: 'upsert', password: 'tk_x' }, { createClient: 'Role not found' }],
    [{ kind: 'upsert', password: 'tk_x' }, { setClientPassword: 'Internal error' }],
    [{ kind: 'upsert' }, { enableClient: 'Client not found' }],
    [{ kind: 'delete' }, { deleteRole: 'Internal error' }],
  ])('counts as a failure, which is logged and tried again: %j %j', async (operation, errors) => {
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => undefined);
    const commands = await commandsOf(operation, undefined, errors);
    expect(String(warn.mock.calls.at(-1)?.[0])).toContain(Object.values(errors)[0]);
    expect(JSON.stringify(warn.mock.calls)).not.toContain('tk_x');
    warn.mockRestore();
    expect(await commandsOf('what waits')).toEqual(commands);
  });

  it.each([
    ['nothing, as without the plugin', {}],
    ['not JSON', { reply: 'nonsense' }],
    ['nothing to some command', { reply: '{"responses":[]}' }],
    ['for somebody else', { reply: '{"responses":[{"command":"disableClient","correlationData":"another"}]}' }],
  ])('makes no success of an acknowledgement where it is %s', async (_, reply) => {
    await commandsOf({ kind: 'disable' }, { type: 'published', hasSubscribers: null, ...reply });
    expect(await commandsOf('what waits')).toEqual([disable]);
  });
});

it('delivers only the last of several operations, with the password of the one before', async () => {
  await runRefused({ kind: 'upsert', password: 'tk_first' });
  await runRefused({ kind: 'disable' });
  expect(await commandsOf('what waits')).toEqual([...upsertOf('tk_first'), disable]);
  await expectSilence('nothing else is sent');
});

it('forgets an undelivered password when the device is deleted', async () => {
  await runRefused({ kind: 'upsert', password: 'tk_first' });
  await runRefused({ kind: 'delete' });
  expect(await sealedPasswords()).toEqual([null]);
  expect(await commandsOf('what waits')).toMatchObject([{ command: 'deleteClient' }, { command: 'deleteRole' }]);
});

it('lets the request win that began later, however late the other one ends', async () => {
  const first = takeCommands();
  await provisionAtBroker(contextOf(withMosquitto), device, { kind: 'upsert', password: 'tk_later' }, 2_000_000);
  expect(await first).toEqual(upsertOf('tk_later'));
  await provisionAtBroker(contextOf(withMosquitto), device, { kind: 'upsert', password: 'tk_earlier' }, 1_999_999);
  await expectSilence('nothing is sent');
});

it('delivers an operation that is requested during the delivery of another one after it', async () => {
  const first = run({ kind: 'upsert', password: 'tk_first' });
  const frame = await bridge.next();
  await run({ kind: 'disable' });
  await expectSilence('it waits for the one under way');
  answerCommands(bridge, frame);
  expect(await takeCommands()).toEqual([...upsertOf('tk_first'), disable]);
  await first;
  await untilDelivered();
});

it('delivers each entry once, however many deliver at the same time', async () => {
  await runRefused({ kind: 'upsert', password: 'tk_first' });
  await makeDue();
  const commands = takeCommands();
  await Promise.all([1, 2, 3].map(() => deliverOutbox(contextOf(withMosquitto))));
  expect(await commands).toEqual(upsertOf('tk_first'));
  await expectSilence('nothing else is sent');
});

it('stops at the first entry that finds the broker away', async () => {
  await runRefused({ kind: 'disable' });
  await runRefused({ kind: 'disable' }, other);
  for (let round = 1; round <= 5; round++) {
    await runRefused('what waits');
    await expectSilence('one entry is tried');
  }
});

it('is not held up by an entry that mosquitto refuses', async () => {
  await runRefused({ kind: 'disable' });
  await runRefused({ kind: 'disable' }, other);
  const refused = takeCommands(undefined, { disableClient: 'Internal error' });
  const work = run('what waits');
  const [first, second] = [await refused, await takeCommands()];
  await work;
  expect(second).not.toEqual(first);
  expect(await commandsOf('what waits'), 'the refused one alone').toEqual(first);
});

it('waits longer after each attempt, up to ten minutes', async () => {
  const nowMs = Date.now();
  vi.spyOn(Date, 'now').mockReturnValue(nowMs);
  // The longest that chance makes a wait.
  vi.spyOn(Math, 'random').mockReturnValue(1);
  const waits: number[] = [];
  for (let attempt = 1; attempt <= 9; attempt++) {
    await runRefused(attempt === 1 ? { kind: 'disable' } : 'what waits');
    // No answer shows when the next attempt is.
    const row = await env.DB.prepare('SELECT next_attempt_at AS at FROM broker_outbox').first<{ at: number }>();
    waits.push((row!.at - nowMs) / 1_000);
  }
  expect(waits).toEqual([6, 11, 21, 41, 81, 161, 321, 601, 601]);
});

it('records nothing if the broker has a login hook', async () => {
  await provision(env, { kind: 'upsert', password: 'tk_first' });
  expect(await sealedPasswords()).toEqual([]);
});

it('opens what was sealed under the secret before the present one', async () => {
  await runRefused({ kind: 'upsert', password: 'tk_first' });
  const secrets = `the-next-sealing-secret-of-the-worker-tests,${readConfig(env).sealingSecrets[0]}`;
  const commands = takeCommands();
  await deliverWaiting({ ...withMosquitto, SEALING_SECRETS: secrets, BRIDGE_SECRETS: 'a'.repeat(32) } as Env);
  expect(await commands).toEqual(upsertOf('tk_first'));
});

it('gives up a password that nothing opens any more, loudly, and carries on', async () => {
  await runRefused({ kind: 'upsert', password: 'tk_first' });
  const error = vi.spyOn(console, 'error').mockImplementation(() => undefined);
  await deliverWaiting({ ...withMosquitto, SEALING_SECRETS: 'a-wholly-different-secret-of-the-tests' });
  await expectSilence('nothing is sent');
  expect(String(error.mock.calls[0]?.[0])).toContain('cannot be opened');
  error.mockRestore();
  expect(await sealedPasswords()).toEqual([null]);
  await run('what waits');
  await expectSilence('it is not tried again');
});

it('removes delivered entries after an hour', async () => {
  await commandsOf({ kind: 'disable' });
  await runRefused({ kind: 'disable' }, other);
  // What a delivered entry leaves has no other effect than its row.
  const countEntries = async () => (await sealedPasswords()).length;
  await deleteExpiredRows(contextOf(withMosquitto).primary(), Date.now(), 100);
  expect(await countEntries()).toBe(2);
  await deleteExpiredRows(contextOf(withMosquitto).primary(), Date.now() + 3_600_001, 100);
  expect(await countEntries(), 'what was not delivered stays').toBe(1);
  expect(await commandsOf('what waits')).toEqual([{ command: 'disableClient', username: 'acme&dev_01abcdeg' }]);
});
