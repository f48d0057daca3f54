// Every attack in its short form: a moment of each against the whole system with production limits. What must not happen
// does not, and a bystander is served meanwhile. How fast he is served is for `npm run test:attacks`.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fuzzSeed } from '../../rig/inputs/fuzzing.ts';
import { attacks } from './attack-list.ts';
import { Battlefield } from './rig/battlefield.ts';
import { send, times } from './rig/traffic.ts';

const effort = { seconds: 0.25, sockets: 60, clients: 8, seed: fuzzSeed };

let field: Battlefield;

beforeAll(async () => {
  field = await Battlefield.prepare(fuzzSeed);
});

afterAll(() => field.stop());

// Some mostly wait for a deadline: one after the other they would take a minute.
describe.concurrent('the service holds against', () => {
  it.for(attacks)('$name: $title', async (attack) => {
    const { result, bystanderFailures } = await field.try(attack, effort);
    expect(result.problems, `seed ${fuzzSeed}`).toEqual([]);
    expect(bystanderFailures).toEqual([]);
    expect(result.tried).toBeGreaterThan(0);
  });
});

it('and lets the victim sign in from an address where nobody knows him', async () => {
  expect(await field.signInElsewhere(30_000)).toBeDefined();
});

it('and counts each address by itself, in memory: nobody waits for a disk before he is looked at', async () => {
  // HEALTH_LIMIT of wrangler.toml is 120 a minute, and a minute may end meanwhile.
  const statuses: number[] = [];
  const ask = async (address: string): Promise<number> => {
    const { status, retryAfter } = await send(`${field.target.url}/health`, { address });
    expect(retryAfter).toBe(status === 429 ? '60' : null);
    return status;
  };
  await times(64, 241, async () => void statuses.push(await ask('198.51.100.1')));
  const refused = statuses.filter((status) => status === 429).length;
  expect(refused).toBeGreaterThan(0);
  expect(statuses.length - refused).toBeGreaterThanOrEqual(120);
  expect(await ask('198.51.100.2')).not.toBe(429);
  expect(existsSync(join(field.stateDir, 'worker/v3/d1'))).toBe(true);
  expect(existsSync(join(field.stateDir, 'worker/v3/ratelimit'))).toBe(false);
});
