// The sessions of a user, as the user sees and ends them. What a session is, is in sessions.ts.
import { digestOf } from '../../crypto/secrets.ts';
import { deleteSessionOf, deleteSessionsOf, listSessions } from '../../db/accounts/refresh-tokens.ts';
import type { PageRequest } from '../../domain/pagination.ts';
import { RefusedError } from '../../domain/refusal.ts';
import type { ServiceContext } from '../../context.ts';
import { toIso } from '../../domain/time.ts';

type InSession = { userId: number; sessionId: string };

export async function pageSessions(context: ServiceContext, caller: InSession, page: PageRequest) {
  const { total, rows } = await listSessions(context.primary(), caller.userId, Date.now(), page);
  const list = await Promise.all(
    rows.map(async ({ family, createdAt, rotatedAt, expiresAt, clientAddress, userAgent }) => ({
      sessionId: await publicIdOf(family),
      createdAt: toIso(createdAt),
      lastUsedAt: toIso(rotatedAt ?? createdAt),
      expiresAt: toIso(expiresAt),
      clientAddress: clientAddress === 'unknown' ? null : clientAddress,
      userAgent: userAgent === '' ? null : userAgent,
      isCurrent: family === caller.sessionId,
    })),
  );
  return { list, total, ...page };
}

export async function endSession(context: ServiceContext, { userId }: InSession, sessionId: string) {
  const database = context.primary();
  const { sessionsPerUser } = context.config.limits;
  const { rows } = await listSessions(database, userId, Date.now(), { page: 1, size: sessionsPerUser });
  const ids = await Promise.all(rows.map(({ family }) => publicIdOf(family)));
  const family = rows[ids.indexOf(sessionId)]?.family;
  if (family === undefined || !(await deleteSessionOf(database, userId, family))) {
    throw new RefusedError({ kind: 'not_found', what: 'session', id: sessionId });
  }
  return { sessionId };
}

export async function endSessions(context: ServiceContext, caller: InSession, isCurrentKept: boolean) {
  const kept = isCurrentKept ? caller.sessionId : undefined;
  return { ended: await deleteSessionsOf(context.primary(), caller.userId, kept) };
}

/** Addresses are logged, and whoever knows the stored name of a session can end it with an invented token. */
async function publicIdOf(family: string): Promise<string> {
  return (await digestOf(`session ${family}`)).slice(0, 24);
}
