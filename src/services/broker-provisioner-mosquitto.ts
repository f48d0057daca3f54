// mosquitto over its dynamic security plugin: commands on its control topic, published by the bridge. mosquitto executes
// them before it acknowledges the message and ends the sessions of the clients they change. A command with nothing to do
// fails alone, so that each list below may be repeated.
import { rightsOfDevice, type TopicRight } from '../domain/topic-rights.ts';
import { messagingName, type DeviceIdentity } from '../domain/topics.ts';
import { callBrokerLink } from '../durable/stubs.ts';
import { BrokerCallError, type BrokerProvisioner } from './broker-provisioner.ts';
import type { ServiceContext } from './context.ts';

const controlTopic = '$CONTROL/dynamic-security/v1';
const publishWithinMs = 4_500;

type Command = { command: string } & Record<string, unknown>;

export function createMosquittoProvisioner({ env }: ServiceContext): BrokerProvisioner {
  const run = async (commands: Command[]): Promise<void> => {
    const message = { topic: controlTopic, payload: JSON.stringify({ commands }) };
    const outcome = await callBrokerLink(env, 'publish', 'idempotent', (link) =>
      link.publish({ ...message, expiresAtMs: Date.now() + publishWithinMs }),
    );
    if (outcome.ok) return;
    // `refused` included: the bridge lacks the right to the control topic, which concerns every device.
    throw new BrokerCallError({ kind: 'broker_away', call: 'mosquitto dynamic security', cause: outcome.reason });
  };
  return {
    upsertCredential: (device, password) => {
      const username = messagingName(device);
      const rolename = roleOf(device);
      return run([
        { command: 'createRole', rolename, acls: rightsOfDevice(device).map(aclOf) },
        // Bound to its client id, so that no device can take over another one's session.
        { command: 'createClient', username, clientid: username, password, roles: [{ rolename }] },
        { command: 'setClientPassword', username, password },
        enable(device),
      ]);
    },
    enable: (device) => run([enable(device)]),
    disable: (device) => run([disable(device)]),
    delete: (device) =>
      run([
        { command: 'deleteClient', username: messagingName(device) },
        { command: 'deleteRole', rolename: roleOf(device) },
      ]),
    endSessions: (device) => run([disable(device), enable(device)]),
  };
}

const disable = (device: DeviceIdentity): Command => ({ command: 'disableClient', username: messagingName(device) });
const enable = (device: DeviceIdentity): Command => ({ command: 'enableClient', username: messagingName(device) });
const roleOf = (device: DeviceIdentity) => `device ${messagingName(device)}`;

/** mosquitto has no right for retained messages. */
function aclOf({ action, topic, isExact }: TopicRight) {
  const acltype = action === 'publish' ? 'publishClientSend' : isExact ? 'subscribeLiteral' : 'subscribePattern';
  return { acltype, topic, allow: true };
}
