// A Matter controller of tests, in this process and on the loopback interface: pairs with bridges by their codes, reads and
// subscribes as phones do. Finds bridges at a known address, because multicast does not work there. Asserts nothing.
import '../src/matter-environment.ts';
import { ControllerBehavior, Environment, Logger, LogLevel, ServerNode, type ClientNode } from '@matter/main';
import { BridgedDeviceBasicInformationClient } from '@matter/main/behaviors/bridged-device-basic-information';
import { OnOffClient } from '@matter/main/behaviors/on-off';
import { PeerSet } from '@matter/main/protocol';

export type MatterController = Awaited<ReturnType<typeof startController>>;
export type PairedBridge = ReturnType<typeof pairedBridge>;

export async function startController(storageDir: string) {
  Logger.level = LogLevel.FATAL;
  Environment.default.vars.set('storage.path', storageDir);
  Environment.default.vars.set('mdns.networkInterface', 'lo');
  const node = await ServerNode.create(ServerNode.RootEndpoint.with(ControllerBehavior), {
    ...{ id: 'controller', commissioning: { enabled: false }, network: { port: 0 } },
    controller: { adminFabricLabel: 'test' },
  });
  await node.start();
  return {
    stop: () => node.close(),
    /** Resolves when all attributes were read and a subscription keeps them up to date. */
    pair: async ({ port, code }: Record<string, unknown>) => {
      const address = { type: 'udp', ip: '127.0.0.1', port: Number(port) } as const;
      const peer = await node.peers.forDescriptor({ addresses: [address] });
      node.env.get(PeerSet).added.once(({ descriptor }) => {
        descriptor.operationalAddress = address;
      });
      await peer.commission({ pairingCode: String(code) });
      return pairedBridge(peer);
    },
  };
}

function pairedBridge(peer: ClientNode) {
  const read = () =>
    [...peer.endpoints].flatMap((endpoint) => {
      const information = endpoint.maybeStateOf(BridgedDeviceBasicInformationClient);
      return information === undefined ? [] : [{ endpoint, information, deviceId: String(information.uniqueId) }];
    });
  return {
    deviceIds: () =>
      read()
        .map(({ deviceId }) => deviceId)
        .sort(),
    /** What a phone shows of a device now, what it may send, and its events. */
    plug: (wanted: string) => {
      const { endpoint, information } = read().find(({ deviceId }) => deviceId === wanted)!;
      const { nodeLabel: name, reachable: isReachable } = information;
      const commands = endpoint.commandsOf(OnOffClient);
      const events = endpoint.eventsOf(BridgedDeviceBasicInformationClient);
      return {
        number: endpoint.number,
        name,
        isReachable,
        isOn: endpoint.stateOf(OnOffClient).onOff,
        commands,
        events,
      };
    },
    /** Connects anew, as a phone does when multicast says that the bridge is back. */
    reconnect: async () => {
      await peer.stop();
      await peer.env.get(PeerSet).get(peer.peerAddress!)?.disconnect(new Error('the bridge is back'));
      await peer.start();
    },
    leave: () => peer.decommission(),
  };
}
