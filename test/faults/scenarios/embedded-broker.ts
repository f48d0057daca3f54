// The bridge is killed again and again while one device reports through the broker of `npm start`, which has to keep the
// session of the bridge as MQTT says: order, packet identifiers, and the DUP flag of what it delivers again.
import { setTimeout as sleep } from 'node:timers/promises';
import { LocalBroker } from '../../../rig/services/local-broker.ts';
import { hookSecret } from '../../../rig/worker/worker-rig.ts';
import { FaultRig } from '../rig/fault-rig.ts';
import { find, type Scenario } from '../rig/scenario.ts';

const perSecond = 300;

export const embeddedBroker: Scenario = {
  name: 'embedded-broker',
  title: 'the bridge is killed with SIGKILL at the broker of `npm start`, while one device reports',
  run: async ({ worker, random, count }) => {
    const [messages, kills] = [count(12_000, 1500), count(16, 4)];
    const devices = await worker.activateMany(1);
    const { mqtt } = devices[0]!;
    const broker = await LocalBroker.start({ workerUrl: worker.url, hookSecret });
    const rig = await FaultRig.openAt(worker, devices, broker, mqtt);
    try {
      const spool = await rig.makeSpool();
      let bridge = rig.startBridge({ spool, environment: { MQTT_PROTOCOL: '3.1.1' } });
      await bridge.untilBrokerConnected();
      const loading = rig.load(messages, perSecond);
      for (let kill = 1; kill <= kills; kill += 1) {
        await rig.untilSent(Math.floor((messages * kill) / (kills + 1)));
        await sleep(random.between(0, 40));
        await bridge.kill('SIGKILL');
        bridge = rig.startBridge({ spool, environment: { MQTT_PROTOCOL: '3.1.1' } });
      }
      await loading;
      return [find(`${kills} kills`, await rig.finish(), [])];
    } finally {
      await rig.close();
    }
  },
};
