// mosquitto over its dynamic security plugin: commands on its control topic, published by the bridge. mosquitto acknowledges
// them whatever becomes of them, even without the plugin; its reply, which the bridge reads, says which ones failed. It
// executes a list in order, goes on after a failure, and ends the sessions of the clients it changes. A command that finds
// nothing to do fails with a text of its own, so that each list may be repeated. Run by the tests with Debian's
// mosquitto 2.0.11.
import { z } from 'zod';
import type { ServiceContext } from '../../context.ts';
import { parseJson } from '../../domain/json.ts';
import { rightsOfDevice, type TopicRight } from '../../domain/topic-rights.ts';
import { messagingName, type DeviceIdentity } from '../../domain/topics.ts';
import { callBrokerLink } from '../../objects/calls/stubs.ts';
import { BrokerCallError } from './broker-call-error.ts';

const controlTopic = '$CONTROL/dynamic-security/v1';
const publishWithinMs = 4_500;

type Command = { command: string } & Record<string, unknown>;

const replySchema = z.object({
  responses: z.array(
    z.object({ command: z.string(), error: z.string().max(200).optional(), correlationData: z.string().optional() }),
  ),
});

/** Failures of commands that found their work done. */
const nothingToDo: Record<string, string> = {
  createRole: 'Role already exists',
  createClient: 'Client already exists',
  disableClient: 'Client not found',
  deleteClient: 'Client not found',
  deleteRole: 'Role not found',
};

/** @throws BrokerCallError, or RefusedError if the link to the bridge cannot be called */
export async function runCommands({ env }: ServiceContext, commands: readonly Command[]): Promise<void> {
  const call = 'mosquitto dynamic security';
  const correlationData = crypto.randomUUID();
  const message = {
    topic: controlTopic,
    payload: JSON.stringify({ commands: commands.map((command) => ({ ...command, correlationData })) }),
    reply: { topic: `${controlTopic}/response`, containing: correlationData },
    expiresAtMs: Date.now() + publishWithinMs,
  };
  const outcome = await callBrokerLink(env, 'idempotent').publish(message);
  // `refused` included: the bridge lacks a right to the control topics, which concerns every device.
  if (!outcome.ok) throw new BrokerCallError({ kind: 'broker_away', call, cause: outcome.reason });
  // Without the plugin, or the right to send commands with MQTT 3.1.1, there is no reply for any device.
  if (outcome.reply === undefined) {
    throw new BrokerCallError({ kind: 'broker_away', call, cause: { error: 'no reply' } });
  }
  const replies = replySchema.safeParse(parseJson(outcome.reply)).data?.responses ?? [];
  const own = replies.filter((reply) => reply.correlationData === correlationData);
  if (own.length !== commands.length) throw new BrokerCallError({ kind: 'unreadable_answer', call });
  for (const { command, error } of own) {
    if (error === undefined || error === nothingToDo[command]) continue;
    throw new BrokerCallError({ kind: 'refused', call: `${call} ${command}`, error });
  }
}

/** Creates or replaces the device's credential, with rights to its own topics only, and enables it. */
export function upsertionOf(device: DeviceIdentity, password: string): Command[] {
  const username = messagingName(device);
  const rolename = roleOf(device);
  return [
    { command: 'createRole', rolename, acls: rightsOfDevice(device).map(aclOf) },
    // Bound to its client id, so that no device can take over another one's session.
    { command: 'createClient', username, clientid: username, password, roles: [{ rolename }] },
    { command: 'setClientPassword', username, password },
    enablingOf(device),
  ];
}

export function deletionOf(device: DeviceIdentity): Command[] {
  return [commandOn(device, 'deleteClient'), { command: 'deleteRole', rolename: roleOf(device) }];
}

/** Refuses its logins and ends its sessions. */
export const disablingOf = (device: DeviceIdentity) => commandOn(device, 'disableClient');
export const enablingOf = (device: DeviceIdentity) => commandOn(device, 'enableClient');

const commandOn = (device: DeviceIdentity, command: string): Command => ({ command, username: messagingName(device) });
const roleOf = (device: DeviceIdentity) => `device ${messagingName(device)}`;

/** mosquitto has no right for retained messages. */
function aclOf({ action, topic, isExact }: TopicRight) {
  const acltype = action === 'publish' ? 'publishClientSend' : isExact ? 'subscribeLiteral' : 'subscribePattern';
  return { acltype, topic, allow: true };
}
