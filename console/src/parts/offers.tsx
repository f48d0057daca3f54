// What others offer to the user: devices to share, and devices to take over. Looked for when the screen opens, comes back
// into view, and once a minute; shows nothing where there is nothing.
import { dataOf, type Client, type Data } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { describeError } from '../errors.ts';
import { clockTime } from '../state/clock.ts';
import { session } from '../state/session.ts';
import { texts } from '../texts.ts';
import { Action, Problem } from './form.tsx';

const words = texts.offers;
const lookEveryMs = 60_000;
type Invitation = Data<Client['invitations']['$get']>['list'][number];
type Transfer = Data<Client['devices']['transfers']['$get']>['list'][number];

/** @param onAccept called after the user has one more device */
export function Offers({ onAccept }: { onAccept: () => void }) {
  const invitations = useSignal<readonly Invitation[]>([]);
  const transfers = useSignal<readonly Transfer[]>([]);
  const problem = useSignal('');
  const renewal = useSignal('');
  const { api } = session();
  const look = async (): Promise<void> => {
    const query = { page: '1', size: '20' };
    const [invited, offered] = await Promise.all([
      dataOf(api.invitations.$get({ query })),
      dataOf(api.devices.transfers.$get({ query })),
    ]);
    invitations.value = invited.list;
    transfers.value = offered.list;
    problem.value = '';
  };
  useEffect(() => {
    const lookIfSeen = (): void => {
      if (!document.hidden) look().catch((error: unknown) => (problem.value = describeError(error)));
    };
    lookIfSeen();
    const timer = setInterval(lookIfSeen, lookEveryMs);
    addEventListener('visibilitychange', lookIfSeen);
    return () => {
      clearInterval(timer);
      removeEventListener('visibilitychange', lookIfSeen);
    };
  }, []);
  const answer = (call: () => Promise<unknown>, isAccepted: boolean) => async () => {
    await call();
    if (isAccepted) onAccept();
    await look();
  };
  const block = (email: string) =>
    answer(() => dataOf(api.users.me['blocked-senders'].$post({ json: { email } })), false);
  return (
    <>
      <Problem text={problem.value} />
      {renewal.value !== '' && (
        <p class="notice warn" role="status">
          {renewal.value}
        </p>
      )}
      {invitations.value.map(({ invitationId, invitedBy, role, deviceName, expiresAt }) => (
        <section key={invitationId} class="notice" aria-label={words.invitation}>
          <p>
            {words.invites(invitedBy, deviceName, texts.sharing.roles[role])}{' '}
            <small>{words.until(clockTime(Date.parse(expiresAt)))}</small>
          </p>
          <div class="actions">
            <Action
              label={words.accept}
              kind="primary"
              onPress={answer(
                () => dataOf(api.invitations[':invitationId'].accept.$post({ param: { invitationId } })),
                true,
              )}
            />
            <Action
              label={words.decline}
              onPress={answer(
                () => dataOf(api.invitations[':invitationId'].$delete({ param: { invitationId } })),
                false,
              )}
            />
            <Action label={words.block} name={words.blockOf(invitedBy)} onPress={block(invitedBy)} />
          </div>
        </section>
      ))}
      {transfers.value.map(({ deviceId, productName, from, expiresAt }) => (
        <section key={deviceId} class="notice" aria-label={words.transfer}>
          <p>
            {words.offersDevice(from, productName, deviceId)}{' '}
            <small>{words.until(clockTime(Date.parse(expiresAt)))}</small>
          </p>
          <p class="hint">{words.transferHint}</p>
          <div class="actions">
            <Action
              label={words.take}
              kind="primary"
              onPress={answer(async () => {
                const accepted = await dataOf(api.devices[':deviceId'].transfer.accept.$post({ param: { deviceId } }));
                if ('mustRenew' in accepted && accepted.mustRenew) renewal.value = words.mustRenew(deviceId);
              }, true)}
            />
            <Action
              label={words.decline}
              onPress={answer(
                () => dataOf(api.devices[':deviceId'].transfer.decline.$post({ param: { deviceId } })),
                false,
              )}
            />
            <Action label={words.block} name={words.blockOf(from)} onPress={block(from)} />
          </div>
        </section>
      ))}
    </>
  );
}
