// The settings of a user, in tabs: the account with its password, sessions and keys; what it is told; its webhooks.
import { dataOf } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { Action, Field, Form, Problem } from '../parts/form.tsx';
import { later } from '../parts/later.tsx';
import { useRead } from '../parts/read.ts';
import { Tabs } from '../parts/tabs.tsx';
import { Title } from '../parts/title.tsx';
import { hrefOf, settingsTabs, type SettingsTab } from '../router.ts';
import { session, signOut } from '../state/session.ts';
import { texts } from '../texts.ts';
import { accountTexts } from '../texts/account.ts';
import { BlockedSenders } from './settings-blocked.tsx';
import { DayZone, OwnData } from './settings-data.tsx';
import { ApiKeys } from './settings-keys.tsx';
import { SecurityEvents } from './settings-security.tsx';
import { Sessions } from './settings-sessions.tsx';

const words = accountTexts.settings;

const NoticeSettings = later(async () => (await import('../notices/notice-settings.tsx')).NoticeSettings);
const Webhooks = later(async () => (await import('../webhooks/webhooks.tsx')).Webhooks);
const Homes = later(async () => (await import('../home/homes.tsx')).Homes);

export function Settings({ tab }: { tab: SettingsTab }) {
  const tabs = settingsTabs.map((name) => ({
    tab: name,
    text: words.tabs[name],
    href: hrefOf({ screen: 'settings', tab: name }),
  }));
  return (
    <main id="content">
      <Title>{words.title}</Title>
      <Tabs label={words.parts} tabs={tabs} open={tab}>
        {tab === 'account' && <AccountTab />}
        {tab === 'notices' && <NoticeSettings />}
        {tab === 'webhooks' && <Webhooks />}
        {tab === 'home' && <Homes />}
      </Tabs>
    </main>
  );
}

function AccountTab() {
  // A changed password ends other sessions and keys.
  const version = useSignal(0);
  return (
    <>
      <Account />
      <Password onChange={() => (version.value += 1)} />
      <Sessions key={`sessions ${version.value}`} />
      <ApiKeys key={`keys ${version.value}`} />
      <BlockedSenders />
      <SecurityEvents />
      <OwnData />
    </>
  );
}

function Account() {
  const { value: account, problem } = useRead(() => dataOf(session().api.users.me.$get()));
  const isSent = useSignal(false);
  const { username = '', email = '', emailVerified = true } = account.value ?? {};
  return (
    <section class="card">
      <div class="bar">
        <div>
          <h2>{words.account}</h2>
          <p>
            {username}
            {email !== username && ` · ${email}`}
          </p>
        </div>
        <Action label={words.signOut} onPress={signOut} />
      </div>
      {!emailVerified && (
        <div class="notice warn">
          <p role="status">
            {isSent.value ? accountTexts.verification.sent(email) : accountTexts.verification.missing}
          </p>
          <Action
            label={accountTexts.verification.send}
            disabled={isSent.value}
            onPress={async () => {
              await dataOf(session().api.users.me['email-verification'].$post());
              isSent.value = true;
            }}
          />
        </div>
      )}
      <Problem text={problem} />
      <DayZone />
    </section>
  );
}

function Password({ onChange }: { onChange: () => void }) {
  const done = useSignal('');
  return (
    <section class="card">
      <h2>{words.password}</h2>
      <Form
        submit={words.password}
        done={done.value}
        explain={{ invalid_password: words.wrongPassword }}
        isEmptied
        onSubmit={async ({ oldPassword = '', newPassword = '' }, form) => {
          const ended = { endSessions: form.has('endSessions'), endKeys: form.has('endKeys') };
          const json = { oldPassword, newPassword, ...ended };
          const { endedSessions, endedKeys } = await dataOf(session().api.users.password.$put({ json }));
          done.value = words.passwordChanged(endedSessions, endedKeys);
          onChange();
        }}
      >
        <div class="pair">
          <Field
            label={words.oldPassword}
            name="oldPassword"
            type="password"
            required
            autoComplete="current-password"
          />
          <Field
            label={words.newPassword}
            hint={texts.signIn.passwordHint}
            name="newPassword"
            type="password"
            required
            autoComplete="new-password"
          />
        </div>
        <label class="check">
          <input type="checkbox" name="endSessions" defaultChecked /> {words.endSessions}
        </label>
        <label class="check">
          <input type="checkbox" name="endKeys" defaultChecked /> {words.endKeys}
        </label>
      </Form>
    </section>
  );
}
