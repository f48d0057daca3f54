// A mail service for the service under attack. `GET /{e-mail}` answers the first mail to that address, once it has come.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** @returns its address; it ends with the process */
export async function startMailbox(): Promise<string> {
  const mails = new Map<string, PromiseWithResolvers<string>>();
  const mailTo = (email: string) => {
    const mail = mails.get(email) ?? Promise.withResolvers<string>();
    mails.set(email, mail);
    return mail;
  };
  const server = createServer((request, response) => {
    void (async () => {
      if (request.method === 'GET') return response.end(await mailTo(request.url?.slice(1) ?? '').promise);
      const { to, text } = JSON.parse(Buffer.concat(await request.toArray()).toString()) as {
        to: string;
        text: string;
      };
      mailTo(to).resolve(text);
      return response.end();
    })();
  }).unref();
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
