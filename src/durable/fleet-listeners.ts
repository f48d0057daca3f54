// This isolate's copy of the fleet directory: one caller reads it again in the second half of its lease, everybody when it
// has ended, so that what is pushed in between costs no call. Where the directory does not answer, the last copy serves on.
import { RefusedError } from '../domain/refusal.ts';
import type { FleetRegistration } from './fleet-directory.ts';
import { callFleetDirectory } from './stubs.ts';

type Fleets = ReadonlyMap<number, readonly FleetRegistration[]>;

type Copy = { version: string; fleets: Fleets; askedAtMs: number; renewAtMs: number; untilMs: number };

let copy: Copy = { version: '', fleets: new Map(), askedAtMs: 0, renewAtMs: 0, untilMs: 0 };

/** False where it is known that none of the users has such a subscription. */
export function mayListen(readers: readonly number[] = []): boolean {
  return readers.length > 0 && (!mayUseCopy(Date.now()) || readers.some((userId) => copy.fleets.has(userId)));
}

/** By user: the shards that want the messages of all devices of that user. */
export async function readFleets(env: Env): Promise<Fleets> {
  const askedAtMs = Date.now();
  if (mayUseCopy(askedAtMs)) return copy.fleets;
  // Meanwhile the others use what is there.
  copy.renewAtMs = copy.untilMs;
  try {
    // Not shared with other requests: an answer belongs to the request that asked.
    const answer = await callFleetDirectory(env, 'read', (directory) => directory.read(copy.version));
    const fleets = answer.registrations && Map.groupBy(answer.registrations, ({ userId }) => userId);
    if (fleets === undefined && answer.version !== copy.version) return await readFleets(env);
    copy = {
      version: answer.version,
      fleets: fleets ?? copy.fleets,
      askedAtMs,
      renewAtMs: askedAtMs + answer.leaseMs / 2,
      untilMs: askedAtMs + answer.leaseMs,
    };
  } catch (error) {
    // The call has logged it.
    if (!(error instanceof RefusedError)) throw error;
  }
  return copy.fleets;
}

/** Not one of a time that is still to come: the clock was set back since. */
function mayUseCopy(nowMs: number): boolean {
  return copy.askedAtMs <= nowMs && nowMs < copy.renewAtMs;
}
