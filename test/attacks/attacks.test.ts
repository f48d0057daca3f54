// Every attack in its short form: a moment of each against the whole system with production limits. What must not happen
// does not, and a bystander is served meanwhile. How fast he is served is for `npm run test:attacks`.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fuzzSeed } from '../rig/fuzzing.ts';
import { attacks } from './attack-list.ts';
import { Battlefield } from './battlefield.ts';

const effort = { seconds: 0.25, inputs: 200, inputSeconds: 60, sockets: 60, clients: 8, seed: fuzzSeed };

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
