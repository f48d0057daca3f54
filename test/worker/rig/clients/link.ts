// Bridges that dial in to BrokerLink and answer only what a test makes them answer. Asserts nothing.
import { env } from 'cloudflare:workers';
import { linkPath, type PublishFrame } from '../../../../src/protocol/bridge.ts';
import { openSocket, type TestSocket } from './socket.ts';

export const bridgeSecret = 'bridge-secret-of-the-worker-tests-only';
export const link = () => env.BROKER_LINK.getByName('broker-main');
const open: TestSocket[] = [];

/** A bridge that has said nothing yet. */
export async function openLink(): Promise<TestSocket> {
  const bridge = await openSocket(linkPath, { Authorization: `Bearer ${bridgeSecret}` });
  open.push(bridge);
  return bridge;
}

export const helloOf = (bridgeId: string, brokerConnected = true, instanceId = `${bridgeId}-run-1`) => ({
  ...{ type: 'hello', bridgeId, instanceId, brokerConnected },
  ...{ spoolId: `spool-of-${bridgeId}`, sessionDigest: 'session' },
});

/** A bridge that has said hello; answers its role. */
export async function dialIn(
  ...hello: Parameters<typeof helloOf>
): Promise<{ bridge: TestSocket; role: unknown; welcome: unknown }> {
  const bridge = await openLink();
  const welcome = await bridge.ask(helloOf(...hello));
  return { bridge, welcome, role: (welcome as { role: unknown }).role };
}

export async function publish(topic = '/sys/switch/dev_00000001/thing/service/property/set', lifeMs = 4_000) {
  return link().publish({ topic, payload: '{"id":"1"}', expiresAtMs: Date.now() + lifeMs });
}

export const nextPublish = async (bridge: TestSocket) => (await bridge.next()) as PublishFrame;

/** Returns when all bridges that dialled in have gone. */
export async function closeBridges(): Promise<void> {
  for (const bridge of open.splice(0)) {
    bridge.close();
    await bridge.end();
  }
}
