// A bridge inside workerd: connects, acknowledges what it is asked to publish, and posts messages of devices. Asserts
// nothing.
import { runDurableObjectAlarm } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { topicOf, type DeviceIdentity } from '../../../../src/domain/topics.ts';
import { type TopicAction } from '../../../../src/protocol/mqtt.ts';
import {
  linkPath,
  uplinkPath,
  type PublishFrame,
  type UplinkResult,
  type WorkerFrame,
} from '../../../../src/protocol/bridge.ts';
import { call } from './client.ts';
import { bridgeSecret, helloOf } from './link.ts';
import { upgrade, within } from './socket.ts';

export class TestBridge {
  readonly #socket: WebSocket;
  readonly #published: PublishFrame[] = [];
  #wakeUp: () => void = () => undefined;
  /** Reported with each publication; 'refused' and 'cancelled' are reasons for not publishing. */
  hasSubscribers: boolean | null | 'refused' | 'cancelled' = null;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
  }

  static async dialIn(): Promise<TestBridge> {
    const bridge = new TestBridge(await upgrade(linkPath, { Authorization: `Bearer ${bridgeSecret}` }));
    let welcome = () => {};
    const welcomed = new Promise<void>((resolve) => (welcome = resolve));
    bridge.#socket.accept();
    bridge.#socket.addEventListener('message', ({ data }) => {
      const frame = JSON.parse(data as string) as WorkerFrame;
      if (frame.type === 'publish') bridge.#publish(frame);
      else welcome();
    });
    bridge.#socket.send(JSON.stringify(helloOf(crypto.randomUUID())));
    await within(welcomed, 'bridge not welcomed');
    // Runs the link's check of its sockets now, before a test moves the clock.
    await runDurableObjectAlarm(env.BROKER_LINK.getByName('broker-main'));
    return bridge;
  }

  /** The next message to a device that was not taken yet. */
  async nextFor(device: DeviceIdentity, action: TopicAction): Promise<PublishFrame & { body: unknown }> {
    const topic = topicOf(device, action);
    for (;;) {
      const index = this.#published.findIndex((frame) => frame.topic === topic);
      const frame = index < 0 ? undefined : this.#published.splice(index, 1)[0];
      if (frame !== undefined) return { ...frame, body: JSON.parse(frame.payload) as unknown };
      await within(new Promise<void>((resolve) => (this.#wakeUp = resolve)), `nothing published on ${topic}`);
    }
  }

  /** What was published on a topic of a device and not taken by `nextFor`. */
  waitingFor(device: DeviceIdentity, action: TopicAction): unknown[] {
    const topic = topicOf(device, action);
    return this.#published
      .filter((frame) => frame.topic === topic)
      .map(({ payload }) => JSON.parse(payload) as unknown);
  }

  /** Returns when the link has noticed: what it does later would meet a test run that is over. */
  async close(): Promise<void> {
    this.#socket.close(1000, '');
    while ((await env.BROKER_LINK.getByName('broker-main').health()).bridgeConnected) await scheduler.wait(5);
  }

  #publish(frame: PublishFrame): void {
    const { hasSubscribers } = this;
    if (typeof hasSubscribers === 'string') {
      this.#socket.send(JSON.stringify({ type: 'not-published', id: frame.id, reason: hasSubscribers }));
      return;
    }
    this.#published.push(frame);
    if (this.#socket.readyState === WebSocket.OPEN) {
      this.#socket.send(JSON.stringify({ type: 'published', id: frame.id, hasSubscribers }));
    }
    this.#wakeUp();
  }
}

let lastSeq = 0;

export type Said = { action: TopicAction; payload: unknown; receivedAtMs?: number; dup?: boolean; retain?: boolean };

/** Posts messages of a device as one batch; text goes as it is, anything else as JSON. */
export async function bringUp(device: DeviceIdentity, ...messages: Said[]): Promise<UplinkResult[]> {
  const items = messages.map(({ action, payload, receivedAtMs = Date.now(), ...flags }) => ({
    seq: ++lastSeq,
    topic: topicOf(device, action),
    payload: typeof payload === 'string' ? payload : JSON.stringify(payload),
    receivedAtMs,
    ...flags,
  }));
  const { data } = await call<{ results: UplinkResult[] }>('POST', uplinkPath, {
    headers: { Authorization: `Bearer ${bridgeSecret}` },
    body: { spoolId: 'test-spool', sentAtMs: Date.now(), items },
  });
  return data.results;
}
