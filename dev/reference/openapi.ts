// The OpenAPI document, made from the routes when the Worker is built (dev/build/reference.js). Adds what the routes do not
// say: titles, schemes and names. No part of the Worker.
import type { OpenAPIHono } from '@hono/zod-openapi';
import { errorAnswers } from '../../src/http/envelope.ts';
import type { AppEnv } from '../../src/http/router.ts';
import type { ErrorMessage } from '../../src/protocol/error-status.ts';

const info = {
  contact: { name: 'The operator of this service' },
  license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
  description: [
    'Users, their catalogue of products, and the devices that activate against it: list them, look at them, control them.',
    'Every answer is the envelope `{code, message, data}`, and its `code` is the HTTP status. `message` begins with ' +
      'one of the words a route lists; a detail for people may follow after a colon. Every answer carries ' +
      '`X-Request-Id`, which the logs know too. Bodies are JSON of at most 64 KiB.',
    'What devices and subscribers exchange over MQTT, WebSocket and Bluetooth is in the AsyncAPI document, ' +
      '`/api/v1/asyncapi.json`. What only the broker and its bridge call, `/hooks` and `/bridge`, is no part of this ' +
      'interface.',
  ].join('\n\n'),
};

/** What most applications use comes first. */
const tags = [
  { name: 'Signing in', description: 'Make an account, and get the tokens that other calls need.' },
  { name: 'Devices', description: 'Activated by themselves; listed, controlled and deleted by their owner.' },
  { name: 'Commands', description: 'Sent to a device, and followed until it replied or a report shows the result.' },
  { name: 'Groups', description: 'Devices by their ids or by a tag, and what is true of them now.' },
  { name: 'Scenes', description: 'One command for each of several devices.' },
  { name: 'Bulk', description: 'A command for many devices, with an outcome for each.' },
  { name: 'Webhooks', description: 'Events of devices, sent to an address of yours by Standard Webhooks 1.0.' },
  { name: 'Notices', description: 'What you are told without asking: an inbox, and messages to your browsers.' },
  { name: 'Schedules', description: 'Commands at set times, each with an outcome, and the end of a lease.' },
  { name: 'Usage', description: 'How long a device was on, what pressed it, and what it reported over time.' },
  { name: 'Witness', description: 'Something else that sees whether a press worked.' },
  { name: 'Products', description: 'Kinds of devices.' },
  { name: 'Firmware', description: 'Signed by its maker, and brought to the devices of a product wave by wave.' },
  { name: 'Sharing', description: 'With whom an owner shares a device: members, and people with a guest link.' },
  { name: 'Ownership', description: 'Whose a device is: claimed, released, offered; and when it may be paired again.' },
  { name: 'API keys', description: 'For machines: on products, devices and `/users/me`. Managed in person.' },
  { name: 'Users', description: 'Accounts and their sessions.' },
  { name: 'Health', description: 'For deployment checks and monitors.' },
  { name: 'Reference', description: 'These documents, for tools.' },
];

const securitySchemes = {
  bearerAuth: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT', description: 'The `token` of login or refresh.' },
  keyId: {
    type: 'apiKey',
    in: 'header',
    name: 'X-Key-Id',
    description:
      'The `keyId` (`ak_...`) of an API key. The pair `X-API-Key` and `X-API-Secret` works, too, either way round.',
  },
  apiKey: {
    type: 'apiKey',
    in: 'header',
    name: 'X-API-Key',
    description: 'The `apiKey` (`sk_...`) of the same API key.',
  },
} as const;

export function describeRoutes(app: OpenAPIHono<AppEnv>, version: string) {
  for (const definition of app.openAPIRegistry.definitions) {
    if (definition.type === 'route' && definition.route.method !== 'get')
      forbidCrossSite(definition.route.responses as Responses);
  }
  const servers = [{ url: '/', description: 'This server' }];
  const document = app.getOpenAPI31Document({
    openapi: '3.1.0',
    info: { title: 'Latchwork', version, ...info },
    tags,
    servers,
  });
  document.components = { ...document.components, securitySchemes };
  for (const [path, methods] of Object.entries(document.paths ?? {})) {
    for (const [method, operation] of Object.entries(methods) as [string, Operation][]) {
      operation.operationId = operationIds[`${method} ${path}`] ?? operationIdOf(method, path);
      // What needs no credentials says so.
      operation.security ??= [];
      operation.description ??= `${operation.summary ?? ''}.`;
      for (const parameter of operation.parameters ?? []) if (parameter.required !== true) leaveEmpty(parameter);
    }
  }
  return document;
}

type Responses = Record<string, { content?: { 'application/json'?: { examples?: object } } }>;

/** Every write from a page of another site is refused (src/http/cross-origin.ts). */
function forbidCrossSite(responses: Responses): void {
  const named = Object.values(responses).flatMap(({ content }) =>
    Object.keys(content?.['application/json']?.examples ?? {}),
  );
  Object.assign(responses, errorAnswers(...(named as ErrorMessage[]), 'forbidden'));
}

type Parameter = { required?: boolean; description?: string; example?: unknown; schema?: { example?: unknown } };
type Operation = {
  operationId?: string;
  summary?: string;
  description?: string;
  security?: object[];
  parameters?: Parameter[];
};

/** "Try it out" sends every example: that of an optional parameter moves into its description. */
function leaveEmpty(parameter: Parameter): void {
  const example = parameter.example ?? parameter.schema?.example;
  delete parameter.example;
  delete parameter.schema?.example;
  if (example === undefined) return;
  const text = typeof example === 'string' ? example : JSON.stringify(example);
  parameter.description = [parameter.description, `Example: \`${text}\`.`].filter(Boolean).join(' ');
}

/** Names for operations whose method and path make no good name. */
const operationIds: Record<string, string> = {
  'get /api/v1/users/me': 'readAccount',
  'put /api/v1/users/password': 'changePassword',
  'post /api/v1/users/password-reset': 'sendPasswordReset',
  'put /api/v1/users/password-reset': 'resetPassword',
  'post /api/v1/devices/{deviceId}/control': 'sendCommand',
  'post /api/v1/products/{productKey}/firmware': 'addFirmware',
  'put /api/v1/products/{productKey}/firmware/{version}/image': 'storeImage',
  'post /api/v1/products/{productKey}/campaigns/{campaignId}/{change}': 'changeCampaign',
  'post /t/{token}/api/v1/devices/activate': 'activateClaimedDevice',
  'post /api/v1/devices/{deviceId}/pairing-window': 'openPairingWindow',
};

const verbs: Record<string, string> = { get: 'read', post: 'create', put: 'replace', patch: 'change' };

/**
 * `get /devices` is `listDevices`, `get /devices/{deviceId}/status` is `readDeviceStatus`, and what is posted to a word that
 * is no list is done: `post /devices/activate` is `activateDevice`.
 */
function operationIdOf(method: string, path: string): string {
  const parts = path
    .replace(/^\/api\/v1/, '')
    .split('/')
    .filter(Boolean);
  const isItem = parts.at(-1)?.startsWith('{') === true;
  const words = parts
    .filter((part) => !part.startsWith('{'))
    .map((part) => part.replaceAll(/(?:^|[-.])([a-z])/g, (_, letter: string) => letter.toUpperCase()));
  const last = words.pop() ?? '';
  const isList = /[^su]s$/.test(last);
  const owners = words.map((word) => word.replace(/s$/, '')).join('');
  if (method === 'post' && !isList) return last.charAt(0).toLowerCase() + last.slice(1) + owners;
  const verb = method === 'get' && isList && !isItem ? 'list' : (verbs[method] ?? method);
  const isSingle = isList && (isItem || method === 'post');
  return verb + owners + (isSingle ? last.slice(0, -1) : last);
}
