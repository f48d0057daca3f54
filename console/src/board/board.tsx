// Devices as tiles that are pressed without opening the device. A tile shows what the device reported, and what is known of the
// command that was given here.
import type { ControlBody } from '@latchwork/client';
import type { Signal } from '@preact/signals';
import { useId } from 'preact/hooks';
import { describeError } from '../errors.ts';
import { isUnproven, Outcome, PositionText, Status } from '../parts/status.tsx';
import { Window } from '../parts/window.tsx';
import { hrefOf } from '../router.ts';
import { ago, nowMs } from '../state/clock.ts';
import { reportedOf, type DeviceList, type Row } from '../state/device-list.ts';
import { texts } from '../texts.ts';
import { press, pressOf, type Press } from './presses.ts';

const words = texts.board;
type Mode = Row['device']['product']['controlMode'];
/** `target`: what the device reports once it did so. */
type Button = { label: string; body: ControlBody; target?: NonNullable<ReturnType<typeof reportedOf>> };

const positions = (['up', 'middle', 'down'] as const).map((position): Button => ({
  label: texts.position[position],
  body: { action: 'toggle', position },
  target: position,
}));
const buttonsOf: Record<Mode, readonly Button[]> = {
  toggle: positions,
  pulse: [{ label: texts.device.pulse, body: { action: 'pulse' } }],
  dimmer: [0, 90, 180].map((angle) => ({ label: `${angle}°`, body: { angle }, target: angle })),
  readonly: [],
  generic: positions,
};
/** A command that did what it was to do is not news for long. */
const newsForMs = 30_000;

export function Board({ list }: { list: DeviceList }) {
  const rows = list.rows.value;
  return (
    <div class="board">
      <Window
        kind="list"
        count={rows.length}
        item={(index) => <Tile row={rows[index] as Signal<Row>} />}
        onView={(from, to) => list.view(from, to)}
      />
    </div>
  );
}

function Tile({ row }: { row: Signal<Row> }) {
  const { device, status, actual } = row.value;
  const { deviceId, name, product, role } = device;
  const id = useId();
  const buttons = buttonsOf[product.controlMode];
  const last = pressOf(deviceId).value;
  const news = last !== null && isNews(last) ? last : null;
  const why = whyNot(status, role, buttons.length > 0);
  const reported = reportedOf(row.value);
  const asked = news?.error === null ? buttons.find(({ body }) => body === news.body)?.target : undefined;
  return (
    <article class="tile">
      <a href={hrefOf({ screen: 'device', deviceId })} title={name}>
        {name}
      </a>
      <small>{kindOf(device)}</small>
      <div class="states">
        <Status status={status} />
        {(reported !== null || buttons[0]?.target !== undefined) && <PositionText position={reported} />}
        {actual && <small>{words.seen(actual.value, ago(Date.parse(actual.seenAt)))}</small>}
      </div>
      <p id={`${id}-says`} class="says" role="status">
        {news === null ? why : <Says pressed={news} buttons={buttons} />}
      </p>
      {buttons.length > 0 && (
        <fieldset disabled={why !== null} aria-describedby={`${id}-says`}>
          <legend class="hidden">{name}</legend>
          <div class="segments">
            {buttons.map(({ label, body, target }) => (
              <button
                key={label}
                type="button"
                aria-pressed={target === undefined ? undefined : target === reported}
                class={target !== undefined && target === asked && target !== reported ? 'asked' : undefined}
                onClick={() => {
                  press(deviceId, body).catch(
                    (error: unknown) => (pressOf(deviceId).value = { body, command: null, error }),
                  );
                }}
              >
                {label}
              </button>
            ))}
          </div>
        </fieldset>
      )}
    </article>
  );
}

function isNews({ command }: Press): boolean {
  if (command === null || isUnproven(command)) return true;
  const { state, steps } = command;
  const isDone = state === 'acknowledged' || state === 'confirmed';
  return !isDone || nowMs.value - (steps.confirmed ?? steps.deviceAcknowledged ?? 0) <= newsForMs;
}

/** What was asked for, and how far it came. */
function Says({ pressed: { body, command, error }, buttons }: { pressed: Press; buttons: readonly Button[] }) {
  if (error !== null) return <span class="problem">{describeError(error)}</span>;
  const { label } = buttons.find((button) => button.body === body) ?? { label: '' };
  if (command === null) return <>{words.sending(label)}</>;
  return (
    <>
      {label} <Outcome command={command} /> {ago(command.steps.accepted)}
    </>
  );
}

/** Its product, and what it is to the user if somebody else owns it. */
export function kindOf({ product, role }: Row['device']): string {
  const isShared = role === 'operator' || role === 'viewer';
  return isShared ? `${product.name} · ${texts.devices.shared(texts.sharing.roles[role].toLowerCase())}` : product.name;
}

function whyNot(status: Row['status'], role: Row['device']['role'], hasButtons: boolean): string | null {
  if (!hasButtons) return words.readOnly;
  if (role === 'viewer') return words.viewer;
  return status === 'online' ? null : words.away[status];
}
