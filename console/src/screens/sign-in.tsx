// Sign in, or make an account and sign in.
import { useSignal } from '@preact/signals';
import { Field, Form } from '../parts/form.tsx';
import { Title } from '../parts/title.tsx';
import { decode } from '../router.ts';
import { isLoopback } from '../state/claim.ts';
import { leftBecause, register, signIn } from '../state/session.ts';
import { texts } from '../texts.ts';

const filledIn = takeFilledIn();

export function SignIn() {
  const isNew = useSignal(false);
  const words = texts.signIn;
  return (
    <main id="content" class="welcome">
      <Title>
        <img src="icon.svg" alt="" width="32" height="32" /> {texts.product}
      </Title>
      <p class="tagline">{words.tagline}</p>
      {leftBecause.value !== null && <p class="notice">{words[leftBecause.value]}</p>}
      <section class="card">
        <h2>{isNew.value ? words.registerTitle : words.title}</h2>
        {isNew.value ? (
          <Form
            key="register"
            submit={words.registerSubmit}
            onSubmit={({ email = '', password = '' }) => register(email, password)}
          >
            <Field label={words.email} name="email" type="email" required autoComplete="username" />
            <Field
              label={words.password}
              hint={words.passwordHint}
              name="password"
              type="password"
              required
              autoComplete="new-password"
            />
          </Form>
        ) : (
          <Form
            key="sign-in"
            submit={words.submit}
            isFilledIn={filledIn.password !== ''}
            onSubmit={({ username = '', password = '' }) => signIn(username, password)}
          >
            <Field label={words.username} name="username" value={filledIn.username} required autoComplete="username" />
            <Field
              label={words.password}
              name="password"
              type="password"
              value={filledIn.password}
              required
              autoComplete="current-password"
            />
          </Form>
        )}
        <button type="button" class="link" onClick={() => (isNew.value = !isNew.value)}>
          {isNew.value ? words.toSignIn : words.toRegister}
        </button>
      </section>
    </main>
  );
}

/**
 * Of an address that `npm start` prints, `#/sign-in/USERNAME/PASSWORD`; it is sent nowhere, and gone from the address at once.
 * On loopback alone: elsewhere a link of a stranger would sign its reader in to the stranger's account.
 */
function takeFilledIn(): { username: string; password: string } {
  const [, username, password] = /^#\/sign-in\/([^/]+)\/([^/]+)$/.exec(location.hash) ?? [];
  if (username === undefined || password === undefined) return { username: '', password: '' };
  history.replaceState(null, '', '#/');
  if (!isLoopback(location.href)) return { username: '', password: '' };
  return { username: decode(username), password: decode(password) };
}
