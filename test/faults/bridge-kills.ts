// The bridge is killed in the stream, again and again: in the middle of its work and while it is still starting.
import { setTimeout as sleep } from 'node:timers/promises';
import { Field } from './field.ts';
import { find, type Scenario } from './scenario.ts';

const perSecond = 1500;

export const bridgeKills: Scenario = {
  name: 'bridge-kills',
  title: 'the bridge is killed with SIGKILL',
  run: async ({ stand, random, count }) => {
    const [messages, kills] = [count(100_000, 3000), count(50, 4)];
    const field = await Field.open(stand, 50);
    try {
      const spool = await field.makeSpool();
      let bridge = field.startBridge({ spool });
      await field.untilConnected(bridge);
      const loading = field.load(messages, perSecond);
      let inStream = 0;
      for (let kill = 1; kill <= kills; kill += 1) {
        await field.untilSent(Math.floor((messages * kill) / (kills + 1)));
        await sleep(random.between(0, 40));
        await bridge.kill('SIGKILL');
        bridge = field.startBridge({ spool });
        // Every fourth one has only begun: what it recovers must survive that, too.
        if (kill % 4 === 0 && kill < kills) {
          await sleep(random.between(100, 600));
          await bridge.kill('SIGKILL');
          bridge = field.startBridge({ spool });
          kill += 1;
        }
        inStream += 1;
      }
      await loading;
      return [find(`${kills} kills`, await field.settle(), [`${inStream} in the stream, the others at start`])];
    } finally {
      await field.close();
    }
  },
};
