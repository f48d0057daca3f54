// Who follows what on the relay, by the same table as the routes (authorization-matrix.test.ts), and who may call the routes
// that only machines of ours use. Nothing of it depends on the way in which a device is connected.
import { env } from 'cloudflare:workers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createApp } from '../../../src/app.ts';
import { readConfig } from '../../../src/config.ts';
import { hasRight, scopes, scopesFor, type Role } from '../../../src/domain/access.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import { createKey, prepareCallers, ways, type Callers, type Key } from '../rig/authorization-callers.ts';
import { call, send, type TestUser } from '../rig/clients/client.ts';
import { itemOf, openRelay, report } from '../rig/clients/relay.ts';

let callers: Callers;
beforeAll(async () => {
  callers = await prepareCallers(ways[0]);
});
afterAll(() => callers.connection.close());

describe('the relay', () => {
  it('follows on the relay what the table allows', async () => {
    const { owner, stranger, ownerObjects, members, holder, claimed } = callers;
    const [one, other] = [ownerObjects['deviceId'] ?? '', claimed.deviceId];
    const roles: [Role | 'stranger', TestUser, deviceId: string][] = [
      ['owner', owner.user, one],
      ['operator', members.operator, one],
      ['viewer', members.viewer, one],
      ['stranger', stranger.user, one],
      ['owner', holder, other],
      ['product_owner', owner.user, other],
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

  it('gets of a subscription to everything what the table allows, the present state included', async () => {
    const { owner, ownerObjects, members, holder, claimed } = callers;
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
      if (mayFollow) expect(await socket.next()).toMatchObject({ topic, payload: { params: { position: 'down' } } });
      expect(await socket.ask({ action: 'unsubscribe', topic: filter })).toMatchObject({ action: 'unsubscribe' });
      socket.close();
    }
  });

  it('is no API key at the relay that the table does not name for it, nor one for another product', async () => {
    const { owner, ownerObjects, scopedKeys, keyOfOtherProduct, badCredentials } = callers;
    const topic = `/sys/${ownerObjects['productKey']}/${ownerObjects['deviceId']}/#`;
    const signIn = async ({ keyId, apiKey }: Key) => {
      const socket = await openRelay();
      return { socket, answer: await socket.ask({ action: 'auth', apiKey: keyId, apiSecret: apiKey }) };
    };
    for (const scope of scopes) {
      const mayRead = scopesFor('readReports').includes(scope);
      const { socket, answer } = await signIn(scopedKeys[scope]);
      expect(answer, scope).toMatchObject(mayRead ? { code: 200 } : { code: 401, message: 'forbidden' });
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
});

it('machines of ours are let in by their own secret alone', async () => {
  const { badCredentials, owner } = callers;
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
