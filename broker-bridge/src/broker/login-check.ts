// Whether the broker lets this bridge in, tried now and then while it stands by: a wrong password shows before a take-over. Connects
// under a client id of its own, without a session, and leaves at once: it must not touch the session that the active bridge has.
import { randomBytes } from 'node:crypto';
import mqtt, { type IClientOptions } from 'mqtt';
import type { BridgeConfig, MqttConfig } from '../config.ts';
import { runDetached } from '../../../node-service/detached.ts';
import { describeError, type Log } from '../../../node-service/log.ts';
import { connectOptions, unacceptableVersionCodes, type MqttVersion } from './mqtt-connection.ts';

type LoginState = 'unknown' | 'accepted' | 'refused' | 'unreachable';
type Attempt = { state: LoginState; cause: string; refusedCode: number | null };

const firstAfterMs = 1_000;

export function createLoginCheck(config: MqttConfig, { everyMs, username }: BridgeConfig['loginCheck'], log: Log) {
  let state: LoginState = 'unknown';
  let timer: NodeJS.Timeout | undefined;
  /** Differs after each `stop`, so that the result of an attempt from before is ignored. */
  let currentRun: symbol | undefined;
  return { start, stop, readState: () => state };

  function start(): void {
    if (currentRun !== undefined || everyMs === 0) return;
    currentRun = Symbol('run');
    plan(firstAfterMs);
  }

  function stop(): void {
    currentRun = undefined;
    state = 'unknown';
    clearTimeout(timer);
  }

  /** Spread, so that bridges that were started together do not come together. */
  function plan(inMs: number): void {
    timer = setTimeout(() => runDetached(check()), inMs * (0.8 + Math.random() * 0.4)).unref();
  }

  async function check(): Promise<void> {
    const run = currentRun;
    const first = await tryLogin(config.protocol === '3.1.1' ? '3.1.1' : '5');
    // Old brokers refuse the version, or close the connection without an answer.
    const maySpeakOlder =
      config.protocol === 'auto' &&
      (first.state === 'unreachable' || unacceptableVersionCodes.includes(first.refusedCode ?? 0));
    const attempt = maySpeakOlder ? await tryLogin('3.1.1') : first;
    if (run === undefined || run !== currentRun) return;
    note(attempt);
    plan(everyMs);
  }

  function note({ state: newState, cause, refusedCode }: Attempt): void {
    if (newState === state) return;
    state = newState;
    if (state === 'accepted') log.info('the broker would let this standby in');
    else if (state === 'refused') {
      log.error('the broker would not let this standby in', {
        alarm: true,
        cause,
        ...(refusedCode !== null && { refusedCode }),
        remedy:
          'compare MQTT_USERNAME and MQTT_PASSWORD with the account at the broker; for one that is bound to a client id set MQTT_CHECK_USERNAME',
      });
    } else log.warn('this standby does not reach the broker', { cause });
  }

  async function tryLogin(version: MqttVersion): Promise<Attempt> {
    const options: IClientOptions = {
      ...connectOptions(config, version),
      ...(username !== undefined && { username }),
      // A new id each time, so that no check takes over the session of another check.
      clientId: username ?? `latchwork-bridge-check-${randomBytes(6).toString('hex')}`,
      clean: true,
      manualConnect: false,
    };
    // The properties ask for the session to be kept.
    delete options.properties;
    const client = mqtt.connect(config.url, options);
    // Errors after the answer change nothing.
    client.on('error', () => undefined);
    const attempt = await new Promise<Attempt>((resolve) => {
      client.once('connect', () => resolve({ state: 'accepted', cause: '', refusedCode: null }));
      client.once('error', (error) => {
        const code = 'code' in error && typeof error.code === 'number' ? error.code : null;
        resolve({ state: code === null ? 'unreachable' : 'refused', cause: describeError(error), refusedCode: code });
      });
      client.once('close', () => resolve({ state: 'unreachable', cause: 'closed by the broker', refusedCode: null }));
    });
    client.end(attempt.state !== 'accepted');
    return attempt;
  }
}
