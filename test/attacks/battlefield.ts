// The system under attack, with production limits, and everybody in it: the victim, the attacker, the bystander. Runs one
// attack at a time in a thread, with the bystander beside it, and says what it cost. Judges nothing but what must hold.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { activate, activateMany, addProduct, signUp } from '../rig/accounts.ts';
import { connectApi } from '../rig/api.ts';
import { WholeService } from '../rig/whole-service.ts';
import type { Attack, Effort, Result, Target } from './attack.ts';
import type { AttackData } from './attack-thread.ts';
import { Bystander, percentile, type Kind, type Measured } from './bystander.ts';

/** An attack that does not end by itself has hung, and with it perhaps the service. */
const patienceMs = 60 * 60_000;
/** The bridge's own defaults, which the rig lifts for other tests. */
const defaultRates = { DEVICE_MESSAGES_PER_SECOND: '50', DEVICE_MESSAGES_BURST: '1000' };

export type Outcome = Result & {
  name: string;
  seconds: number;
  /** p95 in milliseconds, before and meanwhile. */
  bystander: Record<Kind, { before: number; meanwhile: number }>;
  bystanderFailures: string[];
  /** Resident memory in MiB. */
  memory: Record<'worker' | 'bridge' | 'broker', { before: number; peak: number }>;
};

export class Battlefield {
  readonly target: Target;
  readonly #service: WholeService;
  readonly #bystander: Bystander;

  private constructor(service: WholeService, bystander: Bystander, target: Target) {
    this.#service = service;
    this.#bystander = bystander;
    this.target = target;
  }

  static async prepare(seed: number): Promise<Battlefield> {
    const service = await WholeService.start({ RATE_LIMITS: 'production', LIMITS: '' }, defaultRates);
    const { rig } = service;
    const connect = (credentials?: Parameters<typeof connectApi>[1]) => connectApi(rig.url, credentials);
    const deviceSN = 'BYSTANDER-1';
    const device = await activate(rig.owner.api, rig.productKey, deviceSN);
    const attacker = await signUp(connect);
    const productKey = await addProduct(attacker);
    const devices = await activateMany(
      attacker.api,
      productKey,
      Array.from({ length: 8 }, (_, index) => `OWN-${index}`),
    );
    const product = { productKey: rig.productKey, deviceSN, device };
    const bystander = await Bystander.start(rig.url, rig.mqttUrl, rig.owner, product, seed);
    return new Battlefield(service, bystander, {
      url: rig.url,
      mqttUrl: rig.mqttUrl,
      mqttPort: rig.mqttPort,
      victim: { email: rig.owner.email, productKey: rig.productKey, deviceSN, deviceId: device.deviceId },
      own: { token: attacker.token, productKey, devices },
    });
  }

  /** Without a clock, so in this thread: what must not happen, and what failed for the bystander. */
  async try(attack: Attack, effort: Effort): Promise<{ result: Result; bystanderFailures: string[] }> {
    let isOver = false;
    const fighting = attack.run(this.target, effort).finally(() => (isOver = true));
    const [result, meanwhile] = await Promise.all([fighting, this.#bystander.live(() => isOver)]);
    return { result, bystanderFailures: [...new Set(meanwhile.failures)] };
  }

  /** @param quietSeconds how long the bystander is watched before it begins */
  async measure(attack: Attack, effort: Effort, quietSeconds: number): Promise<Outcome> {
    const startedAt = performance.now();
    const memory = new MemoryMeter({
      worker: this.#service.rig.pid,
      bridge: this.#service.bridge.pid,
      broker: this.#service.broker.pid ?? 0,
    });
    const quietUntil = performance.now() + quietSeconds * 1000;
    const before = await this.#bystander.live(() => performance.now() > quietUntil);
    memory.begin();
    let isOver = false;
    const fighting = runInThread({ name: attack.name, target: this.target, effort }).finally(() => (isOver = true));
    const [result, meanwhile] = await Promise.all([fighting, this.#bystander.live(() => isOver)]);
    return {
      ...result,
      name: attack.name,
      seconds: (performance.now() - startedAt) / 1000 - quietSeconds,
      bystander: compare(before, meanwhile),
      bystanderFailures: [...new Set(meanwhile.failures)].slice(0, 5),
      memory: memory.end(),
    };
  }

  /** Whether the victim still gets in after what was tried, and how long he waits. */
  signInElsewhere(withinMs: number): Promise<number | undefined> {
    return this.#bystander.signIn(withinMs);
  }

  async stop(): Promise<void> {
    await this.#bystander.stop();
    await this.#service.stop();
  }
}

async function runInThread(workerData: AttackData): Promise<Result> {
  const thread = new Worker(new URL('attack-thread.ts', import.meta.url), { workerData });
  const { promise, resolve, reject } = Promise.withResolvers<Result>();
  thread.once('message', resolve);
  thread.once('error', reject);
  thread.once('exit', () => reject(new Error(`the attack ${workerData.name} ended without a result`)));
  try {
    const late = sleep(patienceMs, undefined, { ref: false }).then(() => {
      throw new Error(`the attack ${workerData.name} did not end`);
    });
    return await Promise.race([promise, late]);
  } finally {
    await thread.terminate();
  }
}

function compare(before: Measured, meanwhile: Measured): Outcome['bystander'] {
  const of = (kind: Kind) => ({
    before: percentile(before.times[kind], 0.95),
    meanwhile: percentile(meanwhile.times[kind], 0.95),
  });
  return { status: of('status'), list: of('list'), command: of('command'), activation: of('activation') };
}

/** Resident memory of the parts, from /proc, so on Linux only; elsewhere it shows zero. */
class MemoryMeter {
  readonly #pids: Record<'worker' | 'bridge' | 'broker', number>;
  readonly #seen: Outcome['memory'];
  #timer: NodeJS.Timeout | undefined;

  constructor(pids: Record<'worker' | 'bridge' | 'broker', number>) {
    this.#pids = pids;
    const none = () => ({ before: 0, peak: 0 });
    this.#seen = { worker: none(), bridge: none(), broker: none() };
  }

  begin(): void {
    for (const [part, seen] of Object.entries(this.#seen)) seen.before = this.#read(part as keyof Outcome['memory']);
    this.#look();
    this.#timer = setInterval(() => this.#look(), 250);
  }

  end(): Outcome['memory'] {
    clearInterval(this.#timer);
    this.#look();
    return this.#seen;
  }

  #look(): void {
    for (const [part, seen] of Object.entries(this.#seen)) {
      seen.peak = Math.max(seen.peak, this.#read(part as keyof Outcome['memory']));
    }
  }

  /** Of the process and everything in its group. */
  #read(part: keyof Outcome['memory']): number {
    if (!existsSync('/proc/self/stat')) return 0;
    const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
    const bytes = pids.map((pid) => residentOf(Number(pid), this.#pids[part])).reduce((sum, one) => sum + one, 0);
    return Math.round(bytes / 2 ** 20);
  }
}

const pageBytes = 4096;

function residentOf(pid: number, wanted: number): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
    if (pid !== wanted && Number(fields[2]) !== wanted) return 0;
    return Number(fields[21]) * pageBytes;
  } catch (error) {
    // The process ended while the folder was read.
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return 0;
    throw error;
  }
}
