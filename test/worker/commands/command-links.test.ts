// Command links: which publishes take them, and what happens to a command where no bridge serves its link.
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { topicOf } from '../../../src/domain/topics.ts';
import { commandLinkOf } from '../../../src/objects/calls/stubs.ts';
import { commandLinkParameter, linkPath, linkPing, linkPong } from '../../../src/protocol/bridge.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import { send } from '../rig/clients/client.ts';
import { activate, connect, control, signUpOwner, up, type Device } from '../rig/commands.ts';
import { bridgeSecret, closeBridges, dialIn, nextPublish, type PublishFrame } from '../rig/clients/link.ts';
import type { TestSocket } from '../rig/clients/socket.ts';

afterEach(closeBridges);

beforeAll(signUpOwner);

function acknowledge(socket: TestSocket, { id }: PublishFrame): void {
  socket.send({ type: 'published', id, hasSubscribers: true });
}

/** Of a device that was offline: the service announces that it is online. */
async function announce(main: TestSocket, device: Device): Promise<void> {
  await connect(device);
  const announcement = await nextPublish(main);
  expect(announcement.topic).toBe(topicOf(device, 'status'));
  acknowledge(main, announcement);
}

describe('a command', () => {
  it('takes its link, and an announcement does not', async () => {
    const { bridge: main } = await dialIn('one');
    const { bridge: commandLink } = await dialIn('one', true, 'one-run-1', 0);
    const device = await activate();
    await announce(main, device);
    const answer = control(device, up);
    const command = await nextPublish(commandLink);
    expect(command.topic).toBe(topicOf(device, topicActions.propertySet));
    acknowledge(commandLink, command);
    expect(await answer).toMatchObject({ data: { message: 'command_sent' } });
    expect(await main.ask(linkPing)).toBe(linkPong);
  });

  it.each([
    ['no bridge serves its link', undefined],
    ['the bridge of its link has no broker', false],
    ['the bridge of its link has gone', true],
  ])('goes over the other link where %s', async (_, brokerConnected) => {
    const { bridge: main } = await dialIn('one');
    if (brokerConnected !== undefined) {
      const { bridge: commandLink } = await dialIn('one', brokerConnected, 'one-run-1', 0);
      if (brokerConnected) {
        commandLink.close();
        await commandLink.end();
      }
    }
    const device = await activate();
    await announce(main, device);
    const answer = control(device, up);
    acknowledge(main, await nextPublish(main));
    expect(await answer).toMatchObject({ data: { message: 'command_sent' } });
  });
});

it('stays on one link for one device, and uses all of them', () => {
  const names = Array.from({ length: 200 }, (_, n) => commandLinkOf(`dev_${n}`, 4));
  expect(new Set(names).size).toBe(4);
  expect(names).toEqual(Array.from({ length: 200 }, (_, n) => commandLinkOf(`dev_${n}`, 4)));
  expect(commandLinkOf('dev_1', 0)).toBeUndefined();
});

it.each(['1', '-1', 'x', '', '1e1', '99'])('number %j that is not there is refused with 400', async (commandLink) => {
  const headers = { Upgrade: 'websocket', Authorization: `Bearer ${bridgeSecret}` };
  const response = await send('GET', `${linkPath}?${commandLinkParameter}=${encodeURIComponent(commandLink)}`, {
    headers,
  });
  expect(response.status).toBe(400);
  expect(response.webSocket).toBeNull();
});
