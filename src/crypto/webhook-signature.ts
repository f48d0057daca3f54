// Secrets and signatures of Standard Webhooks 1.0: HMAC-SHA-256 over id, time and body. Knows no endpoint and sends nothing.
import { decodeBase64, encodeBase64 } from 'hono/utils/encode';

const prefix = 'whsec_';
/** Standard Webhooks asks for 24 to 64. */
const secretBytes = 32;

type SignedMessage = { id: string; timestamp: number; body: string };

export function createWebhookSecret(): string {
  return prefix + encodeBase64(crypto.getRandomValues(new Uint8Array(secretBytes)).buffer);
}

/** The bytes that a signature covers, as text. */
export function signedContent({ id, timestamp, body }: SignedMessage): string {
  return `${id}.${timestamp}.${body}`;
}

/** The header `webhook-signature`: one signature a secret, so that receivers of either secret can verify it. */
export async function signWebhook(secrets: readonly string[], message: SignedMessage): Promise<string> {
  const content = new TextEncoder().encode(signedContent(message));
  const signatures = secrets.map(async (secret) => {
    const bytes = decodeBase64(secret.slice(prefix.length));
    const key = await crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
    return `v1,${encodeBase64(await crypto.subtle.sign('HMAC', key, content))}`;
  });
  return (await Promise.all(signatures)).join(' ');
}
