// With whom a device is shared: members and open invitations, for its owner.
import { dataOf, type Client, type Data } from '@latchwork/client';
import { useSignal, type Signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { AskFirst, Dialog } from '../parts/dialog.tsx';
import { Action, Field, Form, Problem, Select, useAction } from '../parts/form.tsx';
import { Paged, usePagedList } from '../parts/paged.tsx';
import { clockTime } from '../state/clock.ts';
import { session } from '../state/session.ts';
import { texts } from '../texts.ts';
import { owningTexts } from '../texts/owning.ts';

const words = owningTexts.members;
type Member = Data<Client['devices'][':deviceId']['members']['$get']>['list'][number];
type Role = Member['role'];
const roles = Object.entries(texts.sharing.roles);

/** @param changes grows with each change of the members */
export function DeviceMembers({ deviceId, changes }: { deviceId: string; changes: Signal<number> }) {
  const api = session().api.devices[':deviceId'];
  const param = { deviceId };
  const members = usePagedList(
    (query) => dataOf(api.members.$get({ param, query })),
    ({ userId }) => String(userId),
  );
  const invitations = usePagedList(
    (query) => dataOf(api.invitations.$get({ param, query })),
    ({ invitationId }) => invitationId,
  );
  const isInviting = useSignal(false);
  useEffect(() => {
    if (changes.value === 0) return;
    members.refresh();
    invitations.refresh();
  }, [changes.value]);
  return (
    <section class="card" aria-label={words.people}>
      <h2>{words.people}</h2>
      <p class="hint">{words.peopleHint}</p>
      <Paged list={members} empty={<p>{words.nobody}</p>}>
        {(member) => (
          <MemberRow key={member.userId} deviceId={deviceId} member={member} onChange={() => members.reload()} />
        )}
      </Paged>
      {invitations.total.value > 0 && <h3>{words.invitations}</h3>}
      <Paged list={invitations} empty={null}>
        {({ invitationId, email, role, expiresAt }) => (
          <li key={invitationId} class="item">
            <div>
              <strong>{email}</strong>
              <p class="hint">
                {texts.sharing.roles[role]} · {words.until(clockTime(Date.parse(expiresAt)))}
              </p>
            </div>
            <Action
              label={words.withdraw}
              name={words.withdrawOf(email)}
              onPress={async () => {
                await dataOf(api.invitations[':invitationId'].$delete({ param: { deviceId, invitationId } }));
                await invitations.reload();
              }}
            />
          </li>
        )}
      </Paged>
      <button type="button" onClick={() => (isInviting.value = true)}>
        {words.invite}
      </button>
      {isInviting.value && (
        <Dialog title={words.invite} onClose={() => (isInviting.value = false)}>
          <p class="hint">{words.inviteHint}</p>
          <Form
            submit={words.send}
            onSubmit={async ({ email = '', role }) => {
              await dataOf(api.members.$post({ param, json: { email, role: role as Role } }));
              isInviting.value = false;
              await invitations.reload();
            }}
          >
            <Field label={words.email} name="email" type="email" required maxLength={254} autoComplete="off" />
            <Select label={words.role} name="role" value="operator" options={roles} />
          </Form>
        </Dialog>
      )}
    </section>
  );
}

function MemberRow(props: { deviceId: string; member: Member; onChange: () => Promise<void> }) {
  const { deviceId, member, onChange } = props;
  const { userId, email, role, since } = member;
  const { error, run } = useAction();
  const param = { deviceId, userId: String(userId) };
  const api = session().api.devices[':deviceId'].members[':userId'];
  const change = (wanted: string) =>
    run(async () => {
      try {
        await dataOf(api.$patch({ param, json: { role: wanted as Role } }));
      } finally {
        // What the list shows is what the service has, also after a refusal.
        await onChange();
      }
    });
  return (
    <li class="item">
      <div>
        <strong>{email}</strong>
        <p class="hint">{words.since(clockTime(Date.parse(since)))}</p>
        <Problem text={error} />
      </div>
      <div class="actions">
        <select aria-label={words.roleOf(email)} value={role} onChange={(event) => change(event.currentTarget.value)}>
          {roles.map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
        <AskFirst
          label={words.remove}
          name={words.removeOf(email)}
          warning={words.removeWarning}
          confirm={words.remove}
          onConfirm={async () => {
            await dataOf(api.$delete({ param }));
            await onChange();
          }}
        />
      </div>
    </li>
  );
}
