// Asks a Worker with metered-front.js in front of it what it has used. Asserts nothing.
import { fileURLToPath } from 'node:url';
import type { Activation } from '../clients/accounts.ts';
import { hookSecret } from './worker-rig.ts';

export const meteredFront = fileURLToPath(new URL('metered-front.js', import.meta.url));

/** What is charged by name; a name that is missing is 0. */
export type Counts = Record<string, number>;

export async function readMeter(workerUrl: string): Promise<Counts> {
  return (await (await fetch(`${workerUrl}/meter`)).json()) as Counts;
}

export async function resetMeter(workerUrl: string): Promise<void> {
  await post(`${workerUrl}/meter`);
}

/** The Worker's clock; alarms that are due by then have fired when this returns. */
export async function advanceClock(workerUrl: string, byMs: number): Promise<void> {
  await post(`${workerUrl}/meter?advanceMs=${byMs}`);
}

/** Reports the beginning of a session, as EMQX does. */
export async function reportConnected(workerUrl: string, { mqtt: { clientId, username } }: Activation): Promise<void> {
  const response = await fetch(`${workerUrl}/hooks/emqx/events`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${hookSecret}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ event: 'client.connected', clientid: clientId, username, connected_at: Date.now() }),
  });
  if (!response.ok) throw new Error(`the hook answers ${response.status}: ${await response.text()}`);
}

async function post(url: string): Promise<void> {
  const response = await fetch(url, { method: 'POST' });
  if (!response.ok) throw new Error(`the meter answers ${response.status}: ${await response.text()}`);
}
