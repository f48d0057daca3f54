// Every route that asks who calls, against everything that must not be let in: made from the served reference, so that
// a new route is in it from its first day. A refusal is the envelope with 401, or 403 and 404 for what is not yours.
import { env, exports } from 'cloudflare:workers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createApp } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import {
  hasRight,
  scopes,
  scopesFor,
  type Action,
  type DeviceAction,
  type MemberRole,
  type Role,
  type Scope,
} from '../../src/domain/access.ts';
import { signAccessToken } from '../../src/crypto/tokens.ts';
import { exampleBody, listOperations, type OpenApiDocument, type Operation } from '../rig/openapi-document.ts';
import { memberRoles } from '../../src/protocol/vocabulary.ts';
import { topicActions } from '../../src/protocol/mqtt.ts';
import { itemOf, openRelay, report } from '../rig/workerd/relay.ts';
import { deviceAddressHeader } from '../../src/protocol/gateway.ts';
import { TestBridge } from '../rig/workerd/bridge.ts';
import { connectPacket, EdgeClient, subscribePacket, type Received } from '../rig/workerd/edge.ts';
import { call, createUser, send, type CallOptions, type TestUser } from '../rig/workerd/client.ts';

type Key = { keyId: string; apiKey: string };
type Caller = { user: TestUser; key: Key };
type Activation = { deviceId: string; deviceSecret: string; mqtt: { username: string; password: string } };

/** What everybody may call. A route that is neither here nor protected in the reference fails the first test. */
const openRoutes = [
  'GET /api/v1/asyncapi.json',
  'GET /api/v1/openapi.json',
  'GET /health',
  'POST /api/v1/devices/activate',
  'POST /api/v1/users/login',
  'POST /api/v1/users/password-reset',
  'POST /api/v1/users/refresh-token',
  'POST /api/v1/users/register',
  'POST /t/{token}/api/v1/devices/activate',
  'PUT /api/v1/users/password-reset',
];

/** By which its device is connected while everything is tried. */
const ways = ['through a broker', 'at the edge', 'through the gateway'] as const;

describe.each(ways)('with a device connected %s', (way) => {
  let document: OpenApiDocument;
  let operations: Operation[];
  let owner: Caller;
  let stranger: Caller;
  let device: Activation;
  let close: () => Promise<void> | void;
  /** A login with the device's names; whether it is let in. */
  let isLetIn: (password: string) => Promise<boolean>;
  let ownerObjects: Record<string, string>;
  let missingObjects: Record<string, string>;
  /** One for each scope, and one of all scopes for another product of the same owner. */
  let scopedKeys: Record<Scope, Key>;
  let keyOfOtherProduct: Key;
  /** With whom the device is shared, by role. */
  let members: Record<MemberRole, TestUser>;
  /** A device of the same product that this user has claimed. */
  let holder: TestUser;
  let claimed: Activation;
  let badCredentials: Record<string, CallOptions>;
  /** Of the address of a guest link. */
  let guestToken: string;

  beforeAll(async () => {
    document = await (await send('GET', '/api/v1/openapi.json')).json<OpenApiDocument>();
    operations = listOperations(document).filter(({ security }) => security?.length !== 0);
    [owner, stranger] = await Promise.all([createCaller(), createCaller()]);
    const productKey = `switch-${crypto.randomUUID()}`;
    await call('POST', '/products', { token: owner.user.token, body: { productKey, name: 'Switch' } });
    device = (await call<Activation>('POST', '/devices/activate', { body: { productKey, deviceSN: 'SN-1' } })).data;
    const { deviceId } = device;
    await connect();
    const command = { token: owner.user.token, body: { action: 'trigger' } };
    const { commandId } = (await call<{ commandId: string }>('POST', `/devices/${deviceId}/control`, command)).data;
    const otherKey = `lamp-${crypto.randomUUID()}`;
    await call('POST', '/products', { token: owner.user.token, body: { productKey: otherKey, name: 'Lamp' } });
    scopedKeys = Object.fromEntries(
      await Promise.all(
        scopes.map(async (scope) => [scope, await createKey(owner.user, { scopes: [scope] })] as const),
      ),
    ) as Record<Scope, Key>;
    keyOfOtherProduct = await createKey(owner.user, { productKey: otherKey });
    holder = await createUser();
    claimed = await activateFor(holder, productKey);
    members = { operator: await createUser(), viewer: await createUser() };
    for (const role of memberRoles) await share(deviceId, role);
    const { token } = owner.user;
    const body = { email: 'nobody@example.test', role: 'viewer' };
    const { data } = await call<{ invitationId: string }>('POST', `/devices/${deviceId}/members`, { token, body });
    const { invitationId } = data;
    const userId = String(members.viewer.userId);
    const serials = { token: owner.user.token, body: { serials: ['SN-9'] } };
    await call('POST', `/products/${productKey}/serials`, serials);
    const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
    const link = { token: owner.user.token, body: { command: { action: 'trigger' }, expiresAt } };
    const { linkId, url } = (
      await call<{ linkId: string; url: string }>('POST', `/devices/${deviceId}/guest-links`, link)
    ).data;
    guestToken = url.split('/g/')[1] ?? '';
    const sessionId = await addSession(owner.user);
    const claim = (await call<{ token: string }>('POST', '/devices/claim-tokens', { token })).data;
    ownerObjects = {
      sessionId,
      deviceSN: 'SN-9',
      token: claim.token,
      productKey,
      deviceId,
      commandId,
      invitationId,
      linkId,
      userId,
      keyId: owner.key.keyId,
    };
    missingObjects = {
      sessionId: 'no-such-session',
      deviceSN: 'no-such-serial',
      token: '00000000000000000000',
      productKey: 'no-such-product',
      deviceId: 'dev_00000000',
      commandId: 'no-such-command',
      invitationId: 'no-such-invitation',
      linkId: 'no-such-link',
      userId: '4711',
      keyId: 'ak_aaaaaaaaaaaaaaaaaaaa',
    };
    badCredentials = await makeBadCredentials();
  });

  afterAll(() => close());

  async function connect(): Promise<void> {
    const { username, password } = device.mqtt;
    const isConnected = (answer: Received) => answer.type === 2 && answer.body[1] === 0;
    if (way === 'through a broker') {
      const bridge = await TestBridge.dialIn();
      close = () => bridge.close();
      isLetIn = async (given) => {
        const login = JSON.stringify({ clientid: username, username, password: given });
        const headers = {
          Authorization: `Bearer ${readConfig(env).brokerHookSecrets[0]}`,
          'Content-Type': 'application/json',
        };
        const response = await send('POST', '/hooks/emqx/connect', { headers, body: login });
        return (await response.json<{ result: string }>()).result === 'allow';
      };
      return;
    }
    const name = { deviceId: device.deviceId, name: username, productKey: username.split('&')[0] ?? '' };
    const login = async (given: string) => {
      const client = way === 'at the edge' ? await EdgeClient.open(device.deviceId) : await openAsGateway();
      client.send(connectPacket({ ...name, password: given }));
      return { client, answer: await client.next() };
    };
    const { client, answer } = await login(password);
    if (!isConnected(answer)) throw new Error(`refused: ${[...answer.body].join()}`);
    client.send(subscribePacket(`/sys/${name.productKey}/${device.deviceId}/thing/service/property/set`));
    await client.next();
    close = () => client.drop();
    isLetIn = async (given) => {
      const attempt = await login(given);
      const isIn = isConnected(attempt.answer);
      // It has taken over the session.
      if (isIn) close = () => attempt.client.drop();
      else attempt.client.drop();
      return isIn;
    };
  }

  async function openAsGateway(): Promise<EdgeClient> {
    const headers = {
      ...{ Upgrade: 'websocket', 'Sec-WebSocket-Protocol': 'mqtt' },
      Authorization: `Bearer ${readConfig(env).gatewaySecrets[0]}`,
      [deviceAddressHeader]: '198.51.100.9',
    };
    const { webSocket } = await exports.default.fetch(new Request('https://latchwork.test/mqtt', { headers }));
    if (webSocket === null) throw new Error('not upgraded');
    return EdgeClient.over(webSocket);
  }

  async function createCaller(): Promise<Caller> {
    const user = await createUser();
    return { user, key: await createKey(user) };
  }

  async function createKey({ token }: TestUser, body: object = {}): Promise<Key> {
    return (await call<Key>('POST', '/users/api-keys', { token, body })).data;
  }

  async function activateFor({ token }: TestUser, productKey: string): Promise<Activation> {
    const { data } = await call<{ token: string }>('POST', '/devices/claim-tokens', { token });
    const body = JSON.stringify({ productKey, deviceSN: 'SN-claimed' });
    const response = await send('POST', `/t/${data.token}/api/v1/devices/activate`, { body });
    return (await response.json<{ data: Activation }>()).data;
  }

  async function share(deviceId: string, role: MemberRole): Promise<void> {
    const { email, token } = members[role];
    const body = { email, role };
    const invited = await call<{ invitationId: string }>('POST', `/devices/${deviceId}/members`, {
      token: owner.user.token,
      body,
    });
    await call('POST', `/invitations/${invited.data.invitationId}/accept`, { token });
  }

  async function addSession({ userId, token }: TestUser): Promise<string> {
    const nowMs = Date.now();
    await env.DB.prepare(
      'insert into refresh_tokens (hash, family, user_id, created_at, expires_at) values (?, ?, ?, ?, ?)',
    )
      .bind(crypto.randomUUID(), crypto.randomUUID(), userId, nowMs, nowMs + 3_600_000)
      .run();
    type Sessions = { list: { sessionId: string }[] };
    return (await call<Sessions>('GET', '/users/me/sessions', { token })).data.list[0]?.sessionId ?? '';
  }

  async function makeBadCredentials(): Promise<Record<string, CallOptions>> {
    const { user, key } = owner;
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

  const nameOf = ({ method, path }: Operation) => `${method} ${path}`;
  const scopesOf = (operation: Operation): readonly Scope[] => (operation['x-actions'] ?? []).flatMap(scopesFor);
  const actionsOf = (operation: Operation): readonly Action[] => operation['x-actions'] ?? [];
  /** What is offered to others is hidden from everybody else, the owner included. */
  const isOffer = (operation: Operation) => actionsOf(operation).includes('answerOffers');
  /** So is what belongs to an account and is named to its user alone. */
  const isHidden = (operation: Operation) => isOffer(operation) || actionsOf(operation).includes('manageSessions');
  const takesKeys = ({ security }: Operation) => security?.some((scheme) => 'apiKeySecret' in scheme) === true;

  function pathWith(operation: Operation, objects: Record<string, string>): string {
    return operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
      const id = objects[name];
      if (id === undefined) throw new Error(`no ${name} to try ${nameOf(operation)} with`);
      return encodeURIComponent(id);
    });
  }

  /** What was answered, where that is not the refusal it should be. */
  async function lettingIn(
    operation: Operation,
    objects: Record<string, string>,
    credentials: CallOptions,
    refusals: RegExp,
  ): Promise<string[]> {
    const body = exampleBody(document, operation);
    // An empty body where one may be left out: logout would take the example for a session to end.
    const sent = operation.requestBody?.required === true ? { body } : {};
    const path = pathWith(operation, objects);
    const { status, code, message, data } = await call<unknown>(operation.method, path, { ...sent, ...credentials });
    const isRefused = refusals.test(`${code} ${message}`) && status === code && data === null;
    return isRefused ? [] : [`${nameOf(operation)}: ${status} ${JSON.stringify({ code, message, data })}`];
  }

  describe('who may call', () => {
    it('is asked by every route but those that are for everybody', () => {
      const open = listOperations(document).filter(({ security }) => security?.length === 0);
      expect(open.map(nameOf).sort()).toEqual(openRoutes);
      expect(operations.length).toBeGreaterThan(12);
    });

    it('follows from the actions of the table, which every such route names', () => {
      for (const operation of operations) {
        const actions = operation['x-actions'] ?? [];
        expect(actions, nameOf(operation)).not.toHaveLength(0);
        const needed = new Set(actions.flatMap((action) => scopesFor(action)));
        const named = (operation.security ?? []).flatMap((scheme) => scheme['apiKeySecret'] ?? []);
        expect(named.toSorted(), nameOf(operation)).toEqual([...needed].toSorted());
      }
    });

    it('is nobody without valid credentials, on any route', async () => {
      const letIn: string[] = [];
      for (const operation of operations) {
        for (const [what, credentials] of Object.entries(badCredentials)) {
          const found = await lettingIn(operation, ownerObjects, credentials, /^401 unauthorized$/);
          letIn.push(...found.map((answer) => `${what}: ${answer}`));
        }
      }
      expect(letIn).toEqual([]);
    });

    it('is no API key where a user is wanted in person', async () => {
      const letIn: string[] = [];
      const inPerson = operations.filter((operation) => !takesKeys(operation));
      expect(inPerson.length).toBeGreaterThan(3);
      for (const operation of inPerson) {
        letIn.push(...(await lettingIn(operation, ownerObjects, { key: owner.key }, /^401 unauthorized$/)));
      }
      expect(letIn).toEqual([]);
    });

    it('is no API key without a scope that the table names for it', async () => {
      const letIn: string[] = [];
      for (const operation of operations.filter(takesKeys)) {
        for (const scope of scopes.filter((one) => !scopesOf(operation).includes(one))) {
          const found = await lettingIn(operation, ownerObjects, { key: scopedKeys[scope] }, /^403 forbidden$/);
          letIn.push(...found.map((answer) => `${scope}: ${answer}`));
        }
      }
      expect(letIn).toEqual([]);
    });

    it('is no API key of another product', async () => {
      const letIn: string[] = [];
      const withProduct = operations.filter(({ path }) => /\{(deviceId|productKey)\}/.test(path)).filter(takesKeys);
      expect(withProduct.length).toBeGreaterThan(10);
      for (const operation of withProduct) {
        letIn.push(...(await lettingIn(operation, ownerObjects, { key: keyOfOtherProduct }, /^403 forbidden$/)));
      }
      expect(letIn).toEqual([]);
      const lists = await Promise.all(
        ['/devices', '/products'].map((path) => call('GET', path, { key: keyOfOtherProduct })),
      );
      expect(lists).toMatchObject([{ data: { total: 0, list: [] } }, { data: { total: 1 } }]);
      const made = { productKey: 'made-by-key', name: 'Made' };
      expect(await call('POST', '/products', { key: keyOfOtherProduct, body: made })).toMatchObject({ code: 403 });
    });

    it('is no other user, with a token or an API key, for what is not theirs', async () => {
      const letIn: string[] = [];
      const withObjects = operations.filter(({ path }) => path.includes('{'));
      expect(withObjects.length).toBeGreaterThan(6);
      for (const operation of withObjects) {
        const tokens = { token: stranger.user.token };
        const foreign = isHidden(operation) ? /^404 not_found$/ : /^403 forbidden$/;
        letIn.push(...(await lettingIn(operation, ownerObjects, tokens, foreign)));
        letIn.push(...(await lettingIn(operation, missingObjects, tokens, /^404 (device_)?not_found$/)));
        if (!takesKeys(operation)) continue;
        letIn.push(...(await lettingIn(operation, ownerObjects, { key: stranger.key }, /^403 forbidden$/)));
        letIn.push(...(await lettingIn(operation, missingObjects, { key: stranger.key }, /^404 (device_)?not_found$/)));
      }
      expect(letIn).toEqual([]);
    });

    it('is a member of a device for what the table allows the role, and for nothing else', async () => {
      const onDevice = operations.filter((one) => one.path.includes('{deviceId}') && !isOffer(one));
      const wrong: string[] = [];
      for (const role of memberRoles) {
        const credentials = { token: members[role].token };
        for (const operation of onDevice) {
          // Only the own membership may be given up: here it is that of another member.
          const mayDo = actionsOf(operation).some((one) => one !== 'leave' && hasRight(role, one as DeviceAction));
          const objects = {
            ...ownerObjects,
            userId: String(members[role === 'viewer' ? 'operator' : 'viewer'].userId),
          };
          const refused = await lettingIn(operation, objects, credentials, /^403 forbidden$/);
          if (mayDo !== refused.length > 0) wrong.push(`${role} ${mayDo ? 'may' : 'may not'}: ${nameOf(operation)}`);
        }
      }
      expect(wrong).toEqual([]);
    });

    it('is the owner of the product of a claimed device for what the table allows, and for nothing else', async () => {
      const wrong: string[] = [];
      const onDevice = operations.filter((one) => one.path.includes('{deviceId}') && !isOffer(one));
      const objects = { ...ownerObjects, deviceId: claimed.deviceId };
      for (const credentials of [{ token: owner.user.token }, { key: owner.key }]) {
        for (const operation of onDevice) {
          if ('key' in credentials && !takesKeys(operation)) continue;
          const mayDo = actionsOf(operation).some((one) => hasRight('productOwner', one as DeviceAction));
          // The example renames as well, which is another right.
          const body = mayDo ? { body: { disabled: false } } : {};
          const refused = await lettingIn(operation, objects, { ...credentials, ...body }, /^403 forbidden$/);
          if (mayDo !== refused.length > 0) wrong.push(`${mayDo ? 'may' : 'may not'}: ${nameOf(operation)}`);
          if (mayDo) expect(await lettingIn(operation, objects, credentials, /^403 forbidden$/)).toEqual([]);
        }
      }
      expect(wrong).toEqual([]);
    });

    it('follows on the relay what the table allows', async () => {
      const [one, other] = [ownerObjects['deviceId'] ?? '', claimed.deviceId];
      const roles: [Role | 'stranger', TestUser, deviceId: string][] = [
        ['owner', owner.user, one],
        ['operator', members.operator, one],
        ['viewer', members.viewer, one],
        ['stranger', stranger.user, one],
        ['owner', holder, other],
        ['productOwner', owner.user, other],
      ];
      for (const [role, user, deviceId] of roles) {
        const topic = (action: string) => `/sys/${ownerObjects['productKey']}/${deviceId}/${action}`;
        const mayFollow = role !== 'stranger' && hasRight(role, 'readReports');
        const key = await createKey(user, { scopes: ['read'] });
        for (const auth of [{ token: user.token }, { apiKey: key.keyId, apiSecret: key.apiKey }]) {
          const socket = await openRelay();
          expect(await socket.ask({ action: 'auth', ...auth })).toMatchObject({ code: 200 });
          for (const action of [...Object.values(topicActions), '#', '+', 'thing/#']) {
            const answered = await socket.ask({ action: 'subscribe', topic: topic(action) });
            expect(answered, `${role} ${action}`).toMatchObject({ code: mayFollow ? 200 : 403 });
            const published = await socket.ask({ action: 'publish', topic: topic(action), payload: {} });
            expect(published, `${role} ${action}`).toMatchObject({ code: 403 });
          }
          socket.close();
        }
        await call('DELETE', `/users/api-keys/${key.keyId}`, { token: user.token });
      }
    });

    // Nothing in these depends on the way in.
    if (way === ways[0]) {
      it('gets of a subscription to everything what the table allows, the present state included', async () => {
        const topic = `/sys/${ownerObjects['productKey']}/${claimed.deviceId}/thing/event/property/post`;
        const filter = '/sys/+/+/thing/event/property/post';
        await report(itemOf(topic, '{"params":{"position":"up"}}'));
        for (const [user, mayFollow] of [
          [holder, true],
          [owner.user, false],
          [members.operator, false],
        ] as const) {
          const socket = await openRelay();
          await socket.ask({ action: 'auth', token: user.token });
          socket.send({ action: 'subscribe', topic: filter, snapshot: true });
          if (mayFollow) expect(await socket.next()).toMatchObject({ topic, payload: { id: 'snapshot' } });
          expect(await socket.next()).toMatchObject({ action: 'subscribe', code: 200 });
          await report(itemOf(topic, '{"params":{"position":"down"}}'));
          if (mayFollow)
            expect(await socket.next()).toMatchObject({ topic, payload: { params: { position: 'down' } } });
          expect(await socket.ask({ action: 'unsubscribe', topic: filter })).toMatchObject({ action: 'unsubscribe' });
          socket.close();
        }
      });

      it('is no API key at the relay that the table does not name for it, nor one for another product', async () => {
        const topic = `/sys/${ownerObjects['productKey']}/${ownerObjects['deviceId']}/#`;
        const signIn = async ({ keyId, apiKey }: Key) => {
          const socket = await openRelay();
          return { socket, answer: await socket.ask({ action: 'auth', apiKey: keyId, apiSecret: apiKey }) };
        };
        for (const scope of scopes) {
          const mayRead = scopesFor('readReports').includes(scope);
          const { socket, answer } = await signIn(scopedKeys[scope]);
          expect(answer, scope).toMatchObject({ code: mayRead ? 200 : 401 });
          expect(await socket.ask({ action: 'subscribe', topic })).toMatchObject({ code: mayRead ? 200 : 401 });
        }
        const { socket } = await signIn(keyOfOtherProduct);
        for (const filter of [topic, `/sys/${ownerObjects['productKey']}/+/#`]) {
          expect(await socket.ask({ action: 'subscribe', topic: filter })).toMatchObject({ code: 403 });
        }
        for (const [what, { key }] of Object.entries(badCredentials)) {
          // A good one, which is refused over HTTP for the token beside it.
          if (key === undefined || key === owner.key) continue;
          expect((await signIn(key)).answer, what).toMatchObject({ code: 401 });
        }
      });
    }

    it('is nobody who has a guest link, but for its page', async () => {
      const socket = await openRelay();
      expect(await socket.ask({ action: 'auth', token: guestToken })).toMatchObject({ code: 401 });
      const body = { productKey: ownerObjects['productKey'], deviceSN: 'SN-2' };
      const claim = await send('POST', `/t/${guestToken}/api/v1/devices/activate`, { body });
      expect(claim.status).toBe(400);
      const page = (token: string) => send('GET', `/g/${encodeURIComponent(token)}`);
      expect((await page(guestToken)).status).toBe(200);
      const secrets = Object.values(badCredentials).flatMap(({ token, key }) => [token, key?.keyId, key?.apiKey]);
      for (const secret of [
        ...secrets,
        owner.user.token,
        owner.key.apiKey,
        device.mqtt.password,
        ownerObjects['linkId'],
      ]) {
        if (!secret || secret === guestToken) continue;
        expect((await page(secret)).status, secret).toBe(404);
      }
    });

    it('sees in lists what is their own alone', async () => {
      const lists = operations.filter(({ method, path }) => method === 'GET' && /s$/.test(path) && !path.includes('{'));
      expect(lists.length).toBeGreaterThan(2);
      const objects = Object.values(ownerObjects).map((id) => `"${id}"`);
      for (const { path } of lists) {
        const asked = `${path}?productKey=${ownerObjects['productKey']}&size=100`;
        const seen = JSON.stringify((await call<unknown>('GET', asked, { token: stranger.user.token })).data);
        expect(
          objects.filter((id) => seen.includes(id)),
          path,
        ).toEqual([]);
      }
    });

    it('changed nothing by trying', async () => {
      const { token } = owner.user;
      const { productKey, deviceId } = ownerObjects;
      expect(await call('GET', `/products/${productKey}`, { token })).toMatchObject({ data: { name: 'Switch' } });
      expect(await call('GET', `/devices/${deviceId}`, { token })).toMatchObject({ data: { deviceSN: 'SN-1' } });
      expect(await call('GET', '/users/me', { key: owner.key })).toMatchObject({ data: { userId: owner.user.userId } });
      const { list } = (await call<{ list: Key[] }>('GET', '/users/api-keys', { token })).data;
      const made = [owner.key, ...Object.values(scopedKeys), keyOfOtherProduct];
      expect(list.map(({ keyId }) => keyId).toSorted()).toEqual(made.map(({ keyId }) => keyId).toSorted());
    });

    it('is a device by its messaging password alone, and by nothing that opens another door', async () => {
      const letIn: string[] = [];
      for (const [what, { token, key }] of Object.entries(badCredentials)) {
        const passwords = [token, key?.keyId, key?.apiKey].filter((password) => password !== undefined);
        for (const password of new Set([...passwords, owner.user.token, owner.key.apiKey])) {
          if (password !== device.mqtt.password && (await isLetIn(password))) letIn.push(what);
        }
      }
      expect(letIn).toEqual([]);
      expect(await isLetIn(device.mqtt.password)).toBe(true);
    });

    it('lets the owner in everywhere, which proves the refusals above', async () => {
      const refused: string[] = [];
      // A release takes away like a deletion.
      const isDelete = ({ method, path }: Operation) => method === 'DELETE' || path.endsWith('/release');
      const deletions = operations.filter(isDelete).sort((one, other) => other.path.length - one.path.length);
      // What deletions take away is asked for before, and the key that does not survive them is not used for them.
      for (const operation of [...operations.filter((one) => !isDelete(one)), ...deletions]) {
        if (isOffer(operation) && operation.path.includes('{')) continue;
        const body = exampleBody(document, operation);
        const sent = operation.requestBody?.required === true ? { body } : {};
        // By a key that has no other scope than the one it takes.
        const [scope] = isDelete(operation) ? [] : scopesOf(operation);
        const credentials = scope === undefined ? { token: owner.user.token } : { key: scopedKeys[scope] };
        const { message } = await call(operation.method, pathWith(operation, ownerObjects), {
          ...sent,
          ...credentials,
        });
        if (/^(unauthorized|forbidden|not_found|device_not_found)/.test(message)) {
          refused.push(`${nameOf(operation)}: ${message}`);
        }
      }
      expect(refused).toEqual([]);
    });
  });

  // Nothing in it depends on the way in.
  if (way !== ways[0]) return;

  describe('machines of ours', () => {
    it('are let in by their own secret alone', async () => {
      const { bridgeSecrets, brokerHookSecrets } = readConfig(env);
      const routes = createApp().routes.filter(
        ({ method, path }) => method !== 'ALL' && /^\/(bridge|hooks|operator)\//.test(path),
      );
      expect(routes.length).toBeGreaterThan(8);
      const letIn: string[] = [];
      for (const { method, path } of routes) {
        const isBridge = path.startsWith('/bridge');
        const foreign = (isBridge ? brokerHookSecrets : bridgeSecrets)[0];
        const own = isBridge ? 'the secret of the bridge' : 'the secret of the broker';
        const attempts = path.includes(':secret')
          ? ['wrong', encodeURIComponent(foreign ?? ''), '%ZZ', ' '].map((secret) => [secret, {}] as const)
          : Object.entries({ ...badCredentials, [own]: {}, "a user's token": { token: owner.user.token } });
        for (const [what, credentials] of attempts) {
          const response = await send(method, path.replace(':secret', what), credentials);
          if (response.status !== 401) letIn.push(`${method} ${path} with ${what}: ${response.status}`);
        }
      }
      expect(letIn).toEqual([]);
    });

    it('are not let in by a relay upgrade either', async () => {
      const request = new Request('https://latchwork.test/bridge/link', { headers: { Upgrade: 'websocket' } });
      const response = await exports.default.fetch(request);
      expect(response.status).toBe(401);
      expect(response.webSocket).toBeNull();
    });
  });
});
