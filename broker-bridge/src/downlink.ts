// Commands from the Worker: published once, in time or not at all, and answered with what became of them.
// It keeps no command for later: what cannot go out now is reported as not published.
import type { BridgeFrame, PublishFrame } from '../../src/protocol/bridge.ts';
import type { Broker } from './broker.ts';
import type { Metrics } from './metrics.ts';
import type { PublishOutcome } from './mqtt-connection.ts';
import type { Role, WorkerLink } from './worker-link.ts';

type ResultFrame = Extract<BridgeFrame, { type: 'published' | 'not-published' }>;
type Reason = Extract<BridgeFrame, { type: 'not-published' }>['reason'];
/** `sentAtMs` is null while the Worker may not have heard the result. */
type Command = { result: ResultFrame | null; sentAtMs: number | null; settledAtMs: number };

type Waiting = { frame: PublishFrame; sinceMs: number };

/** Longer than any command lives: one that comes again later than this has expired. */
const rememberMs = 2 * 60_000;
/** Results sent so shortly before the last sign of life of a lost link may have been lost with it. */
const doubtMs = 10_000;
/** What is left of a command's life when it is published: less would be over before the broker has it. */
const leastLeftMs = 20;
/** How long a broker may send nothing at all after a publish, whatever is left of the command's life. */
const silenceMs = { least: 500, most: 60_000 };
const retriable: ReadonlySet<Reason> = new Set(['broker_disconnected', 'standby']);
const maxTopicBytes = 65_535;

export class Downlink {
  readonly #broker: Broker;
  readonly #link: WorkerLink;
  readonly #metrics: Metrics;
  readonly #commands = new Map<string, Command>();
  /** Commands that the broker's own limit holds back for the moment. */
  #waiting: Waiting[] = [];
  #role: Role = 'standby';
  #underWay = 0;
  #isStopped = false;
  #onIdle: (() => void) | null = null;

  constructor(broker: Broker, link: WorkerLink, metrics: Metrics) {
    this.#broker = broker;
    this.#link = link;
    this.#metrics = metrics;
  }

  setRole(role: Role): void {
    this.#role = role;
    this.#reviewWaiting();
  }

  noteBrokerChange(): void {
    this.#reviewWaiting();
  }

  noteLinkLost(lastHeardAtMs: number): void {
    for (const command of this.#commands.values()) {
      if (command.sentAtMs !== null && command.sentAtMs > lastHeardAtMs - doubtMs) command.sentAtMs = null;
    }
  }

  /** Says again what the Worker may have missed. */
  noteLinkBack(): void {
    for (const command of this.#commands.values()) {
      if (command.result !== null && command.sentAtMs === null) this.#tell(command, command.result);
    }
  }

  take(frame: PublishFrame): void {
    this.#forgetOld();
    const known = this.#commands.get(frame.id);
    if (known !== undefined) {
      if (known.result !== null) this.#tell(known, known.result);
      return;
    }
    this.#commands.set(frame.id, { result: null, sentAtMs: null, settledAtMs: 0 });
    if (this.#refuseHopeless(frame)) return;
    this.#waiting.push({ frame, sinceMs: performance.now() });
    this.#publishWaiting();
  }

  /** Takes no more commands; resolves when those at the broker are answered, at the latest after `maxMs`. */
  async stop(maxMs: number): Promise<void> {
    this.#isStopped = true;
    this.#reviewWaiting();
    if (this.#underWay === 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, maxMs);
      this.#onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #reviewWaiting(): void {
    this.#waiting = this.#waiting.filter(({ frame }) => !this.#refuseHopeless(frame));
  }

  #publishWaiting(): void {
    while (this.#broker.mayPublishMore) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      if (!this.#refuseHopeless(next.frame)) void this.#publish(next);
    }
  }

  #refuseHopeless(frame: PublishFrame): boolean {
    const reason = this.#findObstacle(frame);
    if (reason !== null) this.#settle(frame.id, { type: 'not-published', id: frame.id, reason });
    return reason !== null;
  }

  #findObstacle(frame: PublishFrame): Reason | null {
    if (!isPublishable(frame.topic)) return 'invalid';
    if (this.#role === 'standby') return 'standby';
    if (frame.expiresAtMs - this.#link.nowMs() < leastLeftMs) return 'expired';
    return this.#broker.isConnected && !this.#isStopped ? null : 'broker_disconnected';
  }

  async #publish({ frame, sinceMs }: Waiting): Promise<void> {
    const publishedAtMs = Date.now();
    const leftMs = frame.expiresAtMs - this.#link.nowMs();
    // Bytes that are stuck on their way must not reach the broker after the expiry.
    const silentAfterMs = Math.min(Math.max(leftMs, silenceMs.least), silenceMs.most);
    const timer = setTimeout(() => this.#broker.cutIfSilentSince(publishedAtMs), silentAfterMs);
    this.#underWay += 1;
    const waitedSeconds = (performance.now() - sinceMs) / 1000;
    const expirySeconds = Math.max(1, Math.ceil(frame.messageExpirySeconds - waitedSeconds));
    const outcome = await this.#broker.publish(frame.topic, frame.payload, expirySeconds);
    clearTimeout(timer);
    this.#underWay -= 1;
    this.#settle(frame.id, describeOutcome(frame.id, outcome));
    if (this.#underWay === 0) this.#onIdle?.();
    this.#publishWaiting();
  }

  #settle(id: string, result: ResultFrame): void {
    const command = this.#commands.get(id);
    if (command === undefined) return;
    this.#metrics.commands.inc({ outcome: result.type === 'published' ? 'published' : result.reason });
    command.result = result;
    command.settledAtMs = Date.now();
    this.#tell(command, result);
    // Nothing has happened yet: should it come again in time, it may be published after all.
    if (result.type === 'not-published' && retriable.has(result.reason)) this.#commands.delete(id);
  }

  #tell(command: Command, result: ResultFrame): void {
    if (this.#link.send(result)) command.sentAtMs = Date.now();
  }

  #forgetOld(): void {
    const before = Date.now() - rememberMs;
    for (const [id, command] of this.#commands) {
      if (command.result === null || command.settledAtMs > before) return;
      this.#commands.delete(id);
    }
  }
}

/** MQTT-3.3.2-2: no wildcards in the topic of a message; and no more than a topic can hold. */
function isPublishable(topic: string): boolean {
  return topic !== '' && !/[+#\0]/.test(topic) && Buffer.byteLength(topic) <= maxTopicBytes;
}

function describeOutcome(id: string, outcome: PublishOutcome): ResultFrame {
  switch (outcome.kind) {
    case 'acknowledged':
      return { type: 'published', id, hasSubscribers: outcome.hasSubscribers };
    case 'refused':
      return { type: 'not-published', id, reason: 'refused' };
    case 'not-sent':
      return { type: 'not-published', id, reason: 'broker_disconnected' };
    case 'unanswered':
      // Not "disconnected": the Worker would hand the command to another bridge, and it might act twice.
      return { type: 'not-published', id, reason: 'cancelled' };
  }
}
