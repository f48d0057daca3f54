// The list of devices: pages are read by cursor when they are scrolled to, and changes that the relay pushes are put into
// the rows in place, so that no row moves under the finger.
import { ApiError, dataOf, recordChangeOf, type Client, type Data } from '@latchwork/client';
import { signal, type Signal } from '@preact/signals';
import { angleIn, followFleet, noteRead, positionIn, readMessage, staleSinceMs } from './live.ts';
import { session } from './session.ts';

type DevicePage = Data<Client['devices']['$get']>;
export type Device = DevicePage['list'][number];
/** Empty members filter nothing. */
export type Filter = Record<'search' | 'tag' | 'productKey' | 'status', string> & {
  role: '' | 'owner' | 'operator' | 'viewer';
};
export type Row = {
  device: Device;
  status: Device['status'];
  position: 'up' | 'middle' | 'down' | null;
  angle: number | null;
  /** What its witness saw last. */
  actual: Data<Client['devices'][':deviceId']['status']['$get']>['actual'];
  /** Since when it has this status; null where that is not known. */
  sinceMs: number | null;
  reportedAtMs: number | null;
};

/** What its product moves: an angle, or a position. */
export function reportedOf({ device, position, angle }: Row): Row['position'] | number {
  return device.product.controlMode === 'dimmer' ? (angle ?? position) : position;
}

const pageSize = 100;
/** Positions of rows that are looked at are asked one by one, so many at a time. */
const asksAtOnce = 4;

export class DeviceList {
  readonly rows = signal<readonly Signal<Row>[]>([]);
  readonly total = signal<number | null>(null);
  /** More devices begin with what is searched for than the service looked at. */
  readonly isCut = signal(false);
  readonly error = signal<unknown>(null);
  readonly #filter: Filter;
  readonly #rowOf = new Map<string, Signal<Row>>();
  readonly #asked = new Set<string>();
  #shown: readonly string[] = [];
  #waiting: string[] = [];
  #asking = 0;
  #next: string | null = '';
  #isReading = false;
  #hasEnded = false;
  readonly #fleet;

  constructor(filter: Filter) {
    this.#filter = filter;
    this.#fleet = followFleet({
      onMessage: (message) => this.#take(message),
      // What happened without a connection is not known: what is on the screen is read again.
      onActive: (isAgain) => {
        if (isAgain || staleSinceMs.peek() !== null) this.#readAgain();
      },
    });
    this.readMore();
  }

  get hasMore(): boolean {
    return this.#next !== null;
  }

  end(): void {
    this.#hasEnded = true;
    this.#fleet.end();
  }

  readMore(): void {
    if (this.#isReading || this.#next === null || this.#hasEnded) return;
    this.#isReading = true;
    this.error.value = null;
    const startedAtMs = Date.now();
    this.#readPage(this.#next)
      .then((page) => {
        if (this.#hasEnded) return;
        if (this.#next === '') noteRead(startedAtMs);
        this.#next = this.#after(page);
        this.total.value = page.total;
        this.isCut.value = page.isCut === true;
        const added = page.list.filter(({ deviceId }) => !this.#rowOf.has(deviceId)).map((device) => this.#add(device));
        this.rows.value = [...this.rows.value, ...added];
      })
      .catch((error: unknown) => (this.error.value = error))
      .finally(() => (this.#isReading = false));
  }

  /** Asks for the positions of rows that came into view, and for more rows before the last are in view. */
  view(from: number, to: number): void {
    const rows = this.rows.peek();
    const deviceIds = rows.slice(from, to).map((row) => row.peek().device.deviceId);
    this.#shown = deviceIds;
    this.#waiting = deviceIds.filter((deviceId) => !this.#asked.has(deviceId));
    this.#ask();
    if (to >= rows.length - 20) this.readMore();
  }

  /** Lists go on by cursor, what a search found by page. */
  #readPage(place: string) {
    const { search, ...others } = this.#filter;
    const asked = Object.fromEntries(Object.entries(others).filter(([, value]) => value !== ''));
    const where = search === '' ? { after: place } : { search, page: place === '' ? '1' : place };
    const query = { ...asked, ...where, size: String(pageSize) };
    return dataOf(session().api.devices.$get({ query }));
  }

  #after({ page, total, next }: DevicePage): string | null {
    if (this.#filter.search === '') return next ?? null;
    return page * pageSize < total ? String(page + 1) : null;
  }

  #add(device: Device): Signal<Row> {
    const sinceMs = device.lastOnlineAt === null ? null : Date.parse(device.lastOnlineAt);
    const unread = { position: null, angle: null, actual: null, reportedAtMs: null };
    const row = signal<Row>({ device, status: device.status, sinceMs, ...unread });
    this.#rowOf.set(device.deviceId, row);
    return row;
  }

  #ask(): void {
    while (this.#asking < asksAtOnce && this.#waiting.length > 0 && !this.#hasEnded) {
      const deviceId = this.#waiting.shift() as string;
      this.#asked.add(deviceId);
      this.#asking += 1;
      this.#readLive(deviceId)
        .then((live) => this.#change(deviceId, live))
        .catch((error: unknown) => {
          // It is asked again when it comes into view again.
          this.#asked.delete(deviceId);
          this.#fail(deviceId, error);
        })
        .finally(() => {
          this.#asking -= 1;
          this.#ask();
        });
    }
  }

  async #readLive(deviceId: string): Promise<Partial<Row>> {
    const { status, properties } = session().api.devices[':deviceId'];
    const [view, { list }] = await Promise.all([
      dataOf(status.$get({ param: { deviceId } })),
      dataOf(properties.$get({ param: { deviceId } })),
    ]);
    const times = list.map(({ time }) => Date.parse(time));
    const angle = list.find(({ name }) => name === 'angle')?.value;
    return {
      ...{
        status: view.status,
        position: view.position,
        actual: view.actual,
        angle: typeof angle === 'number' ? angle : null,
      },
      // A report that is pushed meanwhile is newer.
      ...(times.length > 0 && { reportedAtMs: Math.max(...times, this.#rowOf.get(deviceId)?.value.reportedAtMs ?? 0) }),
    };
  }

  #askAgain(deviceId: string): void {
    this.#asked.delete(deviceId);
    this.#waiting.push(deviceId);
    this.#ask();
  }

  #take(message: Parameters<typeof readMessage>[0]): void {
    const read = readMessage(message);
    if (read === null) return;
    const record = recordChangeOf(message);
    if (record === 'deleted') this.#remove(read.deviceId);
    else if (record !== undefined) this.#readRecord(read.deviceId);
    if (read.kind === 'other') return;
    const nowMs = Date.now();
    if (read.kind === 'status') {
      const { status } = read.payload;
      if (status === 'online' || status === 'offline') this.#change(read.deviceId, { status, sinceMs: nowMs });
      return;
    }
    const before = this.#rowOf.get(read.deviceId)?.value;
    // It is back within its grace, which is not announced. Or its witness may have seen something.
    if (before?.status === 'offline' || before?.actual) this.#askAgain(read.deviceId);
    const [position, angle] = [positionIn(read.payload), angleIn(read.payload)];
    this.#change(read.deviceId, {
      reportedAtMs: nowMs,
      ...(position !== undefined && { position }),
      ...(angle !== undefined && { angle }),
    });
  }

  #change(deviceId: string, change: Partial<Row>): void {
    const row = this.#rowOf.get(deviceId);
    if (row !== undefined) row.value = { ...row.value, ...change };
  }

  /** A device that came to be the user's is a row at the end. */
  #put(device: Device): void {
    if (this.#rowOf.has(device.deviceId)) this.#change(device.deviceId, { device });
    else this.rows.value = [...this.rows.value, this.#add(device)];
  }

  #readRecord(deviceId: string): void {
    const isUnfiltered = Object.values(this.#filter).every((value) => value === '');
    dataOf(session().api.devices[':deviceId'].$get({ param: { deviceId } }))
      .then((device) => {
        const isNew = !this.#rowOf.has(deviceId);
        if (this.#hasEnded || this.total.peek() === null || (isNew && !isUnfiltered)) return;
        this.#put(device);
        if (isNew) this.total.value = (this.total.value ?? 0) + 1;
        this.#askAgain(deviceId);
      })
      .catch((error: unknown) => this.#fail(deviceId, error));
  }

  /** A device that is gone, or that the user may not see any more, leaves the list. */
  #fail(deviceId: string, error: unknown): void {
    if (error instanceof ApiError && (error.code === 403 || error.code === 404)) this.#remove(deviceId);
    else this.error.value = error;
  }

  #remove(deviceId: string): void {
    if (!this.#rowOf.delete(deviceId)) return;
    this.rows.value = this.rows.value.filter((row) => row.peek().device.deviceId !== deviceId);
    this.total.value = (this.total.value ?? 1) - 1;
  }

  /** Rows keep their places. Page one counts and brings new rows; those in view are asked one by one, others when they come into view. */
  #readAgain(): void {
    if (this.#next === '') {
      this.readMore();
      return;
    }
    const startedAtMs = Date.now();
    this.#readPage('')
      .then(({ total, list }) => {
        if (this.#hasEnded) return;
        for (const device of list) this.#put(device);
        this.total.value = total;
        this.error.value = null;
        this.#asked.clear();
        for (const deviceId of this.#shown) this.#readRecord(deviceId);
        noteRead(startedAtMs);
      })
      .catch((error: unknown) => (this.error.value = error));
  }
}
