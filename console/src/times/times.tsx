// When a device is pressed by itself: its schedules as sentences, and what became of their runs.
import type { Schedule } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { describeError } from '../errors.ts';
import { Dialog } from '../parts/dialog.tsx';
import { Action, Problem } from '../parts/form.tsx';
import type { Device, DeviceView } from '../state/device.ts';
import { texts } from '../texts.ts';
import { timesTexts as words } from '../texts/times.ts';
import { Runs } from './runs.tsx';
import { canBeScheduled, ScheduleForm } from './schedule-form.tsx';
import { limitsOf, momentOf, sentenceOf } from './sentence.ts';
import { Times, type Change } from './times-view.ts';

export function DeviceTimes({ view, device }: { view: DeviceView; device: Device }) {
  const times = useMemo(() => new Times(device.deviceId), []);
  useEffect(() => () => times.end(), []);
  const { value: events } = view.events;
  const eventsBefore = useRef(events);
  // They are read after each message of the device, which may be about a run.
  useEffect(() => {
    if (events !== eventsBefore.current) times.refresh();
    eventsBefore.current = events;
  }, [events]);
  return (
    <div class="columns">
      <Schedules times={times} device={device} />
      <Runs times={times} />
    </div>
  );
}

function Schedules({ times, device }: { times: Times; device: Device }) {
  /** The dialog: a new one, or one that is changed. */
  const open = useSignal<Schedule | 'new' | null>(null);
  const list = times.schedules.value;
  const error = times.error.value;
  const mayManage = device.role !== 'viewer';
  const canAdd = mayManage && device.activatedAt !== null && canBeScheduled(device.product.controlMode);
  return (
    <section class="card" aria-label={words.schedules}>
      <div class="bar">
        <h2>{words.schedules}</h2>
        {canAdd && (
          <button type="button" class="primary" onClick={() => (open.value = 'new')}>
            {words.add}
          </button>
        )}
      </div>
      <Problem text={error === null ? '' : describeError(error)} />
      {list === null && error === null && <p>{texts.loading}</p>}
      {list?.length === 0 && (
        <>
          <p>{words.none}</p>
          <p class="hint">{words.noneHint}</p>
        </>
      )}
      <ul class="plain schedules">
        {list?.map((schedule) => (
          <Row
            key={schedule.scheduleId}
            schedule={schedule}
            times={times}
            mayManage={mayManage}
            onEdit={() => (open.value = schedule)}
          />
        ))}
      </ul>
      {open.value !== null && (
        <Dialog title={open.value === 'new' ? words.add : words.editTitle} onClose={() => (open.value = null)}>
          <ScheduleForm
            times={times}
            mode={device.product.controlMode}
            schedule={open.value === 'new' ? null : open.value}
            onDone={() => (open.value = null)}
          />
        </Dialog>
      )}
    </section>
  );
}

type RowProps = { schedule: Schedule; times: Times; mayManage: boolean; onEdit: () => void };

function Row({ schedule, times, mayManage, onEdit }: RowProps) {
  const { scheduleId, name, pausedBecause, nextDueAt, zone, why } = schedule;
  const isAsking = useSignal(false);
  const sentence = sentenceOf(schedule);
  const change = (to: Change) => () => times.change(scheduleId, to);
  // Without a run to come there is nothing to pause, and nothing that a pause holds back.
  const isOver = nextDueAt === null;
  const next = isOver ? words.noNext : words.next(momentOf(nextDueAt, zone), why);
  const state = isOver || pausedBecause === null ? next : words.paused[pausedBecause];
  const toggle = pausedBecause === 'user' || pausedBecause === 'author_lost_right' ? 'resume' : 'pause';
  return (
    <li class="item">
      <div>
        <strong>{sentence}</strong>
        <p class="hint">{[name, state, ...limitsOf(schedule)].filter((text) => text !== '').join(' · ')}</p>
      </div>
      {mayManage && (
        <div class="actions">
          <Action label={words.run} name={words.runOf(sentence)} onPress={change('run')} />
          {!isOver && <Action label={words[toggle]} name={words[`${toggle}Of`](sentence)} onPress={change(toggle)} />}
          {/* The form has no scenes, and would make another command of it. */}
          {schedule.command.action !== 'scene' && (
            <button type="button" aria-label={words.editOf(sentence)} onClick={onEdit}>
              {words.edit}
            </button>
          )}
          <button type="button" aria-label={words.removeOf(sentence)} onClick={() => (isAsking.value = true)}>
            {words.remove}
          </button>
        </div>
      )}
      {isAsking.value && (
        <Dialog title={words.removeOf(sentence)} onClose={() => (isAsking.value = false)}>
          <p>{words.removeWarning(sentence)}</p>
          <Action label={words.remove} kind="danger" onPress={change('remove')} />
        </Dialog>
      )}
    </li>
  );
}
