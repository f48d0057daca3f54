// The metrics of the Worker, the bridge and the gateway while they work, as Prometheus reads them.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually } from '../../rig/changes.ts';
import { MqttTestClient } from '../../rig/clients/mqtt-client.ts';
import { findFreePort } from '../../rig/ports.ts';
import { promtoolMissing, runPromtool } from '../../rig/promtool.ts';
import { GatewayProcess } from '../../rig/services/processes.ts';
import { WholeService } from '../../rig/services/whole-service.ts';
import { operatorSecret } from '../../rig/worker/worker-rig.ts';

let service: WholeService;
let gateway: GatewayProcess;

beforeAll(async () => {
  service = await WholeService.start({ SCHEDULE_SECONDS: '1' }, { HEALTH_PORT: String(await findFreePort()) });
  gateway = await GatewayProcess.start(service.rig.url);
});
afterAll(async () => {
  await gateway.kill('SIGKILL');
  await service.stop();
});

async function readAll(): Promise<Record<'worker' | 'bridge' | 'gateway', string>> {
  const headers = { Authorization: `Bearer ${operatorSecret}` };
  const worker = await (await fetch(`${service.rig.url}/operator/metrics`, { headers })).text();
  return {
    worker,
    bridge: (await service.bridge!.ask('/metrics')).text,
    gateway: (await gateway.ask('/metrics')).text,
  };
}

/** The sum over all labels that fit. */
function sumOf(text: string, sample: string): number {
  const lines = text.split('\n').filter((line) => line.startsWith(sample) && /^[ {,}]/.test(line.slice(sample.length)));
  return lines.length === 0 ? NaN : lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}

test('reports, their latency, sockets, scheduled jobs and devices that go offline are measured', async () => {
  const { rig } = service;
  const [device, direct] = await rig.activateMany(2);
  const client = await MqttTestClient.ofDevice(rig.mqttUrl, device!);
  await client.tryPublish(device!.topics.propertyPost, { id: '1', params: { position: 'up' } });
  const connected = await MqttTestClient.ofDevice(`mqtt://127.0.0.1:${gateway.port}`, direct!);
  const relay = await rig.watch(device!);
  await rig.untilStatus(device!.deviceId, ({ online, position }) => online && position === 'up');
  let now = await readAll();
  await eventually(
    () => now.worker,
    async () => {
      now = await readAll();
      return (
        sumOf(now.worker, 'latchwork_scheduled_job_age_seconds') < 60 && sumOf(now.bridge, 'bridge_items_total') > 0
      );
    },
  );
  expect(sumOf(now.worker, 'latchwork_relay_sockets')).toBe(1);
  expect(sumOf(now.worker, 'latchwork_devices_gone_offline_total')).toBe(0);
  expect(sumOf(now.bridge, 'bridge_report_seconds_count')).toBeGreaterThan(0);
  expect(sumOf(now.bridge, 'bridge_report_seconds_sum')).toBeLessThan(30);
  expect(sumOf(now.bridge, 'bridge_disk_free_ratio')).toBeGreaterThan(0);
  expect(sumOf(now.bridge, 'bridge_disk_free_ratio')).toBeLessThan(1);
  expect(sumOf(now.gateway, 'gateway_connections')).toBe(1);
  expect(sumOf(now.gateway, 'gateway_connect_seconds_count')).toBe(1);
  await client.leave();
  await connected.leave();
  relay.terminate();
  const isCounted = async () => sumOf((now = await readAll()).worker, 'latchwork_devices_gone_offline_total') === 2;
  await eventually(() => now.worker, isCounted);
});

test('promtool finds no fault in the metrics of Worker, bridge and gateway', async ({ skip }) => {
  skip(promtoolMissing !== null, promtoolMissing ?? '');
  for (const [part, text] of Object.entries(await readAll())) {
    expect({ part, ...runPromtool(['check', 'metrics'], text) }).toEqual({ part, status: 0, output: '' });
  }
});
