// The devices of a home as its clients see them. Each is asked for what is true now whenever something of it may have changed, and
// what differs from what was said before is published. Keeps no state of a device: only which were announced, so that a device that
// is gone is taken back.
import { openDatabase } from '../../db/client.ts';
import { listDevices } from '../../db/devices/lists.ts';
import type { Actor } from '../../domain/access.ts';
import {
  homeDiscoveryOf,
  homeInfoOf,
  homePartsOf,
  homeStateOf,
  type HomeParts,
  type HomeRecord,
} from '../../domain/home/discovery.ts';
import { bridgeStateTopic, devicesMeantBy, homeLimits, homeTopicsOf } from '../../domain/home/clients.ts';
import type { HomeOutcome, HomeView } from '../../domain/home/view.ts';
import { dayMs, secondMs } from '../../domain/time.ts';
import { fullBucket, takeInAdvance, type Bucket } from '../../domain/token-bucket.ts';
import { matchesFilter } from '../../domain/topics.ts';
import { inBackground } from '../calls/background.ts';
import { callDevice, resultOr } from '../calls/stubs.ts';

type Publish = (topic: string, payload: string) => void;
export type SendRetained = (topic: string, payload: string, as?: 'retained' | 'news') => void;

/** `origin`: of the service, as a client last reached it. */
export type HomeOwner = { actor: Actor; origin: string };

/** Memory only. */
type Known = {
  view: HomeView | undefined;
  /** Undefined if it may have changed since it was read, or was not needed yet. */
  record: HomeRecord | undefined;
  /** An order that no device took: it is no command of the device. */
  refused: HomeOutcome | undefined;
  said: Map<string, string>;
  /** The device may have changed since it was asked. */
  isOld: boolean;
  /** What was not said in this life of the object is news, too. */
  isNews: boolean;
  /** Its discovery has to be said anew. */
  isUnnamed: boolean;
  reading: Promise<void> | undefined;
  bucket: Bucket;
};

/**
 * What clients were told last. `former`: parts that it had before; `parts` is null of a device that is gone. A client that was away takes
 * back only what it is told of anew: Home Assistant forgets a device, or a part of it, if discovery names it and then does not.
 */
type Announced = { name: string; parts: HomeParts | null; former?: HomeParts; changedAtMs?: number };

const announcedRow = 'announced';
/** Clients that were away learn for so long what is gone. */
const rememberGoneMs = 30 * dayMs;
const clearAfterMs = 3 * secondMs;
/** A device that reports without end is asked once a second. */
const askRate = { burst: 5, perSecond: 1 };

export class HomeDevices {
  readonly #ctx: DurableObjectState;
  readonly #env: Env;
  readonly #owner: () => HomeOwner | undefined;
  readonly #publish: Publish;
  readonly #known = new Map<string, Known>();
  readonly #announced: Map<string, Announced>;
  #isAnnouncedSaved = true;

  constructor(ctx: DurableObjectState, env: Env, owner: () => HomeOwner | undefined, publish: Publish) {
    this.#ctx = ctx;
    this.#env = env;
    this.#owner = owner;
    this.#publish = publish;
    this.#announced = new Map(ctx.storage.kv.get<[string, Announced][]>(announcedRow));
  }

  /** @param isRecord its record may have changed, or its members */
  noteChanged(deviceId: string, isRecord: boolean): void {
    const isNew = !this.#isPresent(deviceId);
    const present = [...this.#announced.keys()].filter((id) => this.#isPresent(id));
    const isOther = this.#owner()?.actor.deviceIds?.includes(deviceId) === false;
    if (isOther || (isNew && present.length >= homeLimits.devices)) return;
    const known = this.#knownOf(deviceId);
    if (isRecord || isNew) Object.assign(known, { record: undefined, isUnnamed: true });
    known.isOld = known.isNews = true;
    inBackground(this.#ctx, 'read a device', this.#read(deviceId, known));
  }

  noteRefused(deviceId: string, refused: HomeOutcome): void {
    if (!this.#isPresent(deviceId)) return;
    this.#knownOf(deviceId).refused = refused;
    this.noteChanged(deviceId, false);
  }

  /** All is asked anew. */
  forgetAll(): void {
    this.#known.clear();
  }

  async controlModeOf(deviceId: string): Promise<string | undefined> {
    const known = this.#knownOf(deviceId);
    if (known.view === undefined) await this.#read(deviceId, known);
    return known.view?.controlMode;
  }

  /** What a broker would have retained on topics of the filters. Devices that were not asked yet are asked, 50 a second. */
  async sendRetained(filters: readonly string[], send: SendRetained): Promise<void> {
    const isWanted = (topic: string) => filters.some((filter) => matchesFilter(filter, topic));
    if (isWanted(bridgeStateTopic)) send(bridgeStateTopic, '1');
    const meant = new Set(filters.map(devicesMeantBy));
    const listed = meant.has('all') ? await this.#listAll() : [...meant];
    const ids = listed.filter((id) => this.#announced.has(id) || this.#known.get(id)?.record !== undefined);
    for (let at = 0; at < ids.length; at += homeLimits.devicesAtOnce) {
      const group = ids.slice(at, at + homeLimits.devicesAtOnce);
      const unread = group.filter((id) => this.#announced.get(id)?.parts !== null && this.#isUnread(id));
      await Promise.all(unread.map((id) => this.#read(id, this.#knownOf(id))));
      for (const id of group) {
        const [config, former] = this.#formerOf(id);
        const isTold = former !== undefined && isWanted(config);
        if (isTold) send(config, former);
        const said = this.#isPresent(id) ? this.#knownOf(id).said : [[config, ''] as const];
        for (const [topic, payload] of said) {
          if (isWanted(topic)) send(topic, payload, isTold && topic === config ? 'news' : 'retained');
        }
      }
      this.#saveAnnounced();
      if (unread.length > 0) await scheduler.wait(homeLimits.pauseMs);
    }
  }

  #isPresent(deviceId: string): boolean {
    return (this.#announced.get(deviceId)?.parts ?? null) !== null;
  }

  /** Discovery as it was before the last change, for clients that were away. */
  #formerOf(deviceId: string): [topic: string, payload: string | undefined] {
    const { name = '', former } = this.#announced.get(deviceId) ?? {};
    const record = {
      deviceId,
      name,
      firmwareVersion: '',
      chipModel: '',
      product: { name: '', model: '', uiTemplate: '' },
    };
    if (former === undefined) return [homeTopicsOf(deviceId).config, undefined];
    return homeDiscoveryOf(this.#known.get(deviceId)?.record ?? record, former, this.#owner()?.origin ?? '');
  }

  /** Marks what has to be read, so that all is known that can be said of the device. */
  #isUnread(deviceId: string): boolean {
    const known = this.#knownOf(deviceId);
    if (!known.said.has(homeTopicsOf(deviceId).config)) Object.assign(known, { isUnnamed: true, isOld: true });
    return known.isOld;
  }

  #knownOf(deviceId: string): Known {
    const known = this.#known.get(deviceId) ?? {
      ...{ view: undefined, record: undefined, refused: undefined, reading: undefined },
      ...{ said: new Map<string, string>(), isOld: true, isNews: false, isUnnamed: false },
      bucket: fullBucket(askRate, Date.now()),
    };
    this.#known.set(deviceId, known);
    return known;
  }

  /** All that are there, and those that went lately. */
  async #listAll(): Promise<string[]> {
    const records = await this.#readRecords();
    for (const [id, record] of records) this.#knownOf(id).record = record;
    for (const [id, { name, parts, changedAtMs = Infinity }] of this.#announced) {
      if (parts !== null && !records.has(id)) this.#forget(id);
      // It is back.
      else if (parts === null && records.has(id)) this.#note(id, undefined);
      else if (changedAtMs < Date.now() - rememberGoneMs) this.#note(id, parts === null ? undefined : { name, parts });
    }
    return [...new Set([...this.#announced.keys(), ...records.keys()])];
  }

  /** Of one device, or of all that the key may see. */
  async #readRecords(deviceId?: string): Promise<Map<string, HomeRecord>> {
    const { userId = 0, productKey = null, deviceIds = null } = this.#owner()?.actor ?? {};
    const wanted = deviceId === undefined ? deviceIds : [deviceId];
    const filter = { userId, productKey: productKey ?? undefined };
    const page = { page: 1, size: homeLimits.devices };
    const database = openDatabase(this.#env.DB);
    const { rows } = await listDevices(database, { ...filter, deviceIds: wanted }, page, undefined);
    return new Map(rows.map(({ device, product }) => [device.deviceId, { ...device, product }]));
  }

  #read(deviceId: string, known: Known): Promise<void> {
    return (known.reading ??= this.#readWhileOld(deviceId, known).finally(() => (known.reading = undefined)));
  }

  async #readWhileOld(deviceId: string, known: Known): Promise<void> {
    const actor = this.#owner()?.actor;
    while (known.isOld && actor !== undefined) {
      const waitMs = takeInAdvance(known.bucket, askRate, Infinity, Date.now()) ?? 0;
      if (waitMs > 0) await scheduler.wait(waitMs);
      known.isOld = false;
      const outcome = await resultOr(undefined, callDevice(this.#env, deviceId, 'idempotent').home(actor));
      // The object does not answer: the next message of the device asks again.
      if (outcome === undefined) known.isOld = true;
      if (outcome?.ok === false) this.#remove(deviceId);
      if (outcome?.ok !== true) break;
      await this.#take(deviceId, known, outcome.value);
    }
    this.#saveAnnounced();
  }

  async #take(deviceId: string, known: Known, view: HomeView): Promise<void> {
    const { refused } = known;
    known.view = view;
    const isRefusalNewer = refused !== undefined && refused.time > (view.outcome?.time ?? '');
    const shown = isRefusalNewer ? { ...view, outcome: refused } : view;
    const announced = this.#announced.get(deviceId);
    const isAlike = (['controlMode', 'mayControl', 'hasActual'] as const).every(
      (part) => announced?.parts?.[part] === view[part],
    );
    if (known.isUnnamed || !isAlike) {
      Object.assign(known, { isUnnamed: false });
      const record = known.record ?? (await this.#readRecords(deviceId)).get(deviceId);
      if (record === undefined) {
        this.#remove(deviceId);
        return;
      }
      // Unless it changed while it was read.
      if (!known.isUnnamed) known.record = record;
      this.#announce(record, homePartsOf(record, view), known);
    }
    this.#say(known, homeStateOf(deviceId, shown));
    known.isNews = known.isOld;
  }

  #announce(record: HomeRecord, parts: HomeParts, known: Known): void {
    const { deviceId, name } = record;
    const { parts: before = null, former, changedAtMs } = this.#announced.get(deviceId) ?? {};
    const isChanged = before !== null && JSON.stringify(before) !== JSON.stringify(parts);
    const earlier = former !== undefined && changedAtMs !== undefined && { former, changedAtMs };
    this.#note(deviceId, { name, parts, ...(isChanged ? { former: before, changedAtMs: Date.now() } : earlier) });
    this.#say(known, [homeDiscoveryOf(record, parts, this.#owner()?.origin ?? ''), homeInfoOf(record)]);
  }

  #say(known: Known, messages: [topic: string, payload: string][]): void {
    for (const [topic, payload] of messages) {
      const former = known.said.get(topic);
      known.said.set(topic, payload);
      if (former !== payload && (former !== undefined || known.isNews)) this.#publish(topic, payload);
    }
  }

  /** @returns whether it was announced */
  #forget(deviceId: string): boolean {
    const { name = '', parts = null } = this.#announced.get(deviceId) ?? {};
    this.#known.delete(deviceId);
    if (parts !== null) this.#note(deviceId, { name, parts: null, former: parts, changedAtMs: Date.now() });
    return parts !== null;
  }

  #remove(deviceId: string): void {
    if (!this.#forget(deviceId)) return;
    const { config, info, availability, state } = homeTopicsOf(deviceId);
    this.#publish(config, '');
    inBackground(this.#ctx, 'clear topics', this.#clear([info, availability, state]));
  }

  /** Of what a broker keeps. A client that read them before it forgot the device would take the empty text for a state. */
  async #clear(topics: readonly string[]): Promise<void> {
    await scheduler.wait(clearAfterMs);
    for (const topic of topics) this.#publish(topic, '');
  }

  #note(deviceId: string, announced: Announced | undefined): void {
    if (announced === undefined) this.#announced.delete(deviceId);
    else this.#announced.set(deviceId, announced);
    this.#isAnnouncedSaved = false;
  }

  #saveAnnounced(): void {
    if (this.#isAnnouncedSaved) return;
    this.#isAnnouncedSaved = true;
    this.#ctx.storage.kv.put(announcedRow, [...this.#announced]);
  }
}
