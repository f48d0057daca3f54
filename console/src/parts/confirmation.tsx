// Asks for the password before something that a stolen session must not do.
import { dataOf } from '@latchwork/client';
import { session } from '../state/session.ts';
import { accountTexts } from '../texts/account.ts';
import { Dialog } from './dialog.tsx';
import { Field, Form } from './form.tsx';

const words = accountTexts.confirmation;

export function Confirmation({ answer }: { answer: (isConfirmed: boolean) => void }) {
  return (
    <Dialog title={words.title} onClose={() => answer(false)}>
      <p class="hint">{words.hint}</p>
      <Form
        submit={words.submit}
        explain={{ invalid_password: accountTexts.settings.wrongPassword }}
        onSubmit={async ({ password = '' }) => {
          await dataOf(session().api.users.me.confirmations.$post({ json: { password } }));
          answer(true);
        }}
      >
        <Field label={words.password} name="password" type="password" required autoComplete="current-password" />
      </Form>
    </Dialog>
  );
}
