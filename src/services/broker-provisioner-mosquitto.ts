// mosquitto's dynamic security: commands as messages on its control topic, which the bridge publishes in its own name.
// mosquitto runs them before it acknowledges the message, and ends the sessions of whoever they concern. A command that
// has nothing to do fails alone, so that each list below may be sent again.
import { rightsOfDevice, type TopicRight } from '../domain/topic-rights.ts';
import { messagingName, type DeviceIdentity } from '../domain/topics.ts';
import { callBrokerLink } from '../durable/stubs.ts';
import { BrokerAwayError, type BrokerProvisioner } from './broker-provisioner.ts';
import type { ServiceContext } from './context.ts';

const controlTopic = '$CONTROL/dynamic-security/v1';
const publishWithinMs = 4_500;

type Command = { command: string } & Record<string, unknown>;

export function createMosquittoProvisioner({ env }: ServiceContext): BrokerProvisioner {
  const run = async (commands: Command[]): Promise<void> => {
    const outcome = await callBrokerLink(env, 'publish', 'repeatable', (link) =>
      link.publish({
        topic: controlTopic,
        payload: JSON.stringify({ commands }),
        expiresAtMs: Date.now() + publishWithinMs,
      }),
    );
    // `refused` too: the bridge lacks the right to the control topic, which holds for every device.
    if (!outcome.ok) throw new BrokerAwayError(`dynamic security: ${outcome.reason}`);
  };
  return {
    upsertCredential: async (device, password) => run(upsertCommands(device, password)),
    revoke: async (device, how) => run(how === 'block' ? [disable(device)] : removeCommands(device)),
    unblock: async (device) => run([enable(device)]),
    disconnect: async (device) => run([disable(device), enable(device)]),
  };
}

function upsertCommands(device: DeviceIdentity, password: string): Command[] {
  const username = messagingName(device);
  const rolename = roleOf(device);
  return [
    { command: 'createRole', rolename, acls: rightsOfDevice(device).map(aclOf) },
    // Bound to its client id, which is what keeps one device from taking another one's session over.
    { command: 'createClient', username, clientid: username, password, roles: [{ rolename }] },
    { command: 'setClientPassword', username, password },
    enable(device),
  ];
}

function removeCommands(device: DeviceIdentity): Command[] {
  return [
    { command: 'deleteClient', username: messagingName(device) },
    { command: 'deleteRole', rolename: roleOf(device) },
  ];
}

const disable = (device: DeviceIdentity): Command => ({ command: 'disableClient', username: messagingName(device) });
const enable = (device: DeviceIdentity): Command => ({ command: 'enableClient', username: messagingName(device) });

function roleOf(device: DeviceIdentity): string {
  return `device ${messagingName(device)}`;
}

/** Whether a message is retained mosquitto does not ask. */
function aclOf({ action, topic, isExact }: TopicRight) {
  const acltype = action === 'publish' ? 'publishClientSend' : isExact ? 'subscribeLiteral' : 'subscribePattern';
  return { acltype, topic, allow: true };
}
