// A gateway inside the test's process, with limits that no setting moves. Asserts nothing.
import { readConfig, type GatewayConfig } from '../../mqtt-gateway/src/config.ts';
import { startGateway } from '../../mqtt-gateway/src/gateway.ts';
import { findFreePort } from '../ports.ts';
import { gatewaySecret } from './processes.ts';

export class GatewayInside {
  readonly port: number;
  readonly #healthPort: number;
  readonly stop: () => Promise<void>;

  private constructor(gateway: { stop: () => Promise<void> }, port: number, healthPort: number) {
    this.stop = gateway.stop;
    this.port = port;
    this.#healthPort = healthPort;
  }

  static async start(
    workerUrl: string,
    limits: Partial<GatewayConfig['limits']>,
    environment: Record<string, string> = {},
  ): Promise<GatewayInside> {
    const [port, healthPort] = [await findFreePort(), await findFreePort()];
    const config = readConfig({
      ...{ WORKER_URL: workerUrl, GATEWAY_SECRET: gatewaySecret, LISTEN_HOST: '127.0.0.1', DRAIN_SECONDS: '0' },
      ...{ MQTT_PORT: String(port), HEALTH_PORT: String(healthPort), ...environment },
    });
    if ('problems' in config) throw new Error(config.problems.join('; '));
    const ignore = (): void => undefined;
    const log = { debug: ignore, info: ignore, warn: ignore, error: ignore };
    const gateway = await startGateway({ ...config, limits: { ...config.limits, ...limits } }, log);
    return new GatewayInside(gateway, port, healthPort);
  }

  async readMetrics(): Promise<string> {
    return (await fetch(`http://127.0.0.1:${this.#healthPort}/metrics`)).text();
  }
}
