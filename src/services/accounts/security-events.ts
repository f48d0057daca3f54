// What a user is told of the safety of the account: a list of 90 days, log lines that are never sampled, and mails. An event is
// kept beside the request, so that a wrong password takes no longer for a name that has an account.
import { runInBackground, type ServiceContext } from '../../context.ts';
import { listSecurityEvents, putSecurityEvent } from '../../db/accounts/security-events.ts';
import type { PageRequest } from '../../domain/pagination.ts';
import { securityEventLifeMs } from '../../db/expired-rows.ts';
import { findUser } from '../../db/accounts/users.ts';
import { dayMs, toIso } from '../../domain/time.ts';
import { log } from '../../log.ts';
import { callInbox } from '../../objects/calls/stubs.ts';
import type { SecurityEventKind } from '../../protocol/vocabulary.ts';
import { deliver } from './mails.ts';

/** Months of ordinary use; a user who makes and deletes keys in a loop must not fill the table. */
export const maxEventsPerUser = 1_000;
/** Of each kind: a holder of a stolen session must not fill a mailbox. */
const noticesPerHour = 3;

/** What lets somebody in, and who else took a device: told to the user's inbox. Not wrong passwords, which anybody can send. */
const toldKinds: readonly SecurityEventKind[] = [
  ...(['signed_in', 'password_changed', 'password_reset', 'key_made', 'webhook_made'] as const),
  ...(['claim_undone', 'device_transferred'] as const),
];
const mails: Partial<Record<SecurityEventKind, string>> = {
  key_made: 'A new API key was made for your account.',
  webhook_made: 'A new webhook was made for your account: it is told of your devices.',
  password_reset: 'The password of your account was set anew with a token of a mail or of the operator.',
  signed_in: `Somebody signed in to your account from a network that it was not used from in ${securityEventLifeMs / dayMs} days.`,
};

type SecurityEvent = {
  userId: number;
  kind: SecurityEventKind;
  /** The other side of a transfer or an undone claim is told as well. */
  otherId?: number;
  /** By default that of the request. null: somebody else did it, whose address is not shown. */
  clientAddress?: string | null;
  /** Shown and logged: no secret and no e-mail. */
  detail?: Record<string, string | number>;
};

export function recordSecurityEvent(context: ServiceContext, { otherId, ...event }: SecurityEvent): void {
  const { userId, kind, detail = {}, clientAddress: address = context.clientAddress } = event;
  if (otherId !== undefined) recordSecurityEvent(context, { ...event, userId: otherId, clientAddress: null });
  const clientAddress = address === 'unknown' ? null : address;
  // Lines of level info are sampled.
  log('warn', 'security event', { userId, kind, clientAddress, ...detail });
  runInBackground('security event', keepEvent(context, { userId, kind, clientAddress, detail, createdAt: Date.now() }));
}

async function keepEvent(context: ServiceContext, event: Parameters<typeof putSecurityEvent>[1]): Promise<void> {
  const { userId, kind, clientAddress, createdAt, detail } = event;
  const before = await putSecurityEvent(context.primary(), event, maxEventsPerUser);
  if (!toldKinds.includes(kind) || before.inHour >= noticesPerHour) return;
  const user = await findUser(context.primary(), userId);
  if (user === undefined) return;
  const isFirst = before.all === 0 && user.createdAt > createdAt - securityEventLifeMs;
  if (kind === 'signed_in' && (clientAddress === null || before.fromHere > 0 || isFirst)) return;
  const notice = {
    cause: 'security',
    deviceId: null,
    deviceName: null,
    atMs: createdAt,
    detail: { event: kind, clientAddress, ...detail },
    again: null,
  } as const;
  const told = callInbox(context.env, userId, 'idempotent').change([{ key: `security ${kind}`, notice }]);
  runInBackground('security notice', told);
  const { mail } = context.config;
  if (mails[kind] === undefined || mail === undefined || user.emailVerifiedAt === null) return;
  const text = `${mails[kind]}

Time: ${toIso(createdAt)}
Network: ${clientAddress ?? 'unknown'}

If it was not you: set a new password, and end all sessions and API keys. Your account lists what else happened.
`;
  runInBackground('notice by mail', deliver(mail, user.email, { subject: 'Is this you?', text }));
}

export async function pageSecurityEvents(context: ServiceContext, userId: number, page: PageRequest) {
  const { total, rows } = await listSecurityEvents(context.primary(), userId, page);
  const list = rows.map(({ kind, clientAddress, createdAt, detail }) => {
    const { count, ...words } = detail ?? {};
    return { kind, at: toIso(createdAt), count: Number(count ?? 1), clientAddress, detail: words };
  });
  return { list, total, ...page };
}
