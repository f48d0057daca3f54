// An attacker knows product key and serial of a claimed device, which is connected, and activates it with generated bodies. Other
// doors are tried one by one in test/worker/http/authorization-matrix. FUZZ_RUNS=66667 makes ten thousand attempts.
import fc from 'fast-check';
import { expect, it, vi } from 'vitest';
import { createSecret } from '../../src/crypto/secrets.ts';
import { topicOf } from '../../src/domain/topics.ts';
import { limitSpecs } from '../../src/limits.ts';
import { planFuzzing } from '../../rig/inputs/fuzzing.ts';
import { call } from '../worker/rig/clients/client.ts';
import { DirectClient, pingreq, publishPacket } from '../worker/rig/clients/direct.ts';
import { activate, anna, bert, createProduct, signUpUsers, tokenOf } from '../worker/rig/ownership.ts';

const plan = planFuzzing(0.15, 100);

/** @param shown secrets that the stranger has */
function bodies(shown: string[]) {
  const secret = fc.oneof(
    fc.constantFrom('', 'sk_', 'tk_', 'null', '0'),
    fc.constantFrom(...shown),
    fc.constant(undefined).map(() => createSecret('tk_', 48)),
    fc.constant(undefined).map(() => createSecret('sk_', 32)),
    fc.string({ maxLength: 64 }),
  );
  return fc.record(
    {
      claimToken: fc.oneof(fc.constant(undefined), fc.constant('own'), fc.stringMatching(/^[0-9a-hjkmnp-tv-z]{20}$/)),
      deviceSecret: secret,
      firmwareVersion: fc.constantFrom('', '1.0.0', 'x'.repeat(64)),
      chipModel: fc.constantFrom('ESP32', ''),
      ownerId: fc.nat(),
      claimantId: fc.nat(),
      policy: fc.constantFrom('open', 'never'),
      reactivation: fc.constant('open'),
    },
    { requiredKeys: [] },
  );
}

type Body = ReturnType<typeof bodies> extends fc.Arbitrary<infer Made> ? Made : never;

it(
  `a stranger gets nothing in ${plan.inputs} activations (seed ${plan.seed}), and does not disturb the device`,
  async () => {
    vi.spyOn(console, 'info').mockImplementation(() => undefined);
    await signUpUsers();
    const productKey = await createProduct();
    // What was issued before the sale is worth nothing.
    const before = (await activate(productKey)).data;
    const { deviceId, mqtt } = (await activate(productKey, await tokenOf(anna))).data;
    expect(deviceId).toBe(before.deviceId);
    const own = (await activate(productKey, await tokenOf(bert), { deviceSN: 'SN-2' })).data;
    const secrets = [before, own].flatMap((issued) => [issued.mqtt.password, issued.deviceSecret]);
    const client = await DirectClient.connect({ deviceId, productKey, name: mqtt.username, password: mqtt.password });
    const read = (path: string) =>
      call<Record<string, unknown>>('GET', `/devices/${deviceId}${path}`, { token: anna.token });
    const isOnline = async () => expect(await read('')).toMatchObject({ data: { status: 'online' } });
    await vi.waitFor(isOnline);
    const record = await read('');
    const got: string[] = [];
    const attempt = async ({ claimToken, ...more }: Body) => {
      const token = claimToken === 'own' ? await tokenOf(bert) : claimToken;
      const { status, code, message, data } = await activate(productKey, token, more);
      const isRefused = status === code && [400, 401, 403, 404].includes(status) && (data as unknown) === null;
      if (!isRefused) got.push(`${JSON.stringify({ claimToken, ...more })}: ${status} ${message}`);
    };
    const made = fc.sample(bodies(secrets), { numRuns: plan.inputs, seed: plan.seed });
    const atOnce = limitSpecs.claimTokensPerUser.default;
    for (let at = 0; at < made.length; at += atOnce) {
      await Promise.all(made.slice(at, at + atOnce).map(attempt));
      client.send(pingreq);
      expect((await client.next()).type).toBe(13);
    }
    expect(got).toEqual([]);
    expect((await read('')).data).toEqual(record.data);
    const { list } = (await read('/events?size=100')).data as { list: { status: string }[] };
    const kinds = list.map(({ status }) => status);
    expect(
      kinds.filter((kind) => kind === 'online' || kind === 'offline'),
      'its session was never interrupted',
    ).toEqual(['online']);
    expect(kinds, 'its owner is told').toContain('activation_refused');
    const topic = topicOf({ productKey, deviceId }, 'thing/event/property/post');
    client.send(publishPacket(topic, '{"params":{"position":"down"}}', { packetId: 1 }));
    expect((await client.next()).type).toBe(4);
    expect(await read('/status')).toMatchObject({ data: { online: true, position: 'down' } });
    const again = await activate(productKey, await tokenOf(anna));
    expect(again).toMatchObject({ status: 200, data: { deviceId } });
  },
  Math.max(60_000, plan.inputs * 100),
);
