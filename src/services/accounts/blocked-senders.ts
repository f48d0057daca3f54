// Senders whom a user shuts out: the user is not shown their invitations and offers. Answers to the sender stay the same.
import { blockSender, listBlockedSenders, unblockSender } from '../../db/accounts/blocked-senders.ts';
import type { ServiceContext } from '../../context.ts';
import { foldName } from '../../domain/names.ts';
import type { PageRequest } from '../../domain/pagination.ts';
import { RefusedError } from '../../domain/refusal.ts';
import { requireUser } from './accounts.ts';
import { isEmailVerified } from './email-verification.ts';

export async function pageBlocked(context: ServiceContext, userId: number, page: PageRequest) {
  const { total, rows } = await listBlockedSenders(context.primary(), userId, page);
  return { list: rows, total, ...page };
}

export async function block(context: ServiceContext, userId: number, email: string) {
  const user = await requireUser(context, userId);
  // An account that did not prove its e-mail is shown no invitation that it could block.
  const isShown = isEmailVerified(context.config, user);
  const senderId = isShown ? await blockSender(context.primary(), user, foldName(email), Date.now()) : undefined;
  if (senderId === undefined) throw new RefusedError({ kind: 'not_found', what: 'sender' });
  return { userId: senderId };
}

export async function unblock(context: ServiceContext, userId: number, senderId: number) {
  if (!(await unblockSender(context.primary(), userId, senderId))) {
    throw new RefusedError({ kind: 'not_found', what: 'sender', id: String(senderId) });
  }
  return { userId: senderId };
}
