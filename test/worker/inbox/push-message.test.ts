// Push messages from workerd to a push service on a real socket, which decrypts them and verifies their tokens (rig/push-service.ts),
// and the example of RFC 8291.
import { base64url } from 'jose';
import { expect, inject, it } from 'vitest';
import { encryptPush, readVapidKeys } from '../../../src/crypto/web-push.ts';
import { pushMessage } from '../../../src/objects/inbox/push-message.ts';
import type { Pushed } from '../../../rig/inputs/pushed.ts';

/** RFC 8291, section 5 and appendix A. */
const example = {
  text: 'When I grow up, I want to be a watermelon',
  privateKey: 'yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw',
  publicKey: 'BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8',
  browser: {
    p256dh: 'BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4',
    auth: 'BTBZMqHH6r4Tts7J_aSIgg',
  },
  salt: 'DGv6ra1nlYgDCS1FRnbzlw',
  message:
    'DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN',
};

const { url, keys } = inject('pushService');
const vapid = readVapidKeys(example.privateKey, 'mailto:operator@example.com')!;
const topic = 'n_0123456789';

let count = 0;
async function push(status: string, text: string, p256dh = keys.p256dh) {
  const endpoint = `${url}/${status}/${++count}`;
  const outcome = await pushMessage(vapid, { endpoint, keys: { ...keys, p256dh } }, text, topic);
  const received = await (await fetch(endpoint)).json<Pushed[]>();
  return { outcome, received };
}

it('is the example of RFC 8291, byte for byte, with its salt and sender, and new ones by itself', async () => {
  const { text, browser, salt, publicKey, message } = example;
  const curve = { name: 'ECDH', namedCurve: 'P-256' };
  const point = base64url.decode(publicKey);
  const [x, y] = [base64url.encode(point.subarray(1, 33)), base64url.encode(point.subarray(33))];
  const jwk = { kty: 'EC', crv: 'P-256', x, y, d: example.privateKey };
  const sender = {
    privateKey: await crypto.subtle.importKey('jwk', jwk, curve, true, ['deriveBits']),
    publicKey: await crypto.subtle.importKey('raw', point, curve, true, []),
  };
  expect(base64url.encode(await encryptPush(text, browser, base64url.decode(salt), sender))).toBe(message);
  const bodies = await Promise.all([1, 2].map(() => encryptPush(text, browser)));
  const [salts, senders] = [bodies.map((body) => body.subarray(0, 16)), bodies.map((body) => body.subarray(21, 86))];
  for (const pair of [salts, senders]) expect(pair[0]).not.toEqual(pair[1]);
  // The public VAPID key follows from the private one.
  expect(vapid.publicKey).toBe(publicKey);
});

it('is read by the browser, and its token by the push service', async () => {
  const text = JSON.stringify({ cause: 'offline', deviceName: 'Lamp “Küche” 💡', filling: 'x'.repeat(2_900) });
  const { outcome, received } = await push('201', text);
  expect(outcome).toBe('sent');
  const headers = { ttl: '86400', topic, urgency: 'high', 'content-encoding': 'aes128gcm' };
  const claims = { aud: url, sub: vapid.contact };
  expect(received).toMatchObject([{ text, headers, key: vapid.publicKey, claims }]);
  expect(Number(received[0]!.headers['content-length'])).toBeLessThanOrEqual(4_096);
  const lastsSeconds = received[0]!.claims.exp - Date.now() / 1000;
  expect(lastsSeconds).toBeGreaterThan(3_600);
  expect(lastsSeconds).toBeLessThanOrEqual(12 * 3_600);
});

it.each([
  ['200', 'sent'],
  ['301', 'failed'],
  ['404', 'gone'],
  ['410', 'gone'],
  ['429', 'failed'],
  ['500', 'failed'],
  ['hang', 'failed'],
])('is answered with %s: %s, after one request', async (status, expected) => {
  const { outcome, received } = await push(status, '{}');
  expect([outcome, received.length]).toEqual([expected, 1]);
});

it('fails if the push service cannot be reached, and ends a subscription whose key is none', async () => {
  expect(await pushMessage(vapid, { endpoint: 'http://127.0.0.1:1/', keys }, '{}', topic)).toBe('failed');
  expect(await push('201', '{}', `B${'A'.repeat(86)}`)).toEqual({ outcome: 'gone', received: [] });
});
