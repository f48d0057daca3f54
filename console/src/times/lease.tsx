// A lease: a position for a while, and the one after it. Offered beside the control; a countdown while it runs, and then what is
// known of its end.
import { dataOf } from '@latchwork/client';
import { useEffect } from 'preact/hooks';
import { Action, Field, Form, Select } from '../parts/form.tsx';
import { countdown, nowMs } from '../state/clock.ts';
import type { DeviceView, Lease, Position } from '../state/device.ts';
import { session } from '../state/session.ts';
import { texts } from '../texts.ts';
import { leaseTexts as words } from '../texts/lease.ts';
import { commandWords } from './sentence.ts';

const positions = (['up', 'middle', 'down'] as const).map((position) => [position, texts.position[position]] as const);
const lookAgainMs = 2_000;

type Props = {
  view: DeviceView;
  /** The product has positions, and the device can be pressed now. */
  isOffered: boolean;
  mayEnd: boolean;
};

export function LeasePart({ view, isOffered, mayEnd }: Props) {
  const lease = view.lease.value;
  if (lease !== null) return <Running view={view} lease={lease} isOffered={isOffered} mayEnd={mayEnd} />;
  return isOffered ? <Offer view={view} /> : null;
}

function Offer({ view }: { view: DeviceView }) {
  return (
    <details class="more">
      <summary>{words.offer}</summary>
      <Form
        submit={words.start}
        onSubmit={async ({ first, minutes, then }) => {
          const lease = { seconds: Math.round(Number(minutes) * 60), then: toggleTo(then) };
          await view.press({ ...toggleTo(first), lease });
        }}
      >
        <div class="pair">
          <Select label={words.first} name="first" value="up" options={positions} />
          <Field label={words.minutes} name="minutes" type="number" min={1} max={1440} value="30" required />
          <Select label={words.then} name="then" value="down" options={positions} />
        </div>
      </Form>
    </details>
  );
}

function Running({ view, lease, isOffered, mayEnd }: Props & { lease: Lease }) {
  const { then, state, endsAt, attempts, nextAttemptAt } = lease;
  const endsMs = Date.parse(endsAt);
  const nextMs = nextAttemptAt === null ? null : Date.parse(nextAttemptAt);
  const target = commandWords(then);
  // Each reading is a new lease, or none.
  useEffect(() => {
    const inMs = Math.max(lookAgainMs, (nextMs ?? endsMs) - Date.now() + lookAgainMs / 2);
    const timer = setTimeout(() => view.refresh(), inMs);
    return () => clearTimeout(timer);
  }, [lease]);
  const param = { deviceId: view.deviceId };
  const end = async (): Promise<void> => {
    await dataOf(session().api.devices[':deviceId'].lease.$delete({ param }));
    view.refresh();
  };
  const leftMs = endsMs - nowMs.value;
  const again = nextMs === null ? words.waits : words.again(countdown(nextMs - nowMs.value));
  return (
    <section class={state === 'running' ? 'notice lease' : 'notice warn lease'} aria-label={words.title}>
      {state === 'running' ? (
        <strong role="timer">{leftMs > 0 ? words.running(target, countdown(leftMs)) : words.due(target)}</strong>
      ) : (
        <>
          <strong role="status">{words.pursuing(target)}</strong>
          <p>
            {words.tried(attempts)}
            {again}.
          </p>
        </>
      )}
      <p class="hint">{words.hint}</p>
      {mayEnd && (
        <div class="actions">
          {state === 'running' && isOffered && (
            <Action label={words.end} kind="primary" onPress={() => view.press(then)} />
          )}
          <Action label={state === 'running' ? words.keep : words.stop} onPress={end} />
        </div>
      )}
    </section>
  );
}

function toggleTo(position: string | undefined) {
  return { action: 'toggle', position: position as Position } as const;
}
