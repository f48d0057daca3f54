// What became of the due times, newest first: each has one outcome, and the way of its command while that is kept.
import { dataOf, type Command, type Run } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { describeError, explainReason } from '../errors.ts';
import { Dialog } from '../parts/dialog.tsx';
import { Problem } from '../parts/form.tsx';
import { Journey } from '../parts/journey.tsx';
import { Paged } from '../parts/paged.tsx';
import { clockTime } from '../state/clock.ts';
import { session } from '../state/session.ts';
import { texts } from '../texts.ts';
import { timesTexts as words } from '../texts/times.ts';
import { sentenceOf } from './sentence.ts';
import type { Times } from './times-view.ts';

export function Runs({ times }: { times: Times }) {
  const open = useSignal<Run | null>(null);
  return (
    <section class="card" aria-label={words.runs}>
      <h2>{words.runs}</h2>
      <Paged list={times.runs} empty={<p class="hint">{words.noRuns}</p>}>
        {(run) => <Row key={run.runId} run={run} name={nameOf(run, times)} onOpen={() => (open.value = run)} />}
      </Paged>
      {times.dropped.value > 0 && <p class="hint">{words.dropped(times.dropped.value)}</p>}
      {open.value !== null && open.value.commandId !== null && (
        <Dialog title={nameOf(open.value, times)} onClose={() => (open.value = null)}>
          <Way deviceId={times.deviceId} commandId={open.value.commandId} />
        </Dialog>
      )}
    </section>
  );
}

function Row({ run, name, onOpen }: { run: Run; name: string; onOpen: () => void }) {
  const { outcome, reason, dueAt, commandId } = run;
  const kind = outcome === 'confirmed' ? 'good' : outcome === 'missed' || outcome === 'refused' ? 'bad' : 'open';
  const due = clockTime(Date.parse(dueAt));
  const text = words.outcomes[outcome];
  return (
    <li class="item">
      <div>
        <strong>{name}</strong>
        <p class="hint">{words.due(due)}</p>
        <span class={`outcome ${kind}`}>{reason === null ? text : words.outcome(text, reasonWords(reason))}</span>
      </div>
      {commandId !== null && (
        <button type="button" aria-label={words.wayOf(due)} onClick={onOpen}>
          {words.way}
        </button>
      )}
    </li>
  );
}

function nameOf({ scheduleId, name }: Run, times: Times): string {
  if (scheduleId === 'lease') return words.leaseEnd;
  if (name !== '') return name;
  const schedule = times.schedules.value?.find((other) => other.scheduleId === scheduleId);
  return schedule === undefined ? words.deleted : sentenceOf(schedule);
}

function reasonWords(reason: NonNullable<Run['reason']>): string {
  const [, code] = /^device replied (\d+)$/.exec(reason) ?? [];
  return code === undefined ? explainReason(reason, words.reasons) : texts.command.errorReply(Number(code));
}

/** The command of a run, step by step. */
function Way({ deviceId, commandId }: { deviceId: string; commandId: string }) {
  const command = useSignal<Command | null>(null);
  const problem = useSignal('');
  useEffect(() => {
    const { commands } = session().api.devices[':deviceId'];
    dataOf(commands[':commandId'].$get({ param: { deviceId, commandId } })).then(
      (read) => (command.value = read),
      (error: unknown) => (problem.value = describeError(error, { not_found: words.wayGone })),
    );
  }, []);
  return (
    <>
      <Problem text={problem.value} />
      {command.value === null && problem.value === '' && <p>{texts.loading}</p>}
      {command.value !== null && <Journey command={command.value} hasMoved={false} error={null} />}
    </>
  );
}
