// HiveMQ Cloud's REST API: a credential a device, and a role with permissions of its own, because the variables of
// HiveMQ's permissions know the whole username, product key and device id in one. What no permission allows is denied.
// A device's role is the first thing made and the last one deleted: where there is none, nothing was left half-way.
import type { z } from 'zod';
import { parseJson } from '../domain/json.ts';
import { rightsOfDevice, type TopicRight } from '../domain/topic-rights.ts';
import { messagingName, type DeviceIdentity } from '../domain/topics.ts';
import {
  createdPermissionSchema,
  createdRoleSchema,
  credentialSchema,
  permissionsSchema,
  rolesSchema,
  type HivemqEntry,
  type HivemqPage,
} from '../protocol/hivemq-api.ts';
import { callBrokerApi, type BrokerApi, type BrokerApiCall } from './broker-api.ts';
import { BrokerAwayError, type BrokerProvisioner } from './broker-provisioner.ts';
import type { ServiceContext } from './context.ts';

/** All calls of one operation. A wish is two operations at most, and must have ended when its claim ends after 30 s. */
const endsWithinMs = 12_000;
const done = [200, 201, 202, 204];
const roles = '/mqtt/roles';
const permissions = '/mqtt/permissions';
const credentials = '/mqtt/credentials';

export function createHivemqProvisioner({ config }: ServiceContext): BrokerProvisioner {
  const { hivemqApi } = config.broker;
  if (hivemqApi === undefined) throw new Error('no HiveMQ API configured');
  const { url, token } = hivemqApi;
  const begin = () => openCalls({ name: 'HiveMQ API', url, authorization: `Bearer ${token}` });
  return {
    upsertCredential: async (device, password) => {
      const calls = begin();
      const credential = await findCredential(calls, device);
      // Rights first: whoever can log in finds them there.
      const roleId = await grantRights(calls, device, roleAmong(credential?.roles, device));
      if (credential !== undefined) await calls.send('DELETE', pathOfCredential(device), { orElse: 404 });
      // A password cannot be changed.
      const body = { credentials: { username: messagingName(device), password } };
      await calls.send('POST', credentials, { body });
      await attachRole(calls, device, roleId);
    },
    revoke: async (device, how) => {
      const calls = begin();
      if (how === 'block') await detachRole(calls, device);
      else await calls.send('DELETE', pathOfCredential(device), { orElse: 404 });
      await calls.send('DELETE', pathOfClient(device), { orElse: 404 });
      if (how === 'remove') await deleteRights(calls, device);
    },
    unblock: async (device) => {
      const calls = begin();
      const credential = await findCredential(calls, device);
      if (credential === undefined || roleAmong(credential.roles, device) !== undefined) return;
      await attachRole(calls, device, await grantRights(calls, device));
    },
    disconnect: async (device) => begin().send('DELETE', `${pathOfClient(device)}/connection`, { orElse: 404 }),
  };
}

type Method = BrokerApiCall['method'];
type Calls = {
  /** `orElse`: a status that is as good. */
  send: (method: Method, path: string, options?: { body?: object; orElse?: number }) => Promise<void>;
  read: <Answer>(schema: z.ZodType<Answer>, method: Method, path: string, body?: object) => Promise<Answer>;
  /** @returns undefined where `status` is answered */
  readUnless: <Answer>(
    status: number,
    schema: z.ZodType<Answer>,
    method: Method,
    path: string,
    body?: object,
  ) => Promise<Answer | undefined>;
  /** What a list holds, over all its pages. */
  list: (schema: z.ZodType<HivemqPage>, path: string) => Promise<HivemqEntry[]>;
};

function openCalls(api: BrokerApi): Calls {
  const signal = AbortSignal.timeout(endsWithinMs);
  const call = (method: Method, path: string, body?: object, orElse?: number) =>
    callBrokerApi(api, { method, path, body, accepts: orElse === undefined ? done : [...done, orElse], signal });
  const answerOf = async <Answer>(response: Response, schema: z.ZodType<Answer>, what: string): Promise<Answer> => {
    const text = await response.text().catch((error: unknown) => {
      throw new BrokerAwayError(`${api.name}: ${String(error)}`);
    });
    const parsed = schema.safeParse(parseJson(text));
    if (!parsed.success) throw new Error(`${api.name}: ${what} answered in an unknown shape`);
    return parsed.data;
  };
  const read: Calls['read'] = async (schema, method, path, body) =>
    answerOf(await call(method, path, body), schema, `${method} ${path}`);
  return {
    read,
    send: async (method, path, options) => {
      const response = await call(method, path, options?.body, options?.orElse);
      await response.body?.cancel();
    },
    readUnless: async (status, schema, method, path, body) => {
      const response = await call(method, path, body, status);
      if (response.status !== status) return answerOf(response, schema, `${method} ${path}`);
      await response.body?.cancel();
      return undefined;
    },
    list: async (schema, path) => {
      const entries: HivemqEntry[] = [];
      let query = '?limit=2500';
      while (query !== '') {
        const page = await read(schema, 'GET', `${path}${query}`);
        entries.push(...page.entries);
        // The next page's address may name any host: only its query is taken, so that the token stays with this one.
        query = typeof page.next === 'string' ? new URL(page.next, api.url).search : '';
      }
      return entries;
    },
  };
}

function findCredential(calls: Calls, device: DeviceIdentity) {
  return calls.readUnless(404, credentialSchema, 'GET', pathOfCredential(device));
}

/**
 * Makes what is missing of the device's role.
 * @param roleId where it is known
 * @returns the role's id
 */
async function grantRights(calls: Calls, device: DeviceIdentity, roleId?: string): Promise<string> {
  const madeId = roleId === undefined ? await createRole(calls, device) : undefined;
  const id = roleId ?? madeId ?? (await findRole(calls, device));
  if (id === undefined) throw new Error('HiveMQ API: a role that is said to exist is not listed');
  const attached = madeId === undefined ? await calls.list(permissionsSchema, `${pathOfRole(id)}/permissions`) : [];
  const wanted = rightsOfDevice(device).map((right) => permissionOf(device, right));
  const missing = wanted.filter(({ name }) => !attached.some((permission) => permission.name === name));
  // Of a role that was there, a permission may have been made and not attached.
  const isLookedFor = madeId === undefined && missing.length > 0;
  const known = isLookedFor ? await calls.list(permissionsSchema, permissions) : [];
  for (const permission of missing) {
    const foundId = known.find(({ name }) => name === permission.name)?.id;
    const permissionId = foundId ?? (await calls.read(createdPermissionSchema, 'POST', permissions, { permission }));
    await calls.send('PUT', `${pathOfAttachment(id, permissionId)}/attach`);
  }
  return id;
}

/** The permissions go first: while one is there, so is the role. */
async function deleteRights(calls: Calls, device: DeviceIdentity): Promise<void> {
  const roleId = await findRole(calls, device);
  if (roleId === undefined) return;
  for (const { id, name } of await calls.list(permissionsSchema, permissions)) {
    if (!name.startsWith(`${device.deviceId} `)) continue;
    await calls.send('PUT', `${pathOfAttachment(roleId, id)}/detach`, { orElse: 404 });
    await calls.send('DELETE', `${permissions}/${encodeURIComponent(id)}`, { orElse: 404 });
  }
  await calls.send('DELETE', pathOfRole(roleId), { orElse: 404 });
}

/** @returns undefined where it exists */
function createRole(calls: Calls, device: DeviceIdentity): Promise<string | undefined> {
  const role = { name: device.deviceId, description: descriptionOf(device) };
  return calls.readUnless(409, createdRoleSchema, 'POST', roles, { role });
}

async function findRole(calls: Calls, device: DeviceIdentity): Promise<string | undefined> {
  return roleAmong(await calls.list(rolesSchema, roles), device);
}

async function attachRole(calls: Calls, device: DeviceIdentity, roleId: string): Promise<void> {
  // 409: attached already.
  await calls.send('PUT', `${pathOfUserRole(device, roleId)}/attach`, { orElse: 409 });
}

async function detachRole(calls: Calls, device: DeviceIdentity): Promise<void> {
  const credential = await findCredential(calls, device);
  const roleId = roleAmong(credential?.roles, device);
  if (roleId !== undefined) await calls.send('PUT', `${pathOfUserRole(device, roleId)}/detach`, { orElse: 404 });
}

function roleAmong(entries: readonly HivemqEntry[] | undefined, { deviceId }: DeviceIdentity): string | undefined {
  return entries?.find(({ name }) => name === deviceId)?.id;
}

/** A device's rights need no more exactness than this: those with `isExact` hold no wildcard. */
function permissionOf(device: DeviceIdentity, { action, topic, mayRetain }: TopicRight) {
  const below = topic.split('/').slice(4).join('/');
  return {
    name: `${device.deviceId} ${action} ${below}`,
    description: descriptionOf(device),
    topic,
    publishAllowed: action === 'publish',
    subscribeAllowed: action === 'subscribe',
    qos0Allowed: true,
    qos1Allowed: true,
    qos2Allowed: true,
    retainedMsgsAllowed: mayRetain,
  };
}

const descriptionOf = (device: DeviceIdentity) => `Latchwork device ${messagingName(device)}`;
const ownName = (device: DeviceIdentity) => encodeURIComponent(messagingName(device));
const pathOfCredential = (device: DeviceIdentity) => `${credentials}/username/${ownName(device)}`;
const pathOfClient = (device: DeviceIdentity) => `/mqtt/clients/${ownName(device)}`;
const pathOfRole = (roleId: string) => `${roles}/${encodeURIComponent(roleId)}`;
const pathOfAttachment = (roleId: string, permissionId: string) =>
  `${pathOfRole(roleId)}/permissions/${encodeURIComponent(permissionId)}`;
const pathOfUserRole = (device: DeviceIdentity, roleId: string) =>
  `/user/${ownName(device)}/roles/${encodeURIComponent(roleId)}`;
