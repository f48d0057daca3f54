// How the conformance suite talks to the service: every answer is held against the served reference before a test sees
// it, status, members and all. Users and devices are made through the interface, as anybody would.
import { randomUUID } from 'node:crypto';
import { expect, inject } from 'vitest';
import { createClient, dataOf, type Client, type ClientOptions, type Data } from '../../src/client.ts';
import { createSchemaCheck } from './json-schema.ts';
import { listOperations, type OpenApiDocument, type Operation } from './openapi-document.ts';

export const service = inject('service');

const document = (await (await fetch(`${service.url}/api/v1/openapi.json`)).json()) as OpenApiDocument;
const operations = listOperations(document);
const check = createSchemaCheck(document, { isClosed: true });

export type Answer = { status: number; headers: Headers; code: number; message: string; data: unknown };

export type AskOptions = {
  headers?: Record<string, string>;
  /** Sent as JSON; a string is sent as it is. */
  body?: unknown;
};

/** Asks below `/api/v1`, or anywhere where the path says so, and holds the answer against the reference. */
export async function ask(method: string, path: string, { headers = {}, body }: AskOptions = {}): Promise<Answer> {
  const below = path.startsWith('/api/') || path === '/health' ? path : `/api/v1${path}`;
  const response = await fetch(`${service.url}${below}`, {
    method,
    headers: { ...(body !== undefined && { 'Content-Type': 'application/json' }), ...headers },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  return judge(method, below, response);
}

/** @throws AssertionError for an answer that the reference does not describe */
async function judge(method: string, path: string, response: Response): Promise<Answer> {
  expect(response.headers.get('Content-Type')).toBe('application/json');
  const answer = (await response.json()) as { code: number; message: string; data: unknown };
  holdToReference(method, path, response.status, answer);
  return { status: response.status, headers: response.headers, ...answer };
}

export function holdToReference(method: string, path: string, status: number, answer: unknown): void {
  const asked = `${method} ${path}`;
  const operation = findOperation(method, path.split('?', 1)[0] ?? '');
  if (operation === undefined) {
    expect(answer, asked).toEqual({ code: 404, message: 'not_found', data: null });
    return;
  }
  const said = operation.responses[String(status)]?.content?.['application/json']?.schema;
  expect(said, `${asked} is not said to answer ${status} ${JSON.stringify(answer)}`).toBeDefined();
  expect(check(said ?? {}, answer), asked).toEqual([]);
}

function findOperation(method: string, path: string): Operation | undefined {
  const fitting = operations.filter((operation) => {
    const pattern = operation.path.replaceAll(/\{\w+\}/g, '[^/]+');
    return operation.method === method && new RegExp(`^${pattern}$`).test(path);
  });
  // `/devices/activate` before `/devices/{deviceId}`.
  return fitting.find((operation) => operation.path === path) ?? fitting[0];
}

export function connect(credentials?: ClientOptions['credentials']): Client {
  return createClient(service.url, {
    ...(credentials !== undefined && { credentials }),
    fetch: async (request) => {
      const response = await fetch(request);
      await judge(request.method, new URL(request.url).pathname, response.clone());
      return response;
    },
  });
}

export type Session = Data<Client['users']['login']['$post']> & { email: string; password: string; api: Client };

/** A new user, registered and logged in. */
export async function signUp(): Promise<Session> {
  const email = `${randomUUID()}@example.test`;
  const password = `correct horse ${randomUUID()}`;
  const api = connect();
  await dataOf(api.users.register.$post({ json: { username: email, password, email } }));
  const session = await dataOf(api.users.login.$post({ json: { username: email, password } }));
  return { ...session, email, password, api: connect({ token: session.token }) };
}

export const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });
export const keyPair = ({ keyId, apiKey }: { keyId: string; apiKey: string }) => ({
  'X-API-Key': keyId,
  'X-API-Secret': apiKey,
});

/** A product key that nobody has. */
export function newProductKey(): string {
  return `switch-${randomUUID()}`;
}

export type Activation = Data<Client['devices']['activate']['$post']>;

export async function addProduct(session: Session, controlMode: 'toggle' | 'readonly' = 'toggle'): Promise<string> {
  const productKey = newProductKey();
  await dataOf(session.api.products.$post({ json: { productKey, name: 'Servo switch', controlMode } }));
  return productKey;
}

export function activate(productKey: string, deviceSN = 'SN-0001'): Promise<Activation> {
  return dataOf(connect().devices.activate.$post({ json: { productKey, deviceSN } }));
}

/** A device of a product of its own. */
export async function newDevice(session: Session): Promise<Activation> {
  return activate(await addProduct(session));
}
