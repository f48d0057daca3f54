// Who may do what: the one table of rights, as data. The core of a device, the services and the routes ask it. Tests compare
// docs/security.md and the authorization matrix with it. Knows no storage: its callers say who has which role.
import { deviceRoles, keyScopes, memberRoles } from '../protocol/vocabulary.ts';
import { RefusedError, type Refusal } from './refusal.ts';

export type Role = (typeof deviceRoles)[number];
export type MemberRole = (typeof memberRoles)[number];

export const scopes = keyScopes;
export type Scope = (typeof scopes)[number];

/** `scopes`: the API key needs one of them. None: only the user in person, with a bearer token. */
type Rule = { what: string; roles: readonly Role[]; scopes: readonly Scope[] };

const everyMember = ['owner', 'operator', 'viewer'] as const;

export const deviceActions = {
  readDevice: { what: 'see it in lists, read its record', roles: everyMember, scopes: ['read'] },
  readSerial: { what: 'see its whole serial number', roles: ['owner', 'product_owner'], scopes: ['manage'] },
  readReports: {
    what: 'read status, properties, events; follow it on the relay',
    roles: everyMember,
    scopes: ['read'],
  },
  readCommands: { what: 'read its commands', roles: everyMember, scopes: ['read', 'control'] },
  control: { what: 'send and cancel commands', roles: ['owner', 'operator'], scopes: ['control'] },
  readSchedules: { what: 'read its schedules and runs', roles: everyMember, scopes: ['read'] },
  manageSchedules: {
    what: 'make, change, pause, run and remove schedules',
    roles: ['owner', 'operator'],
    scopes: ['control'],
  },
  manageWitness: { what: 'set and remove its witness', roles: ['owner', 'operator'], scopes: ['control'] },
  postponeUpdate: { what: 'put off new firmware', roles: ['owner'], scopes: ['manage'] },
  rename: { what: 'rename it', roles: ['owner'], scopes: ['manage'] },
  disable: { what: 'disable and enable it', roles: ['owner', 'product_owner'], scopes: ['manage'] },
  replaceCredentials: { what: 'give it new messaging credentials', roles: ['owner'], scopes: ['manage'] },
  pair: { what: 'set its pairing window and `reactivation`', roles: ['owner'], scopes: ['manage'] },
  share: {
    what: 'invite, change and remove members; make and revoke guest links',
    roles: ['owner'],
    scopes: ['manage'],
  },
  readSharing: {
    what: 'see who shares and uses it, from which network addresses',
    roles: ['owner'],
    scopes: ['manage'],
  },
  leave: { what: 'give up the own membership', roles: ['operator', 'viewer'], scopes: ['manage'] },
  transfer: { what: 'offer it to another user, release it', roles: ['owner'], scopes: [] },
  undoClaim: { what: 'undo its claim, within 14 days', roles: ['product_owner'], scopes: [] },
  delete: { what: 'delete it', roles: ['owner'], scopes: ['manage'] },
} as const satisfies Record<string, Rule>;
export type DeviceAction = keyof typeof deviceActions;

/** Actions on what belongs to one account: allowed to its owner alone, whatever the role. */
export const accountActions = {
  readAccount: { what: 'read the own account', scopes: ['read', 'control', 'manage'] },
  readProducts: { what: 'list and read the own products', scopes: ['read'] },
  manageProducts: { what: 'make, change and delete own products', scopes: ['manage'] },
  claimDevices: { what: 'claim devices', scopes: ['manage'] },
  answerOffers: { what: 'accept or decline what others offer: shared and transferred devices', scopes: [] },
  manageKeys: { what: 'make, list and delete API keys', scopes: [] },
  manageWebhooks: { what: 'make, list, change and delete webhooks', scopes: ['manage'] },
  readCollections: { what: 'list and read the own groups and scenes', scopes: ['read', 'control', 'manage'] },
  manageCollections: { what: 'make, change and delete own groups and scenes', scopes: ['manage'] },
  manageNotices: { what: 'read the own notices, set which come and where', scopes: [] },
  manageAccount: { what: 'get a copy of all own data, delete the account', scopes: [] },
  manageSessions: { what: 'list and end sessions, change the password', scopes: [] },
} as const satisfies Record<string, Omit<Rule, 'roles'>>;
type AccountAction = keyof typeof accountActions;

export type Action = DeviceAction | AccountAction;

export type Actor = {
  userId: number;
  scopes: readonly Scope[] | null;
  productKey: string | null;
  /** The devices for which alone the API key is. Absent, or null, for all. */
  deviceIds?: readonly string[] | null;
  /** The API key that acts for its user; null: the user in person. */
  keyId: string | null;
};

export function actorOf({ userId, scopes: own, productKey, deviceIds = null, keyId }: Actor): Actor {
  return { userId, scopes: own, productKey, keyId, ...(deviceIds && { deviceIds }) };
}

export function inPerson(userId: number): Actor {
  return { userId, scopes: null, productKey: null, keyId: null };
}

export type Ownership = {
  ownerId: number;
  productOwnerId?: number | undefined;
  members?: readonly { userId: number; role: MemberRole }[];
};

export function scopesFor(action: Action): readonly Scope[] {
  return action in deviceActions
    ? deviceActions[action as DeviceAction].scopes
    : accountActions[action as AccountAction].scopes;
}

export function roleOf({ ownerId, productOwnerId, members = [] }: Ownership, userId: number): Role | undefined {
  if (ownerId === userId) return 'owner';
  const role = members.find((member) => member.userId === userId)?.role;
  return role ?? (productOwnerId === userId ? 'product_owner' : undefined);
}

export function usersWith(device: Ownership, action: DeviceAction): number[] {
  const named = [device.ownerId, ...(device.members ?? []).map(({ userId }) => userId)];
  return named.filter((userId) => hasRight(roleOf(device, userId) ?? 'product_owner', action));
}

export function hasRight(role: Role, action: DeviceAction): boolean {
  return (deviceActions[action].roles as readonly Role[]).includes(role);
}

export function hasScope({ scopes: own }: Actor, action: Action): boolean {
  return own === null || scopesFor(action).some((scope) => own.includes(scope));
}

export function refusalOf(
  device: Ownership & { deviceId: string; productKey: string },
  actor: Actor,
  action: DeviceAction,
): Refusal | undefined {
  const { deviceId: id, productKey } = device;
  const role = roleOf(device, actor.userId);
  if (role === undefined) return { kind: 'not_owner', of: 'device', id };
  if (!hasRight(role, action)) return { kind: 'role_lacks_right', role, action, id };
  return refusalOfKey(actor, action, productKey, id);
}

/** If not, views leave out who shares and uses the device: see core/views.ts and `viewCommand`. */
export function seesSharing(
  device: { identity: Ownership & { deviceId: string; productKey: string }; sharing: Pick<Ownership, 'members'> },
  actor: Actor,
): boolean {
  const { identity, sharing } = device;
  return refusalOf({ ...identity, ...sharing }, actor, 'readSharing') === undefined;
}

function refusalOfKey(actor: Actor, action: Action, productKey?: string, deviceId?: string): Refusal | undefined {
  if (actor.productKey !== null && productKey !== undefined && actor.productKey !== productKey) {
    return { kind: 'key_lacks_right', lacks: 'product', action };
  }
  // A product is none of the devices.
  const isOfDevice = deviceId !== undefined || productKey !== undefined;
  if (actor.deviceIds && isOfDevice && !actor.deviceIds.includes(deviceId ?? '')) {
    return { kind: 'key_lacks_right', lacks: 'device', action };
  }
  return hasScope(actor, action) ? undefined : { kind: 'key_lacks_right', lacks: 'scope', action };
}

export function requireRightOfKey(actor: Actor, action: Action, productKey: string | undefined): void {
  const refusal = refusalOfKey(actor, action, productKey);
  if (refusal !== undefined) throw new RefusedError(refusal);
}
