// Accounts over HTTP: registering, reading one's own account, changing the password.
import { env } from 'cloudflare:workers';
import { beforeAll, describe, expect, it } from 'vitest';
import { call, type Answer } from '../rig/clients/client.ts';

type User = { userId: number; username: string; email: string };
type Session = { user: User; token: string; refreshToken: string; expiresIn: number };

const password = 'correct horse';

function register(body: object): Promise<Answer<User>> {
  return call('POST', '/users/register', { body });
}

function logIn(body: object): Promise<Answer<Session>> {
  return call('POST', '/users/login', { body });
}

describe('POST /users/register', () => {
  beforeAll(async () => {
    await register({ username: 'ada', email: 'Ada@Example.test', password });
  });

  it('refuses a username that is somebody’s email', async () => {
    const names = { username: 'ada@example.test', email: 'o@example.test' };
    expect(await register({ ...names, password })).toMatchObject({
      status: 400,
      message: 'username_exists',
      data: null,
    });
  });

  it('lets nobody take the email of somebody else as a username', async () => {
    for (const username of ['victim@example.test', 'victim＠example.test']) {
      const answer = await register({ username, email: 'linus@example.test', password });
      expect(answer).toMatchObject({
        status: 400,
        message: 'invalid_request: username: holds an @ and is not the email',
      });
    }
    const own = { username: 'VICTIM@example.test', email: 'victim@example.test' };
    expect((await register({ ...own, password })).status).toBe(200);
  });

  it('refuses an email that was somebody’s username before that rule', async () => {
    const { data } = await register({ username: 'earlier', email: 'grace@example.test', password });
    const name = 'earlier@example.test';
    await env.DB.prepare('update users set folded_username = ? where id = ?').bind(name, data.userId).run();
    expect(await register({ email: name, password })).toMatchObject({ message: 'email_exists' });
  });

  it('lets nobody choose one of the most common passwords', async () => {
    for (const common of ['baseball', 'BaseBall', '12345678', 'qwertyuiop']) {
      const answer = await register({ email: 'common@example.test', password: common });
      expect(answer).toMatchObject({ status: 400, message: 'weak_password: it is among the 10 000 most common' });
    }
    expect((await register({ email: 'common@example.test', password: 'baseball baseball' })).status).toBe(200);
  });

  it('compares usernames without case beyond ASCII', async () => {
    await register({ username: 'Ævar Ö', email: 'aevar@example.test', password });
    expect(await register({ username: 'ævar ö', email: 'aevar2@example.test', password })).toMatchObject({
      message: 'username_exists',
    });
    expect((await logIn({ username: 'ÆVAR Ö', password })).status).toBe(200);
  });

  it('makes one user of many simultaneous registrations of one email', async () => {
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, index) =>
        register({ username: `twin-${index}`, email: index % 2 ? 'Twin@example.test' : 'twin@example.test', password }),
      ),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    const refusals = answers.filter(({ status }) => status !== 200);
    expect(new Set(refusals.map(({ message }) => message))).toEqual(new Set(['email_exists']));
  });
});

describe('PUT /users/password', () => {
  const names = { email: 'changer@example.test' };
  let session: Session;
  beforeAll(async () => {
    await register({ ...names, password });
    session = (await logIn({ ...names, password })).data;
  });

  const change = (body: object, token?: string) => call('PUT', '/users/password', { body, token });

  it('refuses a new password that is weak, too long or missing', async () => {
    const { token } = session;
    expect(await change({ oldPassword: password, newPassword: 'short' }, token)).toMatchObject({
      status: 400,
      message: 'weak_password',
    });
    expect(await change({ oldPassword: password, newPassword: 'password' }, token)).toMatchObject({
      message: 'weak_password: it is among the 10 000 most common',
    });
    expect((await change({ oldPassword: password, newPassword: 'x'.repeat(129) }, token)).status).toBe(400);
    expect((await change({ oldPassword: password }, token)).status).toBe(400);
  });

  it('refuses a wrong old password and changes nothing', async () => {
    const answer = await change({ oldPassword: 'wrong horse', newPassword: 'another horse' }, session.token);
    expect(answer).toMatchObject({ status: 401, message: 'invalid_password' });
    expect((await logIn({ ...names, password })).status).toBe(200);
  });

  it('lets one of two simultaneous changes win', async () => {
    const answers = await Promise.all(
      ['first new one', 'second new one'].map((newPassword) =>
        change({ oldPassword: password, newPassword }, session.token),
      ),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 401]);
  });
});
