// How the conformance suite talks to the service. Every answer and relay frame is checked against the served documents
// before a test sees it. Users and devices are made through the interface, as anybody would.
import { expect, inject, onTestFinished } from 'vitest';
import { activate as activateBy, addProduct, signUp as register, type Activation, type Session } from './accounts.ts';
import { connectApi, type Api, type Credentials } from './api.ts';
import { createSchemaCheck, type JsonSchema } from '../inputs/json-schema.ts';
import { listOperations, type OpenApiDocument, type Operation } from '../inputs/openapi-document.ts';
import { MqttTestClient } from './mqtt-client.ts';
import { RelayClient, type Frame } from './relay-client.ts';

export const service = inject('service');

type AsyncApiDocument = { components: { messages: Record<string, { payload: JsonSchema }> } };
const [openApi, asyncApi] = (await Promise.all(
  ['openapi.json', 'asyncapi.json'].map(async (name) => (await fetch(`${service.url}/api/v1/${name}`)).json()),
)) as [OpenApiDocument, AsyncApiDocument];
const operations = listOperations(openApi);
const check = createSchemaCheck(openApi, { isClosed: true });
const checkFrame = createSchemaCheck(asyncApi, { isClosed: true });
const frameSchemas = ['AuthReply', 'SubscribeReply', 'UnsubscribeReply', 'Pong', 'Unreadable', 'Push'].map(
  (name) => asyncApi.components.messages[name]?.payload ?? {},
);

export type Answer = { status: number; headers: Headers; code: number; message: string; data: unknown };

export type AskOptions = {
  headers?: Record<string, string>;
  /** Sent as JSON; a string is sent as it is. */
  body?: unknown;
};

/** Asks below `/api/v1`, unless the path names another place, and checks the answer against the reference. */
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
  const request = `${method} ${path}`;
  const operation = findOperation(method, path.split('?', 1)[0] ?? '');
  if (operation === undefined) {
    expect(answer, request).toEqual({ code: 404, message: 'not_found', data: null });
    return;
  }
  const said = operation.responses[String(status)]?.content?.['application/json']?.schema;
  expect(said, `${request} is not said to answer ${status} ${JSON.stringify(answer)}`).toBeDefined();
  expect(check(said ?? {}, answer), request).toEqual([]);
}

function findOperation(method: string, path: string): Operation | undefined {
  const fitting = operations.filter((operation) => {
    const pattern = operation.path.replaceAll(/\{\w+\}/g, '[^/]+');
    return operation.method === method && new RegExp(`^${pattern}$`).test(path);
  });
  // `/devices/activate` before `/devices/{deviceId}`.
  return fitting.find((operation) => operation.path === path) ?? fitting[0];
}

export function connect(credentials?: Credentials): Api {
  return connectApi(service.url, credentials, async (request) => {
    const response = await fetch(request);
    await judge(request.method, new URL(request.url).pathname, response.clone());
    return response;
  });
}

/** A new user, registered and logged in. */
export function signUp(): Promise<Session> {
  return register(connect);
}

export const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });
export const keyPair = ({ keyId, apiKey }: { keyId: string; apiKey: string }) => ({
  'X-API-Key': keyId,
  'X-API-Secret': apiKey,
});

export function activate(productKey: string, deviceSN = 'SN-0001'): Promise<Activation> {
  return activateBy(connect(), productKey, deviceSN);
}

/** A device of a product of its own. */
export async function newDevice(session: Session): Promise<Activation> {
  return activate(await addProduct(session));
}

/** A device's MQTT client, by the way in that this run tries, until the test ends. */
export async function connectDevice(device: Activation): Promise<MqttTestClient> {
  const client = await MqttTestClient.ofDevice(mqttUrlOf(device), device);
  onTestFinished(() => client.leave());
  return client;
}

export function mqttUrlOf({ deviceId }: Pick<Activation, 'deviceId'>): string {
  return service.mqttUrl.replace('{deviceId}', deviceId);
}

/** A relay client until the test ends, whose every frame is checked against the served AsyncAPI document. */
export async function openRelay(headers: Record<string, string> = {}): Promise<RelayClient> {
  const onFrame = (frame: Frame, isBinary: boolean): void => {
    const fitting = frameSchemas.filter((schema) => checkFrame(schema, frame).length === 0);
    expect(isBinary || fitting.length === 0, JSON.stringify(frame)).toBe(false);
  };
  const relay = await RelayClient.open(service.url, { socket: { headers }, onFrame });
  onTestFinished(() => relay.close());
  return relay;
}
