// mqtt.js over WebSocket with a packet a frame, as firmware sends them. By itself the library sends each field of a packet
// as a frame of its own, which costs both ends more than the packet. Must not change what is sent.
import type { Duplex } from 'node:stream';
import { MqttClient, type IClientOptions } from 'mqtt';
import { createWebSocketStream, WebSocket } from 'ws';

/** @throws Error if the service refuses the login */
export async function connectFramed(url: string, options: IClientOptions): Promise<MqttClient> {
  const client = new MqttClient(() => dial(url), options);
  const { promise, resolve, reject } = Promise.withResolvers<undefined>();
  client.once('connect', () => resolve(undefined));
  client.once('close', () => reject(new Error(`${url} refuses ${options.clientId ?? ''}`)));
  await promise;
  return client;
}

function dial(url: string): Duplex {
  const socket = new WebSocket(url, 'mqtt', { perMessageDeflate: false });
  const stream = createWebSocketStream(socket);
  socket.once('close', () => stream.destroy());
  // The library corks the stream for each packet.
  stream._writev = (chunks, done) => {
    const frame = Buffer.concat(chunks.map(({ chunk }) => chunk as Buffer));
    if (socket.readyState === WebSocket.CONNECTING) socket.once('open', () => socket.send(frame, done));
    else socket.send(frame, done);
  };
  return stream;
}
