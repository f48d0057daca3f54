// Opens D1 for one request. `first-primary` for reads that decide (login, key check, activation), `first-unconstrained`
// for lists, which may lag by a replica.
import { drizzle } from 'drizzle-orm/d1';
import * as schema from './schema.ts';

export type Database = ReturnType<typeof openDatabase>;

export function openDatabase(binding: D1Database, consistency: 'first-primary' | 'first-unconstrained') {
  // A session has all that Drizzle calls (prepare, batch); its type lacks the members Drizzle never uses.
  const session = binding.withSession(consistency) as unknown as D1Database;
  return drizzle(session, { schema });
}
