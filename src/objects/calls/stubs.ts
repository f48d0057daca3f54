// The only place that names Durable Objects, and the one way to call them: a failure is classified, logged and, where
// the call may be repeated, retried once with a new stub. Decides nothing about what a failure means to the caller.
import { fingerprint } from '../../domain/fingerprint.ts';
import { RefusedError, type ObjectFailure } from '../../domain/refusal.ts';
import type { EventOf, RequestKind, Results } from '../../domain/device/core/events.ts';
import { readConfig } from '../../config.ts';
import { describeError, log } from '../../log.ts';

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
type Binding = { [Name in keyof Env]: Env[Name] extends DurableObjectNamespace ? Name : never }[keyof Env];
type Stub<Name extends Binding> = Name extends 'DEVICE_SESSION' ? RemoteDevice : Remote<Env[Name]>;

/** `once`: running it a second time might have a second effect, so that it is never retried. */
type Repetition = 'idempotent' | 'once';

type Method = (...args: unknown[]) => Promise<unknown>;

/** Calls throw RefusedError `object_failed`. They arrive in the order in which they were made, until one fails. */
function callTo<Name extends Binding, Id extends string | number = string>(
  object: string,
  binding: Name,
  nameOf: (id: Id) => string = String,
) {
  return (env: Env, id: Id, repetition: Repetition) => {
    let stub: Record<string, Method> | undefined;
    const run = async (method: string, args: unknown[]) => {
      const used = (stub ??= env[binding].getByName(nameOf(id), placeOf(env)) as unknown as Record<string, Method>);
      try {
        return await used[method]?.(...args);
      } catch (error) {
        // The platform has broken it.
        if (stub === used) stub = undefined;
        throw error;
      }
    };
    return new Proxy({} as Stub<Name>, {
      get:
        (_, method: string) =>
        (...args: unknown[]) => {
          // For the log, what is decided says more.
          const operation = method === 'decide' ? (args[0] as EventOf<RequestKind>).kind : method;
          return call(object, nameOf(id), operation, repetition, () => run(method, args));
        },
    });
  };
}

export const callDevice = callTo('DeviceSession', 'DEVICE_SESSION');
export const callRelay = callTo('RelayGateway', 'RELAY_GATEWAY');
export const callPropagator = callTo<'PRODUCT_PROPAGATOR', number>('ProductPropagator', 'PRODUCT_PROPAGATOR');
const ofUser = (userId: number) => `user-${userId}`;
export const callFleetDirectory = callTo('FleetDirectory', 'FLEET_DIRECTORY', ofUser);
export const callProjectionWriter = callTo('ProjectionWriter', 'PROJECTION_WRITER');
export const callWebhook = callTo('WebhookEndpoint', 'WEBHOOK_ENDPOINT');
export const callInbox = callTo('UserInbox', 'USER_INBOX', ofUser);
export const callBulk = callTo('BulkRun', 'BULK_RUN');
export const callCampaign = callTo('Campaign', 'CAMPAIGN');
const homePrefix = 'home-';
export const isHome = (shard: string): boolean => shard.startsWith(homePrefix);
/** By the name under which it listens to devices. */
export const callHomeNamed = callTo('HomeBroker', 'HOME_BROKER');
/** @param keyId of its API key */
export const callHome = (env: Env, keyId: string, repetition: Repetition) =>
  callHomeNamed(env, `${homePrefix}${keyId}`, repetition);
/** A relay shard or a home: both listen to devices. */
export const callListener = (env: Env, shard: string, repetition: Repetition): Pick<Stub<'HOME_BROKER'>, 'push'> =>
  isHome(shard) ? callHomeNamed(env, shard, repetition) : callRelay(env, shard, repetition);
const callLink = callTo('BrokerLink', 'BROKER_LINK');
export const callBrokerLink = (env: Env, repetition: Repetition) => callLink(env, 'broker-main', repetition);

/** The result of a call, or `fallback` if it failed: the call has logged it. */
export async function resultOr<T, Fallback>(fallback: Fallback, called: Promise<T>): Promise<T | Fallback> {
  try {
    return await called;
  } catch (error) {
    if (error instanceof RefusedError) return fallback;
    throw error;
  }
}

/** False if the call failed, which it has logged. */
export function hasAnswer(called: Promise<unknown>): Promise<boolean> {
  const answered = called.then(() => true);
  return resultOr(false, answered);
}

/** Of a relay shard or a home. When it resolves, no device of the user relies on an older answer. @throws RefusedError */
export async function listenToFleet(env: Env, userId: number, shard: string): Promise<void> {
  while (!(await callFleetDirectory(env, userId, 'idempotent').listen(userId, shard)));
}

/** For a shard that listens: the directory may have been restored without it. */
export async function confirmFleet(env: Env, userId: number, shard: string): Promise<void> {
  const isListening = await resultOr(true, callFleetDirectory(env, userId, 'idempotent').confirm(userId, shard));
  if (!isListening) await resultOr(undefined, listenToFleet(env, userId, shard));
}

/** The shard of a client address; stable, so that one address does not wake them all. */
export function relayShardOf(address: string, shards: number): string {
  return `relay-${fingerprint(address) % shards}`;
}

export const relayShards = (env: Env): string[] =>
  Array.from({ length: readConfig(env).relayShards }, (_, index) => `relay-${index}`);

/** Tells every relay shard. Never throws: a shard that cannot be told finds out within a minute (relay-gateway.ts). */
export async function tellRelays(env: Env, tell: (stub: Stub<'RELAY_GATEWAY'>) => Promise<void>) {
  await Promise.all(relayShards(env).map((shard) => hasAnswer(tell(callRelay(env, shard, 'idempotent')))));
}

/** Where an object is made that is called for the first time; one that exists stays where it is. */
function placeOf(env: Env): DurableObjectNamespaceGetDurableObjectOptions | undefined {
  const { locationHint } = readConfig(env);
  return locationHint && { locationHint };
}

async function call<T>(
  object: string,
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
