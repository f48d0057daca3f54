// Two bridges with one session at the broker change places under load. The active bridge is killed, leaves in order, or is
// frozen until the other has taken over. It comes back as a standby and brings what its spool still holds.
import { setTimeout as sleep } from 'node:timers/promises';
import type { BridgeProcess } from '../../../rig/services/processes.ts';
import { FaultRig } from '../rig/fault-rig.ts';
import { find, type Scenario } from '../rig/scenario.ts';

const perSecond = 300;
const promotedWithinMs = 30_000;
const ways = ['killed', 'left', 'frozen'] as const;

export const takeOvers: Scenario = {
  name: 'take-overs',
  title: 'the standby takes over from an active bridge that is killed, leaves in order, or is frozen',
  run: async ({ worker, random, count, isShort, say }) => {
    await using rig = await FaultRig.open(worker, 50);
    const spools = [await rig.makeSpool(), await rig.makeSpool()] as const;
    const start = (index: 0 | 1): BridgeProcess =>
      rig.startBridge({ spool: spools[index], environment: { BRIDGE_ID: `bridge-${index + 1}` } });
    const bridges = [start(0), start(1)] as [BridgeProcess, BridgeProcess];
    let active: 0 | 1 = await untilOneIsActive(bridges);
    const endLoad = rig.startLoad(perSecond);
    const slowestMs = { killed: 0, left: 0, frozen: 0 };
    const takeOvers = count(20, 2);
    for (let done = 0; done < takeOvers; done += 1) {
      await untilStandby(bridges[1 - active] as BridgeProcess);
      await sleep(random.between(200, 1500));
      const way = ways[done % (isShort ? 2 : 3)] ?? 'killed';
      const [former, next]: [0 | 1, 0 | 1] = active === 0 ? [0, 1] : [1, 0];
      const startedAtMs = performance.now();
      const leaving = end(bridges[former], way);
      await bridges[next].untilBrokerConnected();
      slowestMs[way] = Math.max(slowestMs[way], performance.now() - startedAtMs);
      await leaving;
      if (way === 'frozen') bridges[former].child.kill('SIGCONT');
      else bridges[former] = start(former);
      active = next;
      if (done % 5 === 4) say(`${done + 1} take-overs`);
    }
    await endLoad();
    const times = Object.entries(slowestMs).map(([way, ms]) => `${way} ${(ms / 1000).toFixed(1)} s`);
    // Messages that a killed bridge acknowledged wait on its disk, while later ones of the device go through the other.
    return [
      find(`${takeOvers} take-overs`, await rig.finish(), [`slowest: ${times.join(', ')}`], { isOrderKept: false }),
    ];
  },
};

async function end(bridge: BridgeProcess, way: (typeof ways)[number]): Promise<void> {
  if (way === 'frozen') bridge.child.kill('SIGSTOP');
  else await bridge.kill(way === 'killed' ? 'SIGKILL' : 'SIGTERM');
}

async function untilOneIsActive(bridges: [BridgeProcess, BridgeProcess]): Promise<0 | 1> {
  while (!bridges.some(({ isBrokerConnected }) => isBrokerConnected)) await sleep(20);
  return bridges[0].isBrokerConnected ? 0 : 1;
}

async function untilStandby(bridge: BridgeProcess): Promise<void> {
  await bridge.changes.until(
    'a bridge that stands by',
    () => {
      const state = bridge.states.at(-1);
      return state?.['role'] === 'standby' && state['broker'] === 'disconnected' && state['link'] === 'connected';
    },
    promotedWithinMs,
  );
}
