// Home Assistant, as a tab of the settings: a button makes an API key for it, and the page says what to type there. Then the keys of
// homes: those whose description begins as the button writes it.
import { dataOf } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { InputError } from '../errors.ts';
import { DevicePicker } from '../groups/picker.tsx';
import { Choice, Field, Form, Problem } from '../parts/form.tsx';
import { useRead } from '../parts/read.ts';
import { KeyRow, type Key } from '../screens/settings-keys.tsx';
import { session } from '../state/session.ts';
import { texts } from '../texts.ts';
import { homeTexts as words } from '../texts/home.ts';
import { HomeValues, type HomeLogin } from './values.tsx';

const descriptionStart = 'Home Assistant';
const mostDevices = 50;

export function Homes() {
  const api = session().api.users['api-keys'];
  const login = useSignal<HomeLogin | null>(null);
  const isBack = useSignal(false);
  const version = useSignal(0);
  const { value: homes, problem } = useRead(readHomes, undefined, version.value);
  const show = (shown: HomeLogin | null): void => {
    isBack.value = shown === null;
    login.value = shown;
    version.value += 1;
  };
  return (
    <>
      {login.value === null ? (
        <Connect isBack={isBack.value} onMade={show} />
      ) : (
        <HomeValues login={login.value} onClose={() => show(null)} />
      )}
      <section class="card" aria-label={words.list}>
        <h2>{words.list}</h2>
        <Problem text={problem} />
        {homes.value === null && problem === '' && <p>{texts.loading}</p>}
        {homes.value?.length === 0 && <p>{words.none}</p>}
        <ul class="plain">
          {homes.value?.map((apiKey) => (
            <KeyRow
              key={apiKey.keyId}
              apiKey={apiKey}
              removal={words}
              onRemove={async () => {
                const { keyId } = await dataOf(api[':keyId'].$delete({ param: { keyId: apiKey.keyId } }));
                show(login.value?.keyId === keyId ? null : login.value);
              }}
            />
          ))}
        </ul>
      </section>
    </>
  );
}

type ConnectProps = {
  /** The values were shown: the focus goes on from its button. */
  isBack: boolean;
  onMade: (login: HomeLogin) => void;
};

function Connect({ isBack, onMade }: ConnectProps) {
  const kind = useSignal<keyof typeof words.kinds>('all');
  const chosen = useSignal<readonly string[]>([]);
  return (
    <section class="card" aria-label={words.title}>
      <h2>{words.title}</h2>
      <p class="hint">{words.hint}</p>
      <Form
        submit={words.connect}
        isFilledIn={isBack}
        explain={words.explain}
        onSubmit={async ({ home = '' }) => {
          const deviceIds = kind.value === 'some' ? [...chosen.value] : null;
          if (deviceIds?.length === 0) throw new InputError(words.noneChosen);
          if (chosen.value.length > mostDevices && deviceIds !== null) throw new InputError(words.tooMany(mostDevices));
          const description = [descriptionStart, home.trim()].filter((part) => part !== '').join(', ');
          const json = { description, scopes: ['read' as const, 'control' as const], deviceIds };
          onMade(await dataOf(session().api.users['api-keys'].$post({ json })));
        }}
      >
        <Choice legend={words.which} labels={words.kinds} chosen={kind} />
        {kind.value === 'some' && (
          <DevicePicker legend={words.chosen(chosen.value.length, mostDevices)} chosen={chosen} />
        )}
        <Field label={words.home} hint={words.homeHint} name="home" maxLength={150} />
      </Form>
    </section>
  );
}

async function readHomes(): Promise<readonly Key[]> {
  const homes: Key[] = [];
  for (let page = 1, read = 0, total = 1; read < total; page += 1) {
    const query = { page: String(page), size: '100' };
    const keys = await dataOf(session().api.users['api-keys'].$get({ query }));
    homes.push(...keys.list.filter(({ description }) => description.startsWith(descriptionStart)));
    read = page * 100;
    total = keys.total;
  }
  return homes;
}
