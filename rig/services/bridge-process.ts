// The production bridge as a child process, started as an operator would: environment in, logs out, signals. What it
// does is seen at the broker, the Worker and its log; nothing here reaches into it.
import type { ChildProcess } from 'node:child_process';
import { ServiceProcess, spawnService, type SpawnOptions } from './service-process.ts';
import { makeTempDir } from '../temp-dirs.ts';

const readyWithinMs = 60_000;

export const bridgeSecret = 'a-bridge-secret-of-at-least-32-characters';
/** Its password at the broker. */
export const bridgePassword = 'an-mqtt-password-of-at-least-32-characters';
/** MQTT user name, and client id where a test gives it one. */
export const bridgeName = 'latchwork-bridge';

export function spawnBridge(options: SpawnOptions): ChildProcess {
  return spawnService('broker-bridge/src/main.ts', options);
}

export function makeSpoolDir(): string {
  return makeTempDir('spool');
}

export class BridgeProcess extends ServiceProcess {
  constructor(environment: Record<string, string>, nodeOptions: string[] = []) {
    super(spawnBridge({ env: { LOG_LEVEL: 'debug', ...environment }, nodeOptions }));
  }

  /** By what it last reported of itself. */
  get isBrokerConnected(): boolean {
    return this.states.at(-1)?.['broker'] === 'connected';
  }

  /** The broker queues for the bridge from its first subscription on, and only from then. */
  async untilBrokerConnected(): Promise<void> {
    await this.#untilState('a bridge connected to the broker', () => this.isBrokerConnected);
  }

  /** Resolves when it is the active bridge and connected to broker and Worker. */
  async untilReady(): Promise<void> {
    await this.#untilState('an active bridge that is connected to broker and Worker', () => {
      const state = this.states.at(-1);
      return this.isBrokerConnected && state?.['link'] === 'connected' && state['role'] === 'active';
    });
  }

  async #untilState(what: string, isSo: () => boolean): Promise<void> {
    const describe = () => `${what}; ${this.lastWords}`;
    await this.changes.until(describe, isSo, readyWithinMs);
  }
}

/** For tests and benchmarks whose devices send as much as they can. */
export const unlimitedDevices = { DEVICE_MESSAGES_PER_SECOND: '1000000', DEVICE_MESSAGES_BURST: '1000000' };

export function bridgeEnvironment(options: {
  workerUrl: string;
  mqttUrl: string;
  spoolDir: string;
}): Record<string, string> {
  return {
    WORKER_URL: options.workerUrl,
    BRIDGE_SECRET: bridgeSecret,
    BRIDGE_ID: 'bridge-1',
    MQTT_URL: options.mqttUrl,
    MQTT_CLIENT_ID: bridgeName,
    SPOOL_DIR: options.spoolDir,
  };
}
