// A simulated appliance that only toggles: it ignores a fifth of the presses and is pressed by hand, and a plug reports its power late
// or never. Both devices decide as in their objects; messages between them take time, or are lost with an object. The oracle is
// what the appliance did. FUZZ_RUNS=400000 makes 100 000 presses; the seed of a world that fails is in the message.
import { expect, it } from 'vitest';
import { planFuzzing } from '../../../rig/inputs/fuzzing.ts';
import { inPerson } from '../../../src/domain/access.ts';
import { freshActual } from '../../../src/domain/device/witness/witness.ts';
import { secondMs } from '../../../src/domain/time.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import { CoreDevice } from '../device/core-device.ts';

const owner = inPerson(1);
const start = Date.UTC(2027, 5, 1);
const pressesOfWorld = 10;
const longestHopMs = 50;
const longestUsualLagMs = 200;
const timeoutMs = 3 * secondMs;

type Word = 'on' | 'off';
type Measurement = { atMs: number; isOn: boolean; arrivesAtMs: number };
/** If a hand pressed after `sinceMs`, when the plug last measured it, it may do the opposite. Only then. */
type Ensure = { wanted: Word; sinceMs: number; givenAtMs: number; wasHeldUp: boolean };

const counts = {
  ...{ presses: 0, ignored: 0, hands: 0, reports: 0, late: 0, never: 0, lost: 0, evictions: 0 },
  ...{ witnessed: 0, notWitnessed: 0, replaced: 0, heldUpWithoutTime: 0 },
  ...{ ensured: 0, notNeeded: 0, unknown: 0, wrongByHand: 0, wrongByHeldUp: 0 },
};

class World {
  readonly wrong: string[] = [];
  readonly #finger = new CoreDevice(start, {}, 'dev_00finger');
  readonly #plug = new CoreDevice(start, {}, 'dev_000p1ug0');
  readonly #queue: { atMs: number; happen: () => void }[] = [];
  readonly #hands: number[] = [];
  readonly #measurements: Measurement[] = [];
  readonly #ensures = new Map<string, Ensure>();
  readonly #random: (limit: number) => number;
  readonly #hasClock: boolean;
  readonly #losesMessages: boolean;
  #lastEnsure: Ensure | undefined;
  #isOn = false;
  #executedAtMs = 0;
  #unsettledMs = 0;
  #nowMs = start;

  constructor(seed: number) {
    let last = seed;
    this.#random = (limit) => {
      last = (last + 0x6d2b79f5) | 0;
      let bits = Math.imul(last ^ (last >>> 15), 1 | last);
      bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
      return Math.floor((((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32) * limit);
    };
    this.#hasClock = this.#random(3) > 0;
    this.#losesMessages = this.#random(3) === 0;
  }

  run(): void {
    const withinSeconds = [1, 5, 20, 60][this.#random(4)]!;
    this.#unsettledMs = Math.max(withinSeconds, 10) * secondMs;
    const isOn = this.#random(2) === 0;
    const condition = { property: 'power', operator: isOn ? '>' : '<', value: isOn ? 20 : 5 } as const;
    const by = { deviceId: this.#plug.deviceId, ...condition };
    const settings = { expect: isOn ? 'on' : 'off', by, withinSeconds, then: 'nothing' } as const;
    for (const device of [this.#finger, this.#plug]) device.connect();
    this.#plug.run({ kind: 'watcher_set', actor: owner, deviceId: this.#finger.deviceId, condition: by });
    this.#finger.run({ kind: 'witness_set', actor: owner, settings, linkId: null });
    let atMs = 15 * secondMs;
    for (let press = 0; press < pressesOfWorld; press++) {
      atMs += this.#random([2, 15, 90][this.#random(3)]! * secondMs);
      this.#after(atMs, [() => this.#press(), () => this.#ensure('on'), () => this.#ensure('off')][this.#random(3)]!);
      if (this.#random(4) === 0) this.#after(atMs + this.#random(5 * secondMs), () => this.#pressByHand());
      if (this.#random(4) === 0) this.#after(atMs + this.#random(20 * secondMs), () => this.#evict());
    }
    const isPeriodic = this.#random(2) === 0;
    for (let eachMs = 0; isPeriodic && eachMs < atMs; eachMs += 15 * secondMs)
      this.#after(eachMs, () => this.#measure());
    while (this.#step());
    this.#judge();
  }

  #step(): boolean {
    this.#carry();
    const isWaiting = () => this.#finger.commands().some(({ witness }) => witness?.outcome === 'pending');
    if (this.#queue.length === 0 && !isWaiting()) return false;
    const alarms = [this.#finger, this.#plug].map((device) => {
      const atMs = device.state.alarm.setAtMs ?? Infinity;
      return { atMs, happen: () => device.fireAlarm() };
    });
    const next = [...this.#queue, ...alarms].reduce((first, each) => (each.atMs < first.atMs ? each : first));
    if (this.#queue.includes(next)) this.#queue.splice(this.#queue.indexOf(next), 1);
    this.#nowMs = Math.max(this.#nowMs, next.atMs);
    this.#finger.nowMs = this.#plug.nowMs = this.#nowMs;
    next.happen();
    return true;
  }

  #after(ms: number, happen: () => void): void {
    this.#queue.push({ atMs: this.#nowMs + ms, happen });
  }

  /** From one object to another. Lost: its sender ended before. */
  #hop(happen: () => void): void {
    if (this.#losesMessages && this.#random(10) === 0) counts.lost += 1;
    else this.#after(1 + this.#random(longestHopMs), happen);
  }

  #carry(): void {
    for (const effect of this.#finger.effects.splice(0)) {
      if (effect.kind === 'ask_witness') this.#ask(effect.untilMs, effect.commandId);
      if (effect.kind !== 'publish_command') continue;
      const { commandId } = effect;
      // In their order.
      const atMs = this.#nowMs + 20 + this.#random(this.#random(10) === 0 ? 4_000 : 400);
      this.#executedAtMs = Math.max(atMs, this.#executedAtMs + 1);
      this.#queue.push({ atMs: this.#executedAtMs, happen: () => this.#execute(commandId) });
    }
    const from = { deviceId: this.#plug.deviceId };
    for (const effect of this.#plug.effects.splice(0)) {
      if (effect.kind !== 'tell_watcher') continue;
      this.#hop(() => this.#finger.run({ kind: 'witness_read', ...from, reading: effect.reading }));
    }
  }

  #ask(untilMs: number, commandId: string | null, then = (): void => undefined): void {
    let isAnswered = false;
    this.#hop(() => {
      const answer = this.#plug.run({ kind: 'reading_asked', deviceId: this.#finger.deviceId, untilMs });
      this.#hop(() => {
        isAnswered = true;
        const reading = answer.ok ? answer.value : null;
        if (reading !== null) this.#finger.run({ kind: 'witness_read', deviceId: this.#plug.deviceId, reading });
        if (commandId !== null) this.#finger.run({ kind: 'witness_asked', commandId, problem: null });
        then();
      });
    });
    this.#after(timeoutMs, () => (isAnswered ? undefined : then()));
  }

  #press(ensures?: Word): string | undefined {
    const rest = { ttlSeconds: undefined, waitSeconds: undefined, idempotencyKey: undefined, ensures };
    const request = { params: { action: 'pulse' }, ...rest };
    const outcome = this.#finger.run({ kind: 'command_requested', actor: owner, request });
    if (outcome.ok) counts.presses += 1;
    return outcome.ok ? outcome.value.commandId : undefined;
  }

  /** As the object does: it asks the plug, and presses if that was just seen to be otherwise. */
  #ensure(wanted: Word): void {
    this.#ask(0, null, () => {
      const { state } = this.#finger;
      const value = freshActual(state, this.#nowMs)?.value;
      const read = this.#measurements.find((each) => this.#knownAtMs(each) === state.witness.actual?.atMs);
      const [readAtMs, arrivedAtMs] = [read?.atMs ?? 0, read?.arrivesAtMs ?? 0];
      const isLate = arrivedAtMs - readAtMs > longestUsualLagMs;
      const isOvertaken = this.#measurements.some((each) => each.atMs > readAtMs && each.arrivesAtMs < arrivedAtMs);
      const former = this.#lastEnsure;
      // After an effect was seen the next press may be given at once, and a hand, or what was held up, may have made that effect.
      const isNext = former !== undefined && readAtMs < former.givenAtMs + this.#unsettledMs;
      const sinceMs = isNext ? Math.min(readAtMs, former.sinceMs) : readAtMs;
      const wasHeldUp = (isNext && former.wasHeldUp) || (!this.#hasClock && (isOvertaken || isLate));
      const ensure = { wanted, sinceMs, givenAtMs: this.#nowMs, wasHeldUp };
      if (value === wanted) {
        counts.notNeeded += 1;
        this.#expectUnless(this.#isOn === (wanted === 'on'), ensure, `is not ${wanted}, though not needed`);
        return;
      }
      const commandId = this.#press(wanted);
      counts[commandId === undefined ? 'unknown' : 'ensured'] += 1;
      if (commandId !== undefined) this.#ensures.set(commandId, (this.#lastEnsure = ensure));
    });
  }

  #execute(commandId: string): void {
    const reply = { method: 'thing.service.property.set_reply', id: commandId, code: 200 };
    this.#finger.receive(topicActions.propertyPost, reply);
    if (this.#random(5) === 0) {
      counts.ignored += 1;
      return;
    }
    const ensure = this.#ensures.get(commandId);
    const isRight = this.#isOn !== (ensure?.wanted === 'on');
    if (ensure !== undefined) this.#expectUnless(isRight, ensure, `was ${ensure.wanted} already`);
    this.#toggle();
  }

  #expectUnless(isRight: boolean, { sinceMs, wasHeldUp }: Ensure, problem: string): void {
    if (isRight) return;
    if (wasHeldUp) counts.wrongByHeldUp += 1;
    else if (this.#hands.some((atMs) => atMs >= sinceMs)) counts.wrongByHand += 1;
    else this.wrong.push(`at ${this.#nowMs - start}: ${problem}`);
  }

  #pressByHand(): void {
    counts.hands += 1;
    this.#hands.push(this.#nowMs);
    this.#toggle();
  }

  #toggle(): void {
    this.#isOn = !this.#isOn;
    this.#after(1 + this.#random(200), () => this.#measure());
  }

  #measure(): void {
    const isNever = this.#random(10) === 0;
    const isLate = this.#random(5) === 0;
    counts[isNever ? 'never' : isLate ? 'late' : 'reports'] += 1;
    if (isNever) return;
    const lagMs = isLate ? longestUsualLagMs + this.#random(40 * secondMs) : 1 + this.#random(longestUsualLagMs);
    const [atMs, isOn] = [this.#nowMs, this.#isOn];
    this.#measurements.push({ atMs, isOn, arrivesAtMs: atMs + lagMs });
    const report = { params: { power: isOn ? 30 : 1 }, ...(this.#hasClock && { time: atMs }) };
    this.#after(lagMs, () => this.#plug.receive(topicActions.propertyPost, report));
  }

  #evict(): void {
    counts.evictions += 1;
    (this.#random(2) === 0 ? this.#finger : this.#plug).sleep();
  }

  /** The time that the service can know. */
  #knownAtMs({ atMs, arrivesAtMs }: Measurement): number {
    return this.#hasClock ? atMs : arrivesAtMs;
  }

  #judge(): void {
    const commands = this.#finger.commands();
    for (const [index, { commandId, witness }] of commands.entries()) {
      if (witness === undefined) throw new Error('a command without a witness');
      const { outcome, reason, expect: word, fromMs, dueAtMs, atMs } = witness;
      const shows = this.#measurements.filter((each) => each.isOn === (word === 'on'));
      const inTime = shows.filter((each) => this.#knownAtMs(each) > fromMs && this.#knownAtMs(each) <= dueAtMs);
      if (outcome === 'pending') this.wrong.push(`${commandId} has no outcome`);
      if (outcome === 'witnessed') {
        counts.witnessed += 1;
        const proofs = inTime.filter((each) => this.#knownAtMs(each) === atMs);
        if (proofs.length === 0) this.wrong.push(`${commandId} is falsely witnessed`);
        else if (proofs.every((each) => each.atMs <= fromMs)) counts.heldUpWithoutTime += 1;
        continue;
      }
      counts[reason === 'replaced' ? 'replaced' : 'notWitnessed'] += 1;
      const replacedAtMs = reason === 'replaced' ? (commands[index - 1]?.witness?.fromMs ?? 0) : Infinity;
      const untilMs = Math.min(dueAtMs + secondMs, replacedAtMs) - longestHopMs;
      const had = inTime.filter(({ arrivesAtMs }) => arrivesAtMs < untilMs);
      if (!this.#losesMessages && had.length > 0) this.wrong.push(`${commandId} took effect and is not witnessed`);
    }
  }
}

it('no false witness, every effect that was reported in time is witnessed, and ensure never turns a thing the wrong way', () => {
  const { batches, seed } = planFuzzing(1 / 4, pressesOfWorld);
  let made = 0;
  for (; counts.presses < batches * pressesOfWorld; made++) {
    const world = new World(seed + made * 7919);
    world.run();
    expect(world.wrong, `world ${seed + made * 7919}`).toEqual([]);
  }
  for (const [what, count] of Object.entries(counts)) expect(count, what).toBeGreaterThan(0);
});
