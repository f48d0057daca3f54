// The lamp behind a virtual switch, drawn: what a press is for, apart from what the switch says of itself.
import { virtualSwitchTexts } from '../texts/virtual-switch.ts';
import type { VirtualSwitch } from './virtual-switch.ts';

const words = virtualSwitchTexts.lamp;

export function Lamp({ device }: { device: VirtualSwitch }) {
  const { power, isIgnored } = device;
  const isOn = power.value > 0;
  return (
    <div class="lamp" role="group" aria-label={words.title}>
      <svg viewBox="0 0 24 32" role="img" aria-label={isOn ? words.on : words.off}>
        <path d="M8 23 C8 18 3 16 3 10 A9 9 0 0 1 21 10 C21 16 16 18 16 23 Z" class={isOn ? 'bulb lit' : 'bulb'} />
        <path d="M8 26 H16 M9 29 H15" class="cord" />
      </svg>
      <p>
        <span class="caption">{words.title}</span>
        <br />
        <strong>{words.power(isOn ? words.on : words.off, power.value)}</strong>
      </p>
      <button type="button" onClick={() => device.pressLamp()}>
        {words.press}
      </button>
      <label class="check">
        <input
          type="checkbox"
          checked={isIgnored.value}
          onChange={(event) => (isIgnored.value = event.currentTarget.checked)}
        />
        {words.ignores}
      </label>
    </div>
  );
}
