// The Matter nodes of this process: each is an aggregator with a port, storage and pairing of its own, and has a bridged endpoint
// for each of its devices. Shows what it is told, and knows nothing of the service.
import './matter-environment.ts';
import { Endpoint, Environment, Logger, LogLevel, ServerNode, VendorId } from '@matter/main';
import { AggregatorEndpoint } from '@matter/main/endpoints/aggregator';
import { QrCode } from '@matter/main/types';
import type { Log } from '../../node-service/log.ts';
import manifest from '../package.json' with { type: 'json' };
import type { MatterConfig } from './config.ts';
import type { Switch } from './fleet.ts';
import { Places } from './places.ts';
import { BridgedSwitch } from './switch-server.ts';

/** Vendor and product of the Matter specification for tests. */
const product = {
  vendorId: VendorId(0xfff1),
  productId: 0x8000,
  vendorName: 'Latchwork',
  productName: 'Matter bridge',
};
const version = { hardwareVersion: 1, softwareVersion: 1, softwareVersionString: manifest.version };
const labelBytes = 32;

type Bridge = { node: ServerNode; devices: Endpoint<typeof AggregatorEndpoint> };
type Shown = { device: Switch; endpoint: Endpoint<typeof BridgedSwitch> };

export class Bridges {
  readonly #config: MatterConfig;
  readonly #log: Log;
  readonly #places: Places;
  readonly #bridges = new Map<number, Bridge>();
  readonly #shown = new Map<string, Shown>();
  #isStarted = false;

  /** @throws Error if the storage cannot be used */
  constructor(config: MatterConfig, log: Log) {
    this.#config = config;
    this.#log = log;
    this.#places = new Places(config);
    const { vars } = Environment.default;
    vars.set('storage.path', config.storageDir);
    if (config.networkInterface !== undefined) vars.set('mdns.networkInterface', config.networkInterface);
    Logger.level = LogLevel.WARN;
    Logger.format = 'plain';
    const write = (text: string, { level }: { level: LogLevel }) =>
      log[level === LogLevel.WARN ? 'warn' : 'error']('matter.js', { text });
    Object.assign(Logger.destinations['default'] ?? {}, { write });
  }

  async show(device: Switch): Promise<void> {
    const endpoint = this.#shown.get(device.deviceId)?.endpoint ?? (await this.#add(device));
    this.#shown.set(device.deviceId, { device, endpoint });
    await apply({ device, endpoint });
  }

  async remove(deviceId: string): Promise<void> {
    await this.#shown.get(deviceId)?.endpoint.delete();
    this.#shown.delete(deviceId);
    this.#places.forgetUnless((known) => known !== deviceId);
    this.#log.info('a device is gone', { deviceId });
  }

  /** After all devices were shown: controllers forget a device that its bridge does not have when it starts. */
  async start(): Promise<void> {
    this.#places.forgetUnless((deviceId) => this.#shown.has(deviceId));
    await this.#bridge(1);
    this.#isStarted = true;
    for (const { node } of this.#bridges.values()) await node.start();
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#bridges.values()].map(({ node }) => node.close()));
  }

  async #add({ deviceId, name, productName, isReachable }: Switch): Promise<Shown['endpoint']> {
    const { devices } = await this.#bridge(this.#places.bridgeOf(deviceId));
    const labels = { uniqueId: deviceId, productName: toLabel(productName), nodeLabel: toLabel(name) };
    const bridgedDeviceBasicInformation = { ...labels, reachable: isReachable };
    const endpoint = new Endpoint(BridgedSwitch, { id: deviceId, bridgedDeviceBasicInformation });
    await devices.add(endpoint);
    return endpoint;
  }

  async #bridge(number: number): Promise<Bridge> {
    const known = this.#bridges.get(number);
    if (known !== undefined) return known;
    const name = number === 1 ? 'Latchwork' : `Latchwork ${number}`;
    const uniqueId = `${this.#places.installationId}-${number}`;
    const node = await ServerNode.create({
      id: `bridge-${number}`,
      network: { port: this.#config.firstPort + number - 1 },
      productDescription: { name, deviceType: AggregatorEndpoint.deviceType },
      basicInformation: { ...product, ...version, nodeLabel: name, uniqueId },
    });
    const devices = new Endpoint(AggregatorEndpoint, { id: 'devices' });
    await node.add(devices);
    node.lifecycle.online.on(() => this.#onOnline(number, node));
    node.lifecycle.commissioned.on(() => this.#log.info('a bridge is paired', { bridge: number }));
    const bridge = { node, devices };
    this.#bridges.set(number, bridge);
    if (this.#isStarted) await node.start();
    return bridge;
  }

  /** At the start, and after the last controller left: then the node has reset itself, and its devices with it. */
  async #onOnline(bridge: number, { lifecycle, state }: ServerNode): Promise<void> {
    if (lifecycle.isCommissioned) return;
    for (const shown of this.#shown.values()) await apply(shown);
    const { manualPairingCode: code, qrPairingCode: qrCode } = state.commissioning.pairingCodes;
    this.#log.info('a bridge waits to be paired', { bridge, code, qrCode, port: state.network.operationalPort });
    if (this.#config.log.format === 'pretty') process.stdout.write(`\n${QrCode.get(qrCode).trim()}\n\n`);
  }
}

/** Also over what the endpoint stored in an earlier run. */
async function apply({ endpoint, device: { name, isReachable, isOn } }: Shown): Promise<void> {
  await endpoint.set({
    bridgedDeviceBasicInformation: { nodeLabel: toLabel(name), reachable: isReachable },
    ...(isOn !== undefined && { onOff: { onOff: isOn } }),
  });
}

/** As much of a name as a label of Matter holds, without half a character. */
function toLabel(name: string): string {
  if (Buffer.byteLength(name) <= labelBytes) return name;
  const characters = [...new Intl.Segmenter().segment(name)].map(({ segment }) => segment);
  while (Buffer.byteLength(`${characters.join('')}…`) > labelBytes) characters.pop();
  return `${characters.join('').trimEnd()}…`;
}
