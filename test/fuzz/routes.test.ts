// Every route of the reference against inputs that are nearly right, wrong and hostile. The answer is never a 5xx, always
// the envelope, and only what the reference says. FUZZ_RUNS asks for more inputs, FUZZ_SEED for the same again.
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { planFuzzing } from '../../rig/inputs/fuzzing.ts';
import { HostileRequests, type HostileRequest } from '../../rig/inputs/hostile-requests.ts';
import type { OpenApiDocument } from '../../rig/inputs/openapi-document.ts';
import { TestBridge } from '../worker/rig/clients/bridge.ts';
import { call, createUser, makeDevice, send, type CallOptions } from '../worker/rig/clients/client.ts';

const inputsAtOnce = 10;
const { batches, inputs, seed } = planFuzzing(0.3, inputsAtOnce);
/** What costs a hundred milliseconds of hashing: sent only as often as this if the body may be right. */
const costly = ['POST /api/v1/users/register', 'POST /api/v1/users/login', 'PUT /api/v1/users/password'];
const maxCostly = 20;

let requests: HostileRequests;
let bridge: TestBridge;
let objects: Record<string, string>;
let credentials: CallOptions[];
let costlyCount = 0;

// A line a request is most of the time otherwise.
beforeEach(() => void vi.spyOn(console, 'info').mockImplementation(() => undefined));
beforeAll(async () => {
  requests = new HostileRequests(await (await send('GET', '/api/v1/openapi.json')).json<OpenApiDocument>());
  // So that commands are taken, not waited for.
  bridge = await TestBridge.dialIn();
  const { token } = await createUser();
  // The examples' product, so that bodies made from them activate devices.
  await call('POST', '/products', { token, body: { productKey: 'servo-switch', name: 'Servo switch' } });
  const key = (await call<{ keyId: string; apiKey: string }>('POST', '/users/api-keys', { token })).data;
  const { productKey, deviceId } = await makeDevice({ token });
  const [deviceIds, command] = [[deviceId], { action: 'pulse' }];
  objects = { productKey, deviceId, keyId: key.keyId };
  for (const [path, body] of [
    ['/groups', { name: 'Group', deviceIds }],
    ['/scenes', { name: 'Scene', items: [{ deviceId, command }] }],
    ['/commands', { devices: deviceIds, command }],
  ] as const)
    Object.assign(objects, (await call<Record<string, string>>('POST', path, { token, body })).data);
  credentials = [{ token }, { token }, { token }, { key }, {}, { token: 'x.y.z' }];
});

afterAll(() => bridge.close());

async function judge(request: HostileRequest): Promise<void> {
  if (isTooCostly(request)) return;
  const { operation, url, body, headers, credential } = request;
  const [method = ''] = operation.split(' ');
  const response = await send(method, url, {
    ...credentials[credential],
    ...(body === undefined ? {} : { body }),
    headers,
  });
  const problem = requests.problemOf(request, {
    status: response.status,
    contentType: response.headers.get('Content-Type'),
    requestId: response.headers.get('X-Request-Id'),
    text: await response.text(),
  });
  expect(problem, `${method} ${url.slice(0, 300)} ${body?.slice(0, 300) ?? ''}`).toBeUndefined();
}

function isTooCostly(request: HostileRequest): boolean {
  if (!costly.includes(request.operation) || !requests.isBodyValid(request)) return false;
  costlyCount += 1;
  return costlyCount > maxCostly;
}

describe('every route', () => {
  it(`answers ${inputs} inputs as the reference says (seed ${seed})`, { timeout: 600_000 }, async () => {
    const input = requests.arbitrary(objects, credentials.length);
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
