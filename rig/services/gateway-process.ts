// The production gateway as a child process, on free ports of this machine.
import type { ChildProcess } from 'node:child_process';
import { findFreePort } from '../ports.ts';
import { ServiceProcess, spawnService, type SpawnOptions } from './service-process.ts';

export const gatewaySecret = 'a-gateway-secret-of-at-least-32-characters';

export function spawnGateway(options: SpawnOptions): ChildProcess {
  return spawnService('mqtt-gateway/src/main.ts', options);
}

export class GatewayProcess extends ServiceProcess {
  readonly port: number;
  readonly healthPort: number;

  private constructor(environment: Record<string, string>, port: number, healthPort: number) {
    super(spawnGateway({ env: { LOG_LEVEL: 'debug', DRAIN_SECONDS: '0', ...environment } }));
    this.port = port;
    this.healthPort = healthPort;
  }

  /** @param environment on top of what connects it to the Worker */
  static async start(workerUrl: string, environment: Record<string, string> = {}): Promise<GatewayProcess> {
    const [port, healthPort] = [Number(environment['MQTT_PORT'] ?? (await findFreePort())), await findFreePort()];
    const gateway = new GatewayProcess(
      {
        WORKER_URL: workerUrl,
        GATEWAY_SECRET: gatewaySecret,
        LISTEN_HOST: '127.0.0.1',
        MQTT_PORT: String(port),
        HEALTH_PORT: String(healthPort),
        ...environment,
      },
      port,
      healthPort,
    );
    const describe = () => `a gateway that listens; ${gateway.lastWords}`;
    const isReady = () => gateway.states.length > 0 || gateway.hasExited;
    await gateway.changes.until(describe, isReady, 60_000);
    return gateway;
  }

  async ask(path: '/healthz' | '/readyz' | '/metrics'): Promise<{ status: number; text: string }> {
    const answer = await fetch(`http://127.0.0.1:${this.healthPort}${path}`);
    return { status: answer.status, text: await answer.text() };
  }

  /** The sum over all labels. */
  async metric(name: string): Promise<number> {
    const { text } = await this.ask('/metrics');
    const lines = text.split('\n').filter((line) => new RegExp(`^${name}[ {]`).test(line));
    return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
  }
}
