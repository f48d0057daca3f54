// A run of commands, live: what became of each device, one under the other.
import { useEffect, useMemo } from 'preact/hooks';
import type { ComponentChildren } from 'preact';
import { describeError, explainReason } from '../errors.ts';
import { Action, Problem } from '../parts/form.tsx';
import { Steps } from '../parts/journey.tsx';
import { isUnproven } from '../parts/status.tsx';
import { hrefOf } from '../router.ts';
import { nameOf } from '../state/device-names.ts';
import { texts } from '../texts.ts';
import { runTexts as words } from '../texts/groups.ts';
import { RunView, type Run, type RunItem } from './run-view.ts';

type Props = { bulkId: string; title?: string; children?: (run: Run) => ComponentChildren };

/** @param children what else is true of the run, such as whether a scene is complete */
export function RunPart({ bulkId, title = words.title, children }: Props) {
  const view = useMemo(() => new RunView(bulkId), [bulkId]);
  useEffect(() => () => view.end(), [view]);
  const run = view.run.value;
  const error = view.error.value;
  return (
    <section class="card run" aria-label={title}>
      <h2>{title}</h2>
      <Problem text={error === null ? '' : describeError(error, words.explain)} />
      {run === null && error === null && <p>{texts.loading}</p>}
      {run !== null && (
        <>
          <div class="bar">
            <p role="status">
              <strong>{words.states[run.state]}</strong> {words.summary(countsOf(run.summary), run.total)}
            </p>
            {run.state !== 'settled' && (
              <Action
                label={run.state === 'paused' ? words.resume : words.pause}
                onPress={() => view.pause(run.state !== 'paused')}
              />
            )}
          </div>
          {run.state === 'paused' && <p class="hint">{words.pausedHint}</p>}
          {children?.(run)}
          <Items list={view.items.value} />
          {run.scene !== null && run.scene.putBack.length > 0 && (
            <section aria-label={words.putBack}>
              <h3>{words.putBack}</h3>
              <Items list={run.scene.putBack} />
            </section>
          )}
          {view.hasMore && <Action label={texts.more} onPress={() => view.readMore()} />}
        </>
      )}
    </section>
  );
}

function Items({ list }: { list: readonly RunItem[] }) {
  return (
    <ul class="plain">
      {list.map((item) => (
        <li key={item.deviceId} class="item">
          <div>
            <a href={hrefOf({ screen: 'device', deviceId: item.deviceId })}>{nameOf(item.deviceId)}</a>
            <br />
            <span class={`outcome ${kindOf(item)}`}>
              {[words.outcomes[item.outcome], whyOf(item)].filter(Boolean).join(': ')}
            </span>
          </div>
          {item.command !== null && <Steps command={item.command} />}
        </li>
      ))}
    </ul>
  );
}

function countsOf(summary: Run['summary']): string {
  const outcomes = Object.keys(words.outcomes) as (keyof typeof words.outcomes)[];
  return outcomes
    .flatMap((outcome) => (summary[outcome] ? [words.count(summary[outcome], words.outcomes[outcome])] : []))
    .join(', ');
}

function kindOf({ outcome, command }: RunItem): 'good' | 'bad' | 'open' {
  if (outcome === 'waiting' || outcome === 'under_way' || (command !== null && isUnproven(command))) return 'open';
  return outcome === 'confirmed' || outcome === 'acknowledged' || outcome === 'would_take' ? 'good' : 'bad';
}

function whyOf({ reason, command }: RunItem): string {
  const code = command?.state === 'failed' ? command.replyCode : null;
  if (code !== null) return texts.command.errorReply(code);
  return reasonWords(reason ?? '');
}

/** Of a command, of a refusal, or of the run. */
export function reasonWords(reason: string): string {
  return explainReason(reason, { ...texts.errors.sentences, ...texts.command.reasons, ...words.reasons });
}
