// Slice: the relay shards that receive this device's messages. A shard that reports no sockets is removed, so that a
// lost close, a deployment or a crash heals by itself.
import type { TopicAction } from '../../../protocol/mqtt.ts';
import { topicOf } from '../../topics.ts';
import type { Decision } from '../core/events.ts';
import type { Slice, DeviceState } from '../core/state.ts';
import { liveGenerations } from '../ownership/credentials.ts';

export type Subscription = {
  shard: string;
  /** Number of the shard's last registration with this device. */
  registrationId: number;
  /** None of the shard's sockets receives property/set. */
  ignoresCommands: boolean;
};

export const subscriptionsSlice: Slice<readonly Subscription[]> = {
  initial: [],
  row: 'activity',
  onNewOwner: 'forget',
  onMove: 'stay',
};

/** To the relay sessions that follow the device; sessions of ended passwords get nothing. */
export function pushMessage(
  { identity, credentials, subscriptions }: Pick<DeviceState, 'identity' | 'credentials' | 'subscriptions'>,
  action: TopicAction,
  payload: string,
  { nowMs, effects }: Decision,
): void {
  const generations = liveGenerations(credentials, nowMs);
  effects.push({ kind: 'push', topic: topicOf(identity, action), payload, subscriptions, generations });
}

export function addSubscription(
  subscriptions: readonly Subscription[],
  shard: string,
  ignoresCommands: boolean,
  nowMs: number,
): Subscription[] {
  const former = subscriptions.find((entry) => entry.shard === shard);
  // Grows even when the list was empty in between, so that a late removal never meets a newer registration's number.
  const registrationId = Math.max(nowMs, ...subscriptions.map((entry) => entry.registrationId + 1));
  const isIgnoring = ignoresCommands && (former === undefined || former.ignoresCommands);
  return [...subscriptions.filter((entry) => entry !== former), { shard, registrationId, ignoresCommands: isIgnoring }];
}

/** The shard has no socket for this device. It stays subscribed if it registered again since. */
export function removeSubscription(
  subscriptions: readonly Subscription[],
  shard: string,
  registrationId: number,
): readonly Subscription[] {
  const left = subscriptions.filter((entry) => entry.shard !== shard || entry.registrationId !== registrationId);
  return left.length < subscriptions.length ? left : subscriptions;
}
