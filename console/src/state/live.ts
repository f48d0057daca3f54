// The one relay socket of the page: every message about the user's devices, whether it is connected, and since when what is
// shown may be out of date. Screens add listeners; they open no sockets.
import type { Listener, RelayState, Relay, RelayMessage, Subscription } from '@latchwork/client';
import { effect, signal, untracked } from '@preact/signals';
import { isSignedIn, openRelay } from './session.ts';

export const liveState = signal<{ state: RelayState; detail: string }>({ state: 'connecting', detail: '' });

/** Changes since then may be missing on the screen; null while each is pushed. */
export const staleSinceMs = signal<number | null>(null);

let relay: Relay | null = null;
let openedAtMs = Infinity;
let readAtMs = Date.now();

effect(() => {
  const wanted = isSignedIn.value;
  relay?.close();
  staleSinceMs.value = null;
  relay = wanted ? openRelay({ onState }) : null;
});

function onState(state: RelayState, detail: string): void {
  liveState.value = { state, detail };
  openedAtMs = state === 'open' ? Date.now() : Infinity;
  // Not with the first connection: what was just read is shown while it opens.
  if (state === 'waiting' || state === 'ended') {
    staleSinceMs.value = staleSinceMs.peek() ?? Math.max(relay?.heardAtMs ?? 0, readAtMs);
  }
}

/** All that a live screen shows was read. What changed since `startedAtMs` was pushed, if the page was live by then. */
export function noteRead(startedAtMs: number): void {
  readAtMs = startedAtMs;
  if (staleSinceMs.peek() !== null) staleSinceMs.value = startedAtMs >= openedAtMs ? null : startedAtMs;
}

/** Runs it whenever the page becomes live from here on. @returns ends that */
export function whenLiveAgain(run: () => void): () => void {
  let before = liveState.peek().state;
  return effect(() => {
    const { state } = liveState.value;
    if (state === 'open' && before !== 'open') untracked(run);
    before = state;
  });
}

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

/** The position that a report tells; undefined if it tells none. */
export function positionIn(payload: Record<string, unknown>): 'up' | 'middle' | 'down' | undefined {
  const { position } = paramsIn(payload);
  return position === 'up' || position === 'middle' || position === 'down' ? position : undefined;
}

/** The angle in degrees that a report tells; undefined if it tells none. */
export function angleIn(payload: Record<string, unknown>): number | undefined {
  const { angle } = paramsIn(payload);
  return typeof angle === 'number' ? angle : undefined;
}

function paramsIn({ params }: Record<string, unknown>): { position?: unknown; angle?: unknown } {
  return typeof params === 'object' && params !== null ? params : {};
}
