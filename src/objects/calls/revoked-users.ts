// Which users were disabled or deleted while their access tokens may still live. Each isolate remembers one list, which requests
// renew at most once a second. It decides nothing about API keys and sessions: their rows are read.
import { finishInBackground, runInBackground } from '../../context.ts';
import { readConfig } from '../../config.ts';
import { listUsersDisabledSince } from '../../db/accounts/users.ts';
import { openDatabase } from '../../db/client.ts';
import { describeError, log } from '../../log.ts';
import { within } from './within.ts';

/** A list of this age is renewed beside the request, so that a busy isolate never waits for the database. */
const renewAfterMs = 1_000;
/** No request relies on an older list. */
const maxAgeMs = 2_000;
/** Commands and status views work without the database: then the last list counts. */
const answerWithinMs = 500;
const pollMs = 10;

/** `readingSinceMs`: of a read that is under way. */
type List = { userIds: ReadonlySet<number>; readAtMs: number; readingSinceMs: number };

const unread = { readAtMs: -Infinity, readingSinceMs: -Infinity };
let list: List = { userIds: new Set(), ...unread };

export async function readRevokedUsers(env: Env): Promise<ReadonlySet<number>> {
  const used = list;
  // A clock that was set back must not keep the list for long.
  const isOlderThan = (ageMs: number): boolean => Math.abs(Date.now() - used.readAtMs) >= ageMs;
  const isReading = (): boolean => Math.abs(Date.now() - used.readingSinceMs) < 2 * answerWithinMs;
  if (isOlderThan(renewAfterMs) && !isReading()) {
    const renewed = renew(env, used);
    if (isOlderThan(maxAgeMs)) await finishInBackground(renewed);
    else runInBackground('read revoked users', renewed);
  }
  // By its own timer: a promise of another request cannot be awaited.
  while (isOlderThan(maxAgeMs) && isReading()) await scheduler.wait(pollMs);
  return used.userIds;
}

/** The next request reads the list anew; a read that is under way may have begun too early. */
export function forgetRevokedUsers(): void {
  list = { ...list, ...unread };
}

/** A failed read counts as well: the requests of an outage must not each wait for one. */
async function renew(env: Env, renewed: List): Promise<void> {
  const readAtMs = Date.now();
  renewed.readingSinceMs = readAtMs;
  try {
    const sinceMs = readAtMs - readConfig(env).accessTokenSeconds * 1000;
    const reading = listUsersDisabledSince(openDatabase(env.DB), sinceMs);
    const userIds = await within(answerWithinMs, reading);
    if (userIds === undefined) throw new Error('no answer in time');
    renewed.userIds = new Set(userIds);
  } catch (error) {
    log('warn', 'revoked users not read', describeError(error));
  } finally {
    renewed.readAtMs = readAtMs;
    renewed.readingSinceMs = -Infinity;
  }
}
