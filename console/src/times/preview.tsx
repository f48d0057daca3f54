// The next runs of a schedule that is not saved yet, as the service computes them.
import { previewSchedule, type DueTime, type ScheduleBody } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { describeError, explainReason } from '../errors.ts';
import { session } from '../state/session.ts';
import { timesTexts as words } from '../texts/times.ts';
import { momentOf } from './sentence.ts';

/** What is typed counts once the typing rests. */
const restMs = 300;

/** @param draft null while the form is not filled in */
export function Preview({ deviceId, draft }: { deviceId: string; draft: ScheduleBody | null }) {
  const list = useSignal<readonly DueTime[]>([]);
  const problem = useSignal('');
  const isComputed = useSignal(false);
  const typed = JSON.stringify(draft);
  useEffect(() => {
    isComputed.value = false;
    let isOld = false;
    const read = async (json: ScheduleBody): Promise<void> => {
      const next = await previewSchedule(session().api, deviceId, json);
      if (isOld) return;
      list.value = next;
      problem.value = '';
      isComputed.value = true;
    };
    const timer = setTimeout(() => {
      if (draft !== null) read(draft).catch((error: unknown) => (problem.value = describeError(error)));
    }, restMs);
    return () => {
      isOld = true;
      clearTimeout(timer);
    };
  }, [typed]);
  return (
    <section class="preview" aria-label={words.form.preview} aria-live="polite">
      <h3>{words.form.preview}</h3>
      {problem.value !== '' && <p class="problem">{problem}</p>}
      {draft === null && <p class="hint">{words.form.noPreview}</p>}
      {isComputed.value && list.value.length === 0 && <p class="hint">{words.noNext}</p>}
      <ol class="plain">
        {isComputed.value &&
          list.value.map(({ dueAt, why, skipped }) => (
            <li key={dueAt}>
              {skipped === null ? momentOf(dueAt, draft?.zone) : <s>{momentOf(dueAt, draft?.zone)}</s>}{' '}
              <small>{why ?? (skipped === null ? '' : explainReason(skipped, words.reasons))}</small>
            </li>
          ))}
      </ol>
    </section>
  );
}
