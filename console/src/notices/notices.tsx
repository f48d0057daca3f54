// What the user was told, newest first: a device that is away, a run that did not happen, and the like. "Try again" sends an
// ordinary command.
import { runCommand, type Command, type ControlBody } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { Action } from '../parts/form.tsx';
import { Journey } from '../parts/journey.tsx';
import { Paged, usePagedList } from '../parts/paged.tsx';
import { Title } from '../parts/title.tsx';
import { hrefOf } from '../router.ts';
import { ago, clockTime } from '../state/clock.ts';
import { session } from '../state/session.ts';
import { texts } from '../texts.ts';
import { noticesTexts as words } from '../texts/telling.ts';
import { commandWords } from '../times/sentence.ts';
import { looks, markRead, readNotices, unread, type Notice } from './inbox.ts';
import { sentenceOf } from './sentence.ts';

export function Notices() {
  const list = usePagedList(readNotices, ({ noticeId }) => noticeId);
  const lookedBefore = looks.value;
  /** What becomes of a command stays on the screen, although its notice may be gone. */
  const isTrying = useSignal(false);
  useEffect(() => {
    if (!isTrying.peek() && list.items.peek() !== null) list.refresh();
  }, [lookedBefore]);
  return (
    <main id="content" class="narrow">
      <div class="bar">
        <Title>{texts.notices.title}</Title>
        <Action
          label={words.markAll}
          disabled={unread.value === 0}
          onPress={async () => {
            await markRead();
            await list.reload();
          }}
        />
      </div>
      <Paged
        list={list}
        empty={
          <section class="empty">
            <h2>{words.none}</h2>
            <p>{words.noneHint}</p>
          </section>
        }
      >
        {(notice) => <Row key={notice.noticeId} notice={notice} onTry={() => (isTrying.value = true)} />}
      </Paged>
      <p>
        <a href={hrefOf({ screen: 'settings', tab: 'notices' })}>{words.settings}</a>
      </p>
    </main>
  );
}

function Row({ notice, onTry }: { notice: Notice; onTry: () => void }) {
  const { cause, deviceId, deviceName, at, detail, isRead, again } = notice;
  const webhookId = cause === 'webhook_disabled' ? detail['webhookId'] : undefined;
  return (
    <li class={isRead ? 'card' : 'card unread'}>
      <div class="bar">
        <strong>
          {deviceId !== null && <a href={hrefOf({ screen: 'device', deviceId })}>{deviceName ?? deviceId}</a>}
          {typeof webhookId === 'string' && <a href={hrefOf({ screen: 'webhook', webhookId })}>{words.webhook}</a>}
          {deviceId === null && webhookId === undefined && words.account}{' '}
          {!isRead && <span class="tag">{words.isNew}</span>}
        </strong>
        <time class="hint" dateTime={at} title={clockTime(Date.parse(at))}>
          {ago(Date.parse(at))}
        </time>
      </div>
      <p>{sentenceOf(notice)}</p>
      {deviceId !== null && again !== null && (
        <TryAgain deviceId={deviceId} name={deviceName ?? deviceId} body={again} onTry={onTry} />
      )}
    </li>
  );
}

type TryProps = { deviceId: string; name: string; body: ControlBody; onTry: () => void };

function TryAgain({ deviceId, name, body, onTry }: TryProps) {
  const what = commandWords(body);
  const sent = useSignal<{ command: Command | null; error: unknown } | null>(null);
  const send = async (): Promise<void> => {
    onTry();
    sent.value = { command: null, error: null };
    const onCommand = (command: Command) => (sent.value = { command, error: null });
    try {
      await runCommand(session().api, deviceId, body, { until: 'confirmed', onCommand });
    } catch (error) {
      sent.value = { command: sent.value.command, error };
    }
  };
  return (
    <>
      <Action label={words.again(what)} name={words.againAt(what, name)} onPress={send} />
      {sent.value !== null && <Journey {...sent.value} hasMoved={false} />}
    </>
  );
}
