// Two campaigns for a fleet: one with an image that no device keeps, one with a good image while the Worker is killed. Each device knows
// what became of it, and the service must say the same.
import { eventually } from '../../../rig/changes.ts';
import { activate, type Activation } from '../../../rig/clients/accounts.ts';
import { ApiError, dataOf } from '../../../rig/clients/api.ts';
import { NoAnswerError } from '../../../client/src/http.ts';
import { makeMaker, type CampaignProgress, type Maker } from '../../../rig/clients/firmware.ts';
import { Mosquitto } from '../../../rig/brokers/mosquitto.ts';
import { WorkerRig } from '../../../rig/worker/worker-rig.ts';
import { describeFinding, type Finding, type Scenario } from '../rig/scenario.ts';
import { gently, UpdatingFleet, type Fate, type Member, type Truth } from '../rig/updating-fleet.ts';

const imageBytes = 4_096;
const waves = [{ percent: 1 }, { percent: 10 }, { percent: 100 }];
const [bad, good] = ['1.1.0', '1.2.0'];
const pausesWithinMs = 120_000;
const toldWithinMs = 600_000;
/** For the last messages, when no device does anything any more. */
const settlesWithinMs = 60_000;
/** All are read once, in three minutes, then those that do not fit. */
const readWithinMs = 300_000;
const maxExamples = 5;

/** Of an image that no device keeps, by the place among four devices. */
const badFates: Fate[] = ['old', 'hash', 'old', 'away'];
/** Of a good one, by the place among a hundred devices of the last wave. */
const goodFates: Record<number, Fate> = { 3: 'old', 33: 'hash', 53: 'away' };
const cutAtOf = (index: number): number =>
  [1, Infinity, Infinity, imageBytes, Infinity, Infinity, Infinity][index % 7]!;

/** What the service says of a device. Null: nothing of this campaign. */
const states: Record<Truth, readonly (string | null)[]> = {
  idle: [null, 'offered'],
  busy: [],
  held: ['accepted', 'downloading', 'superseded'],
  new: ['proved'],
  old: ['rolled_back'],
  hash: ['failed'],
  away: ['restarting'],
};

export const campaign: Scenario = {
  name: 'campaign',
  title: 'a campaign with a bad image, then one with a good image; the Worker is killed',
  seenBy: 'what each device knows of itself',
  run: async ({ random, count, say }) => {
    // A device whose upgrade was lost with the Worker is told of it again after ten minutes.
    const [total, kills, untilToldSeconds] = [count(10_000, 200), count(3, 1), count(900, 15)];
    // Of its own: devices that report nothing for hours stay online.
    const vars = { MQTT_KEEP_ALIVE_SECONDS: '3600', ACCESS_TOKEN_SECONDS: '86400' };
    const worker = await WorkerRig.start({ vars });
    const broker = await Mosquitto.start();
    const { productKey, owner } = worker;
    const bridge = worker.startBridge({ mqttUrl: broker.url, environment: { LOG_LEVEL: 'info' } });
    await bridge.untilReady();
    const devices: Activation[] = [];
    const serials = Array.from({ length: total }, (_, index) => `FLEET-${index}`);
    await gently(serials, async (serial) => void devices.push(await activate(owner.api, productKey, serial)));
    say(`${total} devices`);
    const fleet = await UpdatingFleet.start(broker.url, devices, { apiUrl: worker.url, productKey, random });
    try {
      const maker = await makeMaker(worker.url, owner, productKey);
      const judge = new Judge(worker, fleet, maker);
      const lastInformed = async () => (await judge.read(fleet.members.at(-1)!)).installed !== null;
      await eventually('the last device has informed', ifAnswered(lastInformed), pausesWithinMs);
      say('all have informed');
      const start = async (version: string): Promise<string> => {
        fleet.image = Uint8Array.from({ length: imageBytes }, () => random.between(0, 255));
        await maker.addFirmware(version, Uint8Array.from(fleet.image));
        return maker.startCampaign({ version, waves, waitSeconds: 0 });
      };
      const findings: Finding[] = [];
      const conclude = async (label: string, campaignId: string, version: string, failures: string[]) => {
        failures.push(...(await judge.compare(campaignId, version)));
        if (fleet.spoiled > 0) failures.push(`${fleet.spoiled} images had other bytes`);
        findings.push({ label, facts: judge.facts, failures });
        say(describeFinding(findings.at(-1)!));
      };

      for (const [index, member] of fleet.members.entries())
        Object.assign(member, { cutAt: cutAtOf(index), fate: badFates[index % badFates.length] });
      const first = await start(bad);
      let view = await maker.readCampaign(first);
      const isPaused = async () => (view = await maker.readCampaign(first)).state === 'paused';
      await eventually(() => `it pauses: ${JSON.stringify(view.waves)}`, ifAnswered(isPaused), pausesWithinMs);
      const failures = view.wave === 0 ? [] : [`it paused in wave ${view.wave + 1}`];
      await fleet.changes.until('devices at rest', () => fleet.count('busy') === 0, settlesWithinMs);
      await conclude(`bad image, paused: ${view.pausedBecause}`, first, bad, failures);
      await maker.changeCampaign(first, 'stop');
      const away = fleet.members.filter(({ truth }) => truth === 'away');
      for (const member of away) {
        member.truth = 'old';
        await fleet.comeBack(member, member.version);
      }
      await conclude(`${away.length} came back, stopped`, first, bad, []);

      for (const [index, member] of fleet.members.entries()) {
        const fate = (index > total * 0.3 && goodFates[index % 100]) || 'plain';
        Object.assign(member, { truth: 'idle', cutAt: cutAtOf(index), fate });
      }
      const second = await start(good);
      const toldOf = () => total - fleet.count('idle');
      for (let killed = 1; killed <= kills; killed += 1) {
        const due = total * (0.15 + (0.7 * killed) / (kills + 1));
        const isDue = async () => ((view = await maker.readCampaign(second)), toldOf() >= due);
        const describe = () => `${toldOf()} of ${due} are told: ${view.state} ${JSON.stringify(view.waves)}`;
        await eventually(describe, ifAnswered(isDue), toldWithinMs);
        await worker.restartWorker('kill');
        say(`killed ${killed} times, ${toldOf()} are told`);
      }
      const areAllTold = () => fleet.count('idle', 'busy') === 0;
      await fleet.changes.until('all told', areAllTold, untilToldSeconds * 1_000).catch(() => undefined);
      await fleet.changes.until('devices at rest', () => fleet.count('busy') === 0, settlesWithinMs);
      const { pausedBecause, waves: counts } = await maker.readCampaign(second);
      const paused = pausedBecause === null ? [] : [`it paused: ${pausedBecause} ${JSON.stringify(counts)}`];
      await conclude(`good image, ${kills} kills`, second, good, paused);
      return findings;
    } finally {
      fleet.stop();
      await worker.stop();
      await broker.stop();
    }
  },
};

/** A busy Worker, and one that was just killed, may give none. */
const ifAnswered = (ask: () => Promise<boolean>) => () =>
  ask().catch((error: unknown) => {
    if (error instanceof NoAnswerError || error instanceof ApiError) return false;
    throw error;
  });

/** Compares what the service says of devices with what they know. */
class Judge {
  readonly #worker: WorkerRig;
  readonly #fleet: UpdatingFleet;
  readonly #maker: Maker;
  facts: string[] = [];

  constructor(worker: WorkerRig, fleet: UpdatingFleet, maker: Maker) {
    this.#worker = worker;
    this.#fleet = fleet;
    this.#maker = maker;
  }

  read({ device: { deviceId } }: Member) {
    return dataOf(this.#worker.owner.api.devices[':deviceId'].firmware.$get({ param: { deviceId } }));
  }

  /** @returns what does not fit, when it should */
  async compare(campaignId: string, version: string): Promise<string[]> {
    const said = new Map<Member, string | null>();
    const fits = (member: Member) => states[member.truth].includes(said.get(member) ?? null);
    let wrong = this.#fleet.members;
    const ask = async (member: Member) => {
      const { update } = await this.read(member);
      return said.set(member, update?.version === version ? update.state : null).size > 0;
    };
    const askEach = (members: readonly Member[]) => gently(members, (member) => ifAnswered(() => ask(member))());
    const areRight = async () => {
      await askEach(wrong);
      return (wrong = wrong.filter((member) => !fits(member))).length === 0;
    };
    await eventually('all fit', ifAnswered(areRight), readWithinMs).catch(() => undefined);
    this.facts = [...Map.groupBy(said.values(), String)].map(([state, { length }]) => `${length} ${state}`);
    const failures = wrong
      .slice(0, maxExamples)
      .map((member) => `${member.device.deviceId} is ${member.truth}, said to be ${said.get(member)}`);
    return [...failures, ...(await this.#compareList(campaignId, said, askEach))];
  }

  /** The campaign lists what its devices say, and nobody else was told. */
  async #compareList(
    campaignId: string,
    said: Map<Member, string | null>,
    askEach: (members: readonly Member[]) => Promise<void>,
  ): Promise<string[]> {
    const rows = new Map<string, CampaignProgress['list'][number]>();
    const listed = ({ device }: Member) => rows.get(device.deviceId)?.state;
    const isUnlike = ([member, state]: [Member, string | null]) =>
      state === null ? ![undefined, 'waiting', 'superseded'].includes(listed(member)) : listed(member) !== state;
    let unlike: [Member, string | null][] = [];
    const read = async () => {
      const { total } = await this.#maker.readCampaign(campaignId);
      for (let page = 1; (page - 1) * 100 < total; page += 1)
        for (const row of (await this.#maker.readCampaign(campaignId, page)).list) rows.set(row.deviceId, row);
      unlike = [...said].filter(isUnlike);
      // It may have changed since.
      await askEach(unlike.map(([member]) => member));
      return unlike.length === 0;
    };
    await eventually('the list fits', ifAnswered(read), readWithinMs).catch(() => undefined);
    return unlike
      .slice(0, maxExamples)
      .map(([member, state]) => `${member.device.deviceId} is ${state}, and listed as ${listed(member)}`);
  }
}
