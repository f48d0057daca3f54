// A limit as it counts for one user, in the statement that it limits. The operator sets a user's own (docs/operations.md).
import { sql, type SQL, type SQLWrapper } from 'drizzle-orm';
import type { Limits } from '../../limits.ts';
import { userLimits } from '../schema/accounts.ts';

export type UserLimits<Name extends keyof Limits> = Pick<Limits, Name>;

export function limitOf<Name extends keyof Limits>(
  userId: SQLWrapper | number,
  name: Name,
  limits: UserLimits<Name>,
): SQL {
  const own = sql`select value from ${userLimits} where user_id = ${userId} and name = ${name}`;
  return sql`coalesce((${own}), ${limits[name]})`;
}
