// Every attack, in the order of a run.
import type { Attack } from './rig/attack.ts';
import { bulkFloods } from './floods/bulk-floods.ts';
import { directFloods } from './floods/direct-floods.ts';
import { firmwareFloods } from './floods/firmware-floods.ts';
import { gatewayPlural } from './floods/gateway-plural.ts';
import { groupFloods } from './floods/group-floods.ts';
import { halfOpen } from './floods/half-open.ts';
import { httpFloods } from './floods/http-floods.ts';
import { lesserRights } from './floods/lesser-rights.ts';
import { malformedFrames } from './floods/malformed-frames.ts';
import { mqttFloods } from './floods/mqtt-floods.ts';
import { relayFloods } from './floods/relay-floods.ts';
import { scheduleFloods } from './floods/schedule-floods.ts';
import { signedInFloods } from './floods/signed-in-floods.ts';

export const attacks: readonly Attack[] = [
  ...lesserRights,
  // Before the floods that use up what the attacker's account may activate in an hour.
  ...gatewayPlural,
  ...httpFloods,
  ...bulkFloods,
  ...signedInFloods,
  ...scheduleFloods,
  ...groupFloods,
  ...firmwareFloods,
  ...relayFloods,
  ...malformedFrames,
  ...mqttFloods,
  ...directFloods,
  ...halfOpen,
];
