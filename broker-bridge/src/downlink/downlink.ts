// Publishes what the Worker sends, commands and announcements: once and before it expires. Otherwise reports why it is not
// published. It keeps no command for later.
import { setTimeout as wait } from 'node:timers/promises';
import type { BridgeFrame, NotPublishedReason, PublishFrame } from '../../../src/protocol/bridge.ts';
import type { Broker } from '../broker/broker.ts';
import { runDetached } from '../../../node-service/detached.ts';
import type { Log } from '../../../node-service/log.ts';
import type { Metrics } from '../metrics.ts';
import type { MqttConnection, PublishOutcome } from '../broker/mqtt-connection.ts';
import type { Role, WorkerLink } from '../bridge/worker-link.ts';

type ResultFrame = Extract<BridgeFrame, { type: 'published' | 'not-published' }>;
type Command = { result: ResultFrame | null; finishedAtMs: number };
type Parts = { broker: Broker; link: WorkerLink; log: Log; metrics: Metrics };
type Waiting = { frame: PublishFrame; sinceMs: number };

/** Longer than any command lives: one that is sent again later than this has expired. */
const rememberMs = 2 * 60_000;
/** Results sent so shortly before the last frame of a lost link may have been lost with it. */
const unsureMs = 10_000;
/** What must be left of a command's life when it is published: less would be over before the broker has it. */
const minLeftMs = 20;
/** How long a broker may send nothing at all after a publish, whatever is left of the command's life. */
const minInactivityMs = 500;
const maxInactivityMs = 60_000;
const maxTopicBytes = 65_535;

export function createDownlink({ broker, link, log, metrics }: Parts) {
  const commands = new Map<string, Command>();
  /** Commands that wait because the broker's receive maximum is reached. */
  let waiting: Waiting[] = [];
  /** The Worker may not have received the results that came later. */
  let unsureSinceMs = 0;
  let role: Role = 'standby';
  let underWay = 0;
  let isStopped = false;
  let onIdle: (() => void) | null = null;
  return { setRole, refuseWaiting, noteLinkChange, take, stop };

  function setRole(newRole: Role): void {
    role = newRole;
    refuseWaiting();
  }

  /** Role, broker or the end of this process may have changed: answers the commands that cannot be published now. */
  function refuseWaiting(): void {
    waiting = waiting.filter(({ frame }) => !refuse(frame));
  }

  /** Results that the Worker may have missed are sent again when the link is back. */
  function noteLinkChange(isConnected: boolean, lastFrameAtMs: number): void {
    if (!isConnected) unsureSinceMs = lastFrameAtMs - unsureMs;
    else for (const command of commands.values()) if (command.finishedAtMs > unsureSinceMs) sendResult(command);
  }

  function take(frame: PublishFrame): void {
    forgetOld();
    const known = commands.get(frame.id);
    if (known !== undefined) {
      sendResult(known);
      return;
    }
    commands.set(frame.id, { result: null, finishedAtMs: 0 });
    if (refuse(frame)) return;
    waiting.push({ frame, sinceMs: performance.now() });
    publishWaiting();
  }

  /** Takes no more commands. Resolves when those at the broker are answered, at the latest after `maxMs`. */
  async function stop(maxMs: number): Promise<void> {
    isStopped = true;
    refuseWaiting();
    if (underWay === 0) return;
    const idle = new Promise<void>((resolve) => (onIdle = resolve));
    await Promise.race([idle, wait(maxMs, undefined, { ref: false })]);
  }

  function publishWaiting(): void {
    let connection;
    while ((connection = broker.connectionForPublish()) !== null) {
      const next = waiting.shift();
      if (next === undefined) return;
      if (!refuse(next.frame)) runDetached(publish(connection, next));
    }
  }

  /** Reports a command that cannot be published now; false if it can. */
  function refuse(frame: PublishFrame): boolean {
    let reason: NotPublishedReason;
    const { topic } = frame;
    // MQTT-3.3.2-2: no wildcards in the topic of a message; and no more bytes than a topic can have.
    if (topic === '' || /[+#\0]/.test(topic) || Buffer.byteLength(topic) > maxTopicBytes) reason = 'invalid';
    else if (role === 'standby') reason = 'standby';
    else if (frame.expiresAtMs - link.nowMs() < minLeftMs) reason = 'expired';
    else if (!broker.isConnected() || isStopped) reason = 'broker_disconnected';
    else return false;
    finish(frame.id, { type: 'not-published', reason });
    return true;
  }

  async function publish(connection: MqttConnection, { frame, sinceMs }: Waiting): Promise<void> {
    const publishedAtMs = Date.now();
    const leftMs = frame.expiresAtMs - link.nowMs();
    // Bytes that are stuck on their way must not reach the broker after the expiry.
    const inactivityMs = Math.min(Math.max(leftMs, minInactivityMs), maxInactivityMs);
    const timer = setTimeout(() => connection.cutIfInactiveSince(publishedAtMs), inactivityMs);
    underWay += 1;
    const waitedSeconds = (performance.now() - sinceMs) / 1000;
    const expirySeconds = Math.max(1, Math.ceil(frame.messageExpirySeconds - waitedSeconds));
    const reply = frame.reply && { ...frame.reply, withinMs: leftMs };
    const outcome = await connection.publish(frame.topic, frame.payload, expirySeconds, reply);
    clearTimeout(timer);
    underWay -= 1;
    finish(frame.id, outcome);
    if (underWay === 0) onIdle?.();
    publishWaiting();
  }

  function finish(id: string, outcome: PublishOutcome): void {
    const command = commands.get(id);
    if (command === undefined) return;
    const { type } = outcome;
    metrics.commands.inc({ outcome: type === 'published' ? type : outcome.reason });
    command.result = type === 'published' ? { ...outcome, id } : { type, id, reason: outcome.reason };
    command.finishedAtMs = Date.now();
    sendResult(command);
    if (type === 'published') return;
    const { reason, reasonCode } = outcome;
    log.info('a command is not published', { id, reason, reasonCode });
    // Nothing left this bridge: if the Worker sends it again in time, it may be published after all.
    if (reason === 'broker_disconnected' || reason === 'standby') commands.delete(id);
  }

  function sendResult(command: Command): void {
    if (command.result !== null) link.send(command.result);
  }

  function forgetOld(): void {
    const before = Date.now() - rememberMs;
    for (const [id, command] of commands) {
      if (command.result === null || command.finishedAtMs > before) return;
      commands.delete(id);
    }
  }
}
