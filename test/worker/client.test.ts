// The typed client against the routes themselves: it knows each of them, by the same types, and calls it.
import { exports } from 'cloudflare:workers';
import type { ExtractSchema } from 'hono/types';
import { describe, expect, expectTypeOf, it } from 'vitest';
import type { Api } from '../../src/app.ts';
import { ApiError, createClient, type Answer, type ClientOptions, type OperationName } from '../../src/client.ts';
import { createUser } from '../rig/workerd/client.ts';

type Routes = ExtractSchema<Api>;
type InBraces<Path extends string> = Path extends `${infer Head}/:${infer Name}/${infer Tail}`
  ? `${Head}/{${Name}}${InBraces<`/${Tail}`>}`
  : Path extends `${infer Head}/:${infer Name}`
    ? `${Head}/{${Name}}`
    : Path;
type NameOf<Path, Method> = Path extends string
  ? Method extends `$${infer Verb}`
    ? `${Uppercase<Verb>} ${InBraces<Path>}`
    : never
  : never;
type DataOf<Route> = Route extends { output: { code: 200; data: infer Data } } ? Data : never;
type DataByName = {
  [Path in keyof Routes as NameOf<Path, keyof Routes[Path]>]: never;
} extends infer Names
  ? {
      [Name in keyof Names]: {
        [Path in keyof Routes]: {
          [Method in keyof Routes[Path]]: NameOf<Path, Method> extends Name ? DataOf<Routes[Path][Method]> : never;
        }[keyof Routes[Path]];
      }[keyof Routes];
    }
  : never;

const connect = (credentials?: ClientOptions['credentials']) =>
  createClient('https://latchwork.test/', {
    fetch: (request) => exports.default.fetch(request),
    ...(credentials !== undefined && { credentials }),
  });

describe('the client', () => {
  it('knows every route, and what it answers', () => {
    expectTypeOf<OperationName>().toEqualTypeOf<keyof DataByName>();
    expectTypeOf<{ [Name in OperationName]: Answer<Name> }>().toEqualTypeOf<DataByName>();
  });

  it('sends bodies, queries and names, and returns the data', async () => {
    const { token } = await createUser();
    const client = connect({ token });
    const productKey = `switch-${crypto.randomUUID()}`;
    const created = await client('POST /products', { body: { productKey, name: 'Switch', category: 'a b&c' } });
    expect(created).toMatchObject({ productKey, name: 'Switch' });
    const page = await client('GET /products', { query: { category: 'a b&c', size: 5 } });
    expect(page).toMatchObject({ total: 1, page: 1, size: 5, list: [{ productKey }] });
    expect(await client('DELETE /products/{productKey}', { params: { productKey } })).toEqual({ productKey });
  });

  it('signs in with an API key as well', async () => {
    const user = await createUser();
    const key = await connect({ token: user.token })('POST /users/api-keys');
    expect(await connect(key)('GET /users/me')).toMatchObject({ userId: user.userId });
  });

  it('throws what was refused, by its documented word', async () => {
    const client = connect({ token: (await createUser()).token });
    const names = { params: { productKey: 'a/../b?c' } };
    await expect(client('GET /products/{productKey}', names)).rejects.toMatchObject({ code: 404, reason: 'not_found' });
    const refused = client('GET /products', { query: { page: 'x' } });
    await expect(refused).rejects.toBeInstanceOf(ApiError);
    await expect(refused).rejects.toMatchObject({ code: 400, reason: 'invalid_request' });
    await expect(connect()('GET /users/me')).rejects.toMatchObject({ code: 401, reason: 'unauthorized' });
  });
});
