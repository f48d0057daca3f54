// Every scenario there is, in the order of a full run. Nothing else.
import { bridgeKills } from './bridge-kills.ts';
import { brokerRestarts } from './broker-restarts.ts';
import { networkCuts } from './network-cuts.ts';
import { poison } from './poison.ts';
import { redelivered } from './redelivered.ts';
import type { Scenario } from './scenario.ts';
import { spoolDamage, spoolFull } from './spool-faults.ts';
import { takeOvers } from './take-overs.ts';
import { answersLost, workerHangs, workerRefuses, workerRestarts } from './worker-faults.ts';

export const scenarios: Scenario[] = [
  redelivered,
  poison,
  answersLost,
  workerRefuses,
  workerHangs,
  bridgeKills,
  takeOvers,
  brokerRestarts,
  spoolFull,
  spoolDamage,
  networkCuts,
  workerRestarts,
];
