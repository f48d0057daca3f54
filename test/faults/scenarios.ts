// Every scenario, in the order of a full run.
import { activeBridges, changedShares } from './active-bridges.ts';
import { bridgeKills } from './bridge-kills.ts';
import { brokerRestarts } from './broker-restarts.ts';
import { edgeAnswersHeld, edgeGatewayKills, edgeSocketCuts, edgeWorkerRestarts } from './edge-faults.ts';
import { embeddedBroker } from './embedded-broker.ts';
import { localLoad } from './local-load.ts';
import { networkCuts } from './network-cuts.ts';
import { poison } from './poison.ts';
import { redelivered } from './redelivered.ts';
import type { Scenario } from './scenario.ts';
import { spoolDamage, spoolFull } from './spool-faults.ts';
import { takeOvers } from './take-overs.ts';
import { answersLost, workerHangs, workerRefuses, workerRestarts } from './worker-faults.ts';

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

/** With a Worker of its own, whose uplink is shared. */
export const sharedUplinkScenarios: Scenario[] = [activeBridges, changedShares];

/** Devices at the edge, without broker and bridge. */
export const edgeScenarios: Scenario[] = [edgeGatewayKills, edgeSocketCuts, edgeAnswersHeld, edgeWorkerRestarts];

/** Everything runs as `npm start` runs it. */
export const localScenarios: Scenario[] = [localLoad, embeddedBroker];

export const scenarios: Scenario[] = [
  ...workerSideScenarios,
  ...bridgeSideScenarios,
  ...sharedUplinkScenarios,
  ...edgeScenarios,
  ...localScenarios,
];
