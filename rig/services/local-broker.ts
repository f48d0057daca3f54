// The local broker of `npm start` as a process of its own on free ports, beside a Worker that decides its logins.
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { spawnLocalBroker } from './parts.ts';

type Ready = { mqttPort: number; wsPort: number; adminPort: number };

export class LocalBroker {
  readonly process: ChildProcess;
  readonly ready: Ready;
  /** Lines of its log. */
  readonly lines: Record<string, unknown>[] = [];

  private constructor(process: ChildProcess, ready: Ready) {
    this.process = process;
    this.ready = ready;
  }

  static async start(options: {
    workerUrl: string;
    hookSecret: string;
    environment?: Record<string, string>;
  }): Promise<LocalBroker> {
    const child = spawnLocalBroker({
      WORKER_URL: options.workerUrl,
      BROKER_HOOK_SECRET: options.hookSecret,
      BROKER_API_KEY: 'key',
      BROKER_API_SECRET: 'secret',
      MQTT_PORT: '0',
      MQTT_WS_PORT: '0',
      BROKER_ADMIN_PORT: '0',
      ...options.environment,
    });
    child.stderr?.pipe(process.stderr);
    const [ready] = (await once(child, 'message')) as [Ready];
    const broker = new LocalBroker(child, ready);
    if (child.stdout !== null) {
      createInterface({ input: child.stdout }).on('line', (line) => {
        broker.lines.push(JSON.parse(line) as Record<string, unknown>);
      });
    }
    return broker;
  }

  get port(): number {
    return this.ready.mqttPort;
  }

  async stop(signal: NodeJS.Signals): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    this.process.kill(signal);
    await once(this.process, 'exit');
  }
}
