// One sender of the long run, in a thread of its own: posts how many were sent from time to time, and its result at the end.
import { parentPort, workerData } from 'node:worker_threads';
import { Tally, type Result, type Target } from './attack.ts';
import { sendHostileMachineRequests } from '../floods/hostile-machines.ts';
import { sendHostileReports } from '../floods/hostile-reports.ts';
import { sendHostileRequests } from './hostile-sender.ts';

/** How many of each kind. */
export type LongRunInputs = { requests: number; machines: number; messages: number };
export type LongRunData = {
  target: Pick<Target, 'url' | 'mqttUrl' | 'own'>;
  inputs: LongRunInputs;
  clients: number;
  seed: number;
};
export type LongRunResults = Record<keyof LongRunInputs, Result>;
export type LongRunMessage = { sent: number } | { results: LongRunResults; operations: number };

const { target, inputs, clients, seed } = workerData as LongRunData;
const post = (message: LongRunMessage) => parentPort?.postMessage(message);
const tallies = { requests: new Tally(), machines: new Tally(), messages: new Tally() };
const timer = setInterval(() => {
  post({ sent: tallies.requests.tried + tallies.machines.tried + tallies.messages.tried });
}, 1_000);
const untilMs = Infinity;
await sendHostileMachineRequests(target, tallies.machines, { count: inputs.machines, untilMs, clients, seed });
// The first device is that of the requests, which may disable it.
const senders = target.own.devices.slice(1);
const count = Math.ceil(inputs.messages / senders.length);
await Promise.all(
  senders.map((device, index) =>
    sendHostileReports(target, device, tallies.messages, { count, untilMs, seed: seed + index }),
  ),
);
const { operations } = await sendHostileRequests(target, tallies.requests, {
  count: inputs.requests,
  untilMs,
  clients,
  seed,
});
clearInterval(timer);
const { requests, machines, messages } = tallies;
post({
  results: { requests: requests.result(), machines: machines.result(), messages: messages.result() },
  operations,
});
