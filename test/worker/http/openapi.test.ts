// The OpenAPI document against the app it is made from. That a public validator accepts it, and that answers match it,
// is for test/conformance to show.
import { beforeAll, expect, it } from 'vitest';
import { createApp } from '../../../src/app.ts';
import { statusByError } from '../../../src/protocol/error-status.ts';
import { createSchemaCheck, resolve, type JsonSchema } from '../../../rig/inputs/json-schema.ts';
import {
  exampleBody,
  listOperations,
  type OpenApiDocument,
  type Operation,
} from '../../../rig/inputs/openapi-document.ts';
import { call, send } from '../rig/clients/client.ts';

let document: OpenApiDocument;
let operations: Operation[];

beforeAll(async () => {
  document = await (await send('GET', '/api/v1/openapi.json')).json<OpenApiDocument>();
  operations = listOperations(document);
});

const nameOf = ({ method, path }: Operation) => `${method} ${path}`;
const messagesOf = (operation: Operation) =>
  Object.values(operation.responses).flatMap(({ content }) =>
    Object.keys(content?.['application/json']?.examples ?? {}),
  );

it('names every route of the interface, and health, and no other', () => {
  const routes = createApp().routes.filter(({ method }) => method !== 'ALL');
  const described = routes
    .map(({ method, path }) => `${method} ${path.replaceAll(/:(\w+)/g, '{$1}')}`)
    .filter((name) => / (\/api\/v1\/|\/t\/|\/health$)/.test(name));
  expect(operations.map(nameOf).sort()).toEqual([...new Set(described)].sort());
});

it('may be kept by caches and read by tools of any kind', async () => {
  const response = await send('GET', '/api/v1/openapi.json', { headers: { Origin: 'https://app.test' } });
  expect(response.headers.get('Cache-Control')).toBe('public, max-age=300');
  expect(response.headers.get('Access-Control-Allow-Origin')).toBe('https://app.test');
});

it('says of each operation what it does, under a tag that is explained and an id of its own', () => {
  const tags = document.tags.map(({ name }) => name);
  for (const operation of operations) {
    expect(operation.summary, nameOf(operation)).toMatch(/^[A-Z]/);
    expect(
      operation.tags?.filter((tag) => tags.includes(tag)),
      nameOf(operation),
    ).toHaveLength(1);
  }
  expect(new Set(operations.map(({ operationId }) => operationId)).size).toBe(operations.length);
});

it('tells the refusals of every operation that asks who calls or reads a body', () => {
  for (const operation of operations) {
    const messages = messagesOf(operation);
    expect(messages, nameOf(operation)).toContain('internal_error');
    expect(operation.security, nameOf(operation)).toBeDefined();
    if (operation.security?.length !== 0) expect(messages, nameOf(operation)).toContain('unauthorized');
    const ofWrites = operation.method === 'GET' ? [] : ['invalid_request', 'forbidden'];
    expect(messages, nameOf(operation)).toEqual(expect.arrayContaining(ofWrites));
  }
});

it('names every error of the service but those that only devices and brokers meet', () => {
  const named = new Set(operations.flatMap(messagesOf));
  const ofDevices = ['invalid_client_id', 'campaign_paused', 'update_ended'];
  expect(Object.keys(statusByError).filter((message) => !named.has(message))).toEqual(ofDevices);
  for (const operation of operations) {
    for (const message of messagesOf(operation)) {
      const status = String(statusByError[message as keyof typeof statusByError]);
      expect(operation.responses[status], `${nameOf(operation)} ${message}`).toBeDefined();
    }
  }
});

it('refuses unknown members of a body by their name, but for those that the contract lets clients send', async () => {
  const open = operations.filter(({ requestBody }) => {
    const schema = resolve(
      document,
      requestBody?.content['application/json']?.schema ?? { additionalProperties: false },
    );
    return (schema as JsonSchema)['additionalProperties'] !== false;
  });
  expect(open.map(nameOf).sort()).toEqual([
    'POST /api/v1/devices/activate',
    'POST /api/v1/devices/{deviceId}/control',
    'POST /api/v1/products',
    'POST /api/v1/users/login',
    'POST /api/v1/users/refresh-token',
    'POST /api/v1/users/register',
    'POST /t/{token}/api/v1/devices/activate',
    'PUT /api/v1/products/{productKey}',
  ]);
  for (const body of [{ email: 'a@b.test', mail: 1 }, { mail: 1 }]) {
    expect(await call('POST', '/users/password-reset', { body })).toMatchObject({
      status: 400,
      message: 'invalid_request: mail: unknown member',
    });
  }
});

it('gives an example of every body that is sent, and each example is one', () => {
  const check = createSchemaCheck(document, { isClosed: false });
  for (const operation of operations) {
    const body = operation.requestBody?.content['application/json'];
    if (body === undefined) continue;
    for (const { value } of Object.values(body.examples ?? {})) {
      expect(check(body.schema, value), nameOf(operation)).toEqual([]);
    }
    const example = exampleBody(document, operation);
    expect(example, nameOf(operation)).toBeDefined();
    expect(check(body.schema, example), nameOf(operation)).toEqual([]);
  }
});

it('gives examples of every error, and each is one', () => {
  const check = createSchemaCheck(document, { isClosed: true });
  for (const operation of operations) {
    for (const { content } of Object.values(operation.responses)) {
      const { schema, examples = {} } = content?.['application/json'] ?? {};
      for (const { value } of Object.values(examples)) {
        expect(check(schema!, value), nameOf(operation)).toEqual([]);
      }
    }
  }
});
