// The service without a broker as processes of their own, on free ports: the built Worker and the gateway, with TLS where
// certificates are given. Asserts nothing.
import type { Activation } from '../clients/accounts.ts';
import type { Certificates } from '../certificates.ts';
import { GatewayProcess } from './processes.ts';
import { findFreePort } from '../ports.ts';
import { WorkerRig } from '../worker/worker-rig.ts';

export class EdgeService {
  readonly rig: WorkerRig;
  readonly tlsPort: number;
  gateway: GatewayProcess;
  readonly #environment: Record<string, string>;

  private constructor(rig: WorkerRig, gateway: GatewayProcess, tlsPort: number, environment: Record<string, string>) {
    this.rig = rig;
    this.gateway = gateway;
    this.tlsPort = tlsPort;
    this.#environment = environment;
  }

  /** @param vars of the Worker, @param environment of the gateway, on top of what connects the parts */
  static async start(
    vars: Record<string, string> = {},
    environment: Record<string, string> = {},
    certificates?: Certificates,
  ): Promise<EdgeService> {
    const rig = await WorkerRig.start({ vars: { BROKER: 'none', ...vars } });
    const tlsPort = await findFreePort();
    const all: Record<string, string> = {
      MQTT_PORT: String(rig.mqttPort),
      ...(certificates !== undefined && {
        MQTT_TLS_PORT: String(tlsPort),
        TLS_CERT_FILE: certificates.serverCert,
        TLS_KEY_FILE: certificates.serverKey,
      }),
      ...environment,
    };
    const service = new EdgeService(rig, await GatewayProcess.start(rig.url, all), tlsPort, all);
    await rig.untilHealthy();
    return service;
  }

  /** Of the device's own path. */
  edgeUrl({ deviceId }: Pick<Activation, 'deviceId'>): string {
    return `${this.bareUrl}/${deviceId}`;
  }

  /** For clients that cannot set a path. */
  get bareUrl(): string {
    return `${this.rig.url.replace(/^http/, 'ws')}/mqtt`;
  }

  /** Another process at the same ports, after the first one was killed. */
  async restartGateway(): Promise<void> {
    this.gateway = await GatewayProcess.start(this.rig.url, this.#environment);
  }

  async stop(): Promise<void> {
    await this.gateway.kill('SIGKILL');
    await this.rig.stop();
  }
}
