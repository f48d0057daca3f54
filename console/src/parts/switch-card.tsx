// The virtual switch of a device, drawn: what the thing on the wall does, apart from what the service says of it.
import { texts } from '../texts.ts';
import { virtualSwitchTexts } from '../texts/virtual-switch.ts';
import type { Position } from '../switch/moves.ts';
import type { VirtualSwitch } from '../switch/virtual-switch.ts';
import { updateFaults, type UpdateFault } from '../switch/updates.ts';
import { Lamp } from '../switch/lamp.tsx';
import { Action } from './form.tsx';

const words = virtualSwitchTexts;
const leverAt: Record<Position, number> = { up: 24, middle: 50, down: 76 };
const faults = [
  ['isSlow', words.slow],
  ['isLying', words.lie],
  ['isRefusing', words.refuse],
] as const;
const positions: readonly Position[] = ['up', 'middle', 'down'];

export function SwitchCard({ device, status }: { device: VirtualSwitch; status: string }) {
  const connection = device.connection.value;
  const isPlugged = connection !== 'unplugged';
  const { position } = device.lever.value;
  if (connection === 'elsewhere') {
    return (
      <section class="card" aria-label={words.title}>
        <h2>{words.title}</h2>
        <p role="status">{words.connection.elsewhere}</p>
      </section>
    );
  }
  return (
    <section class="card switch" aria-label={words.title}>
      <svg viewBox="0 0 100 124" role="img" aria-label={words.drawn(texts.position[position])}>
        <rect x="14" y="4" width="72" height="96" rx="10" class="plate" />
        <rect x="36" y="14" width="28" height="76" rx="8" class="slot" />
        <rect x="30" y={leverAt[position] - 11} width="40" height="22" rx="6" class="lever" />
        <path d="M50 100 V116" class={isPlugged ? 'cord' : 'cord pulled'} />
        <circle cx="50" cy="118" r="4" class={connection} />
      </svg>
      <div>
        <h2>{words.title}</h2>
        <p class="hint">{words.hint}</p>
        <p role="status">
          <strong>{words.connection[connection]}</strong>
          {connection === 'unplugged' && (
            <span class="hint"> {status === 'online' ? words.notNoticed : words.noticed}</span>
          )}
        </p>
        <span class="caption">{words.byHand}</span>
        <div class="segments" role="group" aria-label={words.byHand}>
          {positions.map((one) => (
            <button
              key={one}
              type="button"
              aria-label={words.handTo(texts.position[one])}
              aria-pressed={one === position}
              onClick={() => device.moveByHand(one)}
            >
              {texts.position[one]}
            </button>
          ))}
        </div>
        {faults.map(([fault, label]) => (
          <label key={fault} class="check">
            <input
              type="checkbox"
              checked={device[fault].value}
              onChange={(event) => (device[fault].value = event.currentTarget.checked)}
            />
            {label}
          </label>
        ))}
        <label>
          {words.nextUpdate(device.version.value)}
          <select
            value={device.updateFault.value}
            onChange={({ currentTarget }) => (device.updateFault.value = currentTarget.value as UpdateFault['name'])}
          >
            {updateFaults.map((fault) => (
              <option key={fault} value={fault}>
                {words.updateFaults[fault]}
              </option>
            ))}
          </select>
        </label>
        <Lamp device={device} />
        {isPlugged ? (
          <button type="button" class="danger" onClick={() => device.pullPlug()}>
            {words.pull}
          </button>
        ) : (
          <Action label={words.plug} kind="primary" onPress={() => device.plugIn()} />
        )}
      </div>
    </section>
  );
}
