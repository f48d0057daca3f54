// Devices of the user to choose from, in a form: a box for each, and what belongs to a chosen one.
import { useSignal, type Signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { Field, Problem } from '../parts/form.tsx';
import { useRead } from '../parts/read.ts';
import { mostDevices, nameOf, readDevices, type ListedDevice } from '../state/device-names.ts';
import { texts } from '../texts.ts';
import { groupsTexts } from '../texts/groups.ts';

const words = groupsTexts.form;
type Props = {
  legend: string;
  /** Ids. Those of others may be among them. */
  chosen: Signal<readonly string[]>;
  /** Devices that can be chosen. */
  isOffered?: (device: ListedDevice) => boolean;
  children?: (deviceId: string, device: ListedDevice | undefined) => ComponentChildren;
};
const filterFrom = 10;

export function DevicePicker({ legend, chosen, isOffered = () => true, children }: Props) {
  const { value, problem } = useRead(readDevices);
  const text = useSignal('');
  const devices = value.value;
  if (devices === null) return problem === '' ? <p>{texts.loading}</p> : <Problem text={problem} />;
  const offered = devices.filter(isOffered);
  const others = chosen.value.filter((deviceId) => !devices.some((device) => device.deviceId === deviceId));
  const isFound = (deviceId: string) => nameOf(deviceId).toLowerCase().includes(text.value.trim().toLowerCase());
  const shown = [...offered.map(({ deviceId }) => deviceId), ...others].filter(isFound);
  return (
    <fieldset class="group">
      <legend>{legend}</legend>
      {devices.length === 0 && <p>{words.noDevices}</p>}
      {offered.length >= filterFrom && (
        <Field label={words.filter} hint={words.filterHint} name="filter" onInput={(typed) => (text.value = typed)} />
      )}
      {devices.length >= mostDevices && <p class="hint">{words.cut}</p>}
      <ul class="lines">
        {shown.map((deviceId) => (
          <li key={deviceId} class="option">
            <label class="check">
              <input
                type="checkbox"
                checked={chosen.value.includes(deviceId)}
                onChange={({ currentTarget: { checked } }) => {
                  const rest = chosen.value.filter((id) => id !== deviceId);
                  chosen.value = checked ? [...rest, deviceId] : rest;
                }}
              />
              {nameOf(deviceId)}
            </label>
            {chosen.value.includes(deviceId) &&
              children?.(
                deviceId,
                devices.find((device) => device.deviceId === deviceId),
              )}
          </li>
        ))}
      </ul>
    </fieldset>
  );
}
