// Every attack, in the order of a run.
import type { Attack } from './attack.ts';
import { bulkFloods } from './bulk-floods.ts';
import { edgeFloods } from './edge-floods.ts';
import { forgedCredentials } from './forged-credentials.ts';
import { gatewayHalfOpen } from './gateway-half-open.ts';
import { halfOpen } from './half-open.ts';
import { hostileInput } from './hostile-input.ts';
import { httpFloods } from './http-floods.ts';
import { malformedFrames } from './malformed-frames.ts';
import { mqttFloods } from './mqtt-floods.ts';
import { relayFloods } from './relay-floods.ts';
import { signedInFloods } from './signed-in-floods.ts';

export const attacks: readonly Attack[] = [
  ...forgedCredentials,
  ...httpFloods,
  ...bulkFloods,
  ...signedInFloods,
  ...relayFloods,
  ...malformedFrames,
  ...mqttFloods,
  ...edgeFloods,
  ...gatewayHalfOpen,
  ...halfOpen,
  ...hostileInput,
];
