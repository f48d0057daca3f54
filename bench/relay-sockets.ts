// An application's side of the relay: signed-in WebSockets that follow the devices of one user. It reads nothing of
// what is pushed beyond handing it on.
import { once } from 'node:events';
import { WebSocket, type RawData } from 'ws';

/** Not the 200 that a socket may have: an application would open a second one before that. */
const topicsPerSocket = 100;

export type Relay = { socketCount: number; stop: () => Promise<void> };

/** Resolves when every subscription stands. `onText` is given each pushed frame. */
export async function followTopics(
  workerUrl: string,
  token: string,
  topics: readonly string[],
  onText: (text: string) => void,
): Promise<Relay> {
  const sockets: WebSocket[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(
      sockets.map(async (socket) => {
        socket.close(1000);
        if (socket.readyState !== WebSocket.CLOSED) await once(socket, 'close');
      }),
    );
  };
  for (let at = 0; at < topics.length; at += topicsPerSocket) {
    sockets.push(await open(workerUrl, token, topics.slice(at, at + topicsPerSocket), onText));
  }
  return { socketCount: sockets.length, stop };
}

async function open(
  workerUrl: string,
  token: string,
  topics: readonly string[],
  onText: (text: string) => void,
): Promise<WebSocket> {
  const socket = new WebSocket(`${workerUrl.replace(/^http/, 'ws')}/mqtt`, { perMessageDeflate: false });
  socket.on('upgrade', (response) => response.socket.setNoDelay(true));
  await once(socket, 'open');
  socket.send(JSON.stringify({ action: 'auth', token }));
  for (const topic of topics) socket.send(JSON.stringify({ action: 'subscribe', topic }));
  let unanswered = topics.length + 1;
  await new Promise<void>((resolve, reject) => {
    socket.on('close', (code) => reject(new Error(`the relay closed a socket: ${code}`)));
    socket.on('message', (data: RawData) => {
      const text = (data as Buffer).toString();
      if (!text.startsWith('{"action"')) onText(text);
      else if (!text.includes('"code":200')) reject(new Error(`the relay refuses: ${text}`));
      else {
        unanswered -= 1;
        if (unanswered === 0) resolve();
      }
    });
  });
  return socket;
}
