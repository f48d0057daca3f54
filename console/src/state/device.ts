// One device as its screen shows it: record, live state, commands on their way. Everything shown as reported comes from
// the device's own messages; what was asked for is kept apart.
import {
  dataOf,
  followDevice,
  runCommand,
  type Client,
  type Command,
  type ControlBody,
  type Data,
  type Subscription,
} from '@latchwork/client';
import { signal } from '@preact/signals';
import { currentRelay, positionIn, readMessage } from './live.ts';
import { session } from './session.ts';
import { texts } from '../texts.ts';

export type Device = Data<Client['devices'][':deviceId']['$get']>;
export type EventView = Data<Client['devices'][':deviceId']['events']['$get']>['list'][number];
export type Properties = Data<Client['devices'][':deviceId']['properties']['$get']>;
export type Position = 'up' | 'middle' | 'down';

/** A change of presence comes a moment before its event can be read. */
const readAfterMs = 300;

export class DeviceView {
  readonly deviceId: string;
  readonly device = signal<Device | null>(null);
  readonly status = signal<Device['status'] | null>(null);
  readonly position = signal<Position | null>(null);
  readonly properties = signal<Properties | null>(null);
  readonly events = signal<readonly EventView[]>([]);
  readonly commands = signal<readonly Command[]>([]);
  /** The command that is followed now, or the last one that was. */
  readonly followed = signal<{ body: ControlBody; command: Command | null; error: unknown } | null>(null);
  /** Names of those who gave commands, by user, as far as they are known. */
  readonly givers = signal<ReadonlyMap<number | null, string>>(new Map());
  readonly error = signal<unknown>(null);
  #subscription: Subscription | null = null;
  readonly #asked = new Set<number | null>();
  #hasEnded = false;
  #reading: ReturnType<typeof setTimeout> | undefined;

  constructor(deviceId: string) {
    this.deviceId = deviceId;
    this.#begin().catch((error: unknown) => (this.error.value = error));
  }

  end(): void {
    this.#hasEnded = true;
    clearTimeout(this.#reading);
    this.#subscription?.end();
  }

  /** Sends a command and follows it to its end, which `followed` shows. */
  async press(body: ControlBody): Promise<void> {
    const show = (command: Command | null, error: unknown = null) => (this.followed.value = { body, command, error });
    show(null);
    try {
      show(await runCommand(session().api, this.deviceId, body, { until: 'confirmed', onCommand: show }));
    } catch (error) {
      show(this.followed.value?.command ?? null, error);
    }
    await this.#readLater();
  }

  /** @throws ApiError, NoAnswerError */
  async change(json: { name?: string; disabled?: boolean }): Promise<void> {
    const device = await dataOf(session().api.devices[':deviceId'].$patch({ param: this.#param, json }));
    this.device.value = device;
    this.status.value = device.status;
  }

  /** @throws ApiError, NoAnswerError */
  replaceCredentials() {
    return dataOf(session().api.devices[':deviceId'].credentials.$post({ param: this.#param }));
  }

  /** @throws ApiError, NoAnswerError */
  async remove(): Promise<void> {
    await dataOf(session().api.devices[':deviceId'].$delete({ param: this.#param }));
  }

  #isOver(): boolean {
    return this.#hasEnded;
  }

  get #param() {
    return { deviceId: this.deviceId };
  }

  async #begin(): Promise<void> {
    const device = await dataOf(session().api.devices[':deviceId'].$get({ param: this.#param }));
    if (this.#isOver()) return;
    this.device.value = device;
    // What is known is shown before the relay is: that waits until nothing can be missed.
    this.#readSoon();
    this.#subscription = followDevice(session().api, currentRelay(), device, {
      onState: ({ status }) => {
        this.status.value = status.status;
        this.position.value = status.position;
        this.#readSoon();
      },
      onMessage: (message) => {
        const read = readMessage(message);
        if (read?.kind === 'status' && this.status.value !== 'disabled') {
          const { status } = read.payload;
          if (status === 'online' || status === 'offline') this.status.value = status;
        }
        if (read?.kind === 'report') this.position.value = positionIn(read.payload) ?? this.position.value;
        this.#readSoon();
      },
      onError: (error) => (this.error.value = error),
    });
  }

  #readSoon(): void {
    this.#reading ??= setTimeout(() => {
      this.#readLater().catch((error: unknown) => (this.error.value = error));
    }, readAfterMs);
  }

  async #readLater(): Promise<void> {
    clearTimeout(this.#reading);
    this.#reading = undefined;
    if (this.#isOver()) return;
    const { status, events, properties, commands } = session().api.devices[':deviceId'];
    const query = { page: '1', size: '30' };
    const [present, eventPage, values, commandPage] = await Promise.all([
      // A device that is back within its grace is not announced again.
      dataOf(status.$get({ param: this.#param })),
      dataOf(events.$get({ param: this.#param, query })),
      dataOf(properties.$get({ param: this.#param })),
      dataOf(commands.$get({ param: this.#param, query })),
    ]);
    if (this.#isOver()) return;
    this.status.value = present.status;
    this.position.value = present.position;
    this.events.value = eventPage.list;
    this.properties.value = values;
    this.commands.value = commandPage.list;
    await this.#readGivers();
  }

  /** Members are shown to the owner alone: others read that it was somebody else. */
  async #readGivers(): Promise<void> {
    const unknown = this.commands.value.filter(({ givenBy }) => givenBy !== null && !this.#asked.has(givenBy.userId));
    if (unknown.length === 0) return;
    for (const { givenBy } of unknown) if (givenBy !== null) this.#asked.add(givenBy.userId);
    const { users, devices } = session().api;
    const { userId } = await dataOf(users.me.$get());
    const names = new Map(this.givers.value).set(userId, texts.command.you);
    const isOwner = this.device.value?.role === 'owner';
    if (isOwner && unknown.some(({ givenBy }) => givenBy?.userId !== userId)) {
      const { list } = await dataOf(devices[':deviceId'].members.$get({ param: this.#param, query: { size: '100' } }));
      for (const member of list) names.set(member.userId, member.email);
    }
    this.givers.value = names;
  }
}
