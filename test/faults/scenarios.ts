// Every scenario, in the order of a full run.
import { bulk } from './scenarios/bulk.ts';
import { campaign } from './scenarios/campaign.ts';
import { bridgeKills } from './scenarios/bridge-kills.ts';
import { brokerRestarts } from './scenarios/broker-restarts.ts';
import {
  directAnswersHeld,
  directGatewayKills,
  directSocketCuts,
  directWorkerRestarts,
} from './scenarios/direct-faults.ts';
import { localLoad } from './rig/local-load.ts';
import { networkCuts } from './scenarios/network-cuts.ts';
import { poison } from './scenarios/poison.ts';
import { redelivered } from './scenarios/redelivered.ts';
import type { Scenario } from './rig/scenario.ts';
import { leases, schedules } from './scenarios/schedules.ts';
import { serverBackups, serverKills } from './scenarios/server.ts';
import { spoolDamage, spoolFull } from './scenarios/spool-faults.ts';
import { takeOvers } from './scenarios/take-overs.ts';
import { webhooks } from './scenarios/webhooks.ts';
import { answersLost, workerHangs, workerRefuses, workerRestarts } from './scenarios/worker-faults.ts';

/** The Worker fails, or is given what it can never take. */
export const workerSideScenarios: Scenario[] = [
  redelivered,
  poison,
  answersLost,
  workerRefuses,
  workerHangs,
  workerRestarts,
];

/** Bridge, broker, disk or network fail. */
export const bridgeSideScenarios: Scenario[] = [
  bridgeKills,
  takeOvers,
  brokerRestarts,
  spoolFull,
  spoolDamage,
  networkCuts,
];

/** Directly connected devices, without broker and bridge. */
export const directScenarios: Scenario[] = [
  directGatewayKills,
  directSocketCuts,
  directAnswersHeld,
  directWorkerRestarts,
];

/** Times that come, events that leave, commands and firmware for many, while the Worker is away, or the other side. */
export const timeScenarios: Scenario[] = [schedules, leases, webhooks, bulk, campaign];

/** Everything runs as `npm start` runs it. */
export const localScenarios: Scenario[] = [localLoad];

/** A server of one's own. */
export const serverScenarios: Scenario[] = [serverKills, serverBackups];

export const scenarios: Scenario[] = [
  ...workerSideScenarios,
  ...bridgeSideScenarios,
  ...directScenarios,
  ...timeScenarios,
  ...localScenarios,
  ...serverScenarios,
];
