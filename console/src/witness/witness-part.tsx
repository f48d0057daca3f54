// "How do you know it worked?": what sees that a command of the device worked. Sets it up, and tries it.
import { dataOf, type ControlBody } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { describeError } from '../errors.ts';
import { AskFirst, Once } from '../parts/dialog.tsx';
import { Action, Problem } from '../parts/form.tsx';
import { askName, nameOf } from '../state/device-names.ts';
import type { Device, DeviceView } from '../state/device.ts';
import { followFleet, readMessage } from '../state/live.ts';
import { session } from '../state/session.ts';
import { witnessTexts as words } from '../texts/witness.ts';
import { commandWords } from '../times/sentence.ts';
import { WitnessOutcome } from './outcome.tsx';
import { WitnessForm, type Witness } from './witness-form.tsx';

type Props = { view: DeviceView; device: Device; isOnline: boolean };

export function WitnessPart({ view, device, isOnline }: Props) {
  const { deviceId, role } = device;
  const api = session().api.devices[':deviceId'].witness;
  const param = { deviceId };
  const witness = useSignal<Witness | null>(null);
  const problem = useSignal('');
  const isOpen = useSignal(false);
  const link = useSignal<string | null>(null);
  /** The newest command before it was tried. */
  const triedAfter = useSignal<string | null | undefined>(undefined);
  const mayManage = role !== 'viewer';
  const hasWitness = view.actual.value !== undefined;
  useEffect(() => {
    witness.value = null;
    if (!hasWitness) return;
    dataOf(api.$get({ param })).then(
      (found) => (witness.value = found),
      (error: unknown) => (problem.value = describeError(error)),
    );
  }, [hasWitness]);
  const by = witness.value?.by;
  const otherId = by !== undefined && 'operator' in by ? by.deviceId : undefined;
  // What it reports may be what is looked for.
  useEffect(() => {
    if (otherId === undefined) return undefined;
    const onMessage: Parameters<typeof followFleet>[0]['onMessage'] = (message) => {
      if (readMessage(message)?.deviceId === otherId) view.readSoon();
    };
    const subscription = followFleet({ onMessage });
    return () => subscription.end();
  }, [otherId]);
  const found = witness.value;
  const newest = view.commands.value[0] ?? null;
  const body = tryBody(device.product.controlMode, view);
  return (
    <section class="card" aria-label={words.title}>
      <h2>{words.title}</h2>
      <Problem text={problem.value} />
      {found === null ? (
        <p class="hint">{mayManage ? words.hint : words.viewer}</p>
      ) : (
        <p>
          {sentenceOf(found)} <span class="hint">{words.consequences[found.then]}</span>
        </p>
      )}
      {link.value !== null && (
        <>
          <Once label={words.link.title} value={link.value} />
          <Once label={words.link.curl} value={`curl -fsS -X POST "${link.value}"`} />
          <p class="hint">{words.link.hint}</p>
        </>
      )}
      {isOpen.value && (
        <WitnessForm
          deviceId={deviceId}
          witness={found}
          onSave={async (json) => {
            const { checkInUrl = null, ...set } = await dataOf(api.$put({ param, json }));
            link.value = checkInUrl;
            witness.value = set;
            triedAfter.value = undefined;
            isOpen.value = false;
            view.actual.value = set.actual;
          }}
        />
      )}
      {mayManage && (
        <div class="actions">
          {found !== null && !isOpen.value && (
            <Action
              label={words.tryIt(commandWords(body))}
              kind="primary"
              disabled={!isOnline}
              onPress={async () => {
                triedAfter.value = newest?.commandId ?? null;
                await view.press(body);
              }}
            />
          )}
          <button
            type="button"
            class={found === null && !isOpen.value ? 'primary' : undefined}
            onClick={() => (isOpen.value = !isOpen.value)}
          >
            {isOpen.value ? words.cancel : found === null ? words.setUp : words.edit}
          </button>
          {found !== null && !isOpen.value && (
            <AskFirst
              label={words.remove}
              kind="danger"
              warning={words.removeWarning}
              confirm={words.remove}
              onConfirm={async () => {
                await dataOf(api.$delete({ param }));
                link.value = null;
                view.actual.value = undefined;
              }}
            />
          )}
        </div>
      )}
      {triedAfter.value !== undefined && (
        <div class="tried" role="status">
          {newest === null || newest.commandId === triedAfter.value ? (
            <p>{words.trying}</p>
          ) : (
            <WitnessOutcome command={newest} />
          )}
        </div>
      )}
    </section>
  );
}

function sentenceOf({ by, expect, withinSeconds }: Witness): string {
  return words.sentence(words.values[expect], howOf(by), withinSeconds);
}

function howOf(by: Witness['by']): string {
  if ('checkIn' in by) return words.hows.checkIn;
  if (!('operator' in by)) return words.hows.changes(by.property);
  const { deviceId, property, operator, value } = by;
  const is = words.operators[operator];
  if (deviceId === undefined) return words.hows.own(property, is, String(value));
  askName(deviceId);
  return words.hows.other(nameOf(deviceId), property, is, String(value));
}

/** A press that moves something. */
function tryBody(mode: Device['product']['controlMode'], { position, properties }: DeviceView): ControlBody {
  if (mode === 'pulse') return { action: 'pulse' };
  const angle = properties.value?.list.find(({ name }) => name === 'angle')?.value;
  if (mode === 'dimmer') return { angle: Number(angle ?? 0) >= 90 ? 0 : 180 };
  return { action: 'toggle', position: position.value === 'up' ? 'down' : 'up' };
}
