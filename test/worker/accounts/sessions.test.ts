// Sessions over HTTP: logging in, refreshing with rotation and reuse detection, logging out. And the list of the own ones:
// with what used them last, ended one by one or together.
import { env } from 'cloudflare:workers';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { readConfig } from '../../../src/config.ts';
import { logIn, password, register } from '../rig/accounts.ts';
import { call, type Answer } from '../rig/clients/client.ts';
import { callLimited, callWith } from '../rig/limited.ts';
import { RecordedDatabase } from '../rig/recorded-database.ts';

type TokenPair = { token: string; refreshToken: string };

type OwnSession = {
  sessionId: string;
  createdAt: string;
  lastUsedAt: string;
  clientAddress: string | null;
  isCurrent: boolean;
};

const email = 'ada@example.test';
const staleBearer = 'eyJhbGciOiJIUzI1NiJ9.e30.c3RhbGU';

const startSession = async (by = email, headers = {}): Promise<TokenPair> => (await logIn(by, password, headers)).data;

function refresh(refreshToken: unknown, token?: string): Promise<Answer<TokenPair>> {
  return call('POST', '/users/refresh-token', { body: { refreshToken }, token });
}

/** Moves all rotations into the past: a fake clock would end the access tokens, too. */
async function ageRotations(byMs: number): Promise<void> {
  const aged = "json_set(value, '$.atMs', json_extract(value, '$.atMs') - ?)";
  await env.DB.prepare(
    `update refresh_tokens set rotations = (select json_group_array(json(${aged})) from json_each(rotations))
     where rotations is not null`,
  )
    .bind(byMs)
    .run();
}

/** Refreshes so often, with so much time between; the pair of the last time. */
async function rotate(session: TokenPair, rotations: number, apartMs = 0): Promise<TokenPair> {
  let latest = session;
  for (let rotation = 0; rotation < rotations; rotation++) {
    latest = (await refresh(latest.refreshToken)).data;
    await ageRotations(apartMs);
  }
  return latest;
}

beforeAll(() => register(email));

describe('POST /users/login', () => {
  // No answer shows what is stored.
  it('stores neither the password nor a refresh token', async () => {
    const { refreshToken } = await startSession();
    for (const table of ['users', 'refresh_tokens', 'login_attempts']) {
      const { results } = await env.DB.prepare(`select * from ${table}`).all();
      expect(JSON.stringify(results)).not.toContain(refreshToken.slice(3));
      expect(JSON.stringify(results)).not.toContain(password);
    }
  });

  it('ends the session that was not used for longest where a user has too many', async () => {
    const send = async (path: string, body: object) => {
      const { status, data } = await callLimited<TokenPair | null>('sessionsPerUser=3', 'POST', `/users/${path}`, {
        body,
      });
      return { status, refreshToken: data?.refreshToken };
    };
    const first = await send('login', { email, password });
    const unused = await send('login', { email, password });
    const third = await send('login', { email, password });
    const used = await send('refresh-token', first);
    const fourth = await send('login', { email, password });
    expect((await send('refresh-token', unused)).status).toBe(401);
    for (const session of [used, third, fourth]) expect((await send('refresh-token', session)).status).toBe(200);
  });
});

describe('POST /users/refresh-token', () => {
  it.each([1, 3])('answers a token of %i rotations ago for 30 seconds with the newest pair', async (rotations) => {
    const session = await startSession();
    const latest = await rotate(session, rotations);
    await ageRotations(29_000);
    const again = await refresh(session.refreshToken);
    expect(again).toMatchObject({ status: 200, data: { refreshToken: latest.refreshToken } });
    expect((await refresh(latest.refreshToken)).status).toBe(200);
  });

  it.each([1, 10])('ends the whole session when a token of %i rotations ago comes back later', async (rotations) => {
    const [session, otherSession] = [await startSession(), await startSession()];
    const next = await rotate(session, rotations, 31_000);
    expect(await refresh(session.refreshToken)).toMatchObject({ status: 401, message: 'unauthorized', data: null });
    expect((await refresh(next.refreshToken)).status).toBe(401);
    expect((await refresh(otherSession.refreshToken)).status).toBe(200);
  });

  it('gives 50 simultaneous refreshes with one token the same next one, which is good until a reuse', async () => {
    const session = await startSession();
    const answers = await Promise.all(Array.from({ length: 50 }, () => refresh(session.refreshToken)));
    expect(answers.every(({ status }) => status === 200)).toBe(true);
    expect(new Set(answers.map(({ data }) => data.refreshToken)).size).toBe(1);
    const next = (await refresh(answers[0]!.data.refreshToken)).data;
    await ageRotations(31_000);
    expect((await refresh(session.refreshToken)).status).toBe(401);
    expect((await refresh(next.refreshToken)).status).toBe(401);
  });

  it('reads no row and ends no session for an invented token, nor for one with the session id of an access token', async () => {
    const database = new RecordedDatabase();
    const { token, refreshToken } = await startSession();
    const { sid } = JSON.parse(atob(token.split('.')[1] ?? '')) as { sid: string };
    const random = 'a'.repeat(69);
    const invented = [
      `${refreshToken.slice(0, -2)}AA`,
      refreshToken.slice(0, 25) + random,
      `rt_${sid.slice(0, 22)}${random}`,
    ];
    for (const forged of [...invented, refreshToken.slice(0, 68)]) {
      for (const path of ['/users/refresh-token', '/users/logout']) {
        expect((await database.fetch('POST', path, {}, { refreshToken: forged })).status).toBe(401);
      }
    }
    expect([...database.statements]).toEqual([]);
    expect((await refresh(refreshToken)).status).toBe(200);
  });

  it('takes a token whose code is of an older secret, gives it one of the newest, and refuses it without either', async () => {
    const { refreshToken } = await startSession();
    const [older = ''] = readConfig(env).messagingSecrets;
    const newer = 'a-newer-messaging-secret-of-the-worker-tests';
    const refreshWith = (secrets: string, shown: string) =>
      callWith<TokenPair>({ MESSAGING_SECRETS: secrets }, 'POST', '/users/refresh-token', {
        body: { refreshToken: shown },
      });
    expect((await refreshWith(newer, refreshToken)).status).toBe(401);
    const next = (await refreshWith(`${newer},${older}`, refreshToken)).data.refreshToken;
    const repeated = (await refreshWith(older, refreshToken)).data.refreshToken;
    expect(repeated.slice(0, 68)).toBe(next.slice(0, 68));
    expect((await refreshWith(older, next)).status).toBe(401);
    expect((await refreshWith(newer, next)).status).toBe(200);
  });

  it('keeps one row a session, however often it is refreshed', async () => {
    const count = async () =>
      (await env.DB.prepare('select count(*) as n from refresh_tokens').first<{ n: number }>())!.n;
    const session = await startSession();
    const before = await count();
    await rotate(session, 12);
    expect(await count()).toBe(before);
    const row = await env.DB.prepare('select max(length(rotations)) as size from refresh_tokens').first<{
      size: number;
    }>();
    expect(row!.size).toBeLessThan(2_000);
  });

  it('refuses a token after 30 days, and forgets it with the next ones', async () => {
    const session = await startSession();
    await env.DB.prepare('update refresh_tokens set expires_at = ?').bind(Date.now()).run();
    expect((await refresh(session.refreshToken)).status).toBe(401);
    await rotate(await startSession(), 10);
    const row = await env.DB.prepare('select count(*) as n from refresh_tokens where expires_at <= ?')
      .bind(Date.now())
      .first<{ n: number }>();
    expect(row!.n).toBe(0);
  });
});

describe('POST /users/logout', () => {
  const logOut = (options: { token?: string; body?: unknown; headers?: Record<string, string> }) =>
    call('POST', '/users/logout', options);

  it('ends the session of the bearer token, with or without a body, and no other', async () => {
    for (const body of [undefined, {}]) {
      const [session, otherSession] = [await startSession(), await startSession()];
      expect(await logOut({ token: session.token, body })).toMatchObject({
        status: 200,
        data: { message: 'logged_out' },
      });
      expect((await refresh(session.refreshToken)).status).toBe(401);
      expect((await refresh(otherSession.refreshToken)).status).toBe(200);
    }
  });

  it('ends the session of a refresh token, rotated ones included, beside a stale bearer token', async () => {
    const session = await startSession();
    const next = (await refresh(session.refreshToken)).data;
    const answer = await logOut({ token: staleBearer, body: { refreshToken: session.refreshToken } });
    expect(answer.status).toBe(200);
    expect((await refresh(next.refreshToken)).status).toBe(401);
  });

  it('refuses a caller who names no session', async () => {
    for (const options of [{}, { token: staleBearer }, { body: { refreshToken: 'rt_unknown' } }]) {
      expect(await logOut(options)).toMatchObject({ status: 401, message: 'unauthorized' });
    }
    expect((await logOut({ body: { refreshToken: 5 } })).status).toBe(400);
  });
});

describe('/users/me/sessions', () => {
  const path = '/users/me/sessions';
  const bert = 'bert@example.test';
  beforeAll(() => register(bert));
  beforeEach(() => env.DB.prepare('delete from refresh_tokens').run());

  async function list(token: string, query = ''): Promise<{ list: OwnSession[]; total: number }> {
    return (await call<{ list: OwnSession[]; total: number }>('GET', path + query, { token })).data;
  }

  async function current(token: string): Promise<OwnSession | undefined> {
    return (await list(token)).list.find(({ isCurrent }) => isCurrent);
  }

  const refreshStatus = async ({ refreshToken }: TokenPair) => (await refresh(refreshToken)).status;

  it('lists when each session began and was used last, from where and with what, the last used first', async () => {
    const phone = { 'CF-Connecting-IP': '2001:db8:1:2:3::4', 'User-Agent': 'Phone/1.0' };
    const first = await startSession(email, phone);
    const second = await startSession(email, { 'CF-Connecting-IP': '192.0.2.7', 'User-Agent': 'x'.repeat(300) });
    const unknown = await startSession();
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
    const { token, refreshToken } = await startSession();
    const seen = JSON.stringify(await list(token));
    expect(seen).not.toContain(refreshToken.slice(3, 25));
    const { sid } = JSON.parse(atob(token.split('.')[1] ?? '')) as { sid: string };
    expect(sid).toBe((await current(token))?.sessionId);
    expect(refreshToken).not.toContain(sid.slice(0, 10));
    const other = await startSession();
    const { sessionId = '' } = (await current(token)) ?? {};
    await env.DB.prepare('update refresh_tokens set expires_at = ? where session_id = ?')
      .bind(Date.now(), sessionId)
      .run();
    expect(await list(other.token)).toMatchObject({ total: 1, list: [{ isCurrent: true }] });
  });

  it('ends one session and no other', async () => {
    const [one, other] = [await startSession(), await startSession()];
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
    const [one, other, third] = [await startSession(), await startSession(), await startSession()];
    const ofBert = await startSession(bert);
    expect(await call('DELETE', `${path}?keep=current`, { token: one.token })).toMatchObject({ data: { ended: 2 } });
    expect(await Promise.all([one, other, third].map(refreshStatus))).toEqual([200, 401, 401]);
    expect(await call('DELETE', path, { token: one.token })).toMatchObject({ data: { ended: 1 } });
    expect(await refreshStatus(one)).toBe(401);
    expect(await refreshStatus(ofBert)).toBe(200);
  });

  it('refuses what it cannot read', async () => {
    const { token } = await startSession();
    for (const [method, query] of [
      ['GET', '?page=0'],
      ['DELETE', '?keep=others'],
    ] as const) {
      const answer = await call(method, path + query, { token });
      expect(answer).toMatchObject({ status: 400, message: expect.stringMatching(/^invalid_request: /) as string });
    }
    expect((await list(token)).total).toBe(1);
  });
});
