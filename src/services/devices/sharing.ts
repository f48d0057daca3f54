// Sharing a device with other users: invitations by email, members. An invitation is a row in D1 and gives no right. A
// member is made, changed and ended by the device's object, which D1 follows (domain/device/sharing.ts): who may do what is
// right at once, lists are when D1 has taken it. Answers do not tell whether an email has an account.
import { createId } from '../../crypto/secrets.ts';
import * as members from '../../db/devices/members.ts';
import { findUser } from '../../db/accounts/users.ts';
import { inPerson, type Actor, type MemberRole } from '../../domain/access.ts';
import { foldName } from '../../domain/names.ts';
import type { InvitationChange } from '../../domain/device/ownership/sharing.ts';
import type { PageRequest } from '../../domain/pagination.ts';
import { limitReached, notFound, RefusedError } from '../../domain/refusal.ts';
import type { InviteBody } from '../../protocol/http/sharing.ts';
import type { ServiceContext } from '../../context.ts';
import { dayMs, toIso } from '../../domain/time.ts';
import { requireUser } from '../accounts/accounts.ts';
import { recordSecurityEvent } from '../accounts/security-events.ts';
import { askDeviceAs, decide, requireDevice } from './device-access.ts';
import { isEmailVerified, requireVerified } from '../accounts/email-verification.ts';

const invitationMs = 7 * dayMs;
const action = 'share';

/** What `actor` asks of the members and invitations of one device. */
export function sharingOf(context: ServiceContext, actor: Actor, deviceId: string) {
  const db = context.primary();
  const { limits } = context.config;
  const requireSharer = async () => (await requireDevice(context, actor, deviceId, action)).device;

  /** For lists, which are in D1: the object knows of another owner before D1 does. */
  async function requireLister() {
    const device = await requireSharer();
    const ifInactive = () => null;
    await askDeviceAs(context, actor, deviceId, {
      action,
      ask: (session) => session.allows(actor, action),
      ifInactive,
    });
    return device;
  }

  async function partyOf(userId: number) {
    const user = Number.isNaN(userId) ? undefined : await findUser(db, userId);
    return { userId, email: user?.email ?? '', address: context.clientAddress };
  }

  return {
    async invite({ email, role }: InviteBody) {
      const device = await requireSharer();
      const foldedEmail = foldName(email);
      const sender = await requireUser(context, actor.userId);
      requireVerified(context.config, sender);
      if (sender.foldedEmail === foldedEmail) throw new RefusedError({ kind: 'is_owner', deviceId });
      const createdAt = Date.now();
      const invitation = {
        id: createId('', 16),
        deviceRow: device.id,
        email,
        foldedEmail,
        role,
        invitedBy: actor.userId,
        madeByKey: actor.keyId,
        createdAt,
        expiresAt: createdAt + invitationMs,
      };
      const put = await members.putInvitation(db, invitation, limits);
      if (put === 'no_device') throw notFound('device', deviceId);
      if (put === 'full') throw limitReached('membersPerDevice', limits.membersPerDevice);
      if (put !== 'made') throw limitReached(put, members.maxInvitations[put]);
      try {
        await noteInvitation(context, actor, deviceId, { change: 'invited', role, email });
      } catch (error) {
        await members.deleteInvitation(db, invitation.id, { deviceRow: device.id });
        throw error;
      }
      return describeInvitation(invitation);
    },

    async pageInvitations(page: PageRequest) {
      const { total, rows } = await members.listInvitationsOf(db, (await requireLister()).id, page);
      return { list: rows.map(describeInvitation), total, ...page };
    },

    async withdraw(invitationId: string) {
      const { id: deviceRow } = await requireSharer();
      const deleted = await members.deleteInvitation(db, invitationId, { deviceRow });
      if (deleted === undefined) throw notFound('invitation', invitationId);
      const { email } = deleted;
      await noteInvitation(context, actor, deviceId, { change: 'invitation_withdrawn', role: null, email });
      return { invitationId };
    },

    async pageMembers(page: PageRequest) {
      const { total, rows } = await members.listMembers(db, (await requireLister()).id, page);
      return { list: rows.map((row) => ({ ...row, since: toIso(row.since) })), total, ...page };
    },

    async change(userId: number, role: MemberRole) {
      const event = { kind: 'member_changed', actor, role, ...(await partyOf(userId)) } as const;
      const member = await decide(context, deviceId, event);
      recordSecurityEvent(context, { userId: actor.userId, kind: 'role_changed', detail: { deviceId, userId, role } });
      return { userId: member.userId, role: member.role, since: toIso(member.sinceMs) };
    },

    /** Of others, or of oneself. */
    async remove(userId: number) {
      const { device } = await requireDevice(context, actor, deviceId, actor.userId === userId ? 'leave' : action);
      await decide(context, deviceId, { kind: 'member_removed', actor, ...(await partyOf(userId)) });
      // Of a member who leaves, the owner is not shown the address.
      const detail = { deviceId, userId };
      recordSecurityEvent(context, { userId: device.ownerId, kind: 'member_removed', clientAddress: null, detail });
      await members.deleteInvitationsOfUser(db, device.id, userId);
      return { userId };
    },
  };
}

export async function pageIncoming(context: ServiceContext, userId: number, page: PageRequest) {
  const user = await requireUser(context, userId);
  if (!isEmailVerified(context.config, user)) return { list: [], total: 0, ...page };
  const { total, rows } = await members.listInvitationsFor(context.primary(), user, Date.now(), page);
  const list = rows.map(({ invitation, deviceId, deviceName, inviter }) => {
    const { invitationId, role, createdAt, expiresAt } = describeInvitation(invitation);
    return { invitationId, deviceId, deviceName, invitedBy: inviter, role, createdAt, expiresAt };
  });
  return { list, total, ...page };
}

/** The same answer if it is repeated before the invitation is gone. @throws RefusedError not_found, limit_reached */
export async function acceptInvitation(context: ServiceContext, userId: number, id: string) {
  const { user, open } = await findOpenInvitation(context, userId, id);
  const { deviceId, invitation, maxMembers } = open;
  const { role, invitedBy } = invitation;
  const party = { email: user.email, address: context.clientAddress };
  await decide(context, deviceId, { kind: 'member_joined', userId, role, invitedBy, ...party, maxMembers });
  const detail = { deviceId, userId, role };
  recordSecurityEvent(context, { userId: invitedBy, kind: 'member_joined', clientAddress: null, detail });
  // The members were written without it if they had this role before, or have another one by now.
  await members.deleteInvitation(context.primary(), id, user);
  return { deviceId, role };
}

export async function declineInvitation(context: ServiceContext, userId: number, id: string) {
  const { user, open } = await findOpenInvitation(context, userId, id);
  if ((await members.deleteInvitation(context.primary(), id, user)) === undefined) throw notFound('invitation', id);
  const declined = { change: 'invitation_declined', role: null, email: user.email } as const;
  await noteInvitation(context, inPerson(userId), open.deviceId, declined);
  return { invitationId: id };
}

/** @throws RefusedError not_found, also for an account that did not prove its e-mail, or that has blocked the sender */
async function findOpenInvitation(context: ServiceContext, userId: number, id: string) {
  const user = await requireUser(context, userId);
  const isShown = isEmailVerified(context.config, user);
  const { limits } = context.config;
  const open = isShown ? await members.findInvitation(context.primary(), id, user, Date.now(), limits) : undefined;
  if (open === undefined) throw notFound('invitation', id);
  return { user, open };
}

export async function pageBlocked(context: ServiceContext, userId: number, page: PageRequest) {
  const { total, rows } = await members.listBlockedSenders(context.primary(), userId, page);
  return { list: rows, total, ...page };
}

export async function block(context: ServiceContext, userId: number, email: string) {
  const user = await requireUser(context, userId);
  // An account that did not prove its e-mail is shown no invitation that it could block.
  if (!isEmailVerified(context.config, user)) throw notFound('sender');
  const senderId = await members.blockSender(context.primary(), user, foldName(email), Date.now());
  if (senderId === undefined) throw notFound('sender');
  return { userId: senderId };
}

export async function unblock(context: ServiceContext, userId: number, senderId: number) {
  if (!(await members.unblockSender(context.primary(), userId, senderId))) throw notFound('sender', String(senderId));
  return { userId: senderId };
}

async function noteInvitation(
  context: ServiceContext,
  actor: Actor,
  deviceId: string,
  noted: { change: InvitationChange; role: MemberRole | null; email: string },
): Promise<void> {
  const { clientAddress: address } = context;
  try {
    await decide(context, deviceId, { kind: 'invitation_changed', actor, ...noted, address });
  } catch (error) {
    if (!(error instanceof RefusedError) || error.refusal.kind !== 'not_found') throw error;
  }
}

function describeInvitation({ id, email, role, createdAt, expiresAt }: members.InvitationRow) {
  return { invitationId: id, email, role, createdAt: toIso(createdAt), expiresAt: toIso(expiresAt) };
}
