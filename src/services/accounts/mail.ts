// Sends mails through whatever the deployment has. A sender is one function here and one choice in `openMailSender`; there is
// one so far, for services that take a mail as JSON over HTTPS.
import type { Config } from '../../config.ts';

type Mail = { to: string; subject: string; text: string };
type MailSender = (mail: Mail) => Promise<void>;

const answerWithinMs = 10_000;

/** undefined where the deployment sends no mails. */
export function openMailSender({ mail }: Pick<Config, 'mail'>): MailSender | undefined {
  return mail && ((message) => sendOverHttp(mail, message));
}

async function sendOverHttp({ url, from, secret }: NonNullable<Config['mail']>, mail: Mail): Promise<void> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { Authorization: `Bearer ${secret}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ from, ...mail }),
    signal: AbortSignal.timeout(answerWithinMs),
    redirect: 'manual',
  });
  await response.body?.cancel();
  if (!response.ok) throw new Error(`the mail service answered ${response.status}`);
}
