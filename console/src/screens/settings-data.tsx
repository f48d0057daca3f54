// The user's own data: the zone of their days, a file with all of it, and the end of the account.
import { ApiError, dataOf, type Client, type Data } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { Dialog } from '../parts/dialog.tsx';
import { Field, Form, Problem, Select, useAction } from '../parts/form.tsx';
import { useRead } from '../parts/read.ts';
import { saveFile } from '../parts/save-file.ts';
import { deleteAccount, session } from '../state/session.ts';
import { texts } from '../texts.ts';
import { accountTexts } from '../texts/account.ts';
import { zoneOptions } from '../times/draft.ts';

const words = accountTexts.data;
type Page = Data<Client['users']['me']['export']['$get']>;
/** If the service does not say how long to wait. */
const usualWaitSeconds = 60;

export function DayZone() {
  const api = session().api.users.me.zone;
  const { value: own, problem } = useRead(() => dataOf(api.$get()));
  if (own.value === null) return <Problem text={problem} />;
  const { zone: value } = own.value;
  const save = async ({ zone = '' }): Promise<void> => {
    own.value = await dataOf(api.$put({ json: { zone } }));
  };
  return (
    <Form submit={words.saveZone} done={words.zoneSaved} onSubmit={save}>
      <Select {...{ label: words.zone, hint: words.zoneHint, name: 'zone', value, options: zoneOptions(value) }} />
    </Form>
  );
}

export function OwnData() {
  const isAsking = useSignal(false);
  const { settings, confirmation } = accountTexts;
  return (
    <section class="card" aria-label={words.title}>
      <h2>{words.title}</h2>
      <p class="hint">{words.hint}</p>
      <Download />
      <h3>{words.remove}</h3>
      <p class="hint">{words.removeHint}</p>
      <button type="button" class="danger" onClick={() => (isAsking.value = true)}>
        {words.remove}
      </button>
      {isAsking.value && (
        <Dialog title={words.remove} onClose={() => (isAsking.value = false)}>
          <p>{words.removeHint}</p>
          <Form
            submit={words.removeConfirm}
            danger
            explain={{ invalid_password: settings.wrongPassword, product_has_devices: words.productInUse }}
            onSubmit={({ password = '' }) => deleteAccount(password)}
          >
            <Field
              {...{ label: confirmation.password, name: 'password', type: 'password', required: true }}
              autoComplete="current-password"
            />
          </Form>
        </Dialog>
      )}
    </section>
  );
}

/** Page by page. After a failure it goes on from there. */
function Download() {
  const pages = useSignal<readonly Page[]>([]);
  const waitSeconds = useSignal(0);
  const { isBusy, error, run } = useAction();
  const isDone = pages.value.at(-1)?.next === null;
  const devices = accountTexts.keys.devices(pages.value.reduce((sum, page) => sum + page.devices.length, 0));
  const download = async (): Promise<void> => {
    // Another user may sign in meanwhile.
    const api = session().api.users.me.export;
    let read = isDone ? [] : pages.value;
    while (read.at(-1)?.next !== null) {
      try {
        read = pages.value = [...read, await dataOf(api.$get({ query: { after: read.at(-1)?.next ?? undefined } }))];
      } catch (failure) {
        if (!(failure instanceof ApiError) || failure.reason !== 'too_many_requests') throw failure;
        waitSeconds.value = failure.retryAfterSeconds ?? usualWaitSeconds;
        await new Promise((resolve) => setTimeout(resolve, waitSeconds.value * 1000));
        waitSeconds.value = 0;
      }
    }
    saveFile(fileOf(read), `latchwork-${new Date().toISOString().slice(0, 10)}.json`);
  };
  return (
    <>
      <button type="button" disabled={isBusy} aria-busy={isBusy} onClick={() => run(download)}>
        {error === '' ? words.download : texts.retry}
      </button>
      <Problem text={error} />
      <p role="status">
        {pages.value.length > 0 && (isDone ? words.saved : words.reading)(devices)}
        {waitSeconds.value > 0 && words.waiting(waitSeconds.value)}
      </p>
    </>
  );
}

/** In parts: one text could be longer than the browser allows. */
function fileOf(pages: readonly Page[]): Blob {
  const devices = pages.flatMap((page) => page.devices.map((device) => JSON.stringify(device)));
  const lines = devices.map((device, index) => (index === 0 ? device : `,\n${device}`));
  return new Blob([`{"account":${JSON.stringify(pages[0]?.account)},"devices":[`, ...lines, ']}\n']);
}
