// Decides when the bridge connects to the broker, with which version of MQTT, and how soon after a failure. It owns the
// only connection. It must not decide what a message means or whether a command may be published.
import { createBackOff } from '../../../node-service/back-off.ts';
import type { MqttConfig } from '../config.ts';
import type { Log } from '../../../node-service/log.ts';
import {
  MqttConnection,
  unacceptableVersionCodes,
  type ConnectionEnd,
  type ConnectionEvents,
  type IncomingMessage,
  type MqttVersion,
} from './mqtt-connection.ts';
import { watchSuspension } from '../../../node-service/suspension.ts';

export type BrokerEvents = {
  onSession: (isPresent: boolean) => void;
  onMessage: (connection: MqttConnection, message: IncomingMessage, proceed: () => void) => void;
  onConnectedChange: (isConnected: boolean) => void;
  onRetry: () => void;
  /** Another client has our session now, or may have been given it while this process was suspended. */
  onTakenOver: () => void;
};

/** After a connection that lasted longer, the back-off starts anew. */
const stableAfterMs = 10_000;
/** How long to leave a session alone that another client seems to hold, while the Worker cannot say whose it is. */
const takenOverRetryMs = 30_000;
/** How long to leave the session to a client that is no bridge of this system. */
const standBackMs = 60_000;
/** How long connecting waits for the link to the Worker, which says whether another bridge had the session meanwhile. */
const awaitLinkMs = 2000;

export class Broker {
  connection: MqttConnection | null = null;
  readonly #config: MqttConfig;
  readonly #log: Log;
  readonly #events: BrokerEvents;
  readonly #backOff = createBackOff({ baseMs: 200, capMs: 10_000 });
  readonly #suspension = watchSuspension(() => this.#abandonSession());
  #isAbandoned = false;
  #wasTakenOver = false;
  #openedAtMs: number | null = null;
  #hasRefusedFilters = false;
  #isWanted = false;
  #isWorkerReachable = false;
  #isAwaitingLink = false;
  #timer: NodeJS.Timeout | undefined;
  #version: MqttVersion;

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

  /** Null while there is none, or while its receive maximum is reached. */
  get connectionForPublish(): MqttConnection | null {
    return (this.connection?.unanswered ?? 0) < (this.connection?.maxUnanswered ?? 0) ? this.connection : null;
  }

  /** Connects, and reconnects until `stop`. `resumes`: no other bridge was active since this bridge was. */
  start(resumes: boolean): void {
    if (this.#isWanted) return;
    this.#isWanted = true;
    this.#suspension.start();
    // Then it was no bridge of ours that took the session over. Two that each took it back would do so for ever.
    const standsBack = this.#wasTakenOver && resumes;
    this.#wasTakenOver = false;
    if (standsBack) {
      this.#log.error('a stranger has the session with the broker: standing back', {
        alarm: true,
        retryInMs: standBackMs,
        remedy: 'find the client with the MQTT client id of this bridge; give the bridge another MQTT_CLIENT_ID',
      });
    }
    const delayMs = this.#backOff.failures === 0 ? 0 : this.#backOff.nextDelayMs();
    this.#connectAfter(standsBack ? standBackMs : delayMs);
  }

  /** Disconnects at once; the session and its queue stay at the broker for the next bridge. */
  async stop(): Promise<void> {
    this.#isWanted = false;
    this.#suspension.stop();
    clearTimeout(this.#timer);
    await this.connection?.end();
  }

  /** A connection that waits for the link to the Worker is made at once when it is back. */
  setWorkerReachable(isReachable: boolean): void {
    this.#isWorkerReachable = isReachable;
    if (isReachable && this.#isAwaitingLink) this.#connectAfter(0);
  }

  #connectAfter(delayMs: number): void {
    clearTimeout(this.#timer);
    this.#isAwaitingLink = false;
    this.#timer = setTimeout(() => {
      this.#isAwaitingLink = !this.#isWorkerReachable;
      if (this.#isAwaitingLink) this.#timer = setTimeout(() => this.#connect(), awaitLinkMs);
      else this.#connect();
    }, delayMs);
  }

  #connect(): void {
    this.#isAwaitingLink = false;
    if (!this.#isWanted || this.connection !== null) return;
    const events: ConnectionEvents = {
      onSession: this.#events.onSession,
      onOpen: (refusedFilters) => this.#noteOpen(refusedFilters),
      onMessage: (message, proceed) => {
        this.#suspension.check();
        if (!this.#isAbandoned) this.#events.onMessage(connection, message, proceed);
      },
      onEnd: (end) => this.#noteEnd(end),
    };
    const connection = new MqttConnection(this.#config, this.#version, events);
    this.connection = connection;
    this.#isAbandoned = false;
  }

  /** Messages unread here stay with the broker, for the bridge that the Worker makes active: it may have some already. */
  #abandonSession(): void {
    if (this.connection === null || this.#isAbandoned) return;
    this.#isAbandoned = true;
    this.#log.warn('this process was suspended: another bridge may have been given its session with the broker');
    this.connection.cut('this process was suspended');
  }

  #noteOpen(refusedFilters: string[]): void {
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
    this.#log.info('connected to the broker', { mqtt: this.#version });
    this.#events.onConnectedChange(true);
  }

  #noteEnd(end: ConnectionEnd): void {
    const livedMs = this.#openedAtMs === null ? null : Date.now() - this.#openedAtMs;
    this.connection = null;
    this.#openedAtMs = null;
    if (livedMs !== null) this.#events.onConnectedChange(false);
    if (livedMs !== null && livedMs > stableAfterMs) this.#backOff.failures = 0;
    if (!this.#isWanted) return;
    if (unacceptableVersionCodes.includes(end.refusedCode ?? 0) && this.#config.protocol === 'auto') {
      this.#version = this.#version === '5' ? '3.1.1' : '5';
      this.#log.info('the broker speaks another version of MQTT', { mqtt: this.#version });
      // With a delay, because a broker may refuse both.
      this.#connectAfter(this.#version === '3.1.1' ? 0 : this.#backOff.nextDelayMs());
      return;
    }
    this.#events.onRetry();
    const delayMs = this.#backOff.nextDelayMs();
    if (end.isTakenOver || this.#isAbandoned) {
      this.#isWanted = false;
      this.#suspension.stop();
      this.#wasTakenOver = end.isTakenOver;
      if (end.isTakenOver) this.#log.warn('another client took over the session with the broker');
      this.#events.onTakenOver();
      return;
    }
    // MQTT 3.1.1 has no reason for a take-over. Two bridges that each took the session back would do so for ever.
    const seemsTakenOver = !this.#isWorkerReachable && livedMs !== null && livedMs < stableAfterMs;
    const waitMs = seemsTakenOver ? takenOverRetryMs + delayMs : delayMs;
    this.#log.warn('no connection to the broker', {
      cause: end.cause,
      mqtt: this.#version,
      retryInMs: Math.round(waitMs),
      ...(end.refusedCode === null ? {} : { refusedCode: end.refusedCode, alarm: true }),
    });
    this.#connectAfter(waitMs);
    this.#isAwaitingLink = seemsTakenOver;
  }
}
