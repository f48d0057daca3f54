// Signatures against the reference package of Standard Webhooks, addresses that are refused, and pauses after failures.
import { Webhook } from 'standardwebhooks';
import { describe, expect, it } from 'vitest';
import { createWebhookSecret, signWebhook } from '../../../src/crypto/webhook-signature.ts';
import { findAddressProblem } from '../../../src/domain/webhooks/address.ts';
import { failAgain, spreadAfter, type Failing } from '../../../src/objects/webhooks/pauses.ts';

describe('signWebhook', () => {
  const body = '{"type":"device.online","data":{"name":"Küche"}}';
  const message = { id: 'msg_dev_1_7', timestamp: Math.floor(Date.now() / 1000), body };

  it('is what the package signs, once for each secret', async () => {
    const secrets = [createWebhookSecret(), createWebhookSecret()];
    const signature = await signWebhook(secrets, message);
    const reference = secrets.map((secret) =>
      new Webhook(secret).sign(message.id, new Date(message.timestamp * 1000), body),
    );
    expect(signature).toBe(reference.join(' '));
    const headers = {
      'webhook-id': message.id,
      'webhook-timestamp': String(message.timestamp),
      'webhook-signature': signature,
    };
    for (const secret of secrets) expect(new Webhook(secret).verify(body, headers)).toEqual(JSON.parse(body));
    expect(() => new Webhook(createWebhookSecret()).verify(body, headers)).toThrow('No matching signature found');
  });
});

describe('findAddressProblem', () => {
  const refused = [
    'http://maker.example/',
    'ftp://maker.example/',
    'nonsense',
    'https://user:secret@maker.example/',
    'https://maker.example/#part',
    'https://maker.example:22/',
    'https://127.0.0.1/',
    'https://2130706433/',
    'https://0x7f.1/',
    'https://017700000001/',
    'https://10.1.2.3/',
    'https://169.254.169.254/latest/meta-data',
    'https://[::1]/',
    'https://[fe80::1]:8443/',
    'https://[::ffff:127.0.0.1]/',
    'https://localhost/',
    'https://localhost./',
    'https://LOCALHOST/',
    'https://a.localhost/',
    'https://router.local/',
    'https://metadata.google.internal/',
    'https://printer/',
    'https://①②⑦.0.0.1/',
    'https://１２７.０.０.１/',
    'https://127。0。0。1/',
    'https://0177.0.0.1/',
    'https://127.1/',
    'https://0/',
    'https://0.0.0.0./',
    'https://127.0.0.1./',
    'https://0x7f000001:8443/',
    'https://127.0.0.1%2f.maker.example/',
    'https://%31%32%37.0.0.1/',
    'https://[::]/',
    'https://[::ffff:7f00:1]/',
    'https://[64:ff9b::7f00:1]/',
    'https://ｌｏｃａｌｈｏｓｔ/',
    'https://local\thost/',
    'https://maker.example@127.0.0.1/',
    'https://@127.0.0.1/',
    'https:\\\\127.0.0.1\\@maker.example/',
    'https://maker.example:80/',
    'https://maker.example:8080/',
    'https://home.arpa/',
    'https://x.INTERNAL./',
  ];
  it.each(refused)('refuses %s', (address) => {
    expect(findAddressProblem(address, false)).toMatch(/^must /);
  });

  it('accepts names of the public network, and this machine only if it may', () => {
    for (const address of [
      'https://maker.example/hook?a=1',
      'https://maker.example:8443/',
      'https://localhost.maker.example./',
    ])
      expect(findAddressProblem(address, false)).toBeUndefined();
    expect(findAddressProblem('http://127.0.0.1:4711/hook', true)).toBeUndefined();
  });
});

describe('failAgain', () => {
  it('waits 5 s, 30 s, 2 min, 10 min, 1 h, 6 h, then 24 h, and gives up after five days', () => {
    const pauses: number[] = [];
    let nowMs = 0;
    let failing: Failing | undefined;
    while ((failing = failAgain(failing, nowMs, 0.5)) !== undefined) {
      pauses.push((failing.retryAtMs - nowMs) / 1000);
      nowMs = failing.retryAtMs;
    }
    expect(pauses).toEqual([5, 30, 120, 600, 3_600, 21_600, 86_400, 86_400, 86_400, 86_400, 86_400]);
    expect(failAgain(undefined, 0, 0)?.retryAtMs).toBe(4_000);
    expect(failAgain(undefined, 0, 1)?.retryAtMs).toBe(6_000);
  });

  it('spreads those that wait over at most a minute', () => {
    expect([spreadAfter(5_000, 0, 0), spreadAfter(5_000, 0, 1), spreadAfter(3_600_000, 0, 1)]).toEqual([
      5_000, 10_000, 3_660_000,
    ]);
  });
});
