// A client of the HTTP interface for whatever has `fetch`: applications, dev tools, tests. Its types are those of the
// schemas that the routes are made from; at run time it needs none of them. Keeps no session and retries nothing.
import type { JSONParsed } from 'hono/utils/types';
import type { z } from 'zod';
import type { controlBodySchema } from './protocol/control.ts';
import type {
  apiKeyBodySchema,
  apiKeyPageSchema,
  createdApiKeySchema,
  deletedApiKeySchema,
} from './protocol/http-api-keys.ts';
import type {
  commandPageSchema,
  commandReceiptSchema,
  commandSchema,
  controlQuerySchema,
} from './protocol/http-commands.ts';
import type {
  activateBodySchema,
  activationSchema,
  changeDeviceBodySchema,
  credentialsSchema,
  deletedDeviceSchema,
  deviceEventPageSchema,
  devicePageSchema,
  devicePropertiesSchema,
  deviceSchema,
  listDevicesQuerySchema,
  statusViewSchema,
} from './protocol/http-devices.ts';
import type {
  createdProductSchema,
  createProductBodySchema,
  deletedProductSchema,
  listProductsQuerySchema,
  productPageSchema,
  productSchema,
  updateProductBodySchema,
} from './protocol/http-products.ts';
import type {
  accountSchema,
  loggedOutSchema,
  loginBodySchema,
  logoutBodySchema,
  passwordBodySchema,
  passwordChangedSchema,
  refreshBodySchema,
  registerBodySchema,
  sessionSchema,
  tokenPairSchema,
  userSchema,
} from './protocol/http-users.ts';

type Body<T extends z.ZodType> = { body: z.input<T> };
type Data<T extends z.ZodType> = { data: JSONParsed<z.output<T>> };
type Query<T extends z.ZodType> = { query?: { [Name in keyof z.input<T>]?: string | number } };
type Page = { query?: { page?: string | number; size?: string | number } };
type Device = { params: { deviceId: string } };
type Command = { params: { deviceId: string; commandId: string } };
type Product = { params: { productKey: string } };

/** What each operation is given and what it answers. */
type Operations = {
  'POST /users/register': Body<typeof registerBodySchema> & Data<typeof userSchema>;
  'POST /users/login': Body<typeof loginBodySchema> & Data<typeof sessionSchema>;
  'POST /users/refresh-token': Body<typeof refreshBodySchema> & Data<typeof tokenPairSchema>;
  'GET /users/me': Data<typeof accountSchema>;
  'POST /users/logout': Partial<Body<typeof logoutBodySchema>> & Data<typeof loggedOutSchema>;
  'PUT /users/password': Body<typeof passwordBodySchema> & Data<typeof passwordChangedSchema>;
  'POST /users/api-keys': Partial<Body<typeof apiKeyBodySchema>> & Data<typeof createdApiKeySchema>;
  'GET /users/api-keys': Page & Data<typeof apiKeyPageSchema>;
  'DELETE /users/api-keys/{keyId}': { params: { keyId: string } } & Data<typeof deletedApiKeySchema>;
  'POST /products': Body<typeof createProductBodySchema> & Data<typeof createdProductSchema>;
  'GET /products': Query<typeof listProductsQuerySchema> & Data<typeof productPageSchema>;
  'GET /products/{productKey}': Product & Data<typeof productSchema>;
  'PUT /products/{productKey}': Product & Body<typeof updateProductBodySchema> & Data<typeof productSchema>;
  'DELETE /products/{productKey}': Product & Data<typeof deletedProductSchema>;
  'POST /devices/activate': Body<typeof activateBodySchema> & Data<typeof activationSchema>;
  'GET /devices': Query<typeof listDevicesQuerySchema> & Data<typeof devicePageSchema>;
  'GET /devices/{deviceId}': Device & Data<typeof deviceSchema>;
  'PATCH /devices/{deviceId}': Device & Body<typeof changeDeviceBodySchema> & Data<typeof deviceSchema>;
  'POST /devices/{deviceId}/credentials': Device & Data<typeof credentialsSchema>;
  'GET /devices/{deviceId}/status': Device & Data<typeof statusViewSchema>;
  'GET /devices/{deviceId}/events': Device & Page & Data<typeof deviceEventPageSchema>;
  'GET /devices/{deviceId}/properties': Device & Data<typeof devicePropertiesSchema>;
  'POST /devices/{deviceId}/control': Device &
    Body<typeof controlBodySchema> &
    Query<typeof controlQuerySchema> &
    Data<typeof commandReceiptSchema>;
  'GET /devices/{deviceId}/commands': Device & Page & Data<typeof commandPageSchema>;
  'GET /devices/{deviceId}/commands/{commandId}': Command & Data<typeof commandSchema>;
  'DELETE /devices/{deviceId}/commands/{commandId}': Command & Data<typeof commandSchema>;
  'DELETE /devices/{deviceId}': Device & Data<typeof deletedDeviceSchema>;
};
export type OperationName = keyof Operations;

export type Answer<Name extends OperationName> = Operations[Name]['data'];
type Given<Name extends OperationName> = Omit<Operations[Name], 'data'>;

/** Calls one operation and returns the `data` of its answer. @throws ApiError where the answer is no success */
export type Client = <Name extends OperationName>(
  name: Name,
  ...given: Partial<Given<Name>> extends Given<Name> ? [Given<Name>?] : [Given<Name>]
) => Promise<Answer<Name>>;

export type ClientOptions = {
  /** An access token of login or refresh, or an API key. */
  credentials?: { token: string } | { keyId: string; apiKey: string };
  timeoutMs?: number;
  /** Instead of the global one. */
  fetch?: (request: Request) => Promise<Response>;
};

/** An answer that is no success. `reason` is the documented word; the whole `message` may say more. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly code: number;
  readonly reason: string;
  readonly retryAfterSeconds: number | undefined;

  constructor(code: number, message: string, retryAfterSeconds?: number) {
    super(message);
    this.code = code;
    this.reason = message.split(': ', 1)[0] ?? message;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/** `baseUrl` is the address of the service, without `/api/v1`. */
export function createClient(baseUrl: string, options: ClientOptions = {}): Client {
  const { credentials, timeoutMs = 10_000, fetch: send = (request: Request) => fetch(request) } = options;
  return async (name, ...[given = {}]) => {
    const { params = {}, query = {}, body } = given as { params?: object; query?: object; body?: unknown };
    const [method, template] = name.split(' ') as [string, string];
    const path = template.replace(/\{(\w+)\}/g, (_, key: string) =>
      encodeURIComponent(String(params[key as keyof typeof params])),
    );
    const url = new URL(`${baseUrl.replace(/\/+$/, '')}/api/v1${path}`);
    for (const [key, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(key, String(value));
    const response = await send(
      new Request(url, {
        method,
        headers: {
          ...headersOf(credentials),
          ...(body !== undefined && { 'Content-Type': 'application/json' }),
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(timeoutMs),
      }),
    );
    const envelope: unknown = await response.json();
    const answer = envelope as { code: number; message: string; data: unknown };
    if (answer.code === 200) return answer.data as Answer<typeof name>;
    const retryAfter = response.headers.get('Retry-After');
    throw new ApiError(answer.code, answer.message, retryAfter === null ? undefined : Number(retryAfter));
  };
}

function headersOf(credentials: ClientOptions['credentials']): Record<string, string> {
  if (credentials === undefined) return {};
  if ('token' in credentials) return { Authorization: `Bearer ${credentials.token}` };
  return { 'X-API-Key': credentials.keyId, 'X-API-Secret': credentials.apiKey };
}
