// Schedules and leases by the clock of the machine, while the Worker is killed or devices are away. The devices count what they hear.
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../../rig/changes.ts';
import { ApiError, dataOf } from '../../../rig/clients/api.ts';
import type { Random } from '../../../rig/inputs/random.ts';
import { WorkerRig } from '../../../rig/worker/worker-rig.ts';
import type { CommandBody } from '../../../client/src/command.ts';
import { putSchedule, type Run, type ScheduleBody } from '../../../client/src/schedules.ts';
import { CountingDevice } from '../rig/counting-device.ts';
import { judgeLedger, type Planned } from '../rig/ledger.ts';
import type { Scenario } from '../rig/scenario.ts';

const secondMs = 1_000;
const minuteMs = 60_000;
const up: CommandBody = { action: 'toggle', position: 'up' };
const down: CommandBody = { action: 'toggle', position: 'down' };
const pulse: CommandBody = { action: 'pulse' };
/** A page of the ledger. */
const maxRuns = 100;
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
      await Promise.all(users.map(({ device }) => worker.untilStatus(device.deviceId, ({ online }) => online)));
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
      const runs = judged.flatMap((user) => user.runs);
      const outcomes = Map.groupBy(runs, ({ outcome, reason }) => `${outcome} ${reason ?? ''}`.trim());
      const facts = [`${runs.length} runs`, ...[...outcomes].map(([what, { length }]) => `${length} ${what}`)];
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

  constructor(worker: WorkerRig, random: Random, device: CountingDevice) {
    this.#worker = worker;
    this.#random = random;
    this.device = device;
    device.isAnswering = () => random.isBelow(0.75);
  }

  async live(): Promise<void> {
    for (let made = 0; !this.isLeaving && this.planned.length < maxRuns; made += 1) {
      const minuteAtMs = Math.ceil(Date.now() / minuteMs) * minuteMs;
      // Not so soon that the answer may come after it, nor so late that the scenario waits for it.
      const isNear = minuteAtMs > Date.now() + 10 * secondMs && minuteAtMs < Date.now() + 30 * secondMs;
      if (isNear && made % 4 === 0) {
        await this.#make(minuteAtMs, { at: new Date(minuteAtMs).toISOString().slice(11, 16), zone: 'UTC' }, 5);
      } else {
        const dueAtMs = Date.now() + this.#random.between(500, 8_000);
        await this.#make(dueAtMs, { at: new Date(dueAtMs).toISOString() }, this.#random.pick([0, 0, 2]));
      }
      await sleep(this.#random.between(500, 2_000));
    }
  }

  /** Once each due time that was promised has come. */
  async judge(): Promise<{ runs: Run[]; failures: string[] }> {
    await sleep(Math.max(...this.planned.map(({ lastMs }) => lastMs)) - Date.now());
    let runs: Run[] = [];
    const isOver = async (): Promise<boolean> => {
      await sleep(secondMs);
      runs = await this.#readRuns();
      const names = runs.map(({ name }) => name);
      return (
        runs.every(({ outcome }) => outcome !== 'running') &&
        this.planned.every(({ name, isAnswered }) => !isAnswered || names.includes(name))
      );
    };
    // What has no outcome by then has none: the judgement says which.
    await eventually('the end of all runs', isOver, endsWithinMs).catch(() => undefined);
    return { runs, failures: judgeLedger(this.planned, runs, this.device.presses) };
  }

  async #make(dueAtMs: number, times: Pick<ScheduleBody, 'at' | 'zone'>, jitterSeconds: number): Promise<void> {
    const name = `${this.planned.length} at ${times.at as string}`;
    const graceSeconds = this.#random.pick([5, 10]);
    const command = this.#random.pick([pulse, pulse, up, down]);
    const body = { ...times, name, jitterSeconds, graceSeconds, command };
    const made = await answerOf(putSchedule(this.#worker.owner.api, this.device.deviceId, body));
    if (made === 'refused') return;
    const lastMs = dueAtMs + (jitterSeconds + graceSeconds) * secondMs;
    this.planned.push({ name, dueAtMs, lastMs, isAnswered: made !== 'unknown' });
  }

  async #readRuns(): Promise<Run[]> {
    const { runs } = this.#worker.owner.api.devices[':deviceId'];
    const param = { deviceId: this.device.deviceId };
    return (await dataOf(runs.$get({ param, query: { size: String(maxRuns) } }))).list;
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

export const leases: Scenario = {
  name: 'leases',
  title: 'three devices are away when their lease ends, one is pressed and one moved meanwhile; the Worker is killed',
  seenBy: 'the devices’ own counts',
  run: async ({ count }) => {
    const awayMs = count(10, 3) * secondMs;
    // With a broker, a command for an absent device would need a bridge.
    const worker = await WorkerRig.start({ vars: { BROKER: 'none' } });
    const activations = await worker.activateMany(3);
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
      await Promise.all(devices.map((device) => device.comeBack()));
      await devices[2]!.report('middle');
      const leaseOf = async ({ deviceId }: CountingDevice) =>
        (await dataOf(routes.status.$get({ param: { deviceId } }))).lease;
      const areOver = async () => (await Promise.all(devices.map(leaseOf))).every((lease) => lease === undefined);
      await eventually('the end of all leases', areOver, minuteMs);
      // For a `then` that should not come.
      await sleep(15 * secondMs);
      const ends = devices.map(({ presses }) => presses.filter(({ params }) => params.position === 'down').length);
      const failures = ends.join() === '1,0,0' ? [] : [`the devices heard the end ${ends.join(', ')} times`];
      const endedMs = (devices[0]?.presses.at(-1)?.atMs ?? 0) - backAtMs;
      return [{ label: `${awayMs / secondMs} s away`, facts: [`ended ${endedMs} ms after the return`], failures }];
    } finally {
      for (const device of devices) device.stop();
      await worker.stop();
    }
  },
};
