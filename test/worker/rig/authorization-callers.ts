// Everybody who calls in the authorization matrix: users with keys, members, guests and a connected device, what each of them
// owns, and credentials that are none. Asserts nothing.
import { env } from 'cloudflare:workers';
import { inject } from 'vitest';
import { readConfig } from '../../../src/config.ts';
import { signAccessToken } from '../../../src/crypto/tokens.ts';
import { scopes, type Scope } from '../../../src/domain/access.ts';
import { deviceAddressHeader } from '../../../src/protocol/gateway.ts';
import { memberRoles } from '../../../src/protocol/vocabulary.ts';
import { listOperations, type OpenApiDocument } from '../../../rig/inputs/openapi-document.ts';
import { TestBridge } from './clients/bridge.ts';
import { call, createUser, openSession, send, type CallOptions, type TestUser } from './clients/client.ts';
import { connectPacket, DirectClient, subscribePacket, type Received } from './clients/direct.ts';
import { ofProduct, storeFirmware } from './firmware.ts';
import { activate, tokenOf, type Activation } from './ownership.ts';
import { invite, share } from './sharing.ts';
import { makeWebhook, receiveWebhooks } from './webhooks.ts';

export type Key = { keyId: string; apiKey: string };
export type Caller = { user: TestUser; key: Key };

export const ways = ['through a broker', 'on a direct connection', 'through the gateway'] as const;

export type Way = (typeof ways)[number];

type Connection = {
  /** A login with the device's names; whether it is let in. */
  isLetIn: (password: string) => Promise<boolean>;
  close: () => Promise<void> | void;
};

export type Callers = Awaited<ReturnType<typeof prepareCallers>>;

export async function prepareCallers(way: Way) {
  const document = await (await send('GET', '/api/v1/openapi.json')).json<OpenApiDocument>();
  const operations = listOperations(document).filter(({ security }) => security?.length !== 0);
  const [owner, stranger] = await Promise.all([createCaller(), createCaller()]);
  receiveWebhooks();
  const productKey = `switch-${crypto.randomUUID()}`;
  await call('POST', '/products', { token: owner.user.token, body: { productKey, name: 'Switch' } });
  const device = (await activate(productKey, undefined, { deviceSN: 'SN-matrix-1' })).data;
  const { deviceId } = device;
  const connection = await connect(way, device);
  const command = { token: owner.user.token, body: { action: 'trigger' } };
  const { commandId } = (await call<{ commandId: string }>('POST', `/devices/${deviceId}/control`, command)).data;
  const otherKey = `lamp-${crypto.randomUUID()}`;
  await call('POST', '/products', { token: owner.user.token, body: { productKey: otherKey, name: 'Lamp' } });
  const scopedKeys = Object.fromEntries(
    await Promise.all(scopes.map(async (scope) => [scope, await createKey(owner.user, { scopes: [scope] })] as const)),
  ) as Record<Scope, Key>;
  const keyOfOtherProduct = await createKey(owner.user, { productKey: otherKey });
  const holder = await createUser();
  const claimed = (await activate(productKey, await tokenOf(holder), { deviceSN: 'SN-claimed' })).data;
  const unclaimed = (await activate(productKey, undefined, { deviceSN: 'SN-unclaimed' })).data;
  const keyOfOtherDevice = await createKey(owner.user, { deviceIds: [unclaimed.deviceId] });
  const members = { operator: await createUser(), viewer: await createUser() };
  for (const role of memberRoles) await share({ deviceId, productKey }, members[role], role, owner.user);
  const invited = await invite({ deviceId, productKey }, { email: 'nobody@example.test' }, 'viewer', owner.user);
  const userId = String(members.viewer.userId);
  const serials = { token: owner.user.token, body: { serials: ['SN-9'] } };
  await call('POST', `/products/${productKey}/serials`, serials);
  const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
  const timed = { command: { action: 'trigger' }, at: '07:30', zone: 'Europe/Berlin' };
  const schedule = { token: owner.user.token, body: timed };
  const { scheduleId } = (await call<{ scheduleId: string }>('POST', `/devices/${deviceId}/schedules`, schedule)).data;
  const link = { token: owner.user.token, body: { command: { action: 'trigger' }, expiresAt } };
  const { linkId, url } = (
    await call<{ linkId: string; url: string }>('POST', `/devices/${deviceId}/guest-links`, link)
  ).data;
  const guestToken = url.split('/g/')[1] ?? '';
  const make = (path: string, body: object) =>
    call<Record<'groupId' | 'sceneId', string>>('POST', path, { token: owner.user.token, body });
  const { groupId } = (await make('/groups', { name: 'All', deviceIds: [deviceId] })).data;
  const { sceneId } = (await make('/scenes', { name: 'On', items: [{ deviceId, command: timed.command }] })).data;
  const witness = { expect: 'pressed', by: { property: 'presses' }, withinSeconds: 9, then: 'nothing' };
  await call('PUT', `/devices/${deviceId}/witness`, { token: owner.user.token, body: witness });
  const sessionId = crypto.randomUUID();
  await openSession(owner.user.userId, 0, sessionId);
  const bulk = {
    token: owner.user.token,
    body: { devices: [deviceId], command: { action: 'trigger' }, dryRun: true },
  };
  const { bulkId } = (await call<{ bulkId: string }>('POST', '/commands', bulk)).data;
  await call('GET', `/bulk/${bulkId}?wait=10`, { token: owner.user.token });
  const version = '1.2.0';
  const { keyId: firmwareKeyId } = await storeFirmware(productKey, owner.user.token, version);
  const campaign = { version, waves: [{ devices: [deviceId] }] };
  const started = ofProduct<{ campaignId: string }>('POST', productKey, 'campaigns', campaign, owner.user.token);
  const { campaignId } = (await started).data;
  const ownerObjects: Record<string, string> = {
    bulkId,
    campaignId,
    change: 'pause',
    firmwareKeyId,
    version,
    sessionId,
    deviceSN: 'SN-9',
    token: await tokenOf(owner.user),
    productKey,
    deviceId,
    commandId,
    groupId,
    sceneId,
    invitationId: invited.data.invitationId,
    linkId,
    scheduleId,
    userId,
    keyId: owner.key.keyId,
    webhookId: (await makeWebhook(owner.user)).webhookId,
    subscriptionId: await subscribe(owner.user),
  };
  const missingObjects: Record<string, string> = {
    bulkId: '0123456789abcdef',
    campaignId: 'no-such-campaign',
    change: 'pause',
    firmwareKeyId: 'no-such-key',
    version: '0.0.0',
    sessionId: 'no-such-session',
    deviceSN: 'no-such-serial',
    token: '00000000000000000000',
    productKey: 'no-such-product',
    deviceId: 'dev_00000000',
    commandId: 'no-such-command',
    groupId: 'no-such-group',
    sceneId: 'no-such-scene',
    invitationId: 'no-such-invitation',
    linkId: 'no-such-link',
    scheduleId: 'no-such-schedule',
    userId: '4711',
    keyId: 'ak_aaaaaaaaaaaaaaaaaaaa',
    webhookId: 'no-such-webhook',
    subscriptionId: 'no-such-subscription',
  };
  const badCredentials = await makeBadCredentials(owner, stranger, device, guestToken);
  return {
    document,
    operations,
    owner,
    stranger,
    device,
    connection,
    ownerObjects,
    missingObjects,
    /** One for each scope, and one of all scopes for another product of the same owner. */
    scopedKeys,
    keyOfOtherProduct,
    /** Of all devices that the owner has, for another one alone. */
    keyOfOtherDevice,
    members,
    /** Has claimed a device of the same product. */
    holder,
    claimed,
    unclaimed,
    badCredentials,
    guestToken,
  };
}

async function connect(way: Way, device: Activation): Promise<Connection> {
  const { username, password } = device.mqtt;
  const isConnected = (answer: Received) => answer.type === 2 && answer.body[1] === 0;
  if (way === 'through a broker') {
    const bridge = await TestBridge.dialIn();
    const isLetIn = async (given: string) => {
      const login = JSON.stringify({ clientid: username, username, password: given });
      const headers = {
        Authorization: `Bearer ${readConfig(env).brokerHookSecrets[0]}`,
        'Content-Type': 'application/json',
      };
      const response = await send('POST', '/hooks/emqx/connect', { headers, body: login });
      return (await response.json<{ result: string }>()).result === 'allow';
    };
    return { isLetIn, close: () => bridge.close() };
  }
  const name = { deviceId: device.deviceId, name: username, productKey: username.split('&')[0] ?? '' };
  const login = async (given: string) => {
    const client =
      way === 'on a direct connection'
        ? await DirectClient.open(device.deviceId)
        : await openAsGateway(device.deviceId);
    client.send(connectPacket({ ...name, password: given }));
    return { client, answer: await client.next() };
  };
  const { client, answer } = await login(password);
  if (!isConnected(answer)) throw new Error(`refused: ${[...answer.body].join()}`);
  client.send(subscribePacket(`/sys/${name.productKey}/${device.deviceId}/thing/service/property/set`));
  await client.next();
  let holding = client;
  const isLetIn = async (given: string) => {
    const attempt = await login(given);
    const isIn = isConnected(attempt.answer);
    // It has taken over the session.
    if (isIn) holding = attempt.client;
    else attempt.client.drop();
    return isIn;
  };
  return { isLetIn, close: () => holding.drop() };
}

function openAsGateway(deviceId: string): Promise<DirectClient> {
  return DirectClient.open(deviceId, {
    'Sec-WebSocket-Protocol': 'mqtt',
    Authorization: `Bearer ${readConfig(env).gatewaySecrets[0]}`,
    [deviceAddressHeader]: '198.51.100.9',
  });
}

async function createCaller(): Promise<Caller> {
  const user = await createUser();
  return { user, key: await createKey(user) };
}

export async function createKey({ token }: TestUser, body: object = {}): Promise<Key> {
  return (await call<Key>('POST', '/users/api-keys', { token, body })).data;
}

/** A browser of the user. */
async function subscribe({ token }: TestUser): Promise<string> {
  const body = { endpoint: 'https://push.example.net/1', keys: inject('pushService').keys };
  return (await call<{ subscriptionId: string }>('POST', '/users/me/push-subscriptions', { token, body })).data
    .subscriptionId;
}

async function makeBadCredentials(
  { user, key }: Caller,
  stranger: Caller,
  device: Activation,
  guestToken: string,
): Promise<Record<string, CallOptions>> {
  const config = readConfig(env);
  const { token } = user;
  const lastChanged = (text: string) => text.slice(0, -1) + (text.endsWith('A') ? 'B' : 'A');
  const signedBy = (kid: string, secret: string) => ({ ...config, signingKeys: [{ kid, secret }] });
  const [{ kid } = { kid: '' }] = config.signingKeys;
  const account = { email: `${crypto.randomUUID()}@example.test`, password: 'correct horse' };
  await call('POST', '/users/register', { body: account });
  const { refreshToken } = (await call<{ refreshToken: string }>('POST', '/users/login', { body: account })).data;
  const revoked = (await call<Key>('POST', '/users/api-keys', { token })).data;
  // Used once, so that whatever remembers keys remembers this one.
  await call('GET', '/users/me', { key: revoked });
  await call('DELETE', `/users/api-keys/${revoked.keyId}`, { token });
  const bearer = (text: string): CallOptions => ({ headers: { Authorization: text } });
  const unsigned = `${btoa('{"alg":"none","typ":"at+jwt"}')}.${token.split('.')[1]}.`.replaceAll('=', '');
  return {
    'nothing at all': {},
    'an empty header': bearer(''),
    'a scheme without a token': bearer('Bearer'),
    'a token without a scheme': bearer(token),
    'another scheme': bearer(`Basic ${btoa(`${user.email}:correct horse`)}`),
    'a token as Basic': bearer(`Basic ${token}`),
    'two tokens': bearer(`Bearer ${token} ${token}`),
    'a list of tokens': bearer(`Bearer ${token}, Bearer ${token}`),
    'half a token': bearer(`Bearer ${token.slice(0, token.length / 2)}`),
    'a token with another signature': bearer(`Bearer ${lastChanged(token.slice(0, -1))}${token.slice(-1)}`),
    'a token without a signature': bearer(`Bearer ${unsigned}`),
    'a token that expired': { token: await signAccessToken({ ...config, accessTokenSeconds: -1 }, user.userId, 's') },
    'a token of an unknown key': {
      token: await signAccessToken(signedBy('other', 'x'.repeat(40)), user.userId, 's'),
    },
    'a token of a false key': { token: await signAccessToken(signedBy(kid, 'x'.repeat(40)), user.userId, 's') },
    'a refresh token': { token: refreshToken },
    'the token of a guest link': { token: guestToken },
    'the id of an API key': { token: key.keyId },
    'the value of an API key': { token: key.apiKey },
    'a messaging password': { token: device.mqtt.password },
    'a device secret': { token: device.deviceSecret },
    'the secret of the bridge': { token: config.bridgeSecrets[0] },
    'the secret of the broker': { token: config.brokerHookSecrets[0] },
    'the secret of a gateway': { token: config.gatewaySecrets[0] },
    'an API key that was deleted': { key: revoked },
    'an API key without its value': { headers: { 'X-API-Key': key.keyId } },
    'the value of an API key alone': { headers: { 'X-API-Secret': key.apiKey } },
    "an API key with another one's value": { key: { keyId: key.keyId, apiKey: stranger.key.apiKey } },
    'an API key with a device secret': { key: { keyId: key.keyId, apiKey: device.deviceSecret } },
    'messaging credentials as an API key': { key: { keyId: device.mqtt.username, apiKey: device.mqtt.password } },
    'two ids of API keys': { key: { keyId: key.keyId, apiKey: key.keyId } },
    // A bearer token that is present decides: a caller never silently becomes somebody else.
    'a bad token beside a good API key': { token: 'x.y.z', key },
  };
}
