// Slice: the relay shards that receive this device's messages. A shard that reports no sockets is removed, so that a
// lost close, a deployment or a crash heals by itself.

import type { Slice } from '../core/slice.ts';

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
};

export function addSubscription(
  subscriptions: readonly Subscription[],
  shard: string,
  ignoresCommands: boolean,
  nowMs: number,
): Subscription[] {
  const former = subscriptions.find((one) => one.shard === shard);
  // Grows even when the list was empty in between, so that a late removal never meets a newer registration's number.
  const registrationId = Math.max(nowMs, ...subscriptions.map((one) => one.registrationId + 1));
  const isIgnoring = ignoresCommands && (former === undefined || former.ignoresCommands);
  return [...subscriptions.filter((one) => one !== former), { shard, registrationId, ignoresCommands: isIgnoring }];
}

/** The shard has no socket for this device; it stays where it registered again since. */
export function removeSubscription(
  subscriptions: readonly Subscription[],
  shard: string,
  registrationId: number,
): readonly Subscription[] {
  const left = subscriptions.filter((one) => one.shard !== shard || one.registrationId !== registrationId);
  return left.length < subscriptions.length ? left : subscriptions;
}
