// The bridge is killed in the stream, again and again: in the middle of its work and while it is still starting.
import { setTimeout as sleep } from 'node:timers/promises';
import { FaultRig } from '../rig/fault-rig.ts';
import { find, type Scenario } from '../rig/scenario.ts';

const perSecond = 1500;

export const bridgeKills: Scenario = {
  name: 'bridge-kills',
  title: 'the bridge is killed with SIGKILL',
  run: async ({ worker, random, count }) => {
    const [messages, kills] = [count(100_000, 3000), count(50, 4)];
    await using rig = await FaultRig.open(worker, 50);
    const spool = await rig.makeSpool();
    let bridge = rig.startBridge({ spool });
    await bridge.untilBrokerConnected();
    const loading = rig.load(messages, perSecond);
    let inStream = 0;
    for (let kill = 1; kill <= kills; kill += 1) {
      await rig.untilSent(Math.floor((messages * kill) / (kills + 1)));
      await sleep(random.between(0, 40));
      await bridge.kill('SIGKILL');
      bridge = rig.startBridge({ spool });
      // Every fourth one has only begun: what it recovers must survive that, too.
      if (kill % 4 === 0 && kill < kills) {
        await sleep(random.between(100, 600));
        await bridge.kill('SIGKILL');
        bridge = rig.startBridge({ spool });
        kill += 1;
      }
      inStream += 1;
    }
    await loading;
    return [find(`${kills} kills`, await rig.finish(), [`${inStream} in the stream, the others at start`])];
  },
};
