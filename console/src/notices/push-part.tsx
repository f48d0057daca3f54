// Whether notices are pushed to this browser, and the button that changes it. A part of the settings.
import { useSignal } from '@preact/signals';
import { Action, Problem } from '../parts/form.tsx';
import { useRead } from '../parts/read.ts';
import { texts } from '../texts.ts';
import { pushTexts as words } from '../texts/telling.ts';
import { isPushPossible, readPushState, startPush, stopPush } from './subscription.ts';

export function PushPart() {
  return (
    <section class="card" aria-label={words.title}>
      <h2>{words.title}</h2>
      {isPushPossible ? <PushButton /> : <p class="hint">{words.impossible}</p>}
    </section>
  );
}

function PushButton() {
  const version = useSignal(0);
  const { value: state, problem } = useRead(readPushState, undefined, version.value);
  if (state.value === null) return problem === '' ? <p>{texts.loading}</p> : <Problem text={problem} />;
  const { publicKey, isOn } = state.value;
  if (publicKey === null) return <p class="hint">{words.notOffered}</p>;
  const change = async (): Promise<void> => {
    await (isOn ? stopPush() : startPush(publicKey));
    version.value += 1;
  };
  return (
    <>
      <p class="hint" role="status">
        {isOn ? words.isOn : words.isOff}
      </p>
      <div class="actions">
        <Action key={String(isOn)} label={isOn ? words.off : words.on} onPress={change} />
      </div>
    </>
  );
}
