// The broker is restarted in order and killed, under load. After a restart in order nothing may be missing. Messages
// that a killed broker had acknowledged and not written to its disk are lost: those numbers are reported, not judged.
import { setTimeout as sleep } from 'node:timers/promises';
import { FaultRig } from '../rig/fault-rig.ts';
import { find, type Context, type Finding, type Scenario } from '../rig/scenario.ts';

const perSecond = 800;
const betweenMs = 1500;
/** Otherwise mosquitto writes its memory down every half an hour, and when it ends in order. */
const savesAtEveryChange = 'autosave_on_changes true\nautosave_interval 1';

export const brokerRestarts: Scenario = {
  name: 'broker-restarts',
  title: 'mosquitto is restarted in order, then killed with SIGKILL, without and with writing at every change',
  run: async (context) => {
    const findings = [
      await restart(context, 'restarted in order', 'SIGTERM', ''),
      await restart(context, 'killed, with autosave at every change', 'SIGKILL', savesAtEveryChange),
    ];
    if (context.isShort) return findings;
    return [...findings, await restart(context, 'killed, as it is by default', 'SIGKILL', '')];
  },
};

async function restart(
  { worker, random, count, isShort }: Context,
  label: string,
  signal: 'SIGTERM' | 'SIGKILL',
  config: string,
): Promise<Finding> {
  const restarts = count(10, 1);
  await using rig = await FaultRig.open(worker, 50, config);
  const bridge = rig.startBridge({ spool: await rig.makeSpool() });
  await bridge.untilBrokerConnected();
  const endLoad = rig.startLoad(perSecond);
  for (let done = 0; done < restarts; done += 1) {
    await sleep((isShort ? 0.3 : 1) * random.between(betweenMs / 2, betweenMs));
    await rig.broker.stop(signal);
    await sleep(random.between(0, 500));
    await rig.broker.startAgain();
    // A broker that forgot the session queues nothing until the bridge has subscribed again.
    await bridge.untilBrokerConnected();
  }
  await endLoad();
  const isReportedOnly = signal === 'SIGKILL';
  const outcome = await rig.finish(isReportedOnly ? count(8, 3) * 1000 : undefined);
  const facts = [`the publisher connected ${rig.publisher.connections} times`];
  return find(`${restarts} times ${label}`, outcome, facts, { isReportedOnly });
}
