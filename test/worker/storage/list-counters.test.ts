// The counters from which lists and limits take their totals, against the rows that they count: after everything that makes,
// changes and removes such rows, in generated order, by several users at once.
import { env } from 'cloudflare:workers';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { SliceDone } from '../../../src/protocol/operator.ts';
import { fuzzSeed } from '../../../rig/inputs/fuzzing.ts';
import { operate } from '../rig/accounts.ts';
import { call, createUser, type Answer, type TestUser } from '../rig/clients/client.ts';
import { reportConnected } from '../rig/provision.ts';

const rounds = 15;
const atOnce = 12;

type Choice = { what: number; other: number; product: number; serial: number; flag: boolean };
const choice: fc.Arbitrary<Choice> = fc.record({
  what: fc.nat(1_000),
  other: fc.nat(3),
  product: fc.nat(2),
  serial: fc.nat(3),
  flag: fc.boolean(),
});

/** For each counter two statements: its entries, and the rows it counts. Entries of 0 are left out. */
const counters: Record<string, [counter: string, rows: string]> = {
  'devices of an owner and product': [
    `select product_id || ' ' || owner_id as of, devices, inactive, online, disabled from device_counts where devices > 0`,
    `select product_id || ' ' || owner_id as of, count(*), sum(status = 0), sum(status = 1), sum(status = 3)
     from devices group by 1`,
  ],
  'devices of a product': [
    `select product_id as of, devices, claimed from product_device_counts where devices > 0`,
    `select product_id as of, count(*), sum(claimed_at is not null) from devices group by 1`,
  ],
  'shared devices': [
    `select user_id || role || product_id as of, devices, inactive, online, disabled from member_counts where devices > 0`,
    `select m.user_id || m.role || d.product_id as of, count(*), sum(d.status = 0), sum(d.status = 1), sum(d.status = 3)
     from device_members m join devices d on d.id = m.device_row group by 1`,
  ],
  products: [
    `select owner_id as of, products, product_keys from product_counts where product_keys > 0`,
    `select owner_id as of, sum(deleted_at is null), count(*) from products group by 1`,
  ],
  'products of a category': [
    `select owner_id || category as of, products from product_category_counts where products > 0`,
    `select owner_id || category as of, count(*) from products where deleted_at is null group by 1`,
  ],
  'API keys, invitations, offers and accounts': [
    `select list || ' ' || subject as of, entries from list_counts where entries > 0`,
    `select 'api_keys ' || user_id as of, count(*) from api_keys group by 1
     union all select 'transfers ' || to_user_id, count(*) from device_transfers where to_user_id is not null group by 1
     union all select 'invitations ' || folded_email, count(*) from device_invitations group by 1
     union all select 'users ' || iif(disabled_at is null, 'enabled', 'disabled'), count(*) from users group by 1`,
  ],
};

/** Reads both in one transaction: presence is written in the background. */
async function expectCounted(): Promise<void> {
  for (const [what, statements] of Object.entries(counters)) {
    const read = await env.DB.batch<object>(statements.map((statement) => env.DB.prepare(statement)));
    const [counted, found] = read.map(({ results }) => results.map((row) => Object.values(row).join(' ')).toSorted());
    expect(counted, what).toEqual(found);
  }
}

it('count what there is, whatever has come and gone', async () => {
  const users = await Promise.all(Array.from({ length: 4 }, createUser));
  const productKeys = ['counted-0', 'counted-1', 'counted-2'];
  for (const [index, productKey] of productKeys.entries()) {
    await call('POST', '/products', { token: users[index]!.token, body: { productKey, name: 'Switch' } });
  }
  const taken: Record<string, number> = {};

  async function run({ what, other, product, serial, flag }: Choice): Promise<void> {
    const [them, productKey, deviceSN] = [users[other]!, productKeys[product]!, `SN-${serial}`];
    const tokenOf = (userId: number) => users.find((user) => user.userId === userId)!.token;
    const as = async (token: string, method: string, path: string, body?: object): Promise<unknown> => {
      const answer = await call<unknown>(method, path, { token, body });
      expect(answer.status, `${method} ${path}: ${answer.message}`).toBeLessThan(500);
      const kind = `${method} ${path.replaceAll(/dev_\w+|counted-\d|(?<=\/)[\w-]{16,}|\d+$/g, '*')}`;
      if (answer.status === 200) taken[kind] = (taken[kind] ?? 0) + 1;
      return answer.data;
    };
    const find = async <T>(statement: string, ...values: unknown[]): Promise<T | undefined> => {
      const statementWith = env.DB.prepare(`${statement} order by random() limit 1`).bind(...values);
      return (await statementWith.first<T>()) ?? undefined;
    };
    const byOwner = async (method: string, path: string, body?: object) => {
      const found = await find<{ device_id: string; owner_id: number }>('select device_id, owner_id from devices');
      if (found !== undefined) await as(tokenOf(found.owner_id), method, `/devices/${found.device_id}${path}`, body);
    };
    const byMaker = async (method: string, path: string, body?: object) => {
      const found = await find<{ owner_id: number }>('select owner_id from products where product_key = ?', productKey);
      if (found !== undefined) await as(tokenOf(found.owner_id), method, path, body);
    };
    const activate = async () => {
      const claim = flag ? ((await as(them.token, 'POST', '/devices/claim-tokens')) as { token: string }) : undefined;
      const body = { productKey, deviceSN, ...(claim !== undefined && { claimToken: claim.token }) };
      await as(them.token, 'POST', '/devices/activate', body);
    };
    const share = () => byOwner('POST', '/members', { email: them.email, role: flag ? 'viewer' : 'operator' });
    const answerInvitation = async () => {
      const open = await find<{ id: string; email: string }>('select id, email from device_invitations');
      const invited = users.find(({ email }) => email === open?.email);
      const isTaken = what % 3 > 0;
      if (invited === undefined) return;
      await as(invited.token, isTaken ? 'POST' : 'DELETE', `/invitations/${open?.id}${isTaken ? '/accept' : ''}`);
    };
    const changeMember = async () => {
      const found = await find<{ device_id: string; owner_id: number; user_id: number }>(
        'select device_id, owner_id, user_id from device_members join devices on devices.id = device_row',
      );
      if (found === undefined) return;
      const path = `/devices/${found.device_id}/members/${found.user_id}`;
      const [method, body] = flag ? ['PATCH', { role: what % 2 === 0 ? 'viewer' : 'operator' }] : ['DELETE', undefined];
      await as(tokenOf(found.owner_id), method, path, body);
    };
    const answerOffer = async () => {
      type Offer = { device_id: string; to_user_id: number };
      const offer = await find<Offer>(
        'select device_id, to_user_id from device_transfers where to_user_id is not null',
      );
      const action = what % 3 > 0 ? 'accept' : 'decline';
      if (offer === undefined) return;
      await as(tokenOf(offer.to_user_id), 'POST', `/devices/${offer.device_id}/transfer/${action}`);
    };
    const report = async () => {
      const found = await find<{ device_id: string }>('select device_id from devices where activated_at is not null');
      if (found === undefined) return;
      await reportConnected({ deviceId: found.device_id });
    };
    const deleteKey = async () => {
      const key = await find<{ key_id: string; user_id: number }>('select key_id, user_id from api_keys');
      if (key !== undefined) await as(tokenOf(key.user_id), 'DELETE', `/users/api-keys/${key.key_id}`);
    };
    const acts: (() => Promise<unknown>)[] = [
      ...[activate, activate, activate, share, share, answerInvitation, answerInvitation, changeMember],
      ...[report, answerOffer, answerOffer, deleteKey],
      () => byOwner('PATCH', '', { disabled: flag }),
      () => byOwner('POST', '/transfer', { email: them.email }),
      () => byOwner('POST', '/transfer', { email: them.email }),
      () => byOwner(flag ? 'POST' : 'DELETE', flag ? '/release' : ''),
      () => byMaker('POST', '/products', { productKey, name: 'Switch', category: flag ? 'lamp' : 'door' }),
      () => byMaker('PUT', `/products/${productKey}`, { name: 'Switch', category: flag ? 'gate' : 'lamp' }),
      () => byMaker('POST', `/products/${productKey}/serials`, { serials: [deviceSN, `R-${serial}`] }),
      () => byMaker('DELETE', `/products/${productKey}/serials/R-${serial}`),
      () => as(them.token, 'POST', '/users/api-keys', {}),
      () => (what % 4 > 0 ? Promise.resolve() : byMaker('DELETE', `/products/${productKey}/devices?status=2`)),
      () => as(them.token, 'DELETE', `/products/unused-${other}`),
      () => as(them.token, 'POST', '/products', { productKey: `unused-${other}`, name: 'Switch' }),
    ];
    await acts[what % acts.length]!();
  }

  const choices = fc.sample(choice, { numRuns: rounds * atOnce, seed: fuzzSeed });
  for (let at = 0; at < choices.length; at += atOnce) {
    await Promise.all(choices.slice(at, at + atOnce).map(run));
    await expectCounted();
  }
  // All of it took effect now and then.
  expect(Object.keys(taken).length, JSON.stringify(taken)).toBeGreaterThan(10);

  // Whole accounts: one is closed and opened, another deleted.
  const [first, second] = users as [TestUser, TestUser];
  for (const [path, { email }] of [
    ['/accounts/disable', first],
    ['/accounts/enable', first],
    ['/accounts/delete', second],
  ] as const) {
    for (let cursor: number | null = 0; cursor !== null;) {
      const answer: Answer<SliceDone> = await operate<SliceDone>(path, { name: email, cursor });
      expect(answer, path).toMatchObject({ status: 200 });
      cursor = answer.data.cursor;
      await expectCounted();
    }
  }
});
