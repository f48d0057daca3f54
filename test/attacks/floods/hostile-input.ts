// Generated input from outside, beside a bystander: every field of every route of the reference, the hooks and the bridge's
// routes without their secrets, and messages of a signed-in device. Counted; the seed makes the same input again.
import { Tally, type Attack } from '../rig/attack.ts';
import { sendHostileMachineRequests } from './hostile-machines.ts';
import { sendHostileReports } from './hostile-reports.ts';
import { sendHostileRequests } from '../rig/hostile-sender.ts';
import { endOf } from '../rig/traffic.ts';

export const hostileInput: Attack[] = [
  {
    name: 'hostile-requests',
    title: 'nearly right, wrong and hostile requests over every route, generated from the reference',
    holds: 'no 5xx, always the envelope, nothing that the reference does not say',
    run: async (target, { inputs, inputSeconds, clients, seed }) => {
      const tally = new Tally();
      await sendHostileRequests(target, tally, { count: inputs, untilMs: endOf(inputSeconds), clients, seed });
      return tally.result();
    },
  },
  {
    name: 'hostile-machines',
    title: "the brokers' hooks and the bridge's routes with spoiled secrets and hostile bodies",
    holds: 'refused before anything is read',
    run: async (target, { inputs, inputSeconds, clients, seed }) => {
      const tally = new Tally();
      const count = Math.ceil(inputs / 10);
      await sendHostileMachineRequests(target, tally, { count, untilMs: endOf(inputSeconds), clients, seed });
      return tally.result();
    },
  },
  {
    name: 'hostile-reports',
    title: 'messages of a signed-in device: no JSON, deep nesting, thousands of members, 16 KiB, no UTF-8',
    holds: "none is taken for a report; the device's next good report is shown",
    run: async (target, { inputs, inputSeconds, seed }) => {
      const tally = new Tally();
      const device = target.own.devices[1];
      if (device === undefined) throw new Error('the attacker has no device');
      await sendHostileReports(target, device, tally, {
        count: Math.ceil(inputs / 20),
        untilMs: endOf(inputSeconds),
        seed,
      });
      return tally.result();
    },
  },
];
