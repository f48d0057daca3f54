// Guest links of a device, for its owner: an address that sends one command, for somebody without an account. Its address is
// shown once.
import { dataOf, type Client, type Data } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { Dialog, Once } from '../parts/dialog.tsx';
import { Action, Field, Form, Select } from '../parts/form.tsx';
import { Paged, usePagedList } from '../parts/paged.tsx';
import { ago, clockTime } from '../state/clock.ts';
import type { Device } from '../state/device.ts';
import { commands, commandsOf, type CommandName } from '../state/fixed-commands.ts';
import { session } from '../state/session.ts';
import { owningTexts } from '../texts/owning.ts';

const words = owningTexts.guestLinks;
type GuestLink = Data<Client['devices'][':deviceId']['guest-links']['$get']>['list'][number];

const hourMs = 3_600_000;
const lives = { hour: hourMs, day: 24 * hourMs, week: 7 * 24 * hourMs, month: 30 * 24 * hourMs } as const;

export function DeviceGuestLinks({ device }: { device: Device }) {
  const { deviceId } = device;
  const api = session().api.devices[':deviceId']['guest-links'];
  const param = { deviceId };
  const list = usePagedList(
    (query) => dataOf(api.$get({ param, query })),
    ({ linkId }) => linkId,
  );
  /** The dialog: the form, or the address of the link that was made. */
  const open = useSignal<'form' | { url: string } | null>(null);
  const offered = commandsOf[device.product.controlMode];
  if (offered.length === 0) return null;
  return (
    <section class="card" aria-label={words.title}>
      <h2>{words.title}</h2>
      <p class="hint">{words.hint}</p>
      <Paged list={list} empty={<p>{words.none}</p>}>
        {(link) => (
          <Row
            key={link.linkId}
            link={link}
            onRevoke={async () => {
              await dataOf(api[':linkId'].$delete({ param: { deviceId, linkId: link.linkId } }));
              await list.reload();
            }}
          />
        )}
      </Paged>
      <button type="button" onClick={() => (open.value = 'form')}>
        {words.make}
      </button>
      {open.value !== null && (
        <Dialog title={open.value === 'form' ? words.make : words.made} onClose={() => (open.value = null)}>
          {open.value === 'form' ? (
            <Form
              submit={words.create}
              onSubmit={async ({ command, life, maxUses = '' }) => {
                const expiresAt = new Date(Date.now() + lives[life as keyof typeof lives]).toISOString();
                const limited = maxUses === '' ? {} : { maxUses: Number(maxUses) };
                const json = { command: commands[command as CommandName], expiresAt, ...limited };
                open.value = { url: (await dataOf(api.$post({ param, json }))).url };
                await list.reload();
              }}
            >
              <Select
                label={words.command}
                name="command"
                value={offered[0] ?? ''}
                options={offered.map((name) => [name, words.commands[name]])}
              />
              <Select label={words.life} name="life" value="day" options={Object.entries(words.lives)} />
              <Field
                label={words.maxUses}
                hint={words.maxUsesHint}
                name="maxUses"
                type="number"
                min={1}
                max={1000}
                value="1"
              />
            </Form>
          ) : (
            <>
              <p>{words.madeHint}</p>
              <Once label={words.address} value={open.value.url} />
            </>
          )}
        </Dialog>
      )}
    </section>
  );
}

function Row({ link, onRevoke }: { link: GuestLink; onRevoke: () => Promise<void> }) {
  const { command, state, uses, maxUses, expiresAt, lastUsedAt } = link;
  const name = describe(command);
  const used = lastUsedAt === null ? '' : ` · ${words.lastUsed(ago(Date.parse(lastUsedAt)))}`;
  const ends = state === 'open' ? words.until(clockTime(Date.parse(expiresAt))) : words.states[state];
  return (
    <li class="item">
      <div>
        <strong>{name}</strong>
        <p class="hint">
          {words.used(uses, maxUses)} · {ends}
          {used}
        </p>
      </div>
      {state === 'open' && <Action label={words.revoke} name={words.revokeOf(name)} onPress={onRevoke} />}
    </li>
  );
}

/** By the name of the form, where it was made with it. */
function describe(command: GuestLink['command']): string {
  const sent = JSON.stringify(command);
  const [name] = Object.entries(commands).find(([, body]) => JSON.stringify(body) === sent) ?? [];
  return name === undefined ? Object.values(command).join(' ') : words.commands[name as keyof typeof commands];
}
