// Who is signed in, in this tab and in the others of the browser: the tokens are in local storage, and every tab follows
// them. The only place that stores tokens.
import { createClient, dataOf, Session, type Relay, type SessionOptions, type Tokens } from '@latchwork/client';
import { computed, signal } from '@preact/signals';

const baseUrl = location.origin;
const tokensKey = 'latchwork.tokens';
/** Differs with each login, and stays while its tokens are renewed. */
const loginKey = 'latchwork.login';
const renewalLock = 'latchwork.renewal';
const deviceTokenKey = 'latchwork.deviceToken';
/** The entry of this browser among the user's push subscriptions. */
export const pushEntryKey = 'latchwork.push';

const current = signal<Session | null>(null);
let currentLogin: string | null = null;

/** Why nobody is signed in, unless the person signed out; a word of the texts. Null again with the next login. */
export const leftBecause = signal<'ended' | 'deleted' | 'releasing' | null>(null);
export const isSignedIn = computed(() => current.value !== null);

/** Of a screen that is shown to signed-in users only. */
export function session(): Session {
  if (current.value === null) throw new Error('nobody is signed in');
  return current.value;
}

export function openRelay(options: Parameters<Session['openRelay']>[0]): Relay {
  return session().openRelay(options);
}

/** @throws ApiError, NoAnswerError */
export async function signIn(username: string, password: string): Promise<void> {
  const deviceToken = localStorage.getItem(deviceTokenKey);
  const login = { username, password, ...(deviceToken !== null && { deviceToken }) };
  const opened = await Session.logIn(baseUrl, login, options);
  if (opened.deviceToken !== undefined) localStorage.setItem(deviceTokenKey, opened.deviceToken);
  leftBecause.value = null;
  currentLogin = crypto.getRandomValues(new Uint32Array(2)).join('-');
  localStorage.setItem(loginKey, currentLogin);
  current.value = opened;
}

/** Makes the account and signs in. @throws ApiError, NoAnswerError */
export async function register(email: string, password: string): Promise<void> {
  await dataOf(createClient(baseUrl).users.register.$post({ json: { email, password } }));
  await signIn(email, password);
}

/** Ends the session at the service, too. @throws NoAnswerError; the tab is signed out in any case */
export async function signOut(): Promise<void> {
  const leaving = session();
  forget();
  await Promise.all([leaving.logOut(), endPush()]);
}

/** Ends all sessions of the user, this one last. @throws ApiError, NoAnswerError; then nothing has changed here */
export async function signOutEverywhere(): Promise<void> {
  await dataOf(session().api.users.me.sessions.$delete({ query: {} }));
  forget();
  await endPush();
}

/** Deletes the user for good, and signs out. @throws ApiError, NoAnswerError; then nothing has changed here */
export async function deleteAccount(password: string): Promise<void> {
  const { isComplete } = await dataOf(session().api.users.me.$delete({ json: { password } }));
  leftBecause.value = isComplete ? 'deleted' : 'releasing';
  localStorage.removeItem(deviceTokenKey);
  forget();
  await endPush();
}

/** Notices of this user are not shown to the next one. The service drops its entry when the push service says that it is gone. */
export async function endPush(): Promise<void> {
  localStorage.removeItem(pushEntryKey);
  const registration = 'serviceWorker' in navigator ? await navigator.serviceWorker.getRegistration() : undefined;
  await (await registration?.pushManager.getSubscription())?.unsubscribe();
  await registration?.unregister();
}

const options: SessionOptions = {
  onTokens: (tokens) => localStorage.setItem(tokensKey, JSON.stringify(tokens)),
  // One tab renews at a time, and the others take what it got. Where a tab does not see yet what another one has stored, and
  // on pages that are not secure, where browsers have no locks, a refresh token is used twice: within seconds the service
  // answers both with the same successor.
  exclusively: (renew) => {
    const renewNow = () => renew(readTokens());
    return 'locks' in navigator ? navigator.locks.request(renewalLock, renewNow) : renewNow();
  },
  onEnded: () => {
    // A deleted account ends its sessions, too.
    leftBecause.value ??= 'ended';
    forget();
  },
};

function forget(): void {
  localStorage.removeItem(tokensKey);
  localStorage.removeItem(loginKey);
  currentLogin = null;
  current.value = null;
}

function resume(): void {
  const tokens = readTokens();
  const login = localStorage.getItem(loginKey);
  // Another tab has renewed the tokens of this session, which takes them when it needs them.
  if (tokens !== null && current.value !== null && login === currentLogin) return;
  currentLogin = login;
  current.value = tokens === null ? null : Session.resume(baseUrl, tokens, options);
  if (tokens !== null) leftBecause.value = null;
}

function readTokens(): Tokens | null {
  const text = localStorage.getItem(tokensKey);
  return text === null ? null : (JSON.parse(text) as Tokens);
}

addEventListener('storage', ({ key }) => {
  if (key === tokensKey || key === loginKey || key === null) resume();
});
resume();
