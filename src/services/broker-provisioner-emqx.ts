// EMQX 5's REST API: users and rules of its built-in database, and its list of banned users. Speaks HTTPS with an API
// key; the password is said once and EMQX keeps its hash.
import { z } from 'zod';
import { rightsOfDevice } from '../domain/topic-rights.ts';
import { messagingName } from '../domain/topics.ts';
import { callBrokerApi, type BrokerApiCall } from './broker-api.ts';
import type { BrokerProvisioner } from './broker-provisioner.ts';
import type { ServiceContext } from './context.ts';
import { aclOf } from './emqx-acl.ts';

const users = '/authentication/password_based%3Abuilt_in_database/users';
const rules = '/authorization/sources/built_in_database/rules/users';
const answerWithinMs = 5_000;
/** EMQX takes a ban without an end for one of a year. */
const bannedUntil = '2999-12-31T23:59:59Z';
const alreadyExistsSchema = z.object({ code: z.literal('ALREADY_EXISTS') });

type Call = Pick<BrokerApiCall, 'method' | 'path' | 'body' | 'accepts'>;

export function createEmqxProvisioner({ config }: ServiceContext): BrokerProvisioner {
  if (config.broker.api === undefined) throw new Error('no broker API configured');
  const { url, key, secret } = config.broker.api;
  const api = { name: 'EMQX API', url: `${url}/api/v5`, authorization: `Basic ${btoa(`${key}:${secret}`)}` };

  const ask = (given: Call): Promise<Response> =>
    callBrokerApi(api, { ...given, signal: AbortSignal.timeout(answerWithinMs) });
  /** @returns the status, one of `accepts` */
  const call = async (given: Call): Promise<number> => {
    const { status, body } = await ask(given);
    await body?.cancel();
    return status;
  };

  const endSessions = async (name: string): Promise<void> => {
    await call({ method: 'DELETE', path: `/clients/${encodeURIComponent(name)}`, accepts: [204, 404] });
  };
  const ban = async (name: string): Promise<void> => {
    const body = { as: 'username', who: name, by: 'latchwork', reason: 'device disabled', until: bannedUntil };
    const answer = await ask({ method: 'POST', path: '/banned', body, accepts: [200, 400] });
    if (answer.status === 200) return answer.body?.cancel();
    // 400 is said of a ban that is there, and of one that EMQX does not take.
    const refusal: unknown = await answer.json().catch(() => undefined);
    if (!alreadyExistsSchema.safeParse(refusal).success) throw new Error('EMQX API: POST /banned answered 400');
  };
  const liftBan = async (name: string): Promise<void> => {
    await call({ method: 'DELETE', path: `/banned/username/${encodeURIComponent(name)}`, accepts: [204, 404] });
  };
  /** Changes what is there, makes what is not. */
  const put = async (path: string, body: object, create: { path: string; body: object }): Promise<void> => {
    const status = await call({ method: 'PUT', path, body, accepts: [200, 204, 404] });
    if (status === 404) await call({ method: 'POST', ...create, accepts: [200, 201, 204] });
  };

  return {
    upsertCredential: async (device, password) => {
      const username = messagingName(device);
      const own = encodeURIComponent(username);
      // Rights first: whoever can log in finds them there.
      const rights = { username, rules: aclOf(rightsOfDevice(device)) };
      await put(`${rules}/${own}`, rights, { path: rules, body: [rights] });
      const credential = { password, is_superuser: false };
      await put(`${users}/${own}`, credential, { path: users, body: { user_id: username, ...credential } });
      await liftBan(username);
    },
    revoke: async (device, how) => {
      const username = messagingName(device);
      const own = encodeURIComponent(username);
      if (how === 'block') await ban(username);
      else {
        await call({ method: 'DELETE', path: `${users}/${own}`, accepts: [204, 404] });
        await call({ method: 'DELETE', path: `${rules}/${own}`, accepts: [204, 404] });
        await liftBan(username);
      }
      await endSessions(username);
    },
    unblock: async (device) => liftBan(messagingName(device)),
    disconnect: async (device) => endSessions(messagingName(device)),
  };
}
