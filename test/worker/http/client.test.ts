// The typed client against the routes themselves: it calls them by their types and reads what they answer.
import { exports } from 'cloudflare:workers';
import { describe, expect, expectTypeOf, it } from 'vitest';
import {
  ApiError,
  createClient,
  dataOf,
  type Client,
  type ClientOptions,
  type Data,
} from '../../../client/src/http.ts';
import { createUser } from '../rig/clients/client.ts';

const connect = (credentials?: ClientOptions['credentials']) =>
  createClient('https://latchwork.test/', {
    fetch: (request) => exports.default.fetch(request),
    ...(credentials !== undefined && { credentials }),
  });

describe('the client', () => {
  it('knows what a route takes and answers', () => {
    type StatusCall = Client['devices'][':deviceId']['status']['$get'];
    expectTypeOf<Parameters<StatusCall>[0]>().toEqualTypeOf<{ param: { deviceId: string } }>();
    expectTypeOf<Data<StatusCall>['online']>().toEqualTypeOf<boolean>();
    expectTypeOf<Data<StatusCall>['position']>().toEqualTypeOf<'up' | 'middle' | 'down' | null>();
  });

  it('sends bodies, queries and names, and returns the data', async () => {
    const { token } = await createUser();
    const client = connect({ token });
    const productKey = `switch-${crypto.randomUUID()}`;
    const json = { productKey, name: 'Switch', category: 'a b&c' };
    expect(await dataOf(client.products.$post({ json }))).toMatchObject({ productKey, name: 'Switch' });
    const page = await dataOf(client.products.$get({ query: { category: 'a b&c', size: '5' } }));
    expect(page).toMatchObject({ total: 1, page: 1, size: 5, list: [{ productKey }] });
    const deleted = dataOf(client.products[':productKey'].$delete({ param: { productKey } }));
    expect(await deleted).toEqual({ productKey });
  });

  it('signs in with an API key as well', async () => {
    const user = await createUser();
    const key = await dataOf(connect({ token: user.token }).users['api-keys'].$post({ json: {} }));
    expect(await dataOf(connect(key).users.me.$get())).toMatchObject({ userId: user.userId });
  });

  it('throws what was refused, by its documented word', async () => {
    const client = connect({ token: (await createUser()).token });
    const unknown = client.products[':productKey'].$get({ param: { productKey: 'nothing' } });
    await expect(dataOf(unknown)).rejects.toMatchObject({ code: 404, reason: 'not_found' });
    const refused = dataOf(client.products.$get({ query: { page: 'x' } }));
    await expect(refused).rejects.toBeInstanceOf(ApiError);
    await expect(refused).rejects.toMatchObject({ code: 400, reason: 'invalid_request' });
    await expect(dataOf(connect().users.me.$get())).rejects.toMatchObject({ code: 401, reason: 'unauthorized' });
  });
});
