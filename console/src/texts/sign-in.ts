// Texts about signing in.
export const signInTexts = {
  signIn: {
    tagline: 'Connected switches, and what they really do.',
    title: 'Sign in',
    registerTitle: 'Create an account',
    username: 'Email or user name',
    email: 'Email',
    password: 'Password',
    passwordHint: 'At least 8 characters.',
    submit: 'Sign in',
    registerSubmit: 'Create account',
    toRegister: 'No account yet? Create one',
    toSignIn: 'Have an account? Sign in',
    ended:
      'Your session has ended: it was signed out elsewhere, the password was changed, or it was not used for long. Sign in again.',
    deleted: 'Your account is deleted, and your devices are released.',
    releasing: 'Your account is deleted. Some of your devices are still being released: that takes minutes.',
  },
};
