// What comes in on sockets and from the broker, nearly right, wrong and hostile: relay frames, bridge frames, and
// messages of devices in batches. Each is answered as its schema says, and the next valid one works as before.
import { inPerson } from '../../src/domain/access.ts';
import { limitSpecs } from '../../src/limits.ts';
import fc from 'fast-check';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { topicOf } from '../../src/domain/topics.ts';
import {
  bridgeFrameSchema,
  uplinkAnswerSchema,
  uplinkBatchSchema,
  uplinkItemSchema,
} from '../../src/protocol/bridge.ts';
import { propertyPostSchema, propertySetReplySchema, statusSchema, topicActions } from '../../src/protocol/mqtt.ts';
import { relayReplySchemas, relayRequestSchemas } from '../../src/protocol/relay.ts';
import { planFuzzing } from '../../rig/inputs/fuzzing.ts';
import { bodyTextFor, hostileText, hostileValue, spoiledFor, validFor } from '../../rig/inputs/hostile-json.ts';
import { createSchemaCheck, type JsonSchema } from '../../rig/inputs/json-schema.ts';
import { bringUp, TestBridge } from '../worker/rig/clients/bridge.ts';
import { send } from '../worker/rig/clients/client.ts';
import { bridgeSecret } from '../worker/rig/clients/link.ts';
import { provisionDevice, sessionOf, type TestDevice } from '../worker/rig/provision.ts';
import { openSocket, type SocketEnd } from '../worker/rig/clients/socket.ts';

const { propertyPost, propertySetReply, status } = topicActions;

const schemaOf = (type: z.ZodType) => z.toJSONSchema(type, { io: 'input', unrepresentable: 'any' }) as JsonSchema;
const batchesOf = <T>(input: fc.Arbitrary<T>, size: number) => fc.array(input, { minLength: size, maxLength: size });

beforeEach(() => {
  vi.spyOn(console, 'info').mockImplementation(() => undefined);
  vi.spyOn(console, 'warn').mockImplementation(() => undefined);
});

describe('the relay', () => {
  const framesAtOnce = 25;
  const { batches, inputs, seed } = planFuzzing(0.15, framesAtOnce);
  const checkReply = createSchemaCheck({}, { isClosed: true });
  const replySchemas = Object.values(relayReplySchemas).map(schemaOf);
  const problemsOf = (reply: unknown) => {
    const all = replySchemas.map((schema) => checkReply(schema, reply));
    return all.some((problems) => problems.length === 0) ? [] : all.flat();
  };

  it(`replies to ${inputs} frames in order (seed ${seed})`, { timeout: 600_000 }, async () => {
    const device = await provisionDevice();
    const known = [
      { action: 'auth', username: device.name, password: device.password },
      { action: 'subscribe', topic: topicOf(device, status) },
    ].map((frame) => JSON.stringify(frame));
    const badAuth = JSON.stringify({ action: 'auth', username: device.name, password: 'wrong' });
    const schema = { anyOf: Object.values(relayRequestSchemas).map(schemaOf) };
    const frame = fc.oneof(
      { weight: 8, arbitrary: bodyTextFor(schema) },
      { weight: 1, arbitrary: fc.constantFrom(...known) },
      { weight: 1, arbitrary: fc.uint8Array({ maxLength: 50 }).map((bytes) => new Uint8Array(bytes).buffer) },
    );
    await fc.assert(
      fc.asyncProperty(batchesOf(frame, framesAtOnce), async (frames) => {
        const socket = await openSocket('/mqtt');
        let failedAuths = 0;
        for (const text of frames) {
          const reply = await Promise.race([socket.ask(text), socket.closed]);
          const end = await ended(socket.closed);
          const isTooLarge = typeof text === 'string' && new TextEncoder().encode(text).length > 16 * 1024;
          if (end !== undefined) {
            // A slow machine may need longer for its frames than a client has to authenticate. The end of the
            // connection may have been on its way before this frame.
            const due: SocketEnd[] = [{ code: 1008, reason: 'not authenticated in time' }];
            if (opensMqtt(text)) due.push({ code: 1003, reason: 'MQTT is at /mqtt/{deviceId}' });
            if (isTooLarge) due.push({ code: 1009, reason: 'frame larger than 16 KiB' });
            if (failedAuths >= 2) due.push({ code: 1008, reason: 'too many failed authentications' });
            expect(due).toContainEqual(end);
            return;
          }
          expect(isTooLarge).toBe(false);
          expect(problemsOf(reply), JSON.stringify(reply)).toEqual([]);
          expect(JSON.stringify(reply)).not.toContain('internal_error');
          if (isFailedAuth(reply)) failedAuths += 1;
        }
        socket.close();
      }),
      { numRuns: batches, seed, examples: [[[badAuth, badAuth, badAuth, 'x'.repeat(20_000)]]] },
    );
    const socket = await openSocket('/mqtt');
    expect(await socket.ask(known[0])).toMatchObject({ action: 'auth', code: 200 });
    expect(await socket.ask(known[1])).toMatchObject({ action: 'subscribe', code: 200 });
    socket.close();
  });

  const opensMqtt = (frame: unknown) => frame instanceof ArrayBuffer && new Uint8Array(frame)[0] === 0x10;

  const isFailedAuth = (reply: unknown) => JSON.stringify(reply).startsWith('{"action":"auth","code":401');
  const ended = <T>(closed: Promise<T>) => Promise.race([closed, Promise.resolve().then(() => undefined)]);
});

describe('messages of devices', () => {
  const itemsAtOnce = 40;
  const { batches, inputs, seed } = planFuzzing(0.3, itemsAtOnce);
  const wholes = planFuzzing(0.03, 1);
  let seq = 0;

  it(`are taken or refused one by one, ${inputs} of them (seed ${seed})`, { timeout: 600_000 }, async () => {
    const device = await provisionDevice({ ownerId: 7 });
    const topics = ([propertyPost, propertySetReply, status] as const).map((action) => topicOf(device, action));
    const topic = fc.oneof(
      { weight: 8, arbitrary: fc.constantFrom(...topics) },
      { weight: 1, arbitrary: hostileText },
      { weight: 1, arbitrary: hostileText.map((text) => `/sys/${device.productKey}/${text}/status`) },
    );
    const payload = fc.oneof(
      ...[propertyPostSchema, propertySetReplySchema, statusSchema].map((type) => bodyTextFor(schemaOf(type))),
      hostileValue.map((value) => JSON.stringify(value)),
    );
    // As far apart as a device may send them, the last of them now.
    const apartMs = 60_000 / limitSpecs.deviceMessagesPerMinute.default;
    const beganAtMs = Date.now() - inputs * apartMs;
    const message = fc
      .record({ topic, payload })
      .map((item) => ({ ...item, seq: ++seq, receivedAtMs: beganAtMs + seq * apartMs }));
    const item = fc.oneof(
      { weight: 8, arbitrary: message },
      { weight: 1, arbitrary: spoiledFor(schemaOf(uplinkItemSchema)) },
      { weight: 1, arbitrary: hostileValue },
    );
    await fc.assert(
      fc.asyncProperty(batchesOf<unknown>(item, itemsAtOnce), async (items) => {
        const response = await bring({ spoolId: 'fuzz', sentAtMs: Date.now(), items });
        // A single huge batch is a refusal of its own.
        if (response.status === 413) return;
        const answer = uplinkAnswerSchema.parse(await response.json());
        expect(answer.data.results).toHaveLength(items.length);
        expect(answer.data.results.filter(({ result }) => result === 'retry')).toEqual([]);
      }),
      { numRuns: batches, seed },
    );
    await proveWorking(device);
  });

  it(
    `are refused as batches that are none, ${wholes.inputs} of them (seed ${seed})`,
    { timeout: 600_000 },
    async () => {
      const text = bodyTextFor(schemaOf(uplinkBatchSchema));
      await fc.assert(
        fc.asyncProperty(text, async (batch) => {
          const response = await bring(batch);
          expect([200, 400, 413]).toContain(response.status);
          expect(await response.json()).toHaveProperty('code', response.status);
        }),
        { numRuns: wholes.batches, seed },
      );
    },
  );

  function bring(body: unknown): Promise<Response> {
    return send('POST', '/bridge/uplink', { headers: { Authorization: `Bearer ${bridgeSecret}` }, body });
  }

  /** field note 49: whatever came before, the next valid report counts. */
  async function proveWorking(device: TestDevice): Promise<void> {
    for (const position of ['up', 'down'] as const) {
      const [result] = await bringUp(device, { action: propertyPost, payload: { params: { position } } });
      expect(result).toMatchObject({ result: 'accepted' });
      expect(await sessionOf(device.deviceId).status(inPerson(7))).toMatchObject({ ok: true, value: { position } });
    }
  }
});

describe('frames of bridges', () => {
  const framesAtOnce = 20;
  const { batches, inputs, seed } = planFuzzing(0.05, framesAtOnce);

  it(`are read or end the connection, ${inputs} of them (seed ${seed})`, { timeout: 600_000 }, async () => {
    const headers = { Authorization: `Bearer ${bridgeSecret}` };
    const schema = schemaOf(bridgeFrameSchema);
    const frame = fc.oneof(
      bodyTextFor(schema),
      validFor(schema).map((value) => JSON.stringify(value)),
    );
    await fc.assert(
      fc.asyncProperty(batchesOf(frame, framesAtOnce), async (frames) => {
        const socket = await openSocket('/bridge/link', headers);
        for (const text of frames) socket.send(text);
        socket.close();
        // Answered when every frame before it was dealt with.
        expect([1000, 1008]).toContain((await socket.end()).code);
      }),
      { numRuns: batches, seed },
    );
    const bridge = await TestBridge.dialIn();
    await bridge.close();
  });
});
