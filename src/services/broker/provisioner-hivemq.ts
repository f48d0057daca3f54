// HiveMQ Cloud over its REST API: one credential per device, and one role with its own permissions, because HiveMQ's
// permission variables offer the whole username only, not product key and device id apart. What no permission allows is
// denied. Experimental: checked against a stand-in written from its documentation only, never against a real HiveMQ Cloud.
//
// A device's role is created first and deleted last: where there is no role, no permission was left behind.
import type { z } from 'zod';
import { parseJson } from '../../domain/json.ts';
import { rightsOfDevice, type TopicRight } from '../../domain/topic-rights.ts';
import { messagingName, type DeviceIdentity } from '../../domain/topics.ts';
import {
  createdPermissionSchema,
  createdRoleSchema,
  credentialSchema,
  permissionsSchema,
  rolesSchema,
  type HivemqEntry,
  type HivemqPage,
} from '../../protocol/hivemq-api.ts';
import { callBrokerApi, type BrokerAnswer, type BrokerApi, type BrokerApiCall } from './api.ts';
import { BrokerCallError, type BrokerProvisioner } from './provisioner.ts';
import type { ServiceContext } from '../../context.ts';

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
  const begin = () => new HivemqCalls({ name: 'HiveMQ', url, authorization: `Bearer ${token}` });
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
      const roleId = roleAmong((await findCredential(calls, device))?.roles, device);
      if (roleId !== undefined) await calls.send('PUT', `${pathOfUserRole(device, roleId)}/detach`, { orElse: 404 });
      await calls.send('DELETE', pathOfClient(device), { orElse: 404 });
    },
    delete: async (device) => {
      const calls = begin();
      await calls.send('DELETE', pathOfCredential(device), { orElse: 404 });
      await calls.send('DELETE', pathOfClient(device), { orElse: 404 });
      const roleId = roleAmong(await calls.list(rolesSchema, roles), device);
      if (roleId === undefined) return;
      // Permissions before the role: as long as one of them exists, the role that leads to it does too.
      for (const { id, name } of await calls.list(permissionsSchema, permissions)) {
        if (!name.startsWith(`${device.deviceId} `)) continue;
        await calls.send('PUT', `${pathOfAttachment(roleId, id)}/detach`, { orElse: 404 });
        await calls.send('DELETE', `${permissions}/${encodeURIComponent(id)}`, { orElse: 404 });
      }
      await calls.send('DELETE', pathOfRole(roleId), { orElse: 404 });
    },
    endSessions: async (device) => {
      await begin().send('DELETE', `${pathOfClient(device)}/connection`, { orElse: 404 });
    },
  };
}

/** The calls of one operation, which together have to end in time. */
class HivemqCalls {
  readonly #api: BrokerApi;
  readonly #signal = AbortSignal.timeout(endsWithinMs);

  constructor(api: BrokerApi) {
    this.#api = api;
  }

  /** `orElse`: a further status that counts as success. */
  send(
    method: BrokerApiCall['method'],
    path: string,
    { body, orElse }: { body?: object; orElse?: number } = {},
  ): Promise<BrokerAnswer> {
    const accepts = orElse === undefined ? done : [...done, orElse];
    return callBrokerApi(this.#api, { method, path, body, accepts }, this.#signal);
  }

  /** All pages of a list. */
  async list(schema: z.ZodType<HivemqPage>, path: string): Promise<HivemqEntry[]> {
    const entries: HivemqEntry[] = [];
    let query = '?limit=2500';
    while (query !== '') {
      const page = readAnswer(schema, await this.send('GET', `${path}${query}`));
      entries.push(...page.entries);
      // The next page's address may name any host: only its query is used, so that the token goes to no other host.
      query = typeof page.next === 'string' ? new URL(page.next, this.#api.url).search : '';
    }
    return entries;
  }
}

function readAnswer<Answer>(schema: z.ZodType<Answer>, { call, text }: BrokerAnswer): Answer {
  const parsed = schema.safeParse(parseJson(text));
  if (!parsed.success) throw new BrokerCallError({ kind: 'unreadable_answer', call });
  return parsed.data;
}

async function findCredential(calls: HivemqCalls, device: DeviceIdentity) {
  const answer = await calls.send('GET', pathOfCredential(device), { orElse: 404 });
  return answer.status === 404 ? undefined : readAnswer(credentialSchema, answer);
}

/**
 * Creates the device's role and permissions as far as they are missing.
 * @param roleId where it is known
 * @returns the role's id
 */
async function grantRights(calls: HivemqCalls, device: DeviceIdentity, roleId?: string): Promise<string> {
  const createdId = roleId === undefined ? await createRole(calls, device) : undefined;
  const id = roleId ?? createdId ?? roleAmong(await calls.list(rolesSchema, roles), device);
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
    const permissionId =
      foundId ?? readAnswer(createdPermissionSchema, await calls.send('POST', permissions, { body: { permission } }));
    await calls.send('PUT', `${pathOfAttachment(id, permissionId)}/attach`);
  }
  return id;
}

/** @returns undefined when it exists */
async function createRole(calls: HivemqCalls, device: DeviceIdentity): Promise<string | undefined> {
  const role = { name: device.deviceId, description: descriptionOf(device) };
  const answer = await calls.send('POST', roles, { body: { role }, orElse: 409 });
  return answer.status === 409 ? undefined : readAnswer(createdRoleSchema, answer);
}

async function attachRole(calls: HivemqCalls, device: DeviceIdentity, roleId: string): Promise<void> {
  // 409: attached already.
  await calls.send('PUT', `${pathOfUserRole(device, roleId)}/attach`, { orElse: 409 });
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
