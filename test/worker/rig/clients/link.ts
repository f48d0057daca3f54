// Bridges that dial in to BrokerLink and answer only what a test makes them answer. Asserts nothing.
import { env } from 'cloudflare:workers';
import { commandLinkParameter, linkPath } from '../../../../src/protocol/bridge.ts';
import { openSocket, type TestSocket } from './socket.ts';

export const bridgeSecret = 'bridge-secret-of-the-worker-tests-only';
export const link = () => env.BROKER_LINK.getByName('broker-main');
const open: TestSocket[] = [];

/** A bridge that has said nothing yet. */
export async function openLink(commandLink: number | null = null): Promise<TestSocket> {
  const query = commandLink === null ? '' : `?${commandLinkParameter}=${commandLink}`;
  const bridge = await openSocket(`${linkPath}${query}`, { Authorization: `Bearer ${bridgeSecret}` });
  open.push(bridge);
  return bridge;
}

/** A bridge that has said hello; answers its role. */
export async function dialIn(
  bridgeId: string,
  brokerConnected = true,
  instanceId = `${bridgeId}-run-1`,
  commandLink: number | null = null,
  activeShares?: number[],
): Promise<{ bridge: TestSocket; role: unknown; welcome: unknown }> {
  const bridge = await openLink(commandLink);
  const welcome = await bridge.ask({ type: 'hello', bridgeId, instanceId, brokerConnected, activeShares });
  return { bridge, welcome, role: (welcome as { role: unknown }).role };
}

export async function publish(topic = '/sys/switch/dev_00000001/thing/service/property/set', lifeMs = 4_000) {
  return link().publish({ topic, payload: '{"id":"1"}', expiresAtMs: Date.now() + lifeMs });
}

export type PublishFrame = {
  type: string;
  id: string;
  topic: string;
  expiresAtMs: number;
  messageExpirySeconds: number;
};
export const nextPublish = async (bridge: TestSocket) => (await bridge.next()) as PublishFrame;

/** Returns when all bridges that dialled in have gone. */
export async function closeBridges(): Promise<void> {
  for (const bridge of open.splice(0)) {
    bridge.close();
    await bridge.end();
  }
}
