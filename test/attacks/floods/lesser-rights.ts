// Attempts of strangers, members, former owners and ended sessions to get more than their right, or to keep it. Each attack
// makes its own accounts and devices. Every attempt has to be refused with the reason that stands beside it.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import mqtt from 'mqtt';
import type { Activation } from '../../../rig/clients/accounts.ts';
import { RelayClient } from '../../../rig/clients/relay-client.ts';
import { Tally, type Attack, type Target } from '../rig/attack.ts';
import { besideHeavyWorkMs } from '../rig/judgement.ts';
import { send } from '../rig/traffic.ts';

type Id = `${'invitation' | 'command' | 'group' | 'scene' | 'bulk' | 'key'}Id`;
type Text = Id | 'token' | 'apiKey' | 'productKey' | 'refreshToken' | 'state' | 'url' | 'checkInUrl';
/** Members of the answers that are read here. */
type Data = Activation & Record<Text, string> & { user: { userId: number }; total: number };
type Caller = { address: string; headers: Record<string, string> };

const password = 'correct horse battery';
const deviceSN = 'LESSER-RIGHTS-0042';
const up = { action: 'toggle', position: 'up' };
const again = '403 reactivation_not_allowed';
const activation = (token?: string) => `POST ${token === undefined ? '' : `/t/${token}/api/v1`}/devices/activate`;

let callers = 0;
/** Each has a network of its own. */
const caller = (headers: Record<string, string> = {}): Caller => ({ address: `100.64.1.${++callers}`, headers });
const bearer = (token: string) => caller({ Authorization: `Bearer ${token}` });

export function sceneOf({ url, mqttUrl, mailbox }: Target) {
  const tally = new Tally();
  const judge = (what: string, answer: string, expected: string) => {
    tally.note(answer);
    if (!answer.startsWith(expected)) tally.problem(`${what}: ${answer}, not ${expected}`);
  };
  /** Sets the scene, or is refused as expected. Asks again while a queue is full: other attacks may run meanwhile. */
  async function ask({ address, headers }: Caller, operation: string, sent?: object, refusal = '200'): Promise<Data> {
    const [method = '', path = ''] = operation.split(' ');
    const base = /^\/(g|t|operator)\//.test(path) ? url : `${url}/api/v1`;
    const request = { method, address, headers, body: sent && JSON.stringify(sent) };
    let answer = await send(base + path, request);
    for (let tries = 0; answer.status === 429 && tries < 200; tries += 1) {
      await sleep(250);
      answer = await send(base + path, request);
    }
    const { status, text } = answer;
    const { message = '', data } = (text.startsWith('{') ? JSON.parse(text) : {}) as { message?: string; data?: Data };
    judge(operation, `${status} ${message}`, refusal);
    if (refusal === '200' && status !== 200) throw new Error(`${operation}: ${status} ${message}`);
    return data as Data;
  }
  async function logIn(email: string) {
    const { token, refreshToken, user } = await ask(caller(), 'POST /users/login', { email, password });
    return { ...bearer(token), email, token, refreshToken, userId: user.userId };
  }
  async function signUp({ isProven = true } = {}) {
    const email = `${randomUUID()}@example.test`;
    await ask(caller(), 'POST /users/register', { email, password });
    const [token] = isProven ? (/ev_\w+/.exec((await send(`${mailbox}/${email}`)).text) ?? []) : [];
    if (isProven) await ask(caller(), 'POST /users/email-verification', { token });
    return logIn(email);
  }
  async function key(by: Caller, body: object) {
    const { keyId, apiKey } = await ask(by, 'POST /users/api-keys', body);
    return { ...caller({ 'X-API-Key': keyId, 'X-API-Secret': apiKey }), keyId };
  }
  async function product(by: Caller, reactivation: string | null = null) {
    const body = { productKey: `rights-${randomUUID()}`, name: 'Switch', controlMode: 'toggle', reactivation };
    return (await ask(by, 'POST /products', body)).productKey;
  }
  const claim = async (by: Caller) => activation((await ask(by, 'POST /devices/claim-tokens', {})).token);
  const activate = (by: Caller, productKey: string, operation = activation()) =>
    ask(by, operation, { productKey, deviceSN });
  async function logInDevice({ username, clientId, password: shown }: Activation['mqtt'], expected: string) {
    const login = { username, clientId, password: shown, reconnectPeriod: 0 };
    const client = await mqtt.connectAsync(mqttUrl, login, false).catch(() => undefined);
    judge(`login of ${username}`, client === undefined ? 'refused' : 'let in', expected);
    await client?.endAsync(true);
  }
  return { tally, judge, ask, logIn, signUp, key, product, claim, activate, logInDevice };
}
type Scene = ReturnType<typeof sceneOf>;

function attempts(name: string, title: string, run: (scene: Scene, target: Target) => Promise<void>): Attack {
  const runAttack = async (target: Target) => {
    const scene = sceneOf(target);
    await run(scene, target);
    return scene.tally.result();
  };
  return {
    name,
    title,
    holds: 'each attempt is refused, with its reason',
    isOnce: true,
    slowsToMs: besideHeavyWorkMs,
    run: runAttack,
  };
}

export const lesserRights: Attack[] = [
  attempts(
    'lesser-roles',
    'a viewer claims by the serial number, an operator leaves commands behind, API keys go beyond their product and scope',
    async ({ judge, ask, signUp, key, product, claim, activate, logInDevice }) => {
      const [owner, member] = [await signUp(), await signUp()];
      const [productKey, other] = [await product(owner), await product(owner)];
      const [{ deviceId, mqtt: login }, foreign] = [await activate(owner, productKey), await activate(owner, other)];
      const path = `/devices/${deviceId}`;
      const invitation = { email: member.email, role: 'operator' };
      const { invitationId } = await ask(owner, `POST ${path}/members`, invitation);
      await ask(member, `POST /invitations/${invitationId}/accept`);
      await ask(member, await claim(member), { productKey, deviceSN }, again);
      const coded = { deviceSN: 'CODED-1', claimCode: randomUUID() };
      await ask(owner, `POST /products/${productKey}/serials`, { serials: [coded] });
      await ask(member, await claim(member), { productKey, deviceSN: 'CODED-1' }, '403 claim_code_required');
      const reader = await key(owner, { scopes: ['read'] });
      await ask(reader, `GET /products/${productKey}/serials`, undefined, '403 forbidden');
      for (const by of [member, reader]) {
        const seen = JSON.stringify([await ask(by, `GET ${path}`), await ask(by, `GET ${path}/events`)]);
        judge('what is shown', seen.includes(deviceSN) || seen.includes('@') ? seen : 'hidden', 'hidden');
      }
      const bound = await key(owner, { scopes: ['manage'], productKey });
      const link = { command: up, expiresAt: new Date(Date.now() + 3_600_000).toISOString() };
      await ask(bound, `POST /devices/${foreign.deviceId}/credentials`, undefined, '403 forbidden');
      await ask(bound, await claim(bound), { productKey: other, deviceSN }, '400 invalid_claim_token');
      await ask(bound, `POST ${path}/guest-links`, link, '403 forbidden');
      const deleted = await key(owner, {});
      const { url } = await ask(deleted, `POST ${path}/guest-links`, link);
      await ask(owner, `DELETE /users/api-keys/${deleted.keyId}`);
      await ask(caller(), `POST ${new URL(url).pathname}`, undefined, '410');
      const command = async ({ address, headers }: Caller, position: string) => {
        const by = { address, headers: { ...headers, 'Idempotency-Key': position } };
        return (await ask(by, `POST ${path}/control?ttl=600`, { ...up, position })).commandId;
      };
      const [first, own] = [await command(member, 'up'), await command(owner, 'up')];
      judge('the key of another user', first === own ? 'no command' : 'a command', 'a command');
      const last = await command(member, 'down');
      await ask(owner, `DELETE ${path}/members/${member.userId}`);
      await logInDevice(login, 'let in');
      judge('the queued command', (await ask(owner, `GET ${path}/commands/${last}`)).state, 'cancelled');
    },
  ),
  attempts(
    'former-rights',
    'an ended session, a disabled account, invented refresh tokens, the seller of a device and a thief of its free activation',
    async ({ judge, ask, logIn, signUp, key, product, claim, activate, logInDevice }, { url, operatorSecret }) => {
      const [maker, seller, buyer] = [await signUp(), await signUp(), await signUp()];
      const productKey = await product(maker, 'owner');
      const { deviceId, deviceSecret, mqtt: first } = await activate(seller, productKey, await claim(seller));
      const path = `/devices/${deviceId}`;
      const { mqtt: shown } = await ask(seller, `POST ${path}/credentials`);
      await ask(seller, `POST ${path}/transfer`, { email: buyer.email });
      await ask(buyer, `POST ${path}/transfer/accept`);
      for (const login of [first, shown]) await logInDevice(login, 'refused');
      await ask(seller, `DELETE ${path}`, undefined, '403 forbidden');
      await ask(maker, `PUT /products/${productKey}`, { reactivation: 'open' });
      await ask(caller(), activation(), { productKey, deviceSN, deviceSecret }, again);
      await ask(maker, `PUT /products/${productKey}`, { reactivation: 'owner' });
      await ask(buyer, `POST ${path}/release`);
      const stolen = await activate(caller(), productKey);
      const own = await activate(caller(), productKey, await claim(buyer));
      await logInDevice(stolen.mqtt, 'refused');
      await logInDevice(own.mqtt, 'let in');
      const [current, apiKey] = [await logIn(buyer.email), await key(buyer, {})];
      await ask(current, 'DELETE /users/me/sessions?keep=current');
      for (const operation of ['POST /users/api-keys', `POST ${path}/transfer`, `POST ${path}/credentials`])
        await ask(buyer, operation, { email: seller.email }, '401 unauthorized: the session has ended');
      const family = current.refreshToken.slice(3, 25);
      for (const refreshToken of [buyer.refreshToken, `rt_${family}${'a'.repeat(69)}`, `rt_${'a'.repeat(91)}`])
        for (const route of ['refresh-token', 'logout'])
          await ask(caller(), `POST /users/${route}`, { refreshToken }, '401 unauthorized');
      await ask(bearer(operatorSecret), 'POST /operator/accounts/disable', { name: buyer.email });
      // Each isolate learns of it within two seconds.
      await sleep(2_000);
      for (const by of [current, apiKey])
        for (const operation of [`GET ${path}/status`, `PATCH ${path}`, `POST ${path}/control`])
          await ask(by, operation, operation.startsWith('GET') ? undefined : { disabled: false }, '401 unauthorized');
      const relay = await RelayClient.open(url);
      judge('relay', String((await relay.ask({ action: 'auth', token: current.token }))['code']), '401');
      relay.close();
    },
  ),
  attempts(
    'uninvited',
    'strangers in a pairing window, pages of other sites, and accounts with the e-mail of somebody else',
    async ({ ask, signUp, product, claim, activate, logInDevice }) => {
      const [owner, impostor] = [await signUp(), await signUp({ isProven: false })];
      const productKey = await product(owner);
      const path = `/devices/${(await activate(owner, productKey, await claim(owner))).deviceId}`;
      await ask(owner, `POST ${path}/pairing-window`, {});
      await ask(caller(), activation(), { productKey, deviceSN }, again);
      const neighbour = { ...caller(), address: owner.address };
      const [fast, device] = [await activate(neighbour, productKey), await activate(neighbour, productKey)];
      await logInDevice(device.mqtt, 'let in');
      await logInDevice(fast.mqtt, 'refused');
      await ask(neighbour, activation(), { productKey, deviceSN }, again);
      const page = { 'Sec-Fetch-Site': 'cross-site', Origin: 'https://evil.test', 'Content-Type': 'text/plain' };
      for (const operation of ['POST /users/register', 'POST /users/login', activation()])
        await ask(caller(page), operation, { productKey, deviceSN, email: owner.email, password }, '403 forbidden');
      const { email } = impostor;
      const { invitationId } = await ask(owner, `POST ${path}/members`, { email, role: 'viewer' });
      await ask(owner, `POST ${path}/transfer`, { email });
      for (const offer of [`/invitations/${invitationId}`, `${path}/transfer`])
        await ask(impostor, `POST ${offer}/accept`, undefined, '404 not_found');
      const own = await activate(impostor, await product(impostor));
      await ask(impostor, `POST /devices/${own.deviceId}/transfer`, { email: owner.email }, '403 email_not_verified');
      const proof = { token: `ev_${'a'.repeat(69)}` };
      await ask(impostor, 'POST /users/email-verification', proof, '400 invalid_request: token');
      const name = { username: 'somebody@example.test', email: 'impostor@example.test', password };
      await ask(caller(), 'POST /users/register', name, '400 invalid_request: username');
    },
  ),
  attempts(
    'foreign-ids',
    'a foreign device in groups, scenes and bulk runs, and as a witness',
    async ({ judge, ask, signUp, product, claim, activate }) => {
      const [owner, thief] = [await signUp(), await signUp()];
      const make = async (by: typeof owner) => activate(by, await product(by), await claim(by));
      const [{ deviceId }, own] = [await make(owner), await make(thief)];
      const { groupId } = await ask(thief, 'POST /groups', { name: 'Mine', deviceIds: [deviceId] });
      const { sceneId } = await ask(thief, 'POST /scenes', { name: 'Mine', items: [{ deviceId, command: up }] });
      const foreign = [`GET /groups/${groupId}`, `POST /scenes/${sceneId}/run`];
      const told = [await ask(thief, `GET /groups/${groupId}`)];
      for (const [operation, chosen] of [
        ['POST /commands', { devices: [deviceId], command: up }],
        ['POST /commands', { groupId, command: up, dryRun: true }],
        [`POST /scenes/${sceneId}/run`, {}],
      ] as const) {
        const { bulkId } = await ask(thief, operation, chosen);
        told.push(await ask(thief, `GET /bulk/${bulkId}?wait=10`));
        foreign.push(`GET /bulk/${bulkId}`);
      }
      for (const answer of told.map((data) => JSON.stringify(data)))
        judge(
          'what is told',
          /"forbidden"/.test(answer) && !answer.includes('commandId') ? 'nothing' : answer,
          'nothing',
        );
      for (const operation of foreign) await ask(owner, operation, undefined, '404 not_found');
      const settings = { expect: 'on', withinSeconds: 5, then: 'nothing' };
      const by = { deviceId, property: 'position', operator: '=', value: 'up' };
      await ask(thief, `PUT /devices/${own.deviceId}/witness`, { ...settings, by }, '403 forbidden');
      await ask(thief, `PUT /devices/${deviceId}/witness`, { ...settings, by: { checkIn: true } }, '403 forbidden');
      judge('commands', `${(await ask(owner, `GET /devices/${deviceId}/commands`)).total}`, '0');
    },
  ),
];
