// Every route of the reference against inputs that are nearly right, wrong and hostile: never a 5xx, always the
// envelope, and nothing that the reference does not say. FUZZ_RUNS asks for more inputs, FUZZ_SEED for the same again.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { planFuzzing } from '../rig/fuzzing.ts';
import { hostileText, bodyTextFor, validFor } from '../rig/hostile-json.ts';
import { createSchemaCheck, resolve, type JsonSchema } from '../rig/json-schema.ts';
import { listOperations, type OpenApiDocument, type Operation } from '../rig/openapi-document.ts';
import { TestBridge } from '../rig/workerd/bridge.ts';
import { call, createUser, send, type CallOptions } from '../rig/workerd/client.ts';

const inputsAtOnce = 10;
const { batches, inputs, seed } = planFuzzing(0.3, inputsAtOnce);
/** What costs a hundred milliseconds of hashing: sent only as often as this where the body may be right. */
const costly = ['POST /api/v1/users/register', 'POST /api/v1/users/login', 'PUT /api/v1/users/password'];
const maxCostly = 20;

let document: OpenApiDocument;
let operations: Operation[];
let bridge: TestBridge;
let objects: Record<string, string>;
let credentials: CallOptions[];
let checkAnswer: ReturnType<typeof createSchemaCheck>;
let checkBody: ReturnType<typeof createSchemaCheck>;
let costlyCount = 0;

beforeAll(async () => {
  // A line a request is most of the time otherwise.
  vi.spyOn(console, 'info').mockImplementation(() => undefined);
  document = await (await send('GET', '/api/v1/openapi.json')).json<OpenApiDocument>();
  operations = listOperations(document).filter(({ tags }) => !/Reference|Health/.test(String(tags)));
  checkAnswer = createSchemaCheck(document, { isClosed: true });
  checkBody = createSchemaCheck(document, { isClosed: false });
  // So that commands are taken, not waited for.
  bridge = await TestBridge.dialIn();
  const { token } = await createUser();
  // The examples' product, so that bodies made from them activate devices.
  await call('POST', '/products', { token, body: { productKey: 'servo-switch', name: 'Servo switch' } });
  const key = (await call<{ keyId: string; apiKey: string }>('POST', '/users/api-keys', { token })).data;
  const productKey = `switch-${crypto.randomUUID()}`;
  await call('POST', '/products', { token, body: { productKey, name: 'Switch' } });
  const body = { productKey, deviceSN: 'SN-1' };
  const { deviceId } = (await call<{ deviceId: string }>('POST', '/devices/activate', { body })).data;
  objects = { productKey, deviceId, keyId: key.keyId };
  credentials = [{ token }, { token }, { token }, { key }, {}, { token: 'x.y.z' }];
});

afterAll(() => bridge.close());

type Input = {
  /** Its method and path, so that a report stays short. */
  operation: string;
  body: string | undefined;
  path: string;
  query: string;
  credentials: CallOptions;
  headers: Record<string, string>;
};

const nameOf = ({ method, path }: Operation) => `${method} ${path}`;

function inputFor(operation: Operation): fc.Arbitrary<Input> {
  const schema = operation.requestBody?.content['application/json']?.schema;
  const text = schema === undefined ? hostileText : bodyTextFor(resolve(document, schema) as JsonSchema);
  const names = [...operation.path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
  const ids = names.map((name) => objects[name] ?? '');
  // What is deleted once would be missing from then on.
  const isDelete = operation.method === 'DELETE';
  const parameters = ids.map((id) =>
    fc.oneof({ weight: isDelete ? 0 : 4, arbitrary: fc.constant(id) }, { weight: 1, arbitrary: hostileText }),
  );
  return fc.record({
    operation: fc.constant(nameOf(operation)),
    body: operation.method === 'GET' ? fc.constant(undefined) : fc.option(text, { nil: undefined, freq: 20 }),
    path: fc.tuple(...parameters).map((values) => fill(operation.path, names, values)),
    query: queryFor(operation),
    credentials: fc.nat(5).map((index) => credentials[index] ?? {}),
    headers: hostileHeaders,
  });
}

function fill(path: string, names: string[], values: string[]): string {
  return names.reduce((text, name, index) => text.replace(`{${name}}`, () => encode(values[index] ?? '')), path);
}

/** As a careless client would: some of what should be encoded is not. */
function encode(text: string): string {
  return encodeURIComponent(text.toWellFormed()).replaceAll('%25', '%').slice(0, 2_000);
}

function queryFor(operation: Operation): fc.Arbitrary<string> {
  // What holds an answer for seconds is tried by its wrong values alone.
  const known = (operation.parameters ?? []).filter((parameter) => parameter.in === 'query');
  const pairs = known.map(({ name, schema }) =>
    fc.oneof(
      { weight: 4, arbitrary: fc.constant('') },
      {
        weight: name === 'wait' ? 0 : 2,
        arbitrary: validFor(schema).map(
          (value) => `${name}=${encode(typeof value === 'string' ? value : JSON.stringify(value))}`,
        ),
      },
      { weight: 2, arbitrary: hostileText.map((text) => `${name}=${encode(text)}`) },
      { weight: 1, arbitrary: hostileText.map((text) => `${name}=0&${name}=1&${name}[]=2&${encode(text)}=3`) },
    ),
  );
  return fc.tuple(...pairs).map((parts) => parts.filter((part) => part !== '').join('&'));
}

const headerText = fc.string({ maxLength: 60 }).map((text) => text.replaceAll(/[^\x20-\x7e]/g, '').trim());
const hostileHeaders: fc.Arbitrary<Record<string, string>> = fc.oneof(
  { weight: 6, arbitrary: fc.constant({}) },
  {
    weight: 2,
    arbitrary: fc.record(
      {
        'Content-Type': fc.constantFrom('text/plain', 'application/json; charset=utf-16', 'multipart/form-data', ''),
        'X-Request-Id': headerText,
        Origin: fc.constantFrom('https://app.test', 'null', 'https://elsewhere.test'),
        'CF-Connecting-IP': fc.oneof(headerText, fc.constantFrom('::', '::1', '2001:db8::1', '1.2.3.4')),
        'Idempotency-Key': headerText,
        'Content-Length': fc.constantFrom('0', '99999999'),
      },
      { requiredKeys: [] },
    ),
  },
  { weight: 1, arbitrary: headerText.map((text) => ({ Authorization: text })) },
  { weight: 1, arbitrary: headerText.map((text) => ({ 'X-API-Key': text, 'X-API-Secret': text })) },
);

async function judge(input: Input): Promise<void> {
  const { body, path, query, credentials: given, headers } = input;
  const operation = operations.find((candidate) => nameOf(candidate) === input.operation)!;
  if (isTooCostly(operation, body)) return;
  const options = { ...given, ...(body === undefined ? {} : { body }), headers };
  const url = query === '' ? path : `${path}?${query}`;
  const response = await send(operation.method, url, options);
  const what = `${operation.method} ${url.slice(0, 300)} ${body?.slice(0, 300) ?? ''}`;
  const text = await response.text();
  expect(response.headers.get('Content-Type'), what).toMatch(/^application\/json/);
  expect(response.headers.get('X-Request-Id'), what).toMatch(/^[A-Za-z0-9._-]{1,64}$/);
  const answer = JSON.parse(text) as { code: number; message: string; data: unknown };
  // An object's name that is spoiled may lead to another route, or to none.
  if (answer.message === 'not_found' && response.status === 404) {
    expect(answer, what).toEqual({ code: 404, message: 'not_found', data: null });
    return;
  }
  expect(answer.message, what).not.toMatch(/^(internal_error|broker_unavailable)/);
  expect(response.status, what).toBeLessThan(500);
  expect(new TextEncoder().encode(answer.message).length, what).toBeLessThanOrEqual(200);
  // Dots in a name lead to another route, as they do everywhere.
  if (new URL(path, 'https://latchwork.test').pathname !== path) return;
  const said = operation.responses[String(response.status)]?.content?.['application/json']?.schema;
  expect(said, `${what}: ${response.status} ${answer.message}`).toBeDefined();
  expect(checkAnswer(said!, answer), what).toEqual([]);
}

function isTooCostly(operation: Operation, body: string | undefined): boolean {
  if (!costly.includes(nameOf(operation))) return false;
  const schema = operation.requestBody?.content['application/json']?.schema;
  if (schema === undefined || body === undefined || checkBody(schema, parse(body)).length > 0) return false;
  costlyCount += 1;
  return costlyCount > maxCostly;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

describe('every route', () => {
  it(`answers ${inputs} inputs as the reference says (seed ${seed})`, { timeout: 600_000 }, async () => {
    const input = fc.oneof(...operations.map(inputFor));
    const batch = fc.array(input, { minLength: inputsAtOnce, maxLength: inputsAtOnce });
    await fc.assert(
      fc.asyncProperty(batch, async (tried) => {
        await Promise.all(tried.map(judge));
      }),
      { numRuns: batches, seed },
    );
  });

  it('works as before afterwards', async () => {
    const { token } = await createUser();
    const productKey = `after-${crypto.randomUUID()}`;
    expect(await call('POST', '/products', { token, body: { productKey, name: 'Switch' } })).toMatchObject({
      code: 200,
    });
    expect(await call('GET', '/products', { token })).toMatchObject({ data: { total: 1 } });
    expect(({} as { userId?: number }).userId).toBeUndefined();
  });
});
