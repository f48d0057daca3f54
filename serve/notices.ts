// What a server tells its surroundings while it runs: systemd that it is ready and alive (sd_notify), and the operator if more files have
// to be open than the machine allows. Changes nothing.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describeFailure } from '../rig/clients/api.ts';
import { log } from './log-lines.ts';

/** A quarter of WatchdogSec in the unit. */
const watchEveryMs = Number(process.env['WATCHDOG_USEC'] ?? 120e6) / 4_000;
const filesEveryMs = 3_600_000;
/** workerd has a socket and the database of each connected device open: 3 362 files were measured with 1 000 devices. */
const filesPerDevice = 3.5;
const filesBeside = 500;
const noteSilence = (error: unknown): void => log('warn', 'worker_silent', { error: describeFailure(error) });

/** Does nothing without systemd. Node has no sockets of that kind: systemd's own command sends it. */
export function tellSystemd(...states: string[]): void {
  if (process.env['NOTIFY_SOCKET'] === undefined) return;
  execFile('systemd-notify', states, (error) => {
    if (error !== null) log('warn', 'systemd_not_told', { error: error.message });
  });
}

/** Until the process ends. systemd restarts a server whose Worker does not answer (WatchdogSec). */
export function watchServer(url: string, operatorSecret: string): void {
  const headers = { Authorization: `Bearer ${operatorSecret}` };
  const ask = (path: string) => fetch(url + path, { headers, signal: AbortSignal.timeout(watchEveryMs) });
  const look = () => ask('/health').then(() => tellSystemd('WATCHDOG=1'), noteSilence);
  const count = () => ask('/operator/metrics').then((response) => response.text().then(checkFiles), noteSilence);
  setInterval(() => void look(), watchEveryMs).unref();
  setInterval(() => void count(), filesEveryMs).unref();
  void count();
}

/** Node has raised the soft limit to the hard one, and all parts inherit it. */
function checkFiles(metrics: string): void {
  const counts = metrics.matchAll(/^latchwork_devices\{.*\} (\d+)$/gm);
  const devices = Array.from(counts, ([, count]) => Number(count)).reduce((sum, count) => sum + count, 0);
  const need = filesBeside + Math.ceil(filesPerDevice * devices);
  const limit = Number(/^Max open files +\d+ +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? Infinity);
  if (limit >= need) return;
  const remedy = `set LimitNOFILE=${need} in the unit, ulimits.nofile of the container, or ulimit -n`;
  log('error', 'open_files_limit_too_low', { alarm: true, limit, need, devices, remedy });
}
