// Where the user is signed in: every session with what used it last, ended one by one or together.
import { dataOf, type Client, type Data } from '@latchwork/client';
import { AskFirst } from '../parts/dialog.tsx';
import { Action } from '../parts/form.tsx';
import { Paged, usePagedList } from '../parts/paged.tsx';
import { ago, clockTime } from '../state/clock.ts';
import { session, signOutEverywhere } from '../state/session.ts';
import { accountTexts } from '../texts/account.ts';

const words = accountTexts.sessions;
type OwnSession = Data<Client['users']['me']['sessions']['$get']>['list'][number];

export function Sessions() {
  const api = session().api.users.me.sessions;
  const list = usePagedList(
    (query) => dataOf(api.$get({ query })),
    ({ sessionId }) => sessionId,
  );
  return (
    <section class="card" aria-label={words.title}>
      <h2>{words.title}</h2>
      <p class="hint">{words.hint}</p>
      <Paged list={list} empty={<p>{words.none}</p>}>
        {(one) => (
          <Row
            key={one.sessionId}
            one={one}
            onEnd={async () => {
              await dataOf(api[':sessionId'].$delete({ param: { sessionId: one.sessionId } }));
              await list.reload();
            }}
          />
        )}
      </Paged>
      <div class="actions">
        {list.total.value > 1 && (
          <Action
            label={words.endOthers}
            onPress={async () => {
              await dataOf(api.$delete({ query: { keep: 'current' } }));
              await list.reload();
            }}
          />
        )}
        <AskFirst
          label={words.endAll}
          kind="danger"
          warning={words.endAllWarning}
          confirm={words.endAllConfirm}
          onConfirm={signOutEverywhere}
        />
      </div>
    </section>
  );
}

function Row({ one, onEnd }: { one: OwnSession; onEnd: () => Promise<void> }) {
  const name = one.userAgent === null ? words.unknownClient : describeClient(one.userAgent);
  const [createdAt, lastUsedAt] = [one.createdAt, one.lastUsedAt].map(Date.parse) as [number, number];
  return (
    <li class="item">
      <div title={one.userAgent ?? undefined}>
        <strong>{name}</strong> {one.isCurrent && <span class="tag">{words.current}</span>}
        <p class="hint">
          {words.used(ago(lastUsedAt), one.clientAddress)} · {words.began(clockTime(createdAt))}
        </p>
      </div>
      {!one.isCurrent && <Action label={words.end} name={words.endOf(name)} onPress={onEnd} />}
    </li>
  );
}

const browsers = [
  ['Edge', /\bEdg(e|A|iOS)?\//],
  ['Firefox', /\b(Firefox|FxiOS)\//],
  ['Chrome', /\b(HeadlessChrome|Chrome|CriOS|Chromium)\//],
  ['Safari', /\bSafari\//],
] as const;
const systems = [
  ['Android', /\bAndroid\b/],
  ['iOS', /\b(iPhone|iPad)\b/],
  ['Windows', /\bWindows\b/],
  ['macOS', /\bMac OS X\b/],
  ['Linux', /\bLinux\b/],
] as const;

/** A browser by its usual name; anything else by the first word that it calls itself. */
function describeClient(userAgent: string): string {
  const nameIn = (names: readonly (readonly [string, RegExp])[]) =>
    names.find(([, pattern]) => pattern.test(userAgent))?.[0];
  const [browser, system] = [nameIn(browsers), nameIn(systems)];
  if (browser === undefined) return userAgent.split(' ', 1)[0] ?? userAgent;
  return system === undefined ? browser : words.browserOn(browser, system);
}
