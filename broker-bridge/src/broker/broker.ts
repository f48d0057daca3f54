// Decides when the bridge connects to the broker, with which version of MQTT, and how soon after a failure. It owns the
// only connection. It must not decide what a message means or whether a command may be published.
import { createBackOff } from '../../../node-service/back-off.ts';
import type { MqttConfig } from '../config.ts';
import type { Log } from '../../../node-service/log.ts';
import {
  openConnection,
  unacceptableVersionCodes,
  type ConnectionEnd,
  type IncomingMessage,
  type MqttConnection,
  type MqttVersion,
} from './mqtt-connection.ts';
import { watchSuspension } from '../../../node-service/suspension.ts';

type BrokerEvents = {
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

export type Broker = ReturnType<typeof createBroker>;

export function createBroker(config: MqttConfig, log: Log, events: BrokerEvents) {
  const backOff = createBackOff({ baseMs: 200, capMs: 10_000 });
  const checkSuspension = watchSuspension(abandonSession);
  let connection: MqttConnection | null = null;
  let isAbandoned = false;
  let wasTakenOver = false;
  let openedAtMs: number | null = null;
  let hasRefusedFilters = false;
  let isWanted = false;
  let isWorkerReachable = false;
  let isAwaitingLink = false;
  let timer: NodeJS.Timeout | undefined;
  let version: MqttVersion = config.protocol === '3.1.1' ? '3.1.1' : '5';
  const isConnected = (): boolean => openedAtMs !== null;
  return {
    start,
    stop,
    setWorkerReachable,
    isConnected,
    isSubscribed: () => isConnected() && !hasRefusedFilters,
    unanswered: () => connection?.unanswered() ?? 0,
    /** Null while there is none, or while its receive maximum is reached. */
    connectionForPublish: () => (connection?.mayPublish() === true ? connection : null),
  };

  /** Connects, and reconnects until `stop`. `resumes`: no other bridge was active since this bridge was. */
  function start(resumes: boolean): void {
    if (isWanted) return;
    isWanted = true;
    // Then it was no bridge of ours that took the session over. Two that each took it back would do so for ever.
    const standsBack = wasTakenOver && resumes;
    wasTakenOver = false;
    if (standsBack) {
      log.error('a stranger has the session with the broker: standing back', {
        alarm: true,
        retryInMs: standBackMs,
        remedy: 'find the client with the MQTT client id of this bridge; give the bridge another MQTT_CLIENT_ID',
      });
    }
    const delayMs = backOff.failures === 0 ? 0 : backOff.nextDelayMs();
    connectAfter(standsBack ? standBackMs : delayMs);
  }

  /** Disconnects at once; the session and its queue stay at the broker for the next bridge. */
  async function stop(): Promise<void> {
    isWanted = false;
    clearTimeout(timer);
    await connection?.end();
  }

  /** A connection that waits for the link to the Worker is made at once when it is back. */
  function setWorkerReachable(isReachable: boolean): void {
    isWorkerReachable = isReachable;
    if (isReachable && isAwaitingLink) connectAfter(0);
  }

  function connectAfter(delayMs: number): void {
    clearTimeout(timer);
    isAwaitingLink = false;
    timer = setTimeout(() => {
      isAwaitingLink = !isWorkerReachable;
      if (isAwaitingLink) timer = setTimeout(connect, awaitLinkMs);
      else connect();
    }, delayMs);
  }

  function connect(): void {
    isAwaitingLink = false;
    if (!isWanted || connection !== null) return;
    const opened: MqttConnection = openConnection(config, version, {
      onSession: events.onSession,
      onOpen: noteOpen,
      onMessage: (message, proceed) => {
        checkSuspension();
        if (!isAbandoned) events.onMessage(opened, message, proceed);
      },
      onEnd: noteEnd,
    });
    connection = opened;
    isAbandoned = false;
  }

  /** Messages unread here stay with the broker, for the bridge that the Worker makes active: it may have some already. */
  function abandonSession(): void {
    if (connection === null || isAbandoned) return;
    isAbandoned = true;
    log.warn('this process was suspended: another bridge may have been given its session with the broker');
    connection.cut('this process was suspended');
  }

  function noteOpen(refusedFilters: string[]): void {
    hasRefusedFilters = refusedFilters.length > 0;
    if (hasRefusedFilters) {
      log.error('the broker refuses a subscription: messages of devices do not arrive', {
        alarm: true,
        filters: refusedFilters.join(' '),
        remedy: 'allow the user of this bridge to subscribe to these filters',
      });
    }
    if (openedAtMs !== null) return;
    openedAtMs = Date.now();
    log.info('connected to the broker', { mqtt: version });
    events.onConnectedChange(true);
  }

  function noteEnd(end: ConnectionEnd): void {
    const livedMs = openedAtMs === null ? null : Date.now() - openedAtMs;
    connection = null;
    openedAtMs = null;
    if (livedMs !== null) events.onConnectedChange(false);
    if (livedMs !== null && livedMs > stableAfterMs) backOff.failures = 0;
    if (!isWanted) return;
    if (unacceptableVersionCodes.includes(end.refusedCode ?? 0) && config.protocol === 'auto') {
      version = version === '5' ? '3.1.1' : '5';
      log.info('the broker speaks another version of MQTT', { mqtt: version });
      // With a delay, because a broker may refuse both.
      connectAfter(version === '3.1.1' ? 0 : backOff.nextDelayMs());
      return;
    }
    events.onRetry();
    const delayMs = backOff.nextDelayMs();
    if (end.isTakenOver || isAbandoned) {
      isWanted = false;
      wasTakenOver = end.isTakenOver;
      if (end.isTakenOver) log.warn('another client took over the session with the broker');
      events.onTakenOver();
      return;
    }
    // MQTT 3.1.1 has no reason for a take-over. Two bridges that each took the session back would do so for ever.
    const seemsTakenOver = !isWorkerReachable && livedMs !== null && livedMs < stableAfterMs;
    const waitMs = seemsTakenOver ? takenOverRetryMs + delayMs : delayMs;
    log.warn('no connection to the broker', {
      cause: end.cause,
      mqtt: version,
      retryInMs: Math.round(waitMs),
      ...(end.refusedCode === null ? {} : { refusedCode: end.refusedCode, alarm: true }),
    });
    connectAfter(waitMs);
    isAwaitingLink = seemsTakenOver;
  }
}
