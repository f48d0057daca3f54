// One device as its screen shows it: record, live state, commands on their way. Everything shown as reported comes from
// the device's own messages; what was asked for is kept apart.
import {
  ApiError,
  dataOf,
  followDevice,
  NoAnswerError,
  RelayError,
  runCommand,
  type Client,
  type Command,
  type ControlBody,
  type Data,
  type RecordChange,
  type Subscription,
} from '@latchwork/client';
import { signal } from '@preact/signals';
import { currentRelay, noteRead, positionIn, readMessage, whenLiveAgain } from './live.ts';
import { session } from './session.ts';
import { activityTexts } from '../texts/activity.ts';

export type Device = Data<Client['devices'][':deviceId']['$get']>;
export type EventView = Extract<
  Data<Client['devices'][':deviceId']['events']['$get']>['list'][number],
  { status: string }
>;
export type Properties = Data<Client['devices'][':deviceId']['properties']['$get']>;
export type Lease = NonNullable<Data<Client['devices'][':deviceId']['status']['$get']>['lease']>;
type Actual = Data<Client['devices'][':deviceId']['status']['$get']>['actual'];
export type Position = 'up' | 'middle' | 'down';

/** A change of presence comes a moment before its event can be read. */
const readAfterMs = 300;
/** Nobody tells this page that a witness saw it. */
const askWitnessEveryMs = 500;

export class DeviceView {
  readonly deviceId: string;
  readonly device = signal<Device | null>(null);
  readonly status = signal<Device['status'] | null>(null);
  readonly position = signal<Position | null>(null);
  /** null until all that the screen shows was read. */
  readonly properties = signal<Properties | null>(null);
  readonly events = signal<readonly EventView[]>([]);
  readonly lease = signal<Lease | null>(null);
  /** What its witness saw last; undefined without one. */
  readonly actual = signal<Actual>(undefined);
  /** Of anybody, newest first. */
  readonly commands = signal<readonly Command[]>([]);
  /** The own command that the service does not show yet, or why it was not sent. */
  readonly pressed = signal<{ body: ControlBody; error: unknown } | null>(null);
  /** How often the members changed since the screen was opened. */
  readonly memberChanges = signal(0);
  /** Names of those who gave commands, by user, as far as they are known. */
  readonly givers = signal<ReadonlyMap<number | null, string>>(new Map());
  readonly error = signal<unknown>(null);
  #subscription: Subscription | null = null;
  readonly #asked = new Set<number | null>();
  #hasEnded = false;
  /** Commands and values are looked at. */
  #isShown = true;
  #reading: ReturnType<typeof setTimeout> | undefined;
  #asking: ReturnType<typeof setTimeout> | undefined;
  #readAtMs = 0;
  readonly #endRetry: () => void;

  constructor(deviceId: string) {
    this.deviceId = deviceId;
    this.#endRetry = whenLiveAgain(() => {
      if (this.device.peek() === null && this.error.peek() instanceof NoAnswerError) this.#start();
    });
    this.#start();
  }

  end(): void {
    this.#hasEnded = true;
    clearTimeout(this.#reading);
    clearTimeout(this.#asking);
    this.#endRetry();
    this.#subscription?.end();
  }

  /** Whether commands and values are looked at: if not, presence and events alone are read. */
  show(isShown: boolean): void {
    if (isShown && !this.#isShown) this.readSoon();
    this.#isShown = isShown;
  }

  /** Without a caller who waits for it. */
  refresh(): void {
    this.#readLater().catch((error: unknown) => this.#fail(error));
  }

  /** Sends a command and follows it to its end. It is one of `commands` as soon as the service has it. */
  async press(body: ControlBody): Promise<void> {
    const press = { body, error: null };
    this.pressed.value = press;
    const onCommand = (command: Command) => {
      this.#take([command]);
      if (this.pressed.peek() === press) this.pressed.value = null;
    };
    try {
      await runCommand(session().api, this.deviceId, body, { until: 'confirmed', onCommand });
      await this.#readLater();
    } catch (error) {
      await this.#readLater().catch((failure: unknown) => this.#fail(failure));
      if (this.pressed.peek() === press) this.pressed.value = { body, error };
    }
  }

  /** @throws ApiError, NoAnswerError */
  async change(json: { name?: string; disabled?: boolean; tags?: string[] }): Promise<void> {
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

  #start(): void {
    this.#begin().catch((error: unknown) => this.#fail(error));
  }

  async #begin(): Promise<void> {
    const device = await dataOf(session().api.devices[':deviceId'].$get({ param: this.#param }));
    if (this.#isOver()) return;
    this.device.value = device;
    this.error.value = null;
    // What is known is shown before the relay is: that waits until nothing can be missed.
    this.readSoon();
    this.#subscription = followDevice(session().api, currentRelay(), device, {
      onState: ({ status }) => {
        this.status.value = status.status;
        this.position.value = status.position;
        this.readSoon();
      },
      onMessage: (message) => {
        const read = readMessage(message);
        if (read?.kind === 'status' && this.status.value !== 'disabled') {
          const { status } = read.payload;
          if (status === 'online' || status === 'offline') this.status.value = status;
        }
        if (read?.kind === 'report') this.position.value = positionIn(read.payload) ?? this.position.value;
        this.readSoon();
      },
      onRecord: (change) => this.#onRecord(change),
      onError: (error) => this.#fail(error),
    });
  }

  #onRecord(change: RecordChange): void {
    if (change === 'deleted') {
      this.#fail(new ApiError(404, 'device_not_found'));
      return;
    }
    if (change === 'members_changed') this.memberChanges.value += 1;
    this.#readRecord().catch((error: unknown) => this.#fail(error));
    this.readSoon();
  }

  async #readRecord(): Promise<void> {
    this.device.value = await dataOf(session().api.devices[':deviceId'].$get({ param: this.#param }));
  }

  /** Of a device that is gone, or that the user may not see any more, nothing is shown. */
  #fail(error: unknown): void {
    // Whether the page is live is said above all screens.
    if (this.#isOver() || error instanceof RelayError) return;
    this.error.value = error;
    if (!(error instanceof ApiError) || (error.code !== 403 && error.code !== 404)) return;
    this.device.value = null;
    this.end();
  }

  /** What is known of a command grows: an answer that was longer under way takes nothing back. */
  #take(commands: readonly Command[]): void {
    const before = this.commands.peek();
    const known = new Map(before.map((command) => [command.commandId, command]));
    for (const command of commands) {
      const former = known.get(command.commandId);
      if (former === undefined || progressOf(command) >= progressOf(former)) known.set(command.commandId, command);
    }
    this.commands.value = [...known.values()].sort((one, other) => other.steps.accepted - one.steps.accepted);
    const hasNewer = this.commands.peek()[0]?.commandId !== before[0]?.commandId;
    if (hasNewer && this.pressed.peek()?.error !== null) this.pressed.value = null;
    this.#askWitness();
  }

  #askWitness(): void {
    const newest = this.commands.peek()[0];
    if (newest?.witness?.outcome !== 'pending' || this.#isOver()) return;
    this.#asking ??= setTimeout(() => {
      this.#asking = undefined;
      const param = { deviceId: this.deviceId, commandId: newest.commandId };
      dataOf(session().api.devices[':deviceId'].commands[':commandId'].$get({ param })).then(
        (command) => {
          this.#take([command]);
          if (command.witness?.outcome !== 'pending') this.readSoon();
        },
        (error: unknown) => this.#fail(error),
      );
    }, askWitnessEveryMs);
  }

  /** Something happened that may show in the state. */
  readSoon(): void {
    this.#reading ??= setTimeout(() => this.refresh(), readAfterMs);
  }

  async #readLater(): Promise<void> {
    clearTimeout(this.#reading);
    this.#reading = undefined;
    if (this.#isOver()) return;
    const startedAtMs = Date.now();
    const before = { status: this.status.peek(), position: this.position.peek() };
    const { status, events, properties, commands } = session().api.devices[':deviceId'];
    const query = { page: '1', size: '30' };
    // First: the state that is read then is not older than what it confirms.
    const isShown = this.#isShown;
    const commandPage = isShown ? await dataOf(commands.$get({ param: this.#param, query })) : null;
    const [present, eventPage, values] = await Promise.all([
      // A device that is back within its grace is not announced again.
      dataOf(status.$get({ param: this.#param })),
      dataOf(events.$get({ param: this.#param, query })),
      isShown ? dataOf(properties.$get({ param: this.#param })) : null,
    ]);
    if (this.#isOver() || startedAtMs < this.#readAtMs) return;
    this.#readAtMs = startedAtMs;
    // What was pushed meanwhile is newer.
    if (this.status.peek() === before.status) this.status.value = present.status;
    if (this.position.peek() === before.position) this.position.value = present.position;
    this.lease.value = present.lease ?? null;
    this.actual.value = present.actual;
    // Without `after` it is always a page.
    this.events.value = 'total' in eventPage ? eventPage.list : [];
    if (values !== null) this.properties.value = values;
    if (commandPage !== null) this.#take(commandPage.list);
    this.error.value = null;
    if (this.pressed.peek()?.error instanceof NoAnswerError) this.pressed.value = null;
    noteRead(startedAtMs);
    await this.#readGivers();
  }

  /** Members are shown to the owner alone: others read that it was somebody else. */
  async #readGivers(): Promise<void> {
    const unknown = this.commands.value.filter(({ givenBy }) => givenBy !== null && !this.#asked.has(givenBy.userId));
    if (unknown.length === 0) return;
    for (const { givenBy } of unknown) if (givenBy !== null) this.#asked.add(givenBy.userId);
    const { users, devices } = session().api;
    const { userId } = await dataOf(users.me.$get());
    const names = new Map(this.givers.value).set(userId, activityTexts.way.you);
    const isOwner = this.device.value?.role === 'owner';
    if (isOwner && unknown.some(({ givenBy }) => givenBy?.userId !== userId)) {
      const { list } = await dataOf(devices[':deviceId'].members.$get({ param: this.#param, query: { size: '100' } }));
      for (const member of list) names.set(member.userId, member.email);
    }
    this.givers.value = names;
  }
}

/** Steps that were taken, and whether it ended without the next one. */
function progressOf({ steps, state, witness }: Command): number {
  const isEnded = state === 'undelivered' || state === 'expired' || state === 'cancelled';
  const isMissed = witness?.outcome === 'not_witnessed';
  return Object.values(steps).filter((atMs) => atMs !== null).length + (isEnded ? 0.5 : 0) + (isMissed ? 0.25 : 0);
}
