// The only place that names Durable Objects, and the one way to call them: a failure is classified, logged and, where
// the call may be repeated, retried once with a new stub. Decides nothing about what a failure means to the caller.
import { RefusedError, type ObjectFailure, type ObjectName } from '../../domain/refusal.ts';
import type { EventOf, RequestKind, Results } from '../../domain/device/core/events.ts';
import { readConfig } from '../../config.ts';
import { describeError, log } from '../../log.ts';
import type { PublishOutcome } from '../../domain/publish-outcome.ts';
import type { PublishRequest } from '../broker-link/pending-publishes.ts';

/** The methods of an object as its callers see them. The platform's own type splits results that are unions. */
type Remote<Namespace> =
  Namespace extends DurableObjectNamespace<infer Target>
    ? Pick<Fetcher, 'fetch'> & {
        [Method in Exclude<keyof Target, keyof DurableObject>]: Target[Method] extends (
          ...args: infer Args
        ) => infer Result
          ? (...args: Args) => Promise<Awaited<Result>>
          : never;
      }
    : never;
export type RemoteDevice = Omit<Remote<Env['DEVICE_SESSION']>, 'decide'> & {
  decide: <Kind extends RequestKind>(event: EventOf<Kind>) => Promise<Results[Kind]>;
};
type RemoteRelay = Remote<Env['RELAY_GATEWAY']>;
export type RemoteFleets = Remote<Env['FLEET_DIRECTORY']>;
type RemotePropagator = Remote<Env['PRODUCT_PROPAGATOR']>;
type RemoteWriter = Remote<Env['PROJECTION_WRITER']>;
type RemoteLink = Remote<Env['BROKER_LINK']>;

/** `once`: running it a second time might have a second effect, so that it is never retried. */
type Repetition = 'idempotent' | 'once';

/** @throws RefusedError `object_failed` */
export function callDevice<T>(
  env: Env,
  deviceId: string,
  operation: string,
  repetition: Repetition,
  run: (stub: RemoteDevice) => Promise<T>,
): Promise<T> {
  return call('DeviceSession', deviceId, operation, repetition, () =>
    run(env.DEVICE_SESSION.getByName(deviceId, placeOf(env)) as unknown as RemoteDevice),
  );
}

/** @throws RefusedError `object_failed` */
export function callRelay<T>(
  env: Env,
  shard: string,
  operation: string,
  repetition: Repetition,
  run: (stub: RemoteRelay) => Promise<T>,
): Promise<T> {
  return call('RelayGateway', shard, operation, repetition, () =>
    run(env.RELAY_GATEWAY.getByName(shard, placeOf(env)) as unknown as RemoteRelay),
  );
}

/** @throws RefusedError `object_failed` */
export function callBrokerLink<T>(
  env: Env,
  operation: string,
  repetition: Repetition,
  run: (stub: RemoteLink) => Promise<T>,
): Promise<T> {
  return call('BrokerLink', brokerLinkName, operation, repetition, () => run(openBrokerLink(env)));
}

/** @throws RefusedError `object_failed` */
export function callFleetDirectory<T>(
  env: Env,
  userId: number,
  operation: string,
  run: (stub: RemoteFleets) => Promise<T>,
): Promise<T> {
  const name = `user-${userId}`;
  return call('FleetDirectory', name, operation, 'idempotent', () =>
    run(env.FLEET_DIRECTORY.getByName(name, placeOf(env)) as unknown as RemoteFleets),
  );
}

/** @throws RefusedError `object_failed` */
export function callProjectionWriter<T>(env: Env, run: (stub: RemoteWriter) => Promise<T>): Promise<T> {
  return call('ProjectionWriter', projectionWriterName, 'write', 'once', () =>
    run(env.PROJECTION_WRITER.getByName(projectionWriterName, placeOf(env)) as unknown as RemoteWriter),
  );
}

/** @throws RefusedError `object_failed` */
export function callPropagator<T>(
  env: Env,
  productId: number,
  operation: string,
  repetition: Repetition,
  run: (stub: RemotePropagator) => Promise<T>,
): Promise<T> {
  const name = String(productId);
  return call('ProductPropagator', name, operation, repetition, () =>
    run(env.PRODUCT_PROPAGATOR.getByName(name, placeOf(env)) as unknown as RemotePropagator),
  );
}

/** Keeps one stub while it works, because calls of one stub arrive in the order in which they were made. */
export class OrderedBrokerLink {
  readonly #env: Env;
  #stub: RemoteLink | undefined;

  constructor(env: Env) {
    this.#env = env;
  }

  /** @throws RefusedError `object_failed` */
  publish(request: PublishRequest): Promise<PublishOutcome> {
    const stub = (this.#stub ??= openBrokerLink(this.#env));
    return call('BrokerLink', brokerLinkName, 'publish', 'once', async () => {
      try {
        return await stub.publish(request);
      } catch (error) {
        if (this.#stub === stub) this.#stub = undefined;
        throw error;
      }
    });
  }
}

/** The shard of a client address; stable, so that one address does not wake them all. */
export function relayShardOf(address: string, shards: number): string {
  return `relay-${hashOf(address) % shards}`;
}

/** FNV-1a: stable over versions, and needs no promise. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash >>> 0;
}

/** All of them. */
export function relayShardNames(shards: number): string[] {
  return Array.from({ length: shards }, (_, index) => `relay-${index}`);
}

const brokerLinkName = 'broker-main';
const projectionWriterName = 'projections';

function openBrokerLink(env: Env): RemoteLink {
  return env.BROKER_LINK.getByName(brokerLinkName, placeOf(env));
}

/** Where an object is made that is called for the first time; one that exists stays where it is. */
function placeOf(env: Env): DurableObjectNamespaceGetDurableObjectOptions | undefined {
  const { locationHint } = readConfig(env);
  return locationHint && { locationHint };
}

async function call<T>(
  object: ObjectName,
  id: string,
  operation: string,
  repetition: Repetition,
  run: () => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await run();
    } catch (error) {
      const failure = classify(error);
      const isRetried = failure === 'retryable' && repetition === 'idempotent' && attempt === 1;
      log('warn', 'object call failed', { object, id, operation, failure, isRetried, ...describeError(error) });
      if (!isRetried) throw new RefusedError({ kind: 'object_failed', object, id, operation, failure });
    }
  }
}

/** The platform marks its own errors; anything else was thrown by the object's code. */
function classify(error: unknown): ObjectFailure {
  const marks = error as { retryable?: unknown; overloaded?: unknown } | null;
  if (marks?.overloaded === true) return 'overloaded';
  return marks?.retryable === true ? 'retryable' : 'broken';
}
