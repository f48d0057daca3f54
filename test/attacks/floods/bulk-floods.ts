// Floods of requests that each change many devices. An owner of thousands deletes them in slices, in a loop and in
// parallel, and imports more meanwhile.
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Tally, type Attack, type Target } from '../rig/attack.ts';
import { oneAddress } from './http-floods.ts';
import { endOf, inParallel, nameOfError, send, type HttpAnswer } from '../rig/traffic.ts';

const serialsAtOnce = 1_000;
const path = '/api/v1/products';
const ever = 'createdAfter=2000-01-01T00:00:00Z';
const preparedWithinMs = 60_000;

const newSerial = (): string => `bulk-${randomBytes(8).toString('hex')}`;

function ask({ url, own }: Target, method: string, to: string, body?: object): Promise<HttpAnswer> {
  const headers = { Authorization: `Bearer ${own.token}` };
  const text = body === undefined ? {} : { body: JSON.stringify(body) };
  return send(`${url}${path}${to}`, { method, headers, address: oneAddress, ...text });
}

const importSome = (target: Target, productKey: string): Promise<HttpAnswer> =>
  ask(target, 'POST', `/${productKey}/serials`, { serials: Array.from({ length: serialsAtOnce }, newSerial) });

/** Asks again if it is refused for now. @throws Error if it stays refused */
async function insist(what: () => Promise<HttpAnswer>): Promise<void> {
  const untilMs = performance.now() + preparedWithinMs;
  for (;;) {
    const { status, text } = await what();
    if (status === 200) return;
    if (status !== 429 || performance.now() > untilMs) throw new Error(`preparing: ${status} ${text.slice(0, 200)}`);
    await sleep(500);
  }
}

/** The product with the devices of the first round; later rounds delete more of them. */
let prepared: string | undefined;

async function prepare(target: Target, imports: number): Promise<string> {
  if (prepared !== undefined) return prepared;
  const productKey = newSerial();
  await insist(() => ask(target, 'POST', '', { productKey, name: 'Bulk' }));
  for (let count = 0; count < imports; count += 1) await insist(() => importSome(target, productKey));
  return (prepared = productKey);
}

export const bulkFloods: Attack[] = [
  {
    name: 'bulk-deletions',
    title: 'an owner of thousands of devices deletes them and imports more, in parallel and in a loop',
    holds: "each is answered, or refused beyond the user's writes, and the bystander is served",
    run: async (target, { seconds, clients, sockets }) => {
      const tally = new Tally();
      const productKey = await prepare(target, Math.ceil(sockets / 100));
      await inParallel(clients, endOf(seconds), async (number) => {
        const isImport = number % 8 === 7;
        try {
          const { status, text } = await (isImport
            ? importSome(target, productKey)
            : ask(target, 'DELETE', `/${productKey}/devices?${ever}`));
          tally.note(`${isImport ? 'import' : 'deletion'} ${status}`);
          if (status !== 200 && status !== 429) tally.problem(`${status} ${text.slice(0, 200)}`);
          const { data } = JSON.parse(text) as { data: { failed?: number } | null };
          if ((data?.failed ?? 0) > 0) tally.problem(`${data?.failed} devices were not deleted`);
        } catch (error) {
          tally.note(nameOfError(error));
          tally.problem(nameOfError(error));
        }
      });
      return tally.result();
    },
  },
];
