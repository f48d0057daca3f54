// The parts around the Matter bridge: the built Worker, an owner with a product and API keys, boards with direct connections,
// and the bridge as a process. Asserts nothing.
import { addProduct, activate, type Activation } from '../../rig/clients/accounts.ts';
import { dataOf } from '../../rig/clients/api.ts';
import { MqttTestClient } from '../../rig/clients/mqtt-client.ts';
import { findFreePort } from '../../rig/ports.ts';
import { ServiceProcess } from '../../rig/services/processes.ts';
import { makeTempDir } from '../../rig/temp-dirs.ts';
import { WorkerRig } from '../../rig/worker/worker-rig.ts';

export type MatterStage = Awaited<ReturnType<typeof startStage>>;
export type Board = Awaited<ReturnType<typeof connectBoard>>;
type Command = { id: string; params: { position?: string } };

export async function startStage() {
  const rig = await WorkerRig.start({ vars: { BROKER: 'none' } });
  const { api } = rig.owner;
  const productKey = await addProduct(rig.owner, { uiTemplate: 'two_position' });
  const makeKey = async (...scopes: ('read' | 'control')[]) => {
    const { keyId, apiKey } = await dataOf(api.users['api-keys'].$post({ json: { scopes } }));
    return { API_KEY_ID: keyId, API_KEY: apiKey };
  };
  const place = {
    STORAGE_DIR: makeTempDir('matter'),
    MATTER_PORT: String(await findFreePort()),
    MATTER_INTERFACE: 'lo',
  };
  const whole = { WORKER_URL: rig.url, ...place, ...(await makeKey('read', 'control')) };
  return {
    ...{ rig, api, productKey, makeKey },
    activate: (serial: string) => activate(api, productKey, serial),
    connect: (activation: Activation) => connectBoard(rig.url.replace(/^http/, 'ws'), activation),
    /** Resolves when it is ready, or has ended before that. */
    startBridge: async (environment: Record<string, string> = {}) => {
      const bridge = new ServiceProcess('matter', { env: { ...whole, ...environment } });
      await bridge.untilTold();
      return bridge;
    },
  };
}

/** A switch that does what it is told, replies with an error, or replies nothing. */
async function connectBoard(url: string, activation: Activation) {
  const { propertyPost, propertySet } = activation.topics;
  const mqtt = await MqttTestClient.ofDevice(`${url}/mqtt/${activation.deviceId}`, activation);
  const board = {
    mood: 'obeys' as 'obeys' | 'refuses' | 'is silent',
    commands: [] as Command['params'][],
    report: (position?: string) => mqtt.tryPublish(propertyPost, { params: { position } }),
    leave: () => mqtt.leave(),
  };
  const take = async ({ id, params }: Command) => {
    board.commands.push(params);
    if (board.mood === 'is silent') return;
    const code = board.mood === 'obeys' ? 200 : 500;
    await mqtt.tryPublish(propertyPost, { method: 'thing.service.property.set_reply', id, code });
    if (board.mood === 'obeys') await board.report(params.position);
  };
  mqtt.client.on('message', (topic, payload) => void take(JSON.parse(payload.toString()) as Command));
  await mqtt.trySubscribe(propertySet);
  return board;
}
