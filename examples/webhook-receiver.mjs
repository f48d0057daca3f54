// A receiver of webhooks: node examples/webhook-receiver.mjs, with the webhook's secret in WEBHOOK_SECRET. Before there is one, it
// answers the challenge that makes a webhook. Needs `npm install standardwebhooks`.
import { createServer } from 'node:http';
import { Webhook } from 'standardwebhooks';

const { WEBHOOK_SECRET: secret, PORT: port = '8090' } = process.env;

createServer(async (request, response) => {
  let body = '';
  for await (const chunk of request) body += chunk;
  try {
    const event = secret ? new Webhook(secret).verify(body, request.headers) : JSON.parse(body);
    // The same event may come again, under the same id.
    console.log(request.headers['webhook-id'], event.type, event.data);
    const { challenge } = event.data;
    response.end(event.type === 'endpoint.challenge' ? JSON.stringify({ challenge }) : '');
  } catch (error) {
    console.error(String(error));
    response.writeHead(400).end();
  }
}).listen(Number(port), () => console.log(`http://127.0.0.1:${port}/`));
