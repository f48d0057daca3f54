// The system under attack, with production limits, and everybody in it: the victim, the attacker, the bystander. Runs one
// attack at a time in a thread, with the bystander beside it, and says what it cost. Judges nothing but what must hold.
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { activate, activateMany, addProduct, signUp } from '../../../rig/clients/accounts.ts';
import { connectApi, dataOf } from '../../../rig/clients/api.ts';
import { GatewayProcess } from '../../../rig/services/processes.ts';
import { WholeService } from '../../../rig/services/whole-service.ts';
import { operatorSecret } from '../../../rig/worker/worker-rig.ts';
import { placesOfAddress, type Attack, type Effort, type Result, type Target } from './attack.ts';
import type { AttackData, ThreadResult } from './attack-thread.ts';
import { Bystander, type Measured } from './bystander.ts';
import { compareRounds, sumResults, type Outcome } from './judgement.ts';
import { startMailbox } from './mailbox.ts';
import { ProcessorWait } from './processor-wait.ts';

/** An attack that does not end by itself has hung, and with it perhaps the service. */
const patienceMs = 10 * 60_000;
const settleMs = 500;
/** The bridge's own defaults, which the rig lifts for other tests. */
const defaultRates = { DEVICE_MESSAGES_PER_SECOND: '50' };
const mailPages = {
  PASSWORD_RESET_URL: 'https://app.test/reset#{token}',
  EMAIL_VERIFICATION_URL: 'https://app.test/verify#{token}',
};

type Plan = { rounds: number; quietSeconds: number };

export class Battlefield {
  readonly target: Target;
  readonly #service: WholeService;
  readonly #gateway: GatewayProcess;
  readonly #bystander: Bystander;

  private constructor(service: WholeService, gateway: GatewayProcess, bystander: Bystander, target: Target) {
    this.#service = service;
    this.#gateway = gateway;
    this.#bystander = bystander;
    this.target = target;
  }

  /** @param limits in place of the defaults, to see what they are worth */
  static async prepare(seed: number, limits = ''): Promise<Battlefield> {
    const mailbox = await startMailbox();
    const mails = {
      MAIL_URL: mailbox,
      MAIL_FROM: 'no-reply@app.test',
      MAIL_SECRET: 'of the mail service',
      ...mailPages,
    };
    const vars = { RATE_LIMITS: 'production', LIMITS: limits, ...mails };
    const service = await WholeService.start(vars, defaultRates);
    const { rig } = service;
    const connect = (credentials?: Parameters<typeof connectApi>[1]) => connectApi(rig.url, credentials);
    const deviceSN = 'BYSTANDER-1';
    const device = await activate(rig.owner.api, rig.productKey, deviceSN);
    const attacker = await signUp(connect);
    const mail = await (await fetch(`${mailbox}/${attacker.email}`)).text();
    const [token = ''] = /ev_\w+/.exec(mail) ?? [];
    await dataOf(attacker.api.users['email-verification'].$post({ json: { token } }));
    const productKey = await addProduct(attacker);
    const devices = await activateMany(
      attacker.api,
      productKey,
      Array.from({ length: 8 }, (_, index) => `OWN-${index}`),
    );
    const product = { productKey: rig.productKey, deviceSN, device };
    const bystander = await Bystander.start(rig.url, rig.mqttUrl, rig.owner, product, seed);
    const gateway = await GatewayProcess.start(rig.url, {
      MAX_CONNECTIONS_PER_ADDRESS: String(placesOfAddress),
    });
    return new Battlefield(service, gateway, bystander, {
      url: rig.url,
      mqttUrl: rig.mqttUrl,
      mqttPort: rig.mqttPort,
      gatewayPort: gateway.port,
      ...{ mailbox, operatorSecret },
      victim: { email: rig.owner.email, productKey: rig.productKey, deviceSN, deviceId: device.deviceId },
      own: { token: attacker.token, productKey, devices },
    });
  }

  get stateDir(): string {
    return this.#service.rig.stateDir;
  }

  /** Without a clock, so in this thread: what must not happen, and what failed for the bystander. */
  async try(attack: Attack, effort: Effort): Promise<{ result: Result; bystanderFailures: string[] }> {
    let isOver = false;
    const fighting = attack.run(this.target, effort).finally(() => (isOver = true));
    const [result, meanwhile] = await Promise.all([fighting, this.#bystander.live(() => isOver)]);
    return { result, bystanderFailures: [...new Set(meanwhile.failures)] };
  }

  /**
   * The attack in `rounds`, a quiet period before each and one behind the last, so that whatever else loads the machine is in
   * both. One that waits for a deadline has a single round.
   */
  async measure(attack: Attack, effort: Effort, { rounds, quietSeconds }: Plan): Promise<Outcome> {
    const thread = new AttackThread({ name: attack.name, target: this.target });
    const { rig, bridge, entry } = this.#service;
    const pids = { worker: rig.pid, bridge: bridge!.pid, broker: entry.pid };
    const processorWait = new ProcessorWait(pids.worker, [pids.bridge, pids.broker]);
    const [quiet, attacked]: [Measured[], Measured[]] = [[], []];
    const results: Result[] = [];
    let [attackSeconds, cpuSeconds] = [0, 0];
    const rest = async (): Promise<void> => {
      // What the round before left behind ends first.
      await sleep(settleMs);
      const quietUntil = performance.now() + quietSeconds * 1000;
      quiet.push(await this.#bystander.live(() => performance.now() > quietUntil, processorWait));
    };
    try {
      await thread.ready;
      for (let round = 0; round < (attack.isOnce === true ? 1 : rounds); round += 1) {
        await rest();
        const startedAt = performance.now();
        let isOver = false;
        const fighting = thread.run({ ...effort, seed: effort.seed + round }).finally(() => (isOver = true));
        const [fought, meanwhile] = await Promise.all([fighting, this.#bystander.live(() => isOver, processorWait)]);
        attackSeconds += (performance.now() - startedAt) / 1000;
        cpuSeconds += fought.cpuSeconds;
        attacked.push(meanwhile);
        results.push(fought.result);
      }
      await rest();
    } finally {
      await thread.stop();
    }
    const all = [...quiet, ...attacked];
    const waited = all.reduce((sum, measured) => sum + measured.waited, 0);
    const asked = all.flatMap(({ times }) => Object.values(times).flat()).reduce((sum, ms) => sum + ms, 0);
    return {
      ...sumResults(results),
      name: attack.name,
      runs: 1,
      seconds: attackSeconds,
      attackerCpu: cpuSeconds / attackSeconds,
      bystander: compareRounds(quiet, attacked),
      bystanderFailures: [...new Set(all.flatMap(({ failures }) => failures))].slice(0, 5),
      waitedShare: waited / (waited + asked),
    };
  }

  /** Whether the victim still gets in after what was tried, and how long he waits. */
  signInElsewhere(withinMs: number): Promise<number | undefined> {
    return this.#bystander.signIn(withinMs);
  }

  async stop(): Promise<void> {
    await this.#bystander.stop();
    await this.#gateway.kill('SIGKILL');
    await this.#service.stop();
  }
}

/** Started before the first round, so that loading its code is in no measurement. */
class AttackThread {
  readonly #name: string;
  readonly #worker: Worker;
  readonly ready: Promise<unknown>;

  constructor(workerData: AttackData) {
    this.#name = workerData.name;
    this.#worker = new Worker(new URL('attack-thread.ts', import.meta.url), { workerData });
    this.ready = once(this.#worker, 'online');
  }

  async run(effort: Effort): Promise<ThreadResult> {
    const { promise, resolve, reject } = Promise.withResolvers<ThreadResult>();
    this.#worker.once('message', resolve);
    this.#worker.once('error', reject);
    const fail = () => reject(new Error(`the attack ${this.#name} ended without a result, or not at all`));
    this.#worker.once('exit', fail);
    const timer = setTimeout(fail, patienceMs);
    this.#worker.postMessage(effort);
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      this.#worker.off('message', resolve).off('error', reject).off('exit', fail);
    }
  }

  async stop(): Promise<void> {
    await this.#worker.terminate();
  }
}
