// EMQX 5 over its REST API: users and rules of its built-in database, its ban list, and ending sessions, which the local
// broker offers too. All of it is by client id, because EMQX binds a password to one identity: by username, a device could
// log in under the client id of another client and inherit its session. Checked against EMQX's source, 5.4.1 and 5.8.9;
// never run.
import { z } from 'zod';
import type { Config } from '../../config.ts';
import { parseJson } from '../../domain/json.ts';
import { rightsOfDevice, type TopicRight } from '../../domain/topic-rights.ts';
import { messagingName, type DeviceIdentity } from '../../domain/topics.ts';
import { describeError, log } from '../../log.ts';
import { BrokerCallError, type BrokerProvisioner } from './provisioner.ts';
import type { ServiceContext } from '../../context.ts';

const users = '/authentication/password_based%3Abuilt_in_database/users';
const rules = '/authorization/sources/built_in_database/rules/clients';
const answerWithinMs = 5_000;
const disconnectWithinMs = 2_000;
/** EMQX takes a ban without an end for one of a year. */
const bannedUntil = '2999-12-31T23:59:59Z';
const alreadyExistsSchema = z.object({ code: z.literal('ALREADY_EXISTS') });
/** A client whose session outlives its connection is known and not connected. */
const connectedClientSchema = z.object({ connected: z.boolean() });
const unknownClientSchema = z.object({ code: z.literal('CLIENTID_NOT_FOUND') });

type EmqxApi = NonNullable<Config['broker']['api']>;
type EmqxCall = { method: 'GET' | 'POST' | 'PUT' | 'DELETE'; path: string; body?: object; accepts: readonly number[] };

export function createEmqxProvisioner({ config }: ServiceContext): BrokerProvisioner {
  const { api } = config.broker;
  if (api === undefined) throw new Error('no broker API configured');
  const call = (request: EmqxCall) => callEmqx(api, request);
  const endSessions = (device: DeviceIdentity) => endEmqxSessions(api, device);
  const ban = async (clientId: string): Promise<void> => {
    const body = { as: 'clientid', who: clientId, by: 'latchwork', reason: 'device disabled', until: bannedUntil };
    const { status, text } = await call({ method: 'POST', path: '/banned', body, accepts: [200, 400] });
    // EMQX answers 400 both to a ban that exists and to one that it rejects.
    if (status === 400 && !alreadyExistsSchema.safeParse(parseJson(text)).success) {
      throw new BrokerCallError({ kind: 'refused', call: 'EMQX POST /banned', status });
    }
  };
  const remove = (path: string) => call({ method: 'DELETE', path, accepts: [204, 404] });
  const liftBan = async (clientId: string): Promise<void> => {
    await remove(`/banned/clientid/${encodeURIComponent(clientId)}`);
  };
  /** Changes what exists and creates what does not. */
  const put = async (path: string, body: object, create: { path: string; body: object }): Promise<void> => {
    const { status } = await call({ method: 'PUT', path, body, accepts: [200, 204, 404] });
    if (status === 404) await call({ method: 'POST', ...create, accepts: [200, 201, 204] });
  };

  return {
    upsertCredential: async (device, password) => {
      const clientid = messagingName(device);
      const own = encodeURIComponent(clientid);
      // Rights come first, so that no login finds them missing.
      const rights = { clientid, rules: aclOf(rightsOfDevice(device)) };
      await put(`${rules}/${own}`, rights, { path: rules, body: [rights] });
      const credential = { password, is_superuser: false };
      await put(`${users}/${own}`, credential, { path: users, body: { user_id: clientid, ...credential } });
      await liftBan(clientid);
    },
    enable: (device) => liftBan(messagingName(device)),
    disable: async (device) => {
      await ban(messagingName(device));
      await endSessions(device);
    },
    delete: async (device) => {
      const clientId = messagingName(device);
      const own = encodeURIComponent(clientId);
      await remove(`${users}/${own}`);
      await remove(`${rules}/${own}`);
      await liftBan(clientId);
      await endSessions(device);
    },
    endSessions,
  };
}

/** Best effort, for two seconds at most: whatever a revoked session still publishes has no effect. Never rejects. */
export async function disconnectClient({ config }: ServiceContext, device: DeviceIdentity): Promise<void> {
  const { api } = config.broker;
  if (api === undefined) return;
  try {
    await endEmqxSessions(api, device, disconnectWithinMs);
  } catch (error) {
    const reason = error instanceof BrokerCallError ? { failure: error.failure } : describeError(error);
    log('warn', 'broker session not ended', { deviceId: device.deviceId, ...reason });
  }
}

/**
 * Whether the broker has a connection of the device, which the local broker tells too.
 * @throws BrokerCallError
 */
export async function isClientConnected({ config }: ServiceContext, device: DeviceIdentity): Promise<boolean> {
  const { api } = config.broker;
  if (api === undefined) throw new Error('no broker API configured');
  const path = `/clients/${encodeURIComponent(messagingName(device))}`;
  const { call, status, text } = await callEmqx(api, { method: 'GET', path, accepts: [200, 404] });
  const answer = (status === 200 ? connectedClientSchema : unknownClientSchema).safeParse(parseJson(text)).data;
  if (answer === undefined) throw new BrokerCallError({ kind: 'unreadable_answer', call });
  return 'connected' in answer && answer.connected;
}

/**
 * @returns an answer with one of the statuses in `accepts`; `call` names the request in errors
 * @throws BrokerCallError
 */
async function callEmqx({ url, key, secret }: EmqxApi, request: EmqxCall, withinMs = answerWithinMs) {
  const { method, path, body, accepts } = request;
  const call = `EMQX ${method} ${path}`;
  const headers = { Authorization: `Basic ${btoa(`${key}:${secret}`)}`, 'Content-Type': 'application/json' };
  const signal = AbortSignal.timeout(withinMs);
  const sent = { method, headers, body: body === undefined ? null : JSON.stringify(body), signal };
  const { status, text } = await fetch(`${url}/api/v5${path}`, sent)
    .then(async (response) => ({ status: response.status, text: await response.text() }))
    .catch((error: unknown) => {
      throw new BrokerCallError({ kind: 'broker_away', call, cause: { error: String(error) } });
    });
  if (accepts.includes(status)) return { call, status, text };
  // A refused API key and a rate limit concern every device, not this call alone.
  if (status < 500 && ![401, 403, 429].includes(status)) throw new BrokerCallError({ kind: 'refused', call, status });
  throw new BrokerCallError({ kind: 'broker_away', call, cause: { status } });
}

async function endEmqxSessions(api: EmqxApi, device: DeviceIdentity, withinMs?: number): Promise<void> {
  const path = `/clients/${encodeURIComponent(messagingName(device))}`;
  // 404: it is not connected.
  await callEmqx(api, { method: 'DELETE', path, accepts: [200, 204, 404] }, withinMs);
}

/** The first matching rule decides. Without the last one, EMQX asks its other authorizers, whose default is to allow. */
export function aclOf(rights: readonly TopicRight[]) {
  return [...rights.map(ruleOf), { permission: 'deny', action: 'all', topic: '#' }];
}

function ruleOf({ action, topic, isExact, mayRetain }: TopicRight) {
  // `eq` matches the text literally. Without it a filter with `+` would also admit one with `#`.
  const rule = { permission: 'allow', action, topic: isExact ? `eq ${topic}` : topic };
  return action === 'publish' && !mayRetain ? { ...rule, retain: false } : rule;
}
