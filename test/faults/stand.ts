// What all scenarios share: the built Worker as a process that can be frozen, killed and started again at the same
// address, and the user whose devices are used. It must not know any scenario.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient, dataOf } from '../../src/client.ts';
import { startBuiltWorker, type BuiltWorker } from '../../dev/built-worker.ts';
import { killGroup } from '../../dev/process-groups.ts';
import { bridgeSecret } from '../support/bridge-worker-side.ts';
import { findFreePort } from '../support/ports.ts';

export type Device = { deviceId: string; topic: string; statusTopic: string };
export type PositionChange = { position: string; time: string };

const productKey = 'faults-switch';
const activationsAtOnce = 8;
const healthyWithinMs = 60_000;

export class Stand {
  readonly stateDir: string;
  readonly port: number;
  token = '';
  #worker: BuiltWorker;
  #isFrozen = false;
  #activated = 0;

  private constructor(stateDir: string, port: number, worker: BuiltWorker) {
    this.stateDir = stateDir;
    this.port = port;
    this.#worker = worker;
    // A stopped process does not notice that its parent is gone.
    process.once('exit', () => this.thawWorker());
  }

  static async start(): Promise<Stand> {
    const stateDir = mkdtempSync(join(tmpdir(), 'latchwork-faults-'));
    const port = await findFreePort();
    const stand = new Stand(stateDir, port, await startWorker(stateDir, port, false));
    const account = { email: 'faults@example.com', password: 'a loopback needs no secret' };
    const login = { username: account.email, password: account.password };
    const call = createClient(stand.url);
    await dataOf(call.users.register.$post({ json: { username: 'faults', ...account } }));
    stand.token = (await dataOf(call.users.login.$post({ json: login }))).token;
    const body = { productKey, name: 'Faults switch', controlMode: 'toggle' as const };
    await dataOf(createClient(stand.url, { credentials: { token: stand.token } }).products.$post({ json: body }));
    return stand;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Real identifiers: the Worker refuses what comes from a device that it does not know. */
  async activate(count: number): Promise<Device[]> {
    const devices: Device[] = [];
    while (devices.length < count) {
      const batch = Array.from({ length: Math.min(activationsAtOnce, count - devices.length) }, async () => {
        this.#activated += 1;
        const body = { productKey, deviceSN: `FAULTS-${this.#activated}` };
        const { deviceId, topics } = await dataOf(createClient(this.url).devices.activate.$post({ json: body }));
        return { deviceId, topic: topics.propertyPost, statusTopic: topics.status };
      });
      devices.push(...(await Promise.all(batch)));
    }
    return devices;
  }

  /** What its owner reads of a device: its properties by name, and the last changes of its position, newest first. */
  async readProperties(
    deviceId: string,
  ): Promise<{ properties: Map<string, unknown>; positionChanges: PositionChange[] }> {
    const call = createClient(this.url, { credentials: { token: this.token } });
    const { list, positionChanges } = await dataOf(call.devices[':deviceId'].properties.$get({ param: { deviceId } }));
    return { properties: new Map(list.map(({ name, value }) => [name, value])), positionChanges };
  }

  /** `kill` is what a crash is; `leave` closes in order. The data of both is on the disk. */
  async restartWorker(how: 'kill' | 'leave'): Promise<void> {
    if (how === 'kill') killGroup(this.#worker.pid);
    await this.#worker.stop();
    this.#worker = await startWorker(this.stateDir, this.port, true);
    await this.#untilAnswering();
  }

  /** Takes connections, as its sockets are the system's, and answers nothing. */
  freezeWorker(): void {
    this.#isFrozen = true;
    process.kill(-this.#worker.pid, 'SIGSTOP');
  }

  thawWorker(): void {
    if (!this.#isFrozen) return;
    this.#isFrozen = false;
    process.kill(-this.#worker.pid, 'SIGCONT');
  }

  async stop(): Promise<void> {
    this.thawWorker();
    await this.#worker.stop();
    rmSync(this.stateDir, { recursive: true, force: true });
  }

  async #untilAnswering(): Promise<void> {
    const deadlineMs = performance.now() + healthyWithinMs;
    for (;;) {
      const isAnswering = await fetch(`${this.url}/health`, { signal: AbortSignal.timeout(2000) }).then(
        () => true,
        () => false,
      );
      if (isAnswering) return;
      if (performance.now() > deadlineMs) throw new Error('the Worker does not answer after its restart');
      await sleep(50);
    }
  }
}

function startWorker(stateDir: string, port: number, isBuilt: boolean): Promise<BuiltWorker> {
  return startBuiltWorker({
    stateDir,
    port,
    isBuilt,
    vars: {
      MQTT_HOST: '127.0.0.1',
      RATE_LIMITS: 'relaxed',
      BROKER_REPORTS_CONNECTIONS: 'false',
      // Longer than any run: a relay socket closes when its token ends.
      ACCESS_TOKEN_SECONDS: '86400',
    },
    secrets: {
      JWT_SECRETS: 'faults:access-token-secret-of-the-faults-suite',
      BRIDGE_SECRETS: bridgeSecret,
      BROKER_HOOK_SECRETS: 'broker-hook-secret-of-the-faults-suite',
    },
  });
}
