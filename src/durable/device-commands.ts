// Commands to one device: published once, by the broker link, and seen by the relay subscribers of property/set.
// Never repeats one and never keeps one for later.
import { createId } from '../crypto/secrets.ts';
import { encodeControl, type ControlParams } from '../domain/control-command.ts';
import type { Outcome } from '../domain/errors.ts';
import { propertySet, topicOf } from '../domain/topics.ts';
import type { DeviceState } from './device-state.ts';
import { pushToRelays } from './relay-push.ts';
import { brokerLink } from './stubs.ts';

export type CommandReceipt = { commandId: string; deviceOnline: boolean };

/** A bridge or broker that has not taken a command by then never will. The caller hears of it half a second later. */
const publishWithinMs = 4_500;

export class DeviceCommands {
  readonly #ctx: DurableObjectState;
  readonly #env: Env;
  readonly #state: DeviceState;

  constructor(ctx: DurableObjectState, env: Env, state: DeviceState) {
    this.#ctx = ctx;
    this.#env = env;
    this.#state = state;
  }

  /** Answers when the broker has the command. */
  async send(params: ControlParams): Promise<Outcome<CommandReceipt>> {
    const { record, live } = this.#state;
    if (record.isDisabled) return { ok: false, error: 'device_disabled' };
    if (record.controlMode === 'readonly') return { ok: false, error: 'forbidden' };
    const nowMs = Date.now();
    const commandId = createId('', 16);
    const topic = topicOf(record, propertySet);
    const payload = encodeControl(params, commandId, nowMs);
    const outcome = await brokerLink(this.#env).publish({ topic, payload, expiresAtMs: nowMs + publishWithinMs });
    if (!outcome.ok) return { ok: false, error: 'broker_unavailable' };
    const message = { deviceId: record.deviceId, topic, payload };
    this.#ctx.waitUntil(pushToRelays(this.#env, [{ message, listeners: live.listeners }]));
    return { ok: true, value: { commandId, deviceOnline: live.presence.isOnline } };
  }
}
