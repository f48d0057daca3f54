// Every broker hook against inputs that are nearly right, wrong and hostile, in each broker's own form. The answer has the
// vendor's shape and is never a 5xx; no wrong password gets in.
import fc from 'fast-check';
import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { createApp } from '../../src/app.ts';
import { messagingName, topicOf } from '../../src/domain/topics.ts';
import { topicActions } from '../../src/protocol/mqtt.ts';
import {
  emqxAuthzSchema,
  emqxConnectSchema,
  emqxEventSchema,
  rabbitmqResourceSchema,
  rabbitmqTopicSchema,
  rabbitmqUserSchema,
  rabbitmqVhostSchema,
} from '../../src/protocol/hooks.ts';
import { planFuzzing } from '../../rig/inputs/fuzzing.ts';
import { bodyTextFor, hostileText, spoiledFor } from '../../rig/inputs/hostile-json.ts';
import type { JsonSchema } from '../../rig/inputs/json-schema.ts';
import { callHook, hookSecret, type HookAnswer } from '../worker/rig/clients/hooks.ts';
import { provisionDevice, type TestDevice } from '../worker/rig/provision.ts';

const { status } = topicActions;

const inputsAtOnce = 10;
const { batches, inputs: inputCount, seed } = planFuzzing(0.2, inputsAtOnce);

/** What the vendor's plugin reads as an answer; a login among them never says yes here. */
const emqx = z.strictObject({ result: z.literal(['allow', 'deny']) });
const emqxLogin = z.strictObject({ result: z.literal('deny'), is_superuser: z.literal(false), message: z.string() });
const json = (text: string): unknown => JSON.parse(text);

type Hook = { path: string; schema: z.ZodType; isForm?: boolean; isRight: (answer: HookAnswer) => boolean };

const says =
  (type: z.ZodType, statuses = [200]) =>
  (answer: HookAnswer) =>
    statuses.includes(answer.status) &&
    answer.type?.startsWith('application/json') === true &&
    type.safeParse(json(answer.body)).success;
const saysWord =
  (...words: string[]) =>
  (answer: HookAnswer) =>
    answer.status === 200 && words.includes(answer.body);
const saysNothing = ({ status: code, body }: HookAnswer) => code === 204 && body === '';

const hooks: Hook[] = [
  { path: 'emqx/connect', schema: emqxConnectSchema, isRight: says(emqxLogin) },
  { path: 'emqx/authz', schema: emqxAuthzSchema, isRight: says(emqx) },
  { path: 'emqx/events', schema: emqxEventSchema, isRight: saysNothing },
  { path: 'rabbitmq/user', schema: rabbitmqUserSchema, isForm: true, isRight: saysWord('deny') },
  { path: 'rabbitmq/vhost', schema: rabbitmqVhostSchema, isForm: true, isRight: saysWord('allow', 'deny') },
  { path: 'rabbitmq/resource', schema: rabbitmqResourceSchema, isForm: true, isRight: saysWord('allow', 'deny') },
  { path: 'rabbitmq/topic', schema: rabbitmqTopicSchema, isForm: true, isRight: saysWord('allow', 'deny') },
];

let device: TestDevice;

beforeEach(() => void vi.spyOn(console, 'info').mockImplementation(() => undefined));
beforeAll(async () => {
  device = await provisionDevice();
});

type Input = { path: string; body: string; headers: Record<string, string>; method: string };

function inputFor(hook: Hook): fc.Arbitrary<Input> {
  const schema = withDevice(z.toJSONSchema(hook.schema, { io: 'input', unrepresentable: 'any' }));
  const headers = { Authorization: `Bearer ${hookSecret}` };
  const asJson = bodyTextFor(schema).map((body) => ({ body, type: 'application/json', method: 'POST' }));
  const asForm = spoiledFor(schema).map((value) => ({
    body: formOf(value),
    type: 'application/x-www-form-urlencoded',
    method: 'POST',
  }));
  const asQuery = asForm.map((form) => ({ ...form, method: 'GET' }));
  const ways = hook.isForm === true ? [asForm, asQuery, asJson] : [asJson, asJson, asForm];
  return fc.oneof(...ways).map(({ body, type, method }) => ({
    path: method === 'GET' ? `${hook.path}?${body}` : hook.path,
    body,
    headers: { ...headers, 'Content-Type': type },
    method,
  }));
}

/** Uses names and topics of a device that exists, so that inputs pass the first check. The password stays wrong. */
function withDevice(schema: JsonSchema): JsonSchema {
  const name = messagingName(device);
  const examples: Record<string, unknown> = {
    username: name,
    clientid: name,
    client_id: name,
    topic: topicOf(device, status),
    routing_key: topicOf(device, status).replaceAll('/', '.'),
  };
  return JSON.parse(JSON.stringify(schema), (key, value: unknown) =>
    key in examples && typeof value === 'object' && value !== null ? { ...value, example: examples[key] } : value,
  ) as JsonSchema;
}

function formOf(value: unknown): string {
  if (typeof value !== 'object' || value === null)
    return encodeURIComponent(String(value).toWellFormed()).slice(0, 2_000);
  const pairs = Object.entries(value).map(([name, member]) => {
    const text = typeof member === 'object' ? JSON.stringify(member) : String(member);
    return [name, text].map((part) => encodeURIComponent(part.toWellFormed()).slice(0, 2_000)).join('=');
  });
  return pairs.join('&');
}

describe('broker hooks', () => {
  it('are all among those tried', () => {
    const routes = createApp().routes.filter(({ method, path }) => method !== 'ALL' && path.startsWith('/hooks/'));
    const paths = new Set(routes.map(({ path }) => path.replace(/^\/hooks\//, '').replace('/s/:secret', '')));
    expect([...paths].sort()).toEqual(hooks.map(({ path }) => path).sort());
  });

  it(`answer ${inputCount} inputs in their vendor's words (seed ${seed})`, { timeout: 600_000 }, async () => {
    const input = fc.oneof(...hooks.map((hook) => inputFor(hook).map((made) => ({ hook: hook.path, ...made }))));
    await fc.assert(
      fc.asyncProperty(fc.array(input, { minLength: inputsAtOnce, maxLength: inputsAtOnce }), async (inputs) => {
        await Promise.all(
          inputs.map(async ({ hook: path, path: hookPath, body, headers, method }) => {
            const answer = await callHook(hookPath, body, headers, method);
            const { isRight } = hooks.find((hook) => hook.path === path)!;
            expect(
              isRight(answer),
              `${method} ${hookPath.slice(0, 200)} ${body.slice(0, 300)}: ${JSON.stringify(answer)}`,
            ).toBe(true);
          }),
        );
      }),
      { numRuns: batches, seed },
    );
  });

  it('refuse a wrong secret whatever comes with it', async () => {
    await fc.assert(
      fc.asyncProperty(hostileText, hostileText, async (secret, body) => {
        const safe = encodeURIComponent(secret.toWellFormed()).slice(0, 1_000).replaceAll('.', '%2E');
        const answer = await callHook(`rabbitmq/s/${safe}x/user`, body, {});
        expect([401, 404]).toContain(answer.status);
      }),
      { numRuns: 100, seed },
    );
  });
});
