// Log lines for the maker of a device: a message that was not understood, a refused login. A few a minute for each device, however
// many there are; all that is kept of them is in the device's properties and events. Decides and keeps nothing else.
import type { DeviceState } from '../../domain/device/core/state.ts';
import { log } from '../../log.ts';
import { rejectedMessageEvent } from '../../protocol/log-events.ts';

const lineEveryMs = 10_000;

export class DeviceTrouble {
  readonly #deviceId: string;
  readonly #showsText: boolean;
  readonly #linedAtMs = new Map<string, number>();

  /** @param showsText whether a line may hold what the device sent */
  constructor(deviceId: string, showsText: boolean) {
    this.#deviceId = deviceId;
    this.#showsText = showsText;
  }

  note(before: DeviceState | undefined, state: DeviceState, nowMs: number): void {
    if (before === undefined) return;
    const { lastRejected, loginRefusals } = state;
    if (lastRejected !== before.lastRejected && lastRejected !== null) {
      const { action, reason, dropped, text } = lastRejected;
      this.#line(rejectedMessageEvent, { topic: action, reason, dropped, ...(this.#showsText && { text }) }, nowMs);
    }
    const refusal = loginRefusals.at(-1);
    if (loginRefusals !== before.loginRefusals && refusal !== undefined) {
      const { reason, count, address } = refusal;
      this.#line('device login refused', { reason, countInHour: count, address }, nowMs);
    }
  }

  #line(event: string, fields: Record<string, unknown>, nowMs: number): void {
    if (nowMs - (this.#linedAtMs.get(event) ?? -Infinity) < lineEveryMs) return;
    this.#linedAtMs.set(event, nowMs);
    log('info', event, { deviceId: this.#deviceId, ...fields });
  }
}
