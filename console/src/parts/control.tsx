// What can be pressed, by the control mode of the product. Shows which position the device reported, and never moves by
// itself when something was only asked for.
import type { ControlBody } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { useId } from 'preact/hooks';
import { texts } from '../texts.ts';
import type { productsTexts } from '../texts/products.ts';

type Mode = keyof typeof productsTexts.products.modes;
type Position = 'up' | 'middle' | 'down';
type Props = {
  mode: Mode;
  reported: Position | null;
  asked: Position | null;
  /** Why nothing can be pressed; empty where it can. */
  disabledBecause: string;
  onPress: (body: ControlBody) => void;
};

const positions: readonly Position[] = ['up', 'middle', 'down'];
const parts: Record<Mode, readonly ('toggle' | 'pulse' | 'trigger' | 'angle')[]> = {
  toggle: ['toggle'],
  pulse: ['pulse', 'trigger'],
  dimmer: ['angle'],
  readonly: [],
  generic: ['toggle', 'pulse', 'trigger', 'angle'],
};

export function Control({ mode, reported, asked, disabledBecause, onPress }: Props) {
  const id = useId();
  const isDisabled = disabledBecause !== '';
  const shown = parts[mode];
  if (shown.length === 0) return <p class="notice">{texts.device.readOnly}</p>;
  return (
    <fieldset class="control" disabled={isDisabled} aria-describedby={isDisabled ? id : undefined}>
      <legend class="hidden">{texts.device.control}</legend>
      {shown.includes('toggle') && (
        <div class="segments">
          {positions.map((position) => (
            <button
              key={position}
              type="button"
              aria-pressed={reported === position}
              class={asked === position && reported !== position ? 'asked' : undefined}
              onClick={() => onPress({ action: 'toggle', position })}
            >
              {texts.position[position]}
            </button>
          ))}
        </div>
      )}
      {shown.includes('pulse') && <Pulse onPress={onPress} />}
      {shown.includes('trigger') && (
        <button type="button" class="primary" onClick={() => onPress({ action: 'trigger' })}>
          {texts.device.trigger}
        </button>
      )}
      {shown.includes('angle') && <Angle onPress={onPress} />}
      {isDisabled && (
        <p id={id} class="hint">
          {disabledBecause}
        </p>
      )}
    </fieldset>
  );
}

function Pulse({ onPress }: { onPress: Props['onPress'] }) {
  const id = useId();
  const duration = useSignal(500);
  return (
    <div class="with-value">
      <label for={id}>{texts.device.pulseDuration}</label>
      <input
        id={id}
        type="number"
        min={1}
        max={60_000}
        value={duration}
        onInput={(event) => (duration.value = Number(event.currentTarget.value))}
      />
      <button type="button" class="primary" onClick={() => onPress({ action: 'pulse', duration: duration.value })}>
        {texts.device.pulse}
      </button>
    </div>
  );
}

function Angle({ onPress }: { onPress: Props['onPress'] }) {
  const id = useId();
  const angle = useSignal(90);
  return (
    <div class="with-value">
      <label for={id}>
        {texts.device.angle}: {angle}
      </label>
      <input
        id={id}
        type="range"
        min={0}
        max={180}
        value={angle}
        onInput={(event) => (angle.value = Number(event.currentTarget.value))}
      />
      <button type="button" class="primary" onClick={() => onPress({ angle: angle.value })}>
        {texts.device.setAngle}
      </button>
    </div>
  );
}
