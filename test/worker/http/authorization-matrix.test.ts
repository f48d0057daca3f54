// Every route that asks who calls, against everything that must not be let in: made from the served reference, so that
// a new route is in it from its first day. A refusal is the envelope with 401, or 403 and 404 for what is not yours.
import { env } from 'cloudflare:workers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hasRight, scopes, scopesFor, type Action, type DeviceAction, type Scope } from '../../../src/domain/access.ts';
import { forgetRevokedUsers } from '../../../src/objects/calls/revoked-users.ts';
import { memberRoles } from '../../../src/protocol/vocabulary.ts';
import { exampleBody, listOperations, type Operation } from '../../../rig/inputs/openapi-document.ts';
import { createKey, prepareCallers, ways, type Callers, type Key } from '../rig/authorization-callers.ts';
import { call, createUser, openSession, send, type CallOptions } from '../rig/clients/client.ts';
import { connectHome } from '../rig/clients/direct.ts';
import { openRelay } from '../rig/clients/relay.ts';

/** What everybody may call. A route that is neither here nor protected in the reference fails the first test. */
const openRoutes = [
  'GET /api/v1/asyncapi.json',
  'GET /api/v1/openapi.json',
  'GET /health',
  'POST /api/v1/devices/activate',
  'POST /api/v1/users/email-verification',
  'POST /api/v1/users/login',
  'POST /api/v1/users/password-reset',
  'POST /api/v1/users/refresh-token',
  'POST /api/v1/users/register',
  'POST /t/{token}/api/v1/devices/activate',
  'PUT /api/v1/users/password-reset',
];

const nameOf = ({ method, path }: Operation) => `${method} ${path}`;
const needsTwoScopes = ({ method, path }: Operation) => method === 'POST' && path.endsWith('/guest-links');
const scopesOf = (operation: Operation): readonly Scope[] => (operation['x-actions'] ?? []).flatMap(scopesFor);
const actionsOf = (operation: Operation): readonly Action[] => operation['x-actions'] ?? [];
/** What is offered to others is hidden from everybody else, the owner included. */
const isOffer = (operation: Operation) => actionsOf(operation).includes('answerOffers');
/** Also hidden: what belongs to an account, which only its user may name. */
const ofAccount = ['manageSessions', 'manageNotices', 'manageWebhooks', 'readCollections', 'manageCollections'];
const isHidden = (operation: Operation) =>
  isOffer(operation) ||
  /\{(bulkId|sceneId)\}/.test(operation.path) ||
  actionsOf(operation).some((action) => ofAccount.includes(action));
/** The owner cannot: only the product's owner, and only of a device that is another user's. */
const undoesClaim = (operation: Operation) => actionsOf(operation).includes('undoClaim');
const takesKeys = ({ security }: Operation) => security?.some((scheme) => 'apiKey' in scheme) === true;

function pathWith(operation: Operation, objects: Record<string, string>): string {
  const needed = operation.parameters?.filter((parameter) => parameter.in === 'query' && parameter.required) ?? [];
  const query = needed.map(({ name, schema }) => `?${name}=${String(schema['example'])}`).join('');
  const path = operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const id = objects[name];
    if (id === undefined) throw new Error(`no ${name} to try ${nameOf(operation)} with`);
    return encodeURIComponent(id);
  });
  return path + query;
}

let callers: Callers;

/** What the operations answered, if that is not the refusal it should be. */
async function lettingIn(
  operations: readonly Operation[],
  objects: Record<string, string>,
  credentials: CallOptions,
  refusals: RegExp,
): Promise<string[]> {
  const letIn: string[] = [];
  for (const operation of operations) {
    const body = exampleBody(callers.document, operation);
    // An empty body where one may be left out: logout would take the example for a session to end.
    const sent = operation.requestBody?.required === true ? { body } : {};
    const path = pathWith(operation, objects);
    const { status, code, message, data } = await call<unknown>(operation.method, path, { ...sent, ...credentials });
    const isRefused = refusals.test(`${code} ${message}`) && status === code && data === null;
    if (!isRefused) letIn.push(`${nameOf(operation)}: ${status} ${JSON.stringify({ code, message, data })}`);
  }
  return letIn;
}

describe.each(ways)('with a device connected %s', (way) => {
  beforeAll(async () => {
    callers = await prepareCallers(way);
  });
  afterAll(() => callers.connection.close());

  describe('who may call', () => {
    it('is asked by every route but those that are for everybody', () => {
      const { document, operations } = callers;
      const open = listOperations(document).filter(({ security }) => security?.length === 0);
      expect(open.map(nameOf).sort()).toEqual(openRoutes);
      expect(operations.length).toBeGreaterThan(12);
    });

    it('follows from the actions of the table, which every such route names', () => {
      const { operations } = callers;
      for (const operation of operations) {
        const actions = operation['x-actions'] ?? [];
        expect(actions, nameOf(operation)).not.toHaveLength(0);
        const needed = new Set(actions.flatMap((action) => scopesFor(action)));
        const named = (operation.security ?? []).flatMap((scheme) => scheme['apiKey'] ?? []);
        expect(named.toSorted(), nameOf(operation)).toEqual([...needed].toSorted());
      }
    });

    it('is nobody without valid credentials, on any route', async () => {
      const { operations, ownerObjects, badCredentials } = callers;
      for (const [what, credentials] of Object.entries(badCredentials)) {
        expect(await lettingIn(operations, ownerObjects, credentials, /^401 unauthorized$/), what).toEqual([]);
      }
    });

    it('is nobody whose session has ended, but for reads and commands, and nobody whose account is disabled', async () => {
      const { operations, owner, ownerObjects } = callers;
      const token = await openSession(owner.user.userId, 0, 'ended');
      await env.DB.prepare("delete from refresh_tokens where session_id = 'ended'").run();
      const isReadOrCommand = ({ method, 'x-actions': [action] = [] }: Operation) =>
        action === 'control' || (method === 'GET' && scopesFor(action as Action).length > 0);
      const withSession = operations.filter((one) => !isReadOrCommand(one) && !one.path.endsWith('/logout'));
      expect(withSession.length).toBeGreaterThan(30);
      expect(await lettingIn(withSession, ownerObjects, { token }, /^401 unauthorized: the session/)).toEqual([]);
      const gone = await createUser();
      const key = await createKey(gone);
      await env.DB.prepare('update users set disabled_at = ? where id = ?').bind(Date.now(), gone.userId).run();
      forgetRevokedUsers();
      expect(await lettingIn(operations, ownerObjects, gone, /^401 unauthorized: the account/)).toEqual([]);
      expect(await lettingIn(operations.filter(takesKeys), ownerObjects, { key }, /^401 unauthorized/)).toEqual([]);
    });

    it('is no API key where a user is wanted in person', async () => {
      const { operations, owner, ownerObjects } = callers;
      const inPerson = operations.filter((operation) => !takesKeys(operation));
      expect(inPerson.length).toBeGreaterThan(3);
      expect(await lettingIn(inPerson, ownerObjects, { key: owner.key }, /^401 unauthorized$/)).toEqual([]);
    });

    it('is no API key without a scope that the table names for it', async () => {
      const { operations, ownerObjects, scopedKeys } = callers;
      for (const scope of scopes) {
        const others = operations.filter((one) => takesKeys(one) && !scopesOf(one).includes(scope));
        const key = scopedKeys[scope];
        expect(await lettingIn(others, ownerObjects, { key }, /^403 forbidden$/), scope).toEqual([]);
      }
    });

    it('is no API key of another product, or for another device', async () => {
      const { operations, ownerObjects, keyOfOtherProduct: key, keyOfOtherDevice } = callers;
      const withProduct = operations.filter(({ path }) => /\{(deviceId|productKey)\}/.test(path)).filter(takesKeys);
      expect(withProduct.length).toBeGreaterThan(10);
      expect(await lettingIn(withProduct, ownerObjects, { key }, /^403 forbidden$/)).toEqual([]);
      expect(await lettingIn(withProduct, ownerObjects, { key: keyOfOtherDevice }, /^403 forbidden$/)).toEqual([]);
      const withoutIds = operations.filter((one) => takesKeys(one) && !one.path.includes('{'));
      // Each of them is tried below, in authorization-views.test.ts, webhooks.test.ts, bulk.test.ts or collections.test.ts.
      const reads = ['GET devices', 'GET groups', 'GET products', 'GET scenes', 'GET users/me', 'GET webhooks'];
      const writes = ['POST groups', 'POST products', 'POST scenes', 'POST webhooks'];
      const tried = [...reads, 'POST commands', 'POST devices/claim-tokens', ...writes];
      expect(withoutIds.map((one) => nameOf(one).replace('/api/v1/', '')).sort()).toEqual(tried);
      const lists = await Promise.all(['/devices', '/products'].map((path) => call('GET', path, { key })));
      expect(lists).toMatchObject([{ data: { total: 0, list: [] } }, { data: { total: 1 } }]);
      const made = { productKey: 'made-by-key', name: 'Made' };
      expect(await call('POST', '/products', { key, body: made })).toMatchObject({ code: 403 });
      const { token } = (await call<{ token: string }>('POST', '/devices/claim-tokens', { key })).data;
      const body = { productKey: ownerObjects['productKey'], deviceSN: 'SN-claimed-by-key' };
      const claim = await call('POST', `/t/${token}/api/v1/devices/activate`, { body });
      expect(claim).toMatchObject({ code: 400, message: 'invalid_claim_token' });
    });

    it('is no other user, with a token or an API key, for what is not theirs, claimed or not', async () => {
      const { operations, stranger, ownerObjects, missingObjects, unclaimed } = callers;
      const withObjects = operations.filter(({ path }) => path.includes('{'));
      expect(withObjects.length).toBeGreaterThan(6);
      const hidden = withObjects.filter(isHidden);
      const others = withObjects.filter((operation) => !isHidden(operation));
      const byKey = withObjects.filter(takesKeys);
      const { key } = stranger;
      const { token } = stranger.user;
      const missing = /^404 (device_)?not_found$/;
      const letIn = [
        await lettingIn(hidden, ownerObjects, { token }, /^404 not_found$/),
        await lettingIn(withObjects, missingObjects, { token }, missing),
        await lettingIn(byKey, missingObjects, { key }, missing),
        await lettingIn(byKey.filter(isHidden), ownerObjects, { key }, /^404 not_found$/),
      ];
      for (const objects of [ownerObjects, { ...ownerObjects, deviceId: unclaimed.deviceId }]) {
        letIn.push(await lettingIn(others, objects, { token }, /^403 forbidden$/));
        letIn.push(
          await lettingIn(
            byKey.filter((one) => !isHidden(one)),
            objects,
            { key },
            /^403 forbidden$/,
          ),
        );
      }
      expect(letIn.flat()).toEqual([]);
    });

    it('is a member of a device for what the table allows the role, and for nothing else', async () => {
      const { ownerObjects, operations, members } = callers;
      const onDevice = operations.filter((one) => one.path.includes('{deviceId}') && !isOffer(one));
      const wrong: string[] = [];
      for (const role of memberRoles) {
        const { token } = members[role];
        // Only the own membership may be given up: here it is that of another member.
        const userId = String(members[role === 'viewer' ? 'operator' : 'viewer'].userId);
        for (const operation of onDevice) {
          const mayDo = actionsOf(operation).some((one) => one !== 'leave' && hasRight(role, one as DeviceAction));
          const answers = await lettingIn([operation], { ...ownerObjects, userId }, { token }, /^403 forbidden$/);
          if (mayDo !== answers.length > 0) wrong.push(`${role} ${mayDo ? 'may' : 'may not'}: ${nameOf(operation)}`);
        }
      }
      expect(wrong).toEqual([]);
    });

    it('is the owner of the product of a claimed device for what the table allows, and for nothing else', async () => {
      const { ownerObjects, operations, owner, claimed } = callers;
      const wrong: string[] = [];
      const onDevice = operations.filter((one) => one.path.includes('{deviceId}') && !isOffer(one));
      // At last, and in person: it makes the device the owner's own.
      const byUndoing = onDevice.toSorted((one, other) => Number(undoesClaim(one)) - Number(undoesClaim(other)));
      const objects = { ...ownerObjects, deviceId: claimed.deviceId };
      for (const credentials of [{ key: owner.key }, { token: owner.user.token }]) {
        for (const operation of byUndoing) {
          if ('key' in credentials && !takesKeys(operation)) continue;
          const mayDo = actionsOf(operation).some((one) => hasRight('product_owner', one as DeviceAction));
          // The example renames as well, which is another right.
          const body = mayDo ? { body: { disabled: false } } : {};
          const answers = await lettingIn([operation], objects, { ...credentials, ...body }, /^403 forbidden$/);
          if (mayDo !== answers.length > 0) wrong.push(`${mayDo ? 'may' : 'may not'}: ${nameOf(operation)}`);
          if (mayDo && !undoesClaim(operation))
            expect(await lettingIn([operation], objects, credentials, /^403 forbidden$/)).toEqual([]);
        }
      }
      expect(wrong).toEqual([]);
    });

    it('is nobody who has a guest link, but for its page', async () => {
      const { owner, device, ownerObjects, badCredentials, guestToken } = callers;
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

    it('changed nothing by trying', async () => {
      const { owner, ownerObjects, scopedKeys, keyOfOtherProduct, keyOfOtherDevice } = callers;
      const { token } = owner.user;
      const { productKey, deviceId } = ownerObjects;
      expect(await call('GET', `/products/${productKey}`, { token })).toMatchObject({ data: { name: 'Switch' } });
      expect(await call('GET', `/devices/${deviceId}`, { token })).toMatchObject({ data: { deviceSN: 'SN-matrix-1' } });
      expect(await call('GET', '/users/me', { key: owner.key })).toMatchObject({ data: { userId: owner.user.userId } });
      const { list } = (await call<{ list: Key[] }>('GET', '/users/api-keys', { token })).data;
      const made = [owner.key, ...Object.values(scopedKeys), keyOfOtherProduct, keyOfOtherDevice];
      expect(list.map(({ keyId }) => keyId).toSorted()).toEqual(made.map(({ keyId }) => keyId).toSorted());
    });

    it('is a device by its messaging password alone, and by nothing that opens another door', async () => {
      const { owner, device, badCredentials } = callers;
      const { isLetIn } = callers.connection;
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

    it('is at a home by an API key that may read, and by nothing that opens another door', async () => {
      const { owner, stranger, device, badCredentials, scopedKeys } = callers;
      const isLetIn = async (name = '', password = '') => {
        const { client, connack } = await connectHome({ keyId: name, apiKey: password });
        client.drop();
        return connack.body[1] === 0;
      };
      const letIn: string[] = [];
      for (const [what, { token, key = owner.key }] of Object.entries(badCredentials)) {
        const value = token ?? (key === owner.key ? '' : key.apiKey);
        if (await isLetIn(key.keyId, value === owner.key.apiKey ? stranger.key.apiKey : value)) letIn.push(what);
      }
      if (await isLetIn(device.mqtt.username, device.mqtt.password)) letIn.push('a device');
      if (await isLetIn(scopedKeys.control.keyId, scopedKeys.control.apiKey)) letIn.push('a key that may not read');
      expect(letIn).toEqual([]);
      expect(await isLetIn(owner.key.keyId, owner.key.apiKey)).toBe(true);
    });

    it('lets the owner in everywhere, which proves the refusals above', async () => {
      const { document, operations, owner, ownerObjects, scopedKeys } = callers;
      const refused: string[] = [];
      // The operator above has removed the schedule.
      const body = { command: { action: 'trigger' }, at: '07:30', zone: 'Europe/Berlin' };
      const made = { token: owner.user.token, body };
      const path = `/devices/${ownerObjects['deviceId']}/schedules`;
      ownerObjects['scheduleId'] = (await call<{ scheduleId: string }>('POST', path, made)).data.scheduleId;
      const witness = { expect: 'on', by: { checkIn: true }, withinSeconds: 9, then: 'nothing' };
      await call('PUT', path.replace('schedules', 'witness'), { ...made, body: witness });
      // A release takes away like a deletion.
      const isDelete = ({ method, path }: Operation) => method === 'DELETE' || path.endsWith('/release');
      const deletions = operations.filter(isDelete).sort((one, other) => other.path.length - one.path.length);
      // What deletions take away is asked for before, and the key that does not survive them is not used for them.
      for (const operation of [...operations.filter((one) => !isDelete(one)), ...deletions]) {
        // Ending a lease needs one, a redelivery events: schedules.test.ts, webhooks.test.ts.
        if (/\/(lease|redeliver)$/.test(operation.path) || undoesClaim(operation)) continue;
        if (isOffer(operation) && operation.method !== 'GET') continue;
        const body = exampleBody(document, operation);
        const sent = operation.requestBody?.required === true ? { body } : {};
        // The operation before may have ended it.
        await openSession(owner.user.userId);
        // By a key that has no other scope than the one it takes. Making a guest link takes two.
        const [scope] = isDelete(operation) || needsTwoScopes(operation) ? [] : scopesOf(operation);
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
});
