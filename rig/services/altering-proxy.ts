// An HTTP proxy that hands each answer of the service to a test, which may alter it. For faults that the service refuses to have.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { LoopbackServer } from '../loopback-server.ts';

export type Answer = { status: number; headers: Record<string, string>; body: Buffer };
export type Alter = (answer: Answer, path: string) => Answer;

export class AlteringProxy extends LoopbackServer {
  private constructor(serviceUrl: string, alter: Alter) {
    super(createServer((request, response) => void forward(serviceUrl, alter, request, response)));
  }

  static start(serviceUrl: string, alter: Alter): Promise<AlteringProxy> {
    return new AlteringProxy(serviceUrl, alter).listen();
  }
}

async function forward(
  serviceUrl: string,
  alter: Alter,
  { url = '', headers }: IncomingMessage,
  response: ServerResponse,
) {
  const { range } = headers;
  const answer = await fetch(`${serviceUrl}${url}`, range === undefined ? {} : { headers: { range } });
  const {
    status,
    headers: altered,
    body,
  } = alter(
    {
      status: answer.status,
      headers: Object.fromEntries(answer.headers),
      body: Buffer.from(await answer.arrayBuffer()),
    },
    url,
  );
  response.writeHead(status, altered);
  // An answer that is shorter than it says breaks off.
  const isShort = body.length < Number(altered['content-length'] ?? 0);
  response.write(body, () => (isShort ? response.destroy() : response.end()));
}
