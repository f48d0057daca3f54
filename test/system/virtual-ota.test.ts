// `npm run device -- --ota` against the whole service, with a campaign: an update that a power cut interrupts is proved, and a campaign
// pauses itself when devices come back with the old version.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeAll, afterAll, expect, test } from 'vitest';
import { eventually } from '../../rig/changes.ts';
import { activate } from '../../rig/clients/accounts.ts';
import { dataOf } from '../../rig/clients/api.ts';
import { makeMaker, type CampaignProgress, type Maker } from '../../rig/clients/firmware.ts';
import { WholeService } from '../../rig/services/whole-service.ts';

const script = fileURLToPath(new URL('../../dev/device.ts', import.meta.url));
const image = Uint8Array.from({ length: 20_000 }, (_, at) => (at * 31) % 251);
const children: ChildProcess[] = [];
let service: WholeService;
let maker: Maker;

beforeAll(async () => {
  service = await WholeService.start();
  maker = await makeMaker(service.rig.url, service.rig.owner, service.rig.productKey);
  await maker.addFirmware('1.1.0', image);
});
afterEach(async () => {
  for (const child of children.splice(0)) {
    child.kill('SIGTERM');
    await once(child, 'exit');
  }
});
afterAll(() => service.stop());

/** @returns the id of a device of the command, which runs until the end of the test */
async function runDevice(serial: string, ota: string): Promise<string> {
  const { url, owner, productKey } = service.rig;
  const { deviceId } = await activate(owner.api, productKey, `${serial}-1`);
  const args = [script, '--api', url, '--product', productKey, '--serial', serial, ota];
  children.push(spawn(process.execPath, args, { stdio: 'ignore' }));
  await eventually(`${serial} informs`, async () => (await readFirmware(deviceId)).installed?.version === '1.0.3');
  return deviceId;
}

const readFirmware = (deviceId: string) =>
  dataOf(service.rig.owner.api.devices[':deviceId'].firmware.$get({ param: { deviceId } }));

async function untilCampaign(deviceIds: string[], state: CampaignProgress['state']): Promise<CampaignProgress> {
  const campaignId = await maker.startCampaign({ version: '1.1.0', waves: [{ devices: deviceIds }], waitSeconds: 0 });
  let view = await maker.readCampaign(campaignId);
  const isSo = async () => (view = await maker.readCampaign(campaignId)).state === state;
  await eventually(() => `the campaign is ${state}: ${JSON.stringify(view)}`, isSo);
  return view;
}

test('a device installs an update, also after a power cut in its midst', async () => {
  const devices = [await runDevice('PLAIN', '--ota'), await runDevice('CUT', '--ota=cut:9000')];
  expect((await untilCampaign(devices, 'done')).waves).toMatchObject([{ devices: 2, outcomes: { proved: 2 } }]);
  for (const deviceId of devices) {
    const firmware = await readFirmware(deviceId);
    expect(firmware).toMatchObject({ installed: { version: '1.1.0' }, update: { formerVersion: '1.0.3' } });
  }
});

test('a campaign pauses itself when the old version comes back, or the hash is wrong', async () => {
  const [old, flipped] = [await runDevice('OLD', '--ota=old'), await runDevice('FLIP', '--ota=flip')];
  const stopped = await untilCampaign([old], 'paused');
  expect(stopped).toMatchObject({ pausedBecause: 'failures', list: [{ deviceId: old, state: 'rolled_back' }] });
  await maker.changeCampaign(stopped.campaignId, 'stop');
  expect(await untilCampaign([flipped], 'paused')).toMatchObject({
    list: [{ state: 'failed', reason: 'device_error' }],
  });
  expect(await readFirmware(flipped)).toMatchObject({
    update: { error: 'hash_mismatch' },
    installed: { version: '1.0.3' },
  });
});
