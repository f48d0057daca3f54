// Mails to users, sent over HTTP after the answer, and the tokens in them. Retries nothing.
import type { ServiceContext } from '../../context.ts';
import { certifySecret, createSecret, digestOf, openCertified } from '../../crypto/secrets.ts';
import { insertMailedToken } from '../../db/accounts/users.ts';
import type { Config } from '../../config.ts';
import { hourMs, toIso } from '../../domain/time.ts';

/** Of each purpose, of one account: a stranger must not fill a mailbox. */
const tokensPerHour = 3;
const answerWithinMs = 10_000;

type Mail = { subject: string; text: string };
type TokenPrefix = 'pr_' | 'pm_' | 'ev_';
/** A secret and a code over it. */
const tokenPattern = /^[a-z]{2}_[A-Za-z0-9]{69}$/;
const tokenUse = ['latchwork mailed token'];

/** undefined for a disabled account, and for an account that had too many within the hour. */
export async function issueToken(
  { config, primary }: ServiceContext,
  userId: number,
  kind: {
    purpose: Parameters<typeof insertMailedToken>[1];
    prefix: TokenPrefix;
    lifeMs: number;
    /** A page with `{token}` in its address. */
    url: string | undefined;
  },
): Promise<{ token: string; link: string | null; expiresAt: string } | undefined> {
  const nowMs = Date.now();
  const secret = createSecret(kind.prefix, 43);
  const token = await certifySecret(config.messagingSecrets, tokenUse, secret);
  const expiresAt = nowMs + kind.lifeMs;
  const row = { hash: await digestOf(secret), userId, createdAt: nowMs, expiresAt };
  const bound = { max: tokensPerHour, sinceMs: nowMs - hourMs };
  if (!(await insertMailedToken(primary(), kind.purpose, row, bound))) return undefined;
  return { token, link: kind.url?.replaceAll('{token}', token) ?? null, expiresAt: toIso(expiresAt) };
}

/** The secret in a token of one of these kinds; undefined for an invented one. Reads no row. */
export async function openToken({ messagingSecrets }: Config, prefixes: readonly TokenPrefix[], token: string) {
  if (!tokenPattern.test(token) || !prefixes.some((prefix) => token.startsWith(prefix))) return undefined;
  return openCertified(messagingSecrets, tokenUse, token);
}

/** Sends to any address. To one that is not proven only what its user asks for: a stranger's account may name it. */
export async function deliver(service: NonNullable<Config['mail']>, to: string, mail: Mail): Promise<void> {
  const response = await fetch(service.url, {
    method: 'POST',
    headers: { Authorization: `Bearer ${service.secret}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ from: service.from, to, ...mail }),
    signal: AbortSignal.timeout(answerWithinMs),
    redirect: 'manual',
  });
  await response.body?.cancel();
  if (!response.ok) throw new Error(`the mail service answered ${response.status}`);
}
