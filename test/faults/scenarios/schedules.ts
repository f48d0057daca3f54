// Schedules and leases by the clock of the machine, while the Worker is killed or devices are away. The devices count what they hear.
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../../rig/changes.ts';
import { ApiError, dataOf } from '../../../rig/clients/api.ts';
import type { Random } from '../../../rig/inputs/random.ts';
import { WorkerRig } from '../../../rig/worker/worker-rig.ts';
import type { CommandBody } from '../../../client/src/command.ts';
import type { Run, ScheduleBody } from '../../../client/src/schedules.ts';
import { CountingDevice } from '../rig/counting-device.ts';
import { judgeLedger, type ByHand, type Planned } from '../rig/ledger.ts';
import type { Scenario } from '../rig/scenario.ts';

const secondMs = 1_000;
const minuteMs = 60_000;
const up: CommandBody = { action: 'toggle', position: 'up' };
const down: CommandBody = { action: 'toggle', position: 'down' };
const pulse: CommandBody = { action: 'pulse' };
/** The ring keeps 200. */
const maxRuns = 180;
const byHand = { name: 'by hand', graceMs: 10 * secondMs };
const endsWithinMs = 3 * minuteMs;

export const schedules: Scenario = {
  name: 'schedules',
  title: 'the Worker is killed at due times, presses and in between, and started again, sometimes after the grace',
  seenBy: 'runs, and the devices’ own counts',
  run: async ({ worker, random, count, say }) => {
    const kills = count(20, 3);
    const activations = await worker.activateMany(count(4, 2));
    const users = activations.map((activation) => new User(worker, random, new CountingDevice(worker.url, activation)));
    try {
      await Promise.all(users.map((user) => user.begin()));
      const living = users.map((user) => user.live());
      for (let kill = 0; kill < kills; kill += 1) {
        const { planned, device } = random.pick(users as [User, ...User[]]);
        await sleep(random.between(300, 3_000));
        if (kill % 3 === 1)
          await sleep(Math.max(0, (planned.at(-1)?.dueAtMs ?? 0) - Date.now()) + random.between(0, 60));
        const pressed = device.presses.length;
        const isPressed = () => device.presses.length > pressed;
        if (kill % 3 === 2) await device.changes.until('a press', isPressed, minuteMs);
        await sleep(random.between(0, 20));
        await worker.restartWorker('kill', () => sleep(random.isBelow(0.25) ? random.between(4_000, 12_000) : 0));
        say(`killed ${kill + 1} times, ${users.reduce((sum, user) => sum + user.planned.length, 0)} due times`);
      }
      for (const user of users) user.isLeaving = true;
      await Promise.all(living);
      const judged = await Promise.all(users.map((user) => user.judge()));
      const runs = judged.flatMap((one) => one.runs);
      const outcomes = Object.entries(
        Object.groupBy(runs, ({ outcome, reason }) => [outcome, reason ?? []].flat().join(' ')),
      );
      const again = users.reduce(
        (sum, { device: { presses } }) => sum + presses.length - new Set(presses.map(({ id }) => id)).size,
        0,
      );
      const facts = [
        `${runs.length} runs`,
        ...outcomes.map(([what, some]) => `${some?.length} ${what}`),
        `${again} positions heard again`,
      ];
      return [{ label: `${kills} kills`, facts, failures: judged.flatMap(({ failures }) => failures) }];
    } finally {
      for (const { device } of users) device.stop();
    }
  },
};

/** Makes schedules of one device all the time, and notes what the service promised. */
class User {
  readonly planned: Planned[] = [];
  readonly device: CountingDevice;
  isLeaving = false;
  readonly #worker: WorkerRig;
  readonly #random: Random;
  readonly #byHand: ByHand = { ...byHand, asked: 0, answeredIds: [] };
  #handId = '';

  constructor(worker: WorkerRig, random: Random, device: CountingDevice) {
    this.#worker = worker;
    this.#random = random;
    this.device = device;
    device.isAnswering = () => random.isBelow(0.75);
  }

  get #routes() {
    return this.#worker.owner.api.devices[':deviceId'];
  }

  /** Recurring schedules for the minutes to come, and the one that is run by hand. */
  async begin(): Promise<void> {
    const { deviceId } = this.device;
    await this.#worker.untilStatus(deviceId, ({ online }) => online);
    const timeOf = (atMs: number) => new Date(atMs).toISOString().slice(11, 16);
    const hand = { at: timeOf(Date.now() - 60 * minuteMs), zone: 'UTC', enabled: false, command: pulse };
    const made = await dataOf(
      this.#routes.schedules.$post({ param: { deviceId }, json: { ...hand, name: byHand.name } }),
    );
    this.#handId = made.scheduleId;
    for (let minute = 1; minute <= 15; minute += 1) {
      const at = timeOf(Date.now() + minute * minuteMs);
      await this.#make(`each day at ${at}`, { at, zone: 'UTC', jitterSeconds: 5, ...this.#command() });
    }
  }

  async live(): Promise<void> {
    for (let made = 0; !this.isLeaving && this.planned.length + this.#byHand.asked < maxRuns; made += 1) {
      await sleep(this.#random.between(500, 2_000));
      const at = new Date(Date.now() + this.#random.between(500, 8_000)).toISOString();
      if (made % 8 === 7) await this.#runByHand();
      else await this.#make(`once ${made}`, { at, jitterSeconds: this.#random.pick([0, 0, 2]), ...this.#command() });
    }
  }

  /** Once each due time that was promised has come. */
  async judge(): Promise<{ runs: Run[]; failures: string[] }> {
    const latestMs = Math.max(
      Date.now(),
      ...this.planned.filter(({ name }) => name.startsWith('once')).map(({ lastMs }) => lastMs),
    );
    await sleep(latestMs - Date.now());
    const due = this.planned.filter(({ dueAtMs }) => dueAtMs <= latestMs);
    let runs: Run[] = [];
    const isOver = async (): Promise<boolean> => {
      await sleep(secondMs);
      runs = await this.#readRuns();
      const names = new Set(runs.map(({ name }) => name));
      return (
        runs.every(({ outcome }) => outcome !== 'running') &&
        due.every(({ name, isAnswered }) => !isAnswered || names.has(name))
      );
    };
    // What has no outcome by then has none: the judgement says which.
    await eventually('the end of all runs', isOver, endsWithinMs).catch(() => undefined);
    const ofDue = this.planned.filter(
      ({ dueAtMs, name }) => dueAtMs <= latestMs || runs.some((run) => run.name === name),
    );
    return { runs, failures: judgeLedger(ofDue, this.#byHand, runs, this.device.presses) };
  }

  #command() {
    const graceSeconds = this.#random.pick([5, 10]);
    return this.#random.isBelow(0.5)
      ? { command: pulse, graceSeconds }
      : { command: this.#random.pick([up, down]), graceSeconds: graceSeconds * 2 };
  }

  async #make(name: string, body: ScheduleBody & { jitterSeconds: number; graceSeconds: number }): Promise<void> {
    const { deviceId } = this.device;
    const made = await answerOf(dataOf(this.#routes.schedules.$post({ param: { deviceId }, json: { ...body, name } })));
    if (made === 'refused') return;
    const dueAtMs = Date.parse(made === 'unknown' ? (body.at as string) : (made.nextDueAt ?? ''));
    const lastMs = dueAtMs + (body.jitterSeconds + body.graceSeconds) * secondMs;
    this.planned.push({ name, dueAtMs, lastMs, isAnswered: made !== 'unknown' });
  }

  async #runByHand(): Promise<void> {
    const param = { deviceId: this.device.deviceId, scheduleId: this.#handId };
    const run = await answerOf(dataOf(this.#routes.schedules[':scheduleId'].run.$post({ param })));
    if (run === 'refused') return;
    this.#byHand.asked += 1;
    if (run !== 'unknown') this.#byHand.answeredIds.push(run.runId);
  }

  async #readRuns(): Promise<Run[]> {
    const param = { deviceId: this.device.deviceId };
    const read = (page: number) =>
      dataOf(this.#routes.runs.$get({ param, query: { size: '100', page: String(page) } }));
    const [first, second] = [await read(1), await read(2)];
    if (first.dropped > 0) throw new Error(`${first.dropped} runs were dropped`);
    return [...first.list, ...second.list];
  }
}

/** Without an answer, or with one of a Worker that dies, nobody knows what was done. */
async function answerOf<T>(asking: Promise<T>): Promise<T | 'refused' | 'unknown'> {
  try {
    return await asking;
  } catch (error) {
    return error instanceof ApiError && error.code < 500 ? 'refused' : 'unknown';
  }
}

const leaseSeconds = 5;
/** What becomes of a device while it is away, and whether `then` may reach it. */
const fates = [
  { what: 'comes back', reaches: true },
  { what: 'is pressed meanwhile', reaches: false },
  { what: 'is moved by a hand meanwhile', reaches: false },
] as const;

export const leases: Scenario = {
  name: 'leases',
  title: 'devices are away when their lease ends; the Worker is killed meanwhile',
  seenBy: 'the devices’ own counts',
  run: async ({ count }) => {
    const awayMs = count(10, 3) * secondMs;
    // With a broker, a command for an absent device would need a bridge.
    const worker = await WorkerRig.start({ vars: { BROKER: 'none' } });
    const activations = await worker.activateMany(fates.length);
    const devices = activations.map((activation) => new CountingDevice(worker.url, activation));
    const routes = worker.owner.api.devices[':deviceId'];
    const press = ({ deviceId }: CountingDevice, json: object) =>
      dataOf(routes.control.$post({ param: { deviceId }, query: { ttl: '60' }, header: {}, json }));
    try {
      for (const device of devices) {
        await worker.untilStatus(device.deviceId, ({ online }) => online);
        await device.report('down');
        await press(device, { ...up, lease: { seconds: leaseSeconds, then: down } });
        await device.changes.until('up', () => device.presses.length === 1);
        await worker.untilStatus(device.deviceId, ({ position }) => position === 'up');
        device.leave();
      }
      await worker.restartWorker('kill');
      await sleep(leaseSeconds * secondMs + awayMs);
      await press(devices[1]!, { action: 'toggle', position: 'middle' });
      const backAtMs = Date.now();
      await Promise.all(devices.map((device, index) => device.comeBack(index === 2 ? 'middle' : undefined)));
      const leaseOf = async ({ deviceId }: CountingDevice) =>
        (await dataOf(routes.status.$get({ param: { deviceId } }))).lease;
      const areOver = async () => (await Promise.all(devices.map(leaseOf))).every((lease) => lease === undefined);
      await eventually('the end of all leases', areOver, minuteMs);
      // For a `then` that should not come.
      await sleep(15 * secondMs);
      const failures = devices.flatMap(({ presses }, index) => {
        const { what, reaches } = fates[index]!;
        const ends = presses.filter(({ params }) => params.position === 'down').length;
        return ends === (reaches ? 1 : 0) ? [] : [`a device that ${what} heard the end ${ends} times`];
      });
      const endedMs = (devices[0]?.presses.at(-1)?.atMs ?? 0) - backAtMs;
      return [{ label: `${awayMs / secondMs} s away`, facts: [`ended ${endedMs} ms after the return`], failures }];
    } finally {
      for (const device of devices) device.stop();
      await worker.stop();
    }
  },
};
