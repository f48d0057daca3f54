// Each message reaches the Worker one to five times. It comes under its own number again, as a bridge retries, also while
// the first is under way. Or it comes flagged under a new number, as a broker delivers again to the active bridge. Takes
// the place of the bridge and keeps its promise: the first deliveries of a device stay in order.
import { setTimeout as sleep } from 'node:timers/promises';
import { uplinkAnswerSchema, uplinkPath, type UplinkItem } from '../../../src/protocol/bridge.ts';
import { bridgeSecret } from '../../../rig/services/processes.ts';
import { EffectsWatch, lateMs } from '../rig/fault-rig.ts';
import type { History } from '../rig/history.ts';
import { MessageMaker } from '../rig/message-maker.ts';
import type { Random } from '../../../rig/inputs/random.ts';
import { find, type Scenario } from '../rig/scenario.ts';
import type { WorkerRig } from '../../../rig/worker/worker-rig.ts';

type Sent = { item: UplinkItem; number: number; copiesLeft: number; isAnswered: boolean };
type Line = { waiting: Sent[]; isUnderWay: boolean; recent: Sent[] };
type Batch = { spool: number; items: UplinkItem[]; first: { line: Line; chosen: Sent[] }[] };

const maxItems = 40;
const batchesAtOnce = 4;
/** Where every message is first; others bring it under new numbers. */
const firstSpool = 0;
const spools = 3;
/** The Worker compares a flagged message with the device's last 64, copies under new numbers among them. */
const recentMessages = 12;

export const redelivered: Scenario = {
  name: 'redelivered',
  title: 'each message is delivered one to five times, shuffled, to the Worker’s ingest',
  run: async ({ worker, random, count }) => {
    const messages = count(20_000, 1000);
    const devices = await worker.activateMany(20);
    const watch = await EffectsWatch.start(worker, devices);
    try {
      const { history } = watch;
      const maker = new MessageMaker(devices, history);
      const newLine = (): Line => ({ waiting: [], isUnderWay: false, recent: [] });
      const lines = new Map(devices.map(({ deviceId }) => [deviceId, newLine()]));
      for (let seq = 1; seq <= messages; seq += 1) {
        const { number, topic, payload, device, isResting } = maker.make();
        history.notePublished(number, device, isResting);
        const item: UplinkItem = { seq, topic, payload: String(payload), receivedAtMs: Date.now() };
        lines.get(device)?.waiting.push({ item, number, copiesLeft: random.between(0, 4), isAnswered: false });
      }
      const sender = new Sender(worker, random, history, [...lines.values()], messages);
      await Promise.all(Array.from({ length: batchesAtOnce }, () => sender.work()));
      await history.untilSettled();
      await sleep(lateMs);
      const stale = await maker.compareState(worker);
      const outcome = { ...history.judge(), stale, relayLosses: watch.losses };
      return [find('1 to 5 deliveries', outcome, [`${sender.deliveries} deliveries in ${sender.batches} batches`])];
    } finally {
      watch.close();
    }
  },
};

class Sender {
  readonly #worker: WorkerRig;
  readonly #random: Random;
  readonly #history: History;
  readonly #lines: Line[];
  #nextSeq: number;
  deliveries = 0;
  batches = 0;

  constructor(worker: WorkerRig, random: Random, history: History, lines: Line[], lastSeq: number) {
    this.#worker = worker;
    this.#random = random;
    this.#history = history;
    this.#lines = lines;
    this.#nextSeq = lastSeq + 1;
  }

  async work(): Promise<void> {
    const isBusy = ({ waiting, recent }: Line) => waiting.length > 0 || recent.some(({ copiesLeft }) => copiesLeft > 0);
    while (this.#lines.some(isBusy)) {
      const spool = this.#random.between(0, spools - 1);
      const batch = this.#random.isBelow(0.5) ? this.#takeFirst() : this.#takeCopies(spool);
      if (batch.items.length === 0) await sleep(1);
      else await this.#post(batch);
    }
  }

  /** The next messages of some devices, with copies of other devices' messages among them. */
  #takeFirst(): Batch {
    const batch: Batch = { spool: firstSpool, items: [], first: [] };
    for (const line of this.#random.shuffle([...this.#lines])) {
      if (line.isUnderWay || line.waiting.length === 0 || batch.items.length >= maxItems) continue;
      const chosen = line.waiting.splice(0, this.#random.between(1, 8));
      line.isUnderWay = true;
      line.recent = [...line.recent, ...chosen].slice(-recentMessages);
      batch.items.push(...chosen.map(({ item }) => item));
      batch.first.push({ line, chosen });
    }
    batch.items.push(...this.#takeCopies(firstSpool).items);
    return batch;
  }

  #takeCopies(spool: number): Batch {
    const batch: Batch = { spool, items: [], first: [] };
    for (const { recent } of this.#lines) {
      // A retry begins with the first message that has no answer: it may overtake its first try, but skips nothing.
      let mayRepeat = true;
      for (const sent of recent) {
        if (batch.items.length >= maxItems) break;
        const isChosen = sent.copiesLeft > 0 && this.#random.isBelow(0.4) && (sent.isAnswered || mayRepeat);
        if (!sent.isAnswered && !isChosen) mayRepeat = false;
        // Under a new number only what the Worker has answered for: a bridge has one batch of a device under way.
        if (!isChosen || (spool !== firstSpool && !sent.isAnswered)) continue;
        sent.copiesLeft -= 1;
        batch.items.push(spool === firstSpool ? sent.item : { ...sent.item, seq: this.#nextSeq++, dup: true });
      }
    }
    return batch;
  }

  async #post({ spool, items, first }: Batch): Promise<void> {
    this.deliveries += items.length;
    this.batches += 1;
    const body = { spoolId: `redelivered-${spool}`, sentAtMs: Date.now(), items: this.#random.shuffle([...items]) };
    const response = await fetch(`${this.#worker.url}${uplinkPath}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${bridgeSecret}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const { data } = uplinkAnswerSchema.parse(await response.json());
    const refused = data.results.find(({ result }) => result !== 'accepted');
    if (refused !== undefined) throw new Error(`the Worker answered ${JSON.stringify(refused)}`);
    for (const { line, chosen } of first) {
      line.isUnderWay = false;
      for (const sent of chosen) {
        sent.isAnswered = true;
        this.#history.noteAccepted(sent.number);
      }
    }
  }
}
