// The schedules of a device and their runs, as the tab shows them: read again after each change, and when a run is due or under way.
import { dataOf, putSchedule, type Run, type Schedule, type ScheduleBody } from '@latchwork/client';
import { signal } from '@preact/signals';
import { PagedList } from '../state/paged-list.ts';
import { session } from '../state/session.ts';

export type Change = 'pause' | 'resume' | 'run' | 'remove';

const lookEveryMs = 3_000;

export class Times {
  readonly deviceId: string;
  /** null until they are there. */
  readonly schedules = signal<readonly Schedule[] | null>(null);
  readonly runs: PagedList<Run>;
  /** Runs that the service does not keep any more. */
  readonly dropped = signal(0);
  readonly error = signal<unknown>(null);
  readonly #timer: ReturnType<typeof setInterval>;

  constructor(deviceId: string) {
    this.deviceId = deviceId;
    this.runs = new PagedList(
      async (query) => {
        const page = await dataOf(this.#api.runs.$get({ param: { deviceId }, query }));
        this.dropped.value = page.dropped;
        return page;
      },
      ({ runId }) => runId,
    );
    this.#readSoon();
    this.#timer = setInterval(() => {
      if (!document.hidden && this.#isDue()) this.refresh();
    }, lookEveryMs);
  }

  end(): void {
    clearInterval(this.#timer);
  }

  /** Without a caller who waits for it. */
  refresh(): void {
    this.#readSoon();
    this.runs.refresh();
  }

  /** @throws ApiError, NoAnswerError */
  async save(body: ScheduleBody, scheduleId: string | undefined): Promise<void> {
    await putSchedule(session().api, this.deviceId, body, scheduleId);
    await this.#readSchedules();
  }

  /** @throws ApiError, NoAnswerError */
  async change(scheduleId: string, change: Change): Promise<void> {
    const param = { deviceId: this.deviceId, scheduleId };
    const schedule = this.#api.schedules[':scheduleId'];
    if (change === 'remove') await dataOf(schedule.$delete({ param }));
    else if (change === 'run') await dataOf(schedule.run.$post({ param }));
    else await dataOf(schedule[change].$post({ param }));
    await Promise.all([this.#readSchedules(), this.runs.reload()]);
  }

  get #api() {
    return session().api.devices[':deviceId'];
  }

  #readSoon(): void {
    this.#readSchedules().catch((error: unknown) => (this.error.value = error));
  }

  async #readSchedules(): Promise<void> {
    const { list } = await dataOf(
      this.#api.schedules.$get({ param: { deviceId: this.deviceId }, query: { size: '100' } }),
    );
    this.schedules.value = list;
    this.error.value = null;
  }

  /** What is shown changes by itself now. */
  #isDue(): boolean {
    const hasOpen = this.runs.items.peek()?.some(({ outcome }) => outcome === 'running') ?? false;
    const isPast = ({ nextDueAt, pausedBecause }: Schedule) =>
      pausedBecause === null && nextDueAt !== null && Date.parse(nextDueAt) <= Date.now();
    return hasOpen || (this.schedules.peek()?.some(isPast) ?? false);
  }
}
