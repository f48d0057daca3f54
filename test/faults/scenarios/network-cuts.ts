// Both legs of the bridge are cut under load, together or one at a time: they are reset, or stay open and carry nothing.
import { setTimeout as sleep } from 'node:timers/promises';
import { FaultRig } from '../rig/fault-rig.ts';
import { find, type Scenario } from '../rig/scenario.ts';
import { TcpProxy, type Cut } from '../../../rig/clients/tcp-proxy.ts';

const perSecond = 150;

export const networkCuts: Scenario = {
  name: 'network-cuts',
  title: 'the bridge’s connections to the broker and to the Worker are cut for 1 to 30 s, by reset and by silence',
  run: async ({ worker, random, count, isShort, say }) => {
    const cuts = count(50, 2);
    await using workerLeg = await TcpProxy.start(worker.port);
    await using rig = await FaultRig.open(worker, 50);
    await using brokerLeg = await TcpProxy.start(rig.broker.port);
    const bridge = rig.startBridge({
      spool: await rig.makeSpool(),
      workerUrl: `http://127.0.0.1:${workerLeg.port}`,
      mqttPort: brokerLeg.port,
    });
    await bridge.untilBrokerConnected();
    const endLoad = rig.startLoad(perSecond);
    let secondsCut = 0;
    for (let cut = 1; cut <= cuts; cut += 1) {
      // Both at once makes the bridge wait for half a minute, too long for the short run.
      const legs = isShort
        ? [cut === 1 ? brokerLeg : workerLeg]
        : random.pick([[brokerLeg], [workerLeg], [brokerLeg, workerLeg]] as const);
      const kind = random.pick<Cut>(['reset', 'stall']);
      // Most are short, so that fifty take ten minutes.
      const seconds = isShort ? 1 : random.isBelow(0.3) ? random.between(10, 30) : random.between(1, 9);
      secondsCut += seconds;
      for (const leg of legs) leg.cut(kind);
      await sleep(seconds * 1000);
      for (const leg of legs) leg.heal(kind === 'stall' && random.isBelow(0.5));
      await sleep(isShort ? random.between(100, 600) : random.between(500, 4000));
      if (cut % 10 === 0) say(`${cut} cuts`);
    }
    await endLoad();
    // Objects of the Worker are evicted during a long cut and lose what they had in memory.
    const wanted = { isMemoryKept: false };
    return [find(`${cuts} cuts`, await rig.finish(), [`${secondsCut} s without a leg`], wanted)];
  },
};
