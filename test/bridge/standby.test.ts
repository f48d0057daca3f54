// Several bridges with one broker session between them: the Worker says which one is active.
import { afterEach, describe, expect, test } from 'vitest';
import { linkCloseReasons } from '../../src/protocol/bridge.ts';
import { commandTopic, type Device } from '../../rig/clients/mqtt-client.ts';
import { makeSpoolDir, type BridgeProcess } from '../../rig/services/processes.ts';
import { BridgeRig } from '../../rig/services/bridge-rig.ts';
import { Mosquitto, mosquittoMissing } from '../../rig/brokers/mosquitto.ts';
import { TcpProxy } from '../../rig/clients/tcp-proxy.ts';

describe.skipIf(mosquittoMissing !== null)('with mosquitto', () => {
  const versions = ['5', '3.1.1'];
  let rig: BridgeRig<Mosquitto>;
  let device: Device;
  let first: BridgeProcess;
  let second: BridgeProcess;
  afterEach(() => rig.close());

  async function open(environment: Record<string, string> = {}): Promise<void> {
    rig = await BridgeRig.start(await Mosquitto.start(), environment);
    rig.worker.assignRole = (bridgeId) => (bridgeId === 'bridge-1' ? 'active' : 'standby');
    first = rig.startBridge();
    await rig.worker.untilActive('bridge-1');
    second = rig.startBridge({ BRIDGE_ID: 'bridge-2', SPOOL_DIR: makeSpoolDir() });
    await rig.worker.changes.until('the second bridge', () => rig.worker.bridges.has('bridge-2'));
    device = await rig.connectDevice('d1');
  }

  const countConnects = (bridge: BridgeProcess): number =>
    bridge.lines.filter(({ message }) => message === 'connected to the broker').length;

  const alarmOf = ({ lines }: BridgeProcess) => lines.find(({ alarm }) => alarm === true);

  /** The Worker gives the session to another bridge when pings of the active one are missing. */
  async function untilPingsAreMissed(): Promise<void> {
    const countPings = (): number => rig.worker.bridges.get('bridge-2')?.pings ?? 0;
    const before = countPings();
    await rig.worker.changes.until('two pings of the other bridge', () => countPings() >= before + 2);
  }

  test('a standby keeps away from the broker and refuses commands', async () => {
    await open();
    rig.worker.publish({ id: 'c1', topic: commandTopic('d1') }, 'bridge-2');
    expect(await rig.worker.answerTo('c1')).toMatchObject({ type: 'not-published', reason: 'standby' });
    await rig.worker.untilEffects(...(await device.reportMany(0, 20)));
    expect(countConnects(second)).toBe(0);
  });

  test('roles change hands without loss, and the former active one leaves the broker', async () => {
    await open();
    const sent = await device.reportMany(0, 50);
    for (let round = 0; round < 4; round += 1) {
      const [from, to] = round % 2 === 0 ? ['bridge-1', 'bridge-2'] : ['bridge-2', 'bridge-1'];
      const reported = device.reportMany(50 + round * 50, 50);
      rig.worker.setRole(from, 'standby');
      rig.worker.setRole(to, 'active');
      sent.push(...(await reported));
      await rig.worker.untilActive(to);
      await rig.worker.changes.until('left', () => !rig.worker.bridges.get(from)!.isBrokerConnected);
    }
    await rig.worker.untilEffects(...sent);
  });

  test.each(versions)(
    'MQTT %s: one that was frozen while another took over does not bring what the other has brought',
    async (version) => {
      await open({ MQTT_PROTOCOL: version });
      const sent = await device.reportMany(0, 20);
      await rig.worker.untilEffects(...sent);
      first.child.kill('SIGSTOP');
      sent.push(...(await device.reportMany(20, 200)));
      await untilPingsAreMissed();
      rig.worker.assignRole = (bridgeId) => (bridgeId === 'bridge-2' ? 'active' : 'standby');
      rig.worker.bridges.get('bridge-1')!.socket.terminate();
      rig.worker.setRole('bridge-2', 'active');
      await rig.worker.untilActive('bridge-2');
      await rig.worker.untilEffects(...sent);
      first.child.kill('SIGCONT');
      await rig.worker.changes.until('back', () => rig.worker.bridges.get('bridge-1')?.role === 'standby');
      sent.push(...(await device.reportMany(220, 20)));
      await rig.worker.untilEffects(...sent);
      expect(rig.worker.effects.length).toBe(sent.length);
    },
    // The wait for pings alone takes up to ten seconds.
    60_000,
  );

  test.each(versions)(
    'MQTT %s: an active one that lost its link does not fight for the session that another was given',
    async (version) => {
      await open({ MQTT_PROTOCOL: version });
      // The first bridge cannot reach the Worker any more; the Worker promotes the second.
      rig.worker.isLinkRefusedFor = 'bridge-1';
      rig.worker.bridges.get('bridge-1')!.socket.terminate();
      rig.worker.assignRole = (bridgeId) => (bridgeId === 'bridge-2' ? 'active' : 'standby');
      rig.worker.setRole('bridge-2', 'active');
      await rig.worker.untilActive('bridge-2');
      const sent = await device.reportMany(0, 50);
      await rig.worker.untilEffects(...sent);
      const connectsBefore = [countConnects(first), countConnects(second)];
      const refusals = (): number => first.lines.filter(({ message }) => message === 'no link to the Worker').length;
      const refusalsBefore = refusals();
      await first.changes.until('two more attempts to reach the Worker', () => refusals() >= refusalsBefore + 2);
      expect(rig.worker.bridges.get('bridge-2')!.isBrokerConnected).toBe(true);
      expect([countConnects(first), countConnects(second)]).toEqual(connectsBefore);
      rig.worker.isLinkRefusedFor = null;
      await rig.worker.changes.until('back', () => rig.worker.bridges.get('bridge-1')?.role === 'standby');
      expect(rig.worker.bridges.get('bridge-1')!.isBrokerConnected).toBe(false);
    },
  );

  test('one whose place another process takes leaves the broker and stands back, with an alarm', async () => {
    await open();
    rig.worker.closeLink('bridge-1', linkCloseReasons.replaced);
    await first.changes.until('the alarm', () => alarmOf(first) !== undefined);
    expect(alarmOf(first)).toMatchObject({ message: 'no link to the Worker', retryInMs: 60_000 });
    expect(alarmOf(first)?.['remedy']).toContain('BRIDGE_ID');
    await first.changes.until('it leaves the broker', () => !first.isBrokerConnected);
    expect(first.hasExited).toBe(false);
  });

  test('one whose session a stranger takes stands back, with an alarm', async () => {
    rig = await BridgeRig.start(await Mosquitto.start());
    const proxy = await TcpProxy.start(rig.broker.port);
    const only = rig.startBridge({ MQTT_URL: `mqtt://127.0.0.1:${proxy.port}` });
    await only.untilReady();
    // DISCONNECT, session taken over. mosquitto sends it from a later version than Debian's on (v2.0.20, handle_connect.c).
    proxy.endClientsWith(Uint8Array.of(0xe0, 0x02, 0x8e, 0x00));
    await only.changes.until('the alarm', () => alarmOf(only) !== undefined);
    expect(alarmOf(only)?.message).toBe('a stranger has the session with the broker: standing back');
    expect(alarmOf(only)?.['retryInMs']).toBe(60_000);
    expect(countConnects(only)).toBe(1);
    await proxy.stop();
  });

  test.each([linkCloseReasons.id_in_use, linkCloseReasons.other_session])(
    'one that the Worker does not let in does not start: %s',
    async (reason) => {
      await open();
      rig.worker.closesLinksWith = reason;
      const third = rig.startBridge({ SPOOL_DIR: makeSpoolDir() });
      expect(await third.untilExit()).toBe(2);
      expect(alarmOf(third)?.message).toBe('the Worker does not let this bridge in');
      expect(alarmOf(third)?.['remedy']).toMatch(/BRIDGE_ID|MQTT_CLIENT_ID/);
      expect(countConnects(third)).toBe(0);
    },
  );

  test('one that was let in before keeps running and tries again later', async () => {
    await open();
    rig.worker.closesLinksWith = linkCloseReasons.id_in_use;
    rig.worker.bridges.get('bridge-1')!.socket.terminate();
    await first.changes.until('the alarm', () => alarmOf(first) !== undefined);
    expect(alarmOf(first)).toMatchObject({ message: 'no link to the Worker', retryInMs: 60_000 });
    expect(first.isBrokerConnected).toBe(true);
  });
});
