// The one relay socket of the page: every message about the user's devices, and whether it is connected. Screens add
// listeners; they open no sockets.
import type { Listener, RelayState, Relay, RelayMessage, Subscription } from '@latchwork/client';
import { effect, signal } from '@preact/signals';
import { isSignedIn, openRelay } from './session.ts';

export const liveState = signal<{ state: RelayState; detail: string }>({ state: 'connecting', detail: '' });

let relay: Relay | null = null;

effect(() => {
  const wanted = isSignedIn.value;
  relay?.close();
  relay = wanted ? openRelay({ onState: (state, detail) => (liveState.value = { state, detail }) }) : null;
});

/** The relay of the signed-in user, for `followDevice`. */
export function currentRelay(): Relay {
  if (relay === null) throw new Error('nobody is signed in');
  return relay;
}

/** All messages of all devices of the user. */
export function followFleet(listener: Listener): Subscription {
  return currentRelay().subscribe('/sys/+/+/#', listener);
}

export type FleetMessage = { deviceId: string; kind: 'status' | 'report' | 'other'; payload: Record<string, unknown> };

/** What a pushed message is about; null where it is about no device. */
export function readMessage({ topic, payload }: RelayMessage): FleetMessage | null {
  const [, sys, , deviceId, ...action] = topic.split('/');
  if (sys !== 'sys' || deviceId === undefined) return null;
  const kinds: Record<string, FleetMessage['kind']> = { status: 'status', 'thing/event/property/post': 'report' };
  const body = typeof payload === 'object' && payload !== null ? (payload as Record<string, unknown>) : {};
  return { deviceId, kind: kinds[action.join('/')] ?? 'other', payload: body };
}

/** The position that a report tells; undefined where it tells none. */
export function positionIn(payload: Record<string, unknown>): 'up' | 'middle' | 'down' | undefined {
  const { params } = payload;
  const position =
    typeof params === 'object' && params !== null ? (params as Record<string, unknown>)['position'] : undefined;
  return position === 'up' || position === 'middle' || position === 'down' ? position : undefined;
}
