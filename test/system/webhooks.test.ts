// The built Worker and receivers on real sockets: consent, what the reference package verifies, and receivers that redirect, hang,
// reset or send without end. A Worker that is killed between sending and noting sends again.
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually } from '../../rig/changes.ts';
import { dataOf } from '../../rig/clients/api.ts';
import { WebhookReceiver, type Answer } from '../../rig/services/webhook-receiver.ts';
import { WorkerRig } from '../../rig/worker/worker-rig.ts';

let rig: WorkerRig;
let receiver: WebhookReceiver;
beforeAll(async () => {
  [rig, receiver] = await Promise.all([WorkerRig.start(), WebhookReceiver.start()]);
});
afterAll(async () => {
  await Promise.all([rig.stop(), receiver.stop()]);
});

const webhooks = () => rig.owner.api.webhooks;
const make = () => dataOf(webhooks().$post({ json: { url: `${receiver.url}/hook`, types: ['device.online'] } }));

test('what a webhook sends is what the reference package verifies', async () => {
  const { webhookId, secret } = await make();
  const tested = await dataOf(webhooks()[':webhookId'].test.$post({ param: { webhookId } }));
  const { body, headers } = receiver.received.at(-1)!;
  expect(new Webhook(secret).verify(body, headers)).toMatchObject({ type: 'endpoint.test', data: { webhookId } });
  expect(tested).toMatchObject({ status: 200, problem: null, messageId: headers['webhook-id'] });
  expect(tested.signed).toBe(`${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`);
});

const tenMebibytes = Buffer.alloc(10 * 1024 * 1024, 'x');

test.each<[string, Answer, { status: number | null; problem: string | null }]>([
  [
    'redirects',
    (response) => response.writeHead(301, { Location: `${receiver.url}/other` }).end(),
    { status: 301, problem: null },
  ],
  ['is gone', (response) => response.writeHead(410).end(), { status: 410, problem: null }],
  ['resets', (_, request) => request.socket.resetAndDestroy(), { status: null, problem: 'unreachable' }],
  ['hangs', () => undefined, { status: null, problem: 'timeout' }],
  ['sends 10 MiB', (response) => response.end(tenMebibytes), { status: 200, problem: null }],
  ['sends without end', (response) => void response.writeHead(200).write('x'), { status: 200, problem: null }],
])('a receiver that %s gets one request, and its user an answer in time', async (_, answer, expected) => {
  const { webhookId } = await make();
  receiver.answer = answer;
  const before = receiver.requests;
  const tested = await dataOf(webhooks()[':webhookId'].test.$post({ param: { webhookId } }));
  expect(tested).toMatchObject(expected);
  expect(receiver.requests).toBe(before + 1);
});

test('events arrive in order and under the same ids, also if the Worker is killed before it notes them', async () => {
  const { webhookId, secret } = await dataOf(
    webhooks().$post({ json: { url: `${receiver.url}/hook`, types: ['device.reported'] } }),
  );
  const device = await rig.activate('SN-webhook');
  const report = (seq: number) => {
    const payload = JSON.stringify({
      method: 'thing.event.property.post',
      id: String(seq),
      params: { position: seq % 2 ? 'up' : 'down' },
    });
    return rig.sendBatch([{ topic: device.topics.propertyPost, payload }]);
  };
  const arrived = () => receiver.received.filter(({ body }) => body.includes('device.reported'));
  const untilArrived = (count: number) =>
    eventually(
      () => `${count} events, not ${arrived().length}`,
      () => Promise.resolve(arrived().length >= count),
    );
  receiver.answer = (response) => response.end();
  await report(1);
  await untilArrived(1);
  // It has the event, and the Worker will not learn so.
  receiver.answer = () => undefined;
  await report(2);
  await untilArrived(2);
  await rig.restartWorker('kill', () => {
    receiver.answer = (response) => response.end();
  });
  await report(3);
  const idsOf = () => [...new Set(arrived().map(({ headers }) => headers['webhook-id']))];
  await eventually('the third event', () => Promise.resolve(idsOf().length === 3));
  for (const { body, headers } of arrived()) {
    const data = { deviceId: device.deviceId };
    expect(new Webhook(secret).verify(body, headers)).toMatchObject({ type: 'device.reported', data });
  }
  // The first may come again, too: the Worker may have ended before the device noted it.
  const [, second, third] = idsOf();
  expect(arrived().filter(({ headers }) => headers['webhook-id'] === second)).toHaveLength(2);
  expect(idsOf()).toEqual(idsOf().toSorted());
  const newest = async () => {
    const { list } = await dataOf(webhooks()[':webhookId'].deliveries.$get({ param: { webhookId }, query: {} }));
    return list[0];
  };
  await eventually('the last delivery', async () => (await newest())?.messageId === third);
  expect(await newest()).toMatchObject({ status: 200 });
});
