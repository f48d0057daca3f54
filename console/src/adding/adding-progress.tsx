// How far a device has come while it is set up, what went wrong, and what to do about it.
import { goTo, hrefOf } from '../router.ts';
import type { DeviceAdding } from '../state/adding.ts';
import { texts } from '../texts.ts';
import { addingTexts } from '../texts/adding.ts';

const words = addingTexts.add;
const shownSteps = ['connecting', 'sendingConfig', 'waitingWifi', 'wifiConnected', 'activating'] as const;

export function AddingProgress({ adding }: { adding: DeviceAdding }) {
  const state = adding.state.value;
  if (state.step === 'idle') return null;
  if (state.step === 'activated') return <Added deviceId={state.deviceId} />;
  if (state.step === 'error') {
    const { title, advice } = words.problems[state.problem];
    return (
      <div class="notice bad" role="alert">
        <p>
          <strong>{title}</strong>
        </p>
        {state.detail !== '' && <p>{words.said(state.detail)}</p>}
        <p>{advice}</p>
      </div>
    );
  }
  const at = shownSteps.indexOf(state.step as (typeof shownSteps)[number]);
  return (
    <div class="adding">
      <p role="status">
        <strong>{words.steps[state.step]}</strong>
      </p>
      {state.step === 'choosing' ? (
        <p class="hint">{words.choosingHint}</p>
      ) : (
        <>
          <progress max={100} value={state.percent} aria-label={words.progress} />
          <ol class="checklist">
            {shownSteps.map((step, index) => (
              <li key={step} class={index < at ? 'done' : index === at ? 'now' : undefined}>
                {words.steps[step]}
              </li>
            ))}
          </ol>
          {state.hasLostLink && <p class="hint">{words.linkLost}</p>}
        </>
      )}
      <button type="button" onClick={() => adding.cancel()}>
        {texts.device.cancel}
      </button>
    </div>
  );
}

export function Added({ deviceId }: { deviceId: string }) {
  return (
    <div class="notice good">
      <p role="status">
        <strong>{words.added}</strong>
      </p>
      <p>
        <a class="button primary" href={hrefOf({ screen: 'device', deviceId })}>
          {words.open}
        </a>{' '}
        <button type="button" onClick={() => goTo({ screen: 'devices' })}>
          {texts.device.back}
        </button>
      </p>
    </div>
  );
}
