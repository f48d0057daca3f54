// Decides when the bridge is connected to the broker, with which version of MQTT, and how soon after a failure.
// It owns the one connection there is. It must not decide what a message means or whether a command may go out.
import { BackOff } from './back-off.ts';
import type { MqttConfig } from './config.ts';
import type { Log } from './log.ts';
import {
  MqttConnection,
  type ConnectionEnd,
  type IncomingMessage,
  type MqttVersion,
  type PublishOutcome,
} from './mqtt-connection.ts';
import { Standstill } from './standstill.ts';

export type BrokerEvents = {
  onSession: (isPresent: boolean) => void;
  onMessage: (connection: MqttConnection, message: IncomingMessage, proceed: () => void) => void;
  onConnectedChange: (isConnected: boolean) => void;
  onRetry: () => void;
  /** Another client has our session now, or may have been given it while this process stood still. */
  onTakenOver: () => void;
};

/** A connection that lived longer was a good one: the next failure starts the back-off anew. */
const stableAfterMs = 10_000;
/** How long to keep away from a session that somebody else seems to hold, while nobody tells whose it is. */
const standBackMs = 30_000;
/** How long a connection waits for the link: with it, the bridge knows whose the session was meanwhile. */
const awaitLinkMs = 2000;
const unacceptableVersionCodes = [0x01, 0x84];

export class Broker {
  readonly #config: MqttConfig;
  readonly #log: Log;
  readonly #events: BrokerEvents;
  readonly #backOff = new BackOff({ baseMs: 200, capMs: 10_000 });
  readonly #standstill = new Standstill(() => this.#abandonSession());
  #connection: MqttConnection | null = null;
  #isAbandoned = false;
  #openedAtMs: number | null = null;
  #hasRefusedFilters = false;
  #isWanted = false;
  #isAlone = true;
  #isAwaitingLink = false;
  #timer: NodeJS.Timeout | undefined;
  #version: MqttVersion;
  /** What the broker has shown to speak. It stays open where it never said a word about MQTT 5. */
  #isVersionProven = false;
  #isVersionRefused = false;
  #wordlessEnds = 0;

  constructor(config: MqttConfig, log: Log, events: BrokerEvents) {
    this.#config = config;
    this.#log = log;
    this.#events = events;
    this.#version = config.protocol === '3.1.1' ? '3.1.1' : '5';
  }

  get isConnected(): boolean {
    return this.#openedAtMs !== null;
  }

  get isSubscribed(): boolean {
    return this.isConnected && !this.#hasRefusedFilters;
  }

  get unanswered(): number {
    return this.#connection?.unanswered ?? 0;
  }

  get mayPublishMore(): boolean {
    return this.#connection !== null && this.#connection.unanswered < this.#connection.maxUnanswered;
  }

  /** Connects, and connects again for as long as it is wanted. */
  start(): void {
    if (this.#isWanted) return;
    this.#isWanted = true;
    this.#standstill.start();
    this.#connectAfter(this.#backOff.failures === 0 ? 0 : this.#backOff.nextDelayMs());
  }

  /** Leaves the broker at once; its session and queue stay for whoever comes next. */
  async stop(): Promise<void> {
    this.#isWanted = false;
    this.#standstill.stop();
    clearTimeout(this.#timer);
    await this.#connection?.end();
  }

  /**
   * While the Worker cannot be asked, a session that seems to be taken is left alone for longer. A connection that waits
   * for it is made at once when it is back.
   */
  setWorkerReachable(isReachable: boolean): void {
    this.#isAlone = !isReachable;
    if (isReachable && this.#isAwaitingLink) this.#connectAfter(0);
  }

  publish(topic: string, payload: string, messageExpirySeconds: number): Promise<PublishOutcome> {
    return this.#connection?.publish(topic, payload, messageExpirySeconds) ?? Promise.resolve({ kind: 'not-sent' });
  }

  /** Cuts a connection over which nothing has come since a publish that was never answered. */
  cutIfSilentSince(atMs: number): void {
    if (this.#connection?.isSilentSince(atMs)) this.#connection.cut('the broker fell silent');
  }

  #connectAfter(delayMs: number): void {
    clearTimeout(this.#timer);
    this.#isAwaitingLink = false;
    this.#timer = setTimeout(() => this.#connectOrAwaitLink(), delayMs);
  }

  #connectOrAwaitLink(): void {
    if (!this.#isAlone) {
      this.#connect();
      return;
    }
    this.#isAwaitingLink = true;
    this.#timer = setTimeout(() => this.#connect(), awaitLinkMs);
  }

  #connect(): void {
    this.#isAwaitingLink = false;
    if (!this.#isWanted || this.#connection !== null) return;
    const connection: MqttConnection = new MqttConnection(this.#config, this.#version, {
      onSession: (isPresent) => this.#events.onSession(isPresent),
      onOpen: (refusedFilters) => this.#settleOpen(refusedFilters),
      onMessage: (message, proceed) => {
        this.#standstill.check();
        if (!this.#isAbandoned) this.#events.onMessage(connection, message, proceed);
      },
      onEnd: (end) => this.#settleEnd(end),
    });
    this.#connection = connection;
    this.#isAbandoned = false;
  }

  /**
   * What waits to be read may have gone to another bridge as well. Left unread and unacknowledged it is the broker's to
   * deliver, to whichever bridge the Worker names.
   */
  #abandonSession(): void {
    if (this.#connection === null || this.#isAbandoned) return;
    this.#isAbandoned = true;
    this.#log.warn('this process stood still: another bridge may have been given its session with the broker');
    this.#connection.cut('this process stood still');
  }

  #settleOpen(refusedFilters: string[]): void {
    this.#hasRefusedFilters = refusedFilters.length > 0;
    if (this.#hasRefusedFilters) {
      this.#log.error('the broker refuses a subscription: messages of devices do not arrive', {
        alarm: true,
        filters: refusedFilters.join(' '),
        remedy: 'allow the user of this bridge to subscribe to these filters',
      });
    }
    if (this.#openedAtMs !== null) return;
    this.#openedAtMs = Date.now();
    const isGuess = this.#version === '3.1.1' && this.#config.protocol === 'auto' && !this.#isVersionRefused;
    this.#isVersionProven = !isGuess;
    this.#log.info('connected to the broker', { mqtt: this.#version });
    this.#wordlessEnds = 0;
    if (isGuess) {
      this.#log.warn('the broker did not answer MQTT 5: with 3.1.1 it keeps commands past their expiry', {
        remedy: 'the next connection tries MQTT 5 again; MQTT_PROTOCOL=3.1.1 says that there is none',
      });
    }
    this.#events.onConnectedChange(true);
  }

  #settleEnd(end: ConnectionEnd): void {
    const livedMs = this.#openedAtMs === null ? null : Date.now() - this.#openedAtMs;
    this.#connection = null;
    this.#openedAtMs = null;
    if (livedMs !== null) this.#events.onConnectedChange(false);
    if (livedMs !== null && livedMs > stableAfterMs) this.#backOff.reset();
    if (!this.#isWanted) return;
    if (unacceptableVersionCodes.includes(end.refusedCode ?? 0) && this.#config.protocol === 'auto') {
      this.#isVersionRefused = true;
      this.#changeVersion();
      this.#log.info('the broker speaks another version of MQTT', { mqtt: this.#version });
      // A broker that refuses both is not to be asked in a tight loop.
      this.#connectAfter(this.#version === '3.1.1' ? 0 : this.#backOff.nextDelayMs());
      return;
    }
    this.#events.onRetry();
    const delayMs = this.#backOff.nextDelayMs();
    if (end.isTakenOver || this.#isAbandoned) {
      this.#isWanted = false;
      this.#standstill.stop();
      if (end.isTakenOver) this.#log.warn('another client took over the session with the broker');
      this.#events.onTakenOver();
      return;
    }
    const isWordless = livedMs === null && end.refusedCode === null && end.wasReached;
    if (this.#config.protocol === 'auto' && !this.#isVersionProven) {
      if (livedMs !== null) this.#version = '5';
      else if (isWordless) this.#guessVersion();
    }
    // MQTT 3.1.1 cannot say that the session was taken over. Two bridges that each take it back would never rest.
    const seemsTakenOver = this.#isAlone && livedMs !== null && livedMs < stableAfterMs;
    const waitMs = seemsTakenOver ? standBackMs + delayMs : delayMs;
    this.#log.warn('no connection to the broker', {
      cause: end.cause,
      mqtt: this.#version,
      retryInMs: Math.round(waitMs),
      ...(end.refusedCode === null ? {} : { refusedCode: end.refusedCode, alarm: true }),
    });
    this.#connectAfter(waitMs);
    this.#isAwaitingLink = seemsTakenOver;
  }

  /** Old brokers close the connection without a word; so does one that is just starting, or a balancer before it. */
  #guessVersion(): void {
    this.#wordlessEnds += 1;
    this.#version = this.#wordlessEnds % 3 === 2 ? '3.1.1' : '5';
  }

  #changeVersion(): void {
    this.#version = this.#version === '5' ? '3.1.1' : '5';
  }
}
