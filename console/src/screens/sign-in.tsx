// Sign in, or make an account and sign in.
import { useSignal } from '@preact/signals';
import { Field, Form } from '../parts/form.tsx';
import { hasEnded, register, signIn } from '../state/session.ts';
import { texts } from '../texts.ts';

export function SignIn() {
  const isNew = useSignal(false);
  const words = texts.signIn;
  return (
    <main id="content" class="welcome">
      <h1>
        <img src="icon.svg" alt="" width="32" height="32" /> {texts.product}
      </h1>
      <p class="tagline">{words.tagline}</p>
      {hasEnded.value && <p class="notice">{words.ended}</p>}
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
            onSubmit={({ username = '', password = '' }) => signIn(username, password)}
          >
            <Field label={words.username} name="username" required autoComplete="username" />
            <Field label={words.password} name="password" type="password" required autoComplete="current-password" />
          </Form>
        )}
        <button type="button" class="link" onClick={() => (isNew.value = !isNew.value)}>
          {isNew.value ? words.toSignIn : words.toRegister}
        </button>
      </section>
    </main>
  );
}
