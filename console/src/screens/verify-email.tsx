// The page of the link in a mail: it proves the email of an account, no matter who is signed in here.
import { createClient, dataOf } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { Action } from '../parts/form.tsx';
import { Title } from '../parts/title.tsx';
import { hrefOf } from '../router.ts';
import { accountTexts } from '../texts/account.ts';

const words = accountTexts.verification;

export function VerifyEmail({ token }: { token: string }) {
  const isDone = useSignal(false);
  return (
    <main id="content" class="narrow">
      <Title>{words.title}</Title>
      <section class="card" aria-label={words.title}>
        {isDone.value ? (
          <p role="status">
            {words.done} <a href={hrefOf({ screen: 'devices' })}>{words.goOn}</a>
          </p>
        ) : (
          <>
            <p class="hint">{words.hint}</p>
            <Action
              label={words.confirm}
              kind="primary"
              onPress={async () => {
                await dataOf(createClient(location.origin).users['email-verification'].$post({ json: { token } }));
                isDone.value = true;
              }}
            />
          </>
        )}
      </section>
    </main>
  );
}
