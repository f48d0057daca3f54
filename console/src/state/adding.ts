// Bringing one device onto a network and into the account: the states of the contract (section 3), in their order. The
// network's password passes through and is kept nowhere.
import { signal } from '@preact/signals';
import {
  problemOf,
  type Bluetooth,
  type ConfigProblem,
  type NetworkConfig,
  type Notification,
} from '../bluetooth/contract.ts';
import { chooseDevice, LinkError, openLink, type Link, type LinkProblem } from '../bluetooth/link.ts';
import { describeError } from '../errors.ts';
import { addressWith, makeClaim, waitForDevice, type Claim } from './claim.ts';
import type { DeviceCode } from './device-code.ts';

type Step =
  'idle' | 'choosing' | 'connecting' | 'sendingConfig' | 'waitingWifi' | 'wifiConnected' | 'activating' | 'activated';
export type AddingProblem =
  | LinkProblem
  | ConfigProblem
  /** The connection ended before the device had the configuration. */
  | 'dropped'
  /** The device said error, or nothing for too long: before it had joined the network, or after. */
  | 'wifi_failed'
  | 'wifi_silent'
  | 'activation_failed'
  | 'activation_silent'
  /** It said that it was activated, and the service knows nothing of it. */
  | 'not_here'
  | 'service';
export type Adding =
  | { step: Exclude<Step, 'activated'>; percent: number; hasLostLink: boolean }
  | { step: 'activated'; deviceId: string }
  | { step: 'error'; problem: AddingProblem; detail: string };

/** Firmware tries a network for up to half a minute, some of it twice. */
const patienceMs = 60_000;
/** Its answer comes before the list has it by a moment. */
const confirmWithinMs = 15_000;
/** A token that is about to end is not given to a device. */
const shortestLifeMs = 120_000;

export class DeviceAdding {
  readonly state = signal<Adding>(stateAt('idle'));
  #claim: Claim | null = null;
  #code: DeviceCode | undefined;
  #link: Link | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Ends what an attempt still waits for. */
  #attempt = new AbortController();

  /** Has to be called by a click. @param base address of the service as the device reaches it @param code of its box */
  begin(bluetooth: Bluetooth, network: Omit<NetworkConfig, 'apiUrl'>, base: string, code?: DeviceCode): void {
    this.#stop();
    if (code !== this.#code) this.#claim = null;
    this.#code = code;
    const attempt = (this.#attempt = new AbortController());
    // Its length is that of the real address.
    const problem = problemOf({ ...network, apiUrl: addressWith(base, '0'.repeat(20)) });
    if (problem !== undefined) {
      this.#fail(problem);
      return;
    }
    this.state.value = stateAt('choosing');
    this.#run(bluetooth, network, base, attempt.signal).catch((error: unknown) => {
      if (attempt.signal.aborted) return;
      if (error instanceof LinkError) this.#fail(error.problem, error.problem === 'cancelled' ? '' : error.message);
      else this.#fail('service', describeError(error));
    });
  }

  /** Gives up, whatever is under way. The device may go on by itself. */
  cancel(): void {
    this.#stop();
    this.state.value = stateAt('idle');
  }

  async #run(
    bluetooth: Bluetooth,
    network: Omit<NetworkConfig, 'apiUrl'>,
    base: string,
    attempt: AbortSignal,
  ): Promise<void> {
    const device = await chooseDevice(bluetooth);
    attempt.throwIfAborted();
    this.state.value = stateAt('connecting');
    const claim = await this.#claimAt(base);
    attempt.throwIfAborted();
    const link = await openLink(device, {
      onNotification: (notification) => !attempt.aborted && this.#hear(notification),
      onLost: () => !attempt.aborted && this.#lose(),
    });
    if (attempt.aborted) link.close();
    attempt.throwIfAborted();
    this.#link = link;
    this.state.value = stateAt('sendingConfig', 10);
    await link.send({ ...network, apiUrl: claim.apiUrl });
    attempt.throwIfAborted();
    // Some devices say that they have received it before the write is answered.
    if (this.#isAt('sendingConfig')) this.state.value = stateAt('waitingWifi', 15);
    if (this.#isAt('waitingWifi')) this.#waitFor(patienceMs, 'wifi_silent');
    const deviceId = await waitForDevice(claim, attempt);
    if (deviceId !== null && !attempt.aborted) this.#finish(deviceId);
  }

  async #claimAt(base: string): Promise<Claim> {
    const kept = this.#claim;
    if (kept !== null && kept.expiresAtMs - Date.now() > shortestLifeMs) {
      return (this.#claim = { ...kept, apiUrl: addressWith(base, kept.token) });
    }
    return (this.#claim = await makeClaim(base, this.#code));
  }

  #hear({ status, message }: Notification): void {
    const hasWifi = this.#isAt('wifiConnected') || this.#isAt('activating');
    switch (status) {
      case 'received':
        this.state.value = stateAt('waitingWifi', 20);
        this.#waitFor(patienceMs, 'wifi_silent');
        break;
      case 'wifi_connected':
        this.state.value = stateAt('wifiConnected', 60);
        this.#waitFor(patienceMs, 'activation_silent');
        break;
      case 'activated':
        this.state.value = stateAt('activating', 90);
        this.#waitFor(confirmWithinMs, 'not_here');
        break;
      case 'error':
        this.#fail(hasWifi ? 'activation_failed' : 'wifi_failed', message);
    }
  }

  /** A device that joins a network may leave Bluetooth for it: once it has the configuration the service will tell. */
  #lose(): void {
    if (this.#isAt('connecting') || this.#isAt('sendingConfig')) {
      this.#fail('dropped');
      return;
    }
    const state = this.state.peek();
    if (state.step !== 'error' && state.step !== 'activated') this.state.value = { ...state, hasLostLink: true };
  }

  #waitFor(ms: number, problem: AddingProblem): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#fail(this.#hasLostLink() && problem === 'wifi_silent' ? 'dropped' : problem);
    }, ms);
  }

  #finish(deviceId: string): void {
    this.#stop();
    this.#claim = null;
    this.state.value = { step: 'activated', deviceId };
  }

  #fail(problem: AddingProblem, detail = ''): void {
    this.#stop();
    this.state.value = { step: 'error', problem, detail };
  }

  #stop(): void {
    this.#attempt.abort();
    clearTimeout(this.#timer);
    this.#link?.close();
    this.#link = null;
  }

  #isAt(step: Step): boolean {
    return this.state.peek().step === step;
  }

  #hasLostLink(): boolean {
    const state = this.state.peek();
    return 'hasLostLink' in state && state.hasLostLink;
  }
}

function stateAt(step: Exclude<Step, 'activated'>, percent = 0, hasLostLink = false): Adding {
  return { step, percent, hasLostLink };
}
