// A group as it is shown: its devices are asked once, then messages of the relay are put in. All groups of a screen share one
// subscription.
import { dataOf, type Client, type Data, type Subscription } from '@latchwork/client';
import { computed, signal } from '@preact/signals';
import { learnNames } from '../state/device-names.ts';
import { followFleet, positionIn, readMessage } from '../state/live.ts';
import { session } from '../state/session.ts';

export type Group = Data<Client['groups']['$get']>['list'][number];
type State = Data<Client['groups'][':groupId']['$get']>;
export type Member = State['devices'][number];
export type Counts = Record<'up' | 'middle' | 'down' | 'unknown' | 'offline' | 'forbidden', number>;

const readAgainAfterMs = 500;
const views = new Set<GroupView>();
let fleet: Subscription | null = null;

export class GroupView {
  readonly groupId: string;
  readonly state = signal<State | null>(null);
  readonly error = signal<unknown>(null);
  /** As the service counts. */
  readonly counts = computed(() => countOf(this.state.value?.devices ?? []));
  #reading: ReturnType<typeof setTimeout> | undefined;

  constructor(groupId: string) {
    this.groupId = groupId;
    views.add(this);
    fleet ??= followFleet({
      onMessage: (message) => {
        const read = readMessage(message);
        if (read !== null) for (const view of views) view.#take(read);
      },
      onActive: (isAgain) => {
        if (isAgain) for (const view of views) view.#readSoon();
      },
    });
    this.refresh();
  }

  end(): void {
    clearTimeout(this.#reading);
    views.delete(this);
    if (views.size > 0) return;
    fleet?.end();
    fleet = null;
  }

  /** Without a caller who waits for it. */
  refresh(): void {
    dataOf(session().api.groups[':groupId'].$get({ param: { groupId: this.groupId } })).then(
      (state) => {
        this.state.value = state;
        this.error.value = null;
        learnNames(state.devices);
      },
      (error: unknown) => (this.error.value = error),
    );
  }

  #readSoon(): void {
    clearTimeout(this.#reading);
    this.#reading = setTimeout(() => this.refresh(), readAgainAfterMs);
  }

  #take({ deviceId, kind, payload }: NonNullable<ReturnType<typeof readMessage>>): void {
    const member = this.state.peek()?.devices.find((device) => device.deviceId === deviceId);
    if (member === undefined) return;
    // It came back unannounced, or something else is true of it: the service says what.
    if (kind === 'other' || (kind === 'report' && !member.online)) this.#readSoon();
    else if (kind === 'report') this.#change(deviceId, { position: positionIn(payload) ?? member.position });
    else this.#change(deviceId, { online: payload['status'] === 'online' });
  }

  #change(deviceId: string, change: Partial<Member>): void {
    const state = this.state.peek();
    if (state === null) return;
    const devices = state.devices.map((device) => (device.deviceId === deviceId ? { ...device, ...change } : device));
    this.state.value = { ...state, devices };
  }
}

function countOf(devices: readonly Member[]): Counts {
  const counts: Counts = { up: 0, middle: 0, down: 0, unknown: 0, offline: 0, forbidden: 0 };
  for (const { online, position, refused } of devices) {
    if (refused !== undefined) counts[refused === 'forbidden' ? refused : 'unknown'] += 1;
    else counts[online ? (position ?? 'unknown') : 'offline'] += 1;
  }
  return counts;
}
