// The On/Off cluster of a bridged switch. A command succeeds only if a report of the device showed it; otherwise the controller
// gets an error and the attribute stays. Has no timers: a time-limited On is a lease of the service.
import './matter-environment.ts';
import { BridgedDeviceBasicInformationServer } from '@matter/main/behaviors/bridged-device-basic-information';
import type { OnOff } from '@matter/main/clusters/on-off';
import { OnOffPlugInUnitDevice, OnOffPlugInUnitRequirements } from '@matter/main/devices/on-off-plug-in-unit';
import { Status, StatusResponseError } from '@matter/main/types';
import { describeError } from '../../node-service/log.ts';
import { Fleet } from './fleet.ts';

class SwitchServer extends OnOffPlugInUnitRequirements.OnOffServer {
  override on(): Promise<void> {
    return this.#press(true);
  }

  override off(): Promise<void> {
    return this.#press(false);
  }

  override toggle(): Promise<void> {
    return this.#press(!this.state.onOff);
  }

  override offWithEffect(): Promise<void> {
    return this.#press(false);
  }

  override onWithRecallGlobalScene(): Promise<void> {
    return this.#press(true);
  }

  override async onWithTimedOff({ onOffControl, onTime }: OnOff.OnWithTimedOffRequest): Promise<void> {
    if (onOffControl.acceptOnlyWhenOn === true && !this.state.onOff) return;
    // In tenths of a second; 0xffff is for ever.
    await this.#press(true, onTime === 0xffff ? 0 : Math.ceil(onTime / 10));
  }

  /** Writes nothing before the service answered: that would lock the attribute for reports. */
  async #press(isOn: boolean, seconds?: number): Promise<void> {
    const fleet = this.env.get(Fleet);
    try {
      this.state.onOff = await fleet.press(this.endpoint.id, isOn, seconds);
    } catch (error) {
      throw new StatusResponseError(describeError(error), Status.Failure);
    }
  }
}

export const BridgedSwitch = OnOffPlugInUnitDevice.with(BridgedDeviceBasicInformationServer, SwitchServer);
