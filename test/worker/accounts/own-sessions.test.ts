// The sessions of a user over HTTP: listed with what used them last, ended one by one or together.
import { env } from 'cloudflare:workers';
import { beforeAll, beforeEach, expect, it } from 'vitest';
import { call } from '../rig/clients/client.ts';

type Login = { token: string; refreshToken: string };
type OwnSession = {
  sessionId: string;
  createdAt: string;
  lastUsedAt: string;
  expiresAt: string;
  clientAddress: string | null;
  userAgent: string | null;
  isCurrent: boolean;
};

const path = '/users/me/sessions';
const password = 'correct horse';
const emails = ['ada@example.test', 'bert@example.test'];

async function logIn(email = emails[0], headers: Record<string, string> = {}): Promise<Login> {
  return (await call<Login>('POST', '/users/login', { body: { email, password }, headers })).data;
}

async function list(token: string, query = ''): Promise<{ list: OwnSession[]; total: number }> {
  return (await call<{ list: OwnSession[]; total: number }>('GET', path + query, { token })).data;
}

async function current(token: string): Promise<OwnSession | undefined> {
  return (await list(token)).list.find(({ isCurrent }) => isCurrent);
}

async function refreshStatus({ refreshToken }: Login): Promise<number> {
  return (await call('POST', '/users/refresh-token', { body: { refreshToken } })).status;
}

beforeAll(async () => {
  for (const email of emails) await call('POST', '/users/register', { body: { email, password } });
});
beforeEach(async () => {
  await env.DB.prepare('delete from refresh_tokens').run();
});

it('lists when each session began and was used last, from where and with what, the last used first', async () => {
  const phone = { 'CF-Connecting-IP': '2001:db8:1:2:3::4', 'User-Agent': 'Phone/1.0' };
  const first = await logIn(emails[0], phone);
  const second = await logIn(emails[0], { 'CF-Connecting-IP': '192.0.2.7', 'User-Agent': 'x'.repeat(300) });
  const unknown = await logIn();
  expect(await list(unknown.token)).toMatchObject({
    total: 3,
    list: [
      { userAgent: null, clientAddress: null, isCurrent: true },
      { userAgent: 'x'.repeat(200), clientAddress: '192.0.2.7', isCurrent: false },
      { userAgent: 'Phone/1.0', isCurrent: false },
    ],
  });
  const before = await current(first.token);
  expect(before?.clientAddress).toMatch(/^2001:db8:1:2:/);
  const { refreshToken } = first;
  await env.DB.prepare('update refresh_tokens set created_at = created_at - 60000').run();
  const headers = { 'CF-Connecting-IP': '198.51.100.3', 'User-Agent': 'Phone/1.1' };
  await call('POST', '/users/refresh-token', { body: { refreshToken }, headers });
  const { list: sessions } = await list(second.token);
  expect(sessions[0]).toMatchObject({
    sessionId: before?.sessionId,
    clientAddress: '198.51.100.3',
    userAgent: 'Phone/1.1',
  });
  const [{ createdAt, lastUsedAt } = { createdAt: '', lastUsedAt: '' }] = sessions;
  expect(Date.parse(lastUsedAt) - Date.parse(createdAt)).toBeGreaterThanOrEqual(60_000);
  expect((await list(second.token, '?page=2&size=2')).list).toHaveLength(1);
});

it('names no session by what its tokens are made of, and none that is over', async () => {
  const { token, refreshToken } = await logIn();
  const seen = JSON.stringify(await list(token));
  expect(seen).not.toContain(refreshToken.slice(3, 25));
  const other = await logIn();
  const { sessionId = '' } = (await current(token)) ?? {};
  await env.DB.prepare('update refresh_tokens set expires_at = ? where session_id = ?')
    .bind(Date.now(), sessionId)
    .run();
  expect(await list(other.token)).toMatchObject({ total: 1, list: [{ isCurrent: true }] });
});

it('shows null for what a client did not say', async () => {
  const { token } = await logIn();
  await env.DB.prepare("update refresh_tokens set client_address = 'unknown', user_agent = ''").run();
  expect((await list(token)).list).toMatchObject([{ clientAddress: null, userAgent: null, isCurrent: true }]);
});

it('lets the session id of an access token end nothing', async () => {
  const { token, refreshToken } = await logIn();
  const { sid } = JSON.parse(atob(token.split('.')[1] ?? '')) as { sid: string };
  expect(sid).toBe((await current(token))?.sessionId);
  expect(refreshToken).not.toContain(sid.slice(0, 10));
  expect(await refreshStatus({ token, refreshToken: `rt_${sid.slice(0, 22)}${'x'.repeat(69)}` })).toBe(401);
  expect(await refreshStatus({ token, refreshToken })).toBe(200);
});

it('ends one session and no other', async () => {
  const [one, other] = [await logIn(), await logIn()];
  const sessionId = (await current(one.token))?.sessionId;
  expect(await call('DELETE', `${path}/${sessionId}`, { token: other.token })).toMatchObject({ data: { sessionId } });
  expect(await refreshStatus(one)).toBe(401);
  expect(await refreshStatus(other)).toBe(200);
  expect(await call('DELETE', `${path}/${sessionId}`, { token: other.token })).toMatchObject({
    status: 404,
    message: 'not_found',
  });
});

it('ends all others, or all', async () => {
  const [one, other, third] = [await logIn(), await logIn(), await logIn()];
  const ofBert = await logIn(emails[1]);
  expect(await call('DELETE', `${path}?keep=current`, { token: one.token })).toMatchObject({ data: { ended: 2 } });
  expect(await Promise.all([one, other, third].map(refreshStatus))).toEqual([200, 401, 401]);
  expect(await call('DELETE', path, { token: one.token })).toMatchObject({ data: { ended: 1 } });
  expect(await refreshStatus(one)).toBe(401);
  expect(await refreshStatus(ofBert)).toBe(200);
});

it("neither shows nor ends another user's sessions", async () => {
  const [one, ofBert] = [await logIn(), await logIn(emails[1])];
  const sessionId = (await current(ofBert.token))?.sessionId;
  expect((await list(one.token)).total).toBe(1);
  expect((await call('DELETE', `${path}/${sessionId}`, { token: one.token })).status).toBe(404);
  expect(await refreshStatus(ofBert)).toBe(200);
});

it('refuses what it cannot read', async () => {
  const { token } = await logIn();
  for (const [method, query] of [
    ['GET', '?page=0'],
    ['DELETE', '?keep=others'],
  ] as const) {
    const answer = await call(method, path + query, { token });
    expect(answer).toMatchObject({ status: 400, message: expect.stringMatching(/^invalid_request: /) as string });
  }
  expect((await list(token)).total).toBe(1);
});
