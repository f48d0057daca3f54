// HiveMQ Cloud over its REST API: one credential per device, and one role with its own permissions, because HiveMQ's
// permission variables offer the whole username only, not product key and device id apart. What no permission allows is
// denied. Experimental: checked against a stand-in written from its documentation only, never against a real HiveMQ Cloud.
//
// A device's role is created first and deleted last: where there is no role, no permission was left behind.
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
import { BrokerCallError, type BrokerProvisioner } from './broker-provisioner.ts';
import type { ServiceContext } from './context.ts';

/** For all calls of one operation. An outbox entry is two operations at most, within its claim of 30 s. */
const endsWithinMs = 12_000;
const done = [200, 201, 202, 204];
const roles = '/mqtt/roles';
const permissions = '/mqtt/permissions';
const credentials = '/mqtt/credentials';

export function createHivemqProvisioner({ config }: ServiceContext): BrokerProvisioner {
  const { hivemqApi } = config.broker;
  if (hivemqApi === undefined) throw new Error('no HiveMQ API configured');
  const { url, token } = hivemqApi;
  const begin = () => openCalls({ name: 'HiveMQ', url, authorization: `Bearer ${token}` });
  return {
    upsertCredential: async (device, password) => {
      const calls = begin();
      const credential = await findCredential(calls, device);
      // Rights come first, so that no login finds them missing.
      const roleId = await grantRights(calls, device, roleAmong(credential?.roles, device));
      // HiveMQ has no call that changes a password.
      if (credential !== undefined) await calls.send('DELETE', pathOfCredential(device), { orElse: 404 });
      const body = { credentials: { username: messagingName(device), password } };
      await calls.send('POST', credentials, { body });
      await attachRole(calls, device, roleId);
    },
    enable: async (device) => {
      const calls = begin();
      const credential = await findCredential(calls, device);
      if (credential === undefined || roleAmong(credential.roles, device) !== undefined) return;
      await attachRole(calls, device, await grantRights(calls, device));
    },
    disable: async (device) => {
      const calls = begin();
      await detachRole(calls, device);
      await calls.send('DELETE', pathOfClient(device), { orElse: 404 });
    },
    delete: async (device) => {
      const calls = begin();
      await calls.send('DELETE', pathOfCredential(device), { orElse: 404 });
      await calls.send('DELETE', pathOfClient(device), { orElse: 404 });
      await deleteRights(calls, device);
    },
    endSessions: (device) => begin().send('DELETE', `${pathOfClient(device)}/connection`, { orElse: 404 }),
  };
}

type Method = BrokerApiCall['method'];
type Calls = {
  /** `orElse`: a further status that counts as success. */
  send: (method: Method, path: string, options?: { body?: object; orElse?: number }) => Promise<void>;
  read: <Answer>(schema: z.ZodType<Answer>, method: Method, path: string, body?: object) => Promise<Answer>;
  /** @returns undefined when the answer has `status` */
  readUnless: <Answer>(
    status: number,
    schema: z.ZodType<Answer>,
    method: Method,
    path: string,
    body?: object,
  ) => Promise<Answer | undefined>;
  /** All pages of a list. */
  list: (schema: z.ZodType<HivemqPage>, path: string) => Promise<HivemqEntry[]>;
};

function openCalls(api: BrokerApi): Calls {
  const signal = AbortSignal.timeout(endsWithinMs);
  const call = (method: Method, path: string, body?: object, orElse?: number) =>
    callBrokerApi(api, { method, path, body, accepts: orElse === undefined ? done : [...done, orElse], signal });
  const answerOf = async <Answer>(response: Response, schema: z.ZodType<Answer>, what: string): Promise<Answer> => {
    const call = `${api.name} ${what}`;
    const text = await response.text().catch((error: unknown) => {
      throw new BrokerCallError({ kind: 'broker_away', call, cause: { error: String(error) } });
    });
    const parsed = schema.safeParse(parseJson(text));
    if (!parsed.success) throw new BrokerCallError({ kind: 'unreadable_answer', call });
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
        // The next page's address may name any host: only its query is used, so that the token goes to no other host.
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
 * Creates the device's role and permissions as far as they are missing.
 * @param roleId where it is known
 * @returns the role's id
 */
async function grantRights(calls: Calls, device: DeviceIdentity, roleId?: string): Promise<string> {
  const createdId = roleId === undefined ? await createRole(calls, device) : undefined;
  const id = roleId ?? createdId ?? (await findRole(calls, device));
  // Creating the role was answered with 409, but the list does not have it.
  if (id === undefined) throw new BrokerCallError({ kind: 'unreadable_answer', call: `HiveMQ GET ${roles}` });
  const attached = createdId === undefined ? await calls.list(permissionsSchema, `${pathOfRole(id)}/permissions`) : [];
  const wanted = rightsOfDevice(device).map((right) => permissionOf(device, right));
  const missing = wanted.filter(({ name }) => !attached.some((permission) => permission.name === name));
  // A permission of an existing role may have been created and not attached.
  const mayExist = createdId === undefined && missing.length > 0;
  const known = mayExist ? await calls.list(permissionsSchema, permissions) : [];
  for (const permission of missing) {
    const foundId = known.find(({ name }) => name === permission.name)?.id;
    const permissionId = foundId ?? (await calls.read(createdPermissionSchema, 'POST', permissions, { permission }));
    await calls.send('PUT', `${pathOfAttachment(id, permissionId)}/attach`);
  }
  return id;
}

/** Permissions before the role: as long as one of them exists, the role that leads to it does too. */
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

/** @returns undefined when it exists */
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

/** HiveMQ has no exact match of a filter. Devices need none: their `isExact` rights hold no wildcards. */
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
